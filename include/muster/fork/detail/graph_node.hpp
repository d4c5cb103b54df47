// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// graph_node.hpp: a node of a task graph: how many of its predecessors are still to end in a run, and the loop of a
// thread that executes a node, and then the next that becomes ready by it.
//
// Order      a node is ready when all its predecessors have ended; the thread that ends the last one sees the effects
//            of all of them.
// Failing    what follows a failed node, directly or not, is skipped: it is counted as ended without being called.
// Again      a node that becomes ready sets its count for the next run. So a run that has ended leaves all nodes as it
//            found them, whatever failed.
// Progress   one read-modify-write for each edge but the last into a node, and none for a single edge.
// Depth      no recursion, however long a chain of nodes is, and however many are skipped.
#pragma once

#include <muster/base/sync.hpp>             // sync::atomic, sync::cell
#include <muster/fork/detail/injector.hpp>  // injected

#include <cstdint>  // std::uint32_t
#include <utility>  // std::exchange

namespace muster::inline MUSTER_ABI::detail {

class graph_node : public injected {
 public:
  static constexpr std::uint32_t most = 0x7fff'ffff;  // nodes of a graph, and edges into a node

  graph_node(std::uint32_t at, action to_run, action to_drop, const void* of) noexcept
      : injected(to_run, to_drop, of), index(at) {}

  /// Before the first run, and between two.
  void connect(graph_node* const* first, std::uint32_t successors, std::uint32_t predecessors) noexcept {
    successors_ = first;
    many_ = successors;
    predecessors_ = predecessors;
    left_.store(predecessors, std::memory_order_relaxed);
  }

  /// Executes `first`, which is ready, or only skips it and what follows it. After `most_nodes`, gives the next one to
  /// other threads. Returns the number of nodes. `Run` has these members, where a node that fails is noted:
  ///   bool call(graph_node&, bool) calls the function of a ready node; returns false if its successors are skipped.
  ///                                true: the node follows another one in this call
  ///   injected_chain chain()       an empty one, for share()
  ///   bool share(injected_chain&)  gives ready nodes to other threads; returns false if that has failed
  ///   graph_node& at(index)        the node with an index
  template <class Run>
  static std::uint64_t execute(graph_node& first, bool skip, Run& in,
                               std::uint64_t most_nodes = ~std::uint64_t{0}) noexcept {
    std::uint64_t nodes = 0;
    std::uint32_t skipped = none;        // ready nodes that are not called, linked by next_
    injected_chain others = in.chain();  // further ones that one node has made ready
    const auto share_others = [&] {
      if (!in.share(others))
        others.for_each([&](injected& each) { skip_later(static_cast<graph_node&>(each), skipped); });
      others = in.chain();
    };
    for (graph_node* one = &first; one != nullptr;) {
      ++nodes;
      const bool failed = skip || !in.call(*one, nodes != 1);
      graph_node* next = nullptr;  // the first that has become ready; this thread executes it
      for (std::uint32_t i = 0; i < one->many_; ++i) {
        graph_node& successor = *one->successors_[i];
        const state now = successor.end_predecessor(failed);
        if (now == state::waits) continue;
        if (now == state::ready) {
          if (next == nullptr) {
            next = &successor;
            continue;
          }
          others.append(successor);
          if (others.size() == most_together) share_others();
        } else {
          skip_later(successor, skipped);
        }
      }
      if (next != nullptr && nodes >= most_nodes) others.append(*std::exchange(next, nullptr));
      if (others.size() != 0) share_others();
      skip = next == nullptr;
      if (skip && skipped != none) {
        next = &in.at(skipped);
        skipped = next->next_;
      }
      one = next;
    }
    return nodes;
  }

  const std::uint32_t index;  // in the order in which nodes were added

 private:
  static constexpr std::uint32_t none = ~0U, failed_bit = most + 1;
  static constexpr std::size_t most_together = 64;  // then they are given to other threads
  enum class state { waits, ready, skipped };

  static void skip_later(graph_node& one, std::uint32_t& skipped) noexcept {
    one.next_ = skipped;
    skipped = one.index;
  }

  /// Called by the thread that has executed a predecessor, for each edge.
  state end_predecessor(bool failed) noexcept {
    if (predecessors_ == 1) return failed ? state::skipped : state::ready;
    if (failed) left_.fetch_or(failed_bit, std::memory_order_relaxed);
    // (1) acquire: pairs with (2). The last one needs no read-modify-write, because it is alone.
    std::uint32_t before = left_.load(std::memory_order_acquire);
    if ((before & most) != 1) {
      // (2) acq_rel: pairs with (1), and with itself. The last one sees the effects of all predecessors.
      before = left_.fetch_sub(1, std::memory_order_acq_rel);
      if ((before & most) != 1) return state::waits;
    }
    left_.store(predecessors_, std::memory_order_relaxed);
    return (before & failed_bit) != 0 ? state::skipped : state::ready;
  }

  std::uint32_t many_ = 0;          // successors; written by connect(), as the next two
  std::uint32_t predecessors_ = 0;  // a predecessor with two edges to this node counts twice
  graph_node* const* successors_ = nullptr;
  sync::atomic<std::uint32_t> left_{0};  // predecessors that have not ended; with failed_bit if one has failed
  std::uint32_t next_ = none;            // of the list of skipped nodes; of the thread that has made it ready
};

}  // namespace muster::inline MUSTER_ABI::detail
