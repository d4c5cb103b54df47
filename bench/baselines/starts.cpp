// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Processes that are no sandboxes: made, and waited for until they end.
#include "driver/children.hpp"

#include <spawn.h>
#include <unistd.h>

namespace muster::bench {
namespace {

constexpr const char* program = "/bin/true";
char* const* program_arguments() {
  static char name[] = "true";
  static char* arguments[] = {name, nullptr};
  return arguments;
}

outcome run_fork(const start_spec& spec) {
  constexpr int status = 7;
  return run_children(
      spec,
      [] {
        const int child = ::fork();
        if (child == 0) ::_exit(status);
        return child;
      },
      status);
}

outcome run_fork_and_exec(const start_spec& spec) {
  return run_children(spec, [] {
    const int child = ::fork();
    if (child != 0) return child;
    ::execv(program, program_arguments());
    ::_exit(1);
  });
}

outcome run_spawn(const start_spec& spec) {
  return run_children(spec, [] {
    pid_t child = -1;
    return ::posix_spawn(&child, program, nullptr, nullptr, program_arguments(), environ) == 0 ? child : -1;
  });
}

}  // namespace

void add_starts(catalogue& to) {
  to.add("kernel", "limit",
         {{.name = "fork", .note = "the child exits; no sandbox", .start = run_fork},
          {.name = "fork and exec", .note = "of /bin/true; no sandbox", .start = run_fork_and_exec},
          {.name = "posix_spawn", .note = "of /bin/true; no sandbox", .start = run_spawn}});
}

}  // namespace muster::bench
