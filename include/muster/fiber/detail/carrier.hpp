// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// carrier.hpp: the fibers of one kernel thread, and the order in which they run.
//
// Order      a ring. A yield switches to the next fiber that can run, and returns after each of the others has had one
//            turn. A new fiber, and one that has waited, has its turn after all the others.
// Waiting    a fiber that waits in an operation of the library leaves the ring. Running fibers poll it now and then.
//            When none can run, the thread polls and sleeps for all of them, as the most patient policy requires. So an
//            event need not notify the fibers of a thread that is awake.
// Pinned     fibers never move to another kernel thread, so code on them may use thread-local data as usual.
// Blocking   a system call that blocks stops all fibers of the thread.
// Memory     a fiber's record lies at the top of its own stack.
#pragma once

#include <muster/base/detail/eventcount.hpp>         // eventcount
#include <muster/base/detail/exception.hpp>          // capture_exception
#include <muster/base/detail/reentrancy.hpp>         // reentrancy_scope
#include <muster/base/detail/shared_object.hpp>      // pin_once
#include <muster/base/detail/siblings.hpp>           // siblings, waiter
#include <muster/base/detail/spin_extension.hpp>     // spin_extension
#include <muster/base/detail/stack_overflow.hpp>     // stack_overflow
#include <muster/base/detail/thread_state.hpp>       // worker_binding
#include <muster/base/detail/wait_any.hpp>           // fence_before_sleep
#include <muster/base/sync.hpp>                      // sync::innermost, sync::own
#include <muster/fiber/detail/context.hpp>           // switch_context
#include <muster/fiber/detail/switch_observers.hpp>  // observed_stack, exception_globals
#include <muster/fiber/stack.hpp>                    // stack_memory

#include <algorithm>  // std::max
#include <cstdint>    // std::uint64_t
#include <exception>  // std::exception_ptr
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// A place in the ring: a fiber, or the kernel's stack of the thread, which is the first.
struct fiber_place {
  constexpr fiber_place() = default;
  constexpr explicit fiber_place(fiber_place* only) : next(only), before(only) {}

  fiber_place* next = nullptr;
  fiber_place* before = nullptr;
  saved_context context = {};
  exception_globals exceptions;
  const void* innermost = nullptr;
  fiber_place* joined = nullptr;  // the fiber that this one joins
  native::worker_binding worker;
  bool keeps = false;  // true if one of the above is not null
  observed_stack observed;
  std::uint64_t number = 0;
  waiter* waits = nullptr;             // not null while the fiber is absent from the ring to wait for this
  fiber_place* next_absent = nullptr;  // the next fiber that is absent
  bool was_ready = false;              // the state of its waiter when the fiber returned to the ring
};

struct fiber_record : fiber_place {
  explicit fiber_record(const stack_memory& on) : stack(on) {}
  virtual void run() = 0;
  virtual ~fiber_record() = default;

  const stack_memory stack;
  std::exception_ptr error;  // the exception that left run()
  fiber_place* joiner = nullptr;
  bool done = false;
};

/// A fiber that waits for a combining object (combine/detail/fiber_wait.hpp). Each thread has a list of them.
struct object_wait {
  const void* object;
  bool (*is_over)(object_wait&) noexcept;  // null if it has not begun
  const fiber_place* fiber = nullptr;
  object_wait* next = nullptr;
  object_wait* before = nullptr;
};

/// The scheduler of a kernel thread, empty until the thread creates its first fiber.
class carrier final : public siblings {
 public:
  static carrier& own() noexcept;

  /// Returns true if other fibers can run while the current one waits, now or after an event.
  bool has_siblings() const noexcept { return !is_alone() || absent_ != nullptr; }
  /// 0 is the thread itself.
  std::uint64_t current_number() const noexcept { return current_->number; }
  /// Fibers that are not done, without the thread itself.
  std::uint64_t live() const noexcept { return live_; }

  MUSTER_HOT void yield() noexcept {
    if (absent_ != nullptr) [[unlikely]]
      return yield_beside_absent();
    if (is_alone()) return;
    run_next(current_->next);
  }

  bool any() const noexcept override { return has_siblings(); }
  void run() noexcept override { yield(); }
  bool wait(waiter& one) noexcept override;
  stack_bounds stack() const noexcept override {
    if (current_ == &thread_) return {};
    const stack_memory& own = static_cast<const fiber_record*>(current_)->stack;
    return {own.bottom, own.top};
  }

  /// Appends a new fiber to the ring. It runs on the stack below its record. Throws std::bad_alloc, and then has no
  /// effect.
  void add(fiber_record& fiber) {
    if (current_ == &nobody_) begin();
    char* const top = reinterpret_cast<char*>(&fiber);
    const auto size = static_cast<std::size_t>(top - fiber.stack.bottom);
    fiber.number = ++made_;
    fiber.context = new_context<&carrier::run_body>(top, size);
    fiber.observed.begin(fiber.stack.bottom, fiber.stack.size());
    ++live_;
    insert(fiber);
  }

  static constexpr const char* joined_by_its_operation =
      "fiber::join: an operation of a combining object joins a fiber that waits for the same object, and so for that "
      "operation; join it elsewhere";
  /// Waits until `fiber` is done.
  void await(fiber_record& fiber) noexcept {
    if (fiber.done) return;
    MUSTER_CHECK(fiber.joiner == nullptr, "fiber::join: another fiber already joins this one; join it once");
    for (const fiber_place* at = &fiber; at != nullptr; at = at->joined)
      MUSTER_CHECK(at != current_, "fiber::join: a cycle of joins, in which each fiber waits for the next; remove one");
    if (absent_ != nullptr) [[unlikely]]
      look_now_and_then();
    fiber.joiner = current_;
    current_->joined = &fiber;
    if (sync::innermost() != nullptr) [[unlikely]]
      hand_chain_on(fiber);
    leave_ring(false);
    current_->joined = nullptr;
  }

  /// Call before the current fiber waits, and after.
  void add(object_wait& one) noexcept {
    one.fiber = current_;
    one.next = object_waits_;
    if (one.next != nullptr) one.next->before = &one;
    object_waits_ = &one;
  }
  void remove(object_wait& one) noexcept {
    if (one.next != nullptr) one.next->before = one.before;
    (one.before != nullptr ? one.before->next : object_waits_) = one.next;
  }
  /// Returns true if the caller would wait for itself if it waited for `object`: it is inside one of its operations, or
  /// a fiber that is inside one waits for another object, and so on, until one waits for the caller's.
  bool closes_ring(const void* object) const noexcept {
    if (reentrancy_scope::is_in(object)) return true;
    // Each waits for one object, so there is a single path, no longer than the list.
    for (const object_wait* turn = object_waits_; turn != nullptr; turn = turn->next) {
      object_wait* holder = object_waits_;
      while (holder != nullptr && !(reentrancy_scope::has(holder->fiber->innermost, object) && lasts(*holder)))
        holder = holder->next;
      if (holder == nullptr) return false;
      object = holder->object;
      if (reentrancy_scope::is_in(object)) return true;
    }
    return false;
  }

 private:
  static bool lasts(object_wait& one) noexcept { return one.is_over == nullptr || !one.is_over(one); }
  /// No other fiber is in the ring.
  bool is_alone() const noexcept { return current_->next == current_; }
  /// Appends a fiber to the ring.
  void insert(fiber_place& fiber) noexcept {
    fiber.next = current_;
    fiber.before = std::exchange(current_->before, &fiber);
    fiber.before->next = &fiber;
  }

  MUSTER_HOT void run_next(fiber_place* to, bool for_ever = false) noexcept {
    sync::switch_fiber();
    fiber_place* const from = current_;
    // Most fibers yield while they handle no exception and run no operation.
    if (exceptions_->any() || sync::innermost() != nullptr || to->keeps) [[unlikely]]
      exchange_kept(*from, *to);
    current_ = to;
    from->observed.before_leaving(to->observed, came_from_, for_ever);
    switch_context(from->context, to->context);
    from->observed.after_coming(came_from_);
  }

  MUSTER_COLD void exchange_kept(fiber_place& from, fiber_place& to) noexcept {
    from.exceptions = std::exchange(*exceptions_, std::exchange(to.exceptions, {}));
    from.innermost = std::exchange(sync::innermost(), std::exchange(to.innermost, nullptr));
    from.worker = std::exchange(native::worker_slot(), std::exchange(to.worker, {}));
    from.keeps = from.exceptions.any() || from.innermost != nullptr;
    to.keeps = false;
  }

  /// Appends the current fiber's operations to the chains of the fiber that it joins, of the one which that joins, and
  /// so forth: its operations wait for all of them.
  MUSTER_COLD void hand_chain_on(fiber_place& to) noexcept {
    for (fiber_place* at = &to; at != nullptr; at = at->joined) {
      for (object_wait* one = object_waits_; one != nullptr; one = one->next)
        MUSTER_CHECK(one->fiber != at || !lasts(*one) || !closes_ring(one->object), joined_by_its_operation);
      reentrancy_scope::append(at->innermost, sync::innermost());
      at->keeps = true;
    }
  }

  void leave_ring(bool for_ever) noexcept {
    if (is_alone()) rest();
    current_->before->next = current_->next;
    current_->next->before = current_->before;
    run_next(current_->next, for_ever);
  }

  /// A separate function, so that yield() need not read the ring again after a call that may have changed it.
  MUSTER_COLD void yield_beside_absent() noexcept {
    look_now_and_then();
    if (!is_alone()) run_next(current_->next);
  }
  void look_now_and_then() noexcept;
  bool look_after_absent(deadline now = deadline::min()) noexcept;
  void rest() noexcept;
  bool sleep() noexcept;

  void begin();
  [[noreturn]] static void run_body();

  object_wait* object_waits_ = nullptr;

  // The ring of every thread before its first fiber: one place, which is only read.
  static constinit fiber_place nobody_;

  fiber_place* current_ = &nobody_;
  fiber_place* absent_ = nullptr;  // waiting fibers, in the order in which they left the ring
  exception_globals* exceptions_ = nullptr;
  observed_stack* came_from_ = nullptr;
  std::uint64_t made_ = 0;
  std::uint64_t live_ = 0;  // created and not done
  fiber_place** absent_end_ = nullptr;
  unsigned yields_ = 0;  // while some were absent
  spin_extension spins_;
  fiber_place thread_;
};

inline constinit fiber_place carrier::nobody_(&carrier::nobody_);

inline carrier& carrier::own() noexcept { return sync::own<carrier>(); }

inline void carrier::begin() {
  struct fibers_are_done {
    static bool passes(bool last) noexcept {
      const bool done = own().live() == 0;
      MUSTER_CHECK(done || !last, "fiber: the thread ends before its fibers are done; join them");
      return done;
    }
  };
  pin_once<carrier>(sync::at_thread_end<fibers_are_done>());
  MUSTER_CHECK(!switches_by_itself || !shadow_stack(), shadow_stack_advice);
  MUSTER_CHECK(!has_hidden_stack,
               "fiber: the program is compiled with -fsanitize=safe-stack or shadow-call-stack, "
               "whose second stack no switch of fibers changes; compile it without");
  stack_overflow::watch();
  stack_overflow::names() = []() noexcept -> const char* {
    return own().current_number() == 0 ? nullptr : "that of a fiber; give it a larger one (stack_options::size)";
  };
  exceptions_ = &thread_exceptions();
  current_ = thread_.next = thread_.before = &thread_;
  absent_end_ = &absent_;
  sync::own_siblings() = this;
}

inline bool carrier::wait(waiter& one) noexcept {
  if (one.until != no_deadline && deadline_clock::now() >= one.until) return one.ready();
  // Most waits are short; and fibers that wait for each other each notice the event themselves.
  constexpr unsigned in_the_ring = 8;
  for (unsigned looks = 0; looks < in_the_ring && !is_alone(); ++looks) {
    if (one.ready()) return true;
    yield();
  }
  if (one.ready()) return true;
  fiber_place& self = *current_;
  self.waits = &one;
  self.next_absent = nullptr;
  *absent_end_ = &self;
  absent_end_ = &self.next_absent;
  if (is_alone()) rest();
  if (self.waits != nullptr) leave_ring(false);
  return self.was_ready;
}

inline void carrier::look_now_and_then() noexcept {
  constexpr unsigned seldom = 16;
  if (is_alone() || ++yields_ % seldom == 0) look_after_absent();
}

/// Returns the absent fibers that are ready, or past their deadline, to the ring. Returns true if there was one.
inline bool carrier::look_after_absent(deadline now) noexcept {
  bool some = false;
  for (fiber_place** at = &absent_; *at != nullptr;) {
    fiber_place& one = **at;
    const deadline until = one.waits->until;
    one.was_ready = one.waits->ready();
    if (!one.was_ready && until != no_deadline && now == deadline::min()) now = deadline_clock::now();
    if (!one.was_ready && (until == no_deadline || now < until)) {
      at = &one.next_absent;
      continue;
    }
    *at = one.next_absent;
    if (absent_end_ == &one.next_absent) absent_end_ = at;
    one.waits = nullptr;
    some = true;
    if (&one != current_) insert(one);
  }
  return some;
}

/// Called when no fiber can run, including the current one. Waits until one can.
inline void carrier::rest() noexcept {
  MUSTER_CHECK(absent_ != nullptr, "fiber::join: a cycle of joins, in which each fiber waits for the next; remove one");
  unsigned pauses = 0, yields = 0;
  bool parks = true, adapts = false;
  deadline until = no_deadline;
  for (const fiber_place* one = absent_; one != nullptr; one = one->next_absent) {
    until = std::min(until, one->waits->until);
    adapts = adapts || one->waits->adapts;
    pauses = std::max(pauses, one->waits->pauses);
    yields = std::max(yields, one->waits->yields);
    parks = parks && one->waits->parks;
  }
  for (unsigned looks = 0; looks < pauses; ++looks) {
    if (look_after_absent()) return;
    sync::relax();
  }
  for (unsigned looks = 0; !parks || looks < yields; ++looks) {
    if (look_after_absent()) return;
    sync::yield();
  }
  if (!adapts) {
    while (!sleep()) {
    }
    return;
  }
  if (spins_.spin([this] { return look_after_absent(); }, until, pauses / 8)) return;
  const deadline begin = deadline_clock::now();
  while (!sleep()) {
  }
  const deadline end = deadline_clock::now();
  spins_.note_sleep(end < until ? end - begin : deadline_clock::duration::max());
}

/// Sleeps until an absent fiber may be ready. Returns true if one was.
inline bool carrier::sleep() noexcept {
  futex_words words;
  deadline until = no_deadline;
  for (const fiber_place* one = absent_; one != nullptr; one = one->next_absent) {
    one->waits->announce(words);
    until = std::min(until, one->waits->until);
  }
  const bool fenced = fence_before_sleep(words);
  if (look_after_absent()) return true;
  if (!fenced) until = nap_until(until);  // an event may be missed, as in eventcount::sleep()
  const futex_reason why = sync::futex_wait_any(words, until);
  return look_after_absent(why == futex_reason::timed_out ? until : deadline::min());
}

inline void carrier::run_body() {
  carrier& here = own();
  auto& fiber = static_cast<fiber_record&>(*here.current_);
  fiber.observed.after_coming(here.came_from_);
  try {
    fiber.run();
  } catch (...) {
    fiber.error = capture_exception();
  }
  fiber.done = true;
  --here.live_;
  if (here.absent_ != nullptr) [[unlikely]]
    here.look_now_and_then();
  if (fiber.joiner != nullptr) here.insert(*fiber.joiner);
  here.leave_ring(true);
  __builtin_unreachable();
}

}  // namespace muster::inline MUSTER_ABI::detail
