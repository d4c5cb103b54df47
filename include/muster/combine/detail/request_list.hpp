// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// request_list.hpp: the list of announced requests and the one thread that serves them: what osci, cc_synch and h_synch
// have in common.
//
// The list is that of CC-Synch (Fatourou and Kallimanis, PPoPP 2012). It ends with a node in which nothing is announced
// yet. Whoever announces puts a new last node there with one exchange, gets the old one, and fills that. So the place
// where the combiner stops is always a node, whose next owner finds in it that it is the combiner now: there is no
// compare-exchange to empty the list, nobody waits for a link that is not set yet, and an object that nobody else uses
// costs one exchange an operation.
// A node here stands for a row of requests. Up to two lie in the node itself.
#pragma once

#include <muster/base/arch.hpp>                  // line_size, prefetch_for_write
#include <muster/base/inside.hpp>                // inside
#include <muster/base/sync.hpp>                  // sync::atomic, sync::cell
#include <muster/combine/detail/fiber_wait.hpp>  // waiting
#include <muster/combine/detail/per_thread.hpp>  // stay, thread_part
#include <muster/combine/detail/request.hpp>     // request, run_requests

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
    done,   // the requests have been run; the node belongs to those who announced it
    yours,  // whoever announces it, or has announced it, is the combiner
    left,   // announced, and nobody waits: the combiner must not stop here
    taken,  // one of several who wait has become the combiner
  };

  struct contents {
    row* first = nullptr;
    unsigned count = 0;
  };

  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in, std::uint32_t state_in = waiting_for_turn) : state(state_in), key(key_in) {}
    sync::atomic<node*> next{nullptr};  // written by the owner once its requests are in; null before
    sync::atomic<std::uint32_t> state;
    const std::uint32_t key;      // of those who wait
    sync::cell<contents> held{};  // the owner's until `next` is set, the combiner's until `state` is done
    row in_node[few];
  };

  template <class... Args>
  request_list(unsigned help, bool detached, node* first, Args&&... args)
      : help_(help), detached_(detached), tail_(first), state_(std::forward<Args>(args)...) {}

  /// Before it is announced, the caller may look at `spare` as at a node that has not been served.
  void prepare(node* spare) noexcept { spare->state.store(waiting_for_turn, std::memory_order_relaxed); }
  /// Begins an announcement: returns the node to fill, and `spare` is the last node now.
  MUSTER_HOT node* announce(node* spare) noexcept {
    // It is null already where nothing was linked to the node: then a store less stands before the exchange.
    if (spare->next.load(std::memory_order_relaxed) != nullptr) spare->next.store(nullptr, std::memory_order_relaxed);
    prepare(spare);
    // (1) acq_rel: pairs with (1). The next to announce finds `spare` as it has been set up here.
    return tail_.exchange(spare, std::memory_order_acq_rel);
  }
  /// Nothing is left to announce: `spare` looks as if it had been served.
  void serve_unannounced(node* spare) noexcept { spare->state.store(done, std::memory_order_relaxed); }
  /// Ends it: what `own` holds can be served.
  MUSTER_HOT void link(node* own, node* spare) noexcept {
    // (2) release: pairs with (3). The combiner sees the requests.
    own->next.store(spare, std::memory_order_release);
  }
  /// The state of a node that the caller has announced.
  MUSTER_HOT std::uint32_t look(const node* own) const noexcept {
    // (4) acquire: pairs with (5, 6, 8). The results are there; a combiner has the object as its last user left it.
    return own->state.load(std::memory_order_acquire);
  }
  /// Announces the first request in `own` and waits. Returns true when it has been served, false when the caller is the
  /// combiner and must run it.
  MUSTER_COLD bool served(node* own, node* spare) {
    own->held.ref() = {own->in_node, 1};
    link(own, spare);
    waiting_.await(own->key, [&] { return look(own) != waiting_for_turn; });
    return look(own) == done;
  }
  /// Nobody will wait for `own`, which is linked. Returns false when the caller is the combiner and must serve it.
  bool leave(node* own) noexcept {
    std::uint32_t seen = waiting_for_turn;
    // (7) acquire: pairs with (8), when the role is ours. Otherwise nothing is needed, and the combiner that finds
    // `left` looks for the link until it sees it.
    own->state.compare_exchange_strong(seen, left, std::memory_order_acquire);
    return seen != yours;  // it may be done already
  }
  /// Several wait for `own`, which was `yours`: whether the caller is the one who serves it.
  bool take_role(node* own) noexcept {
    std::uint32_t seen = yours;
    // Relaxed: (4) has seen that it is `yours`.
    return own->state.compare_exchange_strong(seen, taken, std::memory_order_relaxed);
  }
  template <class Ready>
  MUSTER_HOT void await(const node* own, Ready ready) {
    waiting_.await(own->key, ready);
  }
  template <class Ready>
  void await(std::uint32_t key, Ready ready) {
    waiting_.await(key, ready);
  }
  /// After an event that somebody may wait for with this key.
  MUSTER_HOT void happened(std::uint32_t key) noexcept { waiting_.happened(key); }

  /// Before a request is announced; see fiber_wait.hpp.
  MUSTER_HOT void refuse_nested() const { waiting_.refuse_nested(); }
  MUSTER_HOT void yield() const noexcept { waiting_.yield(); }
  bool is_executing() const noexcept { return waiting_.is_executing(); }

  /// For the combiner: runs requests from `at` on, and then hands the role on. `at` must be its own, or one whose owner
  /// has not announced it yet. Those who are served may end the object, unless the caller stays.
  void serve(node* at) {
    const inside here = waiting_.executing();
    State& state = state_.ref();
    for (unsigned served = 0;;) {
      // (3) acquire: pairs with (2).
      node* const next = at->next.load(std::memory_order_acquire);
      if (next == nullptr || served >= help_) {
        if (hand_on(at)) return;
        served = 0;
        continue;
      }
      muster::prefetch_for_write(next);
      const contents now = at->held.get();
      run_requests(state, now.first, now.first + now.count);
      served += now.count;
      const std::uint32_t key = at->key;
      // (5) release: pairs with (4). The owner sees the results, and may use the node again at once.
      at->state.store(done, std::memory_order_release);
      waiting_.happened(key);
      at = next;
    }
  }

  /// The same when the caller's own request, which nobody else needs to know, is run first. `own` is its node, found
  /// to be `yours`, and `spare` the one after.
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, node* spare, thread_part& mine) {
    const hands_on_at_end last{*this, spare, mine};
    const inside here = waiting_.executing();
    return call.run_here(state_.ref());
  }

  /// Only while nobody uses the list: whether all requests have been served.
  bool quiescent() const noexcept {
    return tail_.load(std::memory_order_relaxed)->state.load(std::memory_order_relaxed) == yours;
  }
  State& state() noexcept { return state_.ref(); }

 private:
  MUSTER_COLD void stay_and_serve(node* at, thread_part& mine) {
    const stay here(mine);
    serve(at);
  }
  struct hands_on_at_end {
    request_list& list;
    node* spare;
    thread_part& mine;
    ~hands_on_at_end() {
      // Relaxed: serve() looks again.
      if (spare->next.load(std::memory_order_relaxed) != nullptr || !list.hand_on(spare)) [[unlikely]]
        list.stay_and_serve(spare, mine);
    }
  };

  /// Returns false when nobody is there to take the role. Otherwise, the last that the caller does with the object.
  MUSTER_HOT bool hand_on(node* at) noexcept {
    const std::uint32_t key = at->key;
    const auto events = waiting_.lasting_events();
    if (!detached_) [[likely]] {
      // (6) release: pairs with (4). The next combiner has the object as we leave it, and may end it.
      at->state.store(yours, std::memory_order_release);
    } else {
      std::uint32_t seen = waiting_for_turn;
      // (8) release: pairs with (4, 7), as (6).
      if (!at->state.compare_exchange_strong(seen, yours, std::memory_order_release, std::memory_order_relaxed))
        return false;
    }
    events.happened(key);
    return true;
  }

  const unsigned help_;
  const bool detached_;
  alignas(isolation_size) sync::atomic<node*> tail_;
  alignas(isolation_size) waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // the combiner's
};

}  // namespace muster::inline MUSTER_ABI::detail
