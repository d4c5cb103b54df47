// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_queue_table.hpp: the queue between processes as a queue that the scripts of queue_programs.hpp can use, and
// the programs that it is checked with. Of shapes with one ring: the rings (shared_region.hpp), which the ports add
// little to; of lanes: the queue with its ports (shared_ports.hpp), which know of the lanes.
#pragma once

#include "expect_right.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace muster_model_test {

struct shared_row {
  const char* shape;
  std::size_t capacity;  // lanes: of each, and there are two
  const char* text;
  search_bounds within;
};

inline const std::vector<shared_row> shared_table = {
    {"spsc", 1, "try_push*2 | try_pop*2", {-1, -1}},
    {"spsc", 2, "push*3 | pop*3", {2, 1}},
    {"spsc", 1, "push*2 close | drain", {2, 1}},
    {"spsc", 1, "close | push*2 | drain", {1, 1}},
    {"spmc", 1, "try_push*2 | try_pop*2", {2, 1}},
    {"spmc", 1, "push*2 | pop | pop", {1, 1}},
    {"spmc", 2, "try_push*3 | try_pop*2 | try_pop", {1, 1}},
    {"spmc", 1, "close | push*2 | drain", {1, 1}},
    {"mpmc", 1, "try_push | try_push | try_pop", {2, 1}},
    {"mpmc", 2, "try_push*2 | try_push | try_pop*2", {1, 1}},
    {"mpmc", 1, "push | push | pop*2", {1, 1}},
    {"mpmc", 1, "close | push | drain", {1, 1}},
    {"spsc", 1, "push*2 | close", {-1, -1, 5'000}},
    {"spmc", 1, "pop | close", {-1, -1, 5'000}},
    {"spmc", 1, "push*3 | pop*3", {-1, -1, 5'000}},
    {"mpmc", 1, "try_push | try_pop | close", {-1, -1, 5'000}},
    {"spsc", 2, "close | push*4 | drain_for", {-1, -1, 20'000}},
    {"spsc", 1, "stop | push_stop*2 | pop_stop*3", {-1, -1, 20'000}},
    {"spsc", 2, "push*6 | pop*6", {-1, -1, 20'000}},
    {"spmc", 1, "push_for*3 close | pop_for*2 | drain_for", {-1, -1, 20'000}},
    {"spmc", 2, "close | push*3 | drain | drain", {-1, -1, 20'000}},
    {"spmc", 1, "try_push*4 | try_pop*2 | try_pop*2 | close", {-1, -1, 20'000}},
    {"spmc", 1, "push*4 | pop*2 | pop_stop*2", {-1, -1, 20'000}},
    {"mpmc", 2, "push*2 | push*2 | pop*2 | pop*2", {-1, -1, 20'000}},
    {"mpmc", 1, "close | push*2 | push*2 | drain | drain", {-1, -1, 20'000}},
    {"mpmc", 2, "close | push*2 | try_push*2 | drain | drain_for", {-1, -1, 20'000}},
    {"mpmc", 1, "push_stop*2 | push_stop*2 | pop*4", {-1, -1, 20'000}},
    {"mpmc", 1, "close | push*2 | close | drain", {-1, -1, 20'000}},
    {"mpmc", 3, "try_push*3 | try_push*2 | try_pop*3 | try_pop*2", {-1, -1, 20'000}},
    {"mpmc", 1, "push*2 | push*2 | pop*2 | pop*2", {-1, -1, 20'000}},
    {"mpmc", 1, "try_push try_pop | close try_pop", {2, 2, 20'000}},
    {"mpmc", 1, "try_push try_pop | close try_pop | try_push", {-1, -1, 20'000}},
    // In bulk, and up to a point in time.
    {"spsc", 1, "push_n*2 | pop*2", {2, 1}},
    {"mpmc", 2, "push | push | pop_n*2", {1, 1}},
    {"mpmc", 2, "try_push_n*3 | try_pop_n*2 | try_pop_n*2", {-1, -1, 5'000}},
    {"mpmc", 1, "close | push_n*2 | push_n*2 | drain_n*2", {-1, -1, 5'000}},
    {"spmc", 1, "push_until*2 | pop_until | pop_until", {-1, -1, 5'000}},
    // Lanes.
    {"lanes", 1, "try_push | try_push | try_pop*2", {1, 1}},
    {"lanes", 1, "push*2 | pop*2", {2, 1}},
    {"lanes", 1, "push close | drain", {2, 1}},
    {"lanes", 1, "close | push | drain", {1, 1}},
    {"lanes", 1, "push*2 | push | pop*3", {-1, -1, 10'000}},
    {"lanes", 1, "push*3 | pop | pop*2", {-1, -1, 10'000}},
    {"lanes", 2, "push*2 | push*2 | pop*2 | pop*2", {-1, -1, 10'000}},
    {"lanes", 1, "close | push*2 | push | drain | drain", {-1, -1, 10'000}},
    {"lanes", 2, "push_n*2 | push_n*2 | pop_n*2 try_pop_n*2 | close", {-1, -1, 10'000}},
    {"lanes", 1, "push_for | push_until | pop_for pop_until", {-1, -1, 5'000}},
    {"lanes", 1, "stop | push_stop*2 | pop_stop | pop_stop", {-1, -1, 10'000}},
    {"lanes", 1, "push leave | push leave | push leave close | drain", {-1, -1, 10'000}},
    {"lanes", 1, "close | push leave push leave | drain", {-1, -1, 10'000}},
};

std::function<void()> make_program(const shared_row& r);

inline std::string name_of(const shared_row& r) {
  return std::string(r.shape) + " of " + std::to_string(r.capacity) + ": " + r.text;
}

}  // namespace muster_model_test
