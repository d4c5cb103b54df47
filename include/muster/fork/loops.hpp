// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// loops.hpp: loops whose iterations may be executed at the same time: parallel_for, parallel_reduce.
//
// Splitting  when a thief requests work, the loop offers the second half of the remaining iterations. Otherwise it is a
//            serial loop that reads one word every few microseconds, at the latest when the number of iterations since
//            it last did, at least 128, has doubled. If the function takes whole pieces, the loop reads it between
//            pieces. The size of a piece is measured, so that it takes microseconds, or given as `grain`: then the loop
//            reads that word only between pieces. While a piece runs, a thief can steal the iterations after it, like
//            the second half of a fork. So a long iteration, or one with loops of its own, delays nothing else.
// Brief      a loop that should take less than a few microseconds, as earlier ones of the same function and length did,
//            is one piece. If a thief requests work, the loop measures its first iteration, and splits if it was long.
// Cost       of a brief loop: a few nanoseconds. Otherwise one fork per piece.
// Order      with one worker: that of the serial loop. parallel_reduce combines from left to right, wherever it splits,
//            so the combination must be associative but need not be commutative. With `fixed` it splits at the same
//            places in every run and every pool, so sums of floating-point numbers are reproducible too.
// Exceptions the leftmost, as in fork2: the one that the serial loop would throw. Iterations to its right may or may
//            not have run. An exception from combining sums is thrown if no iteration throws.
// Stopping   once a stop is requested, no further piece begins. The call returns when the running ones have ended; a
//            reduction then covers the iterations that were executed.
// Progress   see progress.hpp.
// Source     lazy splitting: Tzannes et al., "Lazy Binary-Splitting" (PPoPP 2010).
#pragma once

#include <muster/base/arch.hpp>             // cycles, line_size
#include <muster/base/detail/native.hpp>    // native::atomic
#include <muster/fork/detail/elements.hpp>  // shares_memory
#include <muster/fork/fork2.hpp>            // fork_on
#include <muster/fork/progress.hpp>         // loop_progress

#include <algorithm>    // std::clamp, std::min
#include <concepts>     // std::integral
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint32_t
#include <functional>   // std::identity, std::invoke
#include <iterator>     // std::random_access_iterator
#include <optional>     // a sum of nothing
#include <ranges>       // ranges
#include <stdexcept>    // std::invalid_argument
#include <stop_token>   // std::stop_token
#include <string>       // the wrong step
#include <type_traits>  // std::common_type_t
#include <utility>      // std::exchange, std::move

namespace muster::inline MUSTER_ABI {

/// Options of the parallel loops and of the algorithms that take them.
struct loop_options {
  std::size_t grain = 0;      ///< turns executed between two checks for requests; 0: measured
  bool fixed = false;         ///< parallel_reduce splits at multiples of `grain` (if 0: 1024), the same in every run
  std::stop_token stop = {};  ///< ends the loop early
  loop_progress* progress = nullptr;  ///< counts the turns that are done; must live until the loop has ended
};

namespace detail {

/// The default options, so that callers, perhaps thousands of nested frames, need not construct them.
union no_options {
  constexpr no_options() noexcept : options() {}
  ~no_options() {}
  loop_options options;
};
inline constinit const no_options defaults;

/// The options that a loop looks at between pieces. One word, null unless there are such options.
class loop_watch {
 public:
  loop_watch() noexcept = default;
  explicit loop_watch(const loop_options& of) noexcept
      : of_(of.stop.stop_possible() || of.progress != nullptr ? &of : nullptr) {}
  MUSTER_HOT bool is_needed() const noexcept { return of_ != nullptr; }
  MUSTER_HOT bool stop_requested() const noexcept { return of_ != nullptr && of_->stop.stop_requested(); }
  /// Some turns have been executed.
  MUSTER_COLD void count(std::size_t turns) const {
    if (of_->progress != nullptr && turns != 0) of_->progress->count(turns);
  }
  /// The loop has ended without an exception.
  MUSTER_HOT void end() const {
    if (of_ != nullptr) [[unlikely]]
      end_progress();
  }

 private:
  MUSTER_COLD void end_progress() const {
    if (of_->progress != nullptr) of_->progress->end();
  }

  const loop_options* of_ = nullptr;
};

}  // namespace detail

/// The counter of a loop: an integer of at most 64 bits, or a random access iterator.
template <class Counter>
concept loop_counter =
    (std::integral<Counter> && sizeof(Counter) <= sizeof(std::uint64_t)) || std::random_access_iterator<Counter>;

namespace detail {

template <loop_counter Counter>
std::size_t turns_between(Counter first, Counter last) noexcept {
  if constexpr (std::integral<Counter>) {
    return first < last ? static_cast<std::size_t>(last) - static_cast<std::size_t>(first) : 0;
  } else {
    return first < last ? static_cast<std::size_t>(last - first) : 0;
  }
}
template <loop_counter Counter>
Counter turns_after(Counter first, std::size_t turns) noexcept {
  if constexpr (std::integral<Counter>) {
    return static_cast<Counter>(static_cast<std::size_t>(first) + turns);
  } else {
    return first + static_cast<std::iter_difference_t<Counter>>(turns);
  }
}
/// A type that is meant as a counter; loop_counter is one that can be.
template <class Counter>
concept like_a_counter = std::is_arithmetic_v<Counter> || std::input_or_output_iterator<Counter>;
template <class Counter>
constexpr bool can_count() {
  if constexpr (std::is_arithmetic_v<Counter>) {
    static_assert(std::integral<Counter>,
                  "the counter of a loop must be an integer or an iterator: compute a floating-point number from it");
    return std::integral<Counter>;
  } else {
    return can_be_divided<Counter>();
  }
}

/// An integer as a counter of another type.
template <std::integral Counter, std::integral From>
constexpr Counter as_counter(From from) {
  if (std::is_signed_v<From> && std::is_unsigned_v<Counter> && from < From{})
    throw std::invalid_argument("a loop: one counter is " + std::to_string(from) +
                                " and the other has an unsigned type, so the loop would not end where it says; convert "
                                "the other counter to a signed type");
  return static_cast<Counter>(from);
}
template <loop_counter Counter>
MUSTER_HOT decltype(auto) turn(Counter at) {
  if constexpr (std::integral<Counter>) {
    return at;
  } else {
    return *at;
  }
}

/// Calls body(i) for [first, last) and returns the first counter that it has not executed. It checks requested() now
/// and then, since turns may suddenly take longer, and stops early if that is true: after 128 turns, and then whenever
/// their number has doubled, so that vectorized turns are not held up. body is called in one place only, so that an
/// inlined body occupies the stack once.
template <class Counter, class Requested, class Body>
MUSTER_HOT Counter turns_until_request(Counter first, const Counter last, const Requested& requested,
                                       const Body& body) {
  std::size_t left = detail::turns_between(first, last);
  for (std::size_t look_after = 128; left != 0; look_after *= 2) {
    const Counter pause = left <= look_after ? last : detail::turns_after(first, look_after);
    do {
      body(first);
    } while (++first != pause);
    if (left <= look_after || requested()) break;
    left -= look_after;
  }
  return first;
}

/// The time of turns, in cycles().
struct loop_times {
  static constexpr std::uint32_t little = 6'000, much = 48'000;  // 2 and 16 microseconds at 3 GHz
  static constexpr std::uint32_t brief = 15'000;                 // for a whole loop: waking a worker takes as long
  /// 32 bits, because nested loops each store one. It wraps after a second or two; a piece that takes as long may be
  /// mistaken for a short one, once.
  static std::uint32_t clock() noexcept { return static_cast<std::uint32_t>(cycles()) | 1U; }
};

/// The number of turns between two checks, adapted so that a loop checks every few microseconds. The first pieces have
/// the size that is expected to do, mostly one turn, because later turns may take longer than the first ones. If
/// something is known about the turns, these pieces are not measured, so that a loop of few turns does not read the
/// clock.
class loop_pace : loop_times {
 public:
  /// `expected`: how many turns take few microseconds; 0: it is not known. `now`: measures from the beginning.
  explicit loop_pace(std::size_t grain, std::uint32_t expected = 1, bool now = false) noexcept
      : turns_(grain != 0 ? grain : std::clamp<std::size_t>(expected / 4, 1, most)),
        kept_(grain != 0 ? always : few),
        timed_(grain == 0 && (now || expected == 0)) {}
  std::size_t turns() const noexcept { return turns_; }
  /// True if a piece may stop early when a thief requests work.
  bool measured() const noexcept { return kept_ != always; }
  /// Before a piece. Null if it is not measured.
  std::uint32_t begin() const noexcept { return timed_ ? clock() : 0; }
  /// After it: its time.
  static std::uint32_t end(std::uint32_t begin) noexcept { return begin == 0 ? 0 : (clock() - begin) | 1U; }
  /// A piece of turns() has been executed, in this time; 0: it was not measured.
  void after_turns(std::uint32_t time) noexcept {
    note(turns_, time);
    if (kept_ != 0) {
      if (measured() && --kept_ == 0) timed_ = true;
    } else if (time == 0) {
      return;
    } else if (time < little && turns_ < most) {
      turns_ *= 4;
    } else if (time > much && turns_ > 1) {
      turns_ /= 2;
    }
  }
  /// So many turns took this time.
  void note(std::size_t turns, std::uint32_t time) noexcept {
    if (time == 0) return;
    constexpr std::uint32_t many = std::uint32_t{1} << 30U;
    const auto number = static_cast<std::uint32_t>(turns);
    if (are_slow(number, time)) {
      if (are_slow(done_, time_) && std::uint64_t{time} * done_ <= std::uint64_t{time_} * number) return;
      time_ = time;
      done_ = number;
    } else if (!are_slow(done_, time_)) {
      if (time_ >= many) {
        time_ /= 2;
        done_ /= 2;
      }
      time_ += std::min(time, many);
      done_ += number;
    }
  }
  /// How many turns take few microseconds: the mean of those measured, or, if some are slow, of these; 0: none was.
  std::uint32_t brief_turns() const noexcept {
    if (time_ == 0) return 0;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(std::uint64_t{brief} * done_ / time_, 1, most));
  }

 private:
  static constexpr std::uint32_t few = 16, always = static_cast<std::uint32_t>(-1);
  static constexpr std::size_t most = std::size_t{1} << 16U;

  static bool are_slow(std::uint64_t turns, std::uint32_t time) noexcept { return time > turns * (brief / 16); }

  std::size_t turns_;
  std::uint32_t kept_;  // so many further pieces have this size
  bool timed_;
  std::uint32_t time_ = 0, done_ = 0;  // of turns that were measured, and their number
};

/// How many turns of the loops with one body take few microseconds together; 0: it is not known. A wrong number costs
/// time, but nothing else. All workers read it, so it has a line of its own, and changes only by much.
class brief_turns {
 public:
  MUSTER_HOT std::uint32_t get() const noexcept { return turns_.load(std::memory_order_relaxed); }
  void lower(std::uint32_t measured) noexcept {
    const std::uint32_t old = get();
    if (measured != 0 && measured < old - old / 4) turns_.store(measured, std::memory_order_relaxed);
  }
  /// Only little by little: the turns may differ, and slow ones are not in every loop.
  void correct(std::uint32_t measured) noexcept {
    const std::uint32_t old = get();
    if (measured <= old) return lower(measured);
    if (old == 0) {
      turns_.store(measured, std::memory_order_relaxed);
    } else if (measured > old + old / 4) {
      turns_.store(measured < 2 * old ? measured : 2 * old, std::memory_order_relaxed);
    }
  }
  void forget() noexcept { turns_.store(0, std::memory_order_relaxed); }

 private:
  alignas(line_size) native::atomic<std::uint32_t> turns_{0};  // a hint: no test need delay it
};

/// Iterations that one worker executes; `state` accumulates them from left to right. Loops may nest thousands deep and
/// each has one of these on the stack, so it is small, and rarely called functions are not inlined. A Body has a type
/// `state`, the accumulator, which is empty at first on each worker; a member `watch`, a loop_watch or the like;
/// step(state, first, last, requested), which executes iterations and returns the first one left, and stops early once
/// requested() is true; and merge(state, right), which appends `right` to `state`.
template <class Counter, class Body>
class loop_part {
  using State = typename Body::state;

 public:
  loop_part(worker& self, Counter first, Counter last, State& state, Body& body, const loop_pace& pace) noexcept
      : self_(self),
        body_(body),
        state_(state),
        pace_(pace),
        first_(first),
        end_(first),
        last_(last),
        counted_(first) {}

  /// Executes a whole loop without options, if little time is expected and no thief requests work. Otherwise returns
  /// false.
  MUSTER_HOT static bool run_if_brief(worker& self, Counter first, Counter last, State& state, Body& body) {
    if (detail::turns_between(first, last) - 1 >= known.get() || self.work_requested()) return false;
    first = leaf(body, state, first, last, &self);
    if (first != last || self.work_requested()) [[unlikely]]
      run_interrupted(self, first, last, state, body);
    return true;
  }
  /// Executes a whole loop.
  MUSTER_COLD static void run_all(worker& self, Counter first, Counter last, State& state, Body& body,
                                  std::size_t grain) {
    const std::size_t turns = detail::turns_between(first, last);
    if (turns == 0) return;
    if (body.watch.is_needed()) return run_long(self, first, last, state, body, grain);
    if (turns == 1 || turns <= grain) {
      leaf(body, state, first, last, nullptr);
    } else if (grain == 0 && turns <= known.get()) {
      first = run_while_asked(first, last, state, body);
      if (first != last) run_long(self, first, last, state, body, 0);
    } else {
      run_long(self, first, last, state, body, grain);
    }
  }

  void run() {
    asked_ = self_.work_requested();
    for (std::size_t left = detail::turns_between(first_, last_); left != 0;) {
      if (body_.watch.is_needed() && must_stop()) [[unlikely]]
        return;
      if (asked_ && left > pace_.turns()) [[unlikely]] {
        pace_ = halve(first_, last_, pace_, other_);
        return;
      }
      const std::size_t turns = std::min(pace_.turns(), left);
      end_ = detail::turns_after(first_, turns);
      if (end_ == last_) {
        piece();
      } else {
        // While the piece runs, others may steal the turns after it.
        fork_on(self_, [this] { piece(); }, [this] { rest(); });
        if (taken_) [[unlikely]] {
          pace_.note(turns, time_);
          if (body_.watch.is_needed()) count();
          return body_.merge(state_, other_);
        }
      }
      left = detail::turns_between(first_, last_);
      if (left != 0) pace_.after_turns(time_);
      else pace_.note(turns, time_);
    }
    if (body_.watch.is_needed()) [[unlikely]]
      count();
  }

 private:
  static inline constinit brief_turns known{};

  /// Executes turns; until a thief requests work of `asked`, if that is not null. A function of its own, so that the
  /// body is inlined at one place, in a frame that only its turns occupy.
  MUSTER_COLD static Counter leaf(Body& body, State& state, Counter first, Counter last, const worker* asked) {
    return body.step(state, first, last, [asked] { return asked != nullptr && asked->work_requested(); });
  }
  /// While it ran, another worker had nothing to do, so perhaps it took long.
  MUSTER_COLD static void run_interrupted(worker& self, Counter first, Counter last, State& state, Body& body) {
    known.forget();
    if (first != last) run_long(self, first, last, state, body, 0);
  }
  MUSTER_COLD static void run_long(worker& self, Counter first, Counter last, State& state, Body& body,
                                   std::size_t grain) {
    loop_part all(self, first, last, state, body, loop_pace(grain, known.get(), self.is_one_of(16)));
    all.run();
    if (grain == 0) known.correct(all.pace_.brief_turns());
  }
  /// Executes turns of which little time is expected, although a thief requests work, since to share them would take
  /// longer. Stops when they take long.
  MUSTER_COLD static Counter run_while_asked(Counter first, Counter last, State& state, Body& body) {
    const std::uint32_t begin = loop_times::clock();
    for (std::size_t left = detail::turns_between(first, last), next = 1;; next *= 16) {
      first = leaf(body, state, first, detail::turns_after(first, std::min(left, next)), nullptr);
      left = detail::turns_between(first, last);
      if (left == 0) return first;
      if (loop_times::clock() - begin > loop_times::brief) {
        known.forget();
        return first;
      }
    }
  }

  void piece() {
    const std::uint32_t begin = pace_.begin();
    first_ = leaf(body_, state_, first_, end_, pace_.measured() ? &self_ : nullptr);
    time_ = pace_.end(begin);
    if (first_ != end_) [[unlikely]]
      end_of_piece();
    asked_ = self_.work_requested();  // read it now: the join may answer and reset it
  }
  /// Splits the rest of a piece that stopped early because its turns take longer now. It must run before the join,
  /// which may rethrow an exception of later turns.
  MUSTER_COLD void end_of_piece() {
    if (body_.watch.is_needed()) {
      count();
      counted_ = end_;
    }
    State right{};
    time_ = 0;
    halve(std::exchange(first_, end_), end_, loop_pace(0), right);
  }
  /// Runs only if another worker has stolen it; that worker then offers half of it again.
  void rest() {
    worker& now = *worker::current();
    if (&now == &self_) [[likely]]
      return;
    taken_ = true;
    if (detail::turns_between(end_, last_) > pace_.turns()) now.request_work();
    part(now, end_, last_, other_, pace_);
  }
  /// Between pieces, if the loop is watched.
  MUSTER_COLD bool must_stop() {
    count();
    return body_.watch.stop_requested();
  }
  /// Counts the turns since the last time.
  MUSTER_COLD void count() {
    body_.watch.count(detail::turns_between(counted_, first_));
    counted_ = first_;
  }
  /// Returns the pace of the left half.
  MUSTER_COLD loop_pace halve(Counter first, Counter last, const loop_pace& pace, State& right) {
    const std::size_t left = detail::turns_between(first, last);
    const Counter middle = detail::turns_after(first, left - left / 2);
    loop_pace result = pace;
    auto here = [&] { result = part(self_, first, middle, state_, pace); };
    auto there = [&] { part(*worker::current(), middle, last, right, pace); };
    // A join may have cleared the request without offering anything. Ask again, so that this fork answers it.
    if (!self_.has_offers()) self_.request_work();
    fork_on(self_, here, there);
    body_.merge(state_, right);
    return result;
  }
  MUSTER_COLD loop_pace part(worker& self, Counter first, Counter last, State& state, const loop_pace& pace) {
    loop_part some(self, first, last, state, body_, pace);
    some.run();
    known.lower(some.pace_.brief_turns());
    return some.pace_;
  }

  worker& self_;
  Body& body_;
  State& state_;
  State other_{};  // of the rest, or of the right half
  loop_pace pace_;
  Counter first_;
  Counter end_;  // of the piece
  const Counter last_;
  Counter counted_;         // the turns before it are counted, if the loop is watched
  std::uint32_t time_ = 0;  // of the piece, if it was measured
  bool asked_ = false;
  bool taken_ = false;  // the rest was stolen; written by its thief
};

/// True if reduce(sum, transform(turn)) is a new sum.
template <class Reduce, class T, class Transform, class Counter>
concept adds_up = requires(Reduce& reduce, T sum, Transform& transform, Counter i) {
  { std::invoke(reduce, std::move(sum), std::invoke(transform, detail::turn(i))) } -> std::convertible_to<T>;
};

template <class F>
struct for_body {
  using state = std::monostate;
  const loop_watch watch;
  F& f;

  template <class Counter, class Requested>
  MUSTER_HOT Counter step(state, Counter first, const Counter last, const Requested& requested) const {
    if constexpr (std::invocable<F&, Counter, Counter>) {
      detail::invoke(f, first, last);
      return last;
    } else {
      return detail::turns_until_request(first, last, requested,
                                         [&](Counter at) { detail::invoke(f, detail::turn(at)); });
    }
  }
  static void merge(state, state) noexcept {}
};

template <class T, class Reduce, class Transform>
struct reduce_body {
  using state = std::optional<T>;
  const loop_watch watch;
  [[no_unique_address]] Reduce reduce;
  [[no_unique_address]] Transform transform;

  template <class Counter, class Requested>
  MUSTER_HOT Counter step(state& sum, Counter first, const Counter last, const Requested& requested) {
    if (first == last) return first;
    if (!sum.has_value()) {
      sum.emplace(only(first));
      ++first;
    }
    T all = std::move(*sum);
    first = detail::turns_until_request(first, last, requested, [&](Counter at) {
      all = detail::invoke(reduce, std::move(all), detail::invoke(transform, detail::turn(at)));
    });
    sum = std::move(all);
    return first;
  }
  void merge(state& sum, state& right) {
    if (sum.has_value() && right.has_value()) {
      sum = detail::invoke(reduce, std::move(*sum), std::move(*right));
    } else if (right.has_value()) {
      sum = std::move(right);
    }
  }

 private:
  template <class Counter>
  MUSTER_COLD T only(Counter at) {
    return detail::invoke(transform, detail::turn(at));
  }
};

/// The sum of `turns` turns, in blocks of `grain`, always combined in the same tree.
template <class Counter, class Body>
typename Body::state reduce_blocks(worker& self, Counter begin, std::size_t turns, std::size_t grain, Body& body) {
  typename Body::state sum;
  if (body.watch.stop_requested()) return sum;
  if (turns <= grain) {
    body.step(sum, begin, detail::turns_after(begin, turns), [] { return false; });
    if (body.watch.is_needed()) body.watch.count(turns);
    return sum;
  }
  const std::size_t blocks = turns / grain;
  const std::size_t half = (blocks - blocks / 2) * grain;
  auto left = [&] { return detail::reduce_blocks(self, begin, half, grain, body); };
  auto right = [&] {
    return detail::reduce_blocks(*worker::current(), detail::turns_after(begin, half), turns - half, grain, body);
  };
  auto [a, b] = fork_on(self, left, right);
  body.merge(a, b);
  return std::move(a);
}
template <class Counter, class Body>
MUSTER_COLD void reduce_fixed(worker& self, Counter first, Counter last, std::size_t grain, typename Body::state& sum,
                              Body& body) {
  auto blocks = detail::reduce_blocks(self, first, detail::turns_between(first, last), grain == 0 ? 1024 : grain, body);
  body.merge(sum, blocks);
}

/// Calls with(worker), in the default pool if the caller is in none.
template <class With>
void on_some_worker(const With& with) {
  if (worker* const self = worker::current()) return with(*self);
  run_outside_pool([&] { with(*worker::current()); });
}

/// The loop of parallel_for, on a worker or on a thread that is none.
template <class Counter, class F>
MUSTER_COLD void for_all(worker* self, Counter first, Counter last, F& f, const loop_options& options) {
  if (self == nullptr)
    return run_outside_pool([&] { detail::for_all<Counter, F>(worker::current(), first, last, f, options); });
  std::monostate none;
  for_body<F> body{loop_watch(options), f};
  loop_part<Counter, for_body<F>>::run_all(*self, first, last, none, body, options.grain);
  body.watch.end();
}

}  // namespace detail

/// Calls f(i) for the integers in [first, last), or f(*i) for iterators. If f takes two counters, it is called with the
/// bounds of whole pieces: f(from, to).
template <detail::like_a_counter Counter, class F>
MUSTER_HOT void parallel_for(Counter first, Counter last, F&& f,
                             const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_count<Counter>()) {
    static_assert(
        !detail::shares_memory<Counter>,
        "parallel_for: the elements of a std::vector<bool> share memory, so turns that are executed at the same "
        "time would lose each other's writes: use a std::vector<char>, or count over its indices to read it");
    static_assert(
        std::invocable<F&, Counter, Counter> || std::invocable<F&, decltype(detail::turn(first))>,
        "what a loop calls must be a function of a counter (of iterators: of an element), or of two counters");
    detail::worker* const self = detail::worker::current();
    using function = std::remove_reference_t<F>;
    if (self != nullptr && &options == &detail::defaults.options) [[likely]] {
      std::monostate none;
      detail::for_body<function> here{{}, f};
      if (detail::loop_part<Counter, detail::for_body<function>>::run_if_brief(*self, first, last, none, here))
          [[likely]]
        return;
    }
    detail::for_all<Counter, function>(self, first, last, f, options);
  }
}
/// Calls f(element) for the elements of a range.
template <class Range, class F>
void parallel_for(Range&& range, F&& f, const loop_options& options = detail::defaults.options) {
  static_assert(std::ranges::range<Range>, "parallel_for takes a range, or two counters, before its function");
  if constexpr (std::ranges::range<Range>)
    muster::parallel_for(std::ranges::begin(range), detail::end_of(range), f, options);
}
/// The same with two types of integers, as in parallel_for(0, numbers.size(), f): f gets the common type.
template <class First, class Last, class F>
  requires(!std::is_same_v<First, Last> && !std::is_same_v<std::remove_cvref_t<F>, loop_options>)
void parallel_for(First first, Last last, F&& f, const loop_options& options = detail::defaults.options) {
  constexpr bool fits = std::integral<First> && std::integral<Last>;
  static_assert(fits, "parallel_for: the two counters must have the same type, or be integers");
  if constexpr (fits) {
    using index_type = std::common_type_t<First, Last>;
    muster::parallel_for(detail::as_counter<index_type>(first), detail::as_counter<index_type>(last), f, options);
  }
}
/// Calls f(first), f(first + step), f(first + 2 * step), ..., as long as the counter is less than last. Throws
/// std::invalid_argument if the step is not positive.
template <detail::like_a_counter First, detail::like_a_counter Last, class Step, class F>
  requires std::is_arithmetic_v<Step>
void parallel_for(First first, Last last, Step step, F&& f, const loop_options& options = detail::defaults.options) {
  constexpr bool counts = std::integral<First> && std::integral<Last> && std::integral<Step>;
  static_assert(counts, "parallel_for: a loop with a step needs integers as counters, and as its step");
  if constexpr (counts) {
    using index_type = std::common_type_t<First, Last>;
    constexpr bool fits = std::invocable<F&, index_type>;
    static_assert(fits, "what a loop with a step calls must be a function of a counter");
    if (step <= 0)
      throw std::invalid_argument("parallel_for: the step is " + std::to_string(step) + "; it must be at least 1");
    const auto begin = detail::as_counter<index_type>(first);
    const auto stride = static_cast<std::size_t>(step);
    const std::size_t between = detail::turns_between(begin, detail::as_counter<index_type>(last));
    if constexpr (fits)
      muster::parallel_for(
          std::size_t{0}, between / stride + (between % stride != 0 ? 1 : 0),
          [&](std::size_t i) { detail::invoke(f, detail::turns_after(begin, i * stride)); }, options);
  }
}

/// Returns init + t0 + t1 + ..., in this order, where + is reduce, and t is transform(i), or transform(*i) for
/// iterators. reduce must be associative.
template <detail::like_a_counter Counter, class T, class Reduce, class Transform>
  requires(!std::is_same_v<Transform, loop_options>)
T parallel_reduce(Counter first, Counter last, T init, Reduce reduce, Transform transform,
                  const loop_options& options = detail::defaults.options) {
  constexpr bool counts = detail::can_count<Counter>();
  constexpr bool fits = !counts || detail::adds_up<Reduce, T, Transform, Counter>;
  static_assert(fits,
                "parallel_reduce: a function of the sum and an element (of a transform's result, if there is one) must "
                "return the new sum, and the sum must have the type of the initial value");
  if constexpr (counts && fits) {
    detail::worker* const self = detail::worker::current();
    if (self == nullptr) {
      auto call = [first, last, init = std::move(init), reduce = std::move(reduce), transform = std::move(transform),
                   &options]() mutable {
        return muster::parallel_reduce(first, last, std::move(init), std::move(reduce), std::move(transform), options);
      };
      return detail::run_outside_pool(std::move(call));
    }
    using body = detail::reduce_body<T, Reduce, Transform>;
    using part = detail::loop_part<Counter, body>;
    body here{&options == &detail::defaults.options ? detail::loop_watch() : detail::loop_watch(options),
              std::move(reduce), std::move(transform)};
    std::optional<T> sum(std::move(init));
    if (&options == &detail::defaults.options && part::run_if_brief(*self, first, last, sum, here)) [[likely]]
      return std::move(*sum);
    if (options.fixed) {
      detail::reduce_fixed(*self, first, last, options.grain, sum, here);
    } else {
      part::run_all(*self, first, last, sum, here, options.grain);
    }
    here.watch.end();
    return std::move(*sum);
  }
}
/// The same without a transform: the elements themselves are combined.
template <detail::like_a_counter Counter, class T, class Reduce>
T parallel_reduce(Counter first, Counter last, T init, Reduce reduce,
                  const loop_options& options = detail::defaults.options) {
  return muster::parallel_reduce(first, last, std::move(init), std::move(reduce), std::identity(), options);
}
/// The elements of a range.
template <std::ranges::range Range, class T, class Reduce>
T parallel_reduce(Range&& range, T init, Reduce reduce, const loop_options& options = detail::defaults.options) {
  return muster::parallel_reduce(std::ranges::begin(range), detail::end_of(range), std::move(init), std::move(reduce),
                                 std::identity(), options);
}
template <std::ranges::range Range, class T, class Reduce, class Transform>
  requires(!std::is_same_v<Transform, loop_options>)
T parallel_reduce(Range&& range, T init, Reduce reduce, Transform transform,
                  const loop_options& options = detail::defaults.options) {
  return muster::parallel_reduce(std::ranges::begin(range), detail::end_of(range), std::move(init), std::move(reduce),
                                 std::move(transform), options);
}
/// With two types of integers, as in parallel_for.
template <std::integral First, std::integral Last, class T, class Reduce, class Transform>
  requires(!std::is_same_v<First, Last>)
T parallel_reduce(First first, Last last, T init, Reduce reduce, Transform transform,
                  const loop_options& options = detail::defaults.options) {
  using index_type = std::common_type_t<First, Last>;
  return muster::parallel_reduce(detail::as_counter<index_type>(first), detail::as_counter<index_type>(last),
                                 std::move(init), std::move(reduce), std::move(transform), options);
}

}  // namespace muster::inline MUSTER_ABI
