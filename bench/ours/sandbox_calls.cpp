// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// System calls of code in a sandbox: requested explicitly, or made by code that is unaware of the sandbox.
#include "driver/calls.hpp"
#include "driver/pages.hpp"
#include "ours/sandboxed.hpp"

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

constexpr std::uint64_t first_calls = 16;  // of each caller, not timed

/// Each caller is a job, and so a fiber of the inside's thread. make_job(box) returns caller(fiber, calls), which
/// returns a job that makes `calls` calls and returns the number of failures.
template <class MakeJob>
outcome run_callers_inside(const call_spec& spec, muster::policy rules, std::string_view call,
                           const MakeJob& make_job) {
  using clock = std::chrono::steady_clock;
  share_units({spec.pus.back()});  // the broker's threads
  sandbox box(std::move(rules), {.jobs = spec.fibers, .calls = spec.fibers});
  pin_inside(box, {spec.pus.front()});
  const auto caller = make_job(box);
  std::uint64_t wrong = 0;
  const auto run_all = [&](auto calls_of_fiber) {
    std::vector<sandbox::job<std::uint64_t>> jobs;
    jobs.reserve(spec.fibers);
    for (unsigned f = 0; f < spec.fibers; ++f) jobs.push_back(box.submit(caller(f, calls_of_fiber(f))));
    for (auto& one : jobs) wrong += one.get().value();
  };
  run_all([](unsigned) { return first_calls; });
  outcome result;
  const clock::time_point begin = clock::now();
  run_all([&](unsigned fiber) { return calls_of(spec, fiber); });
  result.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  result.items = spec.items;

  box.stop();  // its processor time is counted only after it has ended
  std::uint64_t made = 0;
  for (const auto& one : box.usage().by_call)
    if (std::string_view(one.name) == call) made = one.calls;
  result.cpu_seconds = cpu_seconds() + cpu_seconds_of_children();
  if (made != spec.items + first_calls * spec.fibers)
    result.error = std::to_string(made) + " calls were made, and others asked for";
  if (wrong != 0) result.error = std::to_string(wrong) + " calls did not return what they should";
  return result;
}

template <bool Trapped>
outcome run_getppid(const call_spec& spec) {
  const std::int64_t right = ::getppid();
  return run_callers_inside(spec, {}, "getppid", [right](sandbox&) {
    return [right](unsigned, std::uint64_t calls) {
      return [right, calls](inside& in) -> std::uint64_t {
        std::uint64_t wrong = 0;
        for (std::uint64_t n = calls; n != 0; --n) {
          if constexpr (Trapped) wrong += ::syscall(SYS_getppid) != right ? 1U : 0U;
          else wrong += in.getppid() != right ? 1U : 0U;
        }
        return wrong;
      };
    };
  });
}

/// All callers read through one handle, each into its window.
outcome run_pread(const read_spec& spec) {
  const numbered_pages file;
  muster::policy rules;
  rules.read(file.directory());
  const std::string path = file.path();
  return run_callers_inside(spec, std::move(rules), "pread", [&path](sandbox& box) {
    const std::int64_t handle = box.submit(
                                       [size = path.size()](inside& in, std::span<std::byte> window) {
                                         return in.open({reinterpret_cast<const char*>(window.data()), size});
                                       },
                                       std::as_bytes(std::span(path)))
                                    .get()
                                    .value();
    if (handle < 0) throw std::runtime_error("the sandbox did not open the file: error " + std::to_string(-handle));
    return [handle](unsigned fiber, std::uint64_t calls) {
      return [handle, fiber, calls](inside& in, std::span<std::byte> window) -> std::uint64_t {
        const std::span<std::byte> page = window.first(read_spec::bytes);
        std::uint64_t wrong = 0;
        for (std::uint64_t n = 0; n < calls; ++n) {
          const std::int64_t offset = numbered_pages::offset(fiber, n);
          wrong += numbered_pages::is_page(page, in.pread(handle, page, offset), offset) ? 0U : 1U;
        }
        return wrong;
      };
    };
  });
}

}  // namespace

void add_sandbox_calls(catalogue& to) {
  to.add("muster", "ours",
         {{.name = "sandbox", .note = "muster::inside::getppid()", .fibers = 64, .call_between = run_getppid<false>},
          {.name = "sandbox, unmodified code",
           .note = "the system call is trapped, and becomes one of muster::inside",
           .fibers = 64,
           .call_between = run_getppid<true>},
          {.name = "sandbox", .note = "muster::inside::pread()", .fibers = 64, .read = run_pread}});
}

}  // namespace muster::bench
