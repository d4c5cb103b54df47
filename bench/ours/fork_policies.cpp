// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// How a thread finds its forks, and how many of them it shares when it is asked: the policies that the paper compares,
// and ours. Compiled with the engine of the return barrier; the other one is in every program.
#include "driver/fork_run.hpp"
#include "ours/fork_styles.hpp"

namespace muster::bench {
namespace {

template <fork_engine Engine, steal_share Share>
struct policy_team {
  explicit policy_team(unsigned many) : workers(many), pool({.workers = many, .engine = Engine, .share = Share}) {}
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
using stop_style = fork_style<Leaf, policy_team<fork_engine::barrier, steal_share::one>>;
template <class Leaf>
using barrier_style = fork_style<Leaf, policy_team<fork_engine::barrier, steal_share::all>>;
template <class Leaf>
using half_style = fork_style<Leaf, policy_team<fork_engine::barrier, steal_share::half>>;
template <class Leaf>
using watermark_style = fork_style<Leaf, policy_team<fork_engine::watermark, steal_share::half>>;

template <class Leaf>
using arguments_style = fork_arguments_style<Leaf, policy_team<fork_engine::automatic, steal_share::half>>;
template <class Leaf>
using references_style = fork_references_style<Leaf, policy_team<fork_engine::automatic, steal_share::half>>;
template <class Leaf>
using automatic_style = fork_style<Leaf, policy_team<fork_engine::automatic, steal_share::half>>;

}  // namespace

void add_fork_policies(catalogue& to) {
  if (const char* const why = pool::no_barrier(); why != nullptr) {
    to.missing.push_back({"muster's return barrier", "", why});
    return;
  }
  to.all.push_back(fork_contender<automatic_style>("muster, return barrier", "muster", "ours",
                                                   fork_programs | fork_calls,
                                                   "fork2 of two lambdas, with MUSTER_FORK_BARRIER"));
  to.all.push_back(fork_contender<arguments_style, program_set::calls>("muster, return barrier, function and argument",
                                                                       "muster", "ours", fork_calls,
                                                                       "fork2(f, argument, lambda), with "
                                                                       "MUSTER_FORK_BARRIER"));
  to.all.push_back(fork_contender<references_style, program_set::calls>(
      "muster, return barrier, by reference", "muster", "ours", fork_calls,
      "fork2 of two lambdas that capture by reference, with MUSTER_FORK_BARRIER"));
  to.all.push_back(fork_contender<stop_style>("stop", "muster", "paper", fork_policies,
                                              "the owner stops at each theft and offers its oldest fork"));
  to.all.push_back(fork_contender<barrier_style>("barrier", "muster", "paper", fork_policies,
                                                 "the owner stops once and offers all its forks"));
  to.all.push_back(fork_contender<half_style>("half", "muster", "ours", fork_policies,
                                              "the owner stops once and offers the older half"));
  to.all.push_back(fork_contender<watermark_style>("watermark", "muster", "ours", fork_policies,
                                                   "the same with records in place of return addresses"));
}

}  // namespace muster::bench
