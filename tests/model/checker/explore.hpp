// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// explore.hpp: runs a program in many or in all ways, until one fails.
//
// exhaustive   depth first through all decisions. Without a bound on preemptions: dynamic partial-order reduction by
//              source sets (Abdulla, Aronis, Jonsson, Sagonas, POPL 2014) with sleep sets (Godefroid, 1996), so that of
//              executions that differ only in the order of independent operations few more than one are run. With a
//              bound (Musuvathi and Qadeer, PLDI 2007), all executions within it.
// random       every decision by chance.
// priorities   PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010): threads have random priorities, which
//              change at `depth` − 1 random steps; other decisions by chance. Finds a bug of depth d in n threads and k
//              steps with a probability of at least 1 / (n · k^(d−1)) per execution.
// A failure comes with its decisions. They are shrunk: as few as possible differ from the ordinary ones. The same
// program run with them fails in the same way.
#pragma once

#include "checker/engine.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster_model {

enum class strategy { exhaustive, random, priorities };

struct limits {
  strategy how = strategy::exhaustive;
  int preemptions = -1;  // per execution; −1: no bound. Exhaustive search only
  int stale = -1;        // operations per execution that do not meet the newest store; −1: no bound
  std::uint64_t executions = 10'000'000;
  std::uint64_t steps = 5000;  // per execution
  std::uint64_t seed = 1;
  unsigned depth = 3;  // of priorities
  int freeze = -1;     // this thread may stop forever
};

/// Decisions that differ from the ordinary one: the number of the decision, and what was decided.
using decisions = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

struct failure {
  std::string what;
  decisions path;     // shrunk
  std::string trace;  // a line for each step
};

struct result {
  std::uint64_t executions = 0;
  std::uint64_t abandoned = 0;                                   // of these: as the same had been run in another order
  std::uint64_t steps = 0;                                       // in all executions
  std::array<std::uint64_t, most_threads> longest_operations{};  // of each thread: the most steps of one operation
  bool complete = false;                                         // nothing within the limits is left to run
  bool cut = false;                                              // by the environment, see explore()
  std::optional<failure> failed;
};

/// The environment variable MUSTER_MODEL_EXECUTIONS limits the executions of every search. Throws std::invalid_argument
/// for limits that make no sense.
result explore(const limits& within, const std::function<void()>& program, const mutation* m = nullptr);

/// Runs the program once with these decisions, ordinary ones elsewhere. Returns how it failed, if it did.
std::optional<failure> replay(const limits& within, const decisions& path, const std::function<void()>& program,
                              const mutation* m = nullptr);

/// Every place of the program that operates on shared data, found by random executions.
std::vector<operation_site> operations_of(const limits& within, const std::function<void()>& program);

/// One line: the program, its build, and the decisions. read_replay throws std::invalid_argument, which names the
/// mistake, if the line is malformed or belongs to another build.
std::string write_replay(const std::string& name, const decisions& path);
std::pair<std::string, decisions> read_replay(const std::string& line);

}  // namespace muster_model
