// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_attempt.hpp: how psim comes from one state to the next, and why that is right.
//
// An attempt looks at the head, copies the current record, executes on the copy what is announced and not executed,
// and makes the copy the current record with a compare-exchange. It fails if another has done so since.
//
// Case (1): an announced batch has been executed when two attempts of its owner have failed. Each saw the head move.
//   The second started from a head that was put there after the first had started, so after the toggle; whoever
//   replaced that one had looked at it before, and at the toggles after that. So it has seen ours, has executed the
//   batch, and every record from then on says so. "After" runs through two variables here (we toggle, and then find an
//   old head; another finds the new head, and then looks at the toggles), as in Dekker's algorithm. Hence these are
//   seq_cst: (3, 1, 4). Our look at the head precedes the other's in their single order, as it finds an older value.
//   The loads are plain ones on x86-64.
// Case (2): what a failed attempt has read may be a mixture, as the owner of the record is filling it again, or the
//   owner of the requests is recording others. Each does so only after it has seen a newer head, and stores with
//   release (6, 8); whoever reads such a word acquires that knowledge (5, 7), so the look at the head that follows does
//   not find the old one. No copy is used and no request called before that look. Acquire on each word, and not one
//   fence for all: it costs nothing on x86-64, thread sanitizer understands it, and a path like this shall have no
//   fences.
// Case (3): after two failed attempts the owner must know where its results are, and cannot count on finding any record
//   at rest. It need not: from the record that executed the batch on, each has the same name in our 16 bits, until we
//   announce again. The record that the head names may be filled anew while we read it, but by an attempt that has
//   started at that head or later, so with the same name in it.
// Case (4): results are plain data. A thread fills its row for q only when it has found, at a current head, that q has
//   announced a batch that is not executed. Then q has read what it wanted from the last one, perhaps from this very
//   row, and will read this row next only if the attempt succeeds.
#pragma once

#include <muster/combine/psim.hpp>  // psim

#include <bit>  // std::countr_zero

namespace muster::inline MUSTER_ABI {

/// Around what calls users' functions: it notices those that do what they must not. And what has begun goes on after
/// it has had its effect: until then, the object stays.
template <class State, class Workspace>
struct psim<State, Workspace>::execution {
  explicit execution(group& me) noexcept : of(me) {
    refuse_within(of);
    // Relaxed: whoever has its effect after the operation knows what came before the operation had its own.
    of.executing.store(true, std::memory_order_relaxed);
  }
  ~execution() {
    // (17) release: pairs with (16). The destructor comes after all that the attempt has done. Nothing of the object is
    // touched after it, unless the caller stays.
    of.executing.store(false, std::memory_order_release);
  }
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;
  group& of;
};

template <class State, class Workspace>
bool psim<State, Workspace>::group::idle() const noexcept {
  // (16) acquire: pairs with (17).
  return thread_part::idle() && !executing.load(std::memory_order_acquire);
}

/// The start of an attempt. Returns false when it would be in vain.
template <class State, class Workspace>
bool psim<State, Workspace>::look(group& me, sight& s) const noexcept {
  // (1) seq_cst: pairs with (2), and in case (1) with itself. The record is there as it was when the head came to name
  // it, or newer.
  s.head = head_.load(std::memory_order_seq_cst);
  // (10) seq_cst: pairs with (9).
  s.extent = extent_.load(std::memory_order_seq_cst);
  if (s.head == me.copied.get()) return true;  // words beyond those that we have copied are zero, here and there
  const unsigned used = words_for(s.extent);
  const word* const from = record(s.head);
  std::uint64_t* const copy = me.copy.get();
  // (5) acquire: pairs with (6). See case (2).
  for (unsigned i = 0; i < used; ++i) copy[i] = from[i].load(std::memory_order_acquire);
  const bool is_whole = is_current(s.head);
  me.copied.ref() = is_whole ? s.head : 0;
  return is_whole;
}

template <class State, class Workspace>
bool psim<State, Workspace>::is_current(std::uint64_t head) const noexcept {
  // Relaxed: (5) and (7) come before. See case (2).
  return head_.load(std::memory_order_relaxed) == head;
}

/// Executes on `state` what is announced and not executed. Returns false when that would be in vain.
template <class State, class Workspace>
bool psim<State, Workspace>::execute_announced(group& me, const sight& s, State& state) noexcept {
  for (unsigned first = 0; first < s.extent; first += 64) {
    const unsigned here = s.extent - first;
    // Threads beyond the extent have come later; they are for those who look later.
    const std::uint64_t counted = here < 64 ? (std::uint64_t{1} << here) - 1 : ~std::uint64_t{0};
    // (4) seq_cst: pairs with (3). See case (1). And what the thread has announced is there.
    const std::uint64_t toggles = toggles_[first / 64].load(std::memory_order_seq_cst);
    std::uint64_t& executed = me.copy[bits_at(first)];
    for (std::uint64_t left = (toggles ^ executed) & counted; left != 0; left &= left - 1) {
      const unsigned of = first + static_cast<unsigned>(std::countr_zero(left));
      if (!execute_batch(me, s, state, of)) return false;
      executed ^= bit_of(of);
    }
  }
  return true;
}

template <class State, class Workspace>
bool psim<State, Workspace>::execute_batch(group& me, const sight& s, State& state, unsigned of) noexcept {
  const spot* const announced = places_[of].get().announced;
  request* const gathered = me.gathered.get();
  unsigned count = 0;
  for (; count < batch_; ++count) {
    // (7) acquire: pairs with (8). See case (2).
    gathered[count].run = announced[count].run.load(std::memory_order_acquire);
    if (gathered[count].run == runner{}) break;
    gathered[count].argument = announced[count].argument.load(std::memory_order_acquire);  // (7)
  }
  if (!is_current(s.head)) return false;

  run_gathered(state, me.workspace, gathered, count, row(me.index, of));  // see case (4)
  std::uint64_t& names = me.copy[name_at(of)];
  names ^= std::uint64_t{name_in(names, of) ^ me.index} << name_shift(of);
  return true;
}

/// Executes what is announced, then own(state), and makes that the current record. Returns false when it had no effect,
/// as others were faster.
template <class State, class Workspace>
template <class Own>
bool psim<State, Workspace>::attempt(group& me, const sight& s, Own own) noexcept {
  std::uint64_t* const copy = me.copy.get();
  State state = state_in(copy);
  if (!execute_announced(me, s, state)) {
    if constexpr (works) me.workspace.abort();
    return false;
  }
  own(state);
  put_state(state, copy);
  word* const to = me.records[me.filling].get();
  const unsigned used = words_for(s.extent);
  // (6) release: pairs with (5). Whoever meets a word of this record when reading the one that was here before knows
  // what we know: that the head has moved.
  for (unsigned i = 0; i < used; ++i) to[i].store(copy[i], std::memory_order_release);
  const std::uint64_t head = ((s.head >> index_bits_) + 1) << index_bits_ | (2 * me.index + me.filling);
  std::uint64_t seen = s.head;
  // (2) release: pairs with (1, 11, 12). The record is complete, and so are the results that it names.
  if (!head_.compare_exchange_strong(seen, head, std::memory_order_release, std::memory_order_relaxed)) {
    if constexpr (works) me.workspace.abort();
    return false;
  }
  if constexpr (works) me.workspace.commit();
  me.copied.ref() = head;
  me.filling ^= 1;
  return true;
}

/// Executes own(state) without announcing it. Returns false when it had no effect.
template <class State, class Workspace>
template <class Own>
bool psim<State, Workspace>::attempt_alone(group& me, Own own) noexcept {
  if (me.crowded != 0) {
    --me.crowded;
    return false;
  }
  const execution now(me);
  sight s;
  if (look(me, s) && attempt(me, s, own)) [[likely]]
    return true;
  me.crowded = vain;
  return false;
}

/// Announces the first `count` of the recorded requests. Returns their results, which stay until the next time.
template <class State, class Workspace>
auto psim<State, Workspace>::announce(group& me, unsigned count) noexcept -> results {
  const execution now(me);
  if (count < batch_) me.announced[count].run.store({}, std::memory_order_release);  // (8)
  const std::uint64_t bit = bit_of(me.index);
  me.toggle = !me.toggle;
  // (3) seq_cst: pairs with (4). See case (1). It flips our bit and no other: an addition without a carry,
  // as x86-64 has no exclusive or that is one instruction and returns what was there.
  toggles_[me.index / 64].fetch_add(me.toggle ? bit : ~bit + 1, std::memory_order_seq_cst);
  for (unsigned attempts = 0; attempts < 2; ++attempts) {
    sight s;
    if (!look(me, s)) continue;
    const bool executed = (me.copy[bits_at(me.index)] & bit) != 0;
    if (executed == me.toggle || attempt(me, s, [](State&) noexcept {}))
      return row(name_in(me.copy[name_at(me.index)], me.index), me.index);
  }
  // (11) acquire: pairs with (2). See cases (1) and (3).
  const word* const current = record(head_.load(std::memory_order_acquire));
  const std::uint64_t names = current[name_at(me.index)].load(std::memory_order_relaxed);
  return row(name_in(names, me.index), me.index);
}

}  // namespace muster::inline MUSTER_ABI
