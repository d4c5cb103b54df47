// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/events.hpp"

#include <fmt/format.h>

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace muster::bench {
namespace {

constexpr std::array<std::uint64_t, 2> kinds{PERF_COUNT_HW_CACHE_MISSES, PERF_COUNT_HW_STALLED_CYCLES_BACKEND};
constexpr std::array<const char*, 2> names{"cache misses", "stalled cycles"};

/// A counter of this thread and of those it makes from now on; -1 and errno when there is none.
int open_counter(std::uint64_t kind) {
  perf_event_attr wanted;
  std::memset(&wanted, 0, sizeof wanted);
  wanted.size = sizeof wanted;
  wanted.type = PERF_TYPE_HARDWARE;
  wanted.config = kind;
  wanted.exclude_kernel = 1;
  wanted.exclude_hv = 1;
  wanted.inherit = 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0UL));
}

}  // namespace

hardware_events::hardware_events(bool wanted) {
  for (std::size_t i = 0; wanted && i < kinds.size(); ++i) files_[i] = open_counter(kinds[i]);
}

hardware_events::~hardware_events() {
  for (const int file : files_) {
    if (file >= 0) close(file);
  }
}

void hardware_events::add_to(outcome& result, std::uint64_t operations) const {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    std::uint64_t count = 0;
    if (files_[i] < 0 || read(files_[i], &count, sizeof count) != sizeof count) continue;
    result.detail[names[i]] = static_cast<double>(count) / static_cast<double>(operations);
  }
}

std::string hardware_events::why_not() {
  const int file = open_counter(PERF_COUNT_HW_CACHE_MISSES);
  if (file >= 0) {
    close(file);
    return {};
  }
  if (errno == ENOENT || errno == EOPNOTSUPP || errno == ENODEV) {
    return "the processor's counters are not visible here, as in most virtual machines";
  }
  if (errno == EACCES || errno == EPERM) return "the kernel does not allow it (perf_event_paranoid, or a container)";
  return fmt::format("perf_event_open: {}", std::strerror(errno));
}

}  // namespace muster::bench
