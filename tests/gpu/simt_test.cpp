// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The emulation itself: what a kernel may rely on, and that what it may not rely on is reported.
#include <gtest/gtest.h>
#include <muster/gpu/simt.cuh>

#include "muster_simt/launch.hpp"
#include "objects.hpp"

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace {

namespace mg = muster::gpu;
using muster_simt::device_array;
using muster_simt::launch;
using muster_test::number_in_block;
using muster_test::number_in_grid;

constexpr auto relaxed = std::memory_order_relaxed;

class simt : public ::testing::Test {
 protected:
  simt() { muster_simt::current() = {}; }
  ~simt() override { muster_simt::current() = {}; }
};

MUSTER_KERNEL void count_threads(mg::atomic<std::uint32_t>* of_thread) {
  of_thread[number_in_grid()].fetch_add(1 + mg::lane_id(), relaxed);
}

TEST_F(simt, executes_each_thread_of_each_shape_once) {
  for (const mg::index3 grid : {mg::index3{1}, mg::index3{5}, mg::index3{2, 3, 2}}) {
    for (const mg::index3 block :
         {mg::index3{1}, mg::index3{31}, mg::index3{33}, mg::index3{7, 3, 5}, mg::index3{1024}}) {
      for (const unsigned multiprocessors : {1U, 3U}) {
        muster_simt::current().multiprocessors = multiprocessors;
        muster_simt::current().resident = 1;
        const std::size_t in_block = std::size_t{block.x} * block.y * block.z;
        device_array<mg::atomic<std::uint32_t>> seen(in_block * grid.x * grid.y * grid.z);
        launch(grid, block, count_threads, seen.get());
        for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i].load(relaxed), 1 + i % in_block % 32);
      }
    }
  }
}

struct answers {
  std::uint32_t ballot, match, sum, either, before;
  std::uint64_t shuffled;
};

MUSTER_KERNEL void ask_all(std::uint32_t mask, answers* out) {
  const unsigned me = mg::lane_id();
  if ((mask >> me & 1U) == 0) return;
  answers& mine = out[me];
  mine.ballot = mg::ballot(mask, me % 3 == 0);
  mine.match = mg::match_any(mask, (std::uint64_t{me} % 4) << 40U);
  mine.sum = mg::reduce_add(mask, me * me);
  mine.either = mg::reduce_or(mask, 1U << me / 2);
  mine.before = mg::exclusive_sum(mask, me + 1);
  mine.shuffled = mg::shuffle(mask, std::uint64_t{me} << 33U, mg::last_of(mask));
  mg::sync_warp(mask);
}

TEST_F(simt, collectives_give_every_lane_of_any_mask_its_result) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    muster_simt::current().seed = seed;
    std::uint32_t mask = seed == 1 ? ~0U : seed * 2654435761U;
    if (seed % 5 == 0) mask &= mask >> 7U;
    if (mask == 0) mask = 1U << seed % 32;
    std::array<answers, 32> out{};
    launch({1}, {32}, ask_all, mask, out.data());
    std::uint32_t ballot = 0, sum = 0, either = 0, before = 0;
    for (unsigned k = 0; k < 32; ++k) {
      if ((mask >> k & 1U) == 0) continue;
      ballot |= std::uint32_t{k % 3 == 0} << k;
      sum += k * k;
      either |= 1U << k / 2;
    }
    for (unsigned k = 0; k < 32; ++k) {
      if ((mask >> k & 1U) == 0) continue;
      EXPECT_EQ(out[k].ballot, ballot);
      EXPECT_EQ(out[k].match, mask & 0x11111111U << k % 4);
      EXPECT_EQ(out[k].sum, sum);
      EXPECT_EQ(out[k].either, either);
      EXPECT_EQ(out[k].before, before);
      EXPECT_EQ(out[k].shuffled, std::uint64_t{mg::last_of(mask)} << 33U);
      before += k + 1;
    }
  }
}

struct convergence {
  std::uint32_t mask, after;
};

[[gnu::noinline]] std::uint32_t converge_here() { return mg::active_mask(); }
[[gnu::noinline]] std::uint32_t converge_there() { return mg::active_mask() + mg::grid_size().z - 1; }

MUSTER_KERNEL void converge_in_two_branches(convergence* out) {
  const unsigned me = mg::lane_id();
  const std::uint32_t mask = me % 2 == 0 ? converge_here() : converge_there();
  out[me] = {mask, mg::ballot(mask, true)};
}

TEST_F(simt, lanes_converge_only_at_the_same_call_and_not_always) {
  std::set<std::uint32_t> seen;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    muster_simt::current().seed = seed;
    std::array<convergence, 32> out{};
    launch({1}, {32}, converge_in_two_branches, out.data());
    for (unsigned k = 0; k < 32; ++k) {
      ASSERT_NE(out[k].mask >> k & 1U, 0U);
      ASSERT_EQ(out[k].after, out[k].mask);
      ASSERT_EQ(out[k].mask & (k % 2 == 0 ? 0xaaaaaaaaU : 0x55555555U), 0U);
      seen.insert(out[k].mask);
    }
  }
  EXPECT_TRUE(seen.contains(0x55555555U));
  EXPECT_GT(seen.size(), 20U);
}

MUSTER_KERNEL void leave_and_sync(mg::atomic<std::uint32_t>* passed) {
  if (mg::lane_id() % 3 == 1) return;
  mg::sync_warp(~0U);
  mg::sync_block();
  passed->fetch_add(1, relaxed);
}

TEST_F(simt, lanes_that_have_ended_are_not_waited_for) {
  device_array<mg::atomic<std::uint32_t>> passed(1);
  launch({2}, {64}, leave_and_sync, passed.get());
  EXPECT_EQ(passed[0].load(relaxed), 2 * 2 * 21U);
}

MUSTER_KERNEL void add_up_in_shared_memory(std::uint32_t* out) {
  struct one_for_each {
    std::uint32_t of_thread[128];
  };
  MUSTER_GPU_SHARED(one_for_each, all);
  all.of_thread[number_in_block()] = 100 + number_in_block();
  mg::sync_block();
  if (number_in_block() != 0) return;
  std::uint32_t sum = 0;
  for (unsigned i = 0; i < mg::block_size().x; ++i) sum += all.of_thread[i];
  out[mg::block_index().x] = sum;
}

TEST_F(simt, blocks_share_memory_and_wait_for_each_other) {
  std::array<std::uint32_t, 10> out{};
  muster_simt::current().multiprocessors = 2;
  launch({10}, {100}, add_up_in_shared_memory, out.data());
  for (const std::uint32_t sum : out) EXPECT_EQ(sum, 100U * 100 + 99 * 100 / 2);
}

/// The message of the exception that launch() throws for a kernel.
template <class... Arguments>
std::string failure_of(mg::index3 block, void (*kernel)(Arguments...), Arguments... arguments) {
  try {
    launch({1}, block, kernel, arguments...);
  } catch (const muster_simt::error& e) {
    return e.what();
  }
  return {};
}

MUSTER_KERNEL void wait_for_a_lane_that_does_not_come() {
  if (mg::lane_id() == 3) {
    mg::sync_block();
  } else {
    mg::ballot(~0U, true);
  }
}
MUSTER_KERNEL void use_a_mask_without_me() { mg::ballot(1, true); }
MUSTER_KERNEL void shuffle_from_outside() {
  if (mg::lane_id() < 4) mg::shuffle(0xfU, 1U, 9);
}
MUSTER_KERNEL void shuffle_from_the_dead() {
  if (mg::lane_id() != 0) mg::shuffle(~0U, 1U, 0);
}
MUSTER_KERNEL void ask_different_things() {
  if (mg::lane_id() == 0) {
    mg::ballot(3, true);
  } else {
    mg::match_any(3, 1);
  }
}
MUSTER_KERNEL void spin(mg::atomic<std::uint32_t>* never) {
  while (never->load(relaxed) == 0) {
  }
}
MUSTER_KERNEL void throw_something() { throw std::runtime_error("no"); }

TEST_F(simt, reports_hangs_and_undefined_behaviour_of_a_device) {
  const auto says = [](const std::string& what, const std::string& part) {
    EXPECT_NE(what.find(part), std::string::npos) << "\"" << what << "\" does not say \"" << part << '"';
  };
  says(failure_of({32}, wait_for_a_lane_that_does_not_come),
       "deadlock: block (0,0,0), warp 0, lane 0 waits in ballot for");
  says(failure_of({32}, wait_for_a_lane_that_does_not_come), "and 24 more");
  says(failure_of({2}, use_a_mask_without_me), "lane 1: ballot with a mask that does not name the caller");
  says(failure_of({32}, shuffle_from_outside), "shuffle from a lane that the mask does not name");
  says(failure_of({32}, shuffle_from_the_dead), "shuffle from a lane that has ended");
  says(failure_of({2}, ask_different_things), "waits in match for the lanes 0x3");
  says(failure_of({1}, throw_something), "the kernel has thrown: no (seed 1)");
  says(failure_of({1025}, use_a_mask_without_me), "a block has 1025 x 1 x 1 threads; it must have 1 to 1024");
  says(failure_of({8, 0, 2}, use_a_mask_without_me), "a block has 8 x 0 x 2 threads");
  for (unsigned muster_simt::settings::* const one :
       {&muster_simt::settings::multiprocessors, &muster_simt::settings::resident,
        &muster_simt::settings::switch_one_in}) {
    muster_simt::current().*one = 0;
    says(failure_of({32}, throw_something), " is 0; it must be at least 1");
    muster_simt::current().*one = 1;
  }
  device_array<mg::atomic<std::uint32_t>> never(1);
  muster_simt::current().most_steps = 10'000;
  says(failure_of({32}, spin, never.get()), "no block has ended for 10000 steps");
}

MUSTER_KERNEL void wait_for_lanes_that_converge(mg::atomic<std::uint32_t>* flag) {
  if (mg::lane_id() == 0) {
    while (flag->load(relaxed) == 0) {
    }
  } else {
    mg::sync_warp(mg::active_mask());
    flag->store(1, relaxed);
  }
}

TEST_F(simt, lanes_that_converge_do_not_wait_for_one_that_waits_for_them) {
  for (const unsigned split : {0U, 4U}) {
    muster_simt::current().split_one_in = split;
    muster_simt::current().most_steps = 1'000'000;
    device_array<mg::atomic<std::uint32_t>> flag(1);
    launch({1}, {32}, wait_for_lanes_that_converge, flag.get());
    EXPECT_EQ(flag[0].load(relaxed), 1U);
  }
}

TEST_F(simt, a_thread_of_the_host_is_a_warp_of_one_lane) {
  EXPECT_EQ(mg::lane_id(), 0U);
  EXPECT_EQ(mg::active_mask(), 1U);
  EXPECT_EQ(mg::ballot(1, true), 1U);
  EXPECT_EQ(mg::match_any(1, 7), 1U);
  EXPECT_EQ(mg::shuffle(1, 9U, 0), 9U);
  EXPECT_EQ(mg::reduce_add(1, 5), 5U);
  EXPECT_EQ(mg::exclusive_sum(1, 5), 0U);
  mg::sync_warp(1);
  mg::sync_block();
  EXPECT_EQ(mg::block_size().x, 1U);
}

TEST_F(simt, the_one_order_of_a_compare_exchange_is_as_strong_as_both) {
  constexpr auto acquire = std::memory_order_acquire, release = std::memory_order_release;
  constexpr auto acq_rel = std::memory_order_acq_rel;
  for (const auto order : {relaxed, acquire, release, acq_rel}) EXPECT_EQ(mg::order_for_both(order, relaxed), order);
  EXPECT_EQ(mg::order_for_both(relaxed, acquire), acquire);
  EXPECT_EQ(mg::order_for_both(acquire, acquire), acquire);
  EXPECT_EQ(mg::order_for_both(release, acquire), acq_rel);
  EXPECT_EQ(mg::order_for_both(acq_rel, acquire), acq_rel);
}

MUSTER_KERNEL void note_the_order(mg::atomic<std::uint32_t>* next, std::uint32_t* order) {
  for (unsigned i = 0; i < 4; ++i) order[next->fetch_add(1, relaxed)] = number_in_grid();
}

TEST_F(simt, a_seed_decides_everything) {
  std::set<std::vector<std::uint32_t>> orders;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    for (unsigned time = 0; time < 2; ++time) {
      muster_simt::current().seed = seed;
      device_array<mg::atomic<std::uint32_t>> next(1);
      device_array<std::uint32_t> order(std::size_t{4} * 3 * 40);
      launch({3}, {40}, note_the_order, next.get(), order.get());
      orders.insert({order.begin(), order.end()});
    }
  }
  EXPECT_EQ(orders.size(), 10U);
}

TEST_F(simt, counts_what_lanes_do) {
  device_array<mg::atomic<std::uint32_t>> next(1);
  device_array<std::uint32_t> order(std::size_t{4} * 3 * 40);
  const muster_simt::counts all = launch({3}, {40}, note_the_order, next.get(), order.get());
  EXPECT_EQ(all.changes, 480U);
  EXPECT_EQ(all.loads + all.stores + all.collectives, 0U);
}

MUSTER_KERNEL void change_some(mg::atomic<std::uint32_t>* of_warp, mg::atomic<std::uint32_t>* of_all) {
  const unsigned warp = number_in_grid() / 32;
  of_warp[warp].fetch_add(1, relaxed);
  if (of_warp[warp].load(relaxed) != 0 && mg::lane_id() % 4 == 0) of_all->fetch_add(1, relaxed);
  if (mg::lane_id() == 0) of_all->store(of_all->load(relaxed), relaxed);
}

TEST_F(simt, counts_changes_by_address) {
  muster_simt::current().by_address = true;
  for (const unsigned multiprocessors : {1U, 3U}) {
    muster_simt::current().multiprocessors = multiprocessors;
    device_array<mg::atomic<std::uint32_t>> of_warp(6);
    device_array<mg::atomic<std::uint32_t>> of_all(1);
    muster_simt::counts counted = launch({3}, {64}, change_some, of_warp.get(), of_all.get());
    ASSERT_EQ(counted.addresses.size(), 7U);
    EXPECT_EQ(counted.addresses[0], (muster_simt::changes_at{of_all.get(), 48}));
    for (unsigned w = 0; w < 6; ++w) EXPECT_EQ(counted.addresses[1 + w], (muster_simt::changes_at{&of_warp[w], 32}));
    counted += launch({1}, {32}, change_some, of_warp.get(), of_all.get());
    EXPECT_EQ(counted.addresses[0], (muster_simt::changes_at{&of_warp[0], 64}));
    EXPECT_EQ(counted.addresses[1], (muster_simt::changes_at{of_all.get(), 56}));
  }
  muster_simt::current().by_address = false;
  device_array<mg::atomic<std::uint32_t>> of_warp(1), of_all(1);
  EXPECT_TRUE(launch({1}, {32}, change_some, of_warp.get(), of_all.get()).addresses.empty());
}

}  // namespace
