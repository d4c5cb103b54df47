// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// clh.hpp: an object behind a queue lock. Each thread waits on the node of the thread before it.
//
// Order      linearizable; first come, first served.
// Progress   blocking. A thread that is stopped in the middle of an operation stops all that come after it.
// Operations run on their caller's thread. Errors and re-entry are as with cc_synch (muster/combine/cc_synch.hpp).
// Memory     for each thread: a node of a line pair for each operation that it is in the middle of.
// Cost       alone, one exchange. Under contention the object moves to another core with each operation.
// Source     Craig, "Building FIFO and priority-queuing spin locks from atomic swap", 1993; Magnusson, Landin and
//            Hagersten, "Queue locks on cache coherent multiprocessors", IPPS 1994.
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
class clh {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit clh(const combine_options& options = {}, Args&&... args)
      : nodes_(options.threads), state_(std::forward<Args>(args)...) {}
  /// Operations that have had their effect do not touch the object any more; others may not have begun.
  ~clh() {
    MUSTER_CHECK(!waiting_.is_executing(), "a combining object is destroyed by one of its own operations");
    check();
  }
  clh(const clh&) = delete;
  clh& operator=(const clh&) = delete;

  /// Executes function(state) under the lock, here, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  enum : std::uint32_t {
    left,  // its owner has left the object and the node to the next thread
    held,  // its owner has the object or waits for it
  };

  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in) : key(key_in) {}
    sync::atomic<std::uint32_t> state{left};
    const std::uint32_t key;  // of the one after, who waits
  };

  struct leaves_at_end {
    typename detail::waiting<Wait>::events events;
    node* own;
    ~leaves_at_end() {
      const std::uint32_t key = own->key;
      // (2) release: pairs with (3). The next has the object as we leave it, and the node; and may end the object.
      own->state.store(left, std::memory_order_release);
      events.happened(key);
    }
  };
  static bool has_left(const node* before) noexcept {
    // (3) acquire: pairs with (2).
    return before->state.load(std::memory_order_acquire) == left;
  }
  MUSTER_COLD void await_turn(const node* before) {
    waiting_.await(before->key, [&] { return has_left(before); });
  }

  detail::thread_nodes<node> nodes_;
  node first_{0};
  alignas(isolation_size) sync::atomic<node*> tail_{&first_};
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // of the thread that holds the lock
};

template <class State, class Wait>
void clh<State, Wait>::check() const {
  MUSTER_CHECK(tail_.load(std::memory_order_relaxed)->state.load(std::memory_order_relaxed) == left,
               "clh: destroyed or checked while a thread is inside an operation");
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> clh<State, Wait>::apply(F&& function) {
  waiting_.refuse_nested();
  auto& mine = nodes_.own();
  node* const own = mine.take();
  own->state.store(held, std::memory_order_relaxed);
  const auto events = waiting_.lasting_events();
  // (1) acq_rel: pairs with (1). The next thread finds our node held, and not as it was before.
  node* const before = tail_.exchange(own, std::memory_order_acq_rel);
  if (!has_left(before)) [[unlikely]]
    await_turn(before);
  mine.give_back(before);
  const leaves_at_end last{events, own};
  const detail::inside here = waiting_.executing();
  return std::invoke(function, state_.ref());
}

}  // namespace muster::bench::inline MUSTER_ABI
