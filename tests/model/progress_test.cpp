// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows on progress of docs/contracts/queue.md. One thread of a small program stops forever, before each of its
// steps in turn, in every order of steps within the bounds: do the others finish? And for a wait-free operation: how
// many steps of its own does it take at most, whatever the others do?
#include <gtest/gtest.h>

#include "queue_table.hpp"
#include "shared_queue_table.hpp"
#include "shared_region.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

struct stop {
  const char* queue;  // "shared SHAPE": between processes
  std::size_t capacity;
  const char* text;  // the first thread is the one that stops
  bool others_finish;
  const char* says;
};

const std::vector<stop> stops = {
    {"spsc", 1, "push*2 | try_pop*3", true, "a stopped producer: try_pop does not wait"},
    {"spsc", 1, "push_n*3 | try_pop*3", true, "nor when it stops inside a bulk push"},
    {"spsc", 1, "pop*2 | try_push*3", true, "a stopped consumer: try_push does not wait"},
    {"spsc", 1, "consume front | try_push*3", true, "nor when it stops while it uses the item in its cell"},
    {"spsc", 2, "pop_n*2 | push*2", true, "and push does not while there is room"},
    {"spsc", 1, "close | try_push*2 | try_pop*2", true, "a stopped close: neither side waits for it"},
    {"spsc", 1, "push | pop", false, "a stopped producer: pop waits for its item"},
    {"spsc", 1, "pop | push*2", false, "a stopped consumer: push waits for room"},
    {"spsc", 1, "close | drain", false, "a close that stops may leave waiting threads waiting"},
    {"spsc", 1, "push | pop_for size is_closed", true, "a stopped producer: a pop with a limit gives up"},
    {"spsc", 1, "pop | push_for*2", true, "a stopped consumer: so does a push"},

    {"spmc", 1, "push*2 | try_pop*2 | try_pop", true, "a stopped producer: try_pop does not wait"},
    {"spmc", 1, "pop | try_push*2 | try_pop*2", true, "a stopped consumer: neither side waits for it"},
    {"spmc", 2, "pop | push*2 | pop", true, "and another consumer gets the other item"},
    {"spmc", 1, "consume | try_push*2 | try_consume*2", true, "nor when it stops while it uses the item in its cell"},
    {"spmc", 1, "pop | push*2 | pop", true, "and a push that waits for room continues after the next pop"},
    {"spmc", 2, "pop_n*2 | try_push*4", true, "a stopped bulk pop: try_push does not wait"},
    {"spmc", 1, "close | try_push*2 | try_pop*2", true, "a stopped close: neither side waits for it"},
    {"spmc", 1, "push | pop", false, "a stopped producer: pop waits for its item"},
    {"spmc", 1, "close | drain", false, "a close that stops may leave waiting threads waiting"},
    {"spmc", 1, "push | pop_for size is_closed", true, "a stopped producer: a pop with a limit gives up"},
    {"spmc", 1, "pop | push_for*2", true, "a stopped consumer: so does a push"},

    {"mpmc", 1, "push | try_push*2 | try_pop*2", true, "a stopped producer: try_push and try_pop do not wait"},
    {"mpmc", 3, "push | push*2", true, "nor does push while there is room"},
    {"mpmc", 1, "pop | try_push*2 | try_pop*2", true, "a stopped consumer: neither side waits for it"},
    {"mpmc", 2, "pop | push*2 | pop", true, "and another consumer gets the other item"},
    {"mpmc", 1, "consume | try_push*2 | try_consume*2", true, "nor when it stops while it uses the item in its cell"},
    {"mpmc", 1, "pop | push*2 | pop", true, "and a push that waits for room continues after the next pop"},
    {"mpmc", 2, "pop_n*2 | try_push*4", true, "a stopped bulk pop: try_push does not wait"},
    {"mpmc", 1, "close | try_push*2 | try_pop*2", true, "a stopped close: neither side waits for it"},
    {"mpmc", 1, "push | push | pop", false, "a stopped producer: the consumer of its rank waits"},
    {"mpmc", 1, "close | drain", false, "a close that stops may leave waiting threads waiting"},
    {"mpmc", 1, "push | pop_for size is_closed", true, "a stopped producer: a pop with a limit gives up"},
    {"mpmc", 1, "pop | push_for*2", true, "a stopped consumer: so does a push"},

    {"lanes", 1, "push*2 | push | try_pop*2", true, "a stopped producer: neither other producers nor try_pop wait"},
    {"lanes", 1, "pop | try_push*2 | try_pop*2", true, "a stopped consumer: neither side waits for it"},
    {"lanes", 1, "consume | try_push*2 | try_consume*2", true, "nor when it stops while it uses the item in its cell"},
    {"lanes", 2, "pop_n*2 | push*2 | try_pop", true, "nor for a stopped bulk pop"},
    {"lanes", 1, "close | try_push*2 | try_pop*2", true, "a stopped close: neither side waits for it"},
    {"lanes", 1, "push | pop", false, "a stopped producer: pop waits for its item"},
    {"lanes", 1, "pop | push*2 | pop", false,
     "a stopped pop has perhaps not told of the room, and the other claims nothing"},
    {"lanes", 1, "close | drain", false, "a close that stops may leave waiting threads waiting"},
    {"lanes", 1, "push | pop_for size is_closed", true, "a stopped producer: a pop with a limit gives up"},
    {"lanes", 1, "pop | push_for*2", true, "a stopped consumer: so does a push"},
    {"lanes", 2, "handle push end | handle*2 push | handle", true,
     "a stopped producer: others take lanes and leave them"},
    {"lane", 1, "push | push", false, "but its own is taken forever"},

    {"shared spsc", 1, "push*2 | try_pop*3", true, "a stopped producer: try_pop does not wait"},
    {"shared spsc", 1, "push_n*3 | try_pop_n*3", true, "nor when it stops inside a bulk push"},
    {"shared spsc", 1, "pop*2 | try_push*3", true, "a stopped consumer: try_push does not wait"},
    {"shared spsc", 2, "pop_n*2 | push*2", true, "and push does not while there is room"},
    {"shared spsc", 1, "push | pop", false, "a stopped producer: pop waits for its item"},
    {"shared spsc", 1, "pop | push*2", false, "a stopped consumer: push waits for room"},
    {"shared spmc", 1, "push*2 | try_pop*2 | try_pop", true, "a stopped producer: try_pop does not wait"},
    {"shared spmc", 1, "pop | try_push*2 | try_pop*2", true, "a stopped consumer: neither side waits for it"},
    {"shared mpmc", 1, "push | try_push*2 | try_pop*2", true, "a stopped producer: try_push and try_pop do not wait"},
    {"shared mpmc", 3, "push | push*2", true, "nor does push while there is room"},
    {"shared mpmc", 1, "pop | try_push*2 | try_pop*2", true, "a stopped consumer: neither side waits for it"},
    {"shared mpmc", 2, "pop_n*2 | try_push_n*3", true, "a stopped bulk pop: try_push_n does not wait"},
    {"shared mpmc", 1, "close | try_push*2 | try_pop*2", true, "a stopped close: neither side waits for it"},
    {"shared mpmc", 1, "push | pop_for size is_closed", true, "a stopped producer: a pop with a limit gives up"},
    {"shared mpmc", 1, "pop | push_for*2", true, "a stopped consumer: so does a push"},
    {"shared mpmc", 1, "push | push | pop", false, "a stopped producer: pop waits for its item"},
    {"shared mpmc", 1, "close | drain", false, "a close that stops may leave waiting threads waiting"},
    {"shared lanes", 1, "push*2 | push | try_pop*2", true, "a stopped producer: neither others nor try_pop wait"},
    {"shared lanes", 1, "pop | try_push*2 | try_pop*2", true, "a stopped consumer: neither side waits for it"},
    {"shared lanes", 1, "close | try_push*2 | try_pop*2", true, "a stopped close: neither side waits for it"},
    {"shared lanes", 2, "handle push end | handle*2 push | try_pop", true,
     "a stopped producer: others open and close ports"},
    {"shared lanes", 1, "push | pop_for size is_closed", true, "a stopped producer: a pop with a limit gives up"},
    {"shared lanes", 1, "push | pop", false, "a stopped producer: pop waits for its item"},
    {"shared lanes", 1, "close | drain", false, "a close that stops may leave waiting threads waiting"},
};

std::function<void()> program_of(const row& r) {
  a_stopped_process_is_dead = false;
  const std::string queue = r.queue;
  if (queue.starts_with("shared "))
    return make_program(shared_row{r.queue + queue.find(' ') + 1, r.capacity, r.text, {r.preemptions, r.stale}});
  return make_program(r);
}

std::string case_name(std::string queue, std::size_t number) {
  std::replace(queue.begin(), queue.end(), ' ', '_');
  return queue + "_" + std::to_string(number);
}

class stopping : public ::testing::TestWithParam<std::size_t> {};

TEST_P(stopping, agrees_with_the_contract) {
  const stop& s = stops[GetParam()];
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    const int preemptions = parse(s.text).size() == 2 ? 2 : 1;
    const mm::limits within{.preemptions = preemptions, .stale = 0, .executions = 2'000'000, .freeze = 1};
    const mm::result r = mm::explore(within, program_of({s.queue, s.capacity, s.text, preemptions, 0}));
    const std::string what = r.failed ? r.failed->what : "";
    std::cout << s.queue << " of " << s.capacity << ": " << s.text << ": " << s.says << ": " << r.executions
              << " executions" << (r.complete ? ", complete" : "") << '\n';
    if (s.others_finish) {
      EXPECT_EQ(what, "") << (r.failed ? r.failed->trace : "");
      EXPECT_TRUE(r.complete || r.cut);
    } else if (!r.cut) {
      EXPECT_EQ(what, "a thread that stopped forever keeps others from finishing");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(of, stopping, ::testing::Range(std::size_t{0}, stops.size()),
                         [](const auto& at) { return case_name(stops[at.param].queue, at.param); });

struct bound {
  const char* queue;
  std::size_t capacity;
  const char* few;      // the operations of the first thread are wait-free here
  const char* many;     // the same with more operations of the others
  std::uint64_t steps;  // at most, of any one operation of the first thread
  const char* says;
};

// Steps are operations on atomics, fences and futex calls.
const std::vector<bound> bounds = {
    {"spsc", 1, "try_push*2 | try_pop", "try_push*3 | try_pop*3", 13, "try_push"},
    {"spsc", 1, "try_pop*2 | try_push", "try_pop*3 | try_push*3", 12, "try_pop"},
    {"spsc", 1, "front try_consume | try_push", "front*2 try_consume | try_push*3", 12, "front and try_consume"},
    {"spsc", 4, "push*2 | pop", "push*4 | pop*4", 11, "push while there is room, waking a consumer"},
    {"spsc", 4, "try_push_n*4 | try_pop", "try_push_n*4 | try_pop*4", 8, "try_push_n of four"},
    {"spsc", 4, "try_pop_n*4 | try_push_n*2", "try_pop_n*4 | try_push_n*4", 10, "try_pop_n of four"},
    {"spmc", 1, "try_push*2 | try_pop", "try_push*3 | try_pop | try_pop", 17, "try_push, ring of two cells"},
    {"spmc", 4, "push*2 | pop", "push*3 | pop | pop*2", 12, "push while there is room, waking a consumer"},
    {"lanes", 1, "try_push*2 | try_pop", "try_push*3 | try_pop | try_pop", 30,
     "try_push of lanes, two cells, waking no thread"},
    {"lanes", 4, "handle*2 | push", "handle*2 | push end | push end", 8,
     "try_producer of lanes, of two, and the end of its handle"},
    {"spsc", 1, "size*2 is_closed | try_push", "size*2 is_closed | push*2 | pop*2", 2, "size_approx, is_closed"},
    {"spmc", 1, "size*2 is_closed | try_push", "size*2 is_closed | push*2 | pop*2", 3, "size_approx, is_closed"},
    {"mpmc", 1, "size*2 is_closed | try_push", "size*2 is_closed | push*2 | pop*2", 3, "size_approx, is_closed"},
    {"lanes", 1, "size*2 is_closed | try_push", "size*2 is_closed | push*2 | pop*2", 5, "size_approx, is_closed"},
    {"shared lanes", 1, "size*2 is_closed | try_push", "size*2 is_closed | push*2 | pop*2", 4,
     "size_approx, is_closed"},
    {"shared lanes", 2, "enter end enter end | push", "enter end enter end | push end push end | try_pop", 10,
     "the end of a port, of two lanes"},
};

class wait_free : public ::testing::TestWithParam<std::size_t> {};

TEST_P(wait_free, operations_have_a_bound) {
  const bound& b = bounds[GetParam()];
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    std::uint64_t longest[2] = {};
    for (const bool more : {false, true}) {
      const char* text = more ? b.many : b.few;
      const int preemptions = parse(text).size() == 2 ? 2 : 1;
      const mm::limits within{.preemptions = preemptions, .stale = 1, .executions = 2'000'000};
      const mm::result r = mm::explore(within, program_of({b.queue, b.capacity, text, preemptions, 1}));
      ASSERT_FALSE(r.failed) << r.failed->what << '\n' << r.failed->trace;
      EXPECT_TRUE(r.complete || r.cut);
      longest[more] = r.longest_operations[1];
    }
    std::cout << b.queue << ": " << b.says << ": at most " << longest[0] << " and " << longest[1] << " steps\n";
    EXPECT_LE(std::max(longest[0], longest[1]), b.steps);
  }
}

INSTANTIATE_TEST_SUITE_P(of, wait_free, ::testing::Range(std::size_t{0}, bounds.size()),
                         [](const auto& at) { return case_name(bounds[at.param].queue, at.param); });

}  // namespace
