// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/counters.hpp"

#include <fmt/format.h>

#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace muster::bench {
namespace {

struct event {
  const char* name;
  std::uint32_t type;
  std::uint64_t config;
};

constexpr std::uint64_t cache_reads(std::uint64_t level, std::uint64_t result) {
  return level | PERF_COUNT_HW_CACHE_OP_READ << 8U | result << 16U;
}

constexpr std::size_t necessary = 3;  // the first of these
constexpr std::array<event, hardware_events::kinds> events{{
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"cache misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"l1 misses", PERF_TYPE_HW_CACHE, cache_reads(PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"last-level reads", PERF_TYPE_HW_CACHE, cache_reads(PERF_COUNT_HW_CACHE_LL, PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
    {"stalled cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
}};

/// A counter of this thread and of those it starts from now on; -1 and errno if there is none.
int open_counter(const event& e) {
  perf_event_attr wanted;
  std::memset(&wanted, 0, sizeof wanted);
  wanted.size = sizeof wanted;
  wanted.type = e.type;
  wanted.config = e.config;
  wanted.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  wanted.exclude_kernel = 1;
  wanted.exclude_hv = 1;
  wanted.inherit = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0UL));
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; }

double cpu_seconds(int whose) {
  rusage u{};
  getrusage(whose, &u);
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

}  // namespace

hardware_events::hardware_events(bool wanted) {
  for (std::size_t i = 0; wanted && i < kinds; ++i) files_[i] = open_counter(events[i]);
}

hardware_events::~hardware_events() {
  for (const int file : files_) {
    if (file >= 0) close(file);
  }
}

void hardware_events::add_to(outcome& result, std::uint64_t operations) const {
  struct {
    std::uint64_t count, enabled, running;
  } now{};
  for (std::size_t i = 0; i < kinds; ++i) {
    if (files_[i] < 0 || read(files_[i], &now, sizeof now) != sizeof now || now.running == 0) continue;
    const double counted = static_cast<double>(now.running) / static_cast<double>(now.enabled);
    result.detail[events[i].name] = static_cast<double>(now.count) / counted / static_cast<double>(operations);
  }
}

std::string hardware_events::why_not() {
  std::size_t opened = 0;
  for (int file = 0; opened != necessary && (file = open_counter(events[opened])) >= 0; ++opened) close(file);
  if (opened == necessary) return {};
  if (errno == ENOENT || errno == EOPNOTSUPP || errno == ENODEV) {
    return "the processor's counters are not visible here, as in most virtual machines";
  }
  if (errno == EACCES || errno == EPERM) return "the kernel does not allow it (perf_event_paranoid, or a container)";
  return fmt::format("perf_event_open: {}", std::strerror(errno));
}

double cpu_seconds() { return cpu_seconds(RUSAGE_SELF); }
double cpu_seconds_of_children() { return cpu_seconds(RUSAGE_CHILDREN); }

void reset_peak_memory() {
  // The value 5 resets VmHWM (see proc(5)). If the kernel refuses, the peak remains that since the process began.
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
