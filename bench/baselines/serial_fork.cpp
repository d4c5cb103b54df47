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
    Program<serial_style<ignores_leaves>> program(size);
    program.run({});
    digest = program.digest();
  });
  return known.emplace(key, digest).first->second;
}

std::uint64_t serial_leaves(std::string_view name) {
  counts_leaves::executed = 0;
  with_any_program(name, [&]<template <class> class Program>() {
    using program_type = Program<serial_style<counts_leaves>>;
    program_type program(program_type::size.check);
    program.run({});
  });
  return counts_leaves::executed;
}

void add_serial_fork(catalogue& to) {
  to.all.push_back(fork_contender<serial_style, program_set::algorithms>("plain calls", "serial", "limit",
                                                                         fork_algorithms, "the standard library"));
  to.all.push_back(fork_contender<serial_style>("plain calls", "serial", "limit", fork_programs | fork_calls,
                                                "the same programs without forks"));
}

}  // namespace muster::bench
