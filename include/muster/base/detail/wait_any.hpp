// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// wait_any.hpp: how a thread or fiber waits for an event of any of several eventcounts.
//
// The waiter sleeps on the words of all eventcounts at once (futex_waitv), so the maker of an event does what it does
// for any sleeper: one load if there is none. Without futex_waitv (before Linux 5.16, or in a sandbox that forbids it)
// the waiter sleeps on the first word and checks the others every millisecond.
#pragma once

#include <muster/base/detail/siblings.hpp>        // siblings, waiter
#include <muster/base/detail/spin_extension.hpp>  // spin_extension
#include <muster/base/sync.hpp>                   // sync::futex_wait_any, sync::own

namespace muster::inline MUSTER_ABI::detail {

/// Call after announcing the sleeper to all words, and before its last check. Returns false if membarrier(2) has been
/// forbidden meanwhile: then an event may be missed, and the sleep must be short (nap_until).
inline bool fence_before_sleep(const futex_words& words) noexcept {
  bool fenced = true;
  for (const futex_scope scope : {futex_scope::process, futex_scope::shared}) {
    // (1) heavy_fence: pairs with eventcount.hpp (7).
    if (words.wants_fence(scope)) fenced &= sync::try_heavy_fence(scope);
  }
  return fenced;
}

/// The last part of wait_any().
inline bool sleep_any(waiter& one) noexcept {
  for (;;) {
    futex_words words;
    one.announce(words);
    const bool fenced = fence_before_sleep(words);
    if (one.ready()) return true;
    // Without the fence, an event may not be visible yet, and its maker may have missed the sleeper.
    const deadline limit = fenced ? one.until : nap_until(one.until);
    const futex_reason why = sync::futex_wait_any(words, limit);
    if (why == futex_reason::timed_out && limit == one.until) return one.ready();
    if (one.ready()) return true;
  }
}

/// Waits until one.ready() is true; returns false if its deadline passes first. ready() may become true only by events
/// of the words that one.announce() adds.
inline bool wait_any(waiter& one) noexcept {
  if (siblings* const others = siblings::of_caller(); others != nullptr) [[unlikely]]
    return others->wait(one);
  for (unsigned looks = 0; looks < one.pauses; ++looks) {
    if (one.ready()) return true;
    sync::relax();
  }
  for (unsigned looks = 0; !one.parks || looks < one.yields; ++looks) {
    if (one.ready()) return true;
    if (one.until != no_deadline && deadline_clock::now() >= one.until) return false;
    sync::yield();
  }
  if (!one.adapts) return sleep_any(one);
  spin_extension& spins = sync::own<spin_extension>();
  if (spins.spin([&one] { return one.ready(); }, one.until, one.pauses / 8)) return true;
  const deadline begin = deadline_clock::now();
  const bool is_ready = sleep_any(one);
  spins.note_sleep(is_ready ? deadline_clock::now() - begin : deadline_clock::duration::max());
  return is_ready;
}

}  // namespace muster::inline MUSTER_ABI::detail
