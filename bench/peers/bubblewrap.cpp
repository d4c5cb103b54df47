// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// bubblewrap: a command that runs a program in name spaces of its own.
#include "driver/children.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>
#include <array>

namespace muster::bench {
namespace {

/// `quiet`: what it says of its failure is not shown.
int spawn_wrapped(bool quiet) {
  static std::array<char[16], 9> words{
      {"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--cap-drop", "ALL", "--", "/bin/true"}};
  std::array<char*, words.size() + 1> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i];
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (quiet) ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? child : -1;
}

bool works() {
  int status = 0;
  const int child = spawn_wrapped(true);
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

outcome run_wrapped(const start_spec& spec) {
  return run_children(spec, [] { return spawn_wrapped(false); });
}

}  // namespace

void add_bubblewrap(catalogue& to) {
  if (!works()) {
    to.missing.push_back({"bubblewrap", "", "left out: bwrap makes no sandbox here: it needs name spaces of a user"});
    return;
  }
  to.add("bubblewrap", "peer",
         {{.name = "bubblewrap",
           .note = "bwrap --unshare-all --ro-bind / / --cap-drop ALL, of /bin/true",
           .start = run_wrapped}});
}

}  // namespace muster::bench
