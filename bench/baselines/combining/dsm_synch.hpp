// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// dsm_synch.hpp: a combining object (muster/combine/detail/combining_object.hpp has the contract). The requests of the
// threads stand in a list, one of the threads serves them, and each waits on a node of its own.
//
// Progress   blocking. A thread that is stopped while it executes operations, or between appending its node and linking
//            it, stops all others; elsewhere it stops at most the threads behind it in the list.
// Fairness   first come, first served.
// Memory     a line pair per node, which stays with the thread.
// Cost       alone, an exchange and a compare-exchange.
// Source     Fatourou and Kallimanis, "Revisiting the Combining Synchronization Technique", PPoPP 2012, DSM-Synch.
//            There a node is marked as done before its link is read, so its owner needs a second one for its next
//            operation. Here the link is read first, and one is enough, however many fibers share a thread's nodes.
#pragma once

#include "mcs_queue.hpp"
#include "serving.hpp"

#include <muster/base/arch.hpp>  // line_size, prefetch_for_write
#include <muster/base/wait.hpp>  // wait::park

#include <cstdint>  // std::uint32_t

namespace muster::bench::inline MUSTER_ABI {

template <class State, class Wait>
class dsm_synch_technique : public serving<dsm_synch_technique<State, Wait>, State, Wait> {
  enum : std::uint32_t {
    waiting_for_turn,
    done,   // the request has been run; the node is its owner's again
    yours,  // its owner is the combiner now, and runs its request itself
  };

 public:
  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in) : key(key_in) {}
    sync::atomic<node*> next{nullptr};
    sync::atomic<std::uint32_t> state{done};
    const std::uint32_t key;                     // of the owner, who waits
    sync::cell<detail::request<State>> request;  // the owner's until it is linked, the combiner's until it is done
  };
  using group = typename detail::thread_nodes<node>::group;
  struct turn {
    node* own;     // null: the list was empty
    node* at;      // the same; never null
    node* before;  // to which `own` must be linked
  };

  using serving<dsm_synch_technique, State, Wait>::serving;

  MUSTER_HOT turn announce(group& mine) {
    node* const own = mine.take();
    own->state.store(waiting_for_turn, std::memory_order_relaxed);
    node* const before = queue_.append(own);
    return {before == nullptr ? nullptr : own, own, before};
  }
  MUSTER_COLD bool served(turn now, group&) {
    node* const own = now.own;
    queue_.link(now.before, own, waiting_);
    waiting_.await(own->key, [&] { return look(own) != waiting_for_turn; });
    return look(own) == done;
  }
  void serve(turn now, group& mine) {
    const detail::reentrancy_scope here = waiting_.executing();
    mine.give_back(now.at);
    if (queue_.try_end(now.at)) [[likely]]
      return;
    mine.take_again();
    const detail::stay staying(mine);
    node* at = queue_.behind(now.at, waiting_);
    mine.give_back(now.at);
    for (unsigned served = 0; at != nullptr; ++served) {
      muster::prefetch_for_write(at);
      const std::uint32_t key = at->key;
      if (served >= help_) {
        // (3) release: pairs with (1). The next combiner has the object as we leave it.
        at->state.store(yours, std::memory_order_release);
        waiting_.notify(key);
        return;
      }
      this->run_request(at);
      node* const next = queue_.try_end(at) ? nullptr : queue_.behind(at, waiting_);
      // (2) release: pairs with (1). The owner sees the result, and may use the node again at once.
      at->state.store(done, std::memory_order_release);
      waiting_.notify(key);
      at = next;
    }
  }
  bool quiescent() const noexcept { return queue_.is_empty(); }

 private:
  using serving<dsm_synch_technique, State, Wait>::help_;
  using serving<dsm_synch_technique, State, Wait>::waiting_;

  static std::uint32_t look(const node* own) noexcept {
    // (1) acquire: pairs with (2, 3). The result is there; the combiner has the object as its last user left it.
    return own->state.load(std::memory_order_acquire);
  }

  mcs_queue<node, Wait> queue_;
};

template <class State, class Wait = wait::spin_then_park>
using dsm_synch = detail::combining_object<State, dsm_synch_technique<State, Wait>>;

}  // namespace muster::bench::inline MUSTER_ABI
