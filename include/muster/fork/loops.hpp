// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// loops.hpp: loops whose turns may be executed at the same time: parallel_for, parallel_reduce.
//
// Splitting  when somebody asks for work, the loop hands over the second half of what is left, so a loop that nobody
//            asks is a serial loop that looks at one word every few microseconds, and after 64 turns at the latest; a
//            function that is given whole pieces, between them. How many turns go into a piece is measured, so that it
//            takes microseconds, or is given as `grain`: then the loop looks between pieces only.
// Order      with one worker: that of the serial loop. parallel_reduce combines from left to right, whatever the
//            splits, so the combination need not be commutative; it must be associative. With `fixed` it splits at
//            the same places in every run and in every pool, so that sums of floating-point numbers are equal as well.
// Exceptions the leftmost, as in fork2: it is what the serial loop would throw. Turns to the right of it may have been
//            executed, or not.
// Stopping   when a stop is requested, no further piece begins; the call returns when those under way have ended, and
//            a reduction is that of the turns that have been executed.
// Source     lazy splitting: Tzannes et al., "Lazy Binary-Splitting" (PPoPP 2010).
#pragma once

#include <muster/fork/fork2.hpp>  // fork_on

#include <algorithm>   // std::min
#include <chrono>      // how long turns take
#include <concepts>    // std::integral
#include <cstddef>     // std::size_t
#include <functional>  // std::identity
#include <iterator>    // std::random_access_iterator
#include <optional>    // a sum of nothing
#include <ranges>      // ranges
#include <stop_token>  // std::stop_token
#include <utility>     // std::move

namespace muster::inline MUSTER_ABI {

struct loop_options {
  std::size_t grain = 0;      ///< so many turns are not split, but more are, at their middle; 0: measured
  bool fixed = false;         ///< parallel_reduce splits at multiples of `grain` (if 0: 1024), the same in every run
  std::stop_token stop = {};  ///< ends the loop early
};

/// What a loop counts by: integers, or iterators that can be moved by any distance.
template <class I>
concept loop_counter = std::integral<I> || std::random_access_iterator<I>;

namespace detail {

template <loop_counter I>
std::size_t turns_between(I first, I last) noexcept {
  if constexpr (std::integral<I>) {
    return first < last ? static_cast<std::size_t>(last) - static_cast<std::size_t>(first) : 0;
  } else {
    return first < last ? static_cast<std::size_t>(last - first) : 0;
  }
}
template <loop_counter I>
I turns_after(I first, std::size_t turns) noexcept {
  if constexpr (std::integral<I>) {
    return static_cast<I>(static_cast<std::size_t>(first) + turns);
  } else {
    return first + static_cast<std::iter_difference_t<I>>(turns);
  }
}
template <loop_counter I>
MUSTER_HOT decltype(auto) turn(I at) {
  if constexpr (std::integral<I>) {
    return at;
  } else {
    return *at;
  }
}

/// How many turns are executed between two looks, so that a look comes every few microseconds.
class loop_pace {
 public:
  explicit loop_pace(std::size_t grain) noexcept : turns_(grain == 0 ? 1 : grain), measured_(grain == 0) {}
  std::size_t turns() const noexcept { return turns_; }
  /// Whether turns may be left for later when somebody asks meanwhile.
  bool measured() const noexcept { return measured_; }
  void before_turns() noexcept {
    if (measured_ && last_ == clock::time_point{}) last_ = clock::now();
  }
  void after_turns() noexcept {
    if (!measured_) return;
    const auto now = clock::now();
    if (now - last_ < std::chrono::microseconds(2) && turns_ < most) {
      turns_ *= 4;
    } else if (now - last_ > std::chrono::microseconds(16) && turns_ > 1) {
      turns_ /= 2;
    }
    last_ = now;
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t most = std::size_t{1} << 16U;
  std::size_t turns_;
  bool measured_;
  clock::time_point last_;
};

/// Calls body(i) for [first, last). Returns how far it has come: not to the end when asked() is true, for which it
/// looks now and then: turns may suddenly take longer.
template <class I, class Asked, class Body>
MUSTER_HOT I turns_until_asked(I first, const I last, const Asked& asked, const Body& body) {
  constexpr std::size_t look_after = 64;
  while (turns_between(first, last) > look_after) {
    const I pause = turns_after(first, look_after);
    for (; first != pause; ++first) body(first);
    if (asked()) return first;
  }
  for (; first != last; ++first) body(first);
  return first;
}

/// Executes [first, last) by step(state, first, last, asked), from left to right as far as `state` is concerned, which
/// returns how far it has come: not to the end when asked(). What others execute begins with an empty state, which
/// merge(state, other) adds at the right.
template <class I, class State, class Step, class Merge>
void split_loop(worker& self, I first, const I last, const std::stop_token& stop, loop_pace pace, State& state,
                const Step& step, const Merge& merge) {
  pace.before_turns();
  for (std::size_t left = turns_between(first, last); left != 0 && !stop.stop_requested();) {
    if (self.forks.is_asked() && left > pace.turns()) {
      const I middle = turns_after(first, left - left / 2);
      State other{};
      auto here = [&] { split_loop(self, first, middle, stop, pace, state, step, merge); };
      auto there = [&] { split_loop(*worker::current(), middle, last, stop, pace, other, step, merge); };
      fork_on(self, here, there);
      merge(state, other);
      return;
    }
    const I end = turns_after(first, std::min(pace.turns(), left));
    first = step(state, first, end, [&] { return pace.measured() && self.forks.is_asked(); });
    left = turns_between(first, last);
    pace.after_turns();
  }
}

/// Calls with(worker).
template <class With>
void on_some_worker(With with) {
  if (worker* const self = worker::current()) return with(*self);
  pool::shared().run([&] { with(*worker::current()); });
}

/// Adds reduce(transform(x)...) of the turns to the right of `sum`. Returns how far it has come.
template <class I, class T, class Reduce, class Transform, class Asked>
MUSTER_HOT I reduce_piece(std::optional<T>& sum, I first, const I last, Reduce& reduce, Transform& transform,
                          const Asked& asked) {
  if (first == last) return first;
  if (!sum.has_value()) {
    sum.emplace(transform(turn(first)));
    ++first;
  }
  T all = std::move(*sum);
  first = turns_until_asked(first, last, asked, [&](I at) { all = reduce(std::move(all), transform(turn(at))); });
  sum = std::move(all);
  return first;
}

/// Adds the sum of what lies to the right of `sum`.
template <class T, class Reduce>
void reduce_sums(std::optional<T>& sum, std::optional<T>& more, Reduce& reduce) {
  if (sum.has_value() && more.has_value()) {
    sum = reduce(std::move(*sum), std::move(*more));
  } else if (more.has_value()) {
    sum = std::move(more);
  }
}

/// The sum of blocks [first, last) of `grain` turns each, always in the same tree.
template <class I, class T, class Reduce, class Transform>
std::optional<T> reduce_blocks(worker& self, I begin, std::size_t turns, std::size_t grain, const std::stop_token& stop,
                               Reduce& reduce, Transform& transform) {
  std::optional<T> sum;
  if (turns <= grain) {
    const auto never = [] { return false; };
    if (!stop.stop_requested()) reduce_piece(sum, begin, turns_after(begin, turns), reduce, transform, never);
    return sum;
  }
  const std::size_t half = (turns / grain + 1) / 2 * grain;
  auto left = [&] { return reduce_blocks<I, T>(self, begin, half, grain, stop, reduce, transform); };
  auto right = [&] {
    return reduce_blocks<I, T>(*worker::current(), turns_after(begin, half), turns - half, grain, stop, reduce,
                               transform);
  };
  auto [a, b] = fork_on(self, left, right);
  reduce_sums(a, b, reduce);
  return std::move(a);
}

}  // namespace detail

/// Calls f(i) for the integers in [first, last), or f(*i) for iterators. If f can be called with two counters, it is
/// given whole pieces: f(from, to). Both counters are of one type.
template <loop_counter I, class F>
void parallel_for(I first, I last, F&& f, const loop_options& options = {}) {
  detail::on_some_worker([&](detail::worker& self) {
    std::monostate none;
    const auto step = [&](std::monostate, I from, const I to, const auto& asked) {
      if constexpr (std::invocable<F&, I, I>) {
        f(from, to);
        return to;
      } else {
        return detail::turns_until_asked(from, to, asked, [&](I at) { f(detail::turn(at)); });
      }
    };
    const auto merge = [](std::monostate, std::monostate) {};
    detail::split_loop(self, first, last, options.stop, detail::loop_pace(options.grain), none, step, merge);
  });
}
/// Calls f(element) for the elements of a range.
template <std::ranges::random_access_range R, class F>
void parallel_for(R&& range, F&& f, const loop_options& options = {}) {
  const auto first = std::ranges::begin(range);
  muster::parallel_for(first, first + std::ranges::distance(range), f, options);
}

/// init + t0 + t1 + ..., where + is reduce, and t are transform(i), or transform(*i) for iterators. In this order;
/// reduce must be associative.
template <loop_counter I, class T, class Reduce, class Transform>
  requires requires(I i, T sum, Reduce reduce, Transform transform) {
    { reduce(std::move(sum), transform(detail::turn(i))) } -> std::convertible_to<T>;
  }
T parallel_reduce(I first, I last, T init, Reduce reduce, Transform transform, const loop_options& options = {}) {
  std::optional<T> sum(std::move(init));
  detail::on_some_worker([&](detail::worker& self) {
    const auto merge = [&](std::optional<T>& all, std::optional<T>& more) { detail::reduce_sums(all, more, reduce); };
    if (options.fixed) {
      const std::size_t grain = options.grain == 0 ? 1024 : options.grain;
      auto blocks = detail::reduce_blocks<I, T>(self, first, detail::turns_between(first, last), grain, options.stop,
                                                reduce, transform);
      return merge(sum, blocks);
    }
    const auto step = [&](std::optional<T>& all, I from, I to, const auto& asked) {
      return detail::reduce_piece(all, from, to, reduce, transform, asked);
    };
    detail::split_loop(self, first, last, options.stop, detail::loop_pace(options.grain), sum, step, merge);
  });
  return std::move(*sum);
}
/// The same with the elements themselves.
template <loop_counter I, class T, class Reduce>
T parallel_reduce(I first, I last, T init, Reduce reduce, const loop_options& options = {}) {
  return muster::parallel_reduce(first, last, std::move(init), std::move(reduce), std::identity(), options);
}

}  // namespace muster::inline MUSTER_ABI
