// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combining_object.hpp: an object that many threads use, one operation at a time; one thread executes for all. The
// technique decides which thread, and how requests reach it.
//
// Order      linearizable: operations on the object happen one after another, each between its call and its return.
// Killed     as stopped; the technique states which other threads then wait.
// Operations run on the serving thread, which may not be the caller's, and see its thread-local data. An exception
//            reaches only the caller of its operation. Operations may not apply to the same object.
// Memory     per thread: a node of the technique for each operation in progress.
// Errors     the constructor throws std::invalid_argument and std::bad_alloc. apply throws exceptions from the
//            operation, and std::logic_error if called from an operation of the same object. It throws
//            std::length_error if more threads come than configured, and std::bad_alloc in a thread's first operations.
#pragma once

#include <muster/combine/detail/request.hpp>       // call
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI::detail {

/// A technique has
/// node                  announces one request; constructed from the key of the thread that waits for it.
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
/// quiescent()           returns true if no operation is in progress.
/// await_free()          optional: see object_end.
template <class State, class Technique>
class combining_object {
 public:
  /// The type of the object.
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit combining_object(const combine_options& options = {}, Args&&... args)
      : nodes_(options.threads), technique_(options.help, std::forward<Args>(args)...) {
    if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; it must be at least 1");
  }
  /// Waits for operations that have taken effect but not yet returned; no other operation may have begun.
  ~combining_object() {
    MUSTER_CHECK(!technique_.is_executing(),
                 "combining object: destroyed by one of its own operations; destroy it elsewhere");
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
        return call.take_result(Technique::request_in(*turn.own));
      }
    }
    return technique_.run_and_serve(call, turn, mine);
  }

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const {
    MUSTER_CHECK(technique_.quiescent(),
                 "combining object: destroyed or checked while a thread is inside an operation; join its users first");
  }

 private:
  friend object_end;
  void await_free() const noexcept
    requires requires(const Technique& technique) { technique.await_free(); }
  {
    technique_.await_free();
  }

  using nodes = thread_nodes<typename Technique::node>;
  using group = typename nodes::group;

  nodes nodes_;
  Technique technique_;
};

}  // namespace muster::inline MUSTER_ABI::detail
