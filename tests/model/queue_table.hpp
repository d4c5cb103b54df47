// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue_table.hpp: the programs that the queues are checked with (queue_model_test.cpp), and that are run against each
// change of the queues' operations, at least one of them must notice it (mutants_test.cpp).
#pragma once

#include "scripts.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace muster_model_test {

struct row {
  const char* queue;  // lanes: two of them; lane: one
  std::size_t capacity;
  const char* text;
  int preemptions;            // −1: no bound
  int stale;                  // −1: no bound
  std::uint64_t chances = 0;  // not 0: this many random executions and as many by priorities, instead of the search
  std::uint64_t first_rank = near_the_wrap;
};

inline std::string name_of(const row& r) {
  return std::string(r.queue) + " of " + std::to_string(r.capacity) + ": " + r.text;
}

/// Ranks of mpmc_queue count in fours: this first one is in the upper half of all.
inline constexpr std::uint64_t half_way = (std::uint64_t{1} << 61) + 1;

// Named in the output as NUMBER of the row.
inline const std::vector<row> table = {
    // Complete: all executions there are.
    {"spsc", 1, "try_push*2 | try_pop*2", -1, -1},
    {"spsc", 2, "try_push*3 | try_pop*2", -1, -1},
    {"spmc", 1, "try_push*2 | try_pop*2", -1, -1},
    {"spmc", 1, "try_push | try_pop | try_pop", -1, -1},
    {"mpmc", 1, "try_push | try_push | try_pop", -1, -1},
    {"spsc", 1, "try_push*2 | front try_consume", -1, -1},
    // Complete within bounds.
    {"spsc", 1, "push*3 | pop*3", 2, 1},
    {"spsc", 2, "push_n*3 | pop_n*2 pop", 2, 1},
    {"spsc", 1, "push*3 | consume front consume", 2, 1},
    {"spsc", 1, "push push_bad push close | drain", 2, 1},
    {"spsc", 1, "close | push*2 | drain", 1, 1},
    {"spsc", 1, "close | try_push*3 | drain_try", 1, 1},
    {"spmc", 1, "try_push*2 | pop", 2, 1},
    {"spsc", 2, "try_push*4 | try_pop*2 try_pop_n*2", 2, 1},
    {"spsc", 3, "push_n*4 | pop_n*2 pop_n*2", 2, 1},
    {"spsc", 1, "close | push | pop", 2, 1},
    {"spmc", 1, "close | push | pop", 2, 1},
    {"spmc", 2, "try_push*3 | try_pop*2 | try_pop", 2, 1},
    {"spmc", 2, "try_push*3 | try_consume*2 | try_pop", 2, 1},
    {"spmc", 1, "push*3 | consume*3", 2, 1},
    {"spmc", 3, "push*4 close | drain_n*3", 2, 1},
    {"spmc", 1, "push*2 | pop | pop", 1, 1},
    {"spmc", 1, "push_stop*2 | pop_stop*2 | stop", 1, 1},
    {"spmc", 1, "close | push*2 | drain", 1, 1},
    {"spmc", 2, "push_n*3 close | drain_n*2", 2, 1},
    {"mpmc", 2, "try_push*2 | try_push | try_pop*2", 2, 1},
    {"mpmc", 3, "push*4 close | drain", 2, 1},
    {"mpmc", 1, "push | push | pop*2", 1, 1},
    {"mpmc", 1, "push | push | consume try_consume", 1, 1},
    {"spmc", 1, "try_push try_pop | close try_pop", 2, 2, 20'000},
    {"mpmc", 1, "try_push try_pop | close try_pop", 2, 2, 20'000},
    {"lanes", 1, "try_push try_pop | close try_pop", 2, 2, 20'000},
    {"mpmc", 1, "push_for*2 | pop_for | pop_for", 1, 1},
    {"mpmc", 1, "close | push | drain", 1, 1},
    {"mpmc", 2, "try_push | try_push_bad try_push | try_pop*2", 1, 1},
    {"lanes", 1, "try_push | try_push | try_pop*2", 1, 1},
    {"lanes", 1, "push*2 | pop*2", 2, 1},
    {"lanes", 1, "push | push | pop*2", 1, 1},
    {"lanes", 1, "push*2 | consume try_consume", 2, 1},
    {"lanes", 1, "push close | drain", 2, 1},
    {"lanes", 1, "close | push | drain", 1, 1},
    {"lanes", 1, "close | push | pop", 1, 1},
    {"lane", 1, "try_push leave | try_push leave | try_pop", 1, 1},
    {"lanes", 2, "push_n*3 | pop_n*2 pop", 1, 1},
    // By chance: the smallest programs in which an ordering matters that matters in few others.
    {"spsc", 1, "try_push | try_pop | close", -1, -1, 5'000},
    {"spsc", 1, "push*2 | close", -1, -1, 5'000},
    {"spsc", 1, "pop | close", -1, -1, 5'000},
    {"spmc", 1, "push*2 | close", -1, -1, 5'000},
    {"spmc", 1, "pop | close", -1, -1, 5'000},
    {"spmc", 1, "try_push | try_pop | close", -1, -1, 5'000},
    {"spmc", 2, "try_push*2 | try_pop | try_pop", -1, -1, 5'000},
    {"spmc", 3, "try_push*3 | try_pop_n*3", -1, -1, 5'000},
    {"spmc", 2, "push_n*6 close | drain", -1, -1, 5'000},
    {"spmc", 3, "try_push*5 | try_pop | try_pop try_pop_n*3", -1, -1, 5'000},
    {"mpmc", 1, "push*2 | close", -1, -1, 5'000},
    {"mpmc", 1, "pop | close", -1, -1, 5'000},
    {"mpmc", 1, "try_push | try_pop | close", -1, -1, 5'000},
    {"mpmc", 2, "try_push*2 | try_pop | try_pop", -1, -1, 5'000},
    {"mpmc", 1, "push_bad | push*4 | pop*2 | pop*2", -1, -1, 5'000},
    {"mpmc", 1, "push*4 close | drain_n*2", -1, -1, 5'000},
    {"mpmc", 1, "push*2 | pop*2", -1, -1, 5'000, half_way},
    {"mpmc", 1, "push*2 | push | pop*2", -1, -1, 5'000},
    {"mpmc", 2, "try_round | push*2 pop*2 push push", 2, 0},
    {"mpmc", 2, "try_round | push*3 | pop", 2, 0},
    {"mpmc", 2, "push push_bad*2 push", -1, -1},
    {"mpmc", 2, "push push_bad push try_push", -1, -1},
    {"mpmc", 1, "push | try_push_bad | try_push_bad", 2, 0},
    {"mpmc", 2, "push*2 | try_push_bad", 2, 1},
    {"mpmc", 2, "push | push | push | pop", 1, 0},
    {"mpmc", 2, "push | try_pop push try_pop", 2, 1},
    {"mpmc", 2, "push*2 try_push pass_on", -1, -1},
    {"mpmc", 2, "push*2 pass_on | pass_on | pass_on", -1, -1, 5'000},
    {"mpmc", 2, "push*2 pop push | pop push | pass_on", -1, -1, 5'000},
    {"mpmc", 1, "wait push | push*2 pop set taken set push pop push set | pop_slow*3 | wait*2 pop", -1, -1, 20'000},
    {"mpmc", 3, "push*3 | push*3 | try_push | pop*6", -1, -1, 20'000},
    {"mpmc", 2, "push_slow*2 | wait push | pop | pop_n set", -1, -1, 20'000},
    {"mpmc", 8, "push*6 | push*6 | pop*12", -1, -1, 5'000},
    {"spmc", 1, "try_push try_pop | close | close try_pop", -1, -1, 20'000},
    {"mpmc", 2, "close | push*2 | push*2 | try_push | drain", -1, -1, 20'000},
    {"mpmc", 2, "try_push | try_push | try_push | try_pop*3", -1, -1, 5'000},
    {"mpmc", 4, "try_push*3 | try_push*3 | try_pop*4", -1, -1, 5'000},
    // By chance: more threads, and everything mixed.
    {"spsc", 1, "stop | push_stop*2 | pop_stop*3", -1, -1, 20'000},
    {"spsc", 2, "close | push_n*3 | drain_n*2", -1, -1, 20'000},
    {"spsc", 1, "close | push push_bad try_push | try_pop drain", -1, -1, 20'000},
    {"spsc", 1, "push_for*2 | pop_for*2 | close", -1, -1, 20'000},
    {"spsc", 1, "push_for*3 | consume_for consume_stop front | close", -1, -1, 20'000},
    {"spmc", 2, "close | push*3 | drain | drain", -1, -1, 20'000},
    {"spmc", 1, "close | push*3 | drain | try_pop*2 drain_for", -1, -1, 20'000},
    {"spmc", 2, "close | try_push*3 | drain_for | drain_n*2", -1, -1, 20'000},
    {"spmc", 1, "push*4 | pop*2 | pop_stop*2", -1, -1, 20'000},
    {"spmc", 2, "push*3 close | pop_stop | drain | drain", -1, -1, 20'000},
    {"spmc", 1, "try_pop | push push_bad push*2 close | drain | drain", -1, -1, 20'000},
    {"spmc", 2, "close | push_n*4 | drain | drain_n*2", -1, -1, 20'000},
    {"spmc", 1, "close | push_n*2 push_n*3 | drain_n*3 | drain_n*2", -1, -1, 20'000},
    {"spmc", 1, "push_for*3 close | pop_for*2 | drain_for", -1, -1, 20'000},
    {"spmc", 1, "stop | push_stop*3 | pop_stop*2 | pop_stop*2", -1, -1, 20'000},
    {"spmc", 1, "close | push_for*3 | consume*2 | consume_for try_consume", -1, -1, 20'000},
    {"mpmc", 2, "push*2 | push*2 | pop*2 | pop*2", -1, -1, 20'000},
    {"mpmc", 1, "close | push_for*2 | push_for*2 | consume*2 | consume_stop consume_for | stop", -1, -1, 20'000},
    {"mpmc", 1, "close | push*2 | push*2 | drain | drain", -1, -1, 20'000},
    {"mpmc", 2, "close | push*2 | try_push*2 | drain | drain_for", -1, -1, 20'000},
    {"mpmc", 1, "push_stop*2 | push_stop*2 | pop*4", -1, -1, 20'000},
    {"mpmc", 1, "push_bad push | push*2 | pop*3", -1, -1, 20'000},
    {"mpmc", 2, "push*2 | push*2 | pop_stop*2 | pop_stop*2", -1, -1, 20'000},
    {"mpmc", 1, "try_push_bad | push", -1, -1, 20'000},
    {"mpmc", 1, "close | push*2 | push_bad push_stop | drain | drain_n*2", -1, -1, 20'000},
    {"mpmc", 2, "try_push*2 | try_push | try_pop*2 | try_pop*2", -1, -1, 20'000},
    {"mpmc", 1, "close | push*2 | close | drain", -1, -1, 20'000},
    {"mpmc", 2, "push*3 | try_pop_n*2 | try_pop_n*2 | close", -1, -1, 20'000},
    {"mpmc", 1, "close | try_push*2 | try_push*2 | drain_try", -1, -1, 20'000},
    {"mpmc", 1, "push_for*3 close | push_for | pop_for*2 | drain_for", -1, -1, 20'000},
    {"lanes", 1, "push*2 | push | pop | pop*2", -1, -1, 20'000},
    {"lanes", 2, "push*2 | push*2 | pop*2 | pop*2", -1, -1, 20'000},
    {"lanes", 2, "push*2 | pop | pop", -1, -1, 20'000},
    {"lanes", 1, "push | push | pop", -1, -1, 20'000},
    {"lanes", 1, "close | push_for*2 | push_for | consume*2 | consume_for try_consume", -1, -1, 20'000},
    {"lanes", 1, "close | push*2 | push*2 | drain | drain", -1, -1, 20'000},
    {"lanes", 2, "close | push_n*3 | drain_n*2 | drain_for", -1, -1, 20'000},
    {"lanes", 1, "stop | push_stop*2 | pop_stop | pop_stop", -1, -1, 20'000},
    {"lanes", 1, "push*2 | pop_stop | pop | stop", -1, -1, 20'000},
    {"lanes", 1, "push_for*2 | push | pop_for*2 | pop_for", -1, -1, 20'000},
    {"lanes", 4, "try_push_n*3 | pop | pop | pop", -1, -1, 20'000},
    {"lanes", 2, "push_n*3 | push_n*2 | try_pop_n*3 | pop_n*2 drain_try | close", -1, -1, 20'000},
    {"lanes", 1, "close | push push_bad push | drain_try | drain", -1, -1, 20'000},
    {"lanes", 1, "close | try_push_bad | drain | drain", -1, -1, 20'000},
    {"lanes", 1, "close | close | push*2 | drain", -1, -1, 20'000},
    {"lanes", 1, "try_push*3 | try_push*2 | try_pop*2 | try_pop*2", -1, -1, 20'000},
    {"lane", 2, "push*2 leave push*2 leave | push*2 leave | pop*3 | pop*3", -1, -1, 20'000},
    {"lane", 1, "push leave | push leave | push leave close | drain", -1, -1, 20'000},
    {"lanes", 1, "close | push leave push leave | drain | drain_for", -1, -1, 20'000},
};

/// True if the programs of this queue are compiled; tests/regression compiles those of one queue only.
constexpr bool compiled([[maybe_unused]] std::string_view queue) {
#if defined(MUSTER_MODEL_QUEUE)
  return queue == MUSTER_MODEL_QUEUE;
#else
  return true;
#endif
}

/// The program of a row.
std::function<void()> make_program(const row& r);

}  // namespace muster_model_test
