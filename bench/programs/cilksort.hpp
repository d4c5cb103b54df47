// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// cilksort.hpp: merge sort of numbers: sorts the quarters in parallel, then merges them; each merge is divided too.
#pragma once

#include "programs/program.hpp"

#include <algorithm>

namespace muster::bench {

struct cilksort_leaf {
  using number = std::uint32_t;
  static constexpr std::ptrdiff_t most = 2048;  // numbers that one leaf sorts or merges
  [[gnu::noinline]] static void sort(number* first, number* last) { std::sort(first, last); }
  [[gnu::noinline]] static void merge(const number* a, const number* a_end, const number* b, const number* b_end,
                                      number* out) {
    std::merge(a, a_end, b, b_end, out);
  }
};

template <class S>
class cilksort {
 public:
  static constexpr program_sizes size{40000, 250000, 10000000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit cilksort(std::uint64_t n) : numbers_(n), other_(n) {
    scrambler any(n);
    for (number& value : numbers_) sum_ += value = static_cast<number>(any.next() >> 32U);
  }

  void run(S) { sort(numbers_.data(), numbers_.data() + numbers_.size(), other_.data()); }

  std::uint64_t digest() const { return digest_of(numbers_); }
  std::string error() const {
    if (!std::is_sorted(numbers_.begin(), numbers_.end())) return "the numbers are not sorted";
    std::uint64_t sum = 0;
    for (const number value : numbers_) sum += value;
    return sum == sum_ ? "" : "the sorted numbers differ from the input";
  }
  std::uint64_t items() const { return numbers_.size(); }

 private:
  using number = cilksort_leaf::number;

  /// Sorts [first, last); `other` is a buffer of the same size.
  static void sort(number* first, number* last, number* other) {
    const std::ptrdiff_t many = last - first;
    if (many <= cilksort_leaf::most) {
      S::leaf();
      return cilksort_leaf::sort(first, last);
    }
    const std::ptrdiff_t quarter = many / 4;
    number* const half = first + 2 * quarter;
    S::fork2(
        [&] {
          S::fork2([&] { sort(first, first + quarter, other); }, [&] { sort(first + quarter, half, other + quarter); });
          merge(first, first + quarter, first + quarter, half, other);
        },
        [&] {
          number* const room = other + 2 * quarter;
          S::fork2([&] { sort(half, half + quarter, room); }, [&] { sort(half + quarter, last, room + quarter); });
          merge(half, half + quarter, half + quarter, last, room);
        });
    merge(other, other + 2 * quarter, other + 2 * quarter, other + many, first);
  }

  /// Merges two sorted ranges; the middle of the longer one splits both.
  static void merge(const number* a, const number* a_end, const number* b, const number* b_end, number* out) {
    if (a_end - a < b_end - b) return merge(b, b_end, a, a_end, out);
    if (a_end - a <= cilksort_leaf::most) {
      S::leaf();
      return cilksort_leaf::merge(a, a_end, b, b_end, out);
    }
    const number* const middle = a + (a_end - a) / 2;
    const number* const there = std::lower_bound(b, b_end, *middle);
    S::fork2([&] { merge(a, middle, b, there, out); },
             [&] { merge(middle, a_end, there, b_end, out + (middle - a) + (there - b)); });
  }

  std::vector<number> numbers_, other_;
  std::uint64_t sum_ = 0;
};

}  // namespace muster::bench
