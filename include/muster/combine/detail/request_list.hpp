// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// request_list.hpp: the list of announced requests and the thread that serves them, shared by osci, osci_shared and
// cc_synch.
//
// The list is that of CC-Synch (Fatourou and Kallimanis, PPoPP 2012). Its last node has no announced request yet. An
// announcing thread installs a new last node with one exchange, gets the old one, and fills it. So the combiner always
// stops at a node, and the node's next owner finds there that it is the combiner. Emptying the list needs no
// compare-exchange, no thread waits for a link not yet set, and an uncontended operation costs one exchange. Here a
// node stands for a row of requests. Up to two are in the node itself.
#pragma once

#include <muster/base/arch.hpp>                  // line_size, prefetch_for_write
#include <muster/base/detail/brief_wait.hpp>     // brief_wait
#include <muster/base/detail/reentrancy.hpp>     // reentrancy_scope
#include <muster/base/sync.hpp>                  // sync::atomic, sync::cell
#include <muster/combine/detail/burst_slip.hpp>  // burst_slip
#include <muster/combine/detail/fiber_wait.hpp>  // waiting
#include <muster/combine/detail/per_thread.hpp>  // stay, thread_part
#include <muster/combine/detail/request.hpp>     // request, run_requests
#include <muster/fiber/this_fiber.hpp>           // this_fiber

#include <cstdint>  // std::uint32_t
#include <utility>  // std::forward

namespace muster::inline MUSTER_ABI::detail {

template <class State, class Wait>
class request_list {
 public:
  using row = sync::cell<request<State>>;
  static constexpr unsigned few = 2;

  enum : std::uint32_t {
    waiting_for_turn,
    done,   // the requests have run; the node belongs to its announcer again
    yours,  // the thread that announces it, or has announced it, is the combiner
    left,   // announced, and no thread waits: the combiner must not stop here
    taken,  // one of several waiting threads has become the combiner
  };

  struct contents {
    row* first = nullptr;
    std::uint32_t count = 0;
    std::uint32_t announcer = 0;  // a hint: the thread that has made it the last node of the list, or will
  };

  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in, std::uint32_t state_in = waiting_for_turn) : state(state_in), key(key_in) {}
    sync::atomic<node*> next{nullptr};  // written by the owner once its requests are in; null before
    sync::atomic<std::uint32_t> state;
    const std::uint32_t key;      // of the waiting threads
    sync::cell<contents> held{};  // the owner's until `next` is set, the combiner's until `state` is done
    row in_node[few];
  };

  template <class... Args>
  request_list(unsigned help, bool detached, node* first, Args&&... args)
      : help_(help), detached_(detached), tail_(first), state_(std::forward<Args>(args)...) {}

  /// Before the announcement, the caller may look at `spare` as at a node that has not been served.
  void prepare(node* spare) noexcept { spare->state.store(waiting_for_turn, std::memory_order_relaxed); }
  /// Begins an announcement: returns the node to fill, and `spare` becomes the last node.
  MUSTER_HOT node* announce(node* spare) noexcept {
    // It is already null if no node was linked to it, which saves a store before the exchange.
    if (spare->next.load(std::memory_order_relaxed) != nullptr) spare->next.store(nullptr, std::memory_order_relaxed);
    prepare(spare);
    // (1) acq_rel: pairs with (1). The next thread to announce finds `spare` as set up here.
    return tail_.exchange(spare, std::memory_order_acq_rel);
  }
  /// The same for one operation of a thread, which notes whether another thread had the one before.
  MUSTER_HOT node* announce(node* spare, burst_slip::habits& habits) noexcept {
    node* const own = announce(spare);
    if (own->held.read_ref().announcer == habits.number()) [[likely]] {
      habits.continue_burst();
    } else {
      own->held.write_ref().announcer = habits.number();  // it will be this thread's next spare node
      habits.end_burst();
    }
    return own;
  }
  /// For an empty batch: `spare` looks as if it had been served.
  void serve_unannounced(node* spare) noexcept { spare->state.store(done, std::memory_order_relaxed); }
  /// Ends an announcement: the requests in `own` can be served.
  MUSTER_HOT void link(node* own, node* spare) noexcept {
    // (2) release: pairs with (3). The combiner sees the requests.
    own->next.store(spare, std::memory_order_release);
  }
  /// Returns the state of a node that the caller has announced.
  MUSTER_HOT std::uint32_t look(const node* own) const noexcept {
    // (4) acquire: pairs with (5, 6, 8). The results are visible; a combiner sees the object as its last user left it.
    return own->state.load(std::memory_order_acquire);
  }
  /// Announces the first request in `own` and waits. Returns true once it has been served, false if the caller is the
  /// combiner and must run it. `habits` are those of the thread, which counts its operations in them.
  MUSTER_COLD bool served(node* own, node* spare, burst_slip::habits& habits) {
    own->held.write_ref() = {own->in_node, 1, habits.number()};
    link(own, spare);
    stay_away(own, habits);
    waiting_.await(own->key, [&] { return look(own) != waiting_for_turn; });
    return look(own) == done;
  }
  /// Declares that no thread will wait for `own`, which is linked. Returns false if the caller is the combiner and must
  /// serve it.
  bool leave(node* own) noexcept {
    std::uint32_t seen = waiting_for_turn;
    // (7) acquire: pairs with (8), if this thread gets the role. Otherwise no order is needed: a combiner that finds
    // `left` waits until it sees the link.
    own->state.compare_exchange_strong(seen, left, std::memory_order_acquire);
    return seen != yours;  // it may be done already
  }
  /// For several threads that wait for `own`, which was `yours`: returns true if the caller is to serve it.
  bool take_role(node* own) noexcept {
    std::uint32_t seen = yours;
    // Relaxed: (4) has seen that it is `yours`.
    return own->state.compare_exchange_strong(seen, taken, std::memory_order_relaxed);
  }
  template <class Ready>
  MUSTER_HOT void await(const node* own, Ready ready) {
    waiting_.check_joined(ready);
    waiting_.await(own->key, ready);
  }
  template <class Ready>
  void await(std::uint32_t key, Ready ready) {
    waiting_.check_joined(ready);
    waiting_.await(key, ready);
  }
  /// Call after an event that a thread may wait for with this key.
  MUSTER_HOT void notify(std::uint32_t key) noexcept { waiting_.notify(key); }

  /// Call before announcing a request; see fiber_wait.hpp.
  MUSTER_HOT void refuse_nested() const { waiting_.refuse_nested(); }
  /// Returns true if refuse_nested() would throw.
  bool is_refused() const noexcept { return waiting_.is_refused(); }
  MUSTER_HOT void yield() const noexcept { waiting_.yield(); }
  bool is_executing() const noexcept { return waiting_.is_executing(); }

  /// For the combiner: runs requests from `at` on, then hands the role on. `at` must be the combiner's own, or not yet
  /// announced by its owner. A served thread may end the object, unless the caller stays.
  void serve(node* at) { serve_some<false>(at); }
  /// The same, but hands the role on as soon as possible: runs only the requests in `at`, and those behind them that no
  /// thread waits for.
  void serve_alone(node* at) { serve_some<true>(at); }

  /// The same, after running the caller's own request, which no other thread needs to see. The caller's node was
  /// `yours`, and `spare` is the one after it.
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, node* spare, thread_part& mine) {
    const hands_on_at_end last{*this, spare, mine};
    const reentrancy_scope here = waiting_.executing();
    return call.run_here(state_.write_ref());
  }

  /// Waits until no thread has the role, which the last node then offers. No operation may begin.
  void await_free() const noexcept {
    // Relaxed: the caller knows of all announcements.
    for (brief_wait wait; look(tail_.load(std::memory_order_relaxed)) != yours; wait.pause()) this_fiber::yield();
  }
  /// Returns true if all requests have been served. Call only while no thread uses the list.
  bool quiescent() const noexcept {
    return tail_.load(std::memory_order_relaxed)->state.load(std::memory_order_relaxed) == yours;
  }
  State& state() noexcept { return state_.write_ref(); }

 private:
  void stay_away(const node* own, burst_slip::habits& habits) noexcept {
    if (this_fiber::has_siblings() || !slip_.should_stay_away(habits)) return;
    std::uint32_t state = waiting_for_turn;
    for (unsigned pauses = burst_slip::absence; pauses != 0 && state != yours; --pauses) {
      sync::relax();
      if (pauses % 4 == 0 && state == waiting_for_turn) state = look(own);
    }
  }

  template <bool Alone>
  MUSTER_HOT void serve_some(node* at) {
    const reentrancy_scope here = waiting_.executing();
    State& state = state_.write_ref();
    for (unsigned served = 0;;) {
      // (3) acquire: pairs with (2).
      node* const next = at->next.load(std::memory_order_acquire);
      if (next == nullptr || served >= (Alone ? 1 : help_)) {
        if (hand_on(at)) return;
        served = 0;
        continue;
      }
      muster::prefetch_for_write(next);
      const contents now = at->held.read_ref();
      run_requests(state, now.first, now.first + now.count);
      served += now.count;
      const std::uint32_t key = at->key;
      // (5) release: pairs with (4). The owner sees the results, and may reuse the node at once.
      at->state.store(done, std::memory_order_release);
      waiting_.notify(key);
      at = next;
    }
  }

  MUSTER_COLD void stay_and_serve(node* at, thread_part& mine) {
    const stay here(mine);
    serve(at);
  }
  struct hands_on_at_end {
    request_list& list;
    node* spare;
    thread_part& mine;
    ~hands_on_at_end() {
      // Relaxed: serve() loads it again.
      if (spare->next.load(std::memory_order_relaxed) != nullptr || !list.hand_on(spare)) [[unlikely]]
        list.stay_and_serve(spare, mine);
    }
  };

  /// Returns false if no thread is there to take the role. Otherwise it is the caller's last access to the object.
  MUSTER_HOT bool hand_on(node* at) noexcept {
    const std::uint32_t key = at->key;
    const auto events = waiting_.lasting_events();
    if (!detached_) [[likely]] {
      // (6) release: pairs with (4). The next combiner sees the object as this one leaves it, and may end it.
      at->state.store(yours, std::memory_order_release);
    } else {
      std::uint32_t seen = waiting_for_turn;
      // (8) release: pairs with (4, 7), as (6).
      if (!at->state.compare_exchange_strong(seen, yours, std::memory_order_release, std::memory_order_relaxed))
        return false;
    }
    events.notify(key);
    return true;
  }

  const unsigned help_;
  const bool detached_;
  waiting<Wait> waiting_;
  burst_slip slip_;  // written rarely
  alignas(isolation_size) sync::atomic<node*> tail_;
  alignas(isolation_size) sync::cell<State> state_;  // the combiner's
};

}  // namespace muster::inline MUSTER_ABI::detail
