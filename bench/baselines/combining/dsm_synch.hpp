// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// dsm_synch.hpp: a combining object. The requests of the threads stand in a list, one of the threads serves them, and
// each waits on a node of its own.
//
// Order      linearizable; first come, first served.
// Progress   blocking. A thread that is stopped while it executes operations, or between appending its node and linking
//            it, stops all others; elsewhere it stops at most the threads behind it in the list.
// Operations run on the thread that serves. Errors and re-entry are as with cc_synch (muster/combine/cc_synch.hpp).
// Memory     for each thread: a node of a line pair for each operation that it is in the middle of. It stays with the
//            thread.
// Cost       alone, an exchange and a compare-exchange.
// Source     Fatourou and Kallimanis, "Revisiting the Combining Synchronization Technique", PPoPP 2012, DSM-Synch.
//            There a node is marked as done before its link is read, so its owner needs a second one for its next
//            operation. Here the link is read first, and one is enough, however many fibers share a thread's nodes.
#pragma once

#include <muster/base/arch.hpp>                    // line_size, prefetch_for_write
#include <muster/base/inside.hpp>                  // inside
#include <muster/base/sync.hpp>                    // sync::atomic, sync::cell
#include <muster/combine/detail/fiber_wait.hpp>    // waiting
#include <muster/combine/detail/request.hpp>       // request, run_requests
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <cstdint>      // std::uint32_t
#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::bench::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class dsm_synch {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit dsm_synch(const combine_options& options = {}, Args&&... args);
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~dsm_synch() {
    MUSTER_CHECK(!waiting_.is_executing(), "a combining object is destroyed by one of its own operations");
    nodes_.await_idle();
    check();
  }
  dsm_synch(const dsm_synch&) = delete;
  dsm_synch& operator=(const dsm_synch&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  enum : std::uint32_t {
    waiting_for_turn,
    done,   // the request has been run; the node is its owner's again
    yours,  // its owner is the combiner now, and runs its request itself
  };

  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in) : key(key_in) {}
    sync::atomic<node*> next{nullptr};  // written by the next thread
    sync::atomic<std::uint32_t> state{done};
    const std::uint32_t key;                     // of the owner, who waits
    sync::cell<detail::request<State>> request;  // the owner's until it is linked, the combiner's until it is done
  };
  using nodes = detail::thread_nodes<node>;

  using group = typename nodes::group;

  struct serves_at_end {
    dsm_synch& in;
    group& mine;
    node* own;
    ~serves_at_end() { in.serve_after(mine, own); }
  };

  static std::uint32_t look(const node* own) noexcept {
    // (4) acquire: pairs with (6, 7). The result is there; the combiner has the object as its last user left it.
    return own->state.load(std::memory_order_acquire);
  }
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, group& mine, node* own) {
    const serves_at_end last{*this, mine, own};
    const detail::inside here = waiting_.executing();
    return call.run_here(state_.ref());
  }
  /// Returns true when the request in `own` has been served, false when the caller is the combiner and must run it.
  MUSTER_COLD bool served(node* own, node* before);
  void serve_after(group& mine, node* own);
  node* successor(node* at);

  const unsigned help_;
  nodes nodes_;
  alignas(isolation_size) sync::atomic<node*> tail_{nullptr};  // null: the list is empty
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // the combiner's
};

template <class State, class Wait>
template <class... Args>
dsm_synch<State, Wait>::dsm_synch(const combine_options& options, Args&&... args)
    : help_(options.help), nodes_(options.threads), state_(std::forward<Args>(args)...) {
  if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
}

template <class State, class Wait>
void dsm_synch<State, Wait>::check() const {
  MUSTER_CHECK(tail_.load(std::memory_order_relaxed) == nullptr,
               "dsm_synch: destroyed or checked while a thread is inside an operation");
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> dsm_synch<State, Wait>::apply(F&& function) {
  waiting_.refuse_nested();
  detail::call<State, F> call(function);
  group& mine = nodes_.own();
  node* const own = mine.take();
  own->next.store(nullptr, std::memory_order_relaxed);
  own->state.store(waiting_for_turn, std::memory_order_relaxed);
  // (1) acq_rel: pairs with (1, 5). The next thread finds the node as it has been set up here; when the list was
  // empty, we have the object as its last user left it.
  node* const before = tail_.exchange(own, std::memory_order_acq_rel);
  if (before != nullptr) [[unlikely]] {
    const detail::stay here(mine);
    call.record(own->request.ref());
    if (served(own, before)) {
      const typename nodes::gives_back last{mine, own};
      return call.fetch(own->request.ref());
    }
  }
  return run_and_serve(call, mine, own);
}

template <class State, class Wait>
bool dsm_synch<State, Wait>::served(node* own, node* before) {
  // (2) release: pairs with (3). The combiner sees the request.
  before->next.store(own, std::memory_order_release);
  waiting_.happened(nodes::no_nodes_key);
  waiting_.await(own->key, [&] { return look(own) != waiting_for_turn; });
  return look(own) == done;
}

/// For the combiner, when its own request has been run: runs the requests after it, and then hands the role on.
template <class State, class Wait>
void dsm_synch<State, Wait>::serve_after(group& mine, node* own) {
  const detail::inside here = waiting_.executing();
  // Relaxed: who comes too late for this look is found by the next.
  if (own->next.load(std::memory_order_relaxed) == nullptr) [[likely]] {
    node* last = own;
    mine.give_back(own);
    // (5) release: pairs with (1). The first to come into the empty list has the object as we leave it, and may end
    // it.
    if (tail_.compare_exchange_strong(last, nullptr, std::memory_order_release, std::memory_order_relaxed)) return;
    mine.take_again();
  }
  const detail::stay staying(mine);
  State& state = state_.ref();
  node* at = successor(own);
  mine.give_back(own);
  for (unsigned served = 0; at != nullptr; ++served) {
    const std::uint32_t key = at->key;
    if (served >= help_) {
      // (7) release: pairs with (4). The next combiner has the object as we leave it.
      at->state.store(yours, std::memory_order_release);
      waiting_.happened(key);
      return;
    }
    detail::run_requests(state, &at->request, &at->request + 1);
    node* const next = successor(at);
    // (6) release: pairs with (4). The owner sees the result, and may use the node again at once.
    at->state.store(done, std::memory_order_release);
    waiting_.happened(key);
    at = next;
  }
}

/// The next to be served, or null when there is none: then the object is free, and not ours any more.
template <class State, class Wait>
typename dsm_synch<State, Wait>::node* dsm_synch<State, Wait>::successor(node* at) {
  // (3) acquire: pairs with (2).
  node* next = at->next.load(std::memory_order_acquire);
  if (next == nullptr) {
    node* last = at;
    // (5)
    if (tail_.compare_exchange_strong(last, nullptr, std::memory_order_release, std::memory_order_relaxed))
      return nullptr;
    // A thread has appended a node and is about to link it.
    waiting_.await(nodes::no_nodes_key, [&] {
      next = at->next.load(std::memory_order_acquire);  // (3)
      return next != nullptr;
    });
  }
  muster::prefetch_for_write(next);
  return next;
}

}  // namespace muster::bench::inline MUSTER_ABI
