// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// result.hpp: the result of one experiment, as a table of medians and in the result file (schema/result-2.schema.json).
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

struct point {
  abscissa x{};
  std::vector<double> samples{};
  bool checked = true;
  std::uint64_t items = 0;            // per run
  std::vector<double> cpu_seconds{};  // per run
  std::uint64_t peak_memory = 0;      // the maximum over the runs
  std::uint64_t out_of_order = 0;     // over all runs, for series that promise no order
  std::map<std::string, std::vector<double>> detail{};

  /// A detail of the runs; empty if they have not reported it.
  std::vector<double> detail_values(const std::string& what) const;
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
  std::string setting{};
  axis x{};
  axis y{};
  std::vector<series> lines{};

  const series* named(const std::string& name) const;
  /// The median of the series `name` at that place; empty if it was not measured there, or a run failed.
  std::optional<double> at(const std::string& name, const abscissa& where) const;
  /// Another chart of the same runs.
  result derived_chart(std::string_view suffix, std::string its_title, axis its_y) const;
  /// The same, for a detail of the runs.
  result derived_chart(std::string_view suffix, std::string its_title, axis its_y, const std::string& detail) const;
};

double median(std::vector<double> samples);

nlohmann::json to_json(const result& r);

/// JSON with each array of numbers or texts on one line.
std::string text_of(const nlohmann::json& document);

/// A file that always holds a whole document: each write replaces the last one atomically. The constructor creates the
/// temporary file beside it, so that it throws std::runtime_error before, not after, hours of measuring.
class result_file {
 public:
  explicit result_file(std::filesystem::path path);
  result_file(const result_file&) = delete;
  result_file& operator=(const result_file&) = delete;
  ~result_file();

  void write(const nlohmann::json& content);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
};

std::string table(const result& r);

}  // namespace muster::bench
