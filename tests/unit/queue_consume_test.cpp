// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// consume and front: items that are used in their cells.

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "counted.hpp"
#include "queue_kinds.hpp"

using muster::queue_options;
using muster::queue_status;
using namespace muster_test;

namespace {

template <class Kind>
class queue_consume : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(counted::alive(), 0); }
  void TearDown() override { EXPECT_EQ(counted::alive(), 0) << "items were lost or destroyed twice"; }
};
TYPED_TEST_SUITE(queue_consume, varied_kinds, kind_names);

TYPED_TEST(queue_consume, shows_each_item_once_and_in_order) {
  for (const std::uint64_t start : start_ranks) {
    typename TypeParam::template of<counted> q(4, queue_options{.first_rank = start});
    std::uint64_t seen = 0;
    const auto next = [&seen](const counted& item) {
      EXPECT_EQ(item.value(), seen + 1);
      EXPECT_GE(counted::alive(), 1);
      return seen = item.value();  // which is ignored
    };
    for (std::uint64_t i = 1; i <= 60; i += 3) {
      for (std::uint64_t k = 0; k < 3; ++k) ASSERT_EQ(q.emplace(i + k), queue_status::success);
      EXPECT_EQ(q.consume(next), queue_status::success);
      EXPECT_EQ(counted::alive(), 2);
      EXPECT_EQ(q.try_consume(next), queue_status::success);
      EXPECT_EQ(q.consume_for(next, std::chrono::hours(1)), queue_status::success);
    }
    EXPECT_EQ(seen, 60U);
    q.check();
  }
}

TYPED_TEST(queue_consume, reports_what_a_pop_would) {
  typename TypeParam::template of<counted> q(4);
  int calls = 0;
  const auto count = [&calls](counted&) { ++calls; };
  const auto now = std::chrono::steady_clock::now();
  EXPECT_EQ(q.try_consume(count), queue_status::empty);
  EXPECT_EQ(q.consume_for(count, std::chrono::milliseconds(1)), queue_status::empty);
  EXPECT_EQ(q.consume_until(count, now), queue_status::empty);
  ASSERT_EQ(q.emplace(std::uint64_t{1}), queue_status::success);
  ASSERT_EQ(q.emplace(std::uint64_t{2}), queue_status::success);
  q.close();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(q.consume_until(count, now), queue_status::success);  // there is an item: nothing to wait for
  EXPECT_EQ(q.consume(count, std::stop_token()), queue_status::success);
  EXPECT_EQ(q.consume(count), queue_status::closed);
  EXPECT_EQ(q.try_consume(count), queue_status::closed);
  EXPECT_EQ(q.consume_for(count, std::chrono::hours(1)), queue_status::closed);
  EXPECT_EQ(calls, 2);
}

/// Neither copied nor moved.
struct fixed {
  explicit fixed(int v) : value(v) {}
  fixed(const fixed&) = delete;
  fixed& operator=(const fixed&) = delete;
  int value;
  const fixed* const self = this;
};

TYPED_TEST(queue_consume, takes_items_that_cannot_be_moved) {
  typename TypeParam::template of<fixed> q(3);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(q.emplace(i), queue_status::success);
    EXPECT_EQ(q.consume([i](fixed& item) { EXPECT_TRUE(item.value == i && item.self == &item); }),
              queue_status::success);
  }
  ASSERT_EQ(q.emplace(20), queue_status::success);
}

TYPED_TEST(queue_consume, lets_the_function_change_or_move_the_item) {
  typename TypeParam::template of<std::unique_ptr<int>> q(2);
  ASSERT_EQ(q.emplace(std::make_unique<int>(7)), queue_status::success);
  std::unique_ptr<int> kept;
  struct once {
    std::unique_ptr<int>& to;
    std::unique_ptr<int> cannot_be_copied;
    void operator()(std::unique_ptr<int>& item) {
      ++*item;
      to = std::move(item);
    }
  };
  EXPECT_EQ(q.consume(once{kept, nullptr}), queue_status::success);
  ASSERT_TRUE(kept);
  EXPECT_EQ(*kept, 8);
}

TYPED_TEST(queue_consume, removes_the_item_whose_function_throws) {
  for (const std::uint64_t start : start_ranks) {
    typename TypeParam::template of<counted> q(2, queue_options{.first_rank = start});
    const auto refuse = [](const counted& item) { throw refusal(item.value()); };
    const auto expect = [&](std::uint64_t value, auto consume) {
      try {
        consume();
        ADD_FAILURE() << "the exception must reach the caller of consume";
      } catch (const refusal& r) {
        EXPECT_EQ(r.value, value);
      }
      EXPECT_EQ(counted::alive(), 1) << "one is left";
    };
    for (std::uint64_t i = 1; i <= 80; i += 4)
      for (int form = 0; form < 4; ++form) {
        ASSERT_EQ(q.emplace(i), queue_status::success);
        ASSERT_EQ(q.emplace(i + 1), queue_status::success);
        if (form == 0) expect(i, [&] { q.consume(refuse); });
        if (form == 1) expect(i, [&] { q.try_consume(refuse); });
        if (form == 2) expect(i, [&] { q.consume_for(refuse, std::chrono::hours(1)); });
        if (form == 3) expect(i, [&] { q.consume(refuse, std::stop_token()); });
        EXPECT_EQ(q.pop()->value(), i + 1);
      }
    q.check();
  }
}

TYPED_TEST(queue_consume, keeps_the_cell_until_the_function_has_returned) {
  for (const std::uint64_t start : start_ranks) {
    typename TypeParam::template of<counted> q(4, queue_options{.first_rank = start});
    for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_EQ(q.emplace(i), queue_status::success);
    const auto look = [&](const counted& item) {
      if constexpr (TypeParam::consumers == 1) {
        EXPECT_EQ(q.try_emplace(std::uint64_t{5}), queue_status::full) << "the item still takes its place";
      } else {
        // Some laps around the cell.
        for (std::uint64_t i = 5; i < 500; ++i) {
          ASSERT_EQ(q.try_emplace(i), queue_status::success) << "the item takes no place";
          ASSERT_EQ(q.consume([&](const counted& other) { EXPECT_EQ(other.value(), i - 3); }), queue_status::success);
        }
      }
      EXPECT_EQ(item.value(), 1U);
    };
    EXPECT_EQ(q.consume(look), queue_status::success);
    q.close();
    EXPECT_EQ(q.try_pop()->value(), TypeParam::consumers == 1 ? 2U : 497U);
    q.check();
  }
}

TYPED_TEST(queue_consume, is_woken_by_an_item_and_by_the_end) {
  using queue = typename TypeParam::template of<counted>;
  const auto forms = {
      +[](queue& q, std::uint64_t& sum) { return q.consume([&](counted& i) { sum += i.value(); }); },
      +[](queue& q, std::uint64_t& sum) {
        return q.consume_for([&](counted& i) { sum += i.value(); }, std::chrono::hours(1));
      },
      +[](queue& q, std::uint64_t& sum) {
        return q.consume_until([&](counted& i) { sum += i.value(); },
                               std::chrono::system_clock::now() + std::chrono::hours(1));
      },
      +[](queue& q, std::uint64_t& sum) {
        return q.consume([&](counted& i) { sum += i.value(); }, std::stop_source().get_token());
      },
  };
  for (const auto form : forms) {
    queue q(2);
    std::atomic<std::uint64_t> told{0};
    std::thread consumer([&] {
      std::uint64_t sum = 0;
      while (form(q, sum) == queue_status::success) told = sum;
    });
    q.emplace(std::uint64_t{1});
    while (told != 1) std::this_thread::sleep_for(std::chrono::microseconds(100));
    for (std::uint64_t i = 2; i <= 50; ++i) q.emplace(i);  // the consumer makes room
    q.close();
    consumer.join();
    EXPECT_EQ(told, 50U * 51 / 2);
  }
}

TYPED_TEST(queue_consume, ends_when_a_stop_is_requested) {
  typename TypeParam::template of<counted> q(2);
  std::stop_source stop;
  std::thread consumer([&] { EXPECT_EQ(q.consume([](counted&) {}, stop.get_token()), queue_status::empty); });
  stop.request_stop();
  consumer.join();
  EXPECT_EQ(q.consume([](counted&) {}, stop.get_token()), queue_status::empty);  // it need not wait
}

TYPED_TEST(queue_consume, shares_items_with_pops) {
  constexpr std::uint64_t items = 20'000;
  constexpr std::size_t consumers = TypeParam::consumers == 1 ? 1 : 4;
  typename TypeParam::template of<counted> q(16);
  std::atomic<std::uint64_t> sum{0}, number{0};
  std::vector<std::jthread> threads;
  for (std::size_t c = 0; c < consumers; ++c)
    threads.emplace_back([&] {
      const auto add = [&](const counted& item) {
        sum += item.value();
        ++number;
      };
      for (queue_status status = queue_status::success; status != queue_status::closed;) {
        status = q.consume(add);
        if (status == queue_status::success) status = q.try_consume(add);
        if (const auto item = q.pop()) add(*item);
        else status = item.status();
      }
    });
  for (std::uint64_t i = 1; i <= items; ++i) ASSERT_EQ(q.emplace(i), queue_status::success);
  q.close();
  threads.clear();
  EXPECT_EQ(number, items);
  EXPECT_EQ(sum, items * (items + 1) / 2);
}

TEST(queue_consume_test, handles_of_lanes_consume) {
  muster::lanes<counted> all(4, {.producers = 3});
  {
    auto one = all.producer(), two = all.producer(), three = all.producer();
    auto consumer = all.consumer();
    std::uint64_t sum = 0;
    const auto add = [&](const counted& item) { sum += item.value(); };
    for (std::uint64_t i = 1; i <= 200; ++i) {
      for (auto* lane : {&one, &two, &three}) ASSERT_EQ(lane->emplace(i), queue_status::success);
      ASSERT_EQ(consumer.consume([&](const counted& item) {
        add(item);
        EXPECT_EQ(consumer.try_consume(add), queue_status::success);  // the handle is free meanwhile
      }),
                queue_status::success);
      ASSERT_EQ(all.consume_for(add, std::chrono::hours(1)), queue_status::success);
    }
    EXPECT_EQ(sum, 3 * 200U * 201 / 2);
    EXPECT_EQ(consumer.consume_for(add, std::chrono::nanoseconds(0)), queue_status::empty);
    all.close();
    EXPECT_EQ(consumer.consume(add), queue_status::closed);
  }
  EXPECT_EQ(counted::alive(), 0);
}

TEST(queue_front, is_the_next_item_and_stays) {
  for (const std::uint64_t start : start_ranks) {
    muster::spsc_queue<counted> q(3, queue_options{.first_rank = start});
    EXPECT_EQ(q.front(), nullptr);
    for (std::uint64_t i = 1; i <= 30; ++i) {
      ASSERT_EQ(q.emplace(i), queue_status::success);
      ASSERT_EQ(q.emplace(100 + i), queue_status::success);
      counted* const first = q.front();
      ASSERT_NE(first, nullptr);
      EXPECT_EQ(first->value(), i);
      EXPECT_EQ(q.front(), first);
      EXPECT_EQ(q.size_approx(), 2U);
      EXPECT_EQ(counted::alive(), 2);
      *first = counted(1000 + i);
      if (i % 2 == 0) EXPECT_EQ(q.pop()->value(), 1000 + i);
      else
        EXPECT_EQ(q.consume([&](counted& item) { EXPECT_TRUE(&item == first && item.value() == 1000 + i); }),
                  queue_status::success);
      EXPECT_EQ(q.front()->value(), 100 + i);
      EXPECT_EQ(q.try_pop()->value(), 100 + i);
      EXPECT_EQ(q.front(), nullptr);
    }
    ASSERT_EQ(q.emplace(std::uint64_t{1}), queue_status::success);
    q.close();
    EXPECT_EQ(q.front()->value(), 1U);
    EXPECT_TRUE(q.pop());
    EXPECT_EQ(q.front(), nullptr);
  }
}

// An item whose function may fail is kept by front(), and taken when it has succeeded.
TEST(queue_front, keeps_an_item_that_could_not_be_handled) {
  muster::spsc_queue<counted> q(8);
  for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_EQ(q.emplace(i), queue_status::success);
  q.close();
  std::vector<std::uint64_t> handled;
  int failures = 0;
  while (const counted* next = q.front()) {
    try {
      if (next->value() == 3 && failures++ < 2) throw refusal(3);
      handled.push_back(next->value());
    } catch (const refusal&) {
      continue;
    }
    q.try_consume([](counted&) {});
  }
  EXPECT_EQ(failures, 3);
  EXPECT_EQ(handled, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
}

TEST(queue_front, sees_items_of_another_thread) {
  muster::spsc_queue<counted> q(4);
  std::jthread producer([&] {
    for (std::uint64_t i = 1; i <= 20'000; ++i) q.emplace(i);
    q.close();
  });
  std::uint64_t last = 0;
  for (;;) {
    if (const counted* next = q.front()) {
      ASSERT_EQ(next->value(), last + 1);
      ASSERT_EQ(q.pop()->value(), ++last);
    } else if (const auto item = q.pop()) {
      ASSERT_EQ(item->value(), ++last);
    } else {
      break;
    }
  }
  EXPECT_EQ(last, 20'000U);
}

}  // namespace
