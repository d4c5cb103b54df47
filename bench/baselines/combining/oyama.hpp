// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// oyama.hpp: a combining object. A thread that finds the object busy pushes its request onto a stack. The owner takes
// the whole stack and executes it.
//
// Order      linearizable. Requests are executed in the order of their pushes, but a thread that finds the object free
//            goes first.
// Progress   blocking. A thread that is stopped while it executes operations stops all others; while it waits it stops
//            none, unless the role has just been handed to it.
// Operations run on the thread that serves. Errors and re-entry are as with cc_synch (muster/combine/cc_synch.hpp).
// Memory     for each thread: a node of a line pair for each operation that it is in the middle of.
// Cost       alone, two compare-exchanges. Under contention all threads change one word.
// Source     Oyama, Taura and Yonezawa, "Executing parallel programs with synchronization bottlenecks efficiently",
//            PDSIA 1999. There the owner of the object serves until the stack is empty, however long; here it hands its
//            role on after `help` requests.
#pragma once

#include <muster/base/arch.hpp>                    // line_size
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
class oyama {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit oyama(const combine_options& options = {}, Args&&... args);
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~oyama() {
    MUSTER_CHECK(!waiting_.is_executing(), "a combining object is destroyed by one of its own operations");
    nodes_.await_idle();
    check();
  }
  oyama(const oyama&) = delete;
  oyama& operator=(const oyama&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  enum : std::uint32_t {
    waiting_for_turn,
    done,   // the request has been run; the node is its owner's again
    yours,  // its owner is the combiner now; `next` leads to the requests pushed after it
  };

  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in) : key(key_in) {}
    sync::atomic<std::uint32_t> state{done};
    const std::uint32_t key;  // of the owner, who waits
    // Both are the owner's until it is on the stack, then the combiner's until it is done.
    sync::cell<node*> next{nullptr};  // on the stack: the one below; taken: the one to be served after it
    sync::cell<detail::request<State>> request;
  };

  using nodes = detail::thread_nodes<node>;
  using group = typename nodes::group;

  struct serves_at_end {
    oyama& in;
    node* rest;
    group& mine;
    ~serves_at_end() { in.serve(rest, mine); }
  };

  static std::uint32_t look(const node* own) noexcept {
    // (4) acquire: pairs with (6, 7). The result is there; the combiner has the object as its last user left it.
    return own->state.load(std::memory_order_acquire);
  }
  /// Returns true when the request has been left to the combiner, false when the caller has the object.
  MUSTER_HOT bool leave_or_enter(node* own, node* seen) noexcept;
  MUSTER_HOT bool try_enter(node*& seen) noexcept {
    // (1) acquire: pairs with (5). We have the object as its last user left it.
    return top_.compare_exchange_strong(seen, &bottom_, std::memory_order_acquire, std::memory_order_relaxed);
  }
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, node* rest, group& mine) {
    const serves_at_end last{*this, rest, mine};
    const detail::inside here = waiting_.executing();
    return call.run_here(state_.ref());
  }
  /// Returns true when the request in `own` has been served, false when the caller is the combiner and must run it.
  MUSTER_COLD bool served(node* own);
  void serve(node* rest, group& mine);
  MUSTER_COLD void serve_all(node* rest);
  node* take_all_or_free() noexcept;

  const unsigned help_;
  nodes nodes_;
  node bottom_{0};
  // null: the object is free; else a thread has it, and this is the youngest request on the stack, whose end is
  // bottom_.
  alignas(isolation_size) sync::atomic<node*> top_{nullptr};
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // the combiner's
};

template <class State, class Wait>
template <class... Args>
oyama<State, Wait>::oyama(const combine_options& options, Args&&... args)
    : help_(options.help), nodes_(options.threads), state_(std::forward<Args>(args)...) {
  if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
}

template <class State, class Wait>
void oyama<State, Wait>::check() const {
  MUSTER_CHECK(top_.load(std::memory_order_relaxed) == nullptr,
               "oyama: destroyed or checked while a thread is inside an operation");
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> oyama<State, Wait>::apply(F&& function) {
  waiting_.refuse_nested();
  detail::call<State, F> call(function);
  group& mine = nodes_.own();
  node* seen = nullptr;
  node* rest = nullptr;
  if (!try_enter(seen)) [[unlikely]] {
    node* const own = mine.take();
    const detail::stay here(mine);
    own->state.store(waiting_for_turn, std::memory_order_relaxed);
    call.record(own->request.ref());
    const bool is_left = leave_or_enter(own, seen);
    const bool is_served = is_left && served(own);
    if (is_left && !is_served) rest = own->next.get();
    const typename nodes::gives_back last{mine, own};
    if (is_served) return call.fetch(own->request.ref());
  }
  return run_and_serve(call, rest, mine);
}

template <class State, class Wait>
bool oyama<State, Wait>::served(node* own) {
  waiting_.await(own->key, [&] { return look(own) != waiting_for_turn; });
  return look(own) == done;
}

/// `seen` is what was on top.
template <class State, class Wait>
bool oyama<State, Wait>::leave_or_enter(node* own, node* seen) noexcept {
  do {
    while (seen != nullptr) {
      own->next.ref() = seen;
      // (2) release: pairs with (3). The combiner sees the request, and, because each of these continues the ones
      // before, all those below it. When the same node is on top again that was there when we looked, it does not
      // matter what happened in between: we need to know what is on top, and nothing else.
      if (top_.compare_exchange_weak(seen, own, std::memory_order_release, std::memory_order_relaxed)) return true;
    }
  } while (!try_enter(seen));
  return false;
}

/// For the combiner: serves the requests from `rest` on, and those pushed in the meantime, and then hands the role on.
template <class State, class Wait>
void oyama<State, Wait>::serve(node* rest, group& mine) {
  if (rest == nullptr) rest = take_all_or_free();
  if (rest == nullptr) return;
  const detail::stay here(mine);
  serve_all(rest);
}

template <class State, class Wait>
void oyama<State, Wait>::serve_all(node* rest) {
  const detail::inside here = waiting_.executing();
  for (unsigned served = 0;; ++served) {
    if (rest == nullptr) rest = take_all_or_free();
    if (rest == nullptr) return;
    node* const at = rest;
    const std::uint32_t key = at->key;
    if (served >= help_) {
      // (7) release: pairs with (4). The next combiner has the object as we leave it, and the requests after its own.
      at->state.store(yours, std::memory_order_release);
      waiting_.happened(key);
      return;
    }
    rest = at->next.get();
    detail::run_requests(state_.ref(), &at->request, &at->request + 1);
    // (6) release: pairs with (4). The owner sees the result, and may use the node again at once.
    at->state.store(done, std::memory_order_release);
    waiting_.happened(key);
  }
}

/// Takes the stack, oldest first. Returns null when there was none: then the object is free, and not ours any more.
template <class State, class Wait>
typename oyama<State, Wait>::node* oyama<State, Wait>::take_all_or_free() noexcept {
  node* seen = &bottom_;
  // (5) release: pairs with (1). The next to come has the object as we leave it, and may end it.
  if (top_.compare_exchange_strong(seen, nullptr, std::memory_order_release, std::memory_order_relaxed)) return nullptr;
  // (3) acquire: pairs with (2).
  node* at = top_.exchange(&bottom_, std::memory_order_acquire);
  node* oldest = nullptr;
  while (at != &bottom_) {
    node* const below = at->next.get();
    at->next.ref() = oldest;
    oldest = at;
    at = below;
  }
  return oldest;
}

}  // namespace muster::bench::inline MUSTER_ABI
