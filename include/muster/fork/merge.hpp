// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// merge.hpp: parallel_merge, parallel_stable_sort.
//
// Order      stable: of equal elements, those of the first range come first; sorting keeps their order.
// Cost       merging compares each element about once. Sorting: O(n log n) comparisons, and one for each element if the
//            range is sorted or reversed already. Parts of it that are cost less, too. Elements are moved.
// Parallel   the halves of a sort are forked. Long merges are divided in the middle of the longer range, at the place
//            that this element would have in the other.
// Memory     parallel_stable_sort: a buffer of as many elements as the range has.
// Exceptions the leftmost, as in fork2. A sorted range then holds all its elements in an unspecified order.
// Moves      of elements whose move may throw, positions are sorted; then the elements are swapped.
#pragma once

#include <muster/base/detail/scope_exit.hpp>  // scope_exit
#include <muster/fork/detail/elements.hpp>    // order_of
#include <muster/fork/sort.hpp>               // insertion_sort

#include <algorithm>    // std::copy, std::reverse
#include <concepts>     // std::same_as
#include <cstddef>      // std::size_t
#include <exception>    // std::exception_ptr
#include <functional>   // std::identity, std::less
#include <iterator>     // std::random_access_iterator
#include <memory>       // the buffer
#include <ranges>       // ranges
#include <type_traits>  // std::is_nothrow_move_constructible_v
#include <utility>      // std::exchange, std::move
#include <vector>       // positions

namespace muster::inline MUSTER_ABI {
namespace detail {

/// Merges two sorted sequences. comes_first(element of B, element of A) is true if the former comes first. If Moves,
/// all elements are moved to the output, even when a comparison throws.
template <bool Moves, class A, class B, class Out, class ComesFirst>
class merging {
 public:
  struct sequences {
    A a, a_end;
    B b, b_end;
    Out out;
    std::size_t size() const noexcept { return detail::turns_between(a, a_end) + detail::turns_between(b, b_end); }
  };

  explicit merging(const ComesFirst& comes_first) noexcept : comes_first_(comes_first) {}

  /// Returns the leftmost exception, or null.
  std::exception_ptr run(worker& self, sequences all) const {
    std::exception_ptr error;
    try {
      if (all.a != all.a_end && all.b != all.b_end &&
          comes_first_(*all.b, *(all.a_end - 1))) {    // else they are in order
        if (comes_first_(*(all.b_end - 1), *all.a)) {  // in the inverse order
          put_all(std::exchange(all.b, all.b_end), all.b_end, all.out);
        } else {
          if (all.size() > worth_forking) return in_halves(self, all);
          serially(all);
        }
      }
      if constexpr (!Moves) put_rest(all);
    } catch (...) {
      if (std::current_exception() == nullptr) throw;  // not a C++ exception
      error = std::current_exception();
    }
    if constexpr (Moves) put_rest(all);
    return error;
  }

 private:
  static constexpr std::size_t worth_forking = 4096;

  void serially(sequences& all) const {
    A a = all.a;
    B b = all.b;
    Out out = all.out;
    const scope_exit reached([&]() noexcept { all = {a, all.a_end, b, all.b_end, out}; });
    const auto step = [&] {
      const bool second = comes_first_(*b, *a);
      if constexpr (std::same_as<A, B>) {  // without a branch
        put(second ? A(b) : A(a), out);
        b += static_cast<std::iter_difference_t<B>>(second);
        a += static_cast<std::iter_difference_t<A>>(!second);
      } else if (second) {
        put(b, out);
        ++b;
      } else {
        put(a, out);
        ++a;
      }
      ++out;
    };
    constexpr std::size_t few = 8;
    while (detail::turns_between(a, all.a_end) >= few && detail::turns_between(b, all.b_end) >= few) {
      const A begin = a;
      for (std::size_t i = 0; i < few; ++i) step();
      // If all came from one side, perhaps many more do. Then a branch is quicker.
      if (const std::size_t from_a = detail::turns_between(begin, a); from_a == few) {
        for (; a != all.a_end && !comes_first_(*b, *a); ++a, static_cast<void>(++out)) put(a, out);
      } else if (from_a == 0) {
        for (; b != all.b_end && comes_first_(*b, *a); ++b, static_cast<void>(++out)) put(b, out);
      }
    }
    while (a != all.a_end && b != all.b_end) step();
  }
  /// Divides the longer one in its middle.
  std::exception_ptr in_halves(worker& self, const sequences& all) const {
    A a = all.a;
    B b = all.b;
    if (const std::size_t a_many = detail::turns_between(a, all.a_end), b_many = detail::turns_between(b, all.b_end);
        a_many >= b_many) {
      a = detail::turns_after(a, a_many / 2);
      b = first_not(b, b_many, [&](const B& at) { return comes_first_(*at, *a); });
    } else {
      b = detail::turns_after(b, b_many / 2);
      a = first_not(a, a_many, [&](const A& at) { return !comes_first_(*b, *at); });
    }
    const sequences left{all.a, a, all.b, b, all.out},
        right{a, all.a_end, b, all.b_end, detail::turns_after(all.out, left.size())};
    auto [first, second] =
        fork_on(self, [&] { return run(self, left); }, [&] { return run(*worker::current(), right); });
    return first != nullptr ? std::move(first) : std::move(second);
  }
  /// The first position whose element is not `in`. All elements that are `in` come first.
  template <class Iterator, class In>
  static Iterator first_not(Iterator first, std::size_t many, const In& in) {
    while (many != 0) {
      const Iterator middle = detail::turns_after(first, many / 2);
      if (in(middle)) {
        first = detail::turns_after(middle, 1);
        many -= many / 2 + 1;
      } else {
        many /= 2;
      }
    }
    return first;
  }

  template <class Iterator>
  static void put(const Iterator& from, const Out& to) {
    if constexpr (Moves) *to = std::ranges::iter_move(from);
    else *to = *from;
  }
  template <class Iterator>
  static void put_all(const Iterator& from, const Iterator& end, Out& out) {
    if constexpr (Moves) out = std::move(from, end, out);
    else out = std::copy(from, end, out);
  }
  static void put_rest(sequences& all) {
    if constexpr (Moves) std::move(all.b, all.b_end, std::move(all.a, all.a_end, all.out));
    else std::copy(all.b, all.b_end, std::copy(all.a, all.a_end, all.out));
  }

  const ComesFirst& comes_first_;
};

template <class Iterator, class Before>
class merge_sort {
 public:
  using value = std::iter_value_t<Iterator>;

  explicit merge_sort(const Before& before) noexcept : before_(before) {}

  void sort(Iterator first, std::size_t many) {
    if (many <= leaf) return detail::insertion_sort(first, first + static_cast<difference>(many), before_);
    if (is_sorted_already(first, many)) return;
    levels_ = 1;  // odd, so that the lowest is in the buffer and the highest in the range
    while ((many >> levels_) > leaf) levels_ += 2;
    first_ = first;
    std::allocator<value> memory;
    buffer_ = memory.allocate(many);
    const scope_exit freed([&]() noexcept { memory.deallocate(buffer_, many); });
    std::exception_ptr error;
    on_some_worker([&](worker& self) { error = run(self, 0, many, levels_); });
    std::destroy_n(buffer_, many);
    if (error != nullptr) std::rethrow_exception(std::move(error));
  }

 private:
  using difference = std::iter_difference_t<Iterator>;
  static constexpr std::size_t leaf = 24, worth_forking = 2048;

  /// Reverses it if each element comes before the one to its left.
  bool is_sorted_already(Iterator first, std::size_t many) const {
    const Iterator last = detail::turns_after(first, many);
    Iterator at = first + 1;
    if (before_(*at, *first)) {
      while (at != last && before_(*at, *(at - 1))) ++at;
      if (at != last) return false;
      for (Iterator left = first, right = last; left < --right; ++left) std::ranges::iter_swap(left, right);
    } else {
      while (at != last && !before_(*at, *(at - 1))) ++at;
    }
    return at == last;
  }

  /// Sorts `many` elements of the range, from `begin` on. They are in the range afterwards if `level` is odd, and in
  /// the buffer otherwise. Never loses one. Returns the leftmost exception, or null.
  std::exception_ptr run(worker& self, std::size_t begin, std::size_t many, unsigned level) const {
    const Iterator here = detail::turns_after(first_, begin);
    value* const there = buffer_ + begin;
    if (level == 0) return run_leaf(here, there, many);
    std::exception_ptr error;
    bool sorted = false;
    try {
      sorted = level > 1 && is_sorted_already(here, many);
    } catch (...) {
      if (std::current_exception() == nullptr) throw;  // not a C++ exception
      error = std::current_exception();
    }
    if (sorted || error != nullptr) {
      fill_buffer(here, there, many, level);
      return error;
    }
    const std::size_t half = many / 2;
    auto left = [&] { return run(self, begin, half, level - 1); };
    auto right = [&](worker& on) { return run(on, begin + half, many - half, level - 1); };
    if (many > worth_forking) {
      auto [first, second] = fork_on(self, left, [&] { return right(*worker::current()); });
      error = first != nullptr ? std::move(first) : std::move(second);
    } else {
      error = left();
      if (std::exception_ptr second = right(self); error == nullptr) error = std::move(second);
    }
    std::exception_ptr last =
        level % 2 != 0 ? merge(self, there, half, many, here) : merge(self, here, half, many, there);
    return error != nullptr ? error : last;
  }
  /// Constructs the elements of the buffer; the elements are in the range afterwards if `level` is odd.
  static void fill_buffer(Iterator here, value* there, std::size_t many, unsigned level) noexcept {
    Iterator from = here;
    for (std::size_t i = 0; i < many; ++i, ++from) std::construct_at(there + i, std::ranges::iter_move(from));
    if (level % 2 != 0 && !std::is_trivially_copyable_v<value>) std::move(there, there + many, here);
  }
  std::exception_ptr run_leaf(Iterator from, value* to, std::size_t many) const {
    for (std::size_t i = 0; i < many; ++i, ++from) std::construct_at(to + i, std::ranges::iter_move(from));
    try {
      detail::insertion_sort(to, to + many, before_);
    } catch (...) {
      if (std::current_exception() == nullptr) throw;  // not a C++ exception
      return std::current_exception();
    }
    return nullptr;
  }
  template <class From, class To>
  std::exception_ptr merge(worker& self, From from, std::size_t half, std::size_t many, To to) const {
    const From middle = detail::turns_after(from, half);
    return merging<true, From, From, To, Before>(before_).run(
        self, {from, middle, middle, detail::turns_after(from, many), to});
  }

  const Before& before_;
  Iterator first_{};
  value* buffer_ = nullptr;
  unsigned levels_ = 0;
};

/// Sorts the positions of the elements, and then swaps the elements into their places.
template <class Iterator, class Before>
void stable_sort_places(Iterator first, std::size_t many, const Before& before) {
  std::vector<Iterator> places(many);
  for (std::size_t i = 0; i < many; ++i) places[i] = detail::turns_after(first, i);
  const auto before_place = [&](const Iterator& a, const Iterator& b) { return before(*a, *b); };
  merge_sort<typename std::vector<Iterator>::iterator, decltype(before_place)>(before_place).sort(places.begin(), many);
  for (std::size_t i = 0; i < many; ++i)
    for (std::size_t at = i;;) {  // a cycle of the permutation
      const std::size_t from = detail::turns_between(first, std::exchange(places[at], detail::turns_after(first, at)));
      if (from == i) break;
      std::ranges::iter_swap(detail::turns_after(first, at), detail::turns_after(first, from));
      at = from;
    }
}

}  // namespace detail

/// Sorts [first, last) by less(proj(a), proj(b)); equal elements stay in their order.
template <std::input_or_output_iterator Iterator, class Less = std::less<>, class Proj = std::identity>
void parallel_stable_sort(Iterator first, Iterator last, Less less = {}, Proj proj = {}) {
  if constexpr (detail::can_be_written<Iterator>() && detail::can_be_moved<Iterator>() &&
                detail::is_relation<Less, Proj, Iterator>()) {
    using element = std::iter_value_t<Iterator>;
    const auto before = detail::order_of<Iterator>(less, proj);
    if constexpr (std::is_same_v<std::iter_reference_t<Iterator>, element&> &&
                  std::is_nothrow_move_constructible_v<element> && std::is_nothrow_move_assignable_v<element>) {
      detail::merge_sort<Iterator, decltype(before)>(before).sort(first, detail::turns_between(first, last));
    } else {
      detail::stable_sort_places(first, detail::turns_between(first, last), before);
    }
  }
}
template <std::ranges::range Range, class Less = std::less<>, class Proj = std::identity>
void parallel_stable_sort(Range&& range, Less less = {}, Proj proj = {}) {
  muster::parallel_stable_sort(std::ranges::begin(range), detail::end_of(range), std::move(less), std::move(proj));
}

/// Merges two ranges sorted by less(proj1(a), proj2(b)) into `out`, which overlaps neither. Of equal elements, those of
/// the first range come first. Returns the end of the output.
template <std::input_or_output_iterator Iterator1, std::input_or_output_iterator Iterator2,
          std::input_or_output_iterator Out, class Less = std::less<>, class Proj1 = std::identity,
          class Proj2 = std::identity>
Out parallel_merge(Iterator1 first1, Iterator1 last1, Iterator2 first2, Iterator2 last2, Out out, Less less = {},
                   Proj1 proj1 = {}, Proj2 proj2 = {}) {
  if constexpr (detail::can_be_divided<Iterator1>() && detail::can_be_divided<Iterator2>() &&
                detail::can_be_written<Out>()) {
    using element1 = std::iter_reference_t<Iterator1>;
    using element2 = std::iter_reference_t<Iterator2>;
    constexpr bool fits = requires(Iterator1 a, Iterator2 b) {
      { std::invoke(less, std::invoke(proj2, *b), std::invoke(proj1, *a)) } -> std::convertible_to<bool>;
    };
    static_assert(
        fits,
        "parallel_merge: elements of the second range must be comparable with those of the first (by <), or a "
        "function that compares them must be passed; if there are projections, the projected elements");
    if constexpr (fits) {
      const auto comes_first = [&](element2 b, element1 a) {
        return static_cast<bool>(detail::invoke(less, detail::invoke(proj2, std::forward<element2>(b)),
                                                detail::invoke(proj1, std::forward<element1>(a))));
      };
      const detail::merging<false, Iterator1, Iterator2, Out, decltype(comes_first)> here(comes_first);
      std::exception_ptr error;
      detail::on_some_worker(
          [&](detail::worker& self) { error = here.run(self, {first1, last1, first2, last2, out}); });
      if (error != nullptr) std::rethrow_exception(std::move(error));
      return detail::turns_after(out, detail::turns_between(first1, last1) + detail::turns_between(first2, last2));
    }
  }
}
template <std::ranges::range Range1, std::ranges::range Range2, class Out, class Less = std::less<>,
          class Proj1 = std::identity, class Proj2 = std::identity>
Out parallel_merge(Range1&& range1, Range2&& range2, Out out, Less less = {}, Proj1 proj1 = {}, Proj2 proj2 = {}) {
  if constexpr (detail::is_output<Out>())
    return muster::parallel_merge(std::ranges::begin(range1), detail::end_of(range1), std::ranges::begin(range2),
                                  detail::end_of(range2), std::move(out), std::move(less), std::move(proj1),
                                  std::move(proj2));
}

}  // namespace muster::inline MUSTER_ABI
