// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled over every side of both seams: each has all names (sync_side.hpp, lane_side.hpp). The objects of several
// sides are linked to one program, which tests that no two have a name in common.
#include "lane_side.hpp"
#include "sync_side.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <typeinfo>
#include <vector>

#if !defined(MUSTER_SEAM_SIDE)
#define MUSTER_SEAM_SIDE standard
#endif

/// The same function for all sides.
inline std::vector<std::string>& linked_sides() {
  static std::vector<std::string> all;
  return all;
}

namespace {

/// The name of an atomic includes the namespace of its side.
const std::string mine = [] {
  linked_sides().emplace_back(typeid(muster::gpu::atomic<unsigned>).name());
  return linked_sides().back();
}();

TEST(MUSTER_SEAM_SIDE, shares_no_name_with_another_side) {
  EXPECT_GE(linked_sides().size(), 2U);
  EXPECT_EQ(std::ranges::count(linked_sides(), mine), 1) << mine;
}

}  // namespace
