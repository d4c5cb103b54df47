// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// flat_combining.hpp: a combining object (detail/combining_object.hpp has the contract). Each thread publishes its
// request in its own record; the thread that gets the lock scans the records and executes their requests.
//
// Progress   blocking. A thread that stops while it executes operations blocks all others; elsewhere it blocks none.
// Fairness   none. A request published before a pass begins is served in that pass.
// Memory     a line pair per record.
// Cost       apply: one exchange if the object is free. A combiner makes 1 to 16 passes, with a step for each record in
//            the list: the newest, and those with a request in the last 256 passes. A thread that waits adds its record
//            by a compare-exchange, unless it is there, and makes an exchange whenever it finds the object free. Waking
//            and waiting: see base/wait.hpp.
// Use it     when threads may be stopped at any time: a waiting thread does not block others. With many threads
//            cc_synch is faster, because it never reads records without a request.
// Source     Hendler, Incze, Shavit and Tzafrir, "Flat combining and the synchronization-parallelism tradeoff", SPAA
//            2010. Changed: a thread that finds the object free does not publish its request. The combiner has no
//            separate scan for idle records: it drops them in the pass in which they become too old.
#pragma once

#include <muster/base/arch.hpp>                        // line_size
#include <muster/base/detail/brief_wait.hpp>           // brief_wait
#include <muster/base/detail/reentrancy.hpp>           // reentrancy_scope
#include <muster/base/sync.hpp>                        // sync::atomic, sync::cell
#include <muster/base/wait.hpp>                        // wait::spin_then_park
#include <muster/combine/detail/combining_object.hpp>  // combining_object
#include <muster/combine/detail/fiber_wait.hpp>        // waiting
#include <muster/combine/detail/request.hpp>           // request, run_requests
#include <muster/fiber/this_fiber.hpp>                 // this_fiber

#include <cstdint>  // std::uint64_t
#include <utility>  // std::forward

namespace muster::inline MUSTER_ABI {

namespace detail {

template <class State, class Wait>
class flat_combining_technique {
  enum : std::uint32_t { done, pending };
  static constexpr unsigned most_passes = 16;      // of one combiner
  static constexpr std::uint64_t most_idle = 256;  // passes without a request after which a record is dropped
  // All threads wait for one event: a combiner that stops has served almost all of them, so it wakes all at once.
  static constexpr std::uint32_t key = 0;

 public:
  struct alignas(2 * line_size) record {
    explicit record(std::uint32_t) {}
    sync::atomic<std::uint32_t> state{done};     // pending: set by the owner; done: set by the combiner
    sync::atomic<std::uint32_t> linked{0};       // set by the owner before it links; cleared by the combiner
    sync::cell<record*> next{nullptr};           // the combiner's while linked, else the owner's
    sync::cell<std::uint64_t> last_pass{0U};     // the last pass with a request here; owned as `next`
    sync::cell<detail::request<State>> request;  // the combiner's while pending, else the owner's
  };

  using node = record;
  using group = typename thread_nodes<record>::group;
  struct turn {
    record* own;
  };

  template <class... Args>
  explicit flat_combining_technique(unsigned help, Args&&... args) : help_(help), state_(std::forward<Args>(args)...) {}

  MUSTER_HOT turn announce(group& mine) {
    if (try_lock()) [[likely]]
      return {nullptr};
    return {mine.take()};
  }
  MUSTER_COLD bool served(turn now, group& mine) {
    record* const own = now.own;
    // (4) release: pairs with (6). The combiner sees the request.
    own->state.store(pending, std::memory_order_release);
    for (;;) {
      if (!linked(own)) link(own);
      if (try_lock()) break;
      // The combiner may drop the record during publication: it has already passed it and will not return.
      waiting_.await(key, [&] { return is_done(own) || !linked(own) || free(); });
      if (is_done(own)) return true;
    }
    if (is_done(own)) {
      unlock();
      return true;
    }
    // This thread is the combiner: no other reads the request any more, and the record was just in use.
    own->state.store(done, std::memory_order_relaxed);
    own->last_pass.write_ref() = passes_.read_ref();
    mine.give_back(own);
    return false;
  }
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, const turn&, group& mine) {
    const combines_at_end last{*this, mine};
    const reentrancy_scope here = waiting_.executing();
    return call.run_here(state_.write_ref());
  }

  static request<State>& request_in(record& own) noexcept { return own.request.write_ref(); }
  MUSTER_HOT void refuse_nested() const { waiting_.refuse_nested(); }
  bool is_executing() const noexcept { return waiting_.is_executing(); }
  void await_free() const noexcept {
    // (11) acquire: pairs with (2).
    for (brief_wait wait; locked_.load(std::memory_order_acquire) != 0; wait.pause()) this_fiber::yield();
  }
  bool quiescent() const noexcept {
    if (!free()) return false;
    for (const record* r = head_.load(std::memory_order_relaxed); r != nullptr; r = r->next.read_ref())
      if (r->state.load(std::memory_order_relaxed) != done) return false;
    return true;
  }

 private:
  struct combines_at_end {
    flat_combining_technique& in;
    group& mine;
    ~combines_at_end() { in.combine(mine); }
  };

  bool free() const noexcept { return locked_.load(std::memory_order_relaxed) == 0; }
  MUSTER_HOT bool try_lock() noexcept {
    // (1) acquire: pairs with (2). The object and the list are as their last user left them.
    return free() && locked_.exchange(1, std::memory_order_acquire) == 0;
  }
  void unlock() noexcept {
    const auto events = waiting_.lasting_events();
    // (2) release: pairs with (1, 11). The next thread may end the object.
    locked_.store(0, std::memory_order_release);
    events.notify(key);
  }
  static bool is_done(const record* own) noexcept {
    // (3) acquire: pairs with (5). The result is visible.
    return own->state.load(std::memory_order_acquire) == done;
  }
  static bool linked(const record* own) noexcept {
    // (7) acquire: pairs with (8). Once the record is dropped, its links belong to this thread.
    return own->linked.load(std::memory_order_acquire) != 0;
  }

  void link(record* own) noexcept {
    own->linked.store(1, std::memory_order_relaxed);
    record* head = head_.load(std::memory_order_relaxed);
    do own->next.write_ref() = head;
    // (9) release: pairs with (10). The combiner sees the record and, because each exchange continues the release
    // sequence, all records linked earlier.
    while (!head_.compare_exchange_weak(head, own, std::memory_order_release, std::memory_order_relaxed));
  }

  /// Call with the lock held; releases it.
  void combine(group& mine) {
    // A served thread may end the object.
    const stay staying(mine);
    {
      const reentrancy_scope here = waiting_.executing();
      unsigned all = 0;
      for (unsigned passes = 0; passes < most_passes && all < help_; ++passes) {
        const unsigned found = pass();
        if (found == 0) break;
        all += found;
      }
    }
    unlock();
  }

  /// Returns how many requests it found and ran.
  unsigned pass() {
    const std::uint64_t now = ++passes_.write_ref();
    unsigned found = 0;
    record* before = nullptr;
    // (10) acquire: pairs with (9).
    for (record* r = head_.load(std::memory_order_acquire); r != nullptr;) {
      record* const next = r->next.read_ref();
      // (6) acquire: pairs with (4).
      if (r->state.load(std::memory_order_acquire) == pending) {
        run_requests(state_.write_ref(), &r->request, &r->request + 1);
        r->last_pass.write_ref() = now;
        ++found;
        // (5) release: pairs with (3). The owner sees the result, and may publish its next request at once.
        r->state.store(done, std::memory_order_release);
      } else if (before != nullptr && now - r->last_pass.read_ref() > most_idle) {
        before->next.write_ref() = next;
        // (8) release: pairs with (7). The links have been read, so the owner may reuse them.
        r->linked.store(0, std::memory_order_release);
        r = next;
        continue;
      }
      before = r;
      r = next;
    }
    return found;
  }

  const unsigned help_;
  waiting<Wait> waiting_;
  alignas(isolation_size) sync::atomic<std::uint32_t> locked_{0};
  alignas(isolation_size) sync::atomic<record*> head_{nullptr};   // never dropped, so only owners write here
  alignas(isolation_size) sync::cell<std::uint64_t> passes_{0U};  // the combiner's, as is the state
  sync::cell<State> state_;
};

}  // namespace detail

template <class State, class Wait = wait::spin_then_park>
class flat_combining : public detail::combining_object<State, detail::flat_combining_technique<State, Wait>> {
 public:
  using detail::combining_object<State, detail::flat_combining_technique<State, Wait>>::combining_object;
};

}  // namespace muster::inline MUSTER_ABI
