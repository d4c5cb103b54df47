// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// elements.hpp: the elements that loops and algorithms are given: checks that report a wrong one readably, and what
// orders them.
#pragma once

#include <muster/fork/detail/call.hpp>  // invoke

#include <concepts>     // std::convertible_to
#include <functional>   // std::invoke
#include <iterator>     // std::random_access_iterator
#include <ranges>       // ranges
#include <type_traits>  // std::is_class_v
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI::detail {

/// True if elements share memory, like those of std::vector<bool>: several threads would write to the same bytes.
template <class Counter>
inline constexpr bool shares_memory = false;
template <std::random_access_iterator Counter>
inline constexpr bool shares_memory<Counter> =
    std::is_same_v<std::iter_value_t<Counter>, bool> && std::is_class_v<std::iter_reference_t<Counter>>;

/// Reports iterators that no worker can begin in the middle of.
template <class Iterator>
constexpr bool can_be_divided() {
  static_assert(std::random_access_iterator<Iterator>,
                "a parallel algorithm needs random access iterators, because workers begin anywhere in the range: copy "
                "the elements of a list, a map or a stream into a std::vector, or begin an async for each");
  return std::random_access_iterator<Iterator>;
}
/// Reports outputs that several workers cannot write at once.
template <class Out>
constexpr bool can_be_written() {
  static_assert(!shares_memory<Out>,
                "the elements of a std::vector<bool> share memory, so pieces that are written at the same time would "
                "lose each other's writes: write to a std::vector<char>");
  return !shares_memory<Out> && can_be_divided<Out>();
}

/// Reports a range in place of the iterator of an output.
template <class Out>
constexpr bool is_output() {
  static_assert(std::input_or_output_iterator<Out>,
                "the output of an algorithm is an iterator: pass its begin(), if it has enough elements, or a "
                "std::back_inserter where elements are copied");
  return std::input_or_output_iterator<Out>;
}
/// Reports elements that cannot be moved within their range.
template <class Iterator>
constexpr bool can_be_moved() {
  constexpr bool fits = std::is_assignable_v<std::iter_reference_t<Iterator>, std::iter_value_t<Iterator>&&>;
  static_assert(fits, "an algorithm that moves elements needs ones that can be assigned, and const ones cannot be");
  return fits;
}

/// True if f(proj(element)) is possible.
template <class F, class Proj, class Iterator>
concept takes_elements = requires(F& f, Proj& proj, const Iterator& at) { std::invoke(f, std::invoke(proj, *at)); };
template <class F, class Proj, class Iterator>
concept decides_elements = requires(F& f, Proj& proj, const Iterator& at) {
  { std::invoke(f, std::invoke(proj, *at)) } -> std::convertible_to<bool>;
};
/// True if f(proj(element), proj(element)) decides something.
template <class F, class Proj, class Iterator>
concept relates_elements = requires(F& f, Proj& proj, const Iterator& at) {
  { std::invoke(f, std::invoke(proj, *at), std::invoke(proj, *at)) } -> std::convertible_to<bool>;
};
template <class Pred, class Proj, class Iterator>
constexpr bool is_predicate() {
  constexpr bool fits = decides_elements<Pred, Proj, Iterator>;
  static_assert(fits,
                "the predicate of an algorithm must be a function of an element that returns a bool; if there is a "
                "projection, of the projected element");
  return fits;
}
template <class Less, class Proj, class Iterator>
constexpr bool is_relation() {
  constexpr bool fits = relates_elements<Less, Proj, Iterator>;
  static_assert(fits,
                "the elements must be comparable (by < or ==), or a function of two elements that compares them must "
                "be passed; if there is a projection, the projected elements");
  return fits;
}

/// The end of a range as an iterator.
template <class Range>
auto end_of(Range& range) {
  if constexpr (detail::can_be_divided<std::ranges::iterator_t<Range>>())
    return std::ranges::begin(range) + std::ranges::distance(range);
  else return std::ranges::begin(range);
}

/// less(proj(a), proj(b)) of two elements.
template <class Iterator, class Less, class Proj>
auto order_of(Less& less, Proj& proj) {
  using element = std::iter_reference_t<Iterator>;
  return [&less, &proj](element a, element b) {
    return static_cast<bool>(detail::invoke(less, detail::invoke(proj, std::forward<element>(a)),
                                            detail::invoke(proj, std::forward<element>(b))));
  };
}

}  // namespace muster::inline MUSTER_ABI::detail
