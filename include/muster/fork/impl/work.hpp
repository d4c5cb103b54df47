// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// work.hpp: the implementation of worker: looking for work and waiting. See worker.hpp.
#pragma once

#include <muster/fork/impl/core.hpp>  // pool_core

#include <algorithm>  // std::min
#include <chrono>     // how long it has looked
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// The spinning of a join, in which the thread's other fibers run. Waking takes 50 to 100 microseconds on a machine
/// whose processors sleep or are shared, and a substitute must be woken first; so a join spins about as long.
class waiting_time {
 public:
  /// Waits briefly. Returns true from time to time, first after 50 microseconds.
  bool is_long() noexcept {
    using namespace std::chrono_literals;
    if (siblings* const others = siblings::of_caller(); others != nullptr) [[unlikely]]
      others->run();
    else
      for (unsigned i = 0; i < 8; ++i) sync::relax();
    if (++looks_ % 8 != 0) return false;
    const auto waited = clock::now() - since_;
    if (waited > 50us) sync::yield();
    if (waited < next_) return false;
    next_ += 50us;
    return true;
  }
  bool is_too_long() const noexcept { return next_ > std::chrono::microseconds(200); }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point since_ = clock::now();
  clock::duration next_ = std::chrono::microseconds(50);
  unsigned looks_ = 0;
};

/// `steal` takes a record from `from` and notes it, or returns null.
template <class Steal>
bool worker::execute(const deque& from, Steal steal) noexcept {
  const std::uint64_t since = cycles();
  theft now;
  fork_record* const r = steal(now);
  if (r == nullptr) return false;
  forks.enter(now);
  // This worker may just have been woken: there may be work for another sleeper.
  if (pool.asleep.anyone() && pool.anybody_offers()) pool.asleep.wake_one();
  const async_place* const here = std::exchange(within, nullptr);
  if (&from != &forks) {
    steal_counts::add(forks.counts.thefts, 1);
    steal_counts::add(forks.counts.taking, cycles() - since);
  }
  forks.runs(true);
  const std::uintptr_t outer_floor = allow_depth();
  r->run();
  floor = outer_floor;
  forks.runs(false);
  within = here;
  forks.leave(now);
  return true;
}

/// Tries all workers, beginning with a random one. `steal` takes from a deque, as in execute().
template <class Steal>
bool worker::steal_and_execute(Steal steal) noexcept {
  const unsigned many = pool.made();
  const unsigned first = roll(many);
  for (unsigned i = 0; i < many; ++i) {
    deque& victim = pool.at(first + i < many ? first + i : first + i - many).forks;
    if (victim.offers() && execute(victim, [&](theft& noted) { return steal(victim, noted); })) return true;
  }
  return false;
}

inline bool worker::answer_for_anybody() noexcept {
  if (!can_make_owners_answer()) return false;
  deque& victim = pool.at(roll(pool.made())).forks;
  if (&victim != &forks && victim.has_records()) victim.answer_for_owner();
  return victim.offers();
}

/// Sleeps until there is work, if no other worker has a record to steal. A worker that forks later sees that it is
/// asked. (Without asymmetric fences, one that forks at this moment may see that only at its next fork or join.) If a
/// worker may have unoffered records, because its stack cannot be walked now, sleeps for at most `nap` and returns
/// false unless it was woken.
inline bool worker::sleep(clock::duration nap) noexcept {
  pool.asleep.announce(place);
  pool.ask_others(*this);
  bool all = true;  // every record that could be stolen is offered
  if (can_make_owners_answer()) {
    // (1) heavy_fence: pairs with engine/watermark.hpp (4). If we do not see a record, its worker sees that it is
    // asked. Without asymmetric fences, time replaces the fence: stores made before the last nap are visible.
    if (sync::asymmetric_fences()) sync::heavy_fence();
    else all = nap > first_nap;
    for (unsigned i = 0; i < pool.made(); ++i)
      if (i != number && pool.at(i).forks.has_records()) all = pool.at(i).forks.answer_for_owner() && all;
  }
  // (2) acquire: pairs with core.hpp (3).
  const bool needed = pool.anybody_offers() || pool.over.load(std::memory_order_acquire);
  if (!needed && all) return sleep_deeply(), true;
  if (!needed && place.park_until(clock::now() + nap)) return true;
  pool.asleep.withdraw(place);
  return needed;
}

inline void worker::work() noexcept {
  using namespace std::chrono_literals;
  auto hungry_since = clock::now();
  auto asked = clock::time_point{};
  auto took_unanswered = hungry_since;
  auto interval = clock::duration::zero();
  clock::duration nap = first_nap;
  // (2)
  while (!pool.over.load(std::memory_order_acquire)) {
    if (pool.retire_surplus(*this)) {
      hungry_since = took_unanswered = clock::now();
      continue;
    }
    if (siblings* const others = siblings::of_caller(); others != nullptr) [[unlikely]]
      others->run();  // fibers that a task has left behind
    const auto found = clock::now();
    const auto anything = [](const fork_record&) { return true; };
    if (steal_and_execute([&](deque& of, theft& noted) { return of.steal(number, noted, anything); })) {
      hungry_since = took_unanswered = clock::now();
      nap = first_nap;
      // A task of less than a microsecond does not pay for the steal.
      interval = hungry_since - found < 1us ? std::min<clock::duration>(2 * interval + 2us, 100us) : 0us;
      asked = hungry_since;
      continue;
    }
    if (found - asked >= interval) {
      pool.ask_others(*this);
      asked = found;
      interval = std::max<clock::duration>(interval, 5us);
    }
    if (found - took_unanswered > 50us) {
      took_unanswered = found;
      if (answer_for_anybody()) continue;
    }
    if (found - hungry_since > 1ms) {
      if (sleep(nap)) {
        nap = first_nap;
        hungry_since = took_unanswered = clock::now();
      } else {
        nap = std::min(2 * nap, longest_nap);
      }
      continue;
    }
    if (found - hungry_since > 20us) sync::yield();
    for (unsigned i = 0; i < 16; ++i) sync::relax();
  }
}

/// Sleeps until its place is given a token: for at most `nap`, to look for work again; or without limit if a substitute
/// replaces it. It needs none while other workers sleep. Returns true if it has the token.
inline bool worker::sleep_in_join(clock::duration nap) noexcept {
  if (forks.by_frames() || !sync::asymmetric_fences()) forks.publish_all();
  if (pool.asleep.anyone() || !pool.add_substitute()) return place.park_until(clock::now() + nap);
  place.park();
  pool.substitute_done();
  return true;
}

void worker::await(fork_record& r) noexcept {
  const timed waiting(forks.counts.waiting);
  deque& thief = pool.at(r.thief()).forks;
  const auto steal = [&, level = forks.level()](deque& of, theft& noted) {
    return of.steal_part_of(&r, level, number, noted);
  };
  const auto steal_from_thief = [&](theft& noted) { return steal(thief, noted); };
  waiting_time waited;
  clock::duration nap = first_nap;
  for (unsigned looks = 0; !r.is_done(); ++looks) {
    if (execute(thief, steal_from_thief) || (looks % 16 == 15 && steal_and_execute(steal))) {
      waited = {};
      nap = first_nap;
      continue;
    }
    if (looks % 16 == 0) thief.ask();
    if (!waited.is_long()) continue;
    pool.end_child_that_waits();
    pool.ask_others(*this);
    if (can_make_owners_answer()) thief.answer_for_owner();
    answer_for_anybody();
    if (execute(thief, steal_from_thief) || steal_and_execute(steal)) {
      waited = {};
      nap = first_nap;
    } else if (waited.is_too_long()) {
      if (!r.may_sleep(place) || sleep_in_join(nap)) return;
      if (!r.withdraw()) return place.park();
      nap = std::min(2 * nap, longest_nap);
    }
  }
}

void worker::await(const scope_link& scope, open_count& open) noexcept {
  const auto steal = [&, level = forks.level()](deque& of, theft& noted) {
    return of.steal_part_of(&scope, level, number, noted);
  };
  const auto execute_some = [&] {
    ++own_stock_;
    const bool own = execute(forks, [&](theft& noted) { return steal(forks, noted); });
    --own_stock_;
    return own || steal_and_execute(steal);
  };
  waiting_time waited;
  clock::duration nap = first_nap;
  while (!open.all_ended()) {
    if (execute_some()) {
      waited = {};
      nap = first_nap;
      continue;
    }
    if (!waited.is_long()) continue;
    pool.end_child_that_waits();
    pool.ask_others(*this);
    answer_for_anybody();
    if (execute_some()) {
      waited = {};
      nap = first_nap;
    } else if (waited.is_too_long()) {
      if (!open.may_sleep() || sleep_in_join(nap)) return;
      if (!open.withdraw()) return place.park();
      nap = std::min(2 * nap, longest_nap);
    }
  }
}

/// By a signal, or with an asymmetric fence.
inline bool worker::can_make_owners_answer() const noexcept { return forks.by_frames() || sync::asymmetric_fences(); }

inline std::uintptr_t worker::allow_depth() noexcept {
  constexpr std::uintptr_t room = std::uintptr_t{64} << 10U;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return std::exchange(floor, here > lowest_floor + room ? here - room : lowest_floor);
}

/// Called below the floor. Limits the number of queued asyncs, so that a body that starts very many needs little
/// memory; near the end of the stack there is no limit.
bool worker::is_too_deep() noexcept {
  constexpr unsigned many = 1024;
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < lowest_floor || forks.offered() < many;
}

inline bool worker::wants_stock() const noexcept {
  constexpr unsigned little = 8, most = 64;
  if (forks.offered() + own_stock_ < little) return pool.has_others();
  return forks.is_asked() && forks.offered() < most;
}

}  // namespace muster::inline MUSTER_ABI::detail
