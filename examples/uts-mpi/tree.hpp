// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// tree.hpp: a tree that is known only by its root: the children of a node follow from the node. Below each root, a node
// has eight children with a chance of slightly less than one in eight, so subtrees differ in size by thousands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace uts {

struct node {
  std::uint64_t state;
  std::uint64_t depth;
};

struct counts {
  unsigned long long nodes = 0, leaves = 0, depth = 0;

  counts& operator+=(const counts& more) noexcept {
    nodes += more.nodes;
    leaves += more.leaves;
    depth = std::max(depth, more.depth);
    return *this;
  }
  bool operator==(const counts&) const = default;
};

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `value`.
constexpr std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ value >> 30U) * 0xbf58476d1ce4e5b9U;
  value = (value ^ value >> 27U) * 0x94d049bb133111ebU;
  return value ^ value >> 31U;
}

constexpr node child_of(node parent, std::uint32_t number) noexcept {
  return {mixed(parent.state + (number + 1) * 0x9e3779b97f4a7c15U), parent.depth + 1};
}

constexpr std::uint32_t most_children = 8;
/// 0.9936 of the nodes that a node has on average would be 1: a subtree has 156 nodes on average.
constexpr bool has_children(node one) noexcept {
  return one.state >> 11U < static_cast<std::uint64_t>(0.1242 * 0x1p53);
}

/// Takes the last node off `todo`, and puts its children there.
inline counts search_one(std::vector<node>& todo) {
  const node one = todo.back();
  todo.pop_back();
  if (!has_children(one)) return {1, 1, one.depth};
  for (std::uint32_t i = 0; i < most_children; ++i) todo.push_back(child_of(one, i));
  return {1, 0, one.depth};
}

}  // namespace uts
