// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the return barrier is not possible, pools say why and use the other engine, with the same results. Compiled
// also with -static and without unwind tables, as EXPECTED_OBSTACLE tells.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "fork_settings.hpp"
#include "stolen.hpp"

namespace {

using muster::fork_engine;
using muster::pool;
using muster_test::small_stack;

/// Null, or what is wrong when barrier_unavailable_reason() should contain `word`.
const char* wrong_without_barrier(const char* word) {
  const char* const why = pool::barrier_unavailable_reason();
  if (why == nullptr) return "there is no obstacle";
  if (std::string(why).find(word) == std::string::npos) return why;
  try {
    const pool wanted({.workers = 1, .stack_bytes = small_stack, .engine = fork_engine::barrier});
    return "a pool with the barrier is made";
  } catch (const std::runtime_error& e) {
    if (std::string(e.what()).find(why) == std::string::npos) return "the error does not say why";
  }
  pool two({.workers = 2, .stack_bytes = small_stack});
  if (two.engine() != fork_engine::watermark) return "a pool has the barrier";
  const auto [first, second] = two.run([] { return muster_test::fork_stolen([] { return 3; }, [] { return 4; }); });
  return first == 3 && second == 4 && two.statistics().thefts == 1 ? nullptr : "a fork is wrong";
}

#if defined(EXPECTED_OBSTACLE)
TEST(a_pool, says_why_it_has_no_barrier) { EXPECT_STREQ(wrong_without_barrier(EXPECTED_OBSTACLE), nullptr); }
#elif !defined(MUSTER_BARRIER)
TEST(a_pool, says_why_it_has_no_barrier) { EXPECT_STREQ(wrong_without_barrier("MUSTER_FORK_BARRIER"), nullptr); }
#else

/// From now on the system refuses to handle SIGURG. Returns false when it does not do even that.
bool let_nobody_handle_sigurg() {
  constexpr auto argument = static_cast<unsigned>(offsetof(seccomp_data, args));
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, nr))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIGURG, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog all = {sizeof program / sizeof *program, program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

TEST(a_pool, has_no_barrier_where_signals_cannot_be_handled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const pid_t tries = ::fork();
  if (tries == 0) ::_exit(let_nobody_handle_sigurg() ? 0 : 1);
  int status = 0;
  ::waitpid(tries, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) GTEST_SKIP() << "system calls cannot be filtered here";
  const auto outcome = [] {
    if (!let_nobody_handle_sigurg()) return 2;
    const char* const what = wrong_without_barrier("sigaction");
    if (what != nullptr) std::fprintf(stderr, "%s\n", what);
    return what == nullptr ? 0 : 1;
  };
  EXPECT_EXIT(::_exit(outcome()), ::testing::ExitedWithCode(0), "");
}

TEST(a_pool, has_the_barrier_otherwise) {
  EXPECT_STREQ(pool::barrier_unavailable_reason(), nullptr);
  pool two({.workers = 2, .stack_bytes = small_stack, .engine = fork_engine::barrier});
  EXPECT_EQ(two.engine(), fork_engine::barrier);
}

#endif

}  // namespace
