// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mcs.hpp: an object behind a queue lock. Each thread waits on a node of its own.
//
// Order      linearizable; first come, first served.
// Progress   blocking. A thread that is stopped in the middle of an operation stops all that come after it.
// Operations run on their caller's thread. Errors and re-entry are as with cc_synch (muster/combine/cc_synch.hpp).
// Memory     for each thread: a node of a line pair for each operation that it is in the middle of.
// Cost       alone, an exchange and a compare-exchange.
// Source     Mellor-Crummey and Scott, "Algorithms for scalable synchronization on shared-memory multiprocessors", TOCS
//            1991.
#pragma once

#include <muster/base/arch.hpp>                    // line_size
#include <muster/base/inside.hpp>                  // inside
#include <muster/base/sync.hpp>                    // sync::atomic, sync::cell
#include <muster/combine/detail/fiber_wait.hpp>    // waiting
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <cstdint>      // std::uint32_t
#include <functional>   // std::invoke
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::bench::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class mcs {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit mcs(const combine_options& options = {}, Args&&... args)
      : nodes_(options.threads), state_(std::forward<Args>(args)...) {}
  /// Operations that have had their effect do not touch the object any more; others may not have begun.
  ~mcs() {
    MUSTER_CHECK(!waiting_.is_executing(), "a combining object is destroyed by one of its own operations");
    check();
  }
  mcs(const mcs&) = delete;
  mcs& operator=(const mcs&) = delete;

  /// Executes function(state) under the lock, here, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  enum : std::uint32_t {
    waiting_for_turn,
    yours,  // its owner has the object
  };

  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in) : key(key_in) {}
    sync::atomic<node*> next{nullptr};  // written by the next thread
    sync::atomic<std::uint32_t> state{yours};
    const std::uint32_t key;  // of the owner, who waits
  };
  using nodes = detail::thread_nodes<node>;

  struct leaves_at_end {
    mcs& in;
    typename nodes::group& mine;
    node* own;
    ~leaves_at_end() { in.leave(mine, own); }
  };
  MUSTER_COLD void await_turn(node* own, node* before);
  void leave(typename nodes::group& mine, node* own);

  nodes nodes_;
  alignas(isolation_size) sync::atomic<node*> tail_{nullptr};  // null: the object is free
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // of the thread that holds the lock
};

template <class State, class Wait>
void mcs<State, Wait>::check() const {
  MUSTER_CHECK(tail_.load(std::memory_order_relaxed) == nullptr,
               "mcs: destroyed or checked while a thread is inside an operation");
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> mcs<State, Wait>::apply(F&& function) {
  waiting_.refuse_nested();
  auto& mine = nodes_.own();
  node* const own = mine.take();
  own->next.store(nullptr, std::memory_order_relaxed);
  own->state.store(waiting_for_turn, std::memory_order_relaxed);
  // (1) acq_rel: pairs with (1, 5). The next thread finds the node as it has been set up here; when the object
  // was free, we have the object as its last user left it.
  node* const before = tail_.exchange(own, std::memory_order_acq_rel);
  if (before != nullptr) [[unlikely]]
    await_turn(own, before);
  const leaves_at_end last{*this, mine, own};
  const detail::inside here = waiting_.executing();
  return std::invoke(function, state_.ref());
}

template <class State, class Wait>
void mcs<State, Wait>::await_turn(node* own, node* before) {
  // (2) release: pairs with (3). Our state is set up before it is overwritten.
  before->next.store(own, std::memory_order_release);
  waiting_.happened(nodes::no_nodes_key);
  // (4) acquire: pairs with (6).
  waiting_.await(own->key, [&] { return own->state.load(std::memory_order_acquire) == yours; });
}

template <class State, class Wait>
void mcs<State, Wait>::leave(typename nodes::group& mine, node* own) {
  // (3) acquire: pairs with (2).
  node* next = own->next.load(std::memory_order_acquire);
  if (next == nullptr) {
    node* last = own;
    mine.give_back(own);
    // (5) release: pairs with (1). The first to come has the object as we leave it, and may end it.
    if (tail_.compare_exchange_strong(last, nullptr, std::memory_order_release, std::memory_order_relaxed)) return;
    mine.take_again();
    // A thread has appended a node and is about to link it.
    waiting_.await(nodes::no_nodes_key, [&] {
      next = own->next.load(std::memory_order_acquire);  // (3)
      return next != nullptr;
    });
  }
  mine.give_back(own);
  const std::uint32_t key = next->key;
  const auto events = waiting_.lasting_events();
  // (6) release: pairs with (4). The next has the object as we leave it, and may end it.
  next->state.store(yours, std::memory_order_release);
  events.happened(key);
}

}  // namespace muster::bench::inline MUSTER_ABI
