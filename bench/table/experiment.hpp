// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// experiment.hpp: the experiments by name, one row each in the file of its part. A row's id is written there only; its
// bars and the paper's statements about it are in bars.toml.
#pragma once

#include "driver/study.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

/// The input from which an experiment prepares a study for this machine.
struct setting {
  const catalogue& contenders;
  const placement& place;
  effort work;
  std::string machine{};  // the file of the machine to simulate; empty: the experiment's own choice

  bool full() const { return work.kind == profile::full; }
};

struct experiment {
  std::string id;
  std::string part;
  std::string source;
  std::string title;
  study (*prepare)(const setting&);
};

/// All experiments, in the order of the report.
const std::vector<experiment>& experiments();

/// Returns the experiment with this id, or a null pointer.
const experiment* find_experiment(std::string_view id);

/// Returns the candidate with the smallest edit distance to `word`.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

std::vector<experiment> queue_rows();
std::vector<experiment> ffq_rows();
std::vector<experiment> combine_rows();
std::vector<experiment> fork_rows();
std::vector<experiment> gpu_rows();
std::vector<experiment> simulated_rows();
std::vector<experiment> syscall_rows();
std::vector<experiment> build_rows();

}  // namespace muster::bench
