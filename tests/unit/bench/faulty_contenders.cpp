// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The catalogue of a muster-bench whose queues are wrong on purpose: what its tests of the exit status run.
#include "faulty_fork.hpp"
#include "faulty_queue.hpp"

#include <csignal>

namespace muster::bench {
namespace {

contender wrong(std::string name, std::string role, runner<stream_spec> run) {
  contender c;
  c.name = std::move(name);
  c.family = c.name;
  c.role = std::move(role);
  c.topics = one_to_one;
  c.stream = run;
  return c;
}

/// The run itself decides the number of items, because the fault is in the thousandth.
template <fault Fault>
outcome run_faulty(const stream_spec& given) {
  stream_spec spec = given;
  spec.items = faulty<Fault>::total;
  return run_stream<faulty<Fault>>(spec);
}

}  // namespace

catalogue make_catalogue() {
  catalogue all;
  all.all.push_back(wrong("ours_right", "ours", run_faulty<fault::none>));
  all.all.push_back(wrong("ours_lossy", "ours", run_faulty<fault::drops>));
  all.all.push_back(wrong("peer_lossy", "peer", run_faulty<fault::drops>));
  all.all.push_back(wrong("peer_disorderly", "peer", run_faulty<fault::reorders>));
  all.all.push_back(wrong("peer_crashing", "peer", [](const stream_spec&) {
    std::raise(SIGKILL);
    return outcome{};
  }));
  all.all.push_back(
      fork_contender<faulty_fork<fork_fault::none>::style>("forks_right", "forks", "ours", fork_programs));
  all.all.push_back(
      fork_contender<faulty_fork<fork_fault::loses>::style>("forks_losing", "losing", "ours", fork_programs));
  all.all.push_back(
      fork_contender<faulty_fork<fork_fault::repeats>::style>("forks_repeating", "repeating", "peer", fork_programs));
  all.missing.push_back({"absent", "libabsent-dev", "not installed (apt-get install libabsent-dev)"});
  return all;
}

std::vector<left_out> compiled_peers() { return {}; }

}  // namespace muster::bench
