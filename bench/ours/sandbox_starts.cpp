// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The time from creating a sandbox to the result of its first job, and the time of a job in a running sandbox.
#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"
#include "ours/sandboxed.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace muster::bench {
namespace {

using clock = std::chrono::steady_clock;

/// A different answer for each job.
std::uint64_t answer_to(std::uint64_t n) { return 3 * n + 1; }

outcome outcome_of(const start_spec& spec, clock::duration until_results, std::uint64_t wrong) {
  outcome result;
  result.seconds = std::chrono::duration<double>(until_results).count();
  result.items = spec.items;
  result.cpu_seconds = cpu_seconds() + cpu_seconds_of_children();
  if (wrong != 0) result.error = std::to_string(wrong) + " jobs did not return what they should";
  return result;
}

enum class made_by { program, zygote, zygote_without_spares };
enum class pause { none, before_each };

template <made_by By, pause When = pause::none>
outcome run_sandboxes(const start_spec& spec) {
  share_units(spec.pus);
  std::optional<zygote> maker;
  if constexpr (By == made_by::zygote) maker.emplace();
  if constexpr (By == made_by::zygote_without_spares) maker.emplace(zygote_options{.prepared = 0});
  clock::duration until_results{}, whole{};
  std::uint64_t wrong = 0;
  for (std::uint64_t n = 0; n < spec.items; ++n) {
    if constexpr (When == pause::before_each) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const clock::time_point begin = clock::now();
    {
      std::optional<sandbox> box;
      if constexpr (By != made_by::program) box.emplace(*maker, muster::policy{});
      else box.emplace(muster::policy{});
      wrong += box->run([n](inside&) { return answer_to(n); }).value() != answer_to(n) ? 1U : 0U;
      until_results += clock::now() - begin;
    }
    whole += clock::now() - begin;
  }
  outcome result = outcome_of(spec, until_results, wrong);
  result.detail["whole"] = std::chrono::duration<double, std::nano>(whole).count() / static_cast<double>(spec.items);
  return result;
}

outcome run_jobs(const start_spec& spec) {
  if (!spec.pus.empty()) share_units({spec.pus.back()});
  sandbox box(muster::policy{});
  if (!spec.pus.empty()) pin_inside(box, {spec.pus.front()});
  std::uint64_t wrong = 0;
  const auto run_one = [&](std::uint64_t n) {
    wrong += box.run([n](inside&) { return answer_to(n); }).value() != answer_to(n) ? 1U : 0U;
  };
  run_one(0);
  const clock::time_point begin = clock::now();
  for (std::uint64_t n = 0; n < spec.items; ++n) run_one(n);
  const clock::duration taken = clock::now() - begin;
  box.stop();
  return outcome_of(spec, taken, wrong);
}

}  // namespace

void add_sandbox_starts(catalogue& to) {
  to.add("muster", "ours",
         {{.name = "sandbox",
           .note = "made by the program itself, a fork of it",
           .start = run_sandboxes<made_by::program>},
          {.name = "sandbox from a zygote",
           .note = "made by an early copy of the program, one after another",
           .start = run_sandboxes<made_by::zygote>},
          {.name = "sandbox from a zygote after a pause",
           .note = "made of a process that the zygote has prepared in the pause",
           .start = run_sandboxes<made_by::zygote, pause::before_each>},
          {.name = "sandbox forked by a zygote after a pause",
           .note = "the zygote prepares none",
           .start = run_sandboxes<made_by::zygote_without_spares, pause::before_each>},
          {.name = "job in a running sandbox", .note = "one after another", .start = run_jobs}});
}

}  // namespace muster::bench
