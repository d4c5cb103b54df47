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
    std::vector<std::unique_ptr<Node>>& own = own_store().all;
    if (own.empty()) return std::make_unique<Node>();
    std::unique_ptr<Node> node = std::move(own.back());
    own.pop_back();
    return node;
  }
  void give_back(std::unique_ptr<Node> node) {
    std::vector<std::unique_ptr<Node>>& own = own_store().all;
    if (own.size() < most_kept) own.push_back(std::move(node));
  }
  /// The calling thread's, for a stay() that lasts as long as it uses nodes.
  thread_part& own_part() { return own_store(); }
  /// For the destructor: returns when no thread is in the middle of an operation.
  void await_idle() const noexcept { stores_.await_idle(); }

 private:
  struct store : thread_part {
    std::vector<std::unique_ptr<Node>> all;
  };
  static constexpr std::size_t most_kept = 1024;

  store& own_store() {
    return stores_.own([](unsigned) {
      auto made = std::make_unique<store>();
      made->all.reserve(most_kept);
      return made.release();
    });
  }

  per_thread<store> stores_;
};

}  // namespace muster::inline MUSTER_ABI::detail
