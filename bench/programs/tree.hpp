// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// tree.hpp: the sum of the values in a balanced binary tree of nodes, after the benchmark of Spice.
#pragma once

#include "programs/program.hpp"

namespace muster::bench {

template <class S>
class tree {
 public:
  static constexpr program_sizes size{1000, 1000000, 1000000};
  static constexpr bool repeats = true;
  static constexpr bool coarse = false;

  explicit tree(std::uint64_t nodes) : nodes_(nodes) { make(0, nodes); }

  void run(S s) {
    const node* root = nodes_.data();
    opaque(root);
    value_ = call(s, root);
    wrong_ += value_ != items() * (items() - 1) / 2 ? 1U : 0U;
  }

  std::uint64_t digest() const { return value_; }
  std::string error() const { return wrong_ == 0 ? "" : "the sum over the tree is wrong"; }
  std::uint64_t items() const { return nodes_.size(); }

 private:
  struct node {
    std::uint64_t value;
    const node* left;
    const node* right;
  };

  [[gnu::noinline]] static std::uint64_t call(S s, const node* at) {
    if (at->right == nullptr) {
      S::leaf();
      return at->value + (at->left == nullptr ? 0 : call(s, at->left));
    }
    const auto [a, b] = s.template both<&tree::call>(at->left, at->right);
    return at->value + a + b;
  }

  /// Makes a subtree of `many` nodes, in the order of visits.
  const node* make(std::uint64_t first, std::uint64_t many) {
    if (many == 0) return nullptr;
    const std::uint64_t right = (many - 1) / 2;
    const std::uint64_t left = many - 1 - right;
    nodes_[first] = {first, make(first + 1, left), make(first + 1 + left, right)};
    return &nodes_[first];
  }

  std::vector<node> nodes_;
  std::uint64_t value_ = 0;
  std::uint64_t wrong_ = 0;
};

}  // namespace muster::bench
