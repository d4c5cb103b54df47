// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/topology.hpp"

#include "driver/placement.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace muster::bench {
namespace {

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
  constexpr std::array names{"L1d", "L2", "L3"};
  const std::array<cache, 3> all = caches();
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].size == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", names[i], size_text(all[i].size));
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
