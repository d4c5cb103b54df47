// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The features that only osci has: batches of one thread, tickets, posted requests, states that execute batches; and
// how a request stores its callable.
#include <gtest/gtest.h>
#include <muster/combine/osci.hpp>
#include <muster/combine/osci_shared.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::osci;

struct refusal {
  int number;
};

TEST(apply_batch, keeps_its_order_over_several_batches) {
  osci<std::vector<int>> numbers({.batch = 4});
  struct append {
    int n;
    std::size_t operator()(std::vector<int>& all) const {
      all.push_back(n);
      return all.size();
    }
  };
  std::vector<append> functions;
  for (int i = 0; i < 10; ++i) functions.push_back({i});
  std::vector<std::size_t> places(10);
  EXPECT_EQ(numbers.apply_batch(std::span(functions), places.begin()), places.end());
  const auto order = numbers.apply([](std::vector<int>& all) { return all; });
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(places[i], i + 1);
    EXPECT_EQ(order[i], static_cast<int>(i));
  }
}

TEST(apply_batch, executes_all_and_rethrows_the_first_exception) {
  osci<int> count({.batch = 3});
  std::vector<int> numbers(8);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::function<void(int&)>> functions;
  for (const int n : numbers)
    functions.emplace_back([n](int& c) {
      ++c;
      if (n % 3 == 2) throw refusal{n};
    });
  try {
    count.apply_batch(std::span(functions), static_cast<int*>(nullptr));
    ADD_FAILURE() << "nothing is thrown";
  } catch (const refusal& r) {
    EXPECT_EQ(r.number, 2);
  }
  EXPECT_EQ(count.apply([](int& c) { return c; }), 8);
  count.apply_batch(std::span<std::function<void(int&)>>(), static_cast<int*>(nullptr));
}

TEST(apply_batch, does_not_overtake_requests_that_were_posted) {
  osci<std::vector<int>> numbers({.detached = true});
  struct append {
    int n;
    void operator()(std::vector<int>& all) const noexcept { all.push_back(n); }
  };
  const auto post_and_apply = [&](int n) {
    numbers.post(append{n});
    auto ticket = numbers.submit(append{n + 1});
    std::vector<append> functions{{n + 2}, {n + 3}};
    numbers.apply_batch(std::span(functions), static_cast<int*>(nullptr));
    EXPECT_TRUE(ticket.ready());
    ticket.get();
  };
  post_and_apply(0);
  EXPECT_EQ(numbers.apply([](std::vector<int>& all) { return all; }), (std::vector<int>{0, 1, 2, 3}));
  // Into the batch that another fiber is about to publish.
  muster::fiber other([&] { numbers.apply(append{100}); });
  muster::fiber one([&] { post_and_apply(4); });
  one.join();
  other.join();
  auto order = numbers.apply([](std::vector<int>& all) { return all; });
  std::erase(order, 100);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(submit, gives_each_ticket_its_own_result) {
  osci<long> sum({.batch = 4, .detached = true}, 5L);
  auto add = [&](long n) { return sum.submit([n](long& s) { return s += n; }); };
  using ticket = decltype(add(1));
  std::vector<ticket> tickets;
  for (const long n : {1, 10, 100, 1000, 10000, 100000}) tickets.push_back(add(n));
  EXPECT_TRUE(tickets[0].ready());
  EXPECT_FALSE(tickets[5].ready());
  EXPECT_EQ(tickets[5].get(), 111116);
  EXPECT_FALSE(tickets[5].valid());
  long expected = 5, n = 1;
  for (std::size_t i = 0; i < 5; ++i, n *= 10) EXPECT_EQ(tickets[i].get(), expected += n);
}

TEST(submit, hands_an_exception_to_get_and_drops_it_without_a_get) {
  osci<int> count({.detached = true});
  auto refused = count.submit([](int&) -> int { throw refusal{3}; });
  {
    const auto dropped = count.submit([](int& c) -> int { throw refusal{++c}; });
  }
  auto moved = std::move(refused);
  EXPECT_FALSE(refused.valid());
  EXPECT_THROW(moved.get(), refusal);
  EXPECT_EQ(count.apply([](int& c) { return c; }), 1);
}

TEST(post, is_executed_with_the_next_apply_at_flush_and_at_the_end) {
  auto log = std::make_shared<std::vector<int>>();
  {
    osci<std::shared_ptr<std::vector<int>>> object({.batch = 4, .detached = true}, log);
    const auto post = [&](int n) { object.post([n](auto& all) noexcept { all->push_back(n); }); };
    post(1);
    EXPECT_TRUE(log->empty());
    object.flush();
    EXPECT_EQ(*log, (std::vector{1}));
    post(2);
    object.apply([](auto& all) { all->push_back(3); });
    EXPECT_EQ(*log, (std::vector{1, 2, 3}));
    for (int n = 4; n < 8; ++n) post(n);
    EXPECT_EQ(log->size(), 7U);  // a full batch
    post(8);
    std::thread([&] { post(9); }).join();  // a thread that ends does not lose what it has posted
  }
  std::sort(log->begin(), log->end());
  EXPECT_EQ(*log, (std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(post, from_fibers_of_many_threads_is_executed_once_each) {
  osci<std::array<int, 3>> counts({.batch = 8, .detached = true});
  muster::run_team({.carriers = 3, .fibers = 8}, [&](unsigned, unsigned) {
    for (int i = 0; i < 300; ++i) {
      counts.post([](auto& c) noexcept { ++c[0]; });
      if (i % 3 == 0) counts.apply([](auto& c) { ++c[1]; });
      if (i % 5 == 0) {
        EXPECT_GT(counts.submit([](auto& c) { return ++c[2]; }).get(), 0);
      }
    }
    counts.flush();
  });
  EXPECT_EQ(counts.apply([](auto& c) { return c; }), (std::array{7200, 2400, 1440}));
}

/// Counts how its requests come.
struct batches {
  struct one {
    int operator()(batches&) const noexcept { return -1; }
  };
  void execute(muster::batch<batches, one, int> all) noexcept {
    ++times;
    for (std::size_t i = 0; i < all.size(); ++i) all[i].result(++requests);
  }
  int times = 0;
  int requests = 0;
};

TEST(a_state_that_executes_batches, gets_lines_that_travel_together_at_once) {
  osci<batches> object({.batch = 8});
  std::array<batches::one, 20> functions;
  std::array<int, 20> results{};
  object.apply_batch(std::span<const batches::one>(functions), results.begin());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(results[static_cast<std::size_t>(i)], i + 1);
  EXPECT_EQ(object.apply([](batches& b) { return b.times; }), 3);
}

struct both {
  int calls = 0;
  int operator()(int&) { return ++calls; }
  int operator()(int&) const { return -1; }
};

TEST(a_callable, that_is_an_lvalue_is_called_and_not_a_copy) {
  osci<int> object({.batch = 2});
  std::vector<muster::fiber> others;  // so that the request is recorded
  for (int i = 0; i < 3; ++i)
    others.emplace_back([&] {
      both mine;
      for (int n = 1; n < 4; ++n) EXPECT_EQ(object.apply(mine), n);
      EXPECT_EQ(mine.calls, 3);
      EXPECT_EQ(object.apply(std::as_const(mine)), -1);
    });
}

TEST(a_result, can_be_an_rvalue_reference) {
  osci<std::string> object({}, "kept");
  std::vector<muster::fiber> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      std::string&& there = object.apply([](std::string& s) -> std::string&& { return std::move(s); });
      EXPECT_EQ(there, "kept");
    });
}

TEST(bad_input, is_refused) {
  EXPECT_THROW(osci<int>({.threads = 0}), std::invalid_argument);
  EXPECT_THROW(osci<int>({.batch = 0}), std::invalid_argument);
  EXPECT_THROW(osci<int>({.help = 0}), std::invalid_argument);
  EXPECT_THROW(muster::osci_shared<int>({.batch = 0}), std::invalid_argument);
  EXPECT_THROW(muster::osci_shared<int>({.help = 0}), std::invalid_argument);
  osci<int> attached;
  EXPECT_THROW(attached.post([](int&) noexcept {}), std::logic_error);
  EXPECT_THROW(attached.submit([](int& n) { return n; }), std::logic_error);
}

TEST(misuse_death, ends_with_a_message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto object = std::make_unique<osci<int>>(muster::combine_options{.detached = true});
        const auto open = object->submit([](int& n) { return n; });
        object.reset();
      },
      "ticket is open");
  EXPECT_DEATH(
      {
        osci<int> object({.detached = true});
        auto ticket = object.submit([](int& n) { return n; });
        ticket.get();
        ticket.get();
      },
      "has been used or moved from");
  EXPECT_DEATH(
      {
        osci<int> object({.detached = true});
        auto ticket = object.submit([](int& n) { return n; });
        std::jthread([&] { static_cast<void>(ticket.ready()); }).join();
      },
      "another thread");
  EXPECT_DEATH(
      {
        osci<int> object({.detached = true});
        auto ticket = object.submit([](int& n) { return n; });
        std::jthread([taken = std::move(ticket)] { static_cast<void>(taken.valid()); }).join();
      },
      "another thread");
  EXPECT_DEATH(
      {
        osci<int> object({.detached = true});
        std::optional ticket(object.submit([](int& n) { return n; }));
        object.apply([&](int&) { ticket.reset(); });
      },
      "destroyed within an operation of its object");
}

// It would wait for itself.
TEST(a_ticket, is_not_awaited_within_an_operation_of_its_object) {
  osci<int> object({.detached = true}), other({.detached = true});
  const auto add_one = [](int& n) { return ++n; };
  auto done = object.submit(add_one);
  object.flush();
  std::optional<osci<int>::ticket<int>> open(object.submit(add_one));
  object.apply([&](int&) {  // with which it travels
    EXPECT_THROW(open->get(), std::logic_error);
    EXPECT_EQ(other.submit(add_one).get(), 1);
    EXPECT_EQ(done.get(), 1);
  });
  EXPECT_EQ(open->get(), 2);
  for (const bool announced : {false, true}) {
    bool begun = false;
    open.reset();
    muster::fiber applying([&] {
      object.apply([&](int&) {
        begun = true;
        while (!open) muster::this_fiber::yield();
        EXPECT_THROW(open->get(), std::logic_error);
        EXPECT_THROW(muster::fiber([&] { open->get(); }).join(), std::logic_error);
      });
    });
    while (!begun) muster::this_fiber::yield();
    open.emplace(object.submit(add_one));
    if (announced) object.flush();
    applying.join();
    EXPECT_TRUE(open->valid());
    EXPECT_EQ(open->get(), announced ? 4 : 3);
  }
}

TEST(a_ticket, belongs_to_its_thread) {
  osci<int> object({.detached = true});
  auto ticket = object.submit([](int& n) { return n += 2; });
  std::jthread([&] {
    EXPECT_THROW(ticket.get(), std::logic_error);
    object.apply([](int& n) { n += 10; });
    EXPECT_THROW(ticket.get(), std::logic_error);
  }).join();
  EXPECT_TRUE(ticket.valid());
  EXPECT_EQ(ticket.get(), 12);
}

// From all kinds of destructors it is in thread_end_test.cpp.
TEST(post, is_executed_when_the_thread_ends) {
  osci<int> object({.detached = true});
  for (int round = 0; round < 3; ++round) {
    std::vector<std::jthread> all;
    for (int i = 0; i < 10; ++i)
      all.emplace_back([&] {
        object.post([](int& n) noexcept { ++n; });
        muster::fiber([&] { object.post([](int& n) noexcept { ++n; }); }).join();
      });
    all.clear();
    EXPECT_EQ(object.apply([](int& n) { return n; }), 20 * (round + 1));
  }
}

}  // namespace
