// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <hwloc.h>
#include <sched.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>

namespace muster::bench {
namespace {

constexpr std::array<std::pair<policy, std::string_view>, 6> policy_names{{{policy::spread, "spread"},
                                                                           {policy::same_thread, "same-thread"},
                                                                           {policy::sibling, "sibling"},
                                                                           {policy::same_l3, "same-l3"},
                                                                           {policy::other, "other"},
                                                                           {policy::none, "none"}}};

int number(std::string_view text, std::string_view whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw std::invalid_argument(fmt::format("'{}' is not a list of CPUs; write for example 0,2-5", whole));
  }
  return value;
}

/// All units whose `group` equals that of the first (`same`), or differs from it.
template <class Group>
std::vector<int> units_where(const std::vector<unit>& units, Group group, bool same) {
  std::vector<int> found;
  for (const unit& u : units) {
    if ((group(u) == group(units.front())) == same) found.push_back(u.number);
  }
  return found;
}

/// Loaded once, in the main thread, before any run is forked; read-only afterwards.
hwloc_topology_t machine() {
  static const hwloc_topology_t loaded = [] {
    hwloc_topology_t t = nullptr;
    if (hwloc_topology_init(&t) != 0 || hwloc_topology_load(t) != 0) {
      throw std::runtime_error("hwloc cannot read this machine's topology");
    }
    return t;
  }();
  return loaded;
}

int ancestor(hwloc_obj_t pu, hwloc_obj_type_t type) {
  const hwloc_obj_t found = hwloc_get_ancestor_obj_by_type(machine(), type, pu);
  return found == nullptr ? -1 : static_cast<int>(found->logical_index);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t mib = 1024 * 1024;
  return bytes >= mib && bytes % mib == 0 ? fmt::format("{} MiB", bytes / mib) : fmt::format("{} KiB", bytes / 1024);
}

}  // namespace

std::string_view to_string(policy p) {
  return std::find_if(policy_names.begin(), policy_names.end(), [p](const auto& n) { return n.first == p; })->second;
}

policy policy_from(std::string_view name) {
  for (const auto& [p, text] : policy_names) {
    if (text == name) return p;
  }
  throw std::invalid_argument(
      fmt::format("unknown placement '{}'; choose spread, same-thread, sibling, same-l3, other or none", name));
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  std::string_view rest = text;
  for (;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dash = part.find('-');
    const int first = number(part.substr(0, dash), text);
    const int last = dash == std::string_view::npos ? first : number(part.substr(dash + 1), text);
    if (last < first || last - first > 65535) {
      throw std::invalid_argument(fmt::format("'{}' is not a range of CPUs; write for example 2-5", part));
    }
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

placement::placement(policy wanted, const std::vector<int>& cpus) : policy_(wanted) {
  std::vector<unit> units = allowed_units();
  if (!cpus.empty()) {
    std::vector<int> allowed;
    for (const unit& u : units) allowed.push_back(u.number);
    for (const int cpu : cpus) {
      if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end()) {
        throw std::invalid_argument(
            fmt::format("--cpus: this process may not run on CPU {}; it may use {}", cpu, fmt::join(allowed, ",")));
      }
    }
    std::erase_if(units, [&](const unit& u) { return std::find(cpus.begin(), cpus.end(), u.number) == cpus.end(); });
  }
  std::map<int, int> seen;  // units of this core already placed
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t i = 0; i < units.size(); ++i) order.emplace_back(seen[units[i].core]++, i);
  std::sort(order.begin(), order.end());
  for (const auto& [round, index] : order) spread_.push_back(units[index].number);

  const int first = units.front().number;
  producers_ = {first};
  const auto core = [](const unit& u) { return u.core; };
  const auto l3 = [](const unit& u) { return u.l3; };
  if (wanted == policy::same_thread) consumers_ = {first};
  if (wanted == policy::sibling) {
    consumers_ = units_where(units, core, true);
    std::erase(consumers_, first);
    if (consumers_.empty()) {
      throw std::invalid_argument(
          "placement 'sibling' needs two hardware threads on one core, and the CPUs in use "
          "have one each; choose spread, same-thread or same-l3");
    }
  }
  if (wanted == policy::same_l3) {
    std::vector<unit> near = units;
    std::erase_if(near, [&](const unit& u) { return u.l3 != units.front().l3; });
    consumers_ = units_where(near, core, false);
    if (consumers_.empty()) {
      throw std::invalid_argument(
          "placement 'same-l3' needs two cores under one L3, and the CPUs in use have none; "
          "choose spread or same-thread");
    }
  }
  if (wanted == policy::other) {
    consumers_ = units_where(units, l3, false);
    if (consumers_.empty()) {
      throw std::invalid_argument(
          "placement 'other' needs two L3 caches, and the CPUs in use share one; "
          "choose spread or same-l3");
    }
    producers_ = units_where(units, l3, true);
  }

  if (wanted == policy::none) {
    why_not_ = "asked for with --placement none";
  } else {
    cpu_set_t before;
    CPU_ZERO(&before);
    sched_getaffinity(0, sizeof before, &before);
    if (!pin_this_thread(first)) why_not_ = "this process may not set the CPU affinity of its threads";
    sched_setaffinity(0, sizeof before, &before);
  }
}

std::vector<int> placement::assign(unsigned producers, unsigned consumers) const {
  std::vector<int> plan(producers + consumers, -1);
  if (!pinned()) return plan;
  for (unsigned i = 0; i < plan.size(); ++i) {
    if (policy_ == policy::spread) {
      plan[i] = spread_[i % spread_.size()];
    } else if (i < producers) {
      plan[i] = producers_[i % producers_.size()];
    } else {
      plan[i] = consumers_[(i - producers) % consumers_.size()];
    }
  }
  return plan;
}

std::vector<unit> allowed_units() {
  const hwloc_bitmap_t own = hwloc_bitmap_alloc();
  const bool known = hwloc_get_cpubind(machine(), own, HWLOC_CPUBIND_PROCESS) == 0;
  std::vector<unit> units;
  for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(machine(), HWLOC_OBJ_PU, pu)) != nullptr;) {
    if (known && hwloc_bitmap_isset(own, pu->os_index) == 0) continue;
    int core = ancestor(pu, HWLOC_OBJ_CORE);
    if (core < 0) core = static_cast<int>(pu->logical_index);
    int l3 = ancestor(pu, HWLOC_OBJ_L3CACHE);
    if (l3 < 0) l3 = ancestor(pu, HWLOC_OBJ_PACKAGE);
    units.push_back({static_cast<int>(pu->os_index), core, l3});
  }
  hwloc_bitmap_free(own);
  if (units.empty()) throw std::runtime_error("hwloc reports no processing unit this process may run on");
  return units;
}

unsigned core_count() { return static_cast<unsigned>(hwloc_get_nbobjs_by_type(machine(), HWLOC_OBJ_CORE)); }

unsigned unit_count() { return static_cast<unsigned>(hwloc_get_nbobjs_by_type(machine(), HWLOC_OBJ_PU)); }

std::array<cache, 3> caches() {
  constexpr std::array levels{HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE};
  std::array<cache, 3> found{};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const hwloc_obj_t at = hwloc_get_next_obj_by_type(machine(), levels[i], nullptr);
    if (at == nullptr || at->attr == nullptr) continue;
    found[i] = {at->attr->cache.size, hwloc_bitmap_weight(at->cpuset)};
  }
  return found;
}

std::string describe_caches() {
  constexpr std::array levels{"L1d", "L2", "L3"};
  const std::array<cache, 3> all = caches();
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].size == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", levels[i], size_text(all[i].size));
    if (all[i].sharers > 1) text += fmt::format(" shared by {}", all[i].sharers);
  }
  return text.empty() ? "unknown" : text;
}

bool pin_this_thread(int number) {
  if (number < 0) return true;
  const hwloc_bitmap_t set = hwloc_bitmap_alloc();
  hwloc_bitmap_only(set, static_cast<unsigned>(number));
  const bool bound = hwloc_set_cpubind(machine(), set, HWLOC_CPUBIND_THREAD) == 0;
  hwloc_bitmap_free(set);
  return bound;
}

void share_units(const std::vector<int>& units) {
  if (units.empty() || std::find(units.begin(), units.end(), -1) != units.end()) return;
  const hwloc_bitmap_t set = hwloc_bitmap_alloc();
  for (const int number : units) hwloc_bitmap_set(set, static_cast<unsigned>(number));
  hwloc_set_cpubind(machine(), set, HWLOC_CPUBIND_THREAD);
  hwloc_bitmap_free(set);
}

}  // namespace muster::bench
