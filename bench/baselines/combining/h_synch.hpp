// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// h_synch.hpp: a combining object (muster/combine/detail/combining_object.hpp has the contract) for a machine where
// some threads are nearer to each other than to the rest. Each cluster of threads has a list and a combiner; the
// combiners share a lock.
//
// Progress   blocking. A thread that is stopped while it is a combiner stops all others; elsewhere it stops at most the
//            threads of its cluster behind it in the list.
// Fairness   first come, first served, among the threads of a cluster, and among the combiners.
// Memory     a line pair per node; for each cluster some lines.
// Cost       with one cluster there is no lock, and it is cc_synch.
// Source     Fatourou and Kallimanis, "Revisiting the Combining Synchronization Technique", PPoPP 2012, H-Synch.
#pragma once

#include "clh_lock.hpp"
#include "serving.hpp"

#include <muster/base/arch.hpp>  // line_size, prefetch_for_write
#include <muster/base/wait.hpp>  // wait::park

#include <cstdint>  // std::uint32_t
#include <memory>   // std::unique_ptr
#include <utility>  // std::forward

namespace muster::bench::inline MUSTER_ABI {

struct h_synch_options : combine_options {
  /// A thread belongs to the one that its number gives, modulo this.
  unsigned clusters = 1;
};

template <class State, class Wait>
class h_synch_technique : public serving<h_synch_technique<State, Wait>, State, Wait> {
  using base = serving<h_synch_technique, State, Wait>;
  enum : std::uint32_t {
    waiting_for_turn,
    done,   // the request has been run; the node belongs to the thread that announced it
    yours,  // the thread that announces it, or has announced it, is the combiner of the cluster
  };
  struct cluster;

 public:
  struct alignas(2 * line_size) node {
    node(std::uint32_t key_in, cluster& home_in, std::uint32_t state_in = waiting_for_turn)
        : state(state_in), key(key_in), home(home_in) {}
    sync::atomic<node*> next{nullptr};  // written by the owner once its request is in; null before
    sync::atomic<std::uint32_t> state;
    const std::uint32_t key;                     // of the owner, who waits
    cluster& home;                               // where it goes from thread to thread
    sync::cell<detail::request<State>> request;  // the owner's until `next` is set, the combiner's until it is done
  };
  using group = typename detail::thread_nodes<node>::group;
  struct turn {
    node* own;
    node* spare;  // the last node of the list, with no request announced in it
  };

  template <class... Args>
  h_synch_technique(unsigned help, unsigned clusters, Args&&... args)
      : base(help, std::forward<Args>(args)...),
        clusters_(clusters),
        all_(std::make_unique<cluster[]>(clusters)),
        places_(std::make_unique<clh_node[]>(clusters + 1)),
        lock_(&places_[clusters]) {
    for (unsigned i = 0; i <= clusters; ++i) places_[i].key = i;
    for (unsigned i = 0; i < clusters; ++i) all_[i].place.write_ref() = &places_[i];
  }

  MUSTER_HOT turn announce(group& mine) {
    node* const spare = mine.take([&](std::uint32_t key) { return new node(key, home_of_thread()); });
    spare->next.store(nullptr, std::memory_order_relaxed);
    spare->state.store(waiting_for_turn, std::memory_order_relaxed);
    // (1) acq_rel: pairs with (1). The next to announce finds `spare` as it has been set up here.
    node* const own = spare->home.tail.exchange(spare, std::memory_order_acq_rel);
    if (look(own) != yours) [[unlikely]]
      return {own, spare};
    mine.give_back(own);
    return {nullptr, spare};
  }
  MUSTER_COLD bool served(turn now, group& mine) {
    node* const own = now.own;
    // (2) release: pairs with (3). The combiner sees the request.
    own->next.store(now.spare, std::memory_order_release);
    own->home.waiting.await(own->key, [&] { return look(own) != waiting_for_turn; }, waiting_);
    if (look(own) == done) return true;
    mine.give_back(own);
    return false;
  }
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, turn now, group& mine) {
    lock(now.spare->home);
    return base::run_and_serve(call, now, mine);
  }
  /// Leaves the object to another cluster before it hands the role on.
  void serve(turn now, group& mine) {
    node* const at = now.spare;
    // Relaxed: we look again. With several clusters we touch the object after another cluster has it: then we stay.
    if (clusters_ != 1 || at->next.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
      const detail::stay here(mine);
      serve_others(at);
    } else {
      leave(at);
    }
  }
  bool quiescent() const noexcept {
    for (unsigned i = 0; i < clusters_; ++i)
      if (all_[i].tail.load(std::memory_order_relaxed)->state.load(std::memory_order_relaxed) != yours) return false;
    return true;
  }

 private:
  using base::help_;
  using base::waiting_;  // of combiners for each other

  /// A list as in request_list.hpp: its last node is one in which nothing is announced yet.
  struct alignas(isolation_size) cluster {
    node first{0, *this, yours};
    sync::atomic<node*> tail{&first};
    alignas(isolation_size) detail::waiting<Wait> waiting;
    sync::cell<clh_node*> place{nullptr};   // the combiner's: in the queue for the object
    sync::cell<clh_node*> before{nullptr};  // while it has the object
  };

  static std::uint32_t look(const node* own) noexcept {
    // (4) acquire: pairs with (5, 6). The result is there; the combiner has the lists as the last one left them.
    return own->state.load(std::memory_order_acquire);
  }
  cluster& home_of_thread() noexcept { return all_[sync::thread_index() % clusters_]; }

  MUSTER_COLD void serve_others(node* at) {
    {
      const detail::reentrancy_scope here = waiting_.executing();
      for (unsigned served = 0; served < help_; ++served) {
        // (3) acquire: pairs with (2).
        node* const next = at->next.load(std::memory_order_acquire);
        if (next == nullptr) break;
        muster::prefetch_for_write(next);
        this->run_request(at);
        const std::uint32_t key = at->key;
        // (5) release: pairs with (4). The owner sees the result, and may use the node again at once.
        at->state.store(done, std::memory_order_release);
        at->home.waiting.notify(key);
        at = next;
      }
    }
    leave(at);
  }
  /// The last that the combiner does with the object, unless there are several clusters.
  void leave(node* at) noexcept {
    cluster& home = at->home;
    unlock(home);
    const std::uint32_t key = at->key;
    const auto events = home.waiting.lasting_events();
    // (6) release: pairs with (4). The next combiner of the cluster has its places, and, with one cluster, the object
    // as we leave it, and may end it.
    at->state.store(yours, std::memory_order_release);
    events.notify(key);
  }
  void lock(cluster& home) {
    if (clusters_ == 1) return;
    clh_node* const before = home.before.write_ref() = lock_.enter(home.place.read_ref());
    waiting_.await(before->key, [&] { return clh_lock::has_left(before); });
  }
  void unlock(cluster& home) noexcept {
    if (clusters_ == 1) return;
    clh_node* const own = home.place.read_ref();
    home.place.write_ref() = home.before.read_ref();  // no other thread looks at that one any more
    const std::uint32_t key = own->key;
    clh_lock::leave(own);
    waiting_.notify(key);
  }

  const unsigned clusters_;
  std::unique_ptr<cluster[]> all_;
  std::unique_ptr<clh_node[]> places_;  // one for each cluster, and one more
  clh_lock lock_;
};

template <class State, class Wait = wait::spin_then_park>
class h_synch : public detail::combining_object<State, h_synch_technique<State, Wait>> {
  using object = detail::combining_object<State, h_synch_technique<State, Wait>>;

 public:
  template <class... Args>
  explicit h_synch(const h_synch_options& options = {}, Args&&... args)
      : object(options, options.clusters, std::forward<Args>(args)...) {}
  template <class... Args>
  explicit h_synch(const combine_options& options, Args&&... args)
      : h_synch(h_synch_options{options}, std::forward<Args>(args)...) {}
};

}  // namespace muster::bench::inline MUSTER_ABI
