// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// How a thread finds its forks, and how many of them it shares when asked: the paper's policies and ours. Compiled with
// the engine of the return barrier; the other one is in every program.
#include "driver/fork_run.hpp"
#include "ours/fork_styles.hpp"

#include <utility>

namespace muster::bench {
namespace {

struct sharing {
  fork_engine engine = fork_engine::automatic;
  steal_share share = steal_share::half;
};

/// The options of the next pool. A variable, because a template parameter would compile all programs for each value.
sharing chosen;

struct policy_team {
  explicit policy_team(unsigned many)
      : workers(many), pool({.workers = many, .engine = chosen.engine, .share = chosen.share}) {}
  template <class S, class F>
  void run(F f) {
    pool.run([&] { f(S{}); });
  }

  void begin() {
    before = pool.statistics();
    since = cycles();
  }
  void tell(outcome& to) const {
    const pool_statistics now = pool.statistics();
    const double all = static_cast<double>(cycles() - since) * workers;
    const auto share = [&](std::uint64_t from, std::uint64_t until) {
      return 100 * static_cast<double>(until - from) / all;
    };
    to.detail["publishing"] = share(before.publishing_cycles, now.publishing_cycles);
    to.detail["at the barrier"] = share(before.returning_cycles, now.returning_cycles);
    to.detail["waiting"] = share(before.waiting_cycles, now.waiting_cycles);
    to.detail["thefts"] = static_cast<double>(now.thefts - before.thefts);
    const std::uint64_t lost =
        now.publishing_cycles - before.publishing_cycles + now.returning_cycles - before.returning_cycles;
    if (const std::uint64_t thefts = now.thefts - before.thefts; thefts != 0) {
      to.detail["cycles per theft"] = static_cast<double>(lost) / static_cast<double>(thefts);
      to.detail["thief's cycles per theft"] =
          static_cast<double>(now.taking_cycles - before.taking_cycles) / static_cast<double>(thefts);
    }
    to.detail["answers"] = static_cast<double>(now.answers - before.answers);
    to.detail["offered"] = static_cast<double>(now.offered - before.offered);
  }

  const unsigned workers;
  muster::pool pool;
  pool_statistics before;
  std::uint64_t since = 0;
};

template <class Leaf>
using lambdas = fork_style<Leaf, policy_team>;
template <class Leaf>
using arguments = fork_arguments_style<Leaf, policy_team>;
template <class Leaf>
using references = fork_references_style<Leaf, policy_team>;

contender with(sharing p, contender c) {
  c.fork = [p, run = std::move(c.fork)](const fork_spec& spec) {
    chosen = p;
    return run(spec);
  };
  return c;
}

}  // namespace

void add_fork_policies(catalogue& to) {
  if (const char* const why = pool::barrier_unavailable_reason(); why != nullptr) {
    to.missing.push_back({"muster's return barrier", "", why});
    return;
  }
  const sharing usual;
  to.all.push_back(
      with(usual, fork_contender<lambdas>("muster, return barrier", "muster", "ours", fork_programs | fork_calls,
                                          "fork2 of two lambdas, with MUSTER_FORK_BARRIER")));
  to.all.push_back(with(usual, fork_contender<arguments, program_set::calls>(
                                   "muster, return barrier, function and argument", "muster", "ours", fork_calls,
                                   "fork2(f, argument, lambda), with MUSTER_FORK_BARRIER")));
  to.all.push_back(with(usual, fork_contender<references, program_set::calls>(
                                   "muster, return barrier, by reference", "muster", "ours", fork_calls,
                                   "fork2 of two lambdas that capture by reference, with MUSTER_FORK_BARRIER")));
  const auto add = [&](sharing p, const char* name, const char* role, const char* note) {
    to.all.push_back(with(p, fork_contender<lambdas>(name, "muster", role, fork_policies, note)));
  };
  add({fork_engine::barrier, steal_share::one}, "stop", "paper",
      "the owner stops at each theft and offers its oldest fork");
  add({fork_engine::barrier, steal_share::all}, "barrier", "paper", "the owner stops once and offers all its forks");
  add({fork_engine::barrier, steal_share::half}, "half", "ours", "the owner stops once and offers the older half");
  add({fork_engine::watermark, steal_share::half}, "watermark", "ours",
      "the same with records in place of return addresses");
}

}  // namespace muster::bench
