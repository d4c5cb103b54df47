// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queue between processes: items, ways to open it, and errors for memory that is no queue or another one. Deaths
// are in tests/chaos/shared_queue_death_test.cpp.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using muster::queue_status;
using muster::shared_queue;
namespace shape = muster::shape;

struct parcel {
  std::uint64_t number;
  std::array<std::uint64_t, 6> content;
};
parcel make_parcel(std::uint64_t n) { return {n, {n, ~n, n * 3, n * 5, n * 7, n * 11}}; }
bool is_whole(const parcel& p) { return p.content == make_parcel(p.number).content; }

/// A name in a folder of its own, which is deleted.
class place {
 public:
  place() {
    std::string name = ::testing::TempDir() + "muster-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~place() { std::filesystem::remove_all(folder_); }
  std::filesystem::path operator/(const char* name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

/// Runs `work` in another process; whether it said true.
bool elsewhere(const std::function<bool()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    bool right = false;
    try {
      right = work();
    } catch (const std::exception& e) {
      static_cast<void>(std::fprintf(stderr, "%s\n", e.what()));
    }
    ::_exit(right ? 0 : 1);
  }
  int ended = 0;
  ::waitpid(pid, &ended, 0);
  return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
}

/// The message of the exception that `work` throws.
template <class Error>
std::string complaint(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}
#define EXPECT_SAYS(text, what) EXPECT_NE(std::string(text).find(what), std::string::npos) << "it says: " << (text)

template <class Shape>
class shared_queue_of : public ::testing::Test {};
using shapes = ::testing::Types<shape::spsc, shape::spmc, shape::mpmc, shape::lanes>;
struct names {
  template <class Shape>
  static std::string GetName(int) {
    return Shape::name;
  }
};
TYPED_TEST_SUITE(shared_queue_of, shapes, names);

TYPED_TEST(shared_queue_of, one_process_is_a_fifo_of_exactly_its_capacity) {
  for (const std::size_t capacity : {1U, 2U, 5U, 16U}) {
    auto q = shared_queue<std::uint64_t, TypeParam>::create_anonymous(
        capacity, {.ports = 3, .lanes = 2, .tag = "t", .first_rank = (muster::rank_t{1} << 52) - 7});
    auto in = q.producer();
    auto out = q.consumer();
    EXPECT_EQ(q.capacity(), capacity);
    EXPECT_EQ(out.try_pop().status(), queue_status::empty);
    for (std::uint64_t lap = 0; lap < 10; ++lap) {
      for (std::uint64_t i = 0; i < capacity; ++i) ASSERT_EQ(in.try_push(100 * lap + i), queue_status::success);
      ASSERT_EQ(in.try_push(0), queue_status::full);
      ASSERT_EQ(in.push_for(0, 1ms), queue_status::full);
      ASSERT_EQ(q.size_approx(), capacity);
      q.check();
      for (std::uint64_t i = 0; i < capacity; ++i) ASSERT_EQ(*out.pop(), 100 * lap + i);
      ASSERT_EQ(out.try_pop().status(), queue_status::empty);
      ASSERT_EQ(out.pop_for(1ms).status(), queue_status::empty);
    }
    ASSERT_EQ(in.push(7), queue_status::success);
    q.close();
    EXPECT_TRUE(q.is_closed());
    EXPECT_EQ(in.push(8), queue_status::closed);
    EXPECT_EQ(*out.pop(), 7U);
    EXPECT_EQ(out.pop().status(), queue_status::closed);
    EXPECT_EQ(out.try_pop().status(), queue_status::closed);
    q.check();
  }
}

TYPED_TEST(shared_queue_of, processes_delivers_every_item_once_and_whole) {
  constexpr std::uint64_t items = 20'000;
  const unsigned producers = TypeParam::one_producer && !TypeParam::many_rings ? 1 : 3;
  const unsigned consumers = TypeParam::one_consumer ? 1 : 3;
  using queue = shared_queue<parcel, TypeParam>;
  const place somewhere;
  queue q = queue::create(somewhere / "q", 64, {.ports = 6, .lanes = 3, .tag = "parcels"});
  std::vector<std::thread> threads;
  std::atomic<unsigned> right{0};
  // Each producer is a process that opens the file; consumers are threads of this one.
  for (unsigned p = 0; p < producers; ++p)
    threads.emplace_back([&, p] {
      right += elsewhere([&, p] {
        queue mine = queue::open(somewhere / "q", "parcels");
        auto port = mine.producer();
        for (std::uint64_t i = 0; i < items; ++i)
          if (port.push(make_parcel(p * items + i)) != queue_status::success) return false;
        return true;
      });
    });
  std::vector<std::vector<std::uint64_t>> got(consumers);
  std::vector<std::thread> takers;
  for (unsigned c = 0; c < consumers; ++c)
    takers.emplace_back([&, c] {
      auto port = q.consumer();
      while (const auto item = port.pop())
        if (is_whole(*item)) got[c].push_back(item->number);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, producers);
  q.close();
  for (std::thread& t : takers) t.join();
  std::vector<std::uint64_t> all;
  for (const std::vector<std::uint64_t>& some : got) {
    std::vector<std::uint64_t> last(producers, 0);
    for (const std::uint64_t n : some) {
      EXPECT_GE(n % items + 1, last[n / items]) << "out of order";
      last[n / items] = n % items + 1;
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), producers * items);
  for (std::uint64_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
  q.check();
}

TYPED_TEST(shared_queue_of, processes_wakes_sleepers_when_it_is_closed) {
  using queue = shared_queue<int, TypeParam, muster::wait::park>;
  queue q = queue::create_anonymous(4, {.ports = 4, .lanes = 2});
  std::thread sleeper([&] {
    auto port = q.consumer();
    EXPECT_EQ(port.pop().status(), queue_status::closed);
  });
  EXPECT_TRUE(elsewhere([&] {
    queue::attach(q.descriptor()).close();
    return true;
  }));
  sleeper.join();
}

TYPED_TEST(shared_queue_of, an_item_can_be_awaited_without_being_taken) {
  auto q = shared_queue<std::uint64_t, TypeParam>::create_anonymous(4, {.ports = 3, .lanes = 2, .tag = "t"});
  EXPECT_FALSE(q.await_item_for(1ms));
  EXPECT_FALSE(q.await_item_for(-1ms));
  std::thread pushes([&] {
    EXPECT_TRUE(elsewhere([&] {
      ::usleep(20'000);  // by then the other may sleep
      return q.producer().push(5) == queue_status::success;
    }));
  });
  EXPECT_TRUE(q.await_item_for(1h));
  pushes.join();
  EXPECT_TRUE(q.await_item_for(0ms));
  {
    auto out = q.consumer();
    EXPECT_EQ(*out.pop(), 5U);
    EXPECT_FALSE(q.await_item_for(1ms));
  }
  std::thread closes([&] { q.close(); });
  EXPECT_TRUE(q.await_item_for(1h));
  closes.join();
  EXPECT_EQ(q.consumer().pop().status(), queue_status::closed);
}

TYPED_TEST(shared_queue_of, an_item_can_be_used_in_the_queue) {
  auto q = shared_queue<std::uint64_t, TypeParam>::create_anonymous(4, {.ports = 3, .lanes = 2});
  auto in = q.producer();
  auto out = q.consumer();
  std::uint64_t seen = 0;
  const auto next = [&seen](const std::uint64_t& item) { EXPECT_EQ(item, ++seen); };
  EXPECT_EQ(out.try_consume(next), queue_status::empty);
  EXPECT_EQ(out.consume_for(next, std::chrono::milliseconds(1)), queue_status::empty);
  for (std::uint64_t i = 1; i <= 60; i += 3) {
    for (std::uint64_t k = 0; k < 3; ++k) ASSERT_EQ(in.try_push(i + k), queue_status::success);
    EXPECT_EQ(out.consume(next), queue_status::success);
    EXPECT_EQ(out.try_consume([&](const std::uint64_t& item) {
      next(item);
      // Until it returns, the cell is not used again, and the port can be used.
      for (std::uint64_t k = 0; k < 50; ++k) {
        EXPECT_EQ(in.try_push(1000 + k), queue_status::success);
        EXPECT_EQ(*out.pop(), k == 0 ? i + 2 : 999 + k);
      }
      EXPECT_EQ(item, i + 1);
    }),
              queue_status::success);
    EXPECT_EQ(out.consume_for([&](std::uint64_t item) { EXPECT_EQ(item, 1049U); }, std::chrono::hours(1)),
              queue_status::success);
    ++seen;
  }
  ASSERT_EQ(in.push(61), queue_status::success);
  ASSERT_EQ(in.push(62), queue_status::success);
  EXPECT_THROW(out.consume([](std::uint64_t) { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(*out.pop(), 62U);
  q.close();
  EXPECT_EQ(out.consume(next), queue_status::closed);
}

TYPED_TEST(shared_queue_of, an_item_is_not_lost_when_its_user_is_killed) {
  auto q = shared_queue<std::uint64_t, TypeParam>::create_anonymous(4, {.ports = 3, .lanes = 2});
  auto in = q.producer();
  for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_EQ(in.push(i), queue_status::success);
  EXPECT_FALSE(elsewhere([&] {
    auto out = q.consumer();
    if (out.consume([](std::uint64_t item) { EXPECT_EQ(item, 1U); }) != queue_status::success) return true;
    out.consume([](std::uint64_t) { ::kill(::getpid(), SIGKILL); });
    return true;
  }));
  std::vector<std::uint64_t> items;
  const auto keep = [&items](std::uint64_t item) { items.push_back(item); };
  if (!TypeParam::one_consumer) {
    EXPECT_EQ(q.recover(keep), 1U);
  }
  auto out = q.consumer();
  EXPECT_EQ(out.consume(keep), queue_status::success);
  if (TypeParam::one_consumer) {
    EXPECT_EQ(out.consume(keep), queue_status::success);
  }
  EXPECT_EQ(items, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(out.try_consume(keep), queue_status::empty);
}

TEST(shared_queue, is_found_by_a_descriptor_that_is_inherited) {
  auto q = shared_queue<int, shape::spsc>::create_anonymous(8, {.ports = 2, .lanes = 1, .tag = "ints"});
  EXPECT_TRUE(elsewhere([&] {
    auto mine = shared_queue<int, shape::spsc>::attach(q.descriptor(), "ints");
    auto port = mine.producer();
    const std::vector<int> some = {1, 2, 3, 4, 5};
    return port.push_n(some.begin(), some.size()) == some.size();
  }));
  std::vector<int> got(8);
  EXPECT_EQ(q.consumer().pop_n(got.data(), 8), 5U);
  EXPECT_EQ(got, (std::vector<int>{1, 2, 3, 4, 5, 0, 0, 0}));
  EXPECT_EQ(q.consumer().try_pop_n(got.data(), 8), 0U);
  EXPECT_TRUE(elsewhere([&] {
    auto mine = shared_queue<int, shape::spsc>::attach(q.descriptor(), "ints");
    std::vector<int> more(12);
    std::iota(more.begin(), more.end(), 11);
    return mine.producer().try_push_n(more.begin(), more.size()) == 8;  // as many as there is room for
  }));
  EXPECT_EQ(q.consumer().try_pop_n(got.data(), 3), 3U);
  EXPECT_EQ(q.consumer().try_pop_n(got.data() + 3, 8), 5U);
  EXPECT_EQ(got, (std::vector<int>{11, 12, 13, 14, 15, 16, 17, 18}));
  // The memory cannot be truncated.
  EXPECT_NE(::ftruncate(q.descriptor(), 0), 0);
}

struct without_a_default {
  explicit without_a_default(int v) : value(v) {}
  const int value;
};

TEST(shared_queue, takes_items_without_a_default_constructor) {
  auto q = shared_queue<without_a_default>::create_anonymous(2);
  auto in = q.producer();
  auto out = q.consumer();
  ASSERT_EQ(in.emplace(7), queue_status::success);
  ASSERT_EQ(in.try_push(without_a_default(8)), queue_status::success);
  EXPECT_EQ(out.pop()->value, 7);
  EXPECT_EQ(out.try_pop()->value, 8);
}

TEST(shared_queue, leaves_a_port_to_the_next) {
  auto q = shared_queue<int, shape::spsc>::create_anonymous(4);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(q.producer().push(i), queue_status::success);
    ASSERT_EQ(*q.consumer().pop(), i);
  }
  EXPECT_TRUE(q.info().participants.empty());
}

TEST(shared_queue, answers_when_a_stop_is_requested) {
  auto q = shared_queue<int, shape::mpmc>::create_anonymous(1);
  auto in = q.producer();
  auto out = q.consumer();
  std::stop_source stop;
  std::thread later([&] { stop.request_stop(); });
  EXPECT_EQ(out.pop(stop.get_token()).status(), queue_status::empty);
  later.join();
  EXPECT_EQ(in.push(1, stop.get_token()), queue_status::success);
  EXPECT_EQ(in.push(2, stop.get_token()), queue_status::full);
  EXPECT_EQ(out.pop_until(std::chrono::system_clock::now()).value(), 1);
}

TEST(shared_queue, can_be_inspected_without_being_disturbed) {
  const place somewhere;
  auto q = shared_queue<parcel, shape::lanes>::create(somewhere / "q", 10, {.ports = 5, .lanes = 3, .tag = "here"});
  auto in = q.producer();
  auto out = q.consumer();
  for (std::uint64_t i = 0; i < 7; ++i) static_cast<void>(in.push(make_parcel(i)));
  static_cast<void>(out.pop());
  std::filesystem::permissions(somewhere / "q", std::filesystem::perms::owner_read);
  const muster::shared_queue_info info = muster::inspect_shared_queue(somewhere / "q");
  EXPECT_EQ(info.shape, "lanes");
  EXPECT_EQ(info.tag, "here");
  EXPECT_EQ(info.item_size, sizeof(parcel));
  EXPECT_EQ(info.capacity, 10U);
  EXPECT_EQ(info.lanes, 3U);
  EXPECT_EQ(info.items, 6U);
  EXPECT_FALSE(info.closed);
  ASSERT_EQ(info.participants.size(), 2U);
  EXPECT_TRUE(info.participants[0].produces);
  EXPECT_FALSE(info.participants[1].produces);
  EXPECT_EQ(info.participants[0].items, 7U);
  EXPECT_EQ(info.participants[1].items, 1U);
  EXPECT_EQ(info.participants[1].last_rank, 0U);
  for (const auto& p : info.participants) EXPECT_EQ(p.process, ::getpid());
  for (const auto& p : info.participants) EXPECT_TRUE(p.alive);
  EXPECT_EQ(info.deaths, 0U);
}

// The process that makes a queue may be killed at any moment: either there is no queue of that name, or a whole one.
TEST(shared_queue, is_never_half_made) {
  const int nameless = ::open(::testing::TempDir().c_str(), O_TMPFILE | O_RDWR, 0600);
  ::close(nameless);
  unsigned made = 0, rounds = 0;
  for (auto after = 0us; rounds < 200 && made < 20; ++rounds, after += 50us + (made == 0 ? after / 16 : 0us)) {
    const place somewhere;
    const auto path = somewhere / "q";
    const pid_t maker = ::fork();
    if (maker == 0) {
      static_cast<void>(shared_queue<parcel>::create(path, std::size_t{1} << 16U));
      ::_exit(0);
    }
    std::this_thread::sleep_for(after);
    ::kill(maker, SIGKILL);
    ::waitpid(maker, nullptr, 0);
    if (!std::filesystem::exists(path)) {
      EXPECT_TRUE(nameless < 0 || std::filesystem::is_empty(path.parent_path()));
      continue;
    }
    ++made;
    auto q = shared_queue<parcel>::open(path);
    ASSERT_EQ(q.producer().push(make_parcel(1)), queue_status::success);
    ASSERT_EQ(q.consumer().pop().value().number, 1U);
  }
  EXPECT_GT(made, 0U);
  EXPECT_GT(rounds, made) << "it was made before it could be killed";
}

TEST(shared_queue, can_be_inspected_by_a_descriptor_that_only_reads) {
  auto q = shared_queue<parcel, shape::spsc>::create_anonymous(10);
  ASSERT_EQ(q.producer().push(make_parcel(1)), queue_status::success);
  const int reads = ::open(("/proc/self/fd/" + std::to_string(q.descriptor())).c_str(), O_RDONLY);
  ASSERT_GE(reads, 0);
  const muster::shared_queue_info info = muster::inspect_shared_queue(reads);
  EXPECT_EQ(info.shape, "spsc");
  EXPECT_EQ(info.items, 1U);
  ::close(reads);
  EXPECT_SAYS(complaint<std::system_error>([&] { muster::inspect_shared_queue(reads); }),
              "cannot duplicate the descriptor");
}

TEST(shared_queue_errors, name_a_valid_value) {
  using queue = shared_queue<int, shape::mpmc>;
  const auto make = [](std::size_t capacity, const muster::shared_queue_options& options) {
    return complaint<std::invalid_argument>([&] { queue::create_anonymous(capacity, options); });
  };
  EXPECT_SAYS(make(0, {}), "capacity is 0; it must be at least 1");
  {
    auto two = shared_queue<int, shape::mpmc>::create_anonymous(8, {.ports = 2});
    const auto first = two.producer();
    const auto second = two.consumer();
    EXPECT_EQ(two.info().participants.size(), 2U);
    EXPECT_SAYS(complaint<muster::shared_queue_error>([&] { two.producer(); }), "all 2 ports are in use");
  }
  EXPECT_SAYS(make(8, {.ports = 0}), "ports is 0; it must be between 1 and 1023");
  EXPECT_SAYS(make(8, {.ports = 2000}), "ports is 2000; it must be between 1 and 1023");
  EXPECT_SAYS(make(8, {.ports = 2, .lanes = 1, .tag = std::string(32, 'x')}), "longer than 31");
  EXPECT_SAYS(make(8, {.ports = 2, .lanes = 1, .tag = std::string("a\0b", 3)}), "contains a 0");
  EXPECT_SAYS(make(std::numeric_limits<std::size_t>::max(), {}), "the sum must be at most");
  const auto lanes = complaint<std::invalid_argument>(
      [] { shared_queue<int, shape::lanes>::create_anonymous(8, {.ports = 2, .lanes = 3}); });
  EXPECT_SAYS(lanes, "lanes");
}

TEST(shared_queue_errors, distinguish_another_queue_from_the_expected_one) {
  const place somewhere;
  const std::filesystem::path name = somewhere / "q";
  auto q = shared_queue<std::uint64_t, shape::spmc>::create(name, 8, {.ports = 2, .lanes = 1, .tag = "a"});
  const auto open = [&]<class Queue>(std::type_identity<Queue>, const char* tag) {
    return complaint<muster::shared_queue_error>([&] { Queue::open(name, tag); });
  };
  EXPECT_SAYS(open(std::type_identity<shared_queue<std::uint64_t, shape::mpmc>>{}, "a"), "shape is spmc");
  EXPECT_SAYS(open(std::type_identity<shared_queue<std::uint32_t, shape::spmc>>{}, "a"), "item is 8 bytes");
  EXPECT_SAYS(open(std::type_identity<shared_queue<std::array<char, 8>, shape::spmc>>{}, "a"), "alignment is 8");
  EXPECT_SAYS(open(std::type_identity<shared_queue<std::uint64_t, shape::spmc>>{}, "b"), "tag is 'a'");
  const std::string longest(31, 'x');
  shared_queue<int>::create(somewhere / "long", 8, {.tag = longest});
  const auto longer = [&] { shared_queue<int>::open(somewhere / "long", longest + "y"); };
  EXPECT_SAYS(complaint<muster::shared_queue_error>(longer), "longer than 31");
  EXPECT_NO_THROW(shared_queue<int>::open(somewhere / "long", longest));
  const auto again = complaint<std::system_error>([&] { shared_queue<int, shape::spmc>::create(name, 8); });
  EXPECT_SAYS(again, "it already exists");
  EXPECT_SAYS(complaint<std::system_error>([&] { shared_queue<int>::open(somewhere / "nothing"); }), "cannot open");
  EXPECT_SAYS(complaint<std::system_error>([&] { shared_queue<int>::attach(-1); }), "descriptor");
  EXPECT_SAYS(complaint<std::system_error>([&] { shared_queue<int>::create("/nowhere/at/all", 8); }), "/nowhere/at");
  EXPECT_FALSE(q.is_closed());
}

/// The message of open() when byte `at` of a queue's file has been changed.
std::string after_damage(const std::filesystem::path& name, std::streamoff at, char value) {
  std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const auto before = static_cast<char>(file.get());
  file.seekp(at);
  file.put(value);
  file.flush();
  const std::string said = complaint<muster::shared_queue_error>([&] { shared_queue<int>::open(name); });
  file.seekp(at);
  file.put(before);
  return said;
}

TEST(shared_queue_errors, detect_files_that_are_no_queue) {
  using muster::detail::shared_metadata;
  const place somewhere;
  const std::filesystem::path name = somewhere / "q";
  {
    shared_queue<int>::create(name, 8);
  }
  EXPECT_SAYS(after_damage(name, 0, 'x'), "not a muster queue");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, version), 77), "version 77");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, size), 1), "truncated");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, cells), 3), "damaged");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, rings) + 7, 3), "damaged");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, seats), 1), "damaged");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, boot), 1), "last boot");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, name_space), 1), "namespace");
  EXPECT_SAYS(after_damage(name, offsetof(shared_metadata, layout), 1), "layout");
  for (const std::size_t at :
       {offsetof(shared_metadata, seats_at), offsetof(shared_metadata, ends_at), offsetof(shared_metadata, cells_at)})
    EXPECT_SAYS(after_damage(name, static_cast<std::streamoff>(at) + 1, 77), "damaged");
  EXPECT_NO_THROW(shared_queue<int>::open(name));

  const auto open = [&] { return complaint<muster::shared_queue_error>([&] { shared_queue<int>::open(name); }); };
  std::filesystem::resize_file(name, std::filesystem::file_size(name) - 4096);
  EXPECT_SAYS(open(), "truncated");
  std::filesystem::resize_file(name, 100);
  EXPECT_SAYS(open(), "too few");
  std::filesystem::resize_file(name, 0);
  EXPECT_SAYS(open(), "too few");
  EXPECT_SAYS(complaint<muster::shared_queue_error>([&] { muster::inspect_shared_queue(name); }), "too few");
  std::ofstream(name) << std::string(100'000, 'x');
  EXPECT_SAYS(open(), "not a muster queue");

  // The other end of the pipe is never opened.
  const std::filesystem::path pipe = somewhere / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_SAYS(complaint<muster::shared_queue_error>([&] { muster::inspect_shared_queue(pipe); }), "too few");
  EXPECT_SAYS(complaint<muster::shared_queue_error>([&] { shared_queue<int>::open(pipe); }), "too few");
}

TEST(shared_queue_errors, leave_nonsense_in_the_queue) {
  using word = muster::detail::shared_word;
  const place somewhere;
  const std::filesystem::path name = somewhere / "q";
  auto q = shared_queue<std::uint64_t, shape::mpmc>::create(name, 4, {.ports = 2});
  const muster::mapped_region memory = muster::mapped_region::open_file(name);
  muster::detail::shared_metadata facts;
  std::memcpy(&facts, memory.start(), sizeof(facts));
  const muster::rank_t of_nobody = word::make(0, word::written, word::most_seats - 1);
  std::memcpy(memory.start() + facts.cells_at, &of_nobody, sizeof(of_nobody));
  // There is no such seat; and the memory ends long before the place where it would be.
  EXPECT_TRUE(elsewhere([&] {
    auto in = q.consumer();
    return in.try_pop().status() == queue_status::busy && in.pop_for(120ms).status() == queue_status::busy &&
           q.recover([](std::uint64_t) {}) == 0;
  }));

  const std::filesystem::path other = somewhere / "r";
  auto r = shared_queue<std::uint64_t, shape::spsc>::create(other, 4, {.ports = 2});
  const muster::mapped_region its_memory = muster::mapped_region::open_file(other);
  auto* const ends = reinterpret_cast<muster::detail::shared_ends*>(its_memory.start() + facts.ends_at);
  ends->producer.store(77'777, std::memory_order_relaxed);
  EXPECT_TRUE(elsewhere([&] { return !r.try_producer() && r.try_consumer(); }));
}

TEST(shared_queue_errors, use_no_address_from_the_memory) {
  const place somewhere;
  const std::filesystem::path name = somewhere / "q";
  auto q = shared_queue<int, shape::mpmc>::create(name, 4);
  const muster::mapped_region memory = muster::mapped_region::open_file(name);
  auto& header = *reinterpret_cast<muster::detail::shared_header*>(memory.start());
  // Sleepers and listeners in each event word; and nonsense behind its four first fields, where an eventcount of one
  // process has the addresses of its listeners.
  for (muster::shared_eventcount* events : {&header.consumers, &header.producers}) {
    auto* const words = reinterpret_cast<std::uint64_t*>(events);
    words[0] |= 0x6000'ffff;
    for (std::size_t i = 4; i != sizeof(*events) / sizeof(*words); ++i) words[i] = 0x4141'4141'4141'4141;
    words[3] = 0;  // no thread uses the lists
  }
  EXPECT_TRUE(elsewhere([&] {
    auto in = q.producer();
    auto out = q.consumer();
    for (int i = 0; i != 10; ++i)
      if (in.try_push(i) != queue_status::success || *out.try_pop() != i) return false;
    if (out.pop_for(1ms).status() != queue_status::empty) return false;
    q.close();
    return q.is_closed();
  }));
}

TEST(processes, are_distinguished_from_later_ones_of_the_same_number) {
  const muster::process_identity self = muster::this_process();
  EXPECT_TRUE(muster::is_alive(self));
  EXPECT_EQ(muster::number_of(self), ::getpid());
  EXPECT_FALSE(muster::is_alive(0));
  // The same number, but begun at another time.
  EXPECT_FALSE(muster::is_alive(self + (muster::process_identity{1} << 22)));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  // Dead, although not waited for yet.
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_FALSE(muster::is_alive(static_cast<muster::process_identity>(child)));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(muster::is_alive(static_cast<muster::process_identity>(child)));
}

TEST(processes, stay_alive_after_their_first_thread_has_ended) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // this thread only
  }
  const std::string stat = "/proc/" + std::to_string(child) + "/stat";
  std::string line;
  while (line.find(") Z ") == line.npos) {  // so it looks, as if it were dead
    std::this_thread::yield();
    std::getline(std::ifstream(stat), line);
  }
  EXPECT_TRUE(muster::is_alive(static_cast<muster::process_identity>(child)));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(muster::is_alive(static_cast<muster::process_identity>(child)));
}

}  // namespace
