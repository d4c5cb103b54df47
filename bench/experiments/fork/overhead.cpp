// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/overhead: what a fork costs one worker, when nobody steals, above the call that it replaces.
#include "experiments/fork/points.hpp"

namespace muster::bench {
namespace {

constexpr const char* four_nanoseconds = "4 ns";
constexpr const char* large_fib = "fib(42)";  // a run takes peers a minute, and says nothing new

/// From the same runs: the time above the plain calls, per fork. In both programs there is a fork for two calls.
void add_cost_of_a_fork(std::vector<result>& results) {
  result r =
      results.front().also("-fork", "A fork and its join, above the calls", {"time per fork", "ns", "", "lower"});
  if (!compare_with_plain_calls(r, [](double with, double without) { return 2 * (with - without); })) return;
  add_constant(r, four_nanoseconds, 4, "what is promised");
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "1 worker; fib(25), in the full profile also fib(42) without peers, and the sums over balanced trees of nodes "
      "that lie in the order of the visit; one fork for two calls; all executions in one run of the pool";
  r.x = {"program", "", "category", ""};
  r.y = {"time per call", "ns", "", "lower"};
  for (const contender* c : s.contenders.about(fork_calls)) {
    const std::size_t line = made.add_line(*c);
    const auto add = [&](const char* x, const char* program, std::uint64_t size) {
      fork_spec spec;
      spec.program = program;
      spec.size = size;
      spec.one_run = true;
      add_fork_point(made, *c, line, x, spec, s.place).fixed_items = 0;
    };
    add("fib", "fib", 25);
    add("tree of 1,000", "tree", 1000);
    add("tree of 1,000,000", "tree", 1000000);
    if (s.work.kind == profile::full && (c->name == plain_calls || c->family == "muster")) add(large_fib, "fib", 42);
  }
  made.value = [](const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); };
  made.finish = add_cost_of_a_fork;
  return made;
}

}  // namespace

experiment fork_overhead() { return {"fork/overhead", "fork", "", "A call that can be stolen", prepare}; }

}  // namespace muster::bench
