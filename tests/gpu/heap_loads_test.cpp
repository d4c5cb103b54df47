// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The loads that muster-bench measures heaps with (bench/driver/heap_cases.hpp), small, in schedules that it does not
// have: warps are torn apart, on two multiprocessors. Nothing is lost, and each load notices a heap that is wrong.
#include <gtest/gtest.h>
#include <muster/fiber/detail/switch_observers.hpp>
#include <muster/gpu/heap.cuh>

#include "driver/heap_cases.hpp"
#include "heap_check.hpp"
#include "muster_simt/launch.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace {

using namespace muster::bench;
namespace mg = muster::gpu;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

// Without times: loads that take too long on a GPU end early.
constexpr auto counted = [](unsigned threads, auto* kernel, auto... arguments) {
  heap_cost cost = counted_launch()(threads, kernel, arguments...);
  cost.seconds = 0;
  return cost;
};

class heap_loads : public ::testing::TestWithParam<heap_load> {
 protected:
  heap_loads() { muster_simt::current() = {.multiprocessors = 2, .switch_one_in = 8}; }
  ~heap_loads() override { muster_simt::current() = {}; }

  static heap_case_spec spec() {
    return {.what = GetParam(), .bytes = GetParam() == heap_load::work ? 1000U : 200U, .items = 300};
  }
};

TEST_P(heap_loads, lose_nothing_in_any_schedule) {
  for (unsigned seed = 1; seed <= 2; ++seed) {
    muster_simt::current().seed = seed;
    const mg::heap slabs(4 * mebibyte);
    EXPECT_EQ(run_heap_case(spec(), &slabs.ref().state(), 4 * mebibyte, counted).error, "");
    const mg::heap_stats now = slabs.stats();
    EXPECT_EQ(now.objects + now.freed_twice + now.freed_invalid, 0U);
    const muster_test::paged_heap<> pages(mebibyte);
    EXPECT_EQ(run_heap_case(spec(), pages.get(), mebibyte, counted).error, "");
    EXPECT_EQ(pages.wrong({}), "");
  }
}

/// Gives two lanes the same object, once.
struct doubling_heap {
  void* allocate(std::size_t bytes) {
    void* const made = counter.allocate(bytes);
    if (many.fetch_add(1, std::memory_order_relaxed) != 7) return made;
    return first == nullptr ? made : first;
  }
  void free(void*) {}

  counter_heap counter;
  void* first = nullptr;
  mg::atomic<std::uint32_t> many{0};
};

TEST_P(heap_loads, notice_an_object_of_two_lanes) {
#if defined(MUSTER_THREAD_SANITIZER)
  GTEST_SKIP() << "its races are what is wrong with it";
#endif
  muster_simt::device_array<std::max_align_t> region(2 * mebibyte / sizeof(std::max_align_t));
  doubling_heap wrong{.counter = counter_heap(region.get(), 2 * mebibyte)};
  wrong.first = region.get();
  EXPECT_NE(run_heap_case(spec(), &wrong, 2 * mebibyte, counted).error, "");
}

INSTANTIATE_TEST_SUITE_P(all, heap_loads,
                         ::testing::Values(heap_load::spread, heap_load::full, heap_load::work, heap_load::graph_build,
                                           heap_load::graph_insert, heap_load::graph_hubs));

}  // namespace
