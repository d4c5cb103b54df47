// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/peers: all programs, in all styles, by the number of workers.
#include "experiments/fork/points.hpp"
#include "experiments/fork/programs/all.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = fmt::format(
      "{}; jacobi: leaves of 256 cells, jacobi fine: of 2; heat: leaves of 10 lines; lud: blocks of 16 x 16; cholesky: "
      "tiles of 32 x 32; matmul: leaves of 32 x 32; cilksort: leaves of 2048 numbers; uts: a loop over children, "
      "for oneTBB and OpenMP a task for each",
      s.work.kind == profile::full
          ? "fib(35), integrate to 2000, 13 queens, skynet of 1,000,000 leaves, tree of 1,000,000 nodes, uts T1 and "
            "T3, matrices of 1024 x 1024, 10,000,000 numbers, jacobi: 100 steps on 1024 x 1024, fine: on 512 x 512, "
            "heat: 200 steps on 4096 x 1024"
          : "small sizes of all programs");
  r.x = {"program", "", "category", ""};
  r.y = {"time", "ms", "", "lower"};
  add_fork_lines(made, s, fork_programs, fork_program_names);
  made.value = [](const outcome& o) { return o.seconds * 1e3; };
  made.finish = [](std::vector<result>& results) {
    add_speed_up(results, "Fork/join programs: speed-up over the program without forks");
  };
  return made;
}

}  // namespace

experiment fork_peers() { return {"fork/peers", "fork", "", "Fork/join programs", prepare}; }

}  // namespace muster::bench
