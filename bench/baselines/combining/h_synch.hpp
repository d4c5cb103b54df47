// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// h_synch.hpp: a combining object for a machine where some threads are nearer to each other than to the rest. Each
// cluster of threads has a list and a combiner; the combiners share a lock.
//
// Order      linearizable; first come, first served, among the threads of a cluster, and among the combiners.
// Progress   blocking. A thread that is stopped while it is a combiner stops all others; elsewhere it stops at most the
//            threads of its cluster behind it in the list.
// Operations run on the thread that serves. Errors and re-entry are as with cc_synch (muster/combine/cc_synch.hpp).
// Memory     for each thread: a node of a line pair for each operation that it is in the middle of; for each cluster
//            some lines.
// Cost       with one cluster there is no lock, and it is cc_synch.
// Source     Fatourou and Kallimanis, "Revisiting the Combining Synchronization Technique", PPoPP 2012, H-Synch, with
//            the lock of Craig and of Magnusson, Landin and Hagersten (clh.hpp).
#pragma once

#include <muster/base/arch.hpp>                    // line_size, prefetch_for_write
#include <muster/base/inside.hpp>                  // inside
#include <muster/base/sync.hpp>                    // sync::atomic, sync::cell
#include <muster/combine/detail/fiber_wait.hpp>    // waiting
#include <muster/combine/detail/request.hpp>       // request, run_requests
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <cstdint>      // std::uint32_t
#include <memory>       // std::unique_ptr
#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::bench::inline MUSTER_ABI {

struct h_synch_options : combine_options {
  /// A thread belongs to the one that its number gives, modulo this.
  unsigned clusters = 1;
};

template <class State, class Wait = wait::spin_then_park>
class h_synch {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit h_synch(const h_synch_options& options = {}, Args&&... args);
  template <class... Args>
  explicit h_synch(const combine_options& options, Args&&... args)
      : h_synch(h_synch_options{options}, std::forward<Args>(args)...) {}
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~h_synch() {
    MUSTER_CHECK(!waiting_.is_executing(), "a combining object is destroyed by one of its own operations");
    nodes_.await_idle();
    check();
  }
  h_synch(const h_synch&) = delete;
  h_synch& operator=(const h_synch&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  enum : std::uint32_t {
    waiting_for_turn,
    done,   // the request has been run; the node belongs to the thread that announced it
    yours,  // the thread that announces it, or has announced it, is the combiner of the cluster
  };

  struct cluster;
  struct alignas(2 * line_size) node {
    node(std::uint32_t key_in, cluster& home_in, std::uint32_t state_in = waiting_for_turn)
        : state(state_in), key(key_in), home(home_in) {}
    sync::atomic<node*> next{nullptr};  // written by the owner once its request is in; null before
    sync::atomic<std::uint32_t> state;
    const std::uint32_t key;                     // of the owner, who waits
    cluster& home;                               // where it goes from thread to thread
    sync::cell<detail::request<State>> request;  // the owner's until `next` is set, the combiner's until it is done
  };

  /// A place in the queue for the object.
  struct alignas(isolation_size) place {
    sync::atomic<std::uint32_t> taken{0};  // 1: its cluster has the object or waits for it
    std::uint32_t key = 0;                 // of the next thread, which waits
  };

  /// A list as in request_list.hpp: its last node is one in which nothing is announced yet.
  struct alignas(isolation_size) cluster {
    node first{0, *this, yours};
    sync::atomic<node*> tail{&first};
    alignas(isolation_size) detail::waiting<Wait> waiting;
    sync::cell<place*> spare{nullptr};  // the combiner's: the place it will take, and then has taken
    sync::cell<place*> before{nullptr};
  };

  using nodes = detail::thread_nodes<node>;
  using group = typename nodes::group;

  struct serves_at_end {
    h_synch& in;
    cluster& home;
    node* at;
    group& mine;
    ~serves_at_end() { in.serve(home, at, mine); }
  };

  static std::uint32_t look(const node* own) noexcept {
    // (4) acquire: pairs with (5, 6). The result is there; the combiner has the lists as the last one left them.
    return own->state.load(std::memory_order_acquire);
  }
  cluster& home_of_thread() noexcept { return all_[sync::thread_index() % clusters_]; }
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, cluster& home, node* next, group& mine) {
    lock(home);
    const serves_at_end last{*this, home, next, mine};
    const detail::inside here = waiting_.executing();
    return call.run_here(state_.ref());
  }
  /// Returns true when the request in `own` has been served, false when the caller is the combiner and must run it.
  MUSTER_COLD bool served(cluster& home, node* own, node* spare);
  void serve(cluster& home, node* at, group& mine);
  MUSTER_COLD void serve_others(cluster& home, node* at);
  void leave(cluster& home, node* at) noexcept;
  void lock(cluster& home);
  void unlock(cluster& home) noexcept;

  const unsigned help_;
  const unsigned clusters_;
  std::unique_ptr<cluster[]> all_;
  std::unique_ptr<place[]> places_;  // one for each cluster, and one more
  nodes nodes_;
  alignas(isolation_size) sync::atomic<place*> last_place_{nullptr};
  alignas(isolation_size) detail::waiting<Wait> waiting_;  // of combiners for each other
  alignas(isolation_size) sync::cell<State> state_;        // of the combiner that holds the lock
};

template <class State, class Wait>
template <class... Args>
h_synch<State, Wait>::h_synch(const h_synch_options& options, Args&&... args)
    : help_(options.help),
      clusters_(options.clusters),
      all_(std::make_unique<cluster[]>(clusters_)),
      places_(std::make_unique<place[]>(clusters_ + 1)),
      nodes_(options.threads),
      state_(std::forward<Args>(args)...) {
  if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
  for (unsigned i = 0; i <= clusters_; ++i) places_[i].key = i;
  for (unsigned i = 0; i < clusters_; ++i) all_[i].spare.ref() = &places_[i];
  last_place_.store(&places_[clusters_], std::memory_order_relaxed);
}

template <class State, class Wait>
void h_synch<State, Wait>::check() const {
  for (unsigned i = 0; i < clusters_; ++i)
    MUSTER_CHECK(all_[i].tail.load(std::memory_order_relaxed)->state.load(std::memory_order_relaxed) == yours,
                 "h_synch: destroyed or checked while a thread is inside an operation");
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> h_synch<State, Wait>::apply(F&& function) {
  waiting_.refuse_nested();
  detail::call<State, F> call(function);
  group& mine = nodes_.own();
  node* const spare = mine.take([&](std::uint32_t key) { return new node(key, home_of_thread()); });
  cluster& home = spare->home;
  spare->next.store(nullptr, std::memory_order_relaxed);
  spare->state.store(waiting_for_turn, std::memory_order_relaxed);
  // (1) acq_rel: pairs with (1). The next to announce finds `spare` as it has been set up here.
  node* const own = home.tail.exchange(spare, std::memory_order_acq_rel);
  if (look(own) != yours) [[unlikely]] {
    const detail::stay here(mine);
    call.record(own->request.ref());
    const bool is_served = served(home, own, spare);
    const typename nodes::gives_back last{mine, own};
    if (is_served) return call.fetch(own->request.ref());
  } else {
    mine.give_back(own);
  }
  return run_and_serve(call, home, spare, mine);
}

template <class State, class Wait>
bool h_synch<State, Wait>::served(cluster& home, node* own, node* spare) {
  // (2) release: pairs with (3). The combiner sees the request.
  own->next.store(spare, std::memory_order_release);
  home.waiting.await(own->key, [&] { return look(own) != waiting_for_turn; }, waiting_);
  return look(own) == done;
}

/// For the combiner, when it has the object and its own request has been run: runs those from `at` on, leaves the
/// object to another cluster, and hands the role on.
template <class State, class Wait>
void h_synch<State, Wait>::serve(cluster& home, node* at, group& mine) {
  // Relaxed: we look again. With several clusters we touch the object after another cluster has it: then we stay.
  if (clusters_ != 1 || at->next.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
    const detail::stay here(mine);
    serve_others(home, at);
  } else {
    leave(home, at);
  }
}

template <class State, class Wait>
void h_synch<State, Wait>::serve_others(cluster& home, node* at) {
  {
    const detail::inside here = waiting_.executing();
    for (unsigned served = 0; served < help_; ++served) {
      // (3) acquire: pairs with (2).
      node* const next = at->next.load(std::memory_order_acquire);
      if (next == nullptr) break;
      muster::prefetch_for_write(next);
      detail::run_requests(state_.ref(), &at->request, &at->request + 1);
      const std::uint32_t key = at->key;
      // (5) release: pairs with (4). The owner sees the result, and may use the node again at once.
      at->state.store(done, std::memory_order_release);
      home.waiting.happened(key);
      at = next;
    }
  }
  leave(home, at);
}

/// The last that the combiner does with the object, unless there are several clusters.
template <class State, class Wait>
void h_synch<State, Wait>::leave(cluster& home, node* at) noexcept {
  unlock(home);
  const std::uint32_t key = at->key;
  const auto events = home.waiting.lasting_events();
  // (6) release: pairs with (4). The next combiner of the cluster has its places, and, with one cluster, the object as
  // we leave it, and may end it.
  at->state.store(yours, std::memory_order_release);
  events.happened(key);
}

template <class State, class Wait>
void h_synch<State, Wait>::lock(cluster& home) {
  if (clusters_ == 1) return;
  place* const own = home.spare.get();
  own->taken.store(1, std::memory_order_relaxed);
  // (7) acq_rel: pairs with (7). The next thread finds our place taken, and not as it was before.
  place* const before = last_place_.exchange(own, std::memory_order_acq_rel);
  home.before.ref() = before;
  // (8) acquire: pairs with (9). We have the object as its last user left it.
  waiting_.await(before->key, [&] { return before->taken.load(std::memory_order_acquire) == 0; });
}

template <class State, class Wait>
void h_synch<State, Wait>::unlock(cluster& home) noexcept {
  if (clusters_ == 1) return;
  place* const own = home.spare.get();
  home.spare.ref() = home.before.get();  // no other thread looks at that one any more
  const std::uint32_t key = own->key;
  // (9) release: pairs with (8).
  own->taken.store(0, std::memory_order_release);
  waiting_.happened(key);
}

}  // namespace muster::bench::inline MUSTER_ABI
