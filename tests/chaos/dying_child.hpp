// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// dying_child.hpp: a child process that is killed before its n-th operation on what it shares, and what it had done.
#pragma once

#include <gtest/gtest.h>
#include <muster/base/sync.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

namespace muster_test {

using number = std::uint64_t;

/// The child's record of its operations, in memory that survives it.
struct diary {
  number tried = 0;   // pushes begun
  number pushed = 0;  // pushes that returned success
  number pops = 0;
  number popped[64] = {};

  std::vector<number> items() const { return {popped, popped + pops}; }
};

/// Runs `work` in a child that dies before its n-th operation, and calls `meanwhile` until the child has ended. Returns
/// true if it died.
template <class Work, class Meanwhile>
bool child_dies(number n, Work work, Meanwhile meanwhile) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    muster_chaos::die_at(n);
    work();
    ::_exit(0);
  }
  int ended = 0;
  while (::waitpid(pid, &ended, WNOHANG) == 0) meanwhile();
  return WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL;
}
template <class Work>
bool child_dies(number n, Work work) {
  return child_dies(n, work, [] { ::usleep(50); });
}

/// The operation of the next round: the next one, or the same one again if a waiter was late. If the machine was the
/// cause, the second try is in time.
class next_operation {
 public:
  explicit next_operation(number stride) : stride_(stride) {}
  void after(number& n, bool late) {
    EXPECT_FALSE(late && again_) << "an operation waits for more than a second when the child dies at " << n;
    again_ = late && !again_;
    if (!again_) n += stride_;
  }

 private:
  const number stride_;
  bool again_ = false;
};

}  // namespace muster_test
