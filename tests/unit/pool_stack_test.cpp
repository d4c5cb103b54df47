// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools in a program whose thread-local data do not fit into a small stack, on which the C library puts them.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>

#include "scale.hpp"

namespace {

thread_local unsigned char large[std::size_t{200} << 10U];

TEST(a_pool, whose_stacks_are_too_small_for_thread_local_data_is_refused) {
  if (muster_test::sanitized) GTEST_SKIP() << "sanitizers make room for thread-local data themselves";
  std::string what;
  try {
    const muster::pool two({.workers = 2, .stack_bytes = std::size_t{64} << 10U});
  } catch (const std::invalid_argument& error) {
    what = error.what();
  }
  EXPECT_NE(what.find("ask for more"), std::string::npos) << what;
}

TEST(a_pool, whose_stacks_are_large_enough_has_its_workers) {
  large[0] = 1;
  muster::pool two({.workers = 2, .stack_bytes = std::size_t{512} << 10U});
  EXPECT_EQ(two.workers(), 2U);
  EXPECT_EQ(two.run([] { return static_cast<int>(large[0]); }), 1);
}

}  // namespace
