// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The fork/join programs with plain calls: what the others are compared with, in time and in results.
#include "driver/fork_run.hpp"

#include <map>
#include <string>
#include <utility>

namespace muster::bench {

std::uint64_t serial_result(std::string_view name, std::uint64_t size) {
  static std::map<std::pair<std::string, std::uint64_t>, std::uint64_t, std::less<>> known;
  const std::pair key{std::string(name), size};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  std::uint64_t digest = 0;
  with_any_program(name, [&]<template <class> class Program>() {
    Program<serial_style<leaves<Program, ignores_leaves>>> program(size);
    program.run({});
    digest = program.digest();
  });
  return known.emplace(key, digest).first->second;
}

std::uint64_t serial_leaves(std::string_view name) {
  counts_leaves::executed = 0;
  counts_leaves_if_told::told = true;
  with_any_program(name, [&]<template <class> class Program>() {
    using program_type = Program<serial_style<leaves<Program, counts_leaves>>>;
    program_type program(program_type::size.check);
    program.run({});
  });
  counts_leaves_if_told::told = false;
  return counts_leaves::executed;
}

namespace {

template <class Leaf>
struct fork_counting_style : serial_style<Leaf> {
  template <class F, class G>
  static auto fork2(F f, G g) {
    ++forks;
    return serial_style<Leaf>::fork2(f, g);
  }
  static inline std::uint64_t forks = 0;
};

}  // namespace

std::uint64_t serial_forks(std::string_view name, std::uint64_t size) {
  using style = fork_counting_style<ignores_leaves>;
  static std::map<std::pair<std::string, std::uint64_t>, std::uint64_t, std::less<>> known;
  const std::pair key{std::string(name), size};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  style::forks = 0;
  const auto count = [&]<template <class> class Program>() {
    Program<style> program(size);
    program.run({});
  };
  if (name == "jacobi") count.template operator()<jacobi>();
  if (name == "jacobi fine") count.template operator()<jacobi_fine>();
  if (name == "lud") count.template operator()<lud>();
  if (name == "heat") count.template operator()<heat>();
  return known.emplace(key, style::forks).first->second;
}

void add_serial_fork(catalogue& to) {
  to.all.push_back(fork_contender<serial_style, program_set::algorithms>("plain calls", "serial", "limit",
                                                                         fork_algorithms, "the standard library"));
  to.all.push_back(fork_contender<serial_style>(
      "plain calls", "serial", "limit", fork_programs | fork_calls | fork_policies, "the same programs without forks"));
}

}  // namespace muster::bench
