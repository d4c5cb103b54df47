// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// carrier.hpp: the fibers of one kernel thread, and who of them runs next.
//
// Order      a ring. A yield goes to the next fiber that can run and comes back after each of the others has had one
//            turn. A new fiber, and one that has waited, has its turn after all the others.
// Pinned     fibers never move to another kernel thread, so code on them may use thread-local data as usual.
// Blocking   a system call that blocks stops all fibers of the thread.
// Memory     a fiber's record lies at the top of its own stack.
#pragma once

#include <muster/base/caught.hpp>             // caught
#include <muster/base/inside.hpp>             // inside
#include <muster/base/stack_overflow.hpp>     // stack_overflow
#include <muster/base/sync.hpp>               // sync::innermost, sync::own
#include <muster/base/thread.hpp>             // pool_place
#include <muster/fiber/context.hpp>           // switch_context
#include <muster/fiber/context_watchers.hpp>  // watched_stack, exception_globals
#include <muster/fiber/stack.hpp>             // stack_memory

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
  fiber_place* joined = nullptr;  // by this one, which waits for it
  real::pool_place place;
  bool keeps = false;  // whether one of the above is not null
  watched_stack watched;
  std::uint64_t number = 0;
};

struct fiber_record : fiber_place {
  explicit fiber_record(const stack_memory& on) : stack(on) {}
  virtual void run() = 0;
  virtual ~fiber_record() = default;

  const stack_memory stack;
  std::exception_ptr error;  // what left run()
  fiber_place* joiner = nullptr;
  bool done = false;
};

/// One for each kernel thread, empty until the thread makes its first fiber.
class carrier {
 public:
  static carrier& own() noexcept;

  bool has_siblings() const noexcept { return current_->next != current_; }
  /// 0 is the thread itself.
  std::uint64_t current_number() const noexcept { return current_->number; }
  /// Fibers that are not done, without the thread itself.
  std::uint64_t live() const noexcept { return live_; }

  /// While it lives, the fiber that has made it does nothing but look whether something has happened.
  class idle_turns {
   public:
    idle_turns() noexcept : carrier_(own()) { ++carrier_.idle_; }
    ~idle_turns() {
      --carrier_.idle_;
      carrier_.vain_ = 0;
    }
    idle_turns(const idle_turns&) = delete;
    idle_turns& operator=(const idle_turns&) = delete;
    /// Whether nobody on this thread has anything else to do, and many turns have gone by since one of them had.
    bool all_in_vain() const noexcept {
      if (carrier_.idle_ != carrier_.runnable_ || ++carrier_.vain_ < most_vain) return false;
      carrier_.vain_ = 0;
      return true;
    }

   private:
    static constexpr unsigned most_vain = 2048;  // some microseconds
    carrier& carrier_;
  };

  MUSTER_HOT void yield() noexcept {
    if (!has_siblings()) return;
    run(current_->next);
  }

  /// Gives a new fiber its turn after all the others. It runs on the stack from its record down. Throws std::bad_alloc,
  /// and then nothing has happened.
  void add(fiber_record& fiber) {
    if (current_ == &nobody_) begin();
    char* const top = reinterpret_cast<char*>(&fiber);
    const auto size = static_cast<std::size_t>(top - fiber.stack.bottom);
    fiber.number = ++made_;
    fiber.context = new_context<&carrier::run_body>(top, size);
    fiber.watched.begin(fiber.stack.bottom, fiber.stack.size());
    ++live_;
    insert(fiber);
  }

  /// Returns when `fiber` is done.
  void await(fiber_record& fiber) noexcept {
    if (fiber.done) return;
    MUSTER_CHECK(fiber.joiner == nullptr, "two fibers join the same fiber");
    fiber.joiner = current_;
    current_->joined = &fiber;
    if (sync::innermost() != nullptr) [[unlikely]]
      hand_chain_on(fiber);
    leave_ring(false);
    current_->joined = nullptr;
  }

  /// Operations of this thread's fibers that wait within other operations (combine/impl/entering.hpp).
  void* nested = nullptr;

 private:
  /// After all the others that can run.
  void insert(fiber_place& fiber) noexcept {
    fiber.next = current_;
    fiber.before = std::exchange(current_->before, &fiber);
    fiber.before->next = &fiber;
    ++runnable_;
  }

  MUSTER_HOT void run(fiber_place* to, bool for_ever = false) noexcept {
    sync::switch_fiber();
    fiber_place* const from = current_;
    // Most fibers handle no exception and are in the middle of no operation when they yield.
    if (exceptions_->any() || sync::innermost() != nullptr || to->keeps) [[unlikely]]
      exchange_kept(*from, *to);
    current_ = to;
    from->watched.before_leaving(to->watched, came_from_, for_ever);
    switch_context(from->context, to->context);
    from->watched.after_coming(came_from_);
  }

  MUSTER_COLD void exchange_kept(fiber_place& from, fiber_place& to) noexcept {
    from.exceptions = std::exchange(*exceptions_, std::exchange(to.exceptions, {}));
    from.innermost = std::exchange(sync::innermost(), std::exchange(to.innermost, nullptr));
    from.place = std::exchange(real::own_place(), std::exchange(to.place, {}));
    from.keeps = from.exceptions.any() || from.innermost != nullptr;
    to.keeps = false;
  }

  /// The operations that the current fiber executes wait for the one that it joins, and for those that this one joins.
  MUSTER_COLD static void hand_chain_on(fiber_place& to) noexcept {
    for (fiber_place* at = &to; at != nullptr; at = at->joined) {
      inside::append(at->innermost, sync::innermost());
      at->keeps = true;
    }
  }

  void leave_ring(bool for_ever) noexcept {
    MUSTER_CHECK(current_->next != current_, "every fiber of this thread waits for another to end: a cycle of joins");
    current_->before->next = current_->next;
    current_->next->before = current_->before;
    --runnable_;
    run(current_->next, for_ever);
  }

  void begin();
  [[noreturn]] static void run_body();

  // What every thread is in before its first fiber: a ring of one, which is only read.
  static constinit fiber_place nobody_;

  fiber_place* current_ = &nobody_;
  exception_globals* exceptions_ = nullptr;
  watched_stack* came_from_ = nullptr;
  std::uint64_t made_ = 0;
  std::uint64_t live_ = 0;  // made and not done
  unsigned runnable_ = 0;   // in the ring
  unsigned idle_ = 0;       // of these: in idle_turns
  unsigned vain_ = 0;       // turns in a row in which all were
  fiber_place thread_;
};

inline constinit fiber_place carrier::nobody_(&carrier::nobody_);

inline carrier& carrier::own() noexcept { return sync::own<carrier>(); }

inline void carrier::begin() {
  // Looks, when the thread ends, whether it leaves fibers behind.
  struct last_look {
    ~last_look() { MUSTER_CHECK(own().live() == 0, "a thread ends while it has fibers that are not done: join them"); }
  };
  sync::at_thread_end<last_look>();
  MUSTER_CHECK(!switches_by_itself || !shadow_stack(),
               "fibers cannot run under a shadow stack (Intel CET): start the program with "
               "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, or link it without -fcf-protection");
  stack_overflow::watch();
  stack_overflow::names() = []() noexcept -> const char* {
    return own().current_number() == 0 ? nullptr : "that of a fiber; give it a larger one (stack_options::size)";
  };
  exceptions_ = &thread_exceptions();
  current_ = thread_.next = thread_.before = &thread_;
  runnable_ = 1;
}

inline void carrier::run_body() {
  carrier& here = own();
  auto& fiber = static_cast<fiber_record&>(*here.current_);
  fiber.watched.after_coming(here.came_from_);
  try {
    fiber.run();
  } catch (...) {
    fiber.error = caught();
  }
  fiber.done = true;
  --here.live_;
  if (fiber.joiner != nullptr) here.insert(*fiber.joiner);
  here.leave_ring(true);
  __builtin_unreachable();
}

}  // namespace muster::inline MUSTER_ABI::detail
