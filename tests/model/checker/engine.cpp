// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// engine.cpp: see engine.hpp.
#include "checker/engine.hpp"

#include <muster/base/config.hpp>

#include <boost/context/detail/fcontext.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

namespace muster_model {

namespace ctx = boost::context::detail;

namespace {

engine* the_engine = nullptr;

void** leaving = nullptr;  // where the context that is being left belongs

void hop(void** save, void* to, void* data) {
  leaving = save;
  const ctx::transfer_t back = ctx::jump_fcontext(to, data);
  *leaving = back.fctx;
}

void start(ctx::transfer_t from) {
  *leaving = from.fctx;
  static_cast<engine*>(from.data)->run_thread();
}

}  // namespace

bool depend(const pending& first, unsigned a, const pending& second, unsigned b) {
  using kind = pending::kind;
  if (a == b) return true;
  if (first.what == kind::local || second.what == kind::local) return false;
  const auto is_fence = [](const pending& p) { return p.what == kind::fence || p.what == kind::remote; };
  if (first.what == kind::remote && first.location == static_cast<int>(b)) return true;
  if (second.what == kind::remote && second.location == static_cast<int>(a)) return true;
  if (is_fence(first) || is_fence(second))
    return (is_fence(first) || first.sequential) && (is_fence(second) || second.sequential);
  if (first.what == kind::join) return second.what == kind::end && first.location == static_cast<int>(b);
  if (second.what == kind::join) return first.what == kind::end && second.location == static_cast<int>(a);
  if (first.what == kind::end || second.what == kind::end) return false;
  const bool same =
      first.location == second.location || first.location == pending::anywhere || second.location == pending::anywhere;
  return same && (first.what == kind::write || second.what == kind::write);
}

/// Stacks that are used again in every execution.
class engine::stacks {
 public:
  static constexpr std::size_t size = 128 * 1024;
  stacks() {
    for (void*& base : bases_) {
      base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
      if (base == MAP_FAILED) throw std::bad_alloc();
    }
  }
  ~stacks() {
    for (void* base : bases_) ::munmap(base, size);
  }
  stacks(const stacks&) = delete;
  stacks& operator=(const stacks&) = delete;
  void* top(unsigned thread) const { return static_cast<char*>(bases_[thread]) + size; }

 private:
  void* bases_[most_threads] = {};
};

engine::engine() : stacks_(std::make_unique<stacks>()) { threads_.reserve(most_threads); }
engine::~engine() = default;

engine& engine::running() { return *the_engine; }
bool engine::is_running() { return the_engine != nullptr; }

std::string engine::execute(scheduler& decisions, const std::function<void()>& program) {
  decisions_ = &decisions;
  memory_.reset();
  threads_.clear();
  identities_ = 0;
  kept_to_the_end_.clear();
  failure_.clear();
  trace_.clear();
  steps_ = plain_accesses_ = 0;
  current_ = 0;
  abandoned_ = false;
  was_stale_ = false;
  timeouts_left_ = most_timeouts;
  spurious_left_ = most_spurious;
  the_engine = this;
  spawn(program);
  heap::begin();
  hop(&outside_, threads_[0].context, this);
  const bool ran_to_the_end = failure_.empty() && !abandoned_ &&
                              std::all_of(threads_.begin(), threads_.end(), [](const fiber& t) { return t.done; });
  const std::string leak = heap::end(ran_to_the_end);
  if (failure_.empty()) failure_ = leak;
  the_engine = nullptr;
  return failure_;
}

void engine::run_thread() {
  try {
    threads_[current_].body();
  } catch (const std::exception& e) {
    fail(std::string("an exception left a thread: ") + e.what());
  } catch (...) {
    fail("an exception left a thread");
  }
  point({pending::kind::end, -1, false});
  threads_[current_].done = true;
  schedule();
  std::terminate();  // a thread that has ended is never picked
}

unsigned engine::spawn(std::function<void()> body) {
  if (threads_.size() == most_threads) fail("more threads than muster_model::most_threads");
  const heap::untracked aside;
  const unsigned made = static_cast<unsigned>(threads_.size());
  threads_.emplace_back();
  fiber& t = threads_.back();
  t.body = std::move(body);
  t.context = ctx::make_fcontext(stacks_->top(made), stacks::size, &start);
  if (made != 0) {
    t.known.now = threads_[current_].known.now;
    ++threads_[current_].known.now.clock(current_);
  }
  t.known.now.clock(made) = 1;
  return made;
}

bool engine::join(unsigned other) {
  threads_[current_].joins = static_cast<int>(other);
  point({pending::kind::join, static_cast<int>(other), false});
  threads_[current_].joins = -1;
  if (!threads_[other].done) return false;
  threads_[current_].known.now.join(threads_[other].known.now);
  return true;
}

bool engine::has_stopped(unsigned thread) {
  if (!threads_[thread].frozen) return false;
  threads_[current_].known.now.join(threads_[thread].known.now);
  return true;
}

void engine::fail(const std::string& why) {
  const heap::untracked aside;
  if (failure_.empty()) failure_ = why;
  leave();
}

void engine::leave() {
  hop(&threads_[current_].context, outside_, nullptr);
  std::terminate();  // never reached: an abandoned fiber is not resumed
}

void engine::begin_operation() {
  threads_[current_].operation_steps = 0;
  threads_[current_].last_values.clear();
}

void engine::end_operation() {
  std::uint64_t& longest = longest_operations_[current_];
  longest = std::max(longest, threads_[current_].operation_steps);
}

// ---------------------------------------------------------------------------------------------------------- scheduling

bool engine::can_run(const fiber& t) const {
  if (t.done || t.frozen || t.spinning) return false;
  if (t.sleeps) return t.timed && timeouts_left_ != 0;
  if (t.joins < 0) return true;
  const fiber& other = threads_[static_cast<unsigned>(t.joins)];
  return other.done || other.frozen;
}

thread_set engine::runnable_threads() const {
  thread_set runnable = 0;
  for (unsigned t = 0; t < threads_.size(); ++t)
    if (can_run(threads_[t])) runnable |= 1U << t;
  if (runnable != 0) return runnable;
  // Time passes when nothing else happens.
  for (unsigned t = 0; t < threads_.size(); ++t)
    if (threads_[t].sleeps && threads_[t].timed && !threads_[t].frozen) runnable |= 1U << t;
  return runnable;
}

// The current thread is about to do threads_[current_].next. Returns when it may.
void engine::schedule() {
  if (++steps_ > most_steps_) fail("no end after " + std::to_string(most_steps_) + " steps: a loop that never ends");
  ++threads_[current_].operation_steps;
  plain_accesses_ = 0;
  fiber& self = threads_[current_];
  if (static_cast<int>(current_) == freezable_ && !self.done && !self.frozen && !self.sleeps)
    self.frozen = decisions_->choose(2, "stop forever") == 1;
  thread_set runnable = runnable_threads();
  if (runnable == 0 && freezable_ > 0 && static_cast<unsigned>(freezable_) < threads_.size()) {
    // A thread that waits forever has stopped as well.
    threads_[static_cast<unsigned>(freezable_)].frozen = true;
    runnable = runnable_threads();
  }
  if (runnable == 0) stuck();
  pending next[most_threads];
  for (unsigned t = 0; t < threads_.size(); ++t) next[t] = threads_[t].next;
  const unsigned chosen = decisions_->pick(runnable, current_, next);
  if (chosen == scheduler::none) {
    abandoned_ = true;
    leave();
  }
  if (chosen != current_) {
    const unsigned from = std::exchange(current_, chosen);
    hop(&threads_[from].context, threads_[chosen].context, this);
  }
}

void engine::point(pending next) {
  do {
    threads_[current_].next = next;
    schedule();
  } while (is_stopped());
}

void engine::interrupt(unsigned thread, const std::function<void()>& handler) {
  static constexpr unsigned steps[] = {0, 1, 2, 3, 5, 8, 16};
  if (decisions_->reduces()) fail("a search without a bound on preemptions knows no signals");
  point({pending::kind::remote, static_cast<int>(thread), false});
  const heap::untracked aside;
  fiber& other = threads_[thread];
  if (other.done || other.handler) return;
  other.handler = handler;
  // One that waits has no other steps.
  const bool waits = std::exchange(other.spinning, false);
  other.handler_in = waits ? 0 : steps[decisions_->choose(std::size(steps), "when a signal comes")];
}

// Calls the handler if its time has come, and returns whether it did.
bool engine::is_stopped() {
  fiber& self = threads_[current_];
  if (!self.handler || self.in_handler || self.sleeps || self.handler_in-- != 0) return false;
  std::function<void()> handler;
  {
    const heap::untracked aside;
    handler.swap(self.handler);
  }
  self.in_handler = true;
  handler();
  self.in_handler = false;
  const heap::untracked aside;
  handler = nullptr;
  return true;
}

// No thread can run.
void engine::stuck() {
  bool one_waits = false;
  bool one_stopped = false;
  for (const fiber& t : threads_) {
    one_waits |= !t.done && !t.frozen;
    one_stopped |= t.frozen;
  }
  if (!one_waits) leave();
  fail(one_stopped ? "a thread that stopped forever keeps others from finishing"
                   : "deadlock: every thread waits, one perhaps for a wake-up that was lost");
}

void engine::spin(const where& site) {
  fiber& self = threads_[current_];
  bool newer = false;
  for (const auto& [l, value, stamp] : self.reads) {
    const std::uint32_t newest = memory_.stores(l).back().stamp;
    if (newest == stamp || memory_.stores(l).back().value == value) continue;
    newer = true;
    self.known.now.stamp(l) = std::max(self.known.now.stamp(l), newest);
  }
  self.spinning = !newer && !self.reads_differ && self.reads == self.last_reads;
  self.reads_differ = false;
  if (self.spinning && self.handler && !self.in_handler) {
    self.spinning = false;
    self.handler_in = 0;
  }
  {
    const heap::untracked aside;
    self.last_reads = self.reads;
  }
  self.reads.clear();
  if (tracing_) record("waits for a change", most_locations, site, order::relaxed, 0, 0, -1, false);
  point({});
}

void engine::remember_read(unsigned l, std::size_t index) {
  const heap::untracked aside;
  const store_event& from = memory_.stores(l)[index];
  for (looked& known : threads_[current_].reads) {
    if (known.location != l) continue;
    threads_[current_].reads_differ |= known.value != from.value;
    known = {l, from.value, from.stamp};
    return;
  }
  threads_[current_].reads.push_back({l, from.value, from.stamp});
}

// A store that changes nothing wakes no spinner: two threads that wait for a lock would keep each other awake.
void engine::wake_spinners(unsigned l, std::uint64_t before, std::uint64_t now) {
  if (before == now) return;
  for (fiber& t : threads_) {
    if (!t.spinning) continue;
    for (const auto& read : t.last_reads) t.spinning = t.spinning && read.location != l;
  }
}

engine::woken engine::futex_wait(std::span<const futex> words, bool timed, const where& site) {
  fiber& self = threads_[current_];
  self.can_wake = 0;
  for (const futex& one : words) {
    check_location(one.location);
    point({pending::kind::write, static_cast<int>(one.location), false});
    if (&one != &words.front() && self.can_wake == 0) return woken::by_wake;
    const store_event& newest = memory_.stores(one.location).back();
    if (tracing_)
      record("futex_wait", one.location, site, order::relaxed, newest.value, 0, static_cast<int>(newest.event), false);
    if (newest.value != one.expected) {
      self.can_wake = 0;
      return woken::not_asleep;
    }
    self.futexes.at(self.can_wake++) = one;
  }
  self.sleeps = true;
  self.timed = timed;
  const int slept_on = words.size() == 1 ? static_cast<int>(words.front().location) : pending::anywhere;
  point(timed ? pending{pending::kind::write, slept_on, false} : pending{});
  if (!self.sleeps) return woken::by_wake;
  self.sleeps = false;
  self.can_wake = 0;
  if (timeouts_left_ != 0) --timeouts_left_;
  return woken::by_time;
}

unsigned engine::futex_wake(unsigned l, unsigned most, std::uint32_t bits, const where& site) {
  check_location(l);
  collect(site, "futex_wake", order::relaxed);
  if (is_mutated(site, mutation::kind::skipped)) return 0;
  point({pending::kind::write, static_cast<int>(l), false});
  unsigned count = 0;
  for (; count < most; ++count) {
    unsigned asleep[most_threads];
    unsigned sleepers = 0;
    const auto wakes = [&](const futex& one) { return one.location == l && (one.bits & bits) != 0; };
    for (unsigned t = 0; t < threads_.size(); ++t) {
      const auto first = threads_[t].futexes.begin();
      if (std::any_of(first, first + threads_[t].can_wake, wakes)) asleep[sleepers++] = t;
    }
    if (sleepers == 0) break;
    fiber& up = threads_[asleep[most - count >= sleepers ? 0 : decisions_->choose(sleepers, "whom to wake")]];
    if (std::exchange(up.sleeps, false)) up.next = {};
    up.can_wake = 0;
  }
  if (tracing_) record("futex_wake", l, site, order::relaxed, count, 0, -1, false);
  return count;
}

}  // namespace muster_model

void muster::MUSTER_ABI::fail_check(const char* what, const char*, int) { muster_model::engine::running().fail(what); }
