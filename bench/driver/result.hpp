// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// result.hpp: what one experiment yields, and the result file (schema 1).
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

/// A place on the x axis: a number, or the name of a category.
using abscissa = nlohmann::json;

struct axis {
  std::string name{};
  std::string unit{};
  std::string scale{};   // x only: log2, linear or category
  std::string better{};  // y only: higher or lower
};

/// A promise about medians: ours at x against the best checked median of role "peer" there, or against one series.
/// at_least: ours divided by it where higher is better, and the other way round where lower is better.
/// at_most: the time of ours divided by the time of the other.
struct bar {
  std::string ours{};
  std::string against = "peer";
  abscissa x{};
  std::optional<abscissa> x_against{};  // where the other is taken from, when not from the same x
  std::optional<double> at_least{};
  std::optional<double> at_most{};
  std::string note{};
};

struct point {
  abscissa x{};
  std::vector<double> samples{};
  bool checked = true;
  std::uint64_t items = 0;            // per run
  std::vector<double> cpu_seconds{};  // per run
  std::uint64_t peak_memory = 0;      // of the hungriest run
  std::uint64_t out_of_order = 0;     // over all runs, for series that promise no order
  std::map<std::string, std::vector<double>> detail{};

  /// What the runs have told beside their value; nothing when they have not.
  std::vector<double> told(const std::string& what) const;
};

struct series {
  std::string name{};
  std::string role{};
  std::string note{};
  std::string failed{};
  std::vector<point> points{};

  const point* at(const abscissa& x) const;
};

struct result {
  std::string experiment{};
  std::string part = "queue";
  std::string source{};
  std::string title{};
  std::string claim{};
  std::string setting{};
  axis x{};
  axis y{};
  std::vector<bar> bars{};
  std::vector<series> lines{};
  std::string verdict{};      // on the claim of a paper: reproduced, partly or not
  std::string verdict_why{};  // with numbers

  const series* named(const std::string& name) const;
  /// The median of the series so named at that place; nothing when it was not measured there, or was wrong.
  std::optional<double> at(const std::string& name, const abscissa& where) const;
  /// Another chart of the same runs: without claim, verdict and bars.
  result also(std::string_view suffix, std::string its_title, axis its_y) const;
  /// The same, of something that the runs have told beside.
  result also(std::string_view suffix, std::string its_title, axis its_y, const std::string& told) const;
};

double median(std::vector<double> samples);

/// The ratio a bar speaks of; nothing when either side was not measured or failed.
std::optional<double> ratio(const result& r, const bar& b);
bool reached(const bar& b, double ratio);

nlohmann::json to_json(const result& r);

/// A file that appears under its name only when it is complete. The constructor makes the temporary file beside it and
/// throws std::runtime_error when that is not possible, so that nobody measures for an hour in vain.
class result_file {
 public:
  explicit result_file(std::filesystem::path path);
  result_file(const result_file&) = delete;
  result_file& operator=(const result_file&) = delete;
  ~result_file();

  void write(const nlohmann::json& content);

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool written_ = false;
};

}  // namespace muster::bench
