// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_stack and psim_queue, and what psim has for them: results of two words, workspaces. Order, items of any kind,
// exceptions, threads that come and go, memory that is used again, and none that is left.
#include <gtest/gtest.h>
#include <muster/combine/psim_queue.hpp>
#include <muster/combine/psim_stack.hpp>
#include <muster/fiber/team.hpp>

#include "scale.hpp"

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::combine_options;
using muster::psim;
using muster::psim_options;
using number = std::uint64_t;

/// The allocator's settings, and its counts.
std::atomic<std::size_t> chains_made{0};
std::atomic<std::size_t> chain_bytes{0};  // an allocation of this size is a chain; 0: none is
std::atomic<bool> no_chains{false};       // there is no memory for them

}  // namespace

// The sanitizers replace them themselves; then nothing is counted.
#if !defined(MUSTER_ADDRESS_SANITIZER) && !defined(MUSTER_THREAD_SANITIZER)
// Not inline: the compiler would see malloc meet delete, and free meet new.
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  if (bytes != 0 && bytes == chain_bytes.load(std::memory_order_relaxed)) {
    if (no_chains) throw std::bad_alloc();
    ++chains_made;
  }
  if (void* const there = std::malloc(bytes == 0 ? 1 : bytes); there != nullptr) return there;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete[](void* there) noexcept { std::free(there); }
[[gnu::noinline]] void operator delete[](void* there, std::size_t) noexcept { std::free(there); }
#endif

namespace {

// ------------------------------------------------------------------------------------------------ results of two words

struct two_words {
  std::uint64_t a, b;
};
struct twelve_bytes {
  std::uint32_t a, b, c;
};
static_assert(muster::psim_result<std::optional<number>> && muster::psim_result<two_words>);
static_assert(!muster::psim_result<std::array<number, 3>>);

auto answer_if_odd(number add) {
  return [add](number& state) noexcept {
    const number before = std::exchange(state, state + add);
    return before % 2 == 1 ? std::optional<number>(before) : std::nullopt;
  };
}

TEST(results, of_two_words) {
  psim<number> object({}, number{5});
  EXPECT_EQ(object.apply(answer_if_odd(1)), std::optional<number>(5));
  EXPECT_EQ(object.apply(answer_if_odd(1)), std::nullopt);
  const twelve_bytes three = object.apply([](number& s) noexcept {
    const auto n = static_cast<std::uint32_t>(s);
    return twelve_bytes{n, n + 1, n + 2};
  });
  EXPECT_EQ(three.a, 7U);
  EXPECT_EQ(three.b, 8U);
  EXPECT_EQ(three.c, 9U);
}

TEST(results, of_two_words_beside_others) {
  for (const bool alone_first : {true, false}) {
    psim<number> object({.threads = 16, .batch = 5}, psim_options{.alone_first = alone_first}, number{0});
    const std::size_t each = muster_test::scaled(5'000);
    std::atomic<unsigned> wrong{0};
    muster::run_team({.carriers = 3, .fibers = 8}, [&](unsigned, unsigned fiber) {
      number last = 0;
      for (std::size_t i = 0; i < each; ++i) {
        number now = 0;
        if (fiber % 2 == 0) {
          const two_words both = object.apply([](number& s) noexcept { return two_words{s, ~s++}; });
          if (both.b != ~both.a) ++wrong;
          now = both.a;
        } else {
          now = object.apply([](number& s) noexcept { return s++; });
        }
        if (i != 0 && now <= last) ++wrong;
        last = now;
      }
    });
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(object.load(), 24 * each);
    EXPECT_EQ(object.try_load(), std::optional<number>(24 * each));
  }
}

// ---------------------------------------------------------------------------------------------------------- workspaces

/// Counts the operations that its thread has executed, with and without effect.
struct counting {
  number now = 0, with_effect = 0, in_vain = 0, commits = 0;
  void commit() noexcept {
    with_effect += std::exchange(now, 0);
    ++commits;
  }
  void abort() noexcept { in_vain += std::exchange(now, 0); }
};
static_assert(muster::psim_workspace<counting> && !muster::psim_workspace<int>);

TEST(workspaces, learn_how_each_execution_ends) {
  for (const unsigned fibers : {1U, 8U})
    for (const bool alone_first : {true, false}) {
      constexpr unsigned carriers = 4;
      psim<number, counting> object({.threads = 16}, psim_options{.alone_first = alone_first}, number{0});
      const std::size_t each = muster_test::scaled(20'000) / fibers;
      std::array<counting, carriers> seen;
      std::barrier all_there(carriers);  // with a number each
      muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
        object.workspace();
        if (fiber == 0) all_there.arrive_and_wait();
        for (std::size_t i = 0; i < each; ++i) {
          if (i % 2 == 0) {
            object.apply([](number& s, counting& mine) noexcept {
              ++mine.now;
              ++s;
            });
          } else {
            object.apply([](number& s) noexcept { ++s; });
          }
        }
        seen[carrier] = object.workspace();  // the last fiber's is whole
      });
      number with_effect = 0, open = 0;
      for (const counting& c : seen) {
        with_effect += c.with_effect;
        open += c.now;
      }
      EXPECT_EQ(with_effect, carriers * fibers * ((each + 1) / 2));
      EXPECT_EQ(open, 0U);
      EXPECT_EQ(object.load(), carriers * fibers * each);
    }
}

TEST(workspaces, see_an_execution_that_others_have_overtaken) {
  psim<number, counting> object({.threads = 8}, number{0});
  std::atomic<bool> inside{false}, go_on{false};
  std::atomic<std::thread::id> victim;
  struct trap {
    std::atomic<bool>*inside, *go_on;
    std::atomic<std::thread::id>* victim;
  } t{&inside, &go_on, &victim};
  counting seen;
  std::jthread slow([&] {
    victim = std::this_thread::get_id();
    object.apply([&t](number& s, counting& mine) noexcept {
      if (mine.now++ == 0 && mine.in_vain == 0 && std::this_thread::get_id() == *t.victim) {
        *t.inside = true;
        t.inside->notify_all();
        t.go_on->wait(false);
      }
      s += 10;
    });
    seen = object.workspace();
  });
  inside.wait(false);
  object.apply([](number& s) noexcept { ++s; });
  go_on = true;
  go_on.notify_all();
  slow.join();
  EXPECT_EQ(seen.in_vain, 1U);
  EXPECT_EQ(seen.with_effect, 1U);
  EXPECT_EQ(seen.commits, 1U);
  EXPECT_EQ(object.load(), 11U);
}

// --------------------------------------------------------------------------------------------------------------- items

template <class T>
constexpr bool is_queue = false;
template <class T>
constexpr bool is_queue<muster::psim_queue<T>> = true;

template <class Structure>
class psim_structure : public ::testing::Test {};
struct names {
  template <class Structure>
  static std::string GetName(int) {
    return is_queue<Structure> ? "queue" : "stack";
  }
};
using structures = ::testing::Types<muster::psim_stack<number>, muster::psim_queue<number>>;
TYPED_TEST_SUITE(psim_structure, structures, names);

template <class Structure, class T>
struct with_item;
template <template <class> class Structure, class Old, class T>
struct with_item<Structure<Old>, T> {
  using type = Structure<T>;
};
template <class Structure, class T>
using of = typename with_item<Structure, T>::type;

TYPED_TEST(psim_structure, keeps_its_order) {
  for (const unsigned chain : {1U, 3U, 256U}) {
    TypeParam object({}, {.chain = chain});
    EXPECT_EQ(object.pop(), std::nullopt);
    for (number round = 0; round < 50; ++round) {
      for (number i = 0; i < round; ++i) object.push(i);
      object.check();
      for (number i = 0; i < round; ++i) EXPECT_EQ(object.pop(), is_queue<TypeParam> ? i : round - 1 - i);
      EXPECT_EQ(object.pop(), std::nullopt);
    }
    object.check();
  }
}

TYPED_TEST(psim_structure, refuses_options_that_make_no_sense) {
  EXPECT_THROW(TypeParam({.threads = 4'000'000'000U}), std::invalid_argument);  // before it allocates for so many
  EXPECT_THROW(TypeParam({.threads = 0}), std::invalid_argument);
  EXPECT_THROW(TypeParam({.batch = 0}), std::invalid_argument);
  EXPECT_THROW(TypeParam({}, {.chain = 0}), std::invalid_argument);
}

// ------------------------------------------------------------------------------------------------------------- threads

TYPED_TEST(psim_structure, serves_threads_that_come_and_go) {
  TypeParam object({.threads = 8}, {.alone_first = false, .chain = 2});
  number pushed = 0, popped = 0;
  for (unsigned round = 0; round < 100; ++round) {
    std::atomic<number> sum{0};
    {
      std::vector<std::jthread> some;
      for (unsigned t = 0; t < 4; ++t)
        some.emplace_back([&, t] {
          for (unsigned i = 0; i < 5; ++i) object.push(100 * round + 10 * t + i);
          for (unsigned i = 0; i < 4; ++i) sum += object.pop().value_or(1'000'000);
        });
    }
    for (unsigned t = 0; t < 4; ++t) pushed += 5 * (100 * round + 10 * t) + 10;
    popped += sum;
  }
  object.check();
  unsigned left = 0;
  while (const auto value = object.pop()) popped += *value, ++left;
  EXPECT_EQ(left, 400U);
  EXPECT_EQ(popped, pushed);
}

TYPED_TEST(psim_structure, refuses_more_threads_than_configured) {
  of<TypeParam, std::string> object({.threads = 1});
  std::atomic<unsigned> served{0}, refused{0};
  std::barrier all_there(4);
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        try {
          object.push("an item");
          ++served;
        } catch (const std::length_error& e) {
          EXPECT_NE(std::string(e.what()).find("combine_options::threads is 1"), std::string::npos) << e.what();
          EXPECT_THROW(object.pop(), std::length_error);
          ++refused;
        }
        all_there.arrive_and_wait();  // so no thread reuses the number of another
      });
  }
  EXPECT_EQ(served + refused, 4U);
  EXPECT_GE(refused, 3U);
}

// -------------------------------------------------------------------------------------------------------------- memory

class memory : public ::testing::Test {
 protected:
  static constexpr unsigned chain = 61;  // nothing else is so large
  memory() {
    chain_bytes = chain * sizeof(muster::detail::psim_node);
    chains_made = 0;
  }
  ~memory() override { chain_bytes = 0, no_chains = false; }
};

template <class Structure>
void expect_bounded() {
  constexpr unsigned producers = 2, consumers = 2;
  constexpr number room = 10'000;
  Structure object({.threads = 16}, {.chain = 61});
  std::atomic<number> in{0}, out{0};
  const number all = muster_test::scaled(400'000);
  // The consumers take out all items before the producers continue, so their stores are large at times.
  muster::run_team({.carriers = producers + consumers, .fibers = 1}, [&](unsigned carrier, unsigned) {
    if (carrier < producers) {
      for (number i = carrier; i < all; i += producers) {
        while (in - out > room) std::this_thread::yield();
        object.push(i);
        ++in;
      }
    } else {
      while (out < all)
        if (object.pop()) {
          ++out;
        } else {
          std::this_thread::yield();
        }
    }
  });
  object.check();
  // The items in the structure, three chains for each thread, one for an execution without effect, and a reserve.
  EXPECT_LE(chains_made, 2 * room / 61 + 4 * 6);
}
TEST_F(memory, of_a_stack_is_used_again) { expect_bounded<muster::psim_stack<number>>(); }
TEST_F(memory, of_a_queue_is_used_again) { expect_bounded<muster::psim_queue<number>>(); }

template <class Structure>
void expect_all_handed_over() {
  constexpr number many = 20'000;
  Structure object({.threads = 16}, {.chain = 61});
  for (unsigned round = 0; round < 10; ++round) {
    std::jthread([&] {
      for (number i = 0; i < many; ++i) object.push(i);
    }).join();
    // The next thread has another number: a third one is there meanwhile.
    std::barrier both(2);
    std::jthread first([&] {
      object.pop();
      both.arrive_and_wait();
      both.arrive_and_wait();
    });
    both.arrive_and_wait();
    std::jthread([&] {
      while (object.pop()) {
      }
    }).join();
    both.arrive_and_wait();
  }
  object.check();
  EXPECT_LE(chains_made, many / 61 + 12);
}
TEST_F(memory, of_a_stack_goes_round) { expect_all_handed_over<muster::psim_stack<number>>(); }
TEST_F(memory, of_a_queue_goes_round) { expect_all_handed_over<muster::psim_queue<number>>(); }

// One thread takes back what it has given away, and makes no more than it needs.
template <class Structure>
void expect_none_made_again() {
  Structure object({.threads = 16}, {.chain = 61});
  std::uint64_t made = 0;
  for (unsigned round = 0; round < 6; ++round) {
    for (number i = 0; i < 4 * 61; ++i) object.push(i);
    while (object.pop()) {
    }
    if (round == 0) made = chains_made;
    EXPECT_EQ(chains_made, made) << "in round " << round;
  }
  EXPECT_LE(made, 4U + 3U);
  object.check();
}
TEST_F(memory, of_a_stack_that_is_filled_again) { expect_none_made_again<muster::psim_stack<number>>(); }
TEST_F(memory, of_a_queue_that_is_filled_again) { expect_none_made_again<muster::psim_queue<number>>(); }

// Each of two threads finds the chains that the other offers.
template <class Structure>
void expect_offers_to_be_found() {
  constexpr number chain = 61;
  Structure object({.threads = 2}, {.chain = chain});
  const auto here = [](const auto& f) { f(); };
  const auto elsewhere = [](const auto& f) { std::jthread(f).join(); };
  const auto push = [&object](number many) {
    return [&object, many] {
      for (number i = 0; i < many; ++i) object.push(i);
    };
  };
  const auto pop_all = [&object] {
    while (object.pop()) {
    }
  };
  here(pop_all);  // which makes this thread the first
  elsewhere(push(20 * chain));
  here(pop_all);
  const std::size_t made = chains_made;
  elsewhere(push(15 * chain));
  EXPECT_EQ(chains_made, made);
  elsewhere(pop_all);
  here(push(15 * chain));
  EXPECT_EQ(chains_made, made);
  object.check();
}
TEST_F(memory, of_a_stack_is_offered_to_all) { expect_offers_to_be_found<muster::psim_stack<number>>(); }
TEST_F(memory, of_a_queue_is_offered_to_all) { expect_offers_to_be_found<muster::psim_queue<number>>(); }

template <class Structure>
void expect_bad_alloc() {
  if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers replace operator new themselves";
  for (const bool alone_first : {true, false}) {
    Structure object({.threads = 16}, {.alone_first = alone_first, .chain = 61});
    for (unsigned i = 0; i < 30; ++i) object.push(std::to_string(i));
    no_chains = true;
    unsigned pushed = 30;
    for (bool room = true; room;) {
      try {
        object.push(std::to_string(pushed));
        ++pushed;
      } catch (const std::bad_alloc&) {
        room = false;
      }
    }
    EXPECT_EQ(pushed, 61U);
    EXPECT_THROW(object.push("one more"), std::bad_alloc);
    object.check();
    EXPECT_TRUE(object.pop());
    object.push("again");
    no_chains = false;
    for (unsigned i = 0; i < 100; ++i) object.push(std::to_string(100 + i));
    unsigned popped = 0;
    while (object.pop()) ++popped;
    EXPECT_EQ(popped, 161U);
    object.check();
  }
}
TEST_F(memory, that_is_not_there_for_a_stack) { expect_bad_alloc<muster::psim_stack<std::string>>(); }
TEST_F(memory, that_is_not_there_for_a_queue) { expect_bad_alloc<muster::psim_queue<std::string>>(); }

}  // namespace
