// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sort.hpp: parallel_sort.
//
// Order      as std::sort: not stable.
// Cost       O(n log n) comparisons in total, for every input; about n if it is sorted or reversed already, and few
//            more if it is almost sorted, or has few different elements. In place. Elements are swapped and moved, not
//            copied.
// Parallel   the two sides of each partition are forked. While a thief requests work, several workers partition large
//            ranges together: each partitions a piece, and then misplaced elements are swapped.
// Exceptions those of the comparison, the leftmost as in fork2. The range then holds all elements in an unspecified
//            order; unlike with std::sort, none is lost, if moving does not throw.
// Source     quicksort: Hoare (1962); heapsort after bad pivots: Musser (1997). Blocks: Edelkamp and Weiss,
//            "BlockQuicksort" (ESA 2016). Inputs with a pattern: Peters, "Pattern-defeating Quicksort" (2021).
//            Partition by pieces: as Francis and Pannan, "A parallel partition for enhanced parallel QuickSort"
//            (Parallel Computing 1992), but all misplaced stretches are swapped at once.
#pragma once

#include <muster/base/sync.hpp>             // sync::atomic
#include <muster/fork/detail/elements.hpp>  // order_of
#include <muster/fork/scan.hpp>             // fork_each

#include <algorithm>    // std::min
#include <array>        // blocks
#include <bit>          // std::bit_width
#include <cstddef>      // std::size_t
#include <functional>   // std::identity, std::less
#include <iterator>     // std::random_access_iterator
#include <limits>       // std::numeric_limits
#include <ranges>       // ranges
#include <type_traits>  // std::is_reference_v
#include <utility>      // std::forward
#include <vector>       // pieces

namespace muster::inline MUSTER_ABI {
namespace detail {

/// Stable. Unlike the standard library's, it loses no element if a comparison throws. Stops, and returns false, when it
/// has moved elements by more than `most` places together.
template <class Iterator, class Before>
bool insertion_sort_within(Iterator first, Iterator last, const Before& before, std::iter_difference_t<Iterator> most) {
  struct hole {
    std::iter_value_t<Iterator> value;
    Iterator at;
    bool filled = false;
    void fill() {
      filled = true;
      *at = std::move(value);
    }
    ~hole() {
      if (!filled) try {
          *at = std::move(value);
        } catch (...) {
          filled = true;  // the first exception is already propagating
        }
    }
  };
  for (Iterator next = first; next != last; ++next) {
    if (next == first || !before(*next, *(next - 1))) continue;
    hole here{std::move(*next), next};
    do {
      *here.at = std::move(*(here.at - 1));
      --here.at;
    } while (here.at != first && before(here.value, *(here.at - 1)));
    here.fill();
    most -= next - here.at;
    if (most < 0) return false;
  }
  return true;
}
template <class Iterator, class Before>
void insertion_sort(Iterator first, Iterator last, const Before& before) {
  detail::insertion_sort_within(first, last, before, std::numeric_limits<std::iter_difference_t<Iterator>>::max());
}

template <class Iterator, class Less>
class quicksort {
 public:
  static_assert(std::is_reference_v<std::iter_reference_t<Iterator>>,
                "parallel_sort needs elements with an address of their own, which those of std::vector<bool> have not");

  explicit quicksort(Less& less) : less_(less) {}

  void sort(worker& self, Iterator first, Iterator last) {
    const difference many = last - first;
    if (many > leaf && is_one_run(self, first, last)) return;
    run(self,
        {first, last, 2 * static_cast<unsigned>(std::bit_width(detail::turns_between(first, last))), true, false});
  }

 private:
  using difference = std::iter_difference_t<Iterator>;
  static constexpr difference leaf = 24, worth_forking = 2048, worth_sharing = difference{1} << 17U;

  struct part {
    Iterator first, last;
    unsigned bad;   // the number of further partitions that may be uneven
    bool leftmost;  // otherwise the element before it is sorted already, and not greater than any in the part
    bool perhaps_sorted;
  };

  void run(worker& self, part all) {
    Iterator first = all.first;
    const Iterator last = all.last;
    const auto here = [this](auto& a, auto& b) { return this->before(a, b); };
    if (all.perhaps_sorted && detail::insertion_sort_within(first, last, here, 8)) return;
    unsigned bad = all.bad;
    bool leftmost = all.leftmost;
    for (difference many = last - first; many > leaf; many = last - first) {
      if (bad == 0) return heapsort(first, last);
      move_pivot_to_front(first, last);
      if (!leftmost && !before(*(first - 1), *first)) {
        // The pivot is equal to the element before the part, so there may be many like it. They are the least.
        const Iterator end = without_equals(first, last);
        if (end - first < many / 8) --bad;
        first = end;
        continue;
      }
      bool in_order = false;
      Iterator middle = self.work_requested() && many >= worth_sharing
                            ? partition_together(self, first + 1, last, first)
                            : partition(first + 1, last, first, in_order);
      if (--middle != first) std::iter_swap(first, middle);
      const difference left_many = middle - first, right_many = last - middle - 1;
      if (std::min(left_many, right_many) < many / 8) {
        --bad;
        mix(first, left_many);
        mix(middle + 1, right_many);
      }
      const part left{first, middle, bad, leftmost, in_order}, right{middle + 1, last, bad, false, in_order};
      if (many > worth_forking) {
        fork_on(self, [&] { run(self, left); }, [&] { run(*worker::current(), right); });
        return;
      }
      run(self, left);
      if (in_order) return run(self, right);
      first = middle + 1;
      leftmost = false;
    }
    detail::insertion_sort(first, last, here);
  }

  /// True if the range is sorted, or was in the inverse order: then it is reversed.
  bool is_one_run(worker& self, Iterator first, Iterator last) {
    const bool descends = before(first[1], first[0]);
    const auto is_right = [&](Iterator at) { return before(at[0], at[-1]) == descends; };
    if (!is_right(first + 2) || !is_right(first + 3)) return false;
    sync::atomic<bool> right{true};
    constexpr difference size = 1 << 14;
    const auto pieces = static_cast<std::size_t>((last - first - 1) / size + 1);
    fork_each(self, 0, pieces, [&](worker&, std::size_t i) {
      const Iterator begin = first + 1 + static_cast<difference>(i) * size;
      const Iterator end = begin + std::min(size, last - begin);
      for (Iterator at = begin; at != end && right.load(std::memory_order_relaxed);) {
        const Iterator pause = at + std::min<difference>(64, end - at);
        bool wrong = false;  // without a branch for each element
        if (descends) {
          for (; at != pause; ++at) wrong |= !before(at[0], at[-1]);
        } else {
          for (; at != pause; ++at) wrong |= before(at[0], at[-1]);
        }
        if (wrong) right.store(false, std::memory_order_relaxed);
      }
    });
    if (!right.load(std::memory_order_relaxed)) return false;
    if (descends) {
      const difference half = (last - first) / 2;
      fork_each(self, 0, static_cast<std::size_t>((half - 1) / size + 1), [&](worker&, std::size_t i) {
        const difference begin = static_cast<difference>(i) * size, end = std::min(begin + size, half);
        for (difference at = begin; at != end; ++at) std::iter_swap(first + at, last - 1 - at);
      });
    }
    return true;
  }

  /// Destroys a pattern that may have led to a bad pivot.
  void mix(Iterator first, difference many) {
    if (many < 8 * leaf) return;
    const difference quarter = many / 4;
    for (difference i = 0; i < 3; ++i) {
      std::iter_swap(first + i, first + quarter + i);
      std::iter_swap(first + (many - 1 - i), first + (many - quarter - i));
    }
  }

  /// Moves the elements that are not greater than the first one to the front. Returns their end.
  Iterator without_equals(Iterator first, Iterator last) {
    const Iterator pivot = first++;
    for (;;) {
      while (first != last && !before(*pivot, *first)) ++first;
      while (first != last && before(*pivot, *(last - 1))) --last;
      if (last - first <= 1) return first;
      std::iter_swap(first, --last);
      ++first;
    }
  }

  template <class A, class B>
  MUSTER_HOT bool before(A&& a, B&& b) {
    return static_cast<bool>(detail::invoke(less_, std::forward<A>(a), std::forward<B>(b)));
  }

  /// Unlike the standard library's, it loses no element if a comparison throws.
  void heapsort(Iterator first, Iterator last) {
    const auto sift = [&](difference at, difference many) {
      for (difference child = 2 * at + 1; child < many; at = child, child = 2 * at + 1) {
        if (child + 1 < many && before(first[child], first[child + 1])) ++child;
        if (!before(first[at], first[child])) return;
        std::iter_swap(first + at, first + child);
      }
    };
    const difference many = last - first;
    for (difference at = many / 2; at-- > 0;) sift(at, many);
    for (difference left = many - 1; left > 0; --left) {
      std::iter_swap(first, first + left);
      sift(0, left);
    }
  }

  Iterator median(Iterator a, Iterator b, Iterator c) {
    if (before(*a, *b)) return before(*b, *c) ? b : before(*a, *c) ? c : a;
    return before(*a, *c) ? a : before(*b, *c) ? c : b;
  }
  void move_pivot_to_front(Iterator first, Iterator last) {
    const auto to_front = [first](Iterator pivot) {
      if (pivot != first) std::iter_swap(first, pivot);
    };
    if (last - first < 128) return to_front(median(first, first + (last - first) / 2, last - 1));
    const difference step = (last - first) / 9;
    const auto three = [&](difference at) {
      return median(first + at * step, first + (at + 1) * step, first + (at + 2) * step);
    };
    to_front(median(three(0), three(3), three(6)));
  }

  /// Moves elements not greater than the pivot to the front and returns their end. Equal ones may be on both sides.
  /// `in_order`: becomes true if no element had to be moved.
  Iterator partition(Iterator first, Iterator last, Iterator pivot, bool& in_order) {
    while (first != last && before(*first, *pivot)) ++first;
    while (first != last && before(*pivot, *(last - 1))) --last;
    in_order = first == last;
    partition_blocks(first, last, pivot);
    for (;;) {
      while (first != last && before(*first, *pivot)) ++first;
      while (first != last && before(*pivot, *(last - 1))) --last;
      if (last - first <= 1) return last;
      std::iter_swap(first, --last);
      ++first;
    }
  }
  /// Moves first and last inwards past elements on the correct side. Records the misplaced ones without branches that
  /// depend on elements, and then swaps them.
  void partition_blocks(Iterator& first, Iterator& last, Iterator pivot) {
    constexpr difference block = 128;
    std::array<unsigned char, block> large, lesser;
    difference larges = 0, lessers = 0, larges_swapped = 0, lesser_swapped = 0;
    while (last - first >= 2 * block) {
      if (larges == larges_swapped) {
        larges = larges_swapped = 0;
        for (difference i = 0; i < block; ++i) {
          large[static_cast<std::size_t>(larges)] = static_cast<unsigned char>(i);
          larges += !before(first[i], *pivot);
        }
      }
      if (lessers == lesser_swapped) {
        lessers = lesser_swapped = 0;
        for (difference i = 0; i < block; ++i) {
          lesser[static_cast<std::size_t>(lessers)] = static_cast<unsigned char>(i);
          lessers += !before(*pivot, *(last - 1 - i));
        }
      }
      for (difference many = std::min(larges - larges_swapped, lessers - lesser_swapped); many > 0; --many)
        std::iter_swap(first + large[static_cast<std::size_t>(larges_swapped++)],
                       last - 1 - lesser[static_cast<std::size_t>(lesser_swapped++)]);
      if (larges == larges_swapped) first += block;
      if (lessers == lesser_swapped) last -= block;
    }
  }

  Iterator partition_together(worker& self, Iterator first, Iterator last, Iterator pivot) {
    const difference pieces = 2 * std::min<difference>(self.pool_size(), 64);
    const difference size = (last - first) / pieces;
    const auto begin = [=](difference piece) { return piece == pieces ? last : first + piece * size; };
    std::vector<Iterator> middles(static_cast<std::size_t>(pieces));
    fork_each(self, 0, middles.size(), [&](worker&, std::size_t i) {
      const auto piece = static_cast<difference>(i);
      bool in_order = false;
      middles[i] = partition(begin(piece), begin(piece + 1), pivot, in_order);
    });
    Iterator middle = first;
    for (difference p = 0; p < pieces; ++p) middle += middles[static_cast<std::size_t>(p)] - begin(p);

    // Stretches on the wrong sides; they are swapped in pairs.
    struct stretch {
      Iterator from, to;
    };
    std::vector<stretch> large, lesser;  // large ones to the left of the middle, small ones to the right
    for (difference p = 0; p < pieces; ++p) {
      const Iterator from = begin(p), cut = middles[static_cast<std::size_t>(p)], to = begin(p + 1);
      if (cut < middle) large.push_back({cut, std::min(to, middle)});
      if (cut > middle) lesser.push_back({std::max(from, middle), cut});
    }
    struct exchange {
      Iterator a, b;
      difference many;
    };
    std::vector<exchange> all;
    for (std::size_t l = 0, s = 0; l < large.size() && s < lesser.size();) {
      const difference many =
          std::min({large[l].to - large[l].from, lesser[s].to - lesser[s].from, std::max<difference>(size / 2, 1)});
      if (many != 0) all.push_back({large[l].from, lesser[s].from, many});
      large[l].from += many;
      lesser[s].from += many;
      if (large[l].from == large[l].to) ++l;
      if (lesser[s].from == lesser[s].to) ++s;
    }
    fork_each(self, 0, all.size(),
              [&](worker&, std::size_t i) { std::swap_ranges(all[i].a, all[i].a + all[i].many, all[i].b); });
    return middle;
  }

  Less& less_;
};

}  // namespace detail

/// Sorts [first, last) by less(proj(a), proj(b)).
template <std::input_or_output_iterator Iterator, class Less = std::less<>, class Proj = std::identity>
void parallel_sort(Iterator first, Iterator last, Less less = {}, Proj proj = {}) {
  constexpr bool divides = detail::can_be_divided<Iterator>();
  constexpr bool compares = detail::relates_elements<Less, Proj, Iterator>;
  static_assert(compares,
                "parallel_sort needs elements that can be compared by <, or, as its last argument, a function of two "
                "elements that says whether the first comes before the second; if there is a projection, of two "
                "projected elements");
  if constexpr (divides && compares && detail::can_be_moved<Iterator>()) {
    const auto sort_by = [&]<class Order>(Order& order) {
      detail::on_some_worker(
          [&](detail::worker& self) { detail::quicksort<Iterator, Order>(order).sort(self, first, last); });
    };
    if constexpr (std::is_same_v<Proj, std::identity>) {
      sort_by(less);
    } else {
      auto order = detail::order_of<Iterator>(less, proj);
      sort_by(order);
    }
  }
}
/// Sorts a range.
template <std::ranges::range Range, class Less = std::less<>, class Proj = std::identity>
void parallel_sort(Range&& range, Less less = {}, Proj proj = {}) {
  muster::parallel_sort(std::ranges::begin(range), detail::end_of(range), std::move(less), std::move(proj));
}

}  // namespace muster::inline MUSTER_ABI
