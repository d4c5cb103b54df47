// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// node_pool.hpp: nodes that threads of an object take and give back, each from and to a store of its own.
//
// A thread that gives back more than it takes frees what is over `most_kept`; the rest is freed with the object.
#pragma once

#include <muster/combine/impl/per_thread.hpp>  // per_thread

#include <cstddef>  // std::size_t
#include <memory>   // std::unique_ptr
#include <vector>   // the store

namespace muster::inline MUSTER_ABI::detail {

template <class Node>
class node_pool {
 public:
  explicit node_pool(unsigned threads) : stores_(threads) {}

  /// Throws std::bad_alloc, and std::length_error when there are more threads than configured.
  std::unique_ptr<Node> take() {
    store& own = own_store();
    if (own.empty()) return std::make_unique<Node>();
    std::unique_ptr<Node> node = std::move(own.back());
    own.pop_back();
    return node;
  }
  void give_back(std::unique_ptr<Node> node) {
    store& own = own_store();
    if (own.size() < most_kept) own.push_back(std::move(node));
  }

 private:
  using store = std::vector<std::unique_ptr<Node>>;
  static constexpr std::size_t most_kept = 1024;

  store& own_store() {
    return stores_.own([] {
      auto made = std::make_unique<store>();
      made->reserve(most_kept);
      return made.release();
    });
  }

  per_thread<store> stores_;
};

}  // namespace muster::inline MUSTER_ABI::detail
