// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// locked_object.hpp: an object behind a queue lock, with the interface of a combining object.
//
// Order      linearizable; first come, first served.
// Progress   blocking. A thread that is stopped in the middle of an operation stops all that come after it.
// Operations run on their caller's thread. Errors and re-entry are as with cc_synch (muster/combine/cc_synch.hpp).
// Memory     for each thread: a node of a line pair for each operation that it is in the middle of.
#pragma once

#include <muster/base/arch.hpp>                    // isolation_size
#include <muster/base/detail/reentrancy.hpp>       // reentrancy_scope
#include <muster/base/sync.hpp>                    // sync::cell
#include <muster/combine/detail/fiber_wait.hpp>    // waiting
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <functional>   // std::invoke
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::bench::inline MUSTER_ABI {

/// A lock has
/// node                        stands in its queue; constructed from the key of its thread.
/// enter(group, waiting)       takes a node, waits for the lock, and returns the node to leave with.
/// leave(node, group, waiting) After it another thread may end the object.
/// is_free()                   only while no thread enters.
template <class State, class Wait, template <class> class Lock>
class locked_object {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit locked_object(const combine_options& options = {}, Args&&... args)
      : nodes_(options.threads), state_(std::forward<Args>(args)...) {}
  /// Operations that have had their effect do not touch the object any more; others may not have begun.
  ~locked_object() {
    MUSTER_CHECK(!waiting_.is_executing(), "a locked object is destroyed by one of its own operations");
    check();
  }
  locked_object(const locked_object&) = delete;
  locked_object& operator=(const locked_object&) = delete;

  /// Executes function(state) under the lock, here, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function) {
    waiting_.refuse_nested();
    group& mine = nodes_.own();
    const leaves_at_end last{*this, mine, lock_.enter(mine, waiting_)};
    const detail::reentrancy_scope here = waiting_.executing();
    return std::invoke(function, state_.write_ref());
  }

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const {
    MUSTER_CHECK(lock_.is_free(), "a locked object is destroyed or checked while a thread is inside an operation");
  }

 private:
  using node = typename Lock<Wait>::node;
  using group = typename detail::thread_nodes<node>::group;

  struct leaves_at_end {
    locked_object& in;
    group& mine;
    node* own;
    ~leaves_at_end() { in.lock_.leave(own, mine, in.waiting_); }
  };

  detail::thread_nodes<node> nodes_;
  Lock<Wait> lock_;
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // of the thread that holds the lock
};

}  // namespace muster::bench::inline MUSTER_ABI
