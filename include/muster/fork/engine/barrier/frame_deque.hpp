// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// frame_deque.hpp: the forks of one thread: a deque that is the thread's stack.
//
// A thief that finds nothing to take asks, as in watermark.hpp. The thread's next fork sees that, and walks its own
// stack: every frame that forks gets a record, and its return address is replaced by the barrier's. The older half of
// them is offered. A thief reads the second half from the frame, and executes it on its own stack. When the first half
// returns, it comes to the barrier. There the thread takes the second half back, or waits for it, and goes on in its
// frame, on its own stack, with its locks and its thread-local data.
//
// Order      the owner takes the newest, thieves the oldest.
// Progress   a fork that nobody has asked: one load, one compare. A walk costs some nanoseconds per frame.
// Signals    a thread that does not fork is asked by SIGURG, which stops it where it is for one walk.
// Memory     for each fork that has been found, a record, which is used again.
// Needs      x86-64 and no shadow stack: obstacle() tells what is missing; and unwind information. While a function
//            that has none is on the stack, its thread offers nothing that it has not offered before.
// Source     Kumar, Blackburn, Grove, "Friendly Barriers" (VEE 2014); Kumar, Frampton, Blackburn, Grove, Tardieu,
//            "Work-Stealing Without The Baggage" (OOPSLA 2012).
#pragma once

#include <muster/fork/engine/barrier/found_forks.hpp>  // found_forks
#include <muster/fork/engine/watermark.hpp>            // fork_deque

#include <cstdint>  // std::uintptr_t
#include <utility>  // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// One for each worker. What is offered, and how thieves take it, is the other engine's: so is everything where this
/// one is not possible. `Stack`: see machine_stack.hpp.
template <class Stack>
class basic_frame_deque : public fork_deque {
 public:
  explicit basic_frame_deque(sleepers& asleep, const deque_options& options = {}) noexcept
      : fork_deque(asleep, options), by_frames_(!options.apart && obstacle() == nullptr) {}

  /// Null, or why this engine cannot be used in this process.
  static const char* obstacle() noexcept { return Stack::obstacle(); }
  /// Whether forks are found on the stack. Otherwise they are pushed and popped.
  bool by_frames() const noexcept { return by_frames_; }

  // --- The owner.

  /// From now on the owner's forks lie below `frame`, its own.
  void begin_on_stack(const void* frame) noexcept {
    if (!by_frames_) return;
    entry_ = reinterpret_cast<std::uintptr_t>(frame);
    thread_.store(Stack::this_thread(), std::memory_order_relaxed);
    told_.store(nothing, std::memory_order_relaxed);
    const busy now(*this);
    stock_.fill(Stack::records);
  }
  /// The owner is a thread of the pool: nobody else says which signals it lets in.
  void begin_thread() noexcept {
    if (by_frames_) Stack::let_stop();
  }
  /// The owner begins, or ends, to execute something that may fork.
  void runs(bool now) noexcept {
    running_.store(running_.load(std::memory_order_relaxed) + (now ? 1U : ~0U), std::memory_order_relaxed);
  }
  /// The thread is in another pool until go_on(): it cannot be asked.
  MUSTER_COLD void pause() noexcept {
    if (!by_frames_) return;
    publish_all();
    away_.store(true, std::memory_order_relaxed);
  }
  void go_on() noexcept { away_.store(false, std::memory_order_relaxed); }

  /// At what the frames of the owner's forks look: at nothing that concerns them where forks are pushed and popped.
  const void* mark() const noexcept {
    static_assert(asked > real::pool_place::nobodys_mark);
    return by_frames_ ? static_cast<const void*>(&mark_) : &real::pool_place::nobodys_mark;
  }
  /// Within a fork, when is_asked().
  MUSTER_COLD inline void answer_at_fork() noexcept;
  /// See fork_deque.
  void offer(fork_record& r, fork_record::runner run, const scope_link& group) noexcept {
    const busy now(*this);
    quiet_.store(false, std::memory_order_relaxed);
    fork_deque::offer(r, run, group);
  }
  /// Before it sleeps: offers everything.
  MUSTER_COLD inline void publish_all() noexcept;
  /// In the signal's handler.
  inline void answer_in_handler(const typename Stack::point& stopped) noexcept;

  /// The newest fork whose return address has been replaced: of those, the first to come to the barrier. Or null.
  frame_record* newest() const noexcept {
    fork_record* const r = head_.load(std::memory_order_relaxed);
    return r == &bottom_ ? nullptr : static_cast<frame_record*>(r);
  }
  /// When the first half has returned to the barrier. Returns true when the second half is the owner's. Otherwise a
  /// thief has it: wait until it is done, and call end().
  bool take_back_at_barrier(frame_record& r) noexcept {
    Stack::restore(r);  // first: as soon as it has been taken back, it may be found again
    return take_back(r);
  }
  /// The same when an exception passes the frame.
  MUSTER_COLD inline bool take_back(frame_record& r) noexcept;
  using fork_deque::take_back;
  MUSTER_COLD inline void end(frame_record& r) noexcept;
  /// Forgets a record that has been joined.
  void recycle(frame_record& r) noexcept {
    const busy now(*this);
    stock_.put(r);
  }
  /// While it lives, walks end at `frame`: the functions above it have been left by an exception.
  class end_of_stack {
   public:
    end_of_stack(basic_frame_deque& of, const void* frame) noexcept
        : of_(of), outer_(std::exchange(of.entry_, reinterpret_cast<std::uintptr_t>(frame))) {}
    ~end_of_stack() { of_.entry_ = outer_; }
    end_of_stack(const end_of_stack&) = delete;
    end_of_stack& operator=(const end_of_stack&) = delete;

   private:
    basic_frame_deque& of_;
    const std::uintptr_t outer_;
  };

  /// While it lives, the signal's handler does nothing.
  class busy {
   public:
    explicit busy(basic_frame_deque& of) noexcept : of_(of), outer_(of.busy_.load(std::memory_order_relaxed)) {
      of_.busy_.store(true, std::memory_order_relaxed);
      // (1) light_fence: pairs with (2). What follows is not seen by a handler that does not see that we are busy.
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
    basic_frame_deque& of_;
    const bool outer_;
  };
  std::uint64_t depth() const noexcept { return by_frames_ ? Stack::depth() : fork_deque::depth(); }
  /// See fork_deque.
  void enter(theft& now) noexcept { enter_at(now, depth()); }

  // --- Thieves.

  /// Whether the owner may have forks that it has not been asked for.
  bool has_records() const noexcept {
    if (!by_frames_) return fork_deque::has_records();
    // (3) acquire: pairs with (4).
    return running_.load(std::memory_order_relaxed) != 0 && !away_.load(std::memory_order_relaxed) &&
           !quiet_.load(std::memory_order_acquire);
  }
  /// Makes an owner that does not fork answer. Returns false when it could not be found out what it has.
  MUSTER_COLD inline bool answer_for_owner() noexcept;

 private:
  enum class share { of_options, all };

  /// From `stopped`, when a signal's handler calls. Hidden: see machine_stack::prepare().
  [[gnu::visibility("hidden")]] inline bool publish(share how, const typename Stack::point* stopped) noexcept;
  [[gnu::visibility("hidden")]] inline void offer_found(frame_record& r) noexcept;

  // unheard, and more: a signal has been sent, and no handler has said anything for long. The thread may be suspended,
  // or not let it in; or it has let it in where this was not its worker. So many have not asked since.
  enum told : unsigned { nothing, asked_by_signal, failed, unheard };

  const bool by_frames_;
  std::uintptr_t entry_ = 0;
  sync::atomic<bool> busy_{false};
  frame_stock stock_;
  Stack stack_;
  alignas(isolation_size) sync::atomic<unsigned> running_{0};
  // The signal's handler has offered everything, and since then the next fork is asked: false whenever the mark falls.
  sync::atomic<bool> quiet_{false};
  sync::atomic<bool> away_{false};
  sync::atomic<unsigned> told_{nothing};
  sync::atomic<typename Stack::thread> thread_{0};
};

/// Under the lock, the oldest first.
template <class Stack>
void basic_frame_deque<Stack>::offer_found(frame_record& r) noexcept {
  r.own_.ref().value = {head_.load(std::memory_order_relaxed), &Stack::run_stolen, ~r.slot_};
  append(r, nullptr);
  bar_ = &r;
  head_.store(&r, std::memory_order_relaxed);
  Stack::replace(r);
}

/// Offers nothing when the walk ends early: what is offered must be the oldest. Returns false when the owner may have
/// forks that should have been offered and are not.
template <class Stack>
bool basic_frame_deque<Stack>::publish(share how, const typename Stack::point* stopped) noexcept {
  using extent = found_forks::extent;
  quiet_.store(false, std::memory_order_relaxed);
  const frame_record* const known = newest();
  found_forks found(stock_, stopped != nullptr);
  const extent seen = stack_.find(found, known == nullptr ? 0 : known->slot_, entry_, stopped);
  bool locked = true;
  if (stopped != nullptr) {
    locked = lock_.try_lock();
  } else {
    lock_.lock();
  }
  unsigned offered = how == share::all ? found.many() : options_.share_of(found.many());
  if (seen == extent::unusable || !locked) offered = 0;
  frame_record* r = found.oldest();
  steal_counts::add(counts.answers, 1);
  steal_counts::add(counts.offered, offered);
  for (; offered > 0 && Stack::prepare(*r); --offered) {
    frame_record* const newer = r->before_;
    offer_found(*r);
    r = newer;
  }
  if (locked) {
    raise_mark();
    lock_.unlock();
  }
  while (r != nullptr) {
    frame_record* const newer = r->before_;
    recycle(*r);
    r = newer;
  }
  stock_.lacks(found.lacking());
  return seen == extent::all && locked && found.lacking() == 0 && offered == 0;
}

template <class Stack>
void basic_frame_deque<Stack>::answer_at_fork() noexcept {
  const busy now(*this);
  const timed publishing(counts.publishing);
  stock_.fill(2 * Stack::records);
  Stack::make_ready();
  publish(options_.always ? share::all : share::of_options, nullptr);
  if (offers() && sleepers_.anyone()) sleepers_.wake_one();
  wait_for_theft();
}

template <class Stack>
void basic_frame_deque<Stack>::publish_all() noexcept {
  if (!by_frames_) return fork_deque::publish_all();
  const busy now(*this);
  stock_.fill(4 * Stack::records);
  Stack::make_ready();
  publish(share::all, nullptr);
  if (offers() && sleepers_.anyone()) sleepers_.wake_one();
}

template <class Stack>
void basic_frame_deque<Stack>::answer_in_handler(const typename Stack::point& stopped) noexcept {
  bool answered = false;
  // (2) light_fence: pairs with (1).
  const bool is_busy = busy_.load(std::memory_order_relaxed);
  sync::light_fence();
  if (!is_busy) {
    const busy now(*this);
    const timed publishing(counts.publishing);
    if (running_.load(std::memory_order_relaxed) == 0) {
      answered = true;
    } else if (stock_.take_gift()) {
      answered = publish(share::all, &stopped);
    } else {
      stock_.lacks(1);
    }
  }
  if (answered) {
    // (4) release: pairs with (3). Whoever sees that there is nothing more finds what is offered: the handler wakes
    // nobody, and who has asked may have lost patience.
    quiet_.store(true, std::memory_order_release);
    mark_.store(asked, std::memory_order_relaxed);
  }
  // Relaxed: whoever has asked looks at quiet_ as well.
  told_.store(answered ? nothing : failed, std::memory_order_relaxed);
}

template <class Stack>
bool basic_frame_deque<Stack>::take_back(frame_record& r) noexcept {
  const timed returning(counts.returning);
  steal_counts::add(counts.returns, 1);
  const busy now(*this);
  quiet_.store(false, std::memory_order_relaxed);
  lock_.lock();
  const bool mine = r.state_.value.load(std::memory_order_relaxed) == fork_record::offered;
  if (mine) {
    unlink(r);
    head_.store(r.older(), std::memory_order_relaxed);
    bar_ = r.older();
  }
  raise_mark();
  lock_.unlock();
  return mine;
}

template <class Stack>
void basic_frame_deque<Stack>::end(frame_record& r) noexcept {
  const busy now(*this);
  r.joined();
  lock_.lock();
  head_.store(r.older(), std::memory_order_relaxed);
  bar_ = r.older();
  lock_.unlock();
}

template <class Stack>
bool basic_frame_deque<Stack>::answer_for_owner() noexcept {
  if (!by_frames_) return fork_deque::answer_for_owner();
  for (unsigned tries = 0; has_records() && tries < 4; ++tries) {
    if (unsigned spared = told_.load(std::memory_order_relaxed);
        spared >= unheard && spared - unheard < Stack::spared) {
      told_.compare_exchange_strong(spared, spared + 1, std::memory_order_relaxed);
      return false;
    }
    stock_.give();
    if (told_.exchange(asked_by_signal, std::memory_order_relaxed) != asked_by_signal)
      Stack::stop(thread_.load(std::memory_order_relaxed), this);
    if (Stack::wait([this] { return told_.load(std::memory_order_relaxed) != asked_by_signal; })) continue;
    unsigned still = asked_by_signal;
    told_.compare_exchange_strong(still, unheard, std::memory_order_relaxed);
    return false;
  }
  return !has_records();
}

}  // namespace muster::inline MUSTER_ABI::detail
