// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_death.hpp: a shared_queue, a child that uses it and dies, and where the items are then. It replaces operator
// new, as shared_region.hpp does: for one source file of a program.
#pragma once

#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dying_child.hpp"
#include "running_clock.hpp"
#include "shared_region.hpp"

namespace muster_test {

using namespace std::chrono_literals;
using status = muster::queue_status;
namespace shape = muster::shape;

inline constexpr std::size_t capacity = 4;
inline constexpr muster::rank_t first_rank = (muster::rank_t{1} << 52) - 3;  // three items before the ranks wrap

// An item of several cache lines. Its value is 0, which is never pushed, if its words differ.
struct wide {
  number words[16];
  wide(number all) noexcept { std::fill_n(words, std::size(words), all); }
  operator number() const noexcept {
    return std::count(words, std::end(words), words[0]) == std::ssize(words) ? words[0] : 0;
  }
};

template <class Shape>
struct scene {
  using queue = muster::shared_queue<wide, Shape, muster::wait::park>;
  using clock = std::chrono::steady_clock;

  queue shared = queue::create_anonymous(capacity, {.ports = 4, .lanes = 2, .tag = {}, .first_rank = first_rank});
  shared_region region;
  diary& child = region.make<diary>();
  diary& keeper = region.make<diary>();

  void push(number first, number last) {
    auto port = shared.producer();
    for (number i = first; i <= last; ++i) ASSERT_EQ(port.try_push(i), status::success);
  }
  void child_pops(number most) {
    auto port = shared.consumer();
    for (number i = 0; i < most; ++i)
      if (const auto item = port.try_pop()) {
        muster_chaos::point();
        child.popped[child.pops++] = *item;
      }
  }
  void child_pushes(number first, number count) {
    auto port = shared.producer();
    for (number i = 0; i < count; ++i) {
      child.tried = i + 1;
      if (port.try_push(first + i) != status::success) return;
      child.pushed = i + 1;
    }
  }
  /// Ports that dead processes have left open.
  std::uint64_t dead() const {
    const auto all = shared.info().participants;
    return static_cast<std::uint64_t>(std::count_if(all.begin(), all.end(), [](const auto& p) { return !p.alive; }));
  }
  std::vector<number> recover() {
    std::vector<number> given;
    shared.recover([&](number item) { given.push_back(item); });
    for (const muster::shared_queue_participant& p : shared.info().participants) EXPECT_TRUE(p.alive);
    return given;
  }
  /// Pops until there is nothing to be had, for a second at most.
  std::vector<number> drain() {
    std::vector<number> items;
    auto port = shared.consumer();
    for (const auto begin = running_clock::now();;) {
      const auto item = port.try_pop();
      if (item) items.push_back(*item);
      if (item.status() == status::empty || item.status() == status::closed) return items;
      if (running_clock::now() - begin > 1s)
        return ADD_FAILURE() << "dead processes block the queue for more than a second", items;
    }
  }
  /// Every cell is used, lap after lap.
  void still_works() {
    auto in = shared.producer();
    auto out = shared.consumer();
    for (number value = 1'000; value < 1'000 + 5 * capacity; value += capacity) {
      for (number i = 0; i < capacity; ++i) ASSERT_EQ(in.try_push(value + i), status::success);
      ASSERT_EQ(in.try_push(0), status::full);
      for (number i = 0; i < capacity; ++i) {
        const auto item = out.try_pop();
        ASSERT_TRUE(item);
        ASSERT_EQ(*item, value + i);
      }
      ASSERT_EQ(out.try_pop().status(), status::empty);
    }
    shared.check();
  }
};

inline std::vector<number> together(std::vector<number> all, const std::vector<number>& more) {
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end());
  return all;
}

/// The items of 1 … n that are nowhere; each of the others is in one place.
inline std::vector<number> missing(const std::vector<number>& all, number n) {
  EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "an item is delivered twice";
  std::vector<number> none;
  for (number i = 1; i <= n; ++i)
    if (!std::binary_search(all.begin(), all.end(), i)) none.push_back(i);
  EXPECT_EQ(all.size() + none.size(), n) << "an item that was never pushed";
  return none;
}

using shapes = ::testing::Types<shape::spsc, shape::spmc, shape::mpmc, shape::lanes>;
struct shape_names {
  template <class Shape>
  static std::string GetName(int) {
    return Shape::name;
  }
};

}  // namespace muster_test
