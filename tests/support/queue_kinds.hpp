// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue_kinds.hpp: the queues under test, for typed tests: each shape with each waiting policy, and with each layout.
#pragma once

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include "scale.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace muster_test {

template <template <class, class, class> class Queue, class Layout, class Wait, std::size_t Producers,
          std::size_t Consumers>
struct queue_kind {
  template <class T>
  using of = Queue<T, Layout, Wait>;
  static constexpr std::size_t producers = Producers;  // the most that may push at once
  static constexpr std::size_t consumers = Consumers;
  static constexpr bool full_may_be_early = Producers > 1;  // see docs/contracts/queue.md
};

inline constexpr std::size_t many = 64;

/// Lanes with one producer: a queue like the others, with one order of all items.
template <class T, class Layout, class Wait>
class one_lane : public muster::lanes<T, Layout, Wait>, public muster::lanes<T, Layout, Wait>::producer_handle {
  using all = muster::lanes<T, Layout, Wait>;

 public:
  using typename all::value_type;
  explicit one_lane(std::size_t capacity, const muster::queue_options& o = {})
      : all(capacity, {.producers = 1, .threads = o.threads, .cells = o.cells, .first_rank = o.first_rank}),
        all::producer_handle(all::producer()) {}
};

template <class Wait, class Layout = muster::layout::packed>
using spsc = queue_kind<muster::spsc_queue, Layout, Wait, 1, 1>;
template <class Wait, class Layout = muster::layout::packed>
using spmc = queue_kind<muster::spmc_queue, Layout, Wait, 1, many>;
template <class Wait, class Layout = muster::layout::packed>
using mpmc = queue_kind<muster::mpmc_queue, Layout, Wait, many, many>;

using muster::wait::park;
using muster::wait::spin;
using muster::wait::spin_then_park;

template <class Wait, class Layout = muster::layout::packed>
struct lane : queue_kind<one_lane, Layout, Wait, 1, many> {
  static constexpr const char* shape = "lane";
};

using all_kinds = kinds_to_test<
    ::testing::Types<spsc<spin_then_park>, spmc<spin_then_park>, mpmc<spin_then_park>, lane<spin_then_park>,
                     spsc<park, muster::layout::aligned>, spmc<park>, spmc<park, muster::layout::rotated>,
                     mpmc<park, muster::layout::aligned>, spsc<spin>, spmc<spin, muster::layout::aligned_rotated>,
                     mpmc<spin, muster::layout::rotated>, lane<park, muster::layout::rotated>, lane<spin>>,
    ::testing::Types<spsc<spin_then_park>, spmc<spin_then_park>, mpmc<spin_then_park>, lane<spin_then_park>>>;

/// Each shape, layout and policy at least once, for tests that do not depend on their combination.
#if defined(MUSTER_TEST_MATRIX)
using varied_kinds = all_kinds;
#else
using varied_kinds =
    kinds_to_test<::testing::Types<spsc<spin_then_park, muster::layout::aligned>, spmc<park, muster::layout::rotated>,
                                   mpmc<spin, muster::layout::aligned_rotated>, mpmc<park>, lane<spin_then_park>>,
                  all_kinds>;
#endif

struct kind_names {
  template <class Kind>
  static std::string GetName(int which) {
    if constexpr (requires { Kind::shape; }) return Kind::shape + ('_' + std::to_string(which));
    const std::string shape = Kind::producers > 1 ? "mpmc" : Kind::consumers > 1 ? "spmc" : "spsc";
    return shape + "_" + std::to_string(which);
  }
};

/// Near every place where a rank, or a word made of it, wraps.
inline constexpr std::uint64_t start_ranks[] = {
    0,
    (1ULL << 31) - 3,
    (1ULL << 32) - 3,
    (1ULL << 62) - 3,
    (1ULL << 63) - 3,
    std::numeric_limits<std::uint64_t>::max() - 2,
};

}  // namespace muster_test
