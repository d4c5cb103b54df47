// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/theft-cost: what one theft costs the owner and the thief, and how long it takes, when the owner's stack is deep.
#include "driver/fork_run.hpp"
#include "experiments/fork/points.hpp"

#include <array>
#include <string>

namespace muster::bench {
namespace {

constexpr std::array<std::uint64_t, 4> depths{10, 100, 1'000, 10'000};

void add_thief(std::vector<result>& results) {
  results.push_back(results.front().also("-thief", "What a theft costs the thief, by the depth of the owner's stack",
                                         {"the thief's cycles per theft", "cycles", "log2", "lower"},
                                         "thief's cycles per theft"));
}

void add_time(std::vector<result>& results) {
  result r = results.front().also("-time", "Time per theft, by the depth of the stack",
                                  {"time per theft", "us", "log2", "lower"});
  for (series& line : r.lines) {
    for (point& p : line.points) {
      p.samples = p.told("seconds per theft");
      for (double& sample : p.samples) sample *= 1e6;
    }
  }
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "one worker is as many forks deep as x says, and forks on; another comes, and steals eight, and more on the way"
      " back; the owner's cycles in answering and at its joins; the thief's from where it has found somebody who "
      "offers to "
      "where it begins";
  r.x = {"depth", "forks", "log2", ""};
  r.y = {"the owner's cycles per theft", "cycles", "log2", "lower"};
  constexpr unsigned workers = 2;
  for (const contender* c : s.contenders.about(fork_policies)) {
    if (c->name == plain_calls) continue;
    const std::size_t line = made.add_line(*c);
    for (const std::uint64_t depth : depths) {
      fork_spec spec;
      spec.program = "spine";
      spec.size = depth;
      spec.workers = workers;
      add_fork_point(made, *c, line, depth, spec, s.place);
    }
  }
  made.value = [](const outcome& o) { return o.told("cycles per theft"); };
  made.finish = [](std::vector<result>& results) {
    add_time(results);
    add_thief(results);
  };
  return made;
}

}  // namespace

experiment fork_theft_cost() {
  return {"fork/theft-cost", "fork", "", "What a theft costs its owner, by the depth of the stack", prepare};
}

}  // namespace muster::bench
