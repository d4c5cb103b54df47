// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/algorithms: sorting, scanning, summing, looping, beside the standard library and others.
#include "experiments/fork/points.hpp"
#include "experiments/fork/programs/all.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

study prepare(const setting& s) {
  study made;
  result& r = made.head;
  r.setting = fmt::format("{}; the loop's turns become longer and longer",
                          s.work.kind == profile::full
                              ? "10,000,000 numbers, 1,000,000 texts, sums over 40,000,000 numbers, 100,000 turns"
                              : "1,000,000 numbers, 100,000 texts, sums over 4,000,000 numbers, 20,000 turns");
  r.x = {"algorithm", "", "category", ""};
  r.y = {"time", "ms", "", "lower"};
  add_fork_lines(made, s, fork_algorithms, fork_algorithm_names);
  made.value = [](const outcome& o) { return o.seconds * 1e3; };
  return made;
}

}  // namespace

experiment fork_algorithms_peers() {
  return {"fork/algorithms", "fork", "", "Sorting, scanning, summing, looping", prepare};
}

}  // namespace muster::bench
