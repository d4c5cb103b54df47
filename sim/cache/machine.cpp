// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "sim/cache/machine.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <set>
#include <stdexcept>

namespace muster_simulation {
namespace {

using json = nlohmann::ordered_json;

struct time_field {
  const char* name;
  picoseconds machine::* member;
};
constexpr std::array<time_field, 15> times{{{"l1", &machine::in_l1},
                                            {"l2", &machine::in_l2},
                                            {"l3", &machine::in_l3},
                                            {"in_cluster", &machine::in_cluster},
                                            {"elsewhere", &machine::elsewhere},
                                            {"memory", &machine::in_memory},
                                            {"read_modify_write", &machine::read_modify_write},
                                            {"fence", &machine::fence},
                                            {"heavy_fence", &machine::heavy_fence},
                                            {"pause", &machine::pause},
                                            {"yield", &machine::yield},
                                            {"fiber_switch", &machine::fiber_switch},
                                            {"sleep", &machine::sleep},
                                            {"call", &machine::call},
                                            {"wake", &machine::wake}}};

struct size_field {
  const char* name;
  std::size_t machine::* member;
};
constexpr std::array<size_field, 3> sizes{{{"l1", &machine::l1}, {"l2", &machine::l2}, {"l3", &machine::l3}}};

constexpr double longest_ns = 1e9;

/// One object of the file; a key that is not read is an error.
class section {
 public:
  section(const json& from, std::string name) : from_(from), name_(std::move(name)) {
    if (!from_.is_object()) refuse("is not an object");
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument(fmt::format("{} {}", name_.empty() ? "it" : "'" + name_ + "'", why));
  }
  const json& at(const char* key) {
    known_.insert(key);
    const auto found = from_.find(key);
    if (found == from_.end()) refuse(fmt::format("lacks '{}'", key));
    return *found;
  }
  double number(const char* key, double least, double most) {
    const json& value = at(key);
    if (!value.is_number() || value.get<double>() < least || value.get<double>() > most)
      refuse(fmt::format("has {} for '{}'; it must be a number from {} to {}", value.dump(), key, least, most));
    return value.get<double>();
  }
  unsigned count(const char* key, unsigned most) {
    const double value = number(key, 1, most);
    if (value != std::floor(value)) refuse(fmt::format("has {} for '{}'; it must be a whole number", value, key));
    return static_cast<unsigned>(value);
  }
  void no_others() const {
    for (const auto& [key, value] : from_.items())
      if (!known_.contains(key)) refuse(fmt::format("has '{}', which means nothing here", key));
  }

 private:
  const json& from_;
  const std::string name_;
  std::set<std::string, std::less<>> known_;
};

machine parse(const json& text) {
  machine m;
  section all(text, "");
  const json& name = all.at("name");
  if (!name.is_string() || name.get<std::string>().empty()) all.refuse("has no text for 'name'");
  m.name = name;
  const json& sources = all.at("sources");
  if (!sources.is_array() || sources.empty()) all.refuse("has no list of texts for 'sources': say where it is from");
  for (const json& source : sources) {
    if (!source.is_string()) all.refuse("has something else than a text in 'sources'");
    m.sources.push_back(source);
  }
  m.clusters = all.count("clusters", machine::most_cores);
  m.cores_per_cluster = all.count("cores_per_cluster", machine::most_cores);
  m.threads_per_core = all.count("threads_per_core", 8);
  if (m.cores() > machine::most_cores)
    all.refuse(fmt::format("has {} cores; the simulation has room for {}", m.cores(), machine::most_cores));
  m.line = all.count("line_bytes", 4096);
  if (!std::has_single_bit(m.line)) all.refuse(fmt::format("has lines of {} bytes; ask for a power of two", m.line));
  m.store_buffer = all.count("store_buffer", 1024);

  section caches(all.at("kib"), "kib");
  for (const size_field& field : sizes) m.*field.member = std::size_t{caches.count(field.name, 1U << 30U)} << 10U;
  caches.no_others();
  if (m.l2 < m.l1) caches.refuse("has an l2 that is smaller than l1, and must hold what l1 holds");

  section ns(all.at("ns"), "ns");
  for (const time_field& field : times)
    m.*field.member = static_cast<picoseconds>(std::llround(ns.number(field.name, 0, longest_ns) * 1000));
  ns.no_others();
  if (m.pause == 0 || m.yield == 0 || m.fiber_switch == 0)
    ns.refuse("has 0 for 'pause', 'yield' or 'fiber_switch', and a thread that waits must get older");
  if (m.in_l1 == 0) ns.refuse("has 0 for 'l1', and an operation takes some time");
  all.no_others();
  return m;
}

}  // namespace

machine read_machine(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::invalid_argument(fmt::format("cannot read the machine file {}", file.string()));
  try {
    return parse(json::parse(in));
  } catch (const json::exception& e) {
    throw std::invalid_argument(fmt::format("{} is not JSON: {}", file.string(), e.what()));
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(fmt::format("{} does not describe a machine: {}", file.string(), e.what()));
  }
}

std::filesystem::path known_machines() { return MUSTER_SIM_MACHINES; }

std::string machine_text(const machine& m) {
  json out{{"name", m.name},
           {"sources", m.sources},
           {"clusters", m.clusters},
           {"cores_per_cluster", m.cores_per_cluster},
           {"threads_per_core", m.threads_per_core},
           {"line_bytes", m.line},
           {"store_buffer", m.store_buffer}};
  for (const size_field& field : sizes) out["kib"][field.name] = m.*field.member >> 10U;
  for (const time_field& field : times) out["ns"][field.name] = static_cast<double>(m.*field.member) / 1000;
  return out.dump(2) + "\n";
}

}  // namespace muster_simulation
