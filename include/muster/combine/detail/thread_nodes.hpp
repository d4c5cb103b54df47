// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// thread_nodes.hpp: the nodes with which a thread announces its operations, one for each operation in progress.
//
// A thread without fibers has at most one operation in progress and reuses the same node. With fibers it may have many,
// because fibers switch while they wait. Nodes belong to the object, not to the thread, so none is freed when a thread
// ends while others may still read it.
#pragma once

#include <muster/base/detail/eventcount.hpp>     // eventcount
#include <muster/combine/detail/burst_slip.hpp>  // burst_slip
#include <muster/combine/detail/per_thread.hpp>  // per_thread

#include <cstdint>  // std::uint32_t
#include <vector>   // owned by a thread

namespace muster::inline MUSTER_ABI::detail {

/// Node is constructed from the key of the threads that wait for it. All nodes made by one thread share a key, so a
/// thread that sleeps for one of its fibers hears of events for all of its own nodes.
template <class Node>
class thread_nodes {
 public:
  /// Reserved for events of the object: no node has this key.
  static constexpr std::uint32_t no_nodes_key = 0;

  /// Touched only by its thread.
  class group : public thread_part {
   public:
    explicit group(std::uint32_t key) : key_(key) {}
    ~group() {
      for (Node* const node : made_) delete node;
    }
    group(const group&) = delete;
    group& operator=(const group&) = delete;

    /// Calls make(key) for a new Node if all nodes of the thread are in use. Throws exceptions from make().
    template <class Make>
    MUSTER_HOT Node* take(Make make) {
      if (free_.empty()) [[unlikely]]
        add(make);
      return take_again();
    }
    MUSTER_HOT Node* take() {
      return take([](std::uint32_t key) { return new Node(key); });
    }
    /// Gives back as many nodes as were taken, though not the same: nodes travel. The node must not be accessed
    /// afterwards.
    MUSTER_HOT void give_back(Node* node) noexcept { free_.push_back(node); }
    /// Returns the node that was given back last.
    Node* take_again() noexcept {
      Node* const node = free_.back();
      free_.pop_back();
      return node;
    }

    burst_slip::habits habits;  // for techniques that let others use the object in bursts

   private:
    template <class Make>
    MUSTER_COLD void add(Make& make) {
      made_.reserve(made_.size() + 1);
      free_.reserve(made_.size() + 1);
      made_.push_back(make(key_));
      free_.push_back(made_.back());
    }

    const std::uint32_t key_;
    std::vector<Node*> free_;  // has room for all nodes in use
    std::vector<Node*> made_;  // owns them
  };
  struct gives_back {
    group& to;
    Node* node;
    ~gives_back() { to.give_back(node); }
  };

  explicit thread_nodes(unsigned threads) : groups_(threads) {}

  /// The calling thread's group. Throws std::bad_alloc, and std::length_error if there are more threads than
  /// configured.
  MUSTER_HOT group& own() {
    return groups_.own([this](unsigned) { return new group(new_key()); });
  }
  /// For the destructor: waits until no thread is inside an operation.
  void await_idle() const noexcept { groups_.await_idle(); }

 private:
  std::uint32_t new_key() noexcept { return 1 + groups_made_.fetch_add(1, std::memory_order_relaxed) % (keys - 1); }

  static constexpr std::uint32_t keys = eventcount::keys;
  sync::atomic<std::uint32_t> groups_made_{0};
  per_thread<group> groups_;
};

}  // namespace muster::inline MUSTER_ABI::detail
