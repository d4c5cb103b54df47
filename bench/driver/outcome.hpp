// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// outcome.hpp: the outcome of one run of one contender, and the separate process that it runs in.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace muster::bench {

struct outcome {
  std::string error{};            // empty if the run's own check passed
  double seconds = 0;             // from the opening of the start line to the end of the last thread
  double cpu_seconds = 0;         // of all threads, over the same time
  std::uint64_t peak_memory = 0;  // most bytes resident, including the queue
  std::uint64_t items = 0;
  std::uint64_t out_of_order = 0;  // reported for queues that promise no order, an error in all others
  std::map<std::string, double> detail{};

  /// A detail of the run; 0 if the run has not reported it.
  double detail_value(const std::string& what) const {
    const auto found = detail.find(what);
    return found == detail.end() ? 0 : found->second;
  }
};

/// Runs `body` in a forked child. A crash, an uncaught exception or a timeout becomes the outcome's error. So a broken
/// contender does not lose the others' results, and peak memory belongs to one run. Start it only while the caller has
/// one thread.
class isolated_run {
 public:
  explicit isolated_run(const std::function<outcome()>& body);
  /// Call it once. Ends a child that takes longer than the limit from now on.
  outcome wait(double limit_seconds);
  /// Readable when the outcome is available.
  int descriptor() const { return out_; }

 private:
  int child_ = -1;
  int out_ = -1;
  std::string why_not_;  // why it was not started
};

inline outcome run_isolated(const std::function<outcome()>& body, double limit_seconds) {
  return isolated_run(body).wait(limit_seconds);
}

}  // namespace muster::bench
