// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The programs of docs/guide/simt.md: a kernel with an error, the schedule that shows it, and counts.
#include <muster/gpu/simt.cuh>

#include "muster_simt/launch.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using namespace muster::gpu;
constexpr auto relaxed = std::memory_order_relaxed;

int failures = 0;
void expect(bool right, const char* otherwise) {
  if (right) return;
  std::printf("simt: %s\n", otherwise);
  ++failures;
}

// [wrong]
/// Thread n puts n + 1 at the front of a list.
MUSTER_KERNEL void push_wrong(atomic<std::uint32_t>* head, std::uint32_t* next) {
  const unsigned me = block_index().x * block_size().x + thread_index().x;
  next[me] = head->load(std::memory_order_relaxed);
  head->store(me + 1, std::memory_order_relaxed);  // another lane may have changed the head in between
}
// [/wrong]

// [right]
MUSTER_KERNEL void push(atomic<std::uint32_t>* head, std::uint32_t* next) {
  const unsigned me = block_index().x * block_size().x + thread_index().x;
  std::uint32_t old = head->load(std::memory_order_relaxed);
  do next[me] = old;
  while (!head->compare_exchange_strong(old, me + 1, std::memory_order_release, std::memory_order_relaxed));
}
// [/right]

using list_kernel = void (*)(atomic<std::uint32_t>*, std::uint32_t*);

// [list]
/// The list that the kernel makes, from the front; each of 64 threads should be in it once.
std::vector<std::uint32_t> list_of(list_kernel kernel) {
  muster_simt::device_array<atomic<std::uint32_t>> head(1);
  muster_simt::device_array<std::uint32_t> next(64);
  muster_simt::launch({2}, {32}, kernel, head.get(), next.get());
  std::vector<std::uint32_t> list;
  for (std::uint32_t n = head[0].load(relaxed); n != 0; n = next[n - 1]) list.push_back(n);
  return list;
}
// [/list]

// [search]
/// The first seed with which a thread is missing; 0 if there is none.
std::uint64_t seed_that_fails(list_kernel kernel) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    muster_simt::current() = {.seed = seed};
    if (list_of(kernel).size() != 64) return seed;
  }
  return 0;
}
// [/search]

void find_and_replay() {
  expect(seed_that_fails(push) == 0, "a thread is missing from the list");
  // [replay]
  const std::uint64_t seed = seed_that_fails(push_wrong);
  muster_simt::current() = {.seed = seed};
  const std::vector<std::uint32_t> once = list_of(push_wrong);
  const std::vector<std::uint32_t> again = list_of(push_wrong);  // the same list
  // [/replay]
  expect(seed != 0, "no schedule shows the error");
  expect(once.size() != 64 && once == again, "a seed does not repeat its schedule");
}

// [hang]
/// Lane 0 waits for the others to vote, and they wait for it at the end.
MUSTER_KERNEL void wait_for_votes() {
  if (lane_id() == 0) ballot(0x7, true);
  sync_block();
}
// [/hang]

void name_a_hang() {
  std::string what;
  // [message]
  try {
    muster_simt::current() = {.seed = 7};
    muster_simt::launch({1}, {3}, wait_for_votes);
  } catch (const muster_simt::error& e) {
    what = e.what();
  }
  // [/message]
  expect(what.find("waits in ballot for") != std::string::npos, "the hang is not named");
  std::printf("%s\n", what.c_str());
}

// [contention]
/// A counter that each lane changes; and one that a lane changes for all that come together.
MUSTER_KERNEL void count_each(atomic<std::uint32_t>* all) { all->fetch_add(1, std::memory_order_relaxed); }
MUSTER_KERNEL void count_together(atomic<std::uint32_t>* all) {
  const lane_mask together = active_mask();
  if (is_first_of(together)) all->fetch_add(many_of(together), std::memory_order_relaxed);
}
// [/contention]

void compare_contention() {
  muster_simt::device_array<atomic<std::uint32_t>> sums(2);
  // [counts]
  muster_simt::current() = {.split_one_in = 0, .by_address = true};  // warps stay together
  const muster_simt::counts each = muster_simt::launch({4}, {256}, count_each, &sums[0]);
  const muster_simt::counts together = muster_simt::launch({4}, {256}, count_together, &sums[1]);
  std::printf("changes that follow each other: %llu of each lane, %llu of each warp\n",
              static_cast<unsigned long long>(each.addresses.front().changes),       // 1024
              static_cast<unsigned long long>(together.addresses.front().changes));  // 32
  // [/counts]
  expect(sums[0].load(relaxed) == 1024 && sums[1].load(relaxed) == 1024, "a count is lost");
  expect(each.addresses.front() == muster_simt::changes_at{&sums[0], 1024}, "not each lane is counted");
  expect(together.addresses.front() == muster_simt::changes_at{&sums[1], 32}, "not each warp is counted once");
  expect(each.changes == 1024 && together.changes == 32, "other changes are counted");
}

}  // namespace

int main() {
  find_and_replay();
  name_a_hang();
  compare_contention();
  return failures == 0 ? 0 : 1;
}
