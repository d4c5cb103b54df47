// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_run.hpp: one run of a fork/join program in one style.
//
// First the team repeats a small instance for some milliseconds and counts its leaves. So its threads have started, on
// processors of their own, and a style that loses a leaf or executes one twice is caught. Then the run is timed, and
// its result is compared with the serial program's and checked independently.
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/fork_style.hpp"
#include "driver/placement.hpp"
#include "programs/all.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

namespace muster::bench {

/// The digest of the serial program's result, computed once; call it before starting runs.
std::uint64_t serial_result(std::string_view program, std::uint64_t size);
/// The number of forks in the program, counted in a serial execution.
std::uint64_t serial_forks(std::string_view program, std::uint64_t size);
/// The number of leaves of the counted instance.
std::uint64_t serial_leaves(std::string_view program);

using fork_clock = std::chrono::steady_clock;

inline double seconds_since(fork_clock::time_point begin) {
  return std::chrono::duration<double>(fork_clock::now() - begin).count();
}

inline std::string wrong_leaves(std::uint64_t executed, std::uint64_t right) {
  if (executed == right) return "";
  return fmt::format("{} of {} leaves were {}", executed < right ? right - executed : executed - right, right,
                     executed < right ? "not executed" : "executed too much");
}

/// The leaves of a program in timed runs, or in runs that count them (Other).
template <template <class> class Program, class Other>
using leaves = std::conditional_t<Program<serial_style<ignores_leaves>>::coarse, counts_leaves_if_told, Other>;

/// Returns an error, or an empty string. Called twice, compiled once.
template <template <class> class Style, template <class> class Program, class Team>
[[gnu::noinline]] std::string count_leaves(Team& team, std::string_view name) {
  using style = Style<leaves<Program, counts_leaves>>;
  constexpr double long_enough = 5e-3;
  const std::uint64_t right = serial_leaves(name);
  const auto begin = fork_clock::now();
  do {
    Program<style> program(Program<style>::size.check);
    counts_leaves::executed = 0;
    counts_leaves_if_told::told = true;
    team.template run<style>([&](style s) { program.run(s); });
    counts_leaves_if_told::told = false;
    if (const std::string wrong = wrong_leaves(counts_leaves::executed, right); !wrong.empty()) return wrong;
  } while (seconds_since(begin) < long_enough);
  return "";
}

/// Microseconds of processor time per second without work, measured from a tenth of a second after the last work.
inline double idle_microseconds(double seconds) {
  using namespace std::chrono_literals;
  std::this_thread::sleep_for(100ms);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return (cpu_seconds() - before) * 1e6 / seconds;
}

/// Executes the program as often as `spec` says, and fills in the time. The team's run() is called in one place only,
/// because each call compiles the program once more.
template <class Style, class Program, class Team>
void execute(Program& program, Team& team, const fork_spec& spec, outcome& result) {
  const std::uint64_t times = Program::repeats ? std::max<std::uint64_t>(1, spec.items / program.items()) : 1;
  std::uint64_t in_a_run = spec.one_run ? times : 1;
  bool then_idle = false;
  const auto run = [&] {
    team.template run<Style>([&](Style s) {
      for (std::uint64_t i = 0; i < in_a_run; ++i) program.run(s);
      if (then_idle) result.detail["idle"] = idle_microseconds(spec.idle_seconds);
    });
  };
  const double cpu = cpu_seconds();
  auto begin = fork_clock::now();
  for (std::uint64_t done = 0; done < times; done += in_a_run) {
    if (spec.pause > 0) {
      while (seconds_since(begin) < spec.pause) {
      }
      begin = fork_clock::now();
    }
    run();
    if (spec.pause > 0) {
      result.seconds += seconds_since(begin);
      begin = fork_clock::now();
    }
  }
  if (spec.pause <= 0) result.seconds = seconds_since(begin);
  result.cpu_seconds = cpu_seconds() - cpu;
  if (spec.idle == idleness::outside) result.detail["idle"] = idle_microseconds(spec.idle_seconds);
  if (spec.idle == idleness::inside) {
    in_a_run = 1;
    then_idle = true;
    run();
  }
  result.items = times * program.items();
}

template <template <class> class Style, program_set Set = program_set::forks>
outcome run_fork(const fork_spec& spec) {
  outcome result;
  // A kernel may keep a new thread on its creator's processor for a tenth of a second. So the team is created on the
  // other workers' units, and then this thread moves to its own.
  std::vector<int> units = spec.pus;
  if (units.size() > 1) units.erase(units.begin());
  share_units(units);
  reset_peak_memory();
  const auto at_start = static_cast<double>(peak_memory());
  typename Style<ignores_leaves>::team team(spec.workers);
  const bool known = with_fork_program<Set>(spec.program, [&]<template <class> class Program>() {
    using style = Style<leaves<Program, ignores_leaves>>;
    result.error = count_leaves<Style, Program>(team, spec.program);
    if (spec.workers > 1) {
      share_units({spec.pus.begin(), spec.pus.begin() + 1});
      if (result.error.empty()) result.error = count_leaves<Style, Program>(team, spec.program);
    }
    if (!result.error.empty()) return;
    Program<style> program(spec.size);
    if constexpr (requires { team.begin(); }) team.begin();
    execute<style>(program, team, spec, result);
    if constexpr (requires { team.tell(result); }) team.tell(result);
    result.peak_memory = peak_memory();
    result.detail["resident at the start"] = at_start;
    result.error = program.error();
    if constexpr (requires { program.tell(result.detail); }) program.tell(result.detail);
    if (result.error.empty() && program.digest() != serial_result(spec.program, spec.size))
      result.error = "the result is not that of the serial program";
  });
  if (!known) result.error = fmt::format("there is no program '{}' in this style", spec.program);
  return result;
}

/// A contender that executes fork/join programs.
template <template <class> class Style, program_set Set = program_set::forks>
contender fork_contender(std::string name, std::string family, std::string role, unsigned topics,
                         std::string note = "") {
  return {.name = std::move(name),
          .family = std::move(family),
          .role = std::move(role),
          .note = std::move(note),
          .topics = topics,
          .fork = run_fork<Style, Set>};
}

}  // namespace muster::bench
