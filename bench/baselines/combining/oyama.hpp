// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// oyama.hpp: a combining object (muster/combine/detail/combining_object.hpp has the contract). A thread that finds the
// object busy pushes its request onto a stack. The owner takes the whole stack and executes it.
//
// Progress   blocking. A thread that is stopped while it executes operations stops all others; while it waits it stops
//            none, unless the role has just been handed to it.
// Fairness   requests are executed in the order of their pushes, but a thread that finds the object free goes first.
// Memory     a line pair per node.
// Cost       alone, two compare-exchanges. Under contention all threads change one word.
// Source     Oyama, Taura and Yonezawa, "Executing parallel programs with synchronization bottlenecks efficiently",
//            PDSIA 1999. There the owner of the object serves until the stack is empty, however long; here it hands its
//            role on after `help` requests.
#pragma once

#include "serving.hpp"

#include <muster/base/arch.hpp>  // line_size
#include <muster/base/wait.hpp>  // wait::park

#include <cstdint>  // std::uint32_t

namespace muster::bench::inline MUSTER_ABI {

template <class State, class Wait>
class oyama_technique : public serving<oyama_technique<State, Wait>, State, Wait> {
  enum : std::uint32_t {
    waiting_for_turn,
    done,   // the request has been run; the node is its owner's again
    yours,  // its owner is the combiner now; `next` leads to the requests pushed after it
  };

 public:
  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in) : key(key_in) {}
    sync::atomic<std::uint32_t> state{done};
    const std::uint32_t key;  // of the owner, who waits
    // Both are the owner's until it is on the stack, then the combiner's until it is done.
    sync::cell<node*> next{nullptr};  // on the stack: the one below; taken: the one to be served after it
    sync::cell<detail::request<State>> request;
  };
  using group = typename detail::thread_nodes<node>::group;
  struct turn {
    node* own;   // null: the object was free
    node* seen;  // on top of the stack, if it was busy
  };

  using serving<oyama_technique, State, Wait>::serving;

  MUSTER_HOT turn announce(group& mine) {
    node* seen = nullptr;
    if (try_enter(seen)) [[likely]]
      return {nullptr, nullptr};
    return {mine.take(), seen};
  }
  MUSTER_COLD bool served(turn now, group&) {
    node* const own = now.own;
    own->state.store(waiting_for_turn, std::memory_order_relaxed);
    if (leave_or_enter(own, now.seen)) {
      waiting_.await(own->key, [&] { return look(own) != waiting_for_turn; });
      return look(own) == done;
    }
    own->next.write_ref() = nullptr;
    return false;
  }
  void serve(turn now, group& mine) {
    node* rest = nullptr;
    if (now.own != nullptr) [[unlikely]] {
      rest = now.own->next.read_ref();
      mine.give_back(now.own);
    }
    if (rest == nullptr) rest = take_all_or_free();
    if (rest == nullptr) [[likely]]
      return;
    const detail::stay here(mine);
    serve_all(rest);
  }
  bool quiescent() const noexcept { return top_.load(std::memory_order_relaxed) == nullptr; }

 private:
  using serving<oyama_technique, State, Wait>::help_;
  using serving<oyama_technique, State, Wait>::waiting_;

  static std::uint32_t look(const node* own) noexcept {
    // (4) acquire: pairs with (6, 7). The result is there; the combiner has the object as its last user left it.
    return own->state.load(std::memory_order_acquire);
  }
  MUSTER_HOT bool try_enter(node*& seen) noexcept {
    // (1) acquire: pairs with (5). We have the object as its last user left it.
    return top_.compare_exchange_strong(seen, &bottom_, std::memory_order_acquire, std::memory_order_relaxed);
  }
  /// `seen` is what was on top. Returns true when the request has been left to the combiner, false when the caller has
  /// the object.
  bool leave_or_enter(node* own, node* seen) noexcept {
    do {
      while (seen != nullptr) {
        own->next.write_ref() = seen;
        // (2) release: pairs with (3). The combiner sees the request, and, because each of these continues the ones
        // before, all those below it. When the same node is on top again that was there when we looked, it does not
        // matter what happened in between: we need to know what is on top, and nothing else.
        if (top_.compare_exchange_weak(seen, own, std::memory_order_release, std::memory_order_relaxed)) return true;
      }
    } while (!try_enter(seen));
    return false;
  }
  /// Serves the requests from `rest` on, and those pushed in the meantime, and then hands the role on.
  MUSTER_COLD void serve_all(node* rest) {
    const detail::reentrancy_scope here = waiting_.executing();
    for (unsigned served = 0;; ++served) {
      if (rest == nullptr) rest = take_all_or_free();
      if (rest == nullptr) return;
      node* const at = rest;
      const std::uint32_t key = at->key;
      if (served >= help_) {
        // (7) release: pairs with (4). The next combiner has the object as we leave it, and the requests after its
        // own.
        at->state.store(yours, std::memory_order_release);
        waiting_.notify(key);
        return;
      }
      rest = at->next.read_ref();
      this->run_request(at);
      // (6) release: pairs with (4). The owner sees the result, and may use the node again at once.
      at->state.store(done, std::memory_order_release);
      waiting_.notify(key);
    }
  }
  /// Takes the stack, oldest first. Returns null when there was none: then the object is free, and not ours any more.
  node* take_all_or_free() noexcept {
    node* seen = &bottom_;
    // (5) release: pairs with (1). The next to come has the object as we leave it, and may end it.
    if (top_.compare_exchange_strong(seen, nullptr, std::memory_order_release, std::memory_order_relaxed))
      return nullptr;
    // (3) acquire: pairs with (2).
    node* at = top_.exchange(&bottom_, std::memory_order_acquire);
    node* oldest = nullptr;
    while (at != &bottom_) {
      node* const below = at->next.read_ref();
      at->next.write_ref() = oldest;
      oldest = at;
      at = below;
    }
    return oldest;
  }

  node bottom_{0};
  // null: the object is free; else a thread has it, and this is the youngest request on the stack, whose end is
  // bottom_.
  alignas(isolation_size) sync::atomic<node*> top_{nullptr};
};

template <class State, class Wait = wait::spin_then_park>
using oyama = detail::combining_object<State, oyama_technique<State, Wait>>;

}  // namespace muster::bench::inline MUSTER_ABI
