// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/urgent: how long a join is delayed by work that has nothing to do with it, and how much stands still meanwhile.
#include "experiments/fork/programs/urgent.hpp"
#include "experiments/fork/points.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace muster::bench {
namespace {

constexpr const char* one_piece = "one piece";
constexpr std::array worker_numbers{3U, 4U};

/// From the same runs: the whole time, above that in which all workers always have a piece.
void add_whole_time(std::vector<result>& results) {
  result r = results.front().also("-time", "All pieces, those that are waited for and others",
                                  {"time over that of the pieces", "", "", "lower"});
  for (series& s : r.lines)
    for (point& p : s.points) p.samples = p.told("over ideal");
  add_constant(r, "always a piece for each", 1, "the pieces, divided by the workers");
  results.push_back(std::move(r));
}

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting =
      "a chain of forks of 2 and 4 ms, each joined before the next, beside twice as many pieces of 10 ms; all sleep, "
      "so workers may outnumber processors; the latest join of a run, after both halves have ended";
  r.x = {"workers", "", "category", ""};
  r.y = {"latest join", "ms", "", "lower"};
  for (const contender* c : s.contenders.about(fork_programs)) {
    if (c->name == plain_calls) continue;
    const std::size_t line = made.add_line(*c);
    for (const unsigned workers : worker_numbers) {
      fork_spec spec;
      spec.program = "urgent";
      spec.size = fork_size("urgent", s.work.kind);
      spec.workers = workers;
      configuration& one = add_fork_point(made, *c, line, std::to_string(workers), spec, s.place);
      one.run = [run = one.run, ideal = urgent_times::ideal(spec.size, workers)](std::uint64_t items) {
        outcome o = run(items);
        o.detail["over ideal"] = o.seconds / ideal;
        return o;
      };
    }
  }
  made.value = [](const outcome& o) { return 1e3 * o.told("latest join"); };
  made.finish = [](std::vector<result>& results) {
    add_whole_time(results);
    add_constant(results.front(), one_piece, 1e3 * urgent_times::piece, "of the others");
  };
  return made;
}

}  // namespace

experiment fork_urgent() { return {"fork/urgent", "fork", "", "Joins beside longer work", prepare}; }

}  // namespace muster::bench
