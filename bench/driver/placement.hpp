// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// placement.hpp: the machine's processing units (hardware threads) and caches, as hwloc sees them, and the unit that
// each thread of a run is pinned to.
//
//   spread       round robin over the allowed units, one per core first: producers, then consumers
//   same-thread  all on one unit (the paper's "same HT")
//   sibling      producers on one unit, consumers on the other unit of the same core
//   same-l3      producers on one core, consumers on other cores under the same L3
//   other        producers under one L3, consumers under another
//   none         the kernel decides
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

enum class policy { spread, same_thread, sibling, same_l3, other, none };

std::string_view to_string(policy p);

/// Throws std::invalid_argument, naming the policies, if there is none of that name.
policy policy_from(std::string_view name);

/// Numbers from a list such as "0,2-5". Throws std::invalid_argument if the text is not one.
std::vector<int> parse_cpu_list(std::string_view text);

class placement {
 public:
  /// Uses the units this process may run on, or those in `cpus` if it is not empty.
  /// Throws std::invalid_argument if a unit is not available, or the machine cannot satisfy the policy.
  placement(policy wanted, const std::vector<int>& cpus);

  /// Units for a run, producers first; -1 means not pinned.
  std::vector<int> assign(unsigned producers, unsigned consumers) const;

  /// Another placement on the same units. Throws std::invalid_argument if the machine cannot satisfy the policy.
  placement with(policy wanted) const { return placement(wanted, spread_); }

  /// Units that runs may use: at least 1.
  unsigned units() const { return static_cast<unsigned>(spread_.size()); }
  policy chosen() const { return policy_; }
  bool pinned() const { return why_not_.empty(); }
  /// Why runs are not pinned; empty if they are.
  const std::string& why_not() const { return why_not_; }

 private:
  policy policy_;
  std::vector<int> spread_;     // one unit per core first, then the second units, in the machine's order
  std::vector<int> producers_;  // units of producers and of consumers under policies other than spread
  std::vector<int> consumers_;
  std::string why_not_;
};

/// Pins the calling thread; -1 leaves it unpinned. Returns false if that is refused.
bool pin_this_thread(int unit);

/// Lets the calling thread, and threads that it starts from now on, run on any of these units. A list that is empty,
/// contains -1 or is refused changes nothing.
void share_units(const std::vector<int>& units);

struct unit {
  int number;  // the operating system's number
  int core;    // equal for the hardware threads of one core
  int l3;      // equal for units under one L3 (or under one package where no L3 is reported)
};

/// The units this process may run on, in the machine's order. Never empty.
std::vector<unit> allowed_units();

unsigned core_count();
unsigned unit_count();

/// L1 for data, L2 and L3 of the first unit.
struct cache {
  std::uint64_t size = 0;  // bytes; 0: none, or unknown
  int sharers = 0;         // units
};
std::array<cache, 3> caches();

/// For example "L1d 48 KiB, L2 2 MiB, L3 32 MiB shared by 8".
std::string describe_caches();

}  // namespace muster::bench
