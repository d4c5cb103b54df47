// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// nodes.hpp: the nodes with which a thread announces its operations: one for each that it is in the middle of.
//
// A thread without fibers is in the middle of one operation at most, and takes the same node again and again. With
// fibers it may be in the middle of many, because they switch while they wait. Nodes belong to the object and not to
// the thread, so nothing is freed under those who still look at it when a thread ends.
#pragma once

#include <muster/base/wait.hpp>                // event_mask
#include <muster/combine/impl/per_thread.hpp>  // per_thread

#include <cstdint>  // std::uint32_t
#include <vector>   // what a thread owns

namespace muster::inline MUSTER_ABI::detail {

/// Node is made from the key of those who wait for it. All nodes that a thread has made have the same, so that a thread
/// that sleeps for one of its fibers, and has not got its nodes from others, hears what happens to all of them.
template <class Node>
class thread_nodes {
  /// Touched by the thread with its number only.
  struct group {
    explicit group(std::uint32_t key_in) : key(key_in) {}
    ~group() {
      for (Node* const node : made) delete node;
    }
    group(const group&) = delete;
    group& operator=(const group&) = delete;

    const std::uint32_t key;
    std::vector<Node*> free;  // has room for all nodes that are out
    std::vector<Node*> made;  // owns them
  };

 public:
  /// No node has this key: it is for events that belong to the object.
  static constexpr std::uint32_t no_nodes_key = 0;

  explicit thread_nodes(unsigned threads) : groups_(threads) {}

  /// A node, until the end of the operation that has taken it.
  class loan {
   public:
    loan(group& from, Node* node) noexcept : from_(from), node_(node) {}
    ~loan() { from_.free.push_back(node_); }
    loan(const loan&) = delete;
    loan& operator=(const loan&) = delete;

    Node* node() const noexcept { return node_; }
    /// Another is given back in its place.
    void replace(Node* other) noexcept { node_ = other; }

   private:
    group& from_;
    Node* node_;
  };

  /// For the calling thread. make(key) returns a new Node; called when all nodes of the thread are out. Throws
  /// std::length_error when there are more threads than configured, and what make() throws.
  template <class Make>
  MUSTER_HOT loan take(Make make) {
    group& g = groups_.own([this] { return new group(new_key()); });
    if (g.free.empty()) [[unlikely]]
      add(g, make);
    Node* const node = g.free.back();
    g.free.pop_back();
    return loan(g, node);
  }
  MUSTER_HOT loan take() {
    return take([](std::uint32_t key) { return new Node(key); });
  }

 private:
  std::uint32_t new_key() noexcept { return 1 + groups_made_.fetch_add(1, std::memory_order_relaxed) % (keys - 1); }
  template <class Make>
  MUSTER_COLD void add(group& g, Make& make) {
    g.made.reserve(g.made.size() + 1);
    g.free.reserve(g.made.size() + 1);
    g.made.push_back(make(g.key));
    g.free.push_back(g.made.back());
  }

  static constexpr std::uint32_t keys = event_mask::keys;
  sync::atomic<std::uint32_t> groups_made_{0};
  per_thread<group> groups_;
};

}  // namespace muster::inline MUSTER_ABI::detail
