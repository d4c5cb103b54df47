// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPU's FIFO under the checker, where a lane is a thread. A number stands for a free block, whose contents are
// plain data that pass from the pushing to the popping thread. All programs begin shortly before the numbers wrap.
#include <gtest/gtest.h>
#include <muster/gpu/fifo.hpp>

#include "../gpu/printed/fifo.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"
#include "queue_programs.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace muster_model_test;
using muster::queue_status;

/// A FIFO of numbers with the face of a queue of items. Waiting and closing are beyond it.
template <class Fifo>
class as_queue {
 public:
  struct options {
    std::size_t threads, cells;
    muster::rank_t first_rank;
  };
  as_queue(std::size_t, const options& o) : fifo_(static_cast<std::uint32_t>(o.first_rank)) {}

  queue_status try_push(item&& value) {
    const auto number = static_cast<std::uint32_t>(value.value());
    block(number).write_ref() = item(value.value());
    if (!fifo_.try_push(number)) return queue_status::full;
    value = item();
    return queue_status::success;
  }
  muster::queue_result<item> try_pop() {
    std::uint32_t number = 0;
    if (!fifo_.try_pop(number)) return queue_status::empty;
    return muster::queue_result<item>(std::in_place, std::exchange(block(number).write_ref(), item()));
  }
  void check() const {}

  template <class... Until>
  queue_status push(item&& value, Until...) {
    return try_push(std::move(value));
  }
  template <class... Until>
  queue_status push_for(item&& value, Until...) {
    return try_push(std::move(value));
  }
  template <class... Until>
  muster::queue_result<item> pop(Until...) {
    return try_pop();
  }
  template <class... Until>
  muster::queue_result<item> pop_for(Until...) {
    return try_pop();
  }
  queue_status emplace(refusing) { return queue_status::busy; }
  queue_status try_emplace(refusing) { return queue_status::busy; }
  std::size_t push_n(auto, std::size_t) { return 0; }
  std::size_t try_push_n(auto, std::size_t) { return 0; }
  std::size_t pop_n(auto, std::size_t) { return 0; }
  std::size_t try_pop_n(auto, std::size_t) { return 0; }
  void close() {}

 private:
  /// The values of thread t are 100 t + 1, 100 t + 2, …
  muster::sync::cell<item>& block(std::uint32_t number) { return blocks_[number / 100 * 8 + number % 100]; }

  Fifo fifo_;
  std::array<muster::sync::cell<item>, 48> blocks_;
};

struct row {
  unsigned capacity;
  const char* text;
  search_bounds within;
};

const std::vector<row> table = {
    {1, "try_push*2 | try_pop*2", {-1, -1}},
    {2, "try_push*2 | try_pop*2", {-1, -1}},
    {2, "try_push | try_pop | try_pop", {-1, -1}},
    {1, "try_push | try_push | try_pop", {-1, -1}},
    {2, "try_push*3 | try_pop*2 | try_push", {2, 1}},
    {2, "try_push*4 | try_pop*3", {2, 1}},
    {4, "try_push*3 | try_push*2 | try_pop*2", {1, 1}},
    {2, "try_push*3 | try_push | try_push | try_pop*2", {-1, -1, 20'000}},
    {2, "try_push*2 try_pop | try_pop try_push*2 | try_push try_pop", {-1, -1, 20'000}},
    {2, "try_pop | try_push | try_push try_pop*2", {-1, -1, 20'000}},
    {1, "try_push try_pop try_push | try_pop try_push try_pop | try_push try_pop", {-1, -1, 20'000}},
    {4, "try_push*6 | try_pop*4 | try_pop*3 | try_push*3", {-1, -1, 20'000}},
};

template <template <unsigned> class Fifo>
std::function<void()> make_program(const row& r) {
  queue_setup setup;
  setup.capacity = r.capacity;
  setup.first_rank = std::uint32_t{0} - 2;
  setup.full_may_be_early = true;
  if (r.capacity == 1) return queue_program<as_queue<Fifo<1>>>(setup, parse(r.text));
  if (r.capacity == 2) return queue_program<as_queue<Fifo<2>>>(setup, parse(r.text));
  return queue_program<as_queue<Fifo<4>>>(setup, parse(r.text));
}

template <unsigned Size>
struct ours : muster::gpu::fifo<Size> {
  explicit ours(std::uint32_t first) { this->start(Size, first); }
};
template <unsigned Size>
using as_printed = printed::fifo<Size, false>;
template <unsigned Size>
using tail_first = printed::fifo<Size, true>;

class fifo_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(fifo_model, has_no_execution_that_breaks_a_promise) {
  const row& r = table[GetParam()];
  expect_right(r.within, r.text, make_program<ours>(r));
}

INSTANTIATE_TEST_SUITE_P(programs, fifo_model, ::testing::Range(std::size_t{0}, table.size()));

/// The first program of the table that fails with this FIFO; empty if all pass.
template <template <unsigned> class Fifo>
std::string first_failing() {
  for (std::uint64_t executions = 1000; executions <= 100'000; executions *= 10)
    for (const row& r : table)
      if (mm::explore({.how = mm::strategy::priorities, .executions = executions, .depth = 4}, make_program<Fifo>(r))
              .failed)
        return r.text;
  return {};
}

TEST(fifo_as_printed, is_overfilled_by_one_old_look_at_the_head) { EXPECT_NE(first_failing<as_printed>(), ""); }
TEST(fifo_as_printed, delivers_twice_when_the_tail_is_read_first) { EXPECT_NE(first_failing<tail_first>(), ""); }

TEST(fifo_mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const row& r : table) search.programs.push_back({r.text, true, make_program<ours>(r), {}});
  search.survivors = {
      {"fifo::try_push: load repeated", true, "of the head, an older one: the FIFO looks fuller than it is"}};
  search.files = {"gpu/fifo"};
  search.prefix = "fifo::";
  search.run();
}

}  // namespace
