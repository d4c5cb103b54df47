// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Asyncs within asyncs, as deep as the program has them: chains, fans and trees, in a stack of ordinary
// size.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>

#include "fork_settings.hpp"
#include "scale.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::async_scope;

class depth : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(in, depth, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

constexpr std::size_t many = muster_test::scaled(200'000);

/// Visits that are counted one by one: each node must be visited once.
class visits {
 public:
  explicit visits(std::size_t nodes) : nodes_(nodes), counts_(std::make_unique<std::atomic<unsigned char>[]>(nodes)) {}
  void operator()(std::size_t node) { counts_[node].fetch_add(1, std::memory_order_relaxed); }
  std::size_t wrong() const {
    std::size_t found = 0;
    for (std::size_t i = 0; i < nodes_; ++i) found += counts_[i] != 1;
    return found;
  }

 private:
  const std::size_t nodes_;
  const std::unique_ptr<std::atomic<unsigned char>[]> counts_;
};

void chain(async_scope& scope, visits& seen, std::size_t node, std::size_t end) {
  seen(node);
  if (node + 1 != end) scope.async([&scope, &seen, node, end] { chain(scope, seen, node + 1, end); });
}

TEST_P(depth, of_a_chain) {
  constexpr std::size_t million = muster_test::scaled(1'000'000);
  visits seen(million);
  workers_.run([&] { muster::finish([&](async_scope& scope) { chain(scope, seen, 0, million); }); });
  EXPECT_EQ(seen.wrong(), 0U);
}

TEST_P(depth, of_a_hundred_chains) {
  visits seen(many);
  constexpr std::size_t each = many / 100;
  workers_.run([&] {
    muster::finish([&](async_scope& scope) {
      for (std::size_t i = 0; i < 100; ++i) scope.async([&, i] { chain(scope, seen, i * each, (i + 1) * each); });
    });
  });
  EXPECT_EQ(seen.wrong(), 0U);
}

TEST_P(depth, of_a_fan_at_the_end_of_a_chain) {
  visits seen(2 * many);
  const std::function<void(async_scope&, std::size_t)> visit = [&](async_scope& scope, std::size_t node) {
    seen(node);
    if (node + 1 < many) {
      scope.async([&, node] { visit(scope, node + 1); });
    } else {
      for (std::size_t i = 0; i < many; ++i) scope.async([&, i] { seen(many + i); });
    }
  };
  workers_.run([&] { muster::finish([&](async_scope& scope) { visit(scope, 0); }); });
  EXPECT_EQ(seen.wrong(), 0U);
}

/// A node's children are the next one, or several; both forms alternate all the way down.
TEST_P(depth, of_a_tree_of_chains_and_fans) {
  visits seen(many);
  const std::function<void(async_scope&, std::size_t, std::size_t)> visit = [&](async_scope& scope, std::size_t first,
                                                                                std::size_t end) {
    seen(first++);
    const std::size_t size = end - first;
    if (size == 0) return;
    // Of chains, until a node that has three children with subtrees of different sizes.
    const std::size_t parts = first % 1000 == 0 ? 3 : 1;
    std::size_t at = first;
    for (std::size_t p = 0; p < parts && at != end; ++p) {
      const std::size_t next = p + 1 == parts ? end : at + (end - at + 3) / 4;
      scope.async([&visit, &scope, at, next] { visit(scope, at, next); });
      at = next;
    }
  };
  workers_.run([&] { muster::finish([&](async_scope& scope) { visit(scope, 0, many); }); });
  EXPECT_EQ(seen.wrong(), 0U);
}

/// The chain continues from a scope within each async.
TEST_P(depth, out_of_scopes_within) {
  visits seen(many), inner(many);
  const std::function<void(async_scope&, std::size_t)> visit = [&](async_scope& outer, std::size_t node) {
    seen(node);
    muster::finish([&](async_scope& scope) {
      scope.async([&, node] {
        inner(node);
        if (node + 1 < many) outer.async([&, node] { visit(outer, node + 1); });
      });
    });
  };
  workers_.run([&] { muster::finish([&](async_scope& scope) { visit(scope, 0); }); });
  EXPECT_EQ(seen.wrong(), 0U);
  EXPECT_EQ(inner.wrong(), 0U);
}

TEST_P(depth, of_a_chain_begun_by_the_second_half_of_a_fork) {
  visits seen(2 * many);
  workers_.run([&] {
    muster::finish([&](async_scope& scope) {
      muster::fork2([&] { chain(scope, seen, 0, many); }, [&] { chain(scope, seen, many, 2 * many); });
    });
  });
  EXPECT_EQ(seen.wrong(), 0U);
}

TEST_P(depth, of_a_chain_on_a_fiber) {
  visits seen(many);
  muster::fiber here(
      [&] { workers_.run([&] { muster::finish([&](async_scope& scope) { chain(scope, seen, 0, many); }); }); });
  here.join();
  EXPECT_EQ(seen.wrong(), 0U);
}

// With the least stack that a pool may have.
TEST(depth_in_small_stacks, of_chains) {
  for (const unsigned workers : {1U, 3U}) {
    muster::pool pool({.workers = workers, .stack_bytes = std::size_t{64} << 10U});
    visits seen(many);
    constexpr std::size_t each = many / 100;
    pool.run([&] {
      muster::finish([&](async_scope& scope) {
        for (std::size_t i = 0; i < 100; ++i) scope.async([&, i] { chain(scope, seen, i * each, (i + 1) * each); });
      });
    });
    EXPECT_EQ(seen.wrong(), 0U);
  }
}

// Asyncs are kept as long as there is stack; later calls must not overflow it.
TEST(depth_in_small_stacks, of_a_fan_of_chains_at_the_end_of_a_chain) {
  constexpr std::size_t fan = 2000, each = muster_test::scaled(1000);
  for (const unsigned workers : {1U, 3U}) {
    muster::pool pool({.workers = workers, .stack_bytes = std::size_t{1} << 20U});
    visits seen(each + fan * each);
    const std::function<void(async_scope&, std::size_t)> visit = [&](async_scope& scope, std::size_t node) {
      seen(node);
      if (node + 1 < each) return scope.async([&, node] { visit(scope, node + 1); });
      for (std::size_t i = 1; i <= fan; ++i) scope.async([&, i] { chain(scope, seen, i * each, (i + 1) * each); });
    };
    muster::fiber small(muster::stack_options{.size = std::size_t{160} << 10U},
                        [&] { pool.run([&] { muster::finish([&](async_scope& scope) { visit(scope, 0); }); }); });
    small.join();
    EXPECT_EQ(seen.wrong(), 0U);
  }
}

// An exception at the end of a chain is rethrown; asyncs that have not begun when a stop is requested are dropped.
TEST_P(depth, and_what_comes_out_of_it) {
  visits seen(many);
  const std::function<void(async_scope&, std::size_t)> visit = [&](async_scope& scope, std::size_t node) {
    seen(node);
    if (node + 1 == many) throw std::runtime_error("the end");
    scope.async([&, node] { visit(scope, node + 1); });
  };
  EXPECT_THROW(workers_.run([&] { muster::finish([&](async_scope& scope) { visit(scope, 0); }); }), std::runtime_error);
  EXPECT_EQ(seen.wrong(), 0U);

  std::stop_source stop;
  std::atomic<std::size_t> visited{0};
  const std::function<void(async_scope&, std::size_t)> until_stopped = [&](async_scope& scope, std::size_t node) {
    ++visited;
    if (node == many / 2) stop.request_stop();
    scope.async([&, node] { until_stopped(scope, node + 1); });
  };
  workers_.run([&] { muster::finish([&](async_scope& scope) { until_stopped(scope, 0); }, stop.get_token()); });
  EXPECT_EQ(visited, many / 2 + 1);
}

}  // namespace
