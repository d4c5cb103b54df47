// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combining_object.hpp: an object that many threads use, one operation at a time, executed by one thread for all. The
// technique decides which thread, and how the requests come to it.
//
// Order      linearizable: all operations on the object happen one after another, each between its call and its return.
// Killed     as stopped; the technique says which others wait then.
// Operations run on the thread that serves, which may be another than the caller's, and see its thread-local data. An
//            exception reaches the caller of its operation and no other. Operations may not apply to the same object.
// Memory     for each thread: a node of the technique for each operation that it is in the middle of.
// Errors     std::invalid_argument and std::bad_alloc from the constructor; from apply what the operation throws,
//            std::logic_error when it is called from within an operation of the same object, std::length_error when
//            more threads come than configured, std::bad_alloc at the first operations of a thread.
#pragma once

#include <muster/combine/detail/request.hpp>       // call
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI::detail {

/// A technique has
/// node                  announces one request; made from the key of the thread that waits for it.
/// request_in(node)      the request that it announces.
/// announce(group)       takes a node if it needs one. Returns a turn: `own` is the node to record the request in, or
///                       null if the caller is the combiner already; the rest is the technique's.
/// served(turn, group)   publishes the recorded request and waits. Returns true when the request has been served: the
///                       node is the caller's again. Returns false when the caller is the combiner and must run it.
/// run_and_serve(call, turn, group)
///                       for the combiner: runs its own request, then those of others, and hands the role on. Another
///                       thread may end the object after that, unless the caller stays.
/// refuse_nested(), is_executing()
///                       of how it waits (fiber_wait.hpp).
/// quiescent()           returns true if no operation has begun and not ended.
template <class State, class Technique>
class combining_object {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit combining_object(const combine_options& options = {}, Args&&... args)
      : nodes_(options.threads), technique_(options.help, std::forward<Args>(args)...) {
    if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
  }
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~combining_object() {
    MUSTER_CHECK(!technique_.is_executing(), "a combining object is destroyed by one of its own operations");
    nodes_.await_idle();
    check();
  }
  combining_object(const combining_object&) = delete;
  combining_object& operator=(const combining_object&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function) {
    technique_.refuse_nested();
    detail::call<State, F> call(function);
    group& mine = nodes_.own();
    const auto turn = technique_.announce(mine);
    if (turn.own != nullptr) [[unlikely]] {
      const stay here(mine);
      call.record(Technique::request_in(*turn.own));
      if (technique_.served(turn, mine)) {
        const typename nodes::gives_back last{mine, turn.own};
        return call.fetch(Technique::request_in(*turn.own));
      }
    }
    return technique_.run_and_serve(call, turn, mine);
  }

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const {
    MUSTER_CHECK(technique_.quiescent(),
                 "a combining object is destroyed or checked while a thread is inside an operation");
  }

 private:
  using nodes = thread_nodes<typename Technique::node>;
  using group = typename nodes::group;

  nodes nodes_;
  Technique technique_;
};

}  // namespace muster::inline MUSTER_ABI::detail
