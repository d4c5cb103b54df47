// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// flat_combining.hpp: an object that many threads use, one operation at a time. Each thread has a record where it
// publishes its request; whoever gets the lock looks through the records and executes what it finds.
//
// Order      linearizable: all operations on the object happen one after another, each between its call and its return.
// Progress   blocking. A thread that is stopped while it executes operations stops all others; one that is stopped
//            elsewhere stops nobody.
// Killed     as stopped.
// Fairness   none is promised. A request that has been published before a pass begins is served in that pass.
// Operations run on the thread that serves, which may be another than the caller's: they see that thread's thread-local
//            data. What they throw reaches the caller, and nobody else. They may not apply to the same object.
// Memory     for each thread: a record of a line pair for each operation that it is in the middle of.
// Errors     std::invalid_argument and std::bad_alloc from the constructor; from apply what the operation throws,
//            std::logic_error when it is called from within an operation of the same object, std::length_error when
//            more threads come than configured, std::bad_alloc at the first operations of a thread.
// Use it     when threads may be stopped at any time: one that waits for its turn does not stop those behind it. With
//            many threads cc_synch is faster, because it does not look at records in which nothing is published.
// Source     Hendler, Incze, Shavit and Tzafrir, "Flat combining and the synchronization-parallelism tradeoff", SPAA
//            2010. We changed where it begins: whoever finds the object free does not publish its request. Who serves
//            does not scan for idle records separately, but drops them in the pass in which they have become too old.
#pragma once

#include <muster/base/arch.hpp>                    // line_size
#include <muster/base/inside.hpp>                  // inside
#include <muster/base/sync.hpp>                    // sync::atomic, sync::cell
#include <muster/combine/detail/fiber_wait.hpp>    // waiting
#include <muster/combine/detail/request.hpp>       // request, run_requests
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <cstdint>      // std::uint64_t
#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class flat_combining {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit flat_combining(const combine_options& options = {}, Args&&... args);
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~flat_combining() {
    MUSTER_CHECK(!waiting_.is_executing(), "a combining object is destroyed by one of its own operations");
    records_.await_idle();
    check();
  }
  flat_combining(const flat_combining&) = delete;
  flat_combining& operator=(const flat_combining&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  enum : std::uint32_t { done, pending };
  static constexpr unsigned most_passes = 16;      // of one combiner
  static constexpr std::uint64_t most_idle = 256;  // passes without a request after which a record is dropped
  // All wait for the same events, because a combiner that stops has served almost everybody: it tells all at once.
  static constexpr std::uint32_t key = 0;

  struct alignas(2 * line_size) record {
    explicit record(std::uint32_t) {}
    sync::atomic<std::uint32_t> state{done};     // pending: set by the owner; done: set by the combiner
    sync::atomic<std::uint32_t> linked{0};       // set by the owner before it links; cleared by the combiner
    sync::cell<record*> next{nullptr};           // the combiner's while linked, else the owner's
    sync::cell<std::uint64_t> last_pass{0U};     // that has found something here; as `next`
    sync::cell<detail::request<State>> request;  // the combiner's while pending, else the owner's
  };

  using records = detail::thread_nodes<record>;
  using group = typename records::group;

  struct combines_at_end {
    flat_combining& in;
    group& mine;
    ~combines_at_end() { in.combine(mine); }
  };

  bool free() const noexcept { return locked_.load(std::memory_order_relaxed) == 0; }
  MUSTER_HOT bool try_lock() noexcept {
    // (1) acquire: pairs with (2). We have the object, and the list, as their last user left them.
    return free() && locked_.exchange(1, std::memory_order_acquire) == 0;
  }
  void unlock() noexcept {
    const auto events = waiting_.lasting_events();
    // (2) release: pairs with (1). The next to come may end the object.
    locked_.store(0, std::memory_order_release);
    events.happened(key);
  }
  static bool is_done(const record* own) noexcept {
    // (3) acquire: pairs with (5). The result is there.
    return own->state.load(std::memory_order_acquire) == done;
  }
  static bool linked(const record* own) noexcept {
    // (7) acquire: pairs with (8). When the record has been dropped, the links in it are ours.
    return own->linked.load(std::memory_order_acquire) != 0;
  }
  template <class Call>
  MUSTER_HOT typename Call::result run_and_combine(Call& call, group& mine) {
    const combines_at_end last{*this, mine};
    const detail::inside here = waiting_.executing();
    return call.run_here(state_.ref());
  }
  /// Returns true when the request in `own` has been served, false when the caller is the combiner and must run it.
  MUSTER_COLD bool served(record* own);
  void link(record* own) noexcept;
  void combine(group& mine);
  unsigned pass();

  const unsigned help_;
  records records_;
  alignas(isolation_size) sync::atomic<std::uint32_t> locked_{0};
  alignas(isolation_size) sync::atomic<record*> head_{nullptr};  // never dropped, so that only owners write here
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<std::uint64_t> passes_{0U};  // the combiner's, and so is the state
  sync::cell<State> state_;
};

template <class State, class Wait>
template <class... Args>
flat_combining<State, Wait>::flat_combining(const combine_options& options, Args&&... args)
    : help_(options.help), records_(options.threads), state_(std::forward<Args>(args)...) {
  if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
}

template <class State, class Wait>
void flat_combining<State, Wait>::check() const {
  MUSTER_CHECK(free(), "flat_combining: destroyed or checked while a thread is inside an operation");
  for (const record* r = head_.load(std::memory_order_relaxed); r != nullptr; r = r->next.get())
    MUSTER_CHECK(r->state.load(std::memory_order_relaxed) == done,
                 "flat_combining: destroyed or checked while a thread waits for its request to be served");
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> flat_combining<State, Wait>::apply(F&& function) {
  waiting_.refuse_nested();
  detail::call<State, F> call(function);
  group& mine = records_.own();
  if (!try_lock()) [[unlikely]] {
    record* const own = mine.take();
    const detail::stay here(mine);
    call.record(own->request.ref());
    // (4) release: pairs with (6). The combiner sees the request.
    own->state.store(pending, std::memory_order_release);
    const bool is_served = served(own);
    const typename records::gives_back last{mine, own};
    if (is_served) return call.fetch(own->request.ref());
  }
  return run_and_combine(call, mine);
}

template <class State, class Wait>
bool flat_combining<State, Wait>::served(record* own) {
  for (;;) {
    if (!linked(own)) link(own);
    if (try_lock()) break;
    // The combiner may drop the record while we publish in it: it has looked before, and will not come back.
    waiting_.await(key, [&] { return is_done(own) || !linked(own) || free(); });
    if (is_done(own)) return true;
  }
  if (is_done(own)) {
    unlock();
    return true;
  }
  // We are the combiner: nobody else looks at the request any more, and the record has been of use just now.
  own->state.store(done, std::memory_order_relaxed);
  own->last_pass.ref() = passes_.get();
  return false;
}

template <class State, class Wait>
void flat_combining<State, Wait>::link(record* own) noexcept {
  own->linked.store(1, std::memory_order_relaxed);
  record* head = head_.load(std::memory_order_relaxed);
  do own->next.ref() = head;
  // (9) release: pairs with (10). The combiner sees the record, and, because each of these continues the ones before,
  // all that were linked earlier.
  while (!head_.compare_exchange_weak(head, own, std::memory_order_release, std::memory_order_relaxed));
}

/// Holding the lock, which it releases.
template <class State, class Wait>
void flat_combining<State, Wait>::combine(group& mine) {
  // A thread that is served may end the object.
  const detail::stay staying(mine);
  {
    const detail::inside here = waiting_.executing();
    unsigned all = 0;
    for (unsigned passes = 0; passes < most_passes && all < help_; ++passes) {
      const unsigned found = pass();
      if (found == 0) break;
      all += found;
    }
  }
  unlock();
}

/// Returns how many requests it has found and run.
template <class State, class Wait>
unsigned flat_combining<State, Wait>::pass() {
  const std::uint64_t now = ++passes_.ref();
  unsigned found = 0;
  record* before = nullptr;
  // (10) acquire: pairs with (9).
  for (record* r = head_.load(std::memory_order_acquire); r != nullptr;) {
    record* const next = r->next.get();
    // (6) acquire: pairs with (4).
    if (r->state.load(std::memory_order_acquire) == pending) {
      detail::run_requests(state_.ref(), &r->request, &r->request + 1);
      r->last_pass.ref() = now;
      ++found;
      // (5) release: pairs with (3). The owner sees the result, and may publish its next request at once.
      r->state.store(done, std::memory_order_release);
    } else if (before != nullptr && now - r->last_pass.get() > most_idle) {
      before->next.ref() = next;
      // (8) release: pairs with (7). We have read the links, and the owner may use them.
      r->linked.store(0, std::memory_order_release);
      r = next;
      continue;
    }
    before = r;
    r = next;
  }
  return found;
}

}  // namespace muster::inline MUSTER_ABI
