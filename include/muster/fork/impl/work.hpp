// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// work.hpp: how a worker looks for work, and how it waits. See worker.hpp.
#pragma once

#include <muster/fork/impl/core.hpp>  // pool_core

#include <algorithm>  // std::min
#include <chrono>     // how long it has looked
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// Spins, for a join; or lets the thread's other fibers run. To be woken takes 50 to 100 microseconds on a machine
/// whose processors sleep or are shared, and whoever stands in must be woken first; so a join spins as long as that
/// takes.
class waiting_time {
 public:
  /// Waits a little. Returns true from time to time, first after 50 microseconds.
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

/// `steal` returns a record of `from` that is this worker's now, or null.
template <class Steal>
bool worker::execute(const deque& from, Steal steal) noexcept {
  const std::uint64_t outer = forks.enter();
  const std::uint64_t since = cycles();
  fork_record* const r = steal();
  if (r != nullptr) {
    // Whoever was woken may have slept until now: there may be work for another.
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
  }
  forks.leave(outer);
  return r != nullptr;
}

/// From anybody, beginning with anybody.
template <class Wanted>
bool worker::steal_and_execute(Wanted wanted) noexcept {
  const unsigned many = pool.made();
  const unsigned first = roll(many);
  for (unsigned i = 0; i < many; ++i) {
    deque& victim = pool.at(first + i < many ? first + i : first + i - many).forks;
    if (victim.offers() && execute(victim, [&] { return victim.steal(number, wanted); })) return true;
  }
  return false;
}

/// Until there is work: sleeps only when no other worker has a record that nobody has taken. A worker that forks later
/// sees that it is asked. (Where the fence does not reach others, one that forks at this moment may see it only at its
/// next fork or join.) Where somebody may have what he has not offered, as his stack cannot be looked through now:
/// `nap` at most; returns false then, unless it has been woken.
inline bool worker::sleep(clock::duration nap) noexcept {
  pool.asleep.announce(place);
  pool.ask_others(*this);
  bool all = true;  // that could be taken has been offered
  if (can_make_owners_answer()) {
    // (1) heavy_fence: pairs with engine/watermark.hpp (4). A record that we do not see is pushed by somebody who sees
    // that he is asked.
    // Where no fence reaches others, time does: what was on its way before the last nap is there.
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
    if (pool.retire(*this)) {
      hungry_since = took_unanswered = clock::now();
      continue;
    }
    if (siblings* const others = siblings::of_caller(); others != nullptr) [[unlikely]]
      others->run();  // that a body has left behind
    const auto found = clock::now();
    if (steal_and_execute([](const fork_record&) { return true; })) {
      hungry_since = took_unanswered = clock::now();
      nap = first_nap;
      // What takes less than a microsecond is hardly worth the way.
      interval = hungry_since - found < 1us ? std::min<clock::duration>(2 * interval + 2us, 100us) : 0us;
      asked = hungry_since;
      continue;
    }
    if (found - asked >= interval) {
      pool.ask_others(*this);
      asked = found;
      interval = std::max<clock::duration>(interval, 5us);
    }
    if (can_make_owners_answer() && found - took_unanswered > 50us) {
      took_unanswered = found;
      deque& victim = pool.at(roll(pool.made())).forks;
      if (&victim != &forks && victim.has_records()) victim.answer_for_owner();
      if (victim.offers()) continue;
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

/// Until its place has been given a token, which will come. Another thread stands in, unless some have nothing to do;
/// when these have found work, from then on.
inline void worker::sleep_in_join() noexcept {
  if (forks.by_frames() || !sync::asymmetric_fences()) forks.publish_all();
  bool replaced = !pool.asleep.anyone() && pool.leave();
  for (clock::duration patience = first_nap; !replaced; patience = std::min(2 * patience, longest_nap)) {
    if (place.park_until(clock::now() + patience)) return;
    replaced = !pool.asleep.anyone() && pool.leave();
  }
  place.park();
  pool.come_back();
}

void worker::await(fork_record& r) noexcept {
  const timed waiting(forks.counts.waiting);
  deque& thief = pool.at(r.thief()).forks;
  const auto steal = [&] { return thief.steal_out_of(r, number); };
  waiting_time waited;
  for (unsigned looks = 0; !r.is_done(); ++looks) {
    if (execute(thief, steal)) {
      waited = {};
      continue;
    }
    if (looks % 16 == 0) thief.ask();
    if (!waited.is_long()) continue;
    pool.end_child_that_waits();
    if (can_make_owners_answer()) thief.answer_for_owner();
    if (execute(thief, steal)) {
      waited = {};
    } else if (waited.is_too_long()) {
      if (r.may_sleep(place)) sleep_in_join();
      return;
    }
  }
}

void worker::await(const scope_link& scope, open_count& open) noexcept {
  const auto wanted = [&](const fork_record& one) { return one.group() != nullptr && one.group()->is_within(scope); };
  waiting_time waited;
  while (!open.all_ended()) {
    ++own_stock_;
    const bool own = execute(forks, [&] { return forks.steal(number, wanted); });
    --own_stock_;
    if (own || steal_and_execute(wanted)) {
      waited = {};
    } else if (waited.is_long() && waited.is_too_long()) {
      pool.end_child_that_waits();
      if (open.may_sleep()) sleep_in_join();
      return;
    }
  }
}

/// By a signal, or because a fence reaches others.
inline bool worker::can_make_owners_answer() const noexcept { return forks.by_frames() || sync::asymmetric_fences(); }

inline std::uintptr_t worker::allow_depth() noexcept {
  constexpr std::uintptr_t room = std::uintptr_t{64} << 10U;
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return std::exchange(floor, here > lowest_floor + room ? here - room : lowest_floor);
}

/// Past the floor. Few are kept, so that a body that begins very many needs little memory; where the stack ends, all.
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
