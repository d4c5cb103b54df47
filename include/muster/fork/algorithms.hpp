// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// algorithms.hpp: algorithms of the standard library, executed by the workers of a pool.
//   every element   parallel_for_each, parallel_transform, parallel_transform_reduce, parallel_histogram
//   searches        parallel_find_if, parallel_any_of, parallel_all_of, parallel_none_of, parallel_min_element,
//                   parallel_max_element, parallel_minmax_element
//   selections      parallel_copy_if, parallel_unique, parallel_partition
//
// Elements   of random access iterators or ranges, with projections as in std::ranges. The results are those of the
//            serial algorithms: the first match, the first of several smallest elements, copies in their order. Only
//            parallel_partition may reorder the elements of a side, as std::partition may.
// Splitting  as in loops.hpp: serially until a thief requests work. The function or predicate is called once for each
//            element; searches leave out elements after a match.
// Exceptions the leftmost, as in fork2. A search throws if the first element that is a match or throws does; except
//            that parallel_any_of, all_of and none_of end at any match or exception, and prefer the first they have.
// Stopping   once a stop is requested, no further piece begins. The result covers the elements that were looked at.
// In place   parallel_partition swaps, so the range holds all its elements even if the predicate throws;
//            parallel_unique moves. If a move throws, elements may be lost.
// Memory     parallel_copy_if: three words for 64 elements of a stolen part. parallel_histogram: a counter for each bin
//            in each stolen part. Otherwise none.
// Cost       n calls of the function or predicate for n elements; in searches at most n. Each stolen part adds a fork
//            and a merge, in O(1) unless the algorithm's comment says otherwise, as it does for the number of
//            comparisons.
#pragma once

#include <muster/base/detail/exception.hpp>  // capture_exception
#include <muster/base/sync.hpp>              // sync::atomic
#include <muster/fork/detail/elements.hpp>   // can_be_divided, order_of
#include <muster/fork/loops.hpp>             // loop_part, parallel_for, parallel_reduce

#include <algorithm>    // std::find_if, std::partition
#include <bit>          // std::countr_zero
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <exception>    // std::exception_ptr
#include <functional>   // std::identity, std::less
#include <iterator>     // std::random_access_iterator
#include <optional>     // of parts that are empty
#include <ranges>       // ranges
#include <stdexcept>    // std::out_of_range
#include <string>       // the wrong bin
#include <type_traits>  // std::is_void_v
#include <utility>      // std::move
#include <vector>       // bins, selected elements

namespace muster::inline MUSTER_ABI {
namespace detail {

/// In place of a loop_watch where there are no options.
struct never_stop {
  static constexpr bool is_needed() noexcept { return false; }
  static constexpr bool stop_requested() noexcept { return false; }
  static constexpr void count(std::size_t) noexcept {}
  static constexpr void end() noexcept {}
};

/// Executes a loop of parts, and accumulates in `state`.
template <class Counter, class Body>
void run_parts(Counter first, Counter last, typename Body::state& state, Body& body, std::size_t grain = 0) {
  on_some_worker([&](worker& self) { loop_part<Counter, Body>::run_all(self, first, last, state, body, grain); });
  body.watch.end();
}

/// std::find_if, also for iterators that are ones of C++20 only, such as those of std::views::iota.
template <class Iterator, class Match>
Iterator first_match(Iterator first, const Iterator last, const Match& is_match) {
  if constexpr (std::is_convertible_v<typename std::iterator_traits<Iterator>::iterator_category,
                                      std::input_iterator_tag>) {
    return std::find_if(first, last, is_match);  // the loop is unrolled there
  } else {
    while (first != last && !is_match(*first)) ++first;
    return first;
  }
}

/// Looks for the first match, or for any.
template <class Iterator, class Pred, class Proj, bool Any>
class search {
 public:
  /// The first match or exception of a part.
  struct state {
    bool found = false;
    Iterator at{};
    std::exception_ptr thrown{};
  };

  search(Iterator first, const loop_options& options, Pred& pred, Proj& proj) noexcept
      : watch{loop_watch(options), limit_}, first_(first), pred_(pred), proj_(proj) {}

  Iterator find(Iterator last, std::size_t grain) {
    state all;
    detail::run_parts(first_, last, all, *this, grain);
    if (all.thrown != nullptr) std::rethrow_exception(all.thrown);
    return all.found ? all.at : last;
  }

  /// Also stops when nothing is left to look for.
  struct watching : loop_watch {
    const sync::atomic<std::size_t>& limit;
    bool is_needed() const noexcept { return limit.load(std::memory_order_relaxed) == 0 || loop_watch::is_needed(); }
    bool stop_requested() const noexcept {
      return limit.load(std::memory_order_relaxed) == 0 || loop_watch::stop_requested();
    }
    void count(std::size_t turns) const {
      if (loop_watch::is_needed()) loop_watch::count(turns);
    }
  };
  const watching watch;

  template <class Requested>
  Iterator step(state& part, Iterator at, const Iterator last, const Requested& requested) {
    if (part.found) return last;
    const auto is_match = [&](std::iter_reference_t<Iterator> element) {
      return static_cast<bool>(
          detail::invoke(pred_, detail::invoke(proj_, std::forward<std::iter_reference_t<Iterator>>(element))));
    };
    try {
      while (at != last) {
        if (limit_.load(std::memory_order_relaxed) <= detail::turns_between(first_, at)) return last;
        constexpr std::size_t look_after = 64;
        const Iterator pause = detail::turns_after(at, std::min(detail::turns_between(at, last), look_after));
        const Iterator match = detail::first_match(at, pause, is_match);
        if (match != pause) return found(part, match, {}, last);
        at = pause;
        if (at != last && requested()) break;
      }
    } catch (...) {
      if (std::current_exception() == nullptr) throw;  // not a C++ exception
      // At a match, or somewhat before it: nothing between has matched.
      return found(part, at, std::current_exception(), last);
    }
    return at;
  }
  static void merge(state& left, state& right) noexcept {
    if (!left.found) left = std::move(right);
  }

 private:
  MUSTER_COLD Iterator found(state& part, Iterator at, std::exception_ptr thrown, Iterator last) noexcept {
    part = {true, at, std::move(thrown)};
    const std::size_t here = Any ? 0 : detail::turns_between(first_, at);
    std::size_t limit = limit_.load(std::memory_order_relaxed);
    while (here < limit && !limit_.compare_exchange_weak(limit, here, std::memory_order_relaxed)) continue;
    return last;
  }

  // Elements from here on cannot change the result. A hint, hence relaxed: the joins carry the result.
  sync::atomic<std::size_t> limit_{static_cast<std::size_t>(-1)};
  const Iterator first_;
  Pred& pred_;
  Proj& proj_;
};

template <bool Any, class Iterator, class Pred, class Proj>
Iterator search_for(Iterator first, Iterator last, Pred& pred, Proj& proj, const loop_options& options) {
  return search<Iterator, Pred, Proj, Any>(first, options, pred, proj).find(last, options.grain);
}

template <class Pred>
struct negated {
  Pred& pred;
  template <class Element>
  bool operator()(Element&& element) {
    return !static_cast<bool>(detail::invoke(pred, std::forward<Element>(element)));
  }
};

/// Looks for the best element, or elements: T is an iterator, or several. improve(best, next) compares those of `next`,
/// which are to the right.
template <class T, class Improve>
struct best_body {
  using state = std::optional<T>;
  const loop_watch watch;
  const Improve& improve;

  template <class Iterator, class Requested>
  Iterator step(state& part, Iterator first, const Iterator last, const Requested& requested) const {
    if (first == last) return first;
    T best = part.has_value() ? *part : only(first);
    first = detail::turns_until_request(first, last, requested, [&](const Iterator& at) { improve(best, only(at)); });
    part = best;
    return first;
  }
  void merge(state& left, const state& right) const {
    if (!left.has_value()) left = right;
    else if (right.has_value()) improve(*left, *right);
  }

 private:
  template <class Iterator>
  static T only(const Iterator& at) {
    if constexpr (std::is_same_v<T, Iterator>) return at;
    else return T{at, at};
  }
};
template <class T, class Iterator, class Improve>
T best_of(Iterator first, Iterator last, T none, const loop_options& options, const Improve& improve) {
  best_body<T, Improve> body{loop_watch(options), improve};
  std::optional<T> best;
  detail::run_parts(first, last, best, body, options.grain);
  return best.has_value() ? *best : none;
}

/// Counts the elements of each bin.
template <class Bin>
struct histogram_body {
  using state = std::vector<std::size_t>;
  const loop_watch watch;
  const std::size_t bins;
  Bin& bin_of;

  template <class Counter, class Requested>
  Counter step(state& counts, Counter first, const Counter last, const Requested& requested) const {
    if (counts.empty()) counts.resize(bins);
    std::size_t* const count = counts.data();
    return detail::turns_until_request(first, last, requested, [&](const Counter& at) {
      const auto bin = static_cast<std::size_t>(detail::invoke(bin_of, *at));
      if (bin >= bins) [[unlikely]]
        refuse(bin);
      ++count[bin];
    });
  }
  static void merge(state& left, state& right) noexcept {
    if (left.empty()) return left.swap(right);
    for (std::size_t i = 0; i < right.size(); ++i) left[i] += right[i];
  }
  [[noreturn]] MUSTER_COLD void refuse(std::size_t bin) const {
    throw std::out_of_range("parallel_histogram: an element is in bin " + std::to_string(bin) + ", but there are " +
                            std::to_string(bins) + " bins");
  }
};

/// Copies the selected elements. Only the leftmost part knows where its elements go, and copies them at once; the
/// others remember theirs until they are merged into it. Blocks of elements are first selected, as the bits of a word,
/// and then copied, because a branch for each element is often predicted wrongly.
template <class Iterator, class Out, class Pred, class Proj>
struct copy_if_body {
  struct block {
    Iterator first;
    std::uint64_t selected;  // bit i: the element after i others
    std::size_t before = 0;  // selected ones in earlier blocks

    /// Returns the end of the output.
    Out copy(Out to) const {
      if (~selected == 0) {
        Iterator from = first;
        for (int i = 0; i < 64; ++i, static_cast<void>(++from), static_cast<void>(++to)) *to = *from;
      } else {
        for (std::uint64_t left = selected; left != 0; left &= left - 1, static_cast<void>(++to))
          *to = *detail::turns_after(first, static_cast<std::size_t>(std::countr_zero(left)));
      }
      return to;
    }
  };
  struct state {
    bool leftmost = false;
    std::vector<block> blocks{};  // that have selected elements
  };
  [[no_unique_address]] never_stop watch;
  Out out;  // of the leftmost part
  Pred& pred;
  Proj& proj;

  template <class Requested>
  Iterator step(state& part, Iterator first, const Iterator last, const Requested& requested) {
    while (first != last) {
      block now{first, 0};
      const auto turns = static_cast<int>(std::min<std::size_t>(64, detail::turns_between(first, last)));
      for (int i = 0; i < turns; ++i, static_cast<void>(++first))
        now.selected |= std::uint64_t{static_cast<bool>(detail::invoke(pred, detail::invoke(proj, *first)))} << i;
      if (part.leftmost) out = now.copy(std::move(out));
      else if (now.selected != 0) part.blocks.push_back(std::move(now));
      if (requested()) break;
    }
    return first;
  }
  void merge(state& left, state& right) {
    if (!left.leftmost) {
      if (left.blocks.empty()) return left.blocks.swap(right.blocks);
      left.blocks.insert(left.blocks.end(), std::make_move_iterator(right.blocks.begin()),
                         std::make_move_iterator(right.blocks.end()));
    } else if constexpr (std::random_access_iterator<Out> && !shares_memory<Out>) {
      std::size_t many = 0;
      for (block& each : right.blocks) {
        each.before = many;
        many += static_cast<std::size_t>(std::popcount(each.selected));
      }
      muster::parallel_for(std::size_t{0}, right.blocks.size(), [&](std::size_t i) {
        static_cast<void>(right.blocks[i].copy(detail::turns_after(out, right.blocks[i].before)));
      });
      out = detail::turns_after(out, many);
    } else {
      for (const block& each : right.blocks) out = each.copy(std::move(out));
    }
  }
};

/// Moves the first of each group of equal elements to the front of its part.
template <class Iterator, class Equal, class Proj>
struct unique_body {
  struct state {
    Iterator first{}, end{};  // of the elements that are kept; the same if there are none
  };
  [[no_unique_address]] never_stop watch;
  Equal& equal;
  Proj& proj;

  bool is_equal(const Iterator& a, const Iterator& b) {
    return static_cast<bool>(detail::invoke(equal, detail::invoke(proj, *a), detail::invoke(proj, *b)));
  }
  template <class Requested>
  Iterator step(state& kept, Iterator first, const Iterator last, const Requested& requested) {
    if (first == last) return first;
    if (kept.first == kept.end) {
      kept.first = kept.end = first;
      ++kept.end;
      ++first;
    }
    Iterator end = kept.end;
    first = detail::turns_until_request(first, last, requested, [&](const Iterator& at) {
      if (is_equal(end - 1, at)) return;
      if (end != at) *end = std::ranges::iter_move(at);
      ++end;
    });
    kept.end = end;
    return first;
  }
  void merge(state& left, state& right) {
    if (right.first == right.end) return;
    if (left.first == left.end) {
      left = right;
      return;
    }
    if (is_equal(left.end - 1, right.first)) ++right.first;
    if (left.end == right.first) left.end = right.end;
    else left.end = std::move(right.first, right.end, left.end);
  }
};

/// Moves the elements for which the predicate is true to the front of its part.
template <class Iterator, class Pred, class Proj>
struct partition_body {
  struct state {
    Iterator first{}, middle{}, last{};
  };
  [[no_unique_address]] never_stop watch;
  Pred& pred;
  Proj& proj;

  template <class Requested>
  Iterator step(state& part, Iterator first, const Iterator last, const Requested&) {
    state here{first, first, last};
    here.middle = divided(first, last);
    merge(part, here);
    return last;
  }
  /// As std::partition, which refuses some random access iterators, such as those of a std::views::transform.
  Iterator divided(Iterator first, Iterator last) {
    const auto is_first = [&](const Iterator& at) {
      return static_cast<bool>(detail::invoke(pred, detail::invoke(proj, *at)));
    };
    for (;; ++first) {
      while (first != last && is_first(first)) ++first;
      do {
        if (first == last) return first;
        --last;
        if (first == last) return first;
      } while (!is_first(last));
      std::ranges::iter_swap(first, last);
    }
  }
  static void merge(state& left, state& right) {
    if (left.first == left.last) {
      left = right;
      return;
    }
    const std::size_t wrong = detail::turns_between(left.middle, left.last);  // they are before those of the right side
    const std::size_t right_first = detail::turns_between(right.first, right.middle);
    swap(left.middle, right.middle, wrong < right_first ? wrong : right_first);
    left.middle = detail::turns_after(left.middle, right_first);
    left.last = right.last;
  }

 private:
  /// Swaps `many` elements from `a` on with those before `b_end`.
  static void swap(Iterator a, Iterator b_end, std::size_t many) {
    const Iterator b = b_end - static_cast<std::iter_difference_t<Iterator>>(many);
    const auto swap_one = [&](std::size_t i) {
      std::ranges::iter_swap(detail::turns_after(a, i), detail::turns_after(b, i));
    };
    if (constexpr std::size_t worth_forking = 4096; many >= worth_forking)
      return muster::parallel_for(std::size_t{0}, many, swap_one);
    for (std::size_t i = 0; i < many; ++i) swap_one(i);
  }
};

}  // namespace detail

/// Calls f(proj(element)) for each element of [first, last).
template <std::input_or_output_iterator Iterator, class F, class Proj = std::identity>
void parallel_for_each(Iterator first, Iterator last, F f, Proj proj = {},
                       const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>()) {
    static_assert(detail::takes_elements<F, Proj, Iterator>,
                  "parallel_for_each takes a function of an element; if there is a projection, of the projected one");
    if constexpr (detail::takes_elements<F, Proj, Iterator>)
      muster::parallel_for(
          first, last,
          [&](std::iter_reference_t<Iterator> element) {
            detail::invoke(f, detail::invoke(proj, std::forward<std::iter_reference_t<Iterator>>(element)));
          },
          options);
  }
}
template <std::ranges::range Range, class F, class Proj = std::identity>
void parallel_for_each(Range&& range, F f, Proj proj = {}, const loop_options& options = detail::defaults.options) {
  muster::parallel_for_each(std::ranges::begin(range), detail::end_of(range), std::move(f), std::move(proj), options);
}

/// Writes out[i] = f(proj(first[i])). Returns the end of the output, which may be the input.
template <std::input_or_output_iterator Iterator, std::input_or_output_iterator Out, class F,
          class Proj = std::identity>
Out parallel_transform(Iterator first, Iterator last, Out out, F f, Proj proj = {},
                       const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::can_be_written<Out>()) {
    constexpr bool fits = requires { *out = std::invoke(f, std::invoke(proj, *first)); };
    static_assert(
        fits,
        "parallel_transform takes a function of an element that returns an element of the output; if there is "
        "a projection, of the projected element");
    const std::size_t many = detail::turns_between(first, last);
    if constexpr (fits)
      muster::parallel_for(
          std::size_t{0}, many,
          [&](std::size_t i) {
            *detail::turns_after(out, i) = detail::invoke(f, detail::invoke(proj, *detail::turns_after(first, i)));
          },
          options);
    return detail::turns_after(out, many);
  }
}
template <std::ranges::range Range, class Out, class F, class Proj = std::identity>
Out parallel_transform(Range&& range, Out out, F f, Proj proj = {},
                       const loop_options& options = detail::defaults.options) {
  if constexpr (detail::is_output<Out>())
    return muster::parallel_transform(std::ranges::begin(range), detail::end_of(range), std::move(out), std::move(f),
                                      std::move(proj), options);
}
/// Writes out[i] = f(first1[i], first2[i]).
template <std::input_or_output_iterator Iterator1, std::input_or_output_iterator Iterator2,
          std::input_or_output_iterator Out, class F>
Out parallel_transform(Iterator1 first1, Iterator1 last1, Iterator2 first2, Out out, F f,
                       const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator1>() && detail::can_be_divided<Iterator2>() &&
                detail::can_be_written<Out>()) {
    constexpr bool fits = requires { *out = std::invoke(f, *first1, *first2); };
    static_assert(fits,
                  "parallel_transform of two ranges takes a function of an element of each that returns an element of "
                  "the output");
    const std::size_t many = detail::turns_between(first1, last1);
    if constexpr (fits)
      muster::parallel_for(
          std::size_t{0}, many,
          [&](std::size_t i) {
            *detail::turns_after(out, i) =
                detail::invoke(f, *detail::turns_after(first1, i), *detail::turns_after(first2, i));
          },
          options);
    return detail::turns_after(out, many);
  }
}

/// Returns init + transform(first[0]) + transform(first[1]) + ..., in this order, where + is reduce: parallel_reduce.
template <std::input_or_output_iterator Iterator, class T, class Reduce, class Transform>
  requires std::invocable<Transform&, std::iter_reference_t<Iterator>>
T parallel_transform_reduce(Iterator first, Iterator last, T init, Reduce reduce, Transform transform,
                            const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>())
    return muster::parallel_reduce(first, last, std::move(init), std::move(reduce), std::move(transform), options);
}
template <std::ranges::range Range, class T, class Reduce, class Transform>
  requires std::invocable<Transform&, std::ranges::range_reference_t<Range>>
T parallel_transform_reduce(Range&& range, T init, Reduce reduce, Transform transform,
                            const loop_options& options = detail::defaults.options) {
  return muster::parallel_transform_reduce(std::ranges::begin(range), detail::end_of(range), std::move(init),
                                           std::move(reduce), std::move(transform), options);
}
/// Returns init + transform(first1[0], first2[0]) + ..., in this order; by default the inner product.
template <std::input_or_output_iterator Iterator1, std::input_or_output_iterator Iterator2, class T,
          class Reduce = std::plus<>, class Transform = std::multiplies<>>
  requires std::invocable<Transform&, std::iter_reference_t<Iterator1>, std::iter_reference_t<Iterator2>>
T parallel_transform_reduce(Iterator1 first1, Iterator1 last1, Iterator2 first2, T init, Reduce reduce = {},
                            Transform transform = {}, const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator1>() && detail::can_be_divided<Iterator2>())
    return muster::parallel_reduce(
        std::size_t{0}, detail::turns_between(first1, last1), std::move(init), std::move(reduce),
        [&](std::size_t i) -> decltype(auto) {
          return detail::invoke(transform, *detail::turns_after(first1, i), *detail::turns_after(first2, i));
        },
        options);
}

/// Returns the number of elements in each bin: bin_of(element) is less than `bins`. Throws std::out_of_range for
/// another bin. O(bins) more for each stolen part.
template <std::input_or_output_iterator Iterator, class Bin = std::identity>
std::vector<std::size_t> parallel_histogram(Iterator first, Iterator last, std::size_t bins, Bin bin_of = {},
                                            const loop_options& options = detail::defaults.options) {
  std::vector<std::size_t> counts(bins);
  if constexpr (detail::can_be_divided<Iterator>()) {
    constexpr bool fits = requires(const Iterator& at) {
      { std::invoke(bin_of, *at) } -> std::convertible_to<std::size_t>;
    };
    static_assert(fits, "parallel_histogram takes a function of an element that returns the index of its bin");
    // A part has counters of its own, so it should have more elements than counters.
    const std::size_t grain = options.grain == 0 && bins > 4096 ? bins : options.grain;
    if constexpr (fits) {
      detail::histogram_body<Bin> body{detail::loop_watch(options), bins, bin_of};
      detail::run_parts(first, last, counts, body, grain);
    }
  }
  return counts;
}
template <std::ranges::range Range, class Bin = std::identity>
std::vector<std::size_t> parallel_histogram(Range&& range, std::size_t bins, Bin bin_of = {},
                                            const loop_options& options = detail::defaults.options) {
  return muster::parallel_histogram(std::ranges::begin(range), detail::end_of(range), bins, std::move(bin_of), options);
}

/// Returns the first element for which pred(proj(element)) is true, or last.
template <std::input_or_output_iterator Iterator, class Pred, class Proj = std::identity>
Iterator parallel_find_if(Iterator first, Iterator last, Pred pred, Proj proj = {},
                          const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::is_predicate<Pred, Proj, Iterator>())
    return detail::search_for<false>(first, last, pred, proj, options);
}
template <std::ranges::range Range, class Pred, class Proj = std::identity>
std::ranges::borrowed_iterator_t<Range> parallel_find_if(Range&& range, Pred pred, Proj proj = {},
                                                         const loop_options& options = detail::defaults.options) {
  return muster::parallel_find_if(std::ranges::begin(range), detail::end_of(range), std::move(pred), std::move(proj),
                                  options);
}
/// Returns whether pred(proj(element)) is true for any element.
template <std::input_or_output_iterator Iterator, class Pred, class Proj = std::identity>
bool parallel_any_of(Iterator first, Iterator last, Pred pred, Proj proj = {},
                     const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::is_predicate<Pred, Proj, Iterator>())
    return detail::search_for<true>(first, last, pred, proj, options) != last;
}
template <std::ranges::range Range, class Pred, class Proj = std::identity>
bool parallel_any_of(Range&& range, Pred pred, Proj proj = {}, const loop_options& options = detail::defaults.options) {
  return muster::parallel_any_of(std::ranges::begin(range), detail::end_of(range), std::move(pred), std::move(proj),
                                 options);
}
/// Returns whether it is true for no element.
template <std::input_or_output_iterator Iterator, class Pred, class Proj = std::identity>
bool parallel_none_of(Iterator first, Iterator last, Pred pred, Proj proj = {},
                      const loop_options& options = detail::defaults.options) {
  return !muster::parallel_any_of(std::move(first), std::move(last), std::move(pred), std::move(proj), options);
}
template <std::ranges::range Range, class Pred, class Proj = std::identity>
bool parallel_none_of(Range&& range, Pred pred, Proj proj = {},
                      const loop_options& options = detail::defaults.options) {
  return !muster::parallel_any_of(range, std::move(pred), std::move(proj), options);
}
/// Returns whether it is true for all elements.
template <std::input_or_output_iterator Iterator, class Pred, class Proj = std::identity>
bool parallel_all_of(Iterator first, Iterator last, Pred pred, Proj proj = {},
                     const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::is_predicate<Pred, Proj, Iterator>())
    return muster::parallel_none_of(first, last, detail::negated<Pred>{pred}, std::move(proj), options);
}
template <std::ranges::range Range, class Pred, class Proj = std::identity>
bool parallel_all_of(Range&& range, Pred pred, Proj proj = {}, const loop_options& options = detail::defaults.options) {
  return muster::parallel_all_of(std::ranges::begin(range), detail::end_of(range), std::move(pred), std::move(proj),
                                 options);
}

/// Returns the first of the smallest elements, by less(proj(a), proj(b)); last if there are no elements. One comparison
/// for each element and each stolen part.
template <std::input_or_output_iterator Iterator, class Less = std::less<>, class Proj = std::identity>
Iterator parallel_min_element(Iterator first, Iterator last, Less less = {}, Proj proj = {},
                              const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::is_relation<Less, Proj, Iterator>()) {
    const auto before = detail::order_of<Iterator>(less, proj);
    return detail::best_of<Iterator>(first, last, last, options, [&](Iterator& best, const Iterator& next) {
      if (before(*next, *best)) [[unlikely]]
        best = next;
    });
  }
}
template <std::ranges::range Range, class Less = std::less<>, class Proj = std::identity>
std::ranges::borrowed_iterator_t<Range> parallel_min_element(Range&& range, Less less = {}, Proj proj = {},
                                                             const loop_options& options = detail::defaults.options) {
  return muster::parallel_min_element(std::ranges::begin(range), detail::end_of(range), std::move(less),
                                      std::move(proj), options);
}
/// Returns the first of the largest elements; last if there are no elements. Costs as parallel_min_element.
template <std::input_or_output_iterator Iterator, class Less = std::less<>, class Proj = std::identity>
Iterator parallel_max_element(Iterator first, Iterator last, Less less = {}, Proj proj = {},
                              const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::is_relation<Less, Proj, Iterator>()) {
    const auto before = detail::order_of<Iterator>(less, proj);
    return detail::best_of<Iterator>(first, last, last, options, [&](Iterator& best, const Iterator& next) {
      if (before(*best, *next)) [[unlikely]]
        best = next;
    });
  }
}
template <std::ranges::range Range, class Less = std::less<>, class Proj = std::identity>
std::ranges::borrowed_iterator_t<Range> parallel_max_element(Range&& range, Less less = {}, Proj proj = {},
                                                             const loop_options& options = detail::defaults.options) {
  return muster::parallel_max_element(std::ranges::begin(range), detail::end_of(range), std::move(less),
                                      std::move(proj), options);
}
/// Returns the first of the smallest and the last of the largest elements, as {min, max}. Two comparisons for each
/// element and each stolen part.
template <std::input_or_output_iterator Iterator, class Less = std::less<>, class Proj = std::identity>
std::ranges::min_max_result<Iterator> parallel_minmax_element(Iterator first, Iterator last, Less less = {},
                                                              Proj proj = {},
                                                              const loop_options& options = detail::defaults.options) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::is_relation<Less, Proj, Iterator>()) {
    using both = std::ranges::min_max_result<Iterator>;
    const auto before = detail::order_of<Iterator>(less, proj);
    return detail::best_of<both>(first, last, {last, last}, options, [&](both& best, const both& next) {
      if (before(*next.min, *best.min)) best.min = next.min;
      if (!before(*next.max, *best.max)) best.max = next.max;
    });
  }
}
template <std::ranges::range Range, class Less = std::less<>, class Proj = std::identity>
std::ranges::min_max_result<std::ranges::borrowed_iterator_t<Range>> parallel_minmax_element(
    Range&& range, Less less = {}, Proj proj = {}, const loop_options& options = detail::defaults.options) {
  return muster::parallel_minmax_element(std::ranges::begin(range), detail::end_of(range), std::move(less),
                                         std::move(proj), options);
}

/// Copies the elements for which pred(proj(element)) is true to `out`, any output iterator, in their order. Returns the
/// end of the output. Those of a stolen part are copied after all before them have been found; by several workers if
/// `out` has random access.
template <std::input_or_output_iterator Iterator, std::input_or_output_iterator Out, class Pred,
          class Proj = std::identity>
Out parallel_copy_if(Iterator first, Iterator last, Out out, Pred pred, Proj proj = {}) {
  if constexpr (detail::can_be_divided<Iterator>() && detail::is_predicate<Pred, Proj, Iterator>()) {
    using body = detail::copy_if_body<Iterator, Out, Pred, Proj>;
    body here{{}, std::move(out), pred, proj};
    typename body::state all{true};
    detail::run_parts(first, last, all, here);
    return std::move(here.out);
  }
}
template <std::ranges::range Range, class Out, class Pred, class Proj = std::identity>
Out parallel_copy_if(Range&& range, Out out, Pred pred, Proj proj = {}) {
  if constexpr (detail::is_output<Out>())
    return muster::parallel_copy_if(std::ranges::begin(range), detail::end_of(range), std::move(out), std::move(pred),
                                    std::move(proj));
}

/// Keeps the first of each group of consecutive elements that are equal, and moves those to the front. Returns their
/// end; the elements behind it have unspecified values. For n elements, n - 1 comparisons; those kept of a stolen part
/// move once more, by one worker, when it is merged.
template <std::input_or_output_iterator Iterator, class Equal = std::equal_to<>, class Proj = std::identity>
Iterator parallel_unique(Iterator first, Iterator last, Equal equal = {}, Proj proj = {}) {
  if constexpr (detail::can_be_written<Iterator>() && detail::can_be_moved<Iterator>() &&
                detail::is_relation<Equal, Proj, Iterator>()) {
    using body = detail::unique_body<Iterator, Equal, Proj>;
    body here{{}, equal, proj};
    typename body::state kept{first, first};
    detail::run_parts(first, last, kept, here);
    return kept.end;
  }
}
template <std::ranges::range Range, class Equal = std::equal_to<>, class Proj = std::identity>
std::ranges::borrowed_iterator_t<Range> parallel_unique(Range&& range, Equal equal = {}, Proj proj = {}) {
  return muster::parallel_unique(std::ranges::begin(range), detail::end_of(range), std::move(equal), std::move(proj));
}

/// Moves the elements for which pred(proj(element)) is true to the front, and returns their end. Not stable. O(n)
/// swaps; merging a stolen part adds one for each misplaced pair, by several workers if they are many.
template <std::input_or_output_iterator Iterator, class Pred, class Proj = std::identity>
Iterator parallel_partition(Iterator first, Iterator last, Pred pred, Proj proj = {}) {
  if constexpr (detail::can_be_written<Iterator>() && detail::can_be_moved<Iterator>() &&
                detail::is_predicate<Pred, Proj, Iterator>()) {
    using body = detail::partition_body<Iterator, Pred, Proj>;
    body here{{}, pred, proj};
    typename body::state all{first, first, first};
    detail::run_parts(first, last, all, here);
    return all.middle;
  }
}
template <std::ranges::range Range, class Pred, class Proj = std::identity>
std::ranges::borrowed_iterator_t<Range> parallel_partition(Range&& range, Pred pred, Proj proj = {}) {
  return muster::parallel_partition(std::ranges::begin(range), detail::end_of(range), std::move(pred), std::move(proj));
}

}  // namespace muster::inline MUSTER_ABI
