// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// team.hpp: the fibers of one run: a group of carriers, each with its fibers, all of them ready before the clock
// starts.
//
// Headers that include the library's fibers are in its inline namespace, because one source file contains the library a
// second time, over atomics that count (seams/muster_counting).
#pragma once

#include "driver/contender.hpp"
#include "driver/thread_group.hpp"

#include <muster/base/arch.hpp>    // pause
#include <muster/fiber/fiber.hpp>  // fiber

#include <sched.h>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Where a fiber waits, once, after its preparations.
class start_gate {
 public:
  explicit start_gate(start_line& line) : line_(&line) {}  // for a carrier without fibers
  explicit start_gate(const bool& open) : open_(&open) {}  // for a fiber
  void wait() const {
    if (line_ != nullptr) return line_->arrive_and_wait();
    while (!*open_) this_fiber::yield();
  }

 private:
  start_line* line_ = nullptr;
  const bool* open_ = nullptr;
};

/// How baselines wait (baselines/turn.hpp): a fiber with siblings yields to them. A thread without siblings pauses if
/// it has a processor of its own and otherwise yields the processor, as in the framework of the "Lock Oscillation"
/// experiments.
struct team_turn {
  static void turn() noexcept {
    if (this_fiber::has_siblings()) {
      this_fiber::yield();
      if (crowded && ++turns % 256 == 0) sched_yield();
    } else if (crowded) {
      sched_yield();
    } else {
      pause();
    }
  }
  inline static bool crowded = false;  // more carriers than processors; set before a run's threads start
  inline static thread_local unsigned turns = 0;
};

/// True if two carriers share a processor, or may do so.
inline bool shares_processors(std::vector<int> pus) {
  std::sort(pus.begin(), pus.end());
  return pus.size() > 1 && (pus.front() < 0 || std::adjacent_find(pus.begin(), pus.end()) != pus.end());
}

/// The number of operations of this fiber.
inline std::uint64_t share_of(const team_spec& spec, unsigned carrier, unsigned fiber) {
  const std::uint64_t all = std::uint64_t{spec.carriers} * spec.fibers;
  const std::uint64_t number = std::uint64_t{carrier} * spec.fibers + fiber;
  return spec.items / all + (number < spec.items % all ? 1 : 0);
}

/// Calls body(carrier, fiber, gate) on every fiber. Each prepares without yielding, calls gate.wait() once, and works.
inline outcome run_team_crew(const team_spec& spec,
                             const std::function<void(unsigned, unsigned, const start_gate&)>& body) {
  team_turn::crowded = shares_processors(spec.pus);
  return run_crew(spec.pus, [&](unsigned carrier, start_line& line) {
    if (spec.fibers <= 1) return body(carrier, 0U, start_gate(line));
    bool open = false;
    std::vector<fiber> fibers;
    fibers.reserve(spec.fibers);
    for (unsigned f = 0; f < spec.fibers; ++f) {
      fibers.emplace_back([&body, &open, carrier, f] { body(carrier, f, start_gate(open)); });
    }
    this_fiber::yield();  // each fiber runs once, up to the gate
    line.arrive_and_wait();
    open = true;
    fibers.clear();  // joins
  });
}

}  // namespace muster::bench::inline MUSTER_ABI
