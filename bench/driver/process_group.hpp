// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// process_group.hpp: the processes of one run, as thread_group.hpp has its threads: placed, started together, timed
// from the start to the end of the last one.
#pragma once

#include "driver/counters.hpp"
#include "driver/outcome.hpp"
#include "driver/placement.hpp"
#include "sim/workloads/wait.hpp"

#include <muster/base/detail/mapped_region.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <vector>

namespace muster::bench {

inline constexpr unsigned most_processes = 64;

/// An object that processes share with the one that has forked them.
template <class T>
class in_common {
 public:
  template <class... Arguments>
  explicit in_common(Arguments... arguments)
      : memory_(mapped_region::make_anonymous(
            sizeof(T), [&](unsigned char* at) { std::construct_at(reinterpret_cast<T*>(at), arguments...); })) {}
  T& operator*() const { return *reinterpret_cast<T*>(memory_.start()); }
  T* operator->() const { return &**this; }

 private:
  mapped_region memory_;
};

/// Runs `body(index, line)` in `pus.size()` processes; each body prepares, calls `line.arrive_and_wait()` once, then
/// works. `forget` is called here when all have been forked. Fills seconds, CPU seconds and the error.
inline outcome run_processes(const std::vector<int>& pus, const std::function<void(unsigned, start_line&)>& body,
                             const std::function<void()>& forget) {
  using clock = std::chrono::steady_clock;
  struct state {
    explicit state(unsigned processes) : line(processes) {}
    start_line line;
    std::array<std::atomic<bool>, most_processes> ok{};
    std::array<clock::time_point, most_processes> ends{};
  };
  const auto processes = static_cast<unsigned>(pus.size());
  outcome result;
  if (processes > most_processes) {
    result.error = "too many processes";
    return result;
  }
  const in_common<state> common(processes);
  std::vector<pid_t> children;
  for (unsigned me = 0; me < processes; ++me) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted run leaves no process behind
    try {
      pin_this_thread(pus[me]);
      body(me, common->line);
      common->ends[me] = clock::now();
      common->ok[me].store(true, std::memory_order_release);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  forget();
  common->line.wait_for_all();
  const clock::time_point begin = clock::now();
  common->line.open();
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (unsigned me = 0; me < processes; ++me) {
    if (!common->ok[me].load(std::memory_order_acquire)) result.error = "a process has failed";
    result.seconds = std::max(result.seconds, std::chrono::duration<double>(common->ends[me] - begin).count());
  }
  result.cpu_seconds = cpu_seconds_of_children();
  return result;
}

}  // namespace muster::bench
