// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/result.hpp"

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace muster::bench {
namespace {

using nlohmann::json;

json to_json(const point& p) {
  json j{{"x", p.x},         {"samples", p.samples},         {"checked", p.checked},
         {"items", p.items}, {"cpu_seconds", p.cpu_seconds}, {"peak_memory", p.peak_memory}};
  if (p.out_of_order != 0) j["out_of_order"] = p.out_of_order;
  if (!p.detail.empty()) j["detail"] = p.detail;
  return j;
}

json to_json(const series& s) {
  json j{{"name", s.name}, {"role", s.role}, {"note", s.note}, {"points", json::array()}};
  if (!s.failed.empty()) j["failed"] = s.failed;
  for (const point& p : s.points) j["points"].push_back(to_json(p));
  return j;
}

/// Objects, and arrays of objects, are indented one level deeper than their container; other arrays are one line.
void lay_out(std::string& to, const json& value, std::size_t depth) {
  const bool several_lines =
      value.is_object() || (value.is_array() && std::any_of(value.begin(), value.end(),
                                                            [](const json& one) { return one.is_structured(); }));
  if (!several_lines || value.empty()) {
    to += value.dump();
    return;
  }
  to += value.is_object() ? '{' : '[';
  const char* separator = "\n";
  for (const auto& [key, one] : value.items()) {
    to += separator + std::string(depth + 1, ' ');
    if (value.is_object()) to += json(key).dump() + ": ";
    lay_out(to, one, depth + 1);
    separator = ",\n";
  }
  to += '\n' + std::string(depth, ' ');
  to += value.is_object() ? '}' : ']';
}

/// The median of a series at x, if all its runs there passed.
std::optional<double> median_at(const series& s, const abscissa& x) {
  const point* p = s.at(x);
  if (p == nullptr || !p->checked || p->samples.empty()) return std::nullopt;
  return median(p->samples);
}

std::string text(const abscissa& x) { return x.is_string() ? x.get<std::string>() : x.dump(); }

/// Three significant digits.
std::string number(double v) {
  if (v >= 100 || v == 0) return fmt::format("{:.0f}", v);
  return fmt::format("{:.{}f}", v, v >= 10 ? 1 : v >= 0.1 ? 2 : 4);
}

std::string cell(const series& s, const abscissa& x) {
  const point* p = s.at(x);
  if (p == nullptr) return "";
  if (!p->checked) return "FAILED";
  return p->samples.empty() ? "-" : number(median(p->samples));
}

}  // namespace

const point* series::at(const abscissa& x) const {
  const auto found = std::find_if(points.begin(), points.end(), [&](const point& p) { return p.x == x; });
  return found == points.end() ? nullptr : &*found;
}

std::vector<double> point::detail_values(const std::string& what) const {
  const auto found = detail.find(what);
  return found == detail.end() ? std::vector<double>{} : found->second;
}

result result::derived_chart(std::string_view suffix, std::string its_title, axis its_y) const {
  result r = *this;
  r.experiment += suffix;
  r.title = std::move(its_title);
  r.y = std::move(its_y);
  return r;
}

result result::derived_chart(std::string_view suffix, std::string its_title, axis its_y,
                             const std::string& detail) const {
  result r = derived_chart(suffix, std::move(its_title), std::move(its_y));
  for (series& line : r.lines)
    for (point& p : line.points) p.samples = p.detail_values(detail);
  return r;
}

const series* result::named(const std::string& name) const {
  const auto found = std::find_if(lines.begin(), lines.end(), [&](const series& s) { return s.name == name; });
  return found == lines.end() ? nullptr : &*found;
}

std::optional<double> result::at(const std::string& name, const abscissa& where) const {
  const series* s = named(name);
  return s == nullptr ? std::nullopt : median_at(*s, where);
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

nlohmann::json to_json(const result& r) {
  json j{{"experiment", r.experiment},
         {"part", r.part},
         {"source", r.source},
         {"title", r.title},
         {"setting", r.setting},
         {"x", {{"name", r.x.name}, {"unit", r.x.unit}, {"scale", r.x.scale}}},
         {"y", {{"name", r.y.name}, {"unit", r.y.unit}, {"better", r.y.better}}},
         {"series", json::array()}};
  for (const series& s : r.lines) j["series"].push_back(to_json(s));
  return j;
}

std::string text_of(const nlohmann::json& document) {
  std::string text;
  lay_out(text, document, 0);
  return text + '\n';
}

result_file::result_file(std::filesystem::path path)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}.tmp", path_.string(), getpid())) {
  if (std::filesystem::is_directory(path_)) {
    throw std::runtime_error(fmt::format("--json: '{}' is a directory; name a file", path_.string()));
  }
  errno = 0;
  if (!std::ofstream(temporary_)) {
    throw std::runtime_error(fmt::format("--json: cannot write beside '{}': {}", path_.string(), std::strerror(errno)));
  }
}

result_file::~result_file() {
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void result_file::write(const nlohmann::json& content) {
  std::ofstream out(temporary_);
  out << text_of(content);
  out.close();
  if (!out) throw std::runtime_error(fmt::format("--json: writing '{}' failed (disk full?)", temporary_.string()));
  std::filesystem::rename(temporary_, path_);
}

std::string table(const result& r) {
  std::vector<abscissa> xs;
  std::size_t names = std::max<std::size_t>(10, r.x.name.size() + 2);
  std::size_t cells = 9;
  for (const series& s : r.lines) {
    names = std::max(names, s.name.size() + 2);
    for (const point& p : s.points) {
      if (std::find(xs.begin(), xs.end(), p.x) == xs.end()) xs.push_back(p.x);
      cells = std::max(cells, text(p.x).size() + 2);
    }
  }
  std::string out = fmt::format("\n{}: {}\n  {}{}{} ({} is better), medians; {}\n", r.experiment, r.title, r.y.name,
                                r.y.unit.empty() ? "" : ", ", r.y.unit, r.y.better, r.setting);
  if (r.lines.empty()) return out;
  out += fmt::format("  {:<{}}{:<9}", r.x.name, names, "role");
  for (const abscissa& x : xs) out += fmt::format("{:>{}}", text(x), cells);
  out += '\n';
  for (const series& s : r.lines) {
    out += fmt::format("  {:<{}}{:<9}", s.name, names, s.role);
    for (const abscissa& x : xs) out += fmt::format("{:>{}}", cell(s, x), cells);
    out += '\n';
    if (!s.failed.empty()) out += fmt::format("    failed {}\n", s.failed);
    std::uint64_t strays = 0;
    for (const point& p : s.points) strays += p.out_of_order;
    if (strays != 0) out += fmt::format("    {} items out of order, which this queue does not exclude\n", strays);
    if (s.points.empty()) out += fmt::format("    not measured: {}\n", s.note);
  }
  return out;
}

}  // namespace muster::bench
