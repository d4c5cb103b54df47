// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// thread_nodes.hpp: the nodes with which a thread announces its operations: one for each that it is in the middle of.
//
// A thread without fibers is in the middle of one operation at most, and takes the same node again and again. With
// fibers it may be in the middle of many, because they switch while they wait. Nodes belong to the object and not to
// the thread, so nothing is freed under those who still look at it when a thread ends.
#pragma once

#include <muster/base/wait.hpp>                  // event_mask
#include <muster/combine/detail/per_thread.hpp>  // per_thread

#include <cstdint>  // std::uint32_t
#include <vector>   // what a thread owns

namespace muster::inline MUSTER_ABI::detail {

/// Node is made from the key of those who wait for it. All nodes that a thread has made have the same, so that a thread
/// that sleeps for one of its fibers, and has not got its nodes from others, hears what happens to all of them.
template <class Node>
class thread_nodes {
 public:
  /// No node has this key: it is for events that belong to the object.
  static constexpr std::uint32_t no_nodes_key = 0;

  /// Touched by its thread only.
  class group : public thread_part {
   public:
    explicit group(std::uint32_t key) : key_(key) {}
    ~group() {
      for (Node* const node : made_) delete node;
    }
    group(const group&) = delete;
    group& operator=(const group&) = delete;

    /// make(key) returns a new Node; called when all nodes of the thread are out. Throws what make() throws.
    template <class Make>
    MUSTER_HOT Node* take(Make make) {
      if (free_.empty()) [[unlikely]]
        add(make);
      return take_again();
    }
    MUSTER_HOT Node* take() {
      return take([](std::uint32_t key) { return new Node(key); });
    }
    /// As many as have been taken, though not the same: nodes travel. It must not be looked at any more.
    MUSTER_HOT void give_back(Node* node) noexcept { free_.push_back(node); }
    /// The node that was given back last.
    Node* take_again() noexcept {
      Node* const node = free_.back();
      free_.pop_back();
      return node;
    }

   private:
    template <class Make>
    MUSTER_COLD void add(Make& make) {
      made_.reserve(made_.size() + 1);
      free_.reserve(made_.size() + 1);
      made_.push_back(make(key_));
      free_.push_back(made_.back());
    }

    const std::uint32_t key_;
    std::vector<Node*> free_;  // has room for all nodes that are out
    std::vector<Node*> made_;  // owns them
  };
  struct gives_back {
    group& to;
    Node* node;
    ~gives_back() { to.give_back(node); }
  };

  explicit thread_nodes(unsigned threads) : groups_(threads) {}

  /// The calling thread's. Throws std::bad_alloc, and std::length_error when there are more threads than configured.
  MUSTER_HOT group& own() {
    return groups_.own([this](unsigned) { return new group(new_key()); });
  }
  /// For the destructor: returns when no thread is in the middle of an operation.
  void await_idle() const noexcept { groups_.await_idle(); }

 private:
  std::uint32_t new_key() noexcept { return 1 + groups_made_.fetch_add(1, std::memory_order_relaxed) % (keys - 1); }

  static constexpr std::uint32_t keys = event_mask::keys;
  sync::atomic<std::uint32_t> groups_made_{0};
  per_thread<group> groups_;
};

}  // namespace muster::inline MUSTER_ABI::detail
