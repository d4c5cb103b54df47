// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// System calls of code in a sandbox: asked for, or made by code that knows nothing of it.
#include "driver/calls.hpp"

#include <muster/syscall/sandbox.hpp>

#include <sched.h>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {
namespace {

/// Each caller is a job, and so a fiber of the inside's thread.
template <bool Trapped>
outcome run_sandbox(const call_spec& spec) {
  using clock = std::chrono::steady_clock;
  constexpr std::uint64_t first_calls = 16;  // of each caller, not timed
  const std::int64_t right = ::getppid();
  const auto caller = [right](std::uint64_t calls) {
    return [right, calls](inside& in) -> std::uint64_t {
      std::uint64_t wrong = 0;
      for (std::uint64_t n = calls; n != 0; --n) {
        if constexpr (Trapped) wrong += ::syscall(SYS_getppid) != right ? 1U : 0U;
        else wrong += in.getppid() != right ? 1U : 0U;
      }
      return wrong;
    };
  };

  share_units({spec.pus.back()});  // the broker's threads
  sandbox box(muster::policy{}, {.jobs = spec.fibers, .calls = spec.fibers});
  if (const int unit = spec.pus.front(); unit >= 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(unit), &one);
    ::sched_setaffinity(box.process(), sizeof one, &one);
  }
  std::uint64_t wrong = 0;
  const auto run_all = [&](auto calls_of_fiber) {
    std::vector<sandbox::job<std::uint64_t>> jobs;
    jobs.reserve(spec.fibers);
    for (unsigned f = 0; f < spec.fibers; ++f) jobs.push_back(box.submit(caller(calls_of_fiber(f))));
    for (auto& one : jobs) wrong += one.get().value();
  };
  run_all([](unsigned) { return first_calls; });
  outcome result;
  const clock::time_point begin = clock::now();
  run_all([&](unsigned fiber) { return calls_of(spec, fiber); });
  result.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  result.items = spec.items;

  box.stop();  // its processor time counts when it has ended
  std::uint64_t made = 0;
  for (const auto& one : box.usage().by_call)
    if (std::string_view(one.name) == "getppid") made = one.calls;
  result.cpu_seconds = cpu_seconds() + cpu_seconds_of_children();
  if (made != spec.items + first_calls * spec.fibers)
    result.error = std::to_string(made) + " calls were made, and others asked for";
  if (wrong != 0) result.error = std::to_string(wrong) + " calls returned what getppid() does not";
  return result;
}

}  // namespace

void add_sandbox_calls(catalogue& to) {
  contender c;
  c.name = "sandbox";
  c.family = "muster";
  c.role = "ours";
  c.note = "muster::inside::getppid()";
  c.fibers = 64;
  c.call_between = run_sandbox<false>;
  to.all.push_back(c);

  c.name = "sandbox, unmodified code";
  c.note = "the system call is trapped, and becomes one of muster::inside";
  c.call_between = run_sandbox<true>;
  to.all.push_back(c);
}

}  // namespace muster::bench
