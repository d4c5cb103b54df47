// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// cc_synch.hpp: an object that many threads use, one operation at a time. The requests of the threads stand in a list,
// and one of the threads serves them.
//
// Order      linearizable: all operations on the object happen one after another, each between its call and its return.
// Progress   blocking. A thread that is stopped while it executes operations stops all others; one that is stopped
//            elsewhere stops at most those whose turn comes after its own.
// Killed     as stopped.
// Fairness   first come, first served: an operation waits for those that were announced before it.
// Operations run on the thread that serves, which may be another than the caller's: they see that thread's thread-local
//            data. What they throw reaches the caller, and nobody else. They may not apply to the same object.
// Memory     for each thread: a node of two line pairs for each operation that it is in the middle of.
// Errors     std::invalid_argument and std::bad_alloc from the constructor; from apply what the operation throws,
//            std::logic_error when it is called from within an operation of the same object, std::length_error when
//            more threads come than configured, std::bad_alloc at the first operations of a thread.
// Use it     for a small object that many threads use, when they have no fibers; with fibers osci is faster. Alone, an
//            operation costs one exchange.
// Source     Fatourou and Kallimanis, "Revisiting the Combining Synchronization Technique", PPoPP 2012, CC-Synch. We
//            changed who takes the result of the combiner's own operation: it goes straight to its caller.
#pragma once

#include <muster/combine/detail/request_list.hpp>  // request_list
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class cc_synch {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit cc_synch(const combine_options& options = {}, Args&&... args);
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~cc_synch() {
    MUSTER_CHECK(!list_.is_executing(), "a combining object is destroyed by one of its own operations");
    nodes_.await_idle();
    check();
  }
  cc_synch(const cc_synch&) = delete;
  cc_synch& operator=(const cc_synch&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  using list = detail::request_list<State, Wait>;
  using node = typename list::node;
  using nodes = detail::thread_nodes<node>;

  nodes nodes_;
  node first_{0, list::yours};
  list list_;
};

template <class State, class Wait>
template <class... Args>
cc_synch<State, Wait>::cc_synch(const combine_options& options, Args&&... args)
    : nodes_(options.threads), list_(options.help, false, &first_, std::forward<Args>(args)...) {
  if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
}

template <class State, class Wait>
void cc_synch<State, Wait>::check() const {
  MUSTER_CHECK(list_.quiescent(), "cc_synch: destroyed or checked while a thread is inside an operation");
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> cc_synch<State, Wait>::apply(F&& function) {
  list_.refuse_nested();
  detail::call<State, F> call(function);
  auto& mine = nodes_.own();
  node* const spare = mine.take();
  node* const own = list_.announce(spare);
  if (list_.look(own) != list::yours) [[unlikely]] {
    const detail::stay here(mine);
    call.record(own->in_node[0].ref());
    const bool served = list_.served(own, spare);
    const typename nodes::gives_back last{mine, own};
    if (served) return call.fetch(own->in_node[0].ref());
  } else {
    mine.give_back(own);
  }
  return list_.run_and_serve(call, spare, mine);
}

}  // namespace muster::inline MUSTER_ABI
