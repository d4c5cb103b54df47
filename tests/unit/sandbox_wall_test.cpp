// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The wall of a sandbox, number by number: what it lets pass, and with which arguments. Each case is a child process,
// for there is no way back. The sanitizers make calls of their own, behind the wall too.
#include <gtest/gtest.h>
#include <muster/syscall/detail/wall.hpp>

#include "scale.hpp"

#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::detail::wall;

/// The child of a test continues behind the wall, and ends without another call.
void stand_behind(const wall& w, wall::refusal otherwise) {
  static std::vector<sock_filter> code;  // not freed
  code = w.compiled(otherwise);
  wall::raise(code);
}

/// Executes `body` in a child and returns its exit status, or 256 plus the signal that killed it.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

class wall_test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers make system calls of their own";
  }
};

enum outcome { passes, refused };

/// The outcome of a call. EPERM means refused: no allowed call fails with EPERM for these arguments.
int outcome_of(const wall& behind, long call, const std::vector<long>& arguments) {
  std::vector<long> a = arguments;
  a.resize(6);
  return in_child([&] {
    for (const int join : {1 << 2, 1 << 4}) ::syscall(SYS_membarrier, join, 0, 0);  // else its fences answer EPERM
    stand_behind(behind, wall::refusal::fail);
    return ::syscall(call, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 && errno == EPERM ? refused : passes;
  });
}

std::set<long> let_pass(const wall& behind, const std::vector<long>& arguments) {
  std::set<long> all;
  for (long call = 0; call < 1024; ++call) {
    if (call == SYS_exit || call == SYS_exit_group || call == SYS_rt_sigreturn) continue;  // tried below
    if (outcome_of(behind, call, arguments) != refused) all.insert(call);
  }
  // See has_no_use_of_probes_that_pass.
  all.erase(335);
  all.erase(336);
  return all;
}

// The kernel asks no filter about uretprobe (from Linux 6.11 on) and uprobe (from 6.17 on). A caller without a probe is
// ended by a signal or, by uprobe from 6.18 on, gets ENXIO. Older kernels and other machines refuse the numbers.
TEST_F(wall_test, has_no_use_of_probes_that_pass) {
  for (const long call : {335L, 336L}) {
    const int error = in_child([call] {
      stand_behind(wall::pure(), wall::refusal::fail);
      return ::syscall(call, 0, 0, 0, 0, 0, 0) == -1 ? errno : 0;
    });
    EXPECT_TRUE(error == EPERM || error == 256 + SIGILL || (call == 336 && error == ENXIO)) << call << ": " << error;
  }
}

const std::set<long> pure_calls{SYS_sched_yield, SYS_getrandom, SYS_sigaltstack, SYS_restart_syscall,
                                muster::os::futex_waitv_call};
const std::set<long> memory_calls{SYS_brk, SYS_munmap, SYS_madvise};

std::set<long> both(std::set<long> some, const std::set<long>& others) {
  some.insert(others.begin(), others.end());
  return some;
}

// 77 is an operation of neither futex nor membarrier; as flags of mmap it says MAP_SHARED and no file's absence.
TEST_F(wall_test, lets_pass_what_it_names) { EXPECT_EQ(let_pass(wall::pure(), {77, 77, 77, 77, 77}), pure_calls); }

TEST_F(wall_test, lets_memory_calls_pass_when_asked_to) {
  EXPECT_EQ(let_pass(wall::pure().with_memory(), {77, 77, 77, 77, 77}), both(pure_calls, memory_calls));
}

TEST_F(wall_test, looks_at_what_a_futex_is_to_do) {
  for (long operation = 0; operation < 300; ++operation) {
    const long plain = operation & ~long{FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME};
    const bool may =
        plain == FUTEX_WAIT || plain == FUTEX_WAKE || plain == FUTEX_WAIT_BITSET || plain == FUTEX_WAKE_BITSET;
    // No address: a wait that passes fails with another error.
    EXPECT_EQ(outcome_of(wall::pure(), SYS_futex, {0, operation}), may ? passes : refused) << operation;
  }
  // The kernel looks at the low half only, and so does the wall.
  EXPECT_EQ(outcome_of(wall::pure(), SYS_futex, {0, FUTEX_WAKE | 1L << 40}), passes);
  EXPECT_EQ(outcome_of(wall::pure(), SYS_futex, {0, FUTEX_REQUEUE | 1L << 40}), refused);
}

TEST_F(wall_test, lets_clocks_of_the_machine_pass_and_its_own) {
  for (long clock = -16; clock < 16; ++clock)
    EXPECT_EQ(outcome_of(wall::pure(), SYS_clock_gettime, {clock}), clock >= 0 && clock <= 11 ? passes : refused)
        << clock;
}

TEST_F(wall_test, lets_no_handler_of_its_own_signal_pass) {
  for (long signal = 0; signal < 70; ++signal)
    EXPECT_EQ(outcome_of(wall::pure(), SYS_rt_sigaction, {signal}),
              signal >= 1 && signal <= 64 && signal != SIGSYS ? passes : refused)
        << signal;
}

TEST_F(wall_test, lets_the_quick_fence_of_its_process_pass_and_no_others) {
  for (long command = 0; command < 1 << 11; command = command == 0 ? 1 : 2 * command)
    EXPECT_EQ(outcome_of(wall::pure(), SYS_membarrier, {command}), command == 8 ? passes : refused) << command;
}

TEST_F(wall_test, refuses_memory_that_can_be_executed) {
  const wall with_memory = wall::pure().with_memory();
  for (long protection = 0; protection < 8; ++protection) {
    const int expected = (protection & PROT_EXEC) != 0 ? refused : passes;
    EXPECT_EQ(outcome_of(with_memory, SYS_mmap, {0, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1}), expected);
    EXPECT_EQ(outcome_of(with_memory, SYS_mprotect, {0, 0, protection}), expected);
  }
  EXPECT_EQ(outcome_of(with_memory, SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE, 0}), refused) << "a file";
  EXPECT_EQ(outcome_of(wall::pure(), SYS_mmap, {0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1}), refused);
}

TEST_F(wall_test, refuses_memory_that_no_limit_counts) {
  const wall with_memory = wall::pure().with_memory(true);
  const auto outcome = [&](long flags) { return outcome_of(with_memory, SYS_mmap, {0, 4096, PROT_READ, flags, -1}); };
  // Every kind of mapping, every flag alone.
  for (long kind = 0; kind < 16; ++kind)
    EXPECT_EQ(outcome(kind | MAP_ANONYMOUS), kind == MAP_PRIVATE ? passes : refused) << kind;
  const long no_more = MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED;
  for (long flag = 16; flag < 1L << 32; flag *= 2) {
    if (flag == MAP_ANONYMOUS || flag == MAP_FIXED) continue;  // page 0 may not be mapped
    EXPECT_EQ(outcome(MAP_PRIVATE | MAP_ANONYMOUS | flag), (flag & no_more) != 0 ? refused : passes) << flag;
  }
  for (const long call : {long{SYS_mlock}, long{SYS_mlock2}, long{SYS_mlockall}, long{SYS_mremap},
                          long{SYS_memfd_create}, long{SYS_remap_file_pages}, long{SYS_shmget}, long{SYS_mbind}})
    EXPECT_EQ(outcome_of(with_memory, call, {0, 4096}), refused) << call;
}

TEST_F(wall_test, lets_no_memory_failures_be_made_and_no_pages_be_merged) {
  const wall with_memory = wall::pure().with_memory();
  for (long advice = 0; advice < 110; ++advice) {
    const bool may = (advice < 100 && advice != MADV_MERGEABLE) || advice == 102 || advice == 103;
    EXPECT_EQ(outcome_of(with_memory, SYS_madvise, {0, 0, advice}), may ? passes : refused) << advice;
  }
}

TEST_F(wall_test, lets_a_process_end) {
  EXPECT_EQ(in_child([] {
              stand_behind(wall::pure(), wall::refusal::kill);
              ::syscall(SYS_exit_group, 7);
              return 0;
            }),
            7);
  EXPECT_EQ(in_child([] {
              stand_behind(wall::pure(), wall::refusal::kill);
              ::syscall(SYS_exit, 8);
              return 0;
            }),
            8);
}

TEST_F(wall_test, ends_a_process_when_asked_to) {
  EXPECT_EQ(in_child([] {
              stand_behind(wall::pure(), wall::refusal::kill);
              return static_cast<int>(::syscall(SYS_getppid) != 0);
            }),
            256 + SIGSYS);
}

std::atomic<int> trapped{0};

TEST_F(wall_test, traps_when_asked_to_and_the_handler_answers) {
#if defined(__x86_64__)
  EXPECT_EQ(in_child([] {
              struct sigaction how{};
              how.sa_flags = SA_SIGINFO | SA_NODEFER;
              how.sa_sigaction = [](int, siginfo_t* info, void* context) {
                trapped = info->si_syscall;
                static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = 4321;
              };
              ::sigaction(SIGSYS, &how, nullptr);
              stand_behind(wall::pure(), wall::refusal::trap);
              return ::syscall(SYS_getppid) == 4321 && trapped == SYS_getppid ? 3 : 4;
            }),
            3);
#endif
}

TEST_F(wall_test, stands_for_all_threads) {
  EXPECT_EQ(in_child([] {
              std::atomic<int> stage{0};
              std::atomic<bool> fails{false};
              std::jthread other([&] {
                stage = 1;
                while (stage != 2) ::syscall(SYS_sched_yield);
                fails = ::syscall(SYS_getppid) == -1 && errno == EPERM;
                stage = 3;
                for (;;) ::syscall(SYS_sched_yield);
              });
              while (stage != 1) ::syscall(SYS_sched_yield);
              stand_behind(wall::pure(), wall::refusal::fail);
              stage = 2;
              while (stage != 3) ::syscall(SYS_sched_yield);
              ::_exit(fails ? 5 : 6);
              return 0;
            }),
            5);
}

TEST_F(wall_test, ends_a_program_that_calls_in_another_way) {
#if defined(__x86_64__)
  EXPECT_EQ(in_child([] {
              stand_behind(wall::pure(), wall::refusal::fail);
              long result = 20;  // getpid
              asm volatile("int $0x80" : "+a"(result) : : "memory");
              return 0;
            }),
            256 + SIGSYS);
  EXPECT_EQ(in_child([] {
              stand_behind(wall::pure(), wall::refusal::fail);
              return static_cast<int>(::syscall(0x40000000 + SYS_getpid));
            }),
            256 + SIGSYS);
#endif
}

TEST_F(wall_test, says_when_another_filter_is_in_the_way) {
  EXPECT_EQ(in_child([] {
              std::atomic<int> stage{0};
              std::jthread other([&] {
                const std::vector<sock_filter> open{{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
                const sock_fprog program{1, const_cast<sock_filter*>(open.data())};
                ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
                ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
                stage = 1;
                while (stage != 2) ::sched_yield();
              });
              while (stage != 1) ::sched_yield();
              int said = 0;
              try {
                stand_behind(wall::pure(), wall::refusal::fail);
              } catch (const std::system_error& error) {
                const std::string what = error.what();
                said =
                    what.find("cannot raise the wall of a sandbox: a thread has another filter already") == 0 ? 9 : 10;
              }
              stage = 2;
              return said;
            }),
            9);
}

}  // namespace
