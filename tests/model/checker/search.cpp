// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// search.cpp: see search.hpp.
#include "checker/search.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace muster_model {

namespace {

/// The index of a thread among the runnable ones, the current one first.
unsigned index_of(unsigned thread, thread_set runnable, unsigned current) {
  if (thread == current) return 0;
  unsigned index = runnable >> current & 1;
  for (unsigned t = 0; t < thread; ++t) index += t != current && (runnable >> t & 1) != 0;
  return index;
}

unsigned thread_at(unsigned index, thread_set runnable, unsigned current) {
  for (unsigned t = 0; t < most_threads; ++t)
    if ((runnable >> t & 1) != 0 && index_of(t, runnable, current) == index) return t;
  return static_cast<unsigned>(std::countr_zero(runnable));
}

}  // namespace

void recording_scheduler::begin_execution() {
  path_.clear();
  count_ = 0;
  stale_left_ = limits_.stale < 0 ? std::numeric_limits<unsigned>::max() : static_cast<unsigned>(limits_.stale);
}

unsigned recording_scheduler::pick(thread_set runnable, unsigned current, const pending* next) {
  const heap::untracked aside;
  const unsigned thread = decide_thread(runnable, current, next);
  if (thread == none) return none;
  if (const unsigned index = index_of(thread, runnable, current); index != 0) path_.emplace_back(count_, index);
  ++count_;
  return thread;
}

unsigned recording_scheduler::choose(unsigned alternatives, const char*) {
  const heap::untracked aside;
  const unsigned taken = decide(alternatives);
  if (taken != 0) path_.emplace_back(count_, taken);
  ++count_;
  return taken;
}

// ---------------------------------------------------------------------------------------------------------- exhaustive

unsigned exhaustive::decide(unsigned alternatives) {
  if (depth_ == nodes_.size()) {
    node made;
    made.alternatives = alternatives;
    nodes_.push_back(made);
  }
  return nodes_[depth_++].taken;
}

// Chooses the next thread to try at this node; false when there is none left.
bool exhaustive::choose_thread(node& n) {
  const thread_set left = n.wanted & ~n.done & ~n.asleep;
  if (left == 0) return false;
  n.chosen = (left >> n.before & 1) != 0 ? n.before : static_cast<unsigned>(std::countr_zero(left));
  n.done |= 1U << n.chosen;
  return true;
}

unsigned exhaustive::decide_thread(thread_set runnable, unsigned current, const pending* next) {
  if (depth_ == nodes_.size()) {
    node made;
    made.is_thread = true;
    made.runnable = runnable;
    made.before = current;
    made.preemptions = preemptions_;
    std::copy_n(next, most_threads, made.next.begin());
    if (reduces()) {
      made.asleep = asleep_ & runnable;
      const thread_set awake = runnable & ~made.asleep;
      if (awake == 0) return none;
      const bool stay = (awake >> current & 1) != 0;
      made.wanted = stay ? 1U << current : 1U << std::countr_zero(awake);
    } else {
      made.wanted = runnable;
      const bool spent = static_cast<int>(preemptions_) >= limits_.preemptions;
      if (spent && (runnable >> current & 1) != 0) made.wanted = 1U << current;
    }
    choose_thread(made);
    nodes_.push_back(made);
  }
  node& n = nodes_[depth_++];
  preemptions_ = n.preemptions + (preempts(n, n.chosen) ? 1 : 0);
  if (reduces()) {
    find_races(depth_ - 1);
    // Threads tried here, and sleeping ones, stay asleep below until a dependent operation is done.
    const thread_set others = (n.asleep | n.done) & ~(1U << n.chosen);
    asleep_ = 0;
    for (unsigned t = 0; t < most_threads; ++t)
      if ((others >> t & 1) != 0 && !depend(n.next[t], t, n.next[n.chosen], n.chosen)) asleep_ |= 1U << t;
  }
  return n.chosen;
}

// The step chosen at `depth` races with earlier steps of other threads that it depends on and that are not before it
// for another reason. The order of the two is to be reversed: from before the earlier step, some thread must be tried
// whose next step can come first in an execution where the later one comes before the earlier (a source set: Abdulla,
// Aronis, Jonsson, Sagonas, POPL 2014).
void exhaustive::find_races(std::size_t depth) {
  node& n = nodes_[depth];
  const unsigned thread = n.chosen;
  const pending& step = n.next[thread];
  auto& clock = clocks_[thread];
  std::array<std::size_t, 64> races;
  std::size_t count = 0;
  for (std::size_t i = depth; i-- > 0;) {
    const node& earlier = nodes_[i];
    if (!earlier.is_thread || earlier.chosen == thread || i < clock[earlier.chosen]) continue;
    const pending& other = earlier.next[earlier.chosen];
    if (!depend(other, earlier.chosen, step, thread)) continue;
    // A join cannot come before the end that it waits for.
    if (step.what != pending::kind::join && count < races.size()) races[count++] = i;
    for (unsigned t = 0; t < most_threads; ++t) clock[t] = std::max(clock[t], earlier.clock[t]);
  }
  clock[thread] = static_cast<std::uint32_t>(depth) + 1;
  n.clock = clock;
  for (std::size_t r = 0; r < count; ++r) reverse(races[r], depth);
}

// Returns true if the step chosen at i comes before the one chosen at k, i < k, in every execution that differs from
// this one only in the order of independent steps.
bool exhaustive::comes_before(std::size_t i, std::size_t k) const { return nodes_[k].clock[nodes_[i].chosen] > i; }

void exhaustive::reverse(std::size_t first, std::size_t second) {
  node& n = nodes_[first];
  // The steps that need not come after the first, and of these the threads whose step needs no other of them.
  std::vector<std::size_t>& free = free_;
  free.clear();
  thread_set initial = 0, seen = 0;
  for (std::size_t k = first + 1; k <= second; ++k) {
    if (!nodes_[k].is_thread || (k != second && comes_before(first, k))) continue;
    const unsigned t = nodes_[k].chosen;
    if ((seen >> t & 1) == 0) {
      seen |= 1U << t;
      bool alone = true;
      for (const std::size_t j : free) alone = alone && !comes_before(j, k);
      if (alone) initial |= 1U << t;
    }
    free.push_back(k);
  }
  if ((initial & n.wanted) != 0) return;
  const thread_set possible = initial & n.runnable;
  n.wanted |= possible != 0 ? 1U << std::countr_zero(possible) : n.runnable;
}

bool exhaustive::next() {
  while (!nodes_.empty()) {
    node& last = nodes_.back();
    if (last.is_thread ? choose_thread(last) : ++last.taken < last.alternatives) break;
    nodes_.pop_back();
  }
  depth_ = 0;
  asleep_ = 0;
  preemptions_ = 0;
  clocks_ = {};
  begin_execution();
  return !nodes_.empty();
}

// ----------------------------------------------------------------------------------------------------------- by chance

std::uint64_t by_chance::below(std::uint64_t n) {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ % n;
}

void by_chance::next() {
  begin_execution();
  longest_ = std::max(longest_, steps_);
  steps_ = 0;
  changes_.clear();
  if (limits_.how != strategy::priorities) return;
  for (int& p : priority_) p = 1000 + static_cast<int>(below(1 << 20));
  for (unsigned i = 1; i < limits_.depth; ++i) changes_.push_back(static_cast<std::uint32_t>(below(longest_)));
}

unsigned by_chance::decide_thread(thread_set runnable, unsigned current, const pending*) {
  ++steps_;
  if (limits_.how != strategy::priorities)
    return thread_at(static_cast<unsigned>(below(static_cast<std::uint64_t>(std::popcount(runnable)))), runnable,
                     current);
  for (std::size_t i = 0; i < changes_.size(); ++i)
    if (changes_[i] == steps_) priority_[current] = static_cast<int>(i);
  unsigned best = static_cast<unsigned>(std::countr_zero(runnable));
  for (unsigned t = 0; t < most_threads; ++t)
    if ((runnable >> t & 1) != 0 && priority_[t] > priority_[best]) best = t;
  return best;
}

// ----------------------------------------------------------------------------------------------------------- repeating

unsigned repeating::wanted_now() const {
  for (const auto& [number, taken] : wanted_)
    if (number == count_) return taken;
  return 0;
}

unsigned repeating::decide_thread(thread_set runnable, unsigned current, const pending*) {
  const unsigned index = wanted_now();
  const unsigned count = static_cast<unsigned>(std::popcount(runnable));
  return thread_at(index < count ? index : 0, runnable, current);
}

unsigned repeating::decide(unsigned alternatives) {
  const unsigned taken = wanted_now();
  return taken < alternatives ? taken : 0;
}

}  // namespace muster_model
