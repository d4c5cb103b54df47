// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue_table.cpp: makes the programs of queue_table.hpp.
#include "queue_table.hpp"

#include "lanes_programs.hpp"
#include "queue_programs.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <stdexcept>
#include <string>

namespace muster_model_test {
namespace {

/// queue_program<Queue>, if it is compiled.
template <bool Compiled, class Queue>
std::function<void()> program_if(const queue_setup& setup, const char* text) {
  if constexpr (Compiled) return queue_program<Queue>(setup, parse(text));
  throw std::logic_error(std::string("this program is not compiled for ") + text);
}

}  // namespace

std::function<void()> make_program(const row& r) {
  using muster::layout::packed, muster::wait::park;
  const std::string queue = r.queue;
  queue_setup setup;
  setup.capacity = r.capacity;
  // As few as the queue allows, so that each cell is used again.
  setup.cells = std::max<std::size_t>(2, std::bit_ceil(r.capacity + (queue == "spsc" ? 0 : 1)));
  setup.first_rank = r.first_rank;
  setup.full_may_be_early = queue == "mpmc";
  if (queue == "spsc") return program_if<compiled("spsc"), muster::spsc_queue<item, packed, park>>(setup, r.text);
  if (queue == "spmc") return program_if<compiled("spmc"), muster::spmc_queue<item, packed, park>>(setup, r.text);
  if (queue == "mpmc") return program_if<compiled("mpmc"), muster::mpmc_queue<item, packed, park>>(setup, r.text);
  using some_lanes = muster::lanes<item, packed, park>;
  if (queue == "lanes") return program_if<compiled("lanes"), lanes_as_queue<some_lanes, 2>>(setup, r.text);
  setup.full_may_be_early = true;  // by the items of an earlier producer
  return program_if<compiled("lane"), lanes_as_queue<some_lanes, 1>>(setup, r.text);
}

}  // namespace muster_model_test
