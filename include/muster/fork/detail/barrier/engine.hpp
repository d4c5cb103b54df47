// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// engine.hpp: the forks of one thread: a deque that is the thread's stack.
//
// A thief that finds nothing to take requests work, as in watermark.hpp. The thread's next fork sees that and walks its
// own stack to find the frames of forks. The older half of them are offered: each gets a record, and the barrier's
// address replaces its return address. A thief reads the second half from the frame and executes it on its own stack.
// When the first half returns, it reaches the barrier. There the thread takes the second half back, or waits for it,
// and continues in its frame, on its own stack, with its locks and its thread-local data.
//
// Order      the owner takes the newest, thieves the oldest.
// Progress   without a request, a fork costs one load and one compare. A walk costs some nanoseconds per frame.
// Signals    work is requested of a thread that does not fork by SIGURG, which interrupts it for one walk.
// Memory     a record for each fork that was found; records are reused.
// Needs      x86-64, no shadow stack, and unwind information; unavailable_reason() names what is missing. While a
//            function without unwind information is on the stack, its thread offers no further forks.
// Source     Kumar, Blackburn, Grove, "Friendly Barriers" (VEE 2014); Kumar, Frampton, Blackburn, Grove, Tardieu,
//            "Work-Stealing Without The Baggage" (OOPSLA 2012).
#pragma once

#include <muster/base/arch.hpp>                    // isolation_size
#include <muster/base/detail/native.hpp>           // native::worker_binding
#include <muster/base/sync.hpp>                    // sync::atomic, sync::light_fence
#include <muster/fork/detail/barrier/records.hpp>  // found_forks
#include <muster/fork/detail/watermark.hpp>        // watermark_engine

#include <concepts>  // std::same_as
#include <cstdint>   // std::uintptr_t
#include <utility>   // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// A stack on which forks can be found, and caught when their first halves return: the processor's (machine_stack), or
/// that of a test. A thread stops another by interrupting it at a `point`, where it calls publish_in_handler().
template <class S>
concept scannable_stack =
    requires(S stack, typename S::thread one, const typename S::point* stopped, found_forks& found, stack_fork& r,
             task& stolen, std::uintptr_t place, void* engine, bool (*ready)()) {
      // Null, or the reason why this is not possible in this process.
      { S::unavailable_reason() } noexcept -> std::same_as<const char*>;
      // How deep the caller is; what it calls is deeper.
      { S::depth() } noexcept -> std::same_as<std::uint64_t>;

      { S::this_thread() } noexcept -> std::same_as<typename S::thread>;
      // Lets the caller, a thread of the pool, be stopped.
      { S::let_stop() } noexcept;
      // Makes an engine of that thread publish.
      { S::stop(one, engine) } noexcept;
      // Waits until ready(). Returns false if that takes too long.
      { S::wait(ready) } noexcept -> std::same_as<bool>;

      // Walks from the caller, or from where it was stopped, up to a known fork at a slot, or to the entry if it is 0.
      { stack.find(found, place, place, stopped) } noexcept -> std::same_as<found_forks::extent>;
      // Called before the first prepare().
      { S::make_ready() } noexcept;
      // For a fork that was found: reads its second half. Returns false if the fork must be left alone.
      { S::prepare(r) } noexcept -> std::same_as<bool>;
      // From now on its first half returns to the barrier.
      { S::replace(r) } noexcept;
      // Called when it has.
      { S::restore(r) } noexcept;
      // Called by the thief, on its own stack: executes the second half.
      { S::run_stolen(stolen) } noexcept -> std::same_as<completion_count*>;

      // The minimum number of unused records of a thread, and how many requests are skipped after one without answer.
      { S::records + S::spared } -> std::convertible_to<unsigned>;
    };

/// The forks of one worker. Offering and stealing are the list's, which both engines use. If forks cannot be found in
/// this process, they are pushed.
template <class Stack>
class barrier_engine {
  static_assert(scannable_stack<Stack>);

 public:
  explicit barrier_engine(idle_workers& asleep, const engine_options& options = {}) noexcept
      : pushed_(asleep, options), uses_stack_scan_(!options.force_watermark && unavailable_reason() == nullptr) {}
  barrier_engine(const barrier_engine&) = delete;
  barrier_engine& operator=(const barrier_engine&) = delete;

  /// Returns null, or the reason why this engine cannot be used in this process.
  static const char* unavailable_reason() noexcept { return Stack::unavailable_reason(); }
  /// True if forks are found on the stack. Otherwise they are pushed and popped.
  bool uses_stack_scan() const noexcept { return uses_stack_scan_; }

  steal_list& tasks() noexcept { return pushed_.tasks(); }
  const steal_list& tasks() const noexcept { return pushed_.tasks(); }
  /// The forks, if they are not found on the stack.
  watermark_engine& pushed() noexcept { return pushed_; }

  // --- The owner.

  /// From now on the owner's forks are below `frame`, a frame of its own.
  void begin(const void* frame) noexcept {
    if (!uses_stack_scan_) return;
    entry_ = reinterpret_cast<std::uintptr_t>(frame);
    thread_.store(Stack::this_thread(), std::memory_order_relaxed);
    signal_.store(none, std::memory_order_relaxed);
    const busy now(*this);
    stock_.fill(Stack::records);
  }
  /// The owner is a thread of the pool, so the pool unblocks the signal for it.
  void begin_thread() noexcept {
    if (uses_stack_scan_) Stack::let_stop();
  }
  /// The owner begins (true) or ends (false) to execute something that may fork.
  void set_running(bool now) noexcept {
    running_.store(running_.load(std::memory_order_relaxed) + (now ? 1U : ~0U), std::memory_order_relaxed);
  }
  /// The thread is in another pool until resume(): no work can be requested of it.
  MUSTER_COLD void suspend() noexcept {
    if (!uses_stack_scan_) return;
    publish_all();
    away_.store(true, std::memory_order_relaxed);
  }
  void resume() noexcept { away_.store(false, std::memory_order_relaxed); }

  /// The word that the frames of the owner's forks read; a constant if forks are pushed and popped.
  const void* poll_word() const noexcept {
    static_assert(steal_list::requested > native::worker_binding::no_poll_word);
    return uses_stack_scan_ ? static_cast<const void*>(&tasks().poll_word()) : &native::worker_binding::no_poll_word;
  }
  std::uint64_t depth() const noexcept { return uses_stack_scan_ ? Stack::depth() : pushed_.depth(); }
  /// Called in a fork of which a thief requests work.
  MUSTER_COLD void publish_at_fork() noexcept {
    const busy now(*this);
    const timed publishing(tasks().counts.publishing);
    stock_.fill(2 * Stack::records);
    Stack::make_ready();
    publish(tasks().options().always ? share::all : share::of_options, nullptr);
    if (tasks().offers()) tasks().wake_thief();
    tasks().wait_for_theft();
  }
  /// Offers an async of the scope `group`.
  void offer(task& r, task::runner run, const scope_node& group) noexcept {
    const busy now(*this);
    quiet_.store(false, std::memory_order_relaxed);
    pushed_.offer(r, run, group);
  }
  /// Offers everything, before the owner sleeps.
  MUSTER_COLD void publish_all() noexcept {
    if (!uses_stack_scan_) return pushed_.publish_all();
    const busy now(*this);
    stock_.fill(4 * Stack::records);
    Stack::make_ready();
    publish(share::all, nullptr);
    if (tasks().offers()) tasks().wake_thief();
  }
  /// Called in the signal handler.
  void publish_in_handler(const typename Stack::point& stopped) noexcept {
    bool answered = false;
    // (2) light_fence: pairs with (1).
    const bool is_busy = busy_.load(std::memory_order_relaxed);
    sync::light_fence();
    if (!is_busy) {
      const busy now(*this);
      const timed publishing(tasks().counts.publishing);
      if (running_.load(std::memory_order_relaxed) == 0) {
        answered = true;
      } else if (stock_.take_gift()) {
        answered = publish(share::all, &stopped);
      } else {
        stock_.lacks(1);
      }
    }
    if (answered) {
      // (4) release: pairs with (3). A thread that sees quiet_ also sees the offered forks. It may no longer wait for
      // this answer, and the handler wakes no sleeper.
      quiet_.store(true, std::memory_order_release);
      tasks().poll_word().store(steal_list::requested, std::memory_order_relaxed);
    }
    // Relaxed: the thread that sent the signal reads quiet_ too.
    signal_.store(answered ? none : failed, std::memory_order_relaxed);
  }

  /// The newest fork whose return address is replaced, which returns to the barrier first; or null.
  stack_fork* newest() const noexcept { return newest_.load(std::memory_order_relaxed); }
  /// Called when the first half has returned to the barrier. Returns true if the owner may execute the second half.
  /// Otherwise a thief has it: wait until it is done, and call end().
  bool take_back_at_barrier(stack_fork& r) noexcept {
    Stack::restore(r);  // first: once taken back, it may be found again
    return take_back(r);
  }
  /// The same, called when an exception passes the frame.
  MUSTER_COLD bool take_back(stack_fork& r) noexcept {
    const timed returning(tasks().counts.returning);
    steal_counts::add(tasks().counts.returns, 1);
    const busy now(*this);
    quiet_.store(false, std::memory_order_relaxed);
    tasks().lock();
    const bool mine = tasks().take_back(r);
    if (mine) leave_list(r);
    tasks().clear_request(0);
    tasks().unlock();
    return mine;
  }
  MUSTER_COLD void end(stack_fork& r) noexcept {
    const busy now(*this);
    r.joined();
    leave_list(r);
  }
  /// Makes a joined record available again.
  void recycle(stack_fork& r) noexcept {
    const busy now(*this);
    stock_.put(r);
  }
  /// While it lives, walks end at `frame`: an exception has left the functions above it.
  class end_of_stack {
   public:
    end_of_stack(barrier_engine& of, const void* frame) noexcept
        : of_(of), outer_(std::exchange(of.entry_, reinterpret_cast<std::uintptr_t>(frame))) {}
    ~end_of_stack() { of_.entry_ = outer_; }
    end_of_stack(const end_of_stack&) = delete;
    end_of_stack& operator=(const end_of_stack&) = delete;

   private:
    barrier_engine& of_;
    const std::uintptr_t outer_;
  };

  /// While it lives, the signal handler does nothing.
  class busy {
   public:
    explicit busy(barrier_engine& of) noexcept : of_(of), outer_(of.busy_.load(std::memory_order_relaxed)) {
      of_.busy_.store(true, std::memory_order_relaxed);
      // (1) light_fence: pairs with (2). A handler that does not see that we are busy sees none of the later stores.
      sync::light_fence();
    }
    ~busy() {
      // (1)
      sync::light_fence();
      of_.busy_.store(outer_, std::memory_order_relaxed);
    }
    busy(const busy&) = delete;
    busy& operator=(const busy&) = delete;

   private:
    barrier_engine& of_;
    const bool outer_;
  };

  // --- Thieves.

  /// True if the owner may have forks that it has not offered.
  bool may_have_more() const noexcept {
    if (!uses_stack_scan_) return pushed_.may_have_more();
    // (3) acquire: pairs with (4).
    return running_.load(std::memory_order_relaxed) != 0 && !away_.load(std::memory_order_relaxed) &&
           !quiet_.load(std::memory_order_acquire);
  }
  /// Makes an owner that does not fork publish. Returns false if its forks could not be determined.
  MUSTER_COLD bool publish_for_owner() noexcept {
    if (!uses_stack_scan_) return pushed_.publish_for_owner();
    for (unsigned tries = 0; may_have_more() && tries < 4; ++tries) {
      if (unsigned spared = signal_.load(std::memory_order_relaxed);
          spared >= unanswered && spared - unanswered < Stack::spared) {
        signal_.compare_exchange_strong(spared, spared + 1, std::memory_order_relaxed);
        return false;
      }
      stock_.give();
      if (signal_.exchange(sent, std::memory_order_relaxed) != sent)
        Stack::stop(thread_.load(std::memory_order_relaxed), this);
      if (Stack::wait([this] { return signal_.load(std::memory_order_relaxed) != sent; })) continue;
      unsigned still = sent;
      signal_.compare_exchange_strong(still, unanswered, std::memory_order_relaxed);
      return false;
    }
    return !may_have_more();
  }

  /// Asserts the invariants. Called only by the owner, while no thread steals.
  void check() const {
    if (!uses_stack_scan_) return pushed_.check();
    unsigned many = 0;
    for (const stack_fork* r = newest(); r != nullptr; r = older(*r)) {
      MUSTER_CHECK(older(*r) == nullptr || older(*r)->slot_ > r->slot_, "a newer fork is above an older one");
      many += steal_list::is_offered(*r);
    }
    tasks().check(many);
  }

 private:
  enum class share { of_options, all };

  static stack_fork* older(const stack_fork& r) noexcept { return static_cast<stack_fork*>(r.task::older()); }
  void leave_list(const stack_fork& r) noexcept { newest_.store(older(r), std::memory_order_relaxed); }

  /// `stopped`: the start of the walk if called by the signal handler, or null. Offers nothing if the walk ends early,
  /// because only the oldest forks may be offered. Returns false if forks that should be offered may be missing.
  /// Hidden: see machine_stack::prepare().
  [[gnu::visibility("hidden")]] bool publish(share how, const typename Stack::point* stopped) noexcept {
    using extent = found_forks::extent;
    quiet_.store(false, std::memory_order_relaxed);
    const stack_fork* const known = newest();
    found_forks found(stock_, stopped != nullptr);
    const extent seen = stack_.find(found, known == nullptr ? 0 : known->slot_, entry_, stopped);
    bool locked = true;
    if (stopped != nullptr) {
      locked = tasks().try_lock();
    } else {
      tasks().lock();
    }
    unsigned offered = how == share::all ? found.many() : tasks().options().share_of(found.many());
    if (seen == extent::unusable || !locked) offered = 0;
    stack_fork* r = found.oldest();
    steal_counts::add(tasks().counts.answers, 1);
    steal_counts::add(tasks().counts.offered, offered);
    for (; offered > 0 && Stack::prepare(*r); --offered) {
      stack_fork* const newer = r->before_;
      offer_found(*r);
      r = newer;
    }
    if (locked) {
      tasks().clear_request(0);
      tasks().unlock();
    }
    while (r != nullptr) {
      stack_fork* const newer = r->before_;
      recycle(*r);
      r = newer;
    }
    stock_.lacks(found.lacking());
    return seen == extent::all && locked && found.lacking() == 0 && offered == 0;
  }
  /// Under the lock. Called for the oldest fork first.
  [[gnu::visibility("hidden")]] void offer_found(stack_fork& r) noexcept {
    r.own_.write_ref().value = {newest(), &Stack::run_stolen, ~r.slot_};
    steal_list::prepare(r, nullptr, nullptr);
    tasks().append(r, r, 1);
    newest_.store(&r, std::memory_order_relaxed);
    Stack::replace(r);
  }

  // `unanswered` or more: a signal was sent, but no handler has answered for long. The thread may be suspended or block
  // the signal, or it received it while this was not its worker. The value beyond `unanswered` counts the requests
  // spared since.
  enum signal_state : unsigned { none, sent, failed, unanswered };

  watermark_engine pushed_;
  const bool uses_stack_scan_;
  std::uintptr_t entry_ = 0;
  sync::atomic<stack_fork*> newest_{nullptr};  // by the owner and its handler: the list of replaced forks
  sync::atomic<bool> busy_{false};
  frame_stock stock_;
  Stack stack_;
  alignas(isolation_size) sync::atomic<unsigned> running_{0};
  // The signal handler has offered everything and raised the watermark, so that the next fork publishes. Cleared
  // before the watermark falls.
  sync::atomic<bool> quiet_{false};
  sync::atomic<bool> away_{false};
  sync::atomic<unsigned> signal_{none};
  sync::atomic<typename Stack::thread> thread_{0};
};

}  // namespace muster::inline MUSTER_ABI::detail
