// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// scan.hpp: prefix sums of a sequence: parallel_scan, parallel_exclusive_scan.
//
// Splitting  between pieces. While no thief requests work it is the serial scan. For p workers, the remaining elements
//            are cut into p + 1 sections: the first is scanned while the next p - 1 are summed, and then the last p are
//            scanned. So two workers need two thirds of the serial time, and every element is added at most twice.
// Order      the operation must be associative; it need not be commutative.
// In place   the output may be the input.
// Cost       n additions for n elements while no thief requests work; after that at most 2 n + p for p workers, in the
//            time of about 2 n / (p + 1), and an allocation for p + 2 sums.
// Exceptions the leftmost, as in fork2. The output is then unspecified.
// Source     Ladner and Fischer (JACM 1980); the first section as in Intel's parallel_scan.
#pragma once

#include <muster/fork/loops.hpp>  // loop_part

#include <algorithm>   // std::min
#include <cstddef>     // std::size_t
#include <functional>  // std::plus
#include <iterator>    // std::random_access_iterator
#include <optional>    // a sum of nothing
#include <ranges>      // ranges
#include <utility>     // std::move
#include <vector>      // the sections' sums

namespace muster::inline MUSTER_ABI {
namespace detail {

/// Calls f(worker, i) for each i in [first, last), each in a fork of its own.
template <class F>
void fork_each(worker& self, std::size_t first, std::size_t last, const F& f) {
  if (last - first <= 1) {
    if (first != last) f(self, first);
    return;
  }
  const std::size_t middle = first + (last - first) / 2;
  auto left = [&] { fork_each(self, first, middle, f); };
  auto right = [&] { fork_each(*worker::current(), middle, last, f); };
  fork_on(self, left, right);
}

template <class T, bool Inclusive, class In, class Out, class Op>
class scan {
 public:
  scan(In in, Out out, Op& op) : in_(in), out_(out), op_(op) {}

  /// Scans elements [first, last). `sum` is the sum of all elements before first; on return, of all before last.
  void run(worker& self, std::size_t first, const std::size_t last, loop_pace pace, std::optional<T>& sum) {
    while (first != last) {
      const std::size_t sections = std::min<std::size_t>(self.pool_size() + 1, (last - first) / pace.turns());
      if (self.work_requested() && sections >= 3) return in_sections(self, first, last, sections, pace, sum);
      const std::size_t end = first + std::min(pace.turns(), last - first);
      const std::uint32_t begin = pace.begin();
      scan_piece(first, end, sum);
      first = end;
      pace.after_turns(loop_pace::end(begin));
    }
  }

 private:
  /// Serially.
  void scan_piece(std::size_t first, std::size_t last, std::optional<T>& sum) {
    In in = detail::turns_after(in_, first);
    const In end = detail::turns_after(in_, last);
    Out out = detail::turns_after(out_, first);
    if (!sum.has_value()) {
      if (!Inclusive || in == end) return;
      sum.emplace(*in++);
      *out++ = *sum;
    }
    T all = std::move(*sum);
    for (; in != end; ++in, static_cast<void>(++out)) {
      if constexpr (Inclusive) {
        all = detail::invoke(op_, std::move(all), *in);
        *out = all;
      } else {
        T next = detail::invoke(op_, all, *in);
        *out = std::move(all);
        all = std::move(next);
      }
    }
    sum = std::move(all);
  }

  void in_sections(worker& self, std::size_t first, std::size_t last, std::size_t many, loop_pace pace,
                   std::optional<T>& sum) {
    const auto begin = [=](std::size_t section) { return first + (last - first) / many * section; };
    const auto end = [=](std::size_t section) { return section + 1 == many ? last : begin(section + 1); };
    std::vector<std::optional<T>> sums(many + 1);  // [i]: finally, the sum of all elements before section i
    auto scan_first = [&] { scan_piece(begin(0), end(0), sum); };
    using body_of_sums = reduce_body<T, Op&, std::identity>;
    body_of_sums body{{}, op_, {}};
    auto sum_others = [&] {
      fork_each(*worker::current(), 1, many - 1, [&](worker& here, std::size_t section) {
        loop_part<In, body_of_sums>(here, detail::turns_after(in_, begin(section)),
                                    detail::turns_after(in_, end(section)), sums[section + 1], body, pace)
            .run();
      });
    };
    fork_on(self, scan_first, sum_others);
    sums[1] = sum;
    for (std::size_t i = 2; i < many; ++i) {
      const std::optional<T>& before = sums[i - 1];
      std::optional<T>& here = sums[i];
      if (before.has_value() && here.has_value()) here = detail::invoke(op_, T(*before), std::move(*here));
    }
    fork_each(self, 1, many,
              [&](worker&, std::size_t section) { scan_piece(begin(section), end(section), sums[section]); });
    sum = std::move(sums[many - 1]);
  }

  In in_;
  Out out_;
  Op& op_;
};

template <class T, bool Inclusive, class In, class Out, class Op>
Out scan_all(In first, In last, Out out, std::optional<T> sum, Op& op) {
  if constexpr (can_be_divided<In>() && can_be_written<Out>()) {
    constexpr bool fits = adds_up<Op, T, std::identity, In> && std::constructible_from<T, std::iter_reference_t<In>>;
    static_assert(
        fits,
        "parallel_scan: a function of the sum and an element must return the new sum, and the sum must have the "
        "type of the initial value, or of the elements");
    const std::size_t many = detail::turns_between(first, last);
    if constexpr (fits)
      on_some_worker(
          [&](worker& self) { scan<T, Inclusive, In, Out, Op>(first, out, op).run(self, 0, many, loop_pace(0), sum); });
    return detail::turns_after(out, many);
  }
}

}  // namespace detail

/// Writes out[i] = first[0] + ... + first[i], where + is op. Returns the end of the output.
template <std::input_or_output_iterator In, std::input_or_output_iterator Out, class Op = std::plus<>>
Out parallel_scan(In first, In last, Out out, Op op = {}) {
  return detail::scan_all<std::iter_value_t<In>, true>(first, last, out, {}, op);
}
/// The same, with init added before the first element.
template <std::input_or_output_iterator In, std::input_or_output_iterator Out, class Op, class T>
Out parallel_scan(In first, In last, Out out, Op op, T init) {
  return detail::scan_all<T, true>(first, last, out, std::optional<T>(std::move(init)), op);
}
/// Writes out[i] = init + first[0] + ... + first[i - 1].
template <std::input_or_output_iterator In, std::input_or_output_iterator Out, class T, class Op = std::plus<>>
Out parallel_exclusive_scan(In first, In last, Out out, T init, Op op = {}) {
  return detail::scan_all<T, false>(first, last, out, std::optional<T>(std::move(init)), op);
}

/// The same of ranges.
template <std::ranges::range Range, std::input_or_output_iterator Out, class Op = std::plus<>>
Out parallel_scan(Range&& range, Out out, Op op = {}) {
  return muster::parallel_scan(std::ranges::begin(range), detail::end_of(range), std::move(out), std::move(op));
}
template <std::ranges::range Range, std::input_or_output_iterator Out, class Op, class T>
Out parallel_scan(Range&& range, Out out, Op op, T init) {
  return muster::parallel_scan(std::ranges::begin(range), detail::end_of(range), std::move(out), std::move(op),
                               std::move(init));
}
/// As above, on a range.
template <std::ranges::range Range, std::input_or_output_iterator Out, class T, class Op = std::plus<>>
Out parallel_exclusive_scan(Range&& range, Out out, T init, Op op = {}) {
  return muster::parallel_exclusive_scan(std::ranges::begin(range), detail::end_of(range), std::move(out),
                                         std::move(init), std::move(op));
}

}  // namespace muster::inline MUSTER_ABI
