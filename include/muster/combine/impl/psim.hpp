// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim.hpp: the definitions of muster/combine/psim.hpp, but for what is in psim_attempt.hpp.
#pragma once

#include <muster/combine/impl/psim_attempt.hpp>  // attempts
#include <muster/combine/psim.hpp>               // psim
#include <muster/fiber/fiber.hpp>                // this_fiber

#include <algorithm>   // std::copy, std::max
#include <bit>         // std::bit_width
#include <cstring>     // std::memcpy
#include <functional>  // std::invoke
#include <stdexcept>   // std::invalid_argument
#include <string>      // messages

namespace muster::inline MUSTER_ABI {

// ------------------------------------------------------------------------------------------------- making and checking

template <class State, class Workspace>
unsigned psim<State, Workspace>::checked_threads(const combine_options& options) {
  if (options.threads > most_threads)
    throw std::invalid_argument("psim names threads in 16 bits: combine_options::threads is " +
                                std::to_string(options.threads) + "; ask for 65536 at most");
  if (options.batch == 0) throw std::invalid_argument("combine_options::batch is 0; ask for 1 at least");
  return options.threads;
}

template <class State, class Workspace>
template <class... Args>
  requires std::constructible_from<State, Args...>
psim<State, Workspace>::psim(const combine_options& options, const psim_options& more, Args&&... args)
    : threads_(checked_threads(options)),
      batch_(options.batch),
      options_(more),
      row_(std::max(2 * batch_, state_words)),
      record_words_(words_for(threads_)),
      index_bits_(static_cast<unsigned>(std::bit_width(2 * threads_))),
      groups_(threads_),
      places_(std::make_unique<sync::cell<places>[]>(threads_ + 1)),
      first_(record_words_),
      toggles_((threads_ + 63) / 64),
      head_(2 * std::uint64_t{threads_}) {
  image words;
  put_state(State(std::forward<Args>(args)...), words.data());
  for (unsigned i = 0; i < state_words; ++i) first_[i].store(words[i], std::memory_order_relaxed);
  places_[threads_].ref().records[0] = first_.get();
}

template <class State, class Workspace>
psim<State, Workspace>::group::group(unsigned number, const psim& in)
    : index(number),
      records{detail::isolated_array<word>(in.record_words_), detail::isolated_array<word>(in.record_words_)},
      announced(in.batch_),
      results(std::size_t{in.threads_} * in.row_),
      copy(std::make_unique<std::uint64_t[]>(in.record_words_)),
      gathered(std::make_unique<request[]>(in.batch_)),
      recorded(std::make_unique<pending*[]>(in.batch_)) {}

template <class State, class Workspace>
auto psim<State, Workspace>::own_group() -> group& {
  group& own = groups_.own([this](unsigned index) {
    auto made = std::make_unique<group>(index, *this);
    places_[made->index].ref() = {
        {made->records[0].get(), made->records[1].get()}, made->announced.get(), made->results.get()};
    unsigned extent = extent_.load(std::memory_order_relaxed);
    // (9) seq_cst: pairs with (10). It comes before our first toggle (3), so who finds that must find this. Only the
    // greatest of all threads counts, so the loop ends.
    while (extent <= made->index && !extent_.compare_exchange_weak(extent, made->index + 1, std::memory_order_seq_cst,
                                                                   std::memory_order_relaxed)) {
    }
    return made.release();
  });
  refuse_within(own);
  return own;
}

template <class State, class Workspace>
void psim<State, Workspace>::check() const {
  const word* const current = record(head_.load(std::memory_order_relaxed));
  groups_.for_each([&](const group& g) {
    MUSTER_CHECK(g.count == 0 && !g.executing.load(std::memory_order_relaxed),
                 "psim: destroyed or checked while a thread is inside an operation");
    const bool toggle = (toggles_[g.index / 64].load(std::memory_order_relaxed) & bit_of(g.index)) != 0;
    const bool executed = (current[bits_at(g.index)].load(std::memory_order_relaxed) & bit_of(g.index)) != 0;
    MUSTER_CHECK(toggle == g.toggle && executed == toggle,
                 "psim: destroyed or checked while an operation is announced that has not been executed");
    MUSTER_CHECK(g.index < extent_.load(std::memory_order_relaxed), "psim: a thread has come that is not counted");
  });
}

template <class State, class Workspace>
State psim<State, Workspace>::state_in(const std::uint64_t* words) noexcept {
  return detail::value_in<State>(words);
}

template <class State, class Workspace>
void psim<State, Workspace>::put_state(const State& state, std::uint64_t* words) noexcept {
  if constexpr (sizeof(State) <= sizeof(std::uint64_t)) {
    words[0] = detail::as_word(state);  // in one store, as it is read in one load
  } else {
    words[state_words - 1] = 0;
    std::memcpy(words, &state, sizeof(State));
  }
}

template <class State, class Workspace>
auto psim<State, Workspace>::record(std::uint64_t head) const noexcept -> word* {
  const std::uint64_t index = head & ((std::uint64_t{1} << index_bits_) - 1);
  return places_[index / 2].get().records[index % 2];
}

template <class State, class Workspace>
auto psim<State, Workspace>::row(unsigned by, unsigned of) const noexcept -> results {
  result_cell* const first = places_[by].get().results + std::size_t{of} * row_;
  return {first, first + batch_};
}

// ------------------------------------------------------------------------------------------------------------ requests

template <class State, class Workspace>
template <class F>
void psim<State, Workspace>::record_request(group& me, unsigned place, const F& f) noexcept {
  spot& at = me.announced[place];
  // (8) release: pairs with (7). Whoever meets a request of this batch when looking for one of the last knows what we
  // know: that the head has moved.
  at.run.store({&run_all<F>}, std::memory_order_release);
  at.argument.store(detail::as_word(f), std::memory_order_release);  // (8)
}

template <class State, class Workspace>
template <class F>
auto psim<State, Workspace>::call(const F& f, State& state, Workspace& workspace) noexcept {
  if constexpr (detail::psim_call<F, State, Workspace>::takes_workspace) {
    return std::invoke(f, state, workspace);
  } else {
    return std::invoke(f, state);
  }
}

template <class State, class Workspace>
template <class F>
void psim<State, Workspace>::run_all(State& state, worker workspace, const request* first, std::size_t count,
                                     results to) noexcept {
  using result = detail::psim_answer<F, State, Workspace>;
  State now = state;  // what nobody has a pointer to can stay in registers
  for (std::size_t i = 0; i < count; ++i) {
    const F f = detail::value_in<F>(&first[i].argument);
    if constexpr (std::is_void_v<result>) {
      call(f, now, workspace);
    } else {
      const auto words = detail::as_words(call(f, now, workspace));
      to.first[i].ref() = words[0];
      if constexpr (words.size() == 2) to.second[i].ref() = words[1];
    }
  }
  state = now;
}

/// The request of load(). It is alone in its batch, and its result takes the whole row.
template <class State, class Workspace>
void psim<State, Workspace>::run_load(State& state, worker, const request*, std::size_t, results to) noexcept {
  image words;
  put_state(state, words.data());
  for (unsigned i = 0; i < state_words; ++i) to.first[i].ref() = words[i];
}

/// Neighbours of the same kind are run in one loop, where the compiler sees the callable.
template <class State, class Workspace>
void psim<State, Workspace>::run_gathered(State& state, worker workspace, const request* first, std::size_t count,
                                          results to) noexcept {
  for (std::size_t begin = 0, end = 0; begin != count; begin = end) {
    const runner run = first[begin].run;
    do {
      ++end;
    } while (end != count && first[end].run == run);
    run.run(state, workspace, first + begin, end - begin, {to.first + begin, to.second + begin});
  }
}

// ---------------------------------------------------------------------------------------------------------- operations

template <class State, class Workspace>
template <class F>
detail::psim_answer<F, State, Workspace> psim<State, Workspace>::apply(F&& function) {
  using operation = std::decay_t<F>;
  using result = detail::psim_answer<F, State, Workspace>;
  static_assert(
      std::is_trivially_copyable_v<operation> && sizeof(operation) <= sizeof(std::uint64_t),
      "psim::apply: the operation travels in eight bytes that are copied, so it may be a function pointer, or a "
      "lambda with captures of eight bytes at most, by value, that are trivially copyable");
  static_assert(
      detail::psim_call<operation, State, Workspace>::is_nothrow,
      "psim::apply: the operation is executed by several threads on copies of the state, where nobody could "
      "catch what it throws: declare it noexcept, and not mutable, and give it a result that says what failed");
  static_assert(
      psim_result<result>,
      "psim::apply: the result is copied in sixteen bytes, so it must be trivially copyable, no reference, and of "
      "16 bytes at most: return less, or an index into a table, or use osci, which returns anything");
  constexpr bool has_two_words = detail::words_of<result> == 2;
  group& me = own_group();
  const operation f(std::forward<F>(function));
  pending mine;
  mine.has_two_words = has_two_words;

  if (options_.yield_after_announcing && this_fiber::has_siblings()) {
    record_request(me, me.count, f);
    me.recorded[me.count++] = &mine;
    // Whoever comes first after all have had their turn announces for all. Nobody waits for one in particular.
    if (me.count != batch_) this_fiber::yield();
    if (!mine.done) finish_recorded(me);
  } else {
    const bool done = options_.alone_first && attempt_alone(me, [&](State& state) noexcept {
                        if constexpr (std::is_void_v<result>) {
                          call(f, state, me.workspace);
                        } else {
                          const auto words = detail::as_words(call(f, state, me.workspace));
                          std::copy(words.begin(), words.end(), mine.result.begin());
                        }
                      });
    if (!done) {
      const detail::stay here(me);
      record_request(me, 0, f);
      const results there = announce(me, 1);
      if constexpr (!std::is_void_v<result>) mine.result[0] = there.first->get();
      if constexpr (has_two_words) mine.result[1] = there.second->get();
    }
  }
  if constexpr (!std::is_void_v<result>) return detail::value_in<result>(mine.result.data());
}

/// Announces and executes what this thread's fibers have recorded.
template <class State, class Workspace>
void psim<State, Workspace>::finish_recorded(group& me) noexcept {
  const detail::stay here(me);
  const unsigned count = std::exchange(me.count, 0U);
  const results own = row(me.index, me.index);  // ours, and we read no results now
  const auto run_here = [&](State& state) noexcept {
    request* const gathered = me.gathered.get();
    for (unsigned i = 0; i < count; ++i)
      gathered[i] = {me.announced[i].run.load(std::memory_order_relaxed),
                     me.announced[i].argument.load(std::memory_order_relaxed)};
    run_gathered(state, me.workspace, gathered, count, own);
  };
  const bool done = options_.alone_first && attempt_alone(me, run_here);
  const results there = done ? own : announce(me, count);
  for (unsigned i = 0; i < count; ++i) {
    pending& p = *me.recorded[i];
    p.result[0] = there.first[i].get();
    if (p.has_two_words) p.result[1] = there.second[i].get();
    p.done = true;
  }
}

template <class State, class Workspace>
State psim<State, Workspace>::load() {
  group& me = own_group();
  const detail::stay here(me);
  for (unsigned looks = 0; looks < 2; ++looks)
    if (sight s; look(me, s)) return state_in(me.copy.get());

  if (me.count != 0) finish_recorded(me);
  me.announced[0].run.store({&run_load}, std::memory_order_release);  // (8)
  const results there = announce(me, 1);
  image words;
  for (unsigned i = 0; i < state_words; ++i) words[i] = there.first[i].get();
  return state_in(words.data());
}

template <class State, class Workspace>
std::optional<State> psim<State, Workspace>::try_load() const noexcept {
  // (12) acquire: pairs with (2). Who fails knows at least what those knew who have changed the state.
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  const word* const from = record(head);
  image words;
  for (unsigned i = 0; i < state_words; ++i) words[i] = from[i].load(std::memory_order_acquire);  // (5)
  if (head_.load(std::memory_order_acquire) != head) return std::nullopt;                         // (12)
  return state_in(words.data());
}

}  // namespace muster::inline MUSTER_ABI
