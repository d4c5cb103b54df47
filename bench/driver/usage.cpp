// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/usage.hpp"

#include <sys/resource.h>
#include <fstream>
#include <string>

namespace muster::bench {
namespace {

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

double cpu_seconds(int whose) {
  rusage u{};
  getrusage(whose, &u);
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

}  // namespace

double cpu_seconds() { return cpu_seconds(RUSAGE_SELF); }
double cpu_seconds_of_children() { return cpu_seconds(RUSAGE_CHILDREN); }

void reset_peak_memory() {
  // The value 5 resets VmHWM (see proc(5)). A kernel that refuses leaves the peak since the process began.
  std::ofstream("/proc/self/clear_refs") << "5";
}

std::uint64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<std::uint64_t>(u.ru_maxrss) * 1024;
}

}  // namespace muster::bench
