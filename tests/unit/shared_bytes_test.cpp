// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Messages between processes: their content, places and sizes, messages held in place, and errors. Whole histories are
// in tests/stress/shared_bytes_history_test.cpp, deaths in tests/chaos/shared_bytes_death_test.cpp.
#include <gtest/gtest.h>
#include <muster/queue/shared_bytes.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// Allocations of this size fail; 0: none does.
static thread_local std::size_t refused_size = 0;

// The sanitizers replace them themselves.
#if !defined(MUSTER_SANITIZED)
// Not inline: the compiler would see malloc meet delete, and free meet new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (size != 0 && size == refused_size) throw std::bad_alloc();
  if (void* const there = std::malloc(size == 0 ? 1 : size); there != nullptr) return there;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* there) noexcept { std::free(there); }
[[gnu::noinline]] void operator delete(void* there, std::size_t) noexcept { std::free(there); }
#endif

namespace {

using namespace std::chrono_literals;
using muster::queue_status;
using muster::shared_bytes;
using muster::detail::byte_arena;
using muster::detail::item_use;
namespace shape = muster::shape;

using bytes = std::vector<std::byte>;

/// All messages that recover() gives.
template <class Queue>
std::vector<bytes> recovered(Queue& q) {
  std::vector<bytes> all;
  q.recover([&](std::span<const std::byte> message) { all.emplace_back(message.begin(), message.end()); });
  return all;
}

/// A message that shows which one it is, and if a part of another has come into it.
bytes letter(std::uint64_t number, std::size_t size) {
  bytes made(size);
  for (std::size_t i = 0; i != size; ++i) made[i] = static_cast<std::byte>((number * 37 + i * 11 + i / 64) & 255);
  return made;
}
std::size_t size_of_letter(std::uint64_t number) { return static_cast<std::size_t>(number * 7919 % 700); }
bytes letter(std::uint64_t number) { return letter(number, size_of_letter(number)); }
template <class Message>
bool is_letter(const Message& got, std::uint64_t number) {
  const bytes wanted = letter(number);
  return std::equal(got.begin(), got.end(), wanted.begin(), wanted.end());
}

template <class Error, class Work>
std::string complaint(Work work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}
#define EXPECT_SAYS(text, what) EXPECT_NE(std::string(text).find(what), std::string::npos) << "it says: " << (text)

/// Runs `work` in another process; whether it said true.
bool elsewhere(const std::function<bool()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(work() ? 0 : 1);
  int ended = 0;
  ::waitpid(pid, &ended, 0);
  return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

// ------------------------------------------------------------------------------------------------------- the arena

/// Blocks of an arena, whose ranks are finished at random.
class arena_game {
 public:
  explicit arena_game(unsigned seed) : random_(seed), arena_(size, 64) {}

  void play(int steps) {
    for (int step = 0; step != steps && !::testing::Test::HasFailure(); ++step) {
      const std::size_t n = one_of(4) == 0 ? one_of(size / 4) : one_of(300);
      if (used_.size() < 64 && one_of(3) != 0) push(n);
      if (one_of(3) == 0) claim();
      if (one_of(2) == 0) finish(one_of(8) == 0);
    }
  }
  /// All that is not held has been finished: what must fit does.
  void check_promise() {
    for (auto& [rank, b] : used_)
      if (b.use == item_use::unclaimed) b.use = item_use::finished;
    std::size_t held = 0, blocks = 0;
    for (const auto& [rank, b] : used_)
      if (b.use == item_use::claimed) held += b.end - b.at, ++blocks;
    const std::size_t fits = (size - held) / (blocks + 1) / byte_arena::unit * byte_arena::unit;
    EXPECT_TRUE(reserve(fits)) << fits << " bytes do not fit beside " << blocks << " blocks of " << held;
  }
  std::size_t passed() const { return passed_; }
  std::size_t full() const { return full_; }

  static constexpr std::size_t size = 64 * 128;

 private:
  struct block {
    std::size_t at, end;
    item_use use;
  };
  bool reserve(std::size_t n) {
    return arena_.reserve(n, [&](muster::rank_t r) { return used_.contains(r) ? used_[r].use : item_use::finished; });
  }
  void push(std::size_t n) {
    if (!reserve(n)) {
      ++full_;
      return;
    }
    const std::size_t at = arena_.reserved(), end = at + std::max<std::size_t>(n, 1);
    ASSERT_LE(end, size);
    ASSERT_EQ(at % byte_arena::unit, 0U);
    for (const auto& [rank, b] : used_)
      if (b.use != item_use::finished) {
        ASSERT_TRUE(end <= b.at || b.end <= at) << "rank " << next_ << " overlaps with " << rank;
        passed_ += b.use == item_use::claimed && rank + 30 < next_;
      }
    // Some are abandoned, some turn out shorter.
    if (one_of(10) == 0) return;
    const std::size_t sent = one_of(5) == 0 ? n / 2 : n;
    arena_.keep(sent, next_);
    used_[next_++] = {at, at + (std::max<std::size_t>(sent, 1) + 63) / 64 * 64, item_use::unclaimed};
  }
  void claim() {
    for (auto& [rank, b] : used_)
      if (b.use == item_use::unclaimed) {
        b.use = item_use::claimed;
        return;
      }
  }
  void finish(bool last) {
    std::vector<muster::rank_t> claimed;
    for (const auto& [rank, b] : used_)
      if (b.use == item_use::claimed) claimed.push_back(rank);
    if (claimed.empty()) return;
    // One is often held for long.
    const std::size_t which = last ? 0 : std::min<std::size_t>(1, claimed.size() - 1);
    used_.erase(claimed[which]);
  }
  std::size_t one_of(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  std::mt19937 random_;
  byte_arena arena_;
  std::map<muster::rank_t, block> used_;
  muster::rank_t next_ = 0;
  std::size_t passed_ = 0, full_ = 0;
};

TEST(byte_arena, never_gives_bytes_twice_and_keeps_its_promise) {
  std::size_t passed = 0, full = 0;
  for (unsigned seed = 0; seed != 60; ++seed) {
    arena_game game(seed);
    game.play(800);
    game.check_promise();
    passed += game.passed();
    full += game.full();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(passed, 1000U);
  EXPECT_GT(full, 1000U);
}

TEST(byte_arena, takes_a_message_of_all_its_bytes_when_it_is_empty) {
  byte_arena arena(1024, 8);
  const auto finished = [](muster::rank_t) { return item_use::finished; };
  for (muster::rank_t rank = 0; rank != 100; ++rank) {
    const std::size_t size = rank % 3 == 0 ? 1024 : rank % 3 == 1 ? 65 : 0;
    ASSERT_TRUE(arena.reserve(size, finished));
    arena.keep(size, rank);
  }
}

TEST(byte_arena, passes_a_block_only_when_a_later_one_is_free) {
  byte_arena arena(256, 8);
  std::map<muster::rank_t, item_use> use;
  const auto ask = [&](muster::rank_t r) { return use[r]; };
  for (muster::rank_t rank = 0; rank != 4; ++rank) {
    ASSERT_TRUE(arena.reserve(64, ask));
    arena.keep(64, rank);
  }
  EXPECT_FALSE(arena.reserve(64, ask));
  use[0] = item_use::claimed;
  EXPECT_FALSE(arena.reserve(64, ask));
  use[0] = item_use::finished;
  ASSERT_TRUE(arena.reserve(64, ask));  // the cursor has not moved away
  EXPECT_EQ(arena.reserved(), 0U);
  use[0] = item_use::claimed;
  arena.keep(64, 4);
  use[1] = item_use::claimed;
  use[2] = item_use::finished;
  ASSERT_TRUE(arena.reserve(64, ask));
  EXPECT_EQ(arena.reserved(), 128U);
}

TEST(byte_arena, passes_a_block_when_there_is_room_at_the_start) {
  byte_arena arena(256, 8);
  std::map<muster::rank_t, item_use> use;
  const auto ask = [&](muster::rank_t r) { return use[r]; };
  const auto keep = [&](std::size_t size, muster::rank_t rank) {
    ASSERT_TRUE(arena.reserve(size, ask));
    arena.keep(size, rank);
  };
  for (muster::rank_t rank : {0U, 1U}) keep(64, rank), use[rank] = item_use::finished;
  keep(128, 2);
  for (muster::rank_t rank : {3U, 4U}) keep(64, rank), use[rank] = item_use::finished;
  use[2] = item_use::claimed;
  EXPECT_FALSE(arena.reserve(192, ask));  // has found that all blocks before the one held are free
  ASSERT_TRUE(arena.reserve(64, ask));
  EXPECT_EQ(arena.reserved(), 0U);
}

// ------------------------------------------------------------------------------------------------------- the queue

template <class Shape>
class shared_bytes_of : public ::testing::Test {
 protected:
  using queue = shared_bytes<Shape>;
  static queue make(std::size_t messages, std::size_t size, muster::rank_t first = (muster::rank_t{1} << 52) - 5) {
    return queue::create_anonymous({messages, size, {.ports = 6, .lanes = 2, .tag = "t", .first_rank = first}});
  }
};
using shapes = ::testing::Types<shape::spsc, shape::spmc, shape::lanes>;
struct names {
  template <class Shape>
  static std::string GetName(int) {
    return Shape::name;
  }
};
TYPED_TEST_SUITE(shared_bytes_of, shapes, names);

TYPED_TEST(shared_bytes_of, one_process_keeps_messages_of_any_length_in_order) {
  auto q = this->make(5, 4096);
  auto in = q.producer();
  auto out = q.consumer();
  EXPECT_EQ(q.capacity(), 5U);
  EXPECT_EQ(q.longest(), 4096U);
  EXPECT_EQ(out.try_pop().status(), queue_status::empty);
  std::uint64_t pushed = 0, popped = 0;
  for (std::uint64_t lap = 0; lap != 300; ++lap) {
    while (in.try_push(letter(pushed)) == queue_status::success) ++pushed;
    ASSERT_GE(pushed - popped, 1U);
    ASSERT_LE(pushed - popped, 5U);
    for (std::uint64_t most = popped + 1 + lap % 5; popped != std::min(most, pushed); ++popped) {
      if (popped % 2 == 0) {
        const auto message = out.try_peek();
        ASSERT_TRUE(message);
        ASSERT_TRUE(is_letter(message->bytes(), popped)) << popped;
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(message->data()) % 64, 0U);
      } else {
        const auto copy = out.try_pop();
        ASSERT_TRUE(copy);
        ASSERT_TRUE(is_letter(*copy, popped)) << popped;
      }
    }
  }
  q.close();
  EXPECT_EQ(in.try_push(letter(1)), queue_status::closed);
  EXPECT_EQ(in.loan(10).status(), queue_status::closed);
  for (; popped != pushed; ++popped) ASSERT_TRUE(is_letter(*out.pop(), popped));
  EXPECT_EQ(out.pop().status(), queue_status::closed);
  EXPECT_EQ(out.peek().status(), queue_status::closed);
  q.check();
}

TYPED_TEST(shared_bytes_of, processes_gets_every_message_once_and_whole) {
  constexpr std::uint64_t count = 3000;
  constexpr unsigned producers = std::is_same_v<TypeParam, shape::lanes> ? 2 : 1;
  constexpr unsigned consumers = TypeParam::one_consumer ? 1 : 2;
  for (const muster::rank_t first : {muster::rank_t{0}, (muster::rank_t{1} << 31) - 3, (muster::rank_t{1} << 52) - 3}) {
    auto q = this->make(16, 8192, first);
    std::vector<std::thread> threads;
    for (unsigned p = 0; p != producers; ++p)
      threads.emplace_back([&, p] {
        EXPECT_TRUE(elsewhere([&] {
          auto mine = TestFixture::queue::attach(q.descriptor(), "t");
          auto in = mine.producer();
          for (std::uint64_t i = p; i < count; i += producers)
            if (i % 3 == 0) {
              auto room = in.loan(size_of_letter(i) + 8);
              const bytes content = letter(i);
              std::copy(content.begin(), content.end(), room->data());  // may be empty
              std::memcpy(room->data() + content.size(), &i, sizeof i);
              if (room->push() != queue_status::success) return false;
            } else {
              bytes content = letter(i);
              content.resize(content.size() + 8);
              std::memcpy(content.data() + content.size() - 8, &i, sizeof i);
              if (in.push(content) != queue_status::success) return false;
            }
          return true;
        }));
      });
    std::vector<std::vector<std::uint64_t>> got(consumers);
    std::vector<std::thread> takers;
    for (unsigned c = 0; c != consumers; ++c)
      takers.emplace_back([&, c] {
        auto out = q.consumer();
        while (const auto message = out.peek()) {
          std::uint64_t number = count;
          ASSERT_GE(message->size(), sizeof number);
          std::memcpy(&number, message->data() + message->size() - 8, sizeof number);
          ASSERT_TRUE(is_letter(message->bytes().first(message->size() - 8), number)) << number;
          got[c].push_back(number);
        }
      });
    for (std::thread& t : threads) t.join();
    q.close();
    for (std::thread& t : takers) t.join();
    std::set<std::uint64_t> all;
    for (const auto& some : got) {
      std::vector<std::uint64_t> last(producers, 0);
      for (const std::uint64_t i : some) {
        EXPECT_TRUE(all.insert(i).second) << i << " came twice";
        EXPECT_GE(i + 1, last[i % producers]) << "out of order";
        last[i % producers] = i + 1;
      }
    }
    EXPECT_EQ(all.size(), count);
    q.check();
  }
}

TYPED_TEST(shared_bytes_of, messages_held_in_place_stay_as_they_are_while_others_pass) {
  auto q = this->make(8, 16384);
  auto in = q.producer();
  auto out = q.consumer();
  for (std::uint64_t i = 0; i != 3; ++i) ASSERT_EQ(in.try_push(letter(i)), queue_status::success);
  auto first = out.try_peek();
  auto second = out.try_peek();
  {
    const auto third = out.try_peek();  // ends before the others
    ASSERT_TRUE(third);
  }
  for (std::uint64_t i = 3; i != 2000; ++i) {
    ASSERT_EQ(in.try_push(letter(i)), queue_status::success) << i;
    const auto message = out.try_pop();
    ASSERT_TRUE(message && is_letter(*message, i));
    if (i == 1000) auto ends = std::move(*second);
  }
  EXPECT_TRUE(is_letter(first->bytes(), 0));
}

// The cell of a message held is needed again a lap later, when the queue is nearly full.
TYPED_TEST(shared_bytes_of, a_loan_can_always_be_sent_at_once) {
  auto q = this->make(2, 4096);
  EXPECT_TRUE(elsewhere([&] {
    ::alarm(20);
    auto in = q.producer();
    auto out = q.consumer();
    const auto push = [&](std::uint64_t number) {
      auto room = in.try_loan(8);
      if (!room) return room.status();
      std::memcpy(room->data(), &number, 8);
      return room->push();
    };
    std::uint64_t next = 0, popped = 0, full = 0;
    if (push(next++) != queue_status::success) return false;
    const auto held = out.try_peek();
    for (popped = 1; next != 100;) {
      const queue_status now = push(next);
      if (now == queue_status::success) ++next;
      else if (now != queue_status::full) return false;
      full += now == queue_status::full && next - popped < 2;
      while (next - popped > (now == queue_status::full ? 0U : 1U)) {
        const auto message = out.try_pop();
        if (!message || std::memcmp(message->data(), &popped, 8) != 0) return false;
        ++popped;
      }
    }
    return full != 0;  // there was one message less than the capacity, and no cell for another
  }));
}

TYPED_TEST(shared_bytes_of, room_is_counted_in_bytes_too) {
  auto q = this->make(100, 1024);
  auto in = q.producer();
  auto out = q.consumer();
  EXPECT_EQ(in.try_push(bytes(1024)), queue_status::success);
  EXPECT_EQ(in.try_push(bytes(0)), queue_status::full);
  EXPECT_EQ(in.push_for(bytes(1), 1ms), queue_status::full);
  EXPECT_EQ(in.loan_for(1, 1ms).status(), queue_status::full);
  EXPECT_EQ(in.try_loan(1).status(), queue_status::full);
  EXPECT_EQ(out.try_pop()->size(), 1024U);
  for (int i = 0; i != 16; ++i) ASSERT_EQ(in.try_push(bytes(64)), queue_status::success);
  EXPECT_EQ(in.try_push(bytes(1)), queue_status::full);
  EXPECT_SAYS(complaint<std::length_error>([&] { in.push(bytes(1025)); }),
              "a message of 1025 bytes; this queue takes at most 1024: create it with more bytes");
  EXPECT_THROW(in.try_loan(1025), std::length_error);
}

TYPED_TEST(shared_bytes_of, sleepers_wake_when_a_message_in_place_ends) {
  using waiting_queue = shared_bytes<TypeParam, muster::wait::park>;
  auto q = waiting_queue::create_anonymous({8, 1024, {.ports = 4, .lanes = 2}});
  auto in = q.producer();
  auto out = q.consumer();
  for (std::uint64_t round = 0; round != 20; ++round) {
    ASSERT_EQ(in.push(letter(round, 700)), queue_status::success);
    auto held = out.peek();
    std::thread producer([&] { EXPECT_EQ(in.push(letter(round, 600)), queue_status::success); });
    if (round % 2 == 0) std::this_thread::sleep_for(2ms);
    EXPECT_EQ(held->size(), 700U);
    {
      auto ends = std::move(*held);
    }
    const auto next = out.pop();
    EXPECT_EQ(next->size(), 600U);
    producer.join();
  }
  ASSERT_EQ(in.push(bytes(1024)), queue_status::success);
  std::thread producer([&] { EXPECT_EQ(in.push(bytes(1)), queue_status::closed); });
  std::this_thread::sleep_for(2ms);
  q.close();
  producer.join();
}

TYPED_TEST(shared_bytes_of, loans_end_unsent_and_may_be_shorter) {
  auto q = this->make(4, 1024);
  auto in = q.producer();
  auto out = q.consumer();
  for (int i = 0; i != 10; ++i) {
    auto unsent = in.try_loan(1024);
    ASSERT_TRUE(unsent);
    EXPECT_SAYS(complaint<std::logic_error>([&] { in.try_push(bytes(1)); }), "this port has a loan");
    EXPECT_THROW(in.try_loan(1), std::logic_error);
  }
  EXPECT_EQ(out.try_peek().status(), queue_status::empty);
  {
    auto room = in.loan(1000);
    EXPECT_SAYS(complaint<std::length_error>([&] { room->push(1001); }), "1001 bytes of a loan of 1000");
    std::memcpy(room->data(), letter(5, 10).data(), 10);
    EXPECT_EQ(room->push(10), queue_status::success);
    EXPECT_SAYS(complaint<std::logic_error>([&] { room->push(); }), "has been pushed");
  }
  ASSERT_EQ(in.try_push(letter(6, 900)), queue_status::success);  // the rest of the loan is room again
  EXPECT_EQ(*out.pop(), letter(5, 10));
  EXPECT_EQ(*out.pop(), letter(6, 900));
}

TYPED_TEST(shared_bytes_of, producers_follow_one_another_without_overwriting_messages) {
  auto q = this->make(16, 8192);
  auto out = q.consumer();
  std::uint64_t pushed = 0, popped = 0;
  std::optional<decltype(out.try_peek())> held;
  for (int lap = 0; lap != 100; ++lap) {
    {
      auto in = q.producer();
      for (int i = 0; i != 4; ++i) ASSERT_EQ(in.try_push(letter(pushed++)), queue_status::success);
    }
    if (lap == 10) {
      held.emplace(out.try_peek());
      ASSERT_TRUE(is_letter((*held)->bytes(), popped++));
    }
    // Some are always left to the next producer.
    for (; pushed - popped > 5; ++popped) {
      const auto message = out.try_pop();
      ASSERT_TRUE(message && is_letter(*message, popped)) << popped;
    }
  }
  EXPECT_TRUE(is_letter((*held)->bytes(), 35));
}

TYPED_TEST(shared_bytes_of, a_message_without_memory_for_its_copy_remains_the_first) {
#if defined(MUSTER_SANITIZED)
  GTEST_SKIP() << "the sanitizer has its own allocator";
#endif
  constexpr std::size_t size = 5003;
  auto q = this->make(4, 8192);
  auto in = q.producer();
  {
    auto out = q.consumer();
    for (std::uint64_t round = 0; round != 3; ++round) {
      ASSERT_EQ(in.try_push(letter(round, size)), queue_status::success);
      ASSERT_EQ(in.try_push(letter(round, 10)), queue_status::success);
      refused_size = size;
      EXPECT_THROW(out.try_pop(), std::bad_alloc);
      EXPECT_THROW(out.pop(), std::bad_alloc);
      refused_size = 0;
      if (round == 0) {
        EXPECT_EQ(*out.try_pop(), letter(round, size));
      } else if (round == 1) {
        const auto message = out.try_peek();
        const bytes wanted = letter(round, size);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), message->bytes().begin(), message->bytes().end()));
      } else {
        break;  // the port ends
      }
      EXPECT_EQ(*out.try_pop(), letter(round, 10));
    }
  }
  EXPECT_EQ(recovered(q), std::vector<bytes>{letter(2, size)});
  EXPECT_EQ(*q.consumer().try_pop(), letter(2, 10));
  EXPECT_EQ(in.try_push(bytes(8192)), queue_status::success);  // all bytes are free
}

TYPED_TEST(shared_bytes_of, a_message_that_is_given_back_is_the_next_of_its_port) {
  auto q = this->make(4, 1024);
  auto in = q.producer();
  for (std::uint64_t i = 0; i != 3; ++i) ASSERT_EQ(in.try_push(letter(i)), queue_status::success);
  {
    auto out = q.consumer();
    auto first = out.try_peek(), second = out.try_peek();
    second->give_back();
    EXPECT_THROW(first->give_back(), std::logic_error);
    EXPECT_THROW(second->give_back(), std::logic_error);
    EXPECT_TRUE(is_letter(first->bytes(), 0));
    EXPECT_EQ(*out.try_pop(), letter(1));
    out.peek()->give_back();
    auto third = out.peek_for(1s);
    EXPECT_TRUE(is_letter(third->bytes(), 2));
    third->give_back();
    EXPECT_TRUE(recovered(q).empty());  // the port may still pop it
  }
  EXPECT_EQ(q.info().participants.size(), 2U);
  EXPECT_EQ(recovered(q), std::vector<bytes>{letter(2)});
  EXPECT_EQ(q.info().participants.size(), 1U);
  EXPECT_EQ(q.consumer().try_pop().status(), queue_status::empty);
  EXPECT_EQ(in.try_push(bytes(1024)), queue_status::success);
}

TYPED_TEST(shared_bytes_of, the_next_consumer_may_get_what_was_given_back) {
  auto q = this->make(4, 256);
  auto in = q.producer();
  ASSERT_EQ(in.try_push(letter(0)), queue_status::success);
  q.consumer().try_peek()->give_back();
  auto out = q.consumer();
  const auto message = out.try_pop();
  if (message) EXPECT_EQ(*message, letter(0));  // a later spsc consumer inherits it
  else EXPECT_EQ(recovered(q), std::vector<bytes>{letter(0)});
}

TYPED_TEST(shared_bytes_of, waits_end_by_time_and_stop_requests) {
  auto q = this->make(4, 256);
  auto in = q.producer();
  auto out = q.consumer();
  const auto soon = [] { return std::chrono::steady_clock::now() + 1ms; };
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(out.peek_for(1ms).status(), queue_status::empty);
  EXPECT_EQ(out.peek_until(soon()).status(), queue_status::empty);
  EXPECT_EQ(out.peek(stop.get_token()).status(), queue_status::empty);
  EXPECT_EQ(out.pop_for(1ms).status(), queue_status::empty);
  EXPECT_EQ(out.pop(stop.get_token()).status(), queue_status::empty);
  ASSERT_EQ(in.push(bytes(256)), queue_status::success);
  EXPECT_EQ(in.loan_until(1, soon()).status(), queue_status::full);
  EXPECT_EQ(in.loan(1, stop.get_token()).status(), queue_status::full);
  EXPECT_EQ(in.push(bytes(1), stop.get_token()), queue_status::full);
  EXPECT_EQ(out.peek_for(1s)->size(), 256U);
  const std::vector<bytes> several(4, bytes(64));
  EXPECT_EQ(in.push_n(several.begin(), 4), 4U);
  std::vector<bytes> got(4);
  EXPECT_EQ(out.pop_n(got.begin(), 4), 4U);
  EXPECT_EQ(got, several);
}

TEST(shared_bytes_waits, for_a_message_without_taking_it) {
  auto q = shared_bytes<shape::lanes>::create_anonymous({.messages = 2});
  EXPECT_FALSE(q.await_item_for(1ms));
  ASSERT_EQ(q.producer().push(letter(3)), queue_status::success);
  EXPECT_TRUE(q.await_item_for(1h));
  EXPECT_TRUE(is_letter(*q.consumer().pop(), 3));
  EXPECT_FALSE(q.await_item_for(1ms));
}

TEST(shared_bytes_files, are_opened_by_name_and_outlive_their_maker) {
  const std::filesystem::path name =
      std::filesystem::path(::testing::TempDir()) / ("bytes-" + std::to_string(::getpid()));
  std::filesystem::remove(name);
  EXPECT_TRUE(elsewhere([&] {
    auto q = shared_bytes<>::create(name, {.queue = {.tag = "log"}});
    return q.producer().push(letter(9)) == queue_status::success;
  }));
  {
    auto q = shared_bytes<>::open(name, "log");
    EXPECT_EQ(q.info().shape, "bytes lanes");
    EXPECT_EQ(q.info().bytes, 1U << 20);
    EXPECT_EQ(muster::inspect_shared_queue(name).items, 1U);
    EXPECT_TRUE(is_letter(*q.consumer().pop(), 9));
  }
  const auto refusal = [&](auto open) { return complaint<muster::shared_queue_error>(open); };
  EXPECT_SAYS(refusal([&] { shared_bytes<>::open(name); }), "tag is 'log'");
  EXPECT_SAYS(refusal([&] { shared_bytes<shape::spsc>::open(name, "log"); }), "shape is bytes lanes");
  EXPECT_SAYS(refusal([&] { muster::shared_queue<std::uint64_t, shape::lanes>::open(name, "log"); }),
              "shape is bytes lanes");
  // A region of another version, and one with nonsense.
  const auto damaged = [&](std::size_t at, char value) {
    std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto before = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(value).flush();
    const std::string said = refusal([&] { shared_bytes<>::open(name, "log"); });
    file.seekp(static_cast<std::streamoff>(at));
    file.put(before).flush();
    return said;
  };
  using facts = muster::detail::shared_metadata;
  EXPECT_SAYS(damaged(offsetof(facts, version), 4), "layout version 4");
  EXPECT_SAYS(damaged(offsetof(facts, arena), 1), "damaged");
  EXPECT_SAYS(damaged(offsetof(facts, arena) + 7, 1), "damaged");
  EXPECT_SAYS(damaged(offsetof(facts, arenas_at) + 1, 77), "damaged");
  EXPECT_NO_THROW(shared_bytes<>::open(name, "log"));
  std::filesystem::remove(name);
}

TEST(shared_bytes_errors, name_the_option_that_is_wrong) {
  const auto make = [](std::size_t messages, std::size_t size) {
    return complaint<std::invalid_argument>([&] { shared_bytes<>::create_anonymous({messages, size, {}}); });
  };
  EXPECT_SAYS(make(0, 100), "shared_bytes: capacity is 0");
  EXPECT_SAYS(make(1, 0), "bytes is 0; it must be between 1 and");
  EXPECT_SAYS(make(1, ~std::size_t{0}), "it must be between 1 and");
}

// No content of the memory makes a port leave it.
TEST(shared_bytes_errors, report_places_that_are_nonsense) {
  auto q = shared_bytes<shape::spsc>::create_anonymous({4, 1024, {.ports = 3}});
  const muster::mapped_region memory = muster::mapped_region::open_descriptor(q.descriptor());
  muster::detail::shared_metadata f;
  std::memcpy(&f, memory.start(), sizeof f);
  auto* const cells =
      reinterpret_cast<muster::detail::shared_cell<muster::detail::byte_place>*>(memory.start() + f.cells_at);
  using place = muster::detail::byte_place;
  for (const place nonsense :
       {place{1025, 0}, place{0, 1025}, place{~0ULL, 2}, place{1024, 1}, place{64, ~0ULL - 32}}) {
    {
      auto in = q.producer();
      ASSERT_EQ(in.push(letter(1)), queue_status::success);
    }
    for (std::size_t i = 0; i != f.cells; ++i) cells[i].item.write_ref().construct(nonsense);
    auto next = q.producer();  // finds the blocks that its predecessor left
    {
      auto out = q.consumer();
      EXPECT_SAYS(complaint<muster::shared_queue_error>([&] { out.try_pop(); }), "damaged");
      EXPECT_EQ(out.try_pop().status(), queue_status::empty);
    }
    EXPECT_EQ(next.try_push(bytes(1024)), queue_status::success);
    auto out = q.consumer();
    EXPECT_EQ(out.try_pop()->size(), 1024U);
  }
}

}  // namespace
