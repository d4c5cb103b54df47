// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// parallelism.hpp: how many threads of this process can currently run at once.
//
// The minimum of three limits: the processors of the machine, the affinity mask of the calling thread, and the CPU
// quota of the process's control groups (versions 1 and 2, including all ancestors).
// std::thread::hardware_concurrency() ignores the quota, which is how containers limit a process. On Windows and macOS
// it is all there is.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#if defined(MUSTER_LINUX)
#include <sched.h>   // sched_getaffinity
#include <unistd.h>  // sysconf

#include <algorithm>  // std::min
#include <cstdio>     // reading /proc and /sys
#include <string>     // paths
#include <vector>     // the affinity mask of machines with many processors
#else
#include <thread>  // std::thread::hardware_concurrency
#endif

namespace muster::inline MUSTER_ABI {

#if defined(MUSTER_LINUX)

namespace detail {

/// Returns the first line of a file, or an empty string if it cannot be read.
inline std::string first_line(const std::string& path) {
  std::string line;
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    char text[256];
    if (std::fgets(text, sizeof text, file) != nullptr) line = text;
    std::fclose(file);
  }
  return line;
}

/// Converts `quota` microseconds per `period` microseconds to processors, rounded up; 0 means no limit.
inline unsigned quota_to_processors(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  const double share = quota / period;
  const auto whole = static_cast<unsigned>(share);
  return std::max(1U, whole < share ? whole + 1 : whole);
}

/// Returns the smallest quota from `group` up to the root of the hierarchy mounted at `mount`; 0 means no limit.
inline unsigned cgroup_limit(const std::string& mount, std::string group, bool version2) {
  unsigned limit = 0;
  for (;;) {
    const std::string place = mount + (group == "/" ? "" : group);
    double quota = 0;
    double period = 0;
    if (version2) {
      // "max 100000" means no limit; sscanf then reads nothing.
      if (std::sscanf(first_line(place + "/cpu.max").c_str(), "%lf %lf", &quota, &period) != 2) quota = 0;
    } else {
      if (std::sscanf(first_line(place + "/cpu.cfs_quota_us").c_str(), "%lf", &quota) != 1) quota = 0;
      if (std::sscanf(first_line(place + "/cpu.cfs_period_us").c_str(), "%lf", &period) != 1) quota = 0;
    }
    const unsigned here = quota_to_processors(quota, period);
    if (here != 0) limit = limit == 0 ? here : std::min(limit, here);
    const std::size_t slash = group.rfind('/');
    if (group.empty() || group == "/" || slash == std::string::npos) return limit;
    group = slash == 0 ? "/" : group.substr(0, slash);
  }
}

/// Returns the quota of this process's control groups in processors; 0 means none. `proc` and `sys` are for tests.
inline unsigned cgroup_parallelism(const std::string& proc = "/proc/self/cgroup",
                                   const std::string& sys = "/sys/fs/cgroup") {
  unsigned limit = 0;
  std::FILE* file = std::fopen(proc.c_str(), "re");
  if (file == nullptr) return 0;
  char text[4096];
  while (std::fgets(text, sizeof text, file) != nullptr) {
    // Lines are "id:controllers:path"; that of version 2 has id 0 and no controllers.
    const std::string line(text, std::string(text).find_last_not_of('\n') + 1);
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first, second - first) + ":";
    std::replace(controllers.begin(), controllers.end(), ':', ',');
    const std::string group = line.substr(second + 1);
    unsigned here = 0;
    if (controllers == ",,") {
      here = cgroup_limit(sys, group, true);
    } else if (controllers.find(",cpu,") != std::string::npos) {
      here = cgroup_limit(sys + "/cpu", group, false);
    }
    if (here != 0) limit = limit == 0 ? here : std::min(limit, here);
  }
  std::fclose(file);
  return limit;
}

/// Returns the number of processors in the calling thread's affinity mask; 0 if unknown.
inline unsigned affinity_parallelism() {
  // The kernel refuses masks smaller than its own, so the size is doubled until it fits.
  for (std::size_t words = 16; words <= 1U << 16U; words *= 2) {
    std::vector<unsigned long> mask(words);
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    if (::sched_getaffinity(0, words * sizeof(unsigned long), set) == 0) {
      unsigned count = 0;
      for (unsigned long bits : mask) count += static_cast<unsigned>(__builtin_popcountl(bits));
      return count;
    }
  }
  return 0;
}

}  // namespace detail

/// Returns how many threads can run at once, at least 1. Queries the system each time (tens of microseconds): call it
/// once.
inline unsigned available_parallelism() {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  unsigned count = online > 0 ? static_cast<unsigned>(online) : 1;
  if (const unsigned affinity = detail::affinity_parallelism(); affinity != 0) count = std::min(count, affinity);
  if (const unsigned quota = detail::cgroup_parallelism(); quota != 0) count = std::min(count, quota);
  return std::max(count, 1U);
}

/// Pins the calling thread to one processor of its affinity mask: the n-th, counted from 0; after the last, the count
/// starts again. Returns false, with no effect, if the kernel refuses; always on Windows and macOS.
inline bool pin_this_thread(unsigned n) {
  for (std::size_t words = 16; words <= 1U << 16U; words *= 2) {
    std::vector<unsigned long> mask(words);
    auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
    const std::size_t bytes = words * sizeof(unsigned long);
    if (::sched_getaffinity(0, bytes, set) != 0) continue;
    const auto allowed = static_cast<unsigned>(CPU_COUNT_S(bytes, set));
    if (allowed == 0) return false;
    unsigned left = n % allowed;
    for (std::size_t cpu = 0; cpu < 8 * bytes; ++cpu) {
      if (!CPU_ISSET_S(cpu, bytes, set) || left-- != 0) continue;
      CPU_ZERO_S(bytes, set);
      CPU_SET_S(cpu, bytes, set);
      return ::sched_setaffinity(0, bytes, set) == 0;
    }
  }
  return false;
}

#else

inline unsigned available_parallelism() {
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : count;
}

inline bool pin_this_thread(unsigned) { return false; }

#endif

}  // namespace muster::inline MUSTER_ABI
