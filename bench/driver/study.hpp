// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// study.hpp: an experiment prepared for this machine, and the loop that measures it.
#pragma once

#include "driver/contender.hpp"
#include "driver/placement.hpp"
#include "driver/result.hpp"

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace muster::bench {

enum class profile { smoke, quick, full };

/// How much to measure.
struct effort {
  profile kind = profile::quick;
  unsigned samples = 3;
  double seconds = 0.15;              // per run, reached by choosing the number of items
  std::uint64_t least_items = 20000;  // per run; the choice starts with it
};

effort effort_of(profile kind);

/// One point of one line: a contender at one place on the x axis.
struct configuration {
  std::size_t line = 0;  // index into result::lines
  abscissa x;
  std::string contender;
  nlohmann::json spec;  // for --dry-run
  std::function<outcome(std::uint64_t items)> run;
  std::uint64_t least_items = 0;  // for a steady state, e.g. several laps of a large ring
  std::uint64_t full_items = 0;   // in the full profile, instead of the effort's time, unless that takes over 4 s
  std::uint64_t fixed_items = 0;  // when not 0, nothing is calibrated
  bool once = false;              // the outcome depends neither on chance nor on other load: one sample
  bool maybe_slow = false;        // an item may take a millisecond: the effort's least number of items is far too many
  std::uint64_t few = 200;        // the least number of items that may be slow
};

struct study {
  result head;  // everything but the points, with all lines
  std::vector<configuration> configurations;
  std::string same_runs;  // if not empty, studies with this name have these configurations, and share their outcomes
  std::function<double(const outcome&)> value;       // the sample of an outcome
  std::function<void(std::vector<result>&)> finish;  // gets the measured chart; may add others from the same runs

  /// Adds a line and returns its index.
  std::size_t add_line(const contender& c, std::string role = {}, std::string note = {});
};

/// One line on the terminal that shows the progress of the measurement. Silent if stderr is not a terminal.
class progress {
 public:
  explicit progress(std::size_t steps) : steps_(std::max<std::size_t>(steps, 1)), shown_(isatty(STDERR_FILENO) != 0) {}
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() { clear(); }

  void step(const std::string& experiment, const std::string& what) {
    ++done_;
    if (!shown_) return;
    const std::size_t full = std::min(done_ * width / steps_, width);
    fmt::print(stderr, "\r\033[K[{:#<{}}{:.<{}}] {:3}%  {}  {:.40}", "", full, "", width - full,
               std::min<std::size_t>(done_ * 100 / steps_, 100), experiment, what);
    std::fflush(stderr);
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  static constexpr std::size_t width = 24;
  std::size_t steps_;
  std::size_t done_ = 0;
  bool shown_;
};

/// Items per second in millions.
double mega_items(const outcome& o);

/// The outcomes of the runs that several studies share, by configuration, in sampling order.
using shared_outcomes = std::map<std::string, std::vector<std::vector<outcome>>>;

/// Calibrates every configuration, then measures all of them `samples` times, each round in a random order.
/// Configurations that do not depend on chance run first, on all processors at once.
std::vector<result> measure(study s, const effort& e, std::mt19937_64& random, progress& bar, shared_outcomes& shared);

/// The number of runs that measure() makes, calibrations counted once.
std::size_t runs(const study& s, const effort& e);

}  // namespace muster::bench
