// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Sandboxes on kernels, and in containers, that lack a system call. Each row of "Required kernel features" in
// docs/design/syscall.md has a case here: no sandbox, with an error that names what is missing; or a sandbox that says
// which second line it lacks and still keeps the policy. Each case is a child behind a filter that answers for the
// kernel, once as an old kernel does (ENOSYS) and once as a container does (EPERM).
#include <gtest/gtest.h>
#include <muster/fiber.hpp>
#include <muster/syscall/sandbox.hpp>

#include "scale.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace {

using muster::inside;
using muster::policy;
using muster::sandbox;
using muster::sandbox_options;

constexpr long create_ruleset = 444, waitv = 449;  // which older headers lack

/// From here on the calls fail with the error, in this process and its children.
bool lose(std::initializer_list<long> calls, int error) {
  std::vector<sock_filter> code{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)}};
  for (const long call : calls) {
    code.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(call)});
    code.push_back({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)});
  }
  code.push_back({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW});
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// The text that `body` returns in a child that has lost the calls: of a child that hangs, "does not end".
std::string said_without(std::initializer_list<long> calls, int error, const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(50);
    std::string text = "the filter cannot be installed";
    try {
      if (lose(calls, error)) text = body();
    } catch (const std::exception& wrong) {
      text = std::string("threw: ") + wrong.what();
    }
    static_cast<void>(!::write(ends[1], text.data(), text.size()));
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> some{};
  for (ssize_t got = 0; (got = ::read(ends[0], some.data(), some.size())) > 0;)
    text.append(some.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) text += WTERMSIG(status) == SIGALRM ? " (does not end)" : " (ended by a signal)";
  return text;
}

class sandbox_kernels : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (muster_test::sanitized) GTEST_SKIP() << "the sanitizers make system calls of their own";
  }

  /// The error of a sandbox, or of one from a zygote, that cannot be made.
  static std::string refusal(std::initializer_list<long> calls, bool by_zygote) {
    return said_without(calls, GetParam(), [by_zygote]() -> std::string {
      try {
        std::optional<muster::zygote> early;
        if (by_zygote) early.emplace();
        std::optional<sandbox> box;
        if (by_zygote) box.emplace(*early, policy());
        else box.emplace(policy());
        return "there is a sandbox";
      } catch (const std::system_error& error) {
        if (error.code().value() != GetParam()) return "another error: " + std::string(error.what());
        return error.what();
      }
    });
  }

  /// A sandbox works and keeps its policy; and what it says it lacks.
  static std::string layers(std::initializer_list<long> calls, bool by_zygote) {
    return said_without(calls, GetParam(), [by_zygote]() -> std::string {
      std::optional<muster::zygote> early;
      if (by_zygote) early.emplace();
      const policy rules = policy().read("/etc/passwd").memory(64U << 20U);
      std::optional<sandbox> box;
      if (by_zygote) box.emplace(*early, rules);
      else box.emplace(rules);
      const auto opened = box->run([](inside&) { return ::open("/etc/passwd", O_RDONLY); });
      if (!opened || opened.value() < 0) return "a file that may be read cannot be opened: " + opened.why();
      const auto refused = box->run([](inside&) { return ::open("/etc/group", O_RDONLY) < 0 ? errno : 0; });
      if (refused.value() != EPERM) return "another file can be opened";
      const auto by_name = box->run([](inside& calls_of) { return calls_of.connect(calls_of.socket(), 80); });
      if (by_name.value() >= 0) return "there is a network";
      std::string all;
      for (const std::string& layer : box->missing_layers()) all += layer + '\n';
      const auto end = box->stop();
      return all + (end.why == muster::sandbox_end::reason::stopped ? "works" : "ends: " + end.text());
    });
  }

  /// A second line that is missing is named, beside the ones that this machine lacks anyway.
  static void expect_layer(long call, const std::string& layer) {
    const std::string expected = layer + ": " + std::generic_category().message(GetParam()) + '\n';
    for (const bool by_zygote : {false, true}) {
      const std::string said = layers({call}, by_zygote);
      EXPECT_TRUE(said.ends_with("works")) << said;
      EXPECT_NE(said.find(expected), std::string::npos) << said;
    }
  }
  static void expect_refusal(long call, const std::string& text) {
    for (const bool by_zygote : {false, true}) {
      const std::string said = refusal({call}, by_zygote);
      EXPECT_NE(said.find(text), std::string::npos) << said;
      EXPECT_NE(said.find(std::generic_category().message(GetParam())), std::string::npos) << said;
    }
  }
};

TEST_P(sandbox_kernels, without_filters_make_no_sandbox) {
  expect_refusal(SYS_seccomp,
                 "cannot make a sandbox: its filter of system calls cannot be installed: the kernel must "
                 "be built with seccomp filters, and a container must allow seccomp(2)");
}

TEST_P(sandbox_kernels, without_openat2_make_no_sandbox) {
  expect_refusal(SYS_openat2,
                 "broker: openat2(2), which keeps paths beneath a directory, fails; it needs Linux 5.6 or "
                 "newer, and a container must allow it");
}

TEST_P(sandbox_kernels, without_close_range_make_no_sandbox) {
  expect_refusal(SYS_close_range,
                 "cannot make a sandbox: close_range(2) fails in it, so its files stay open; it needs "
                 "Linux 5.9 or newer, and a container must allow it");
}

TEST_P(sandbox_kernels, without_handles_of_processes_make_no_sandbox) {
  for (const long call : {long{SYS_pidfd_open}, long{SYS_pidfd_send_signal}})
    expect_refusal(call,
                   "pidfd_open(2) or pidfd_send_signal(2) fails for its process; they need Linux 5.3 or newer, "
                   "and a container must allow them");
}

TEST_P(sandbox_kernels, without_landlock_are_named) { expect_layer(create_ruleset, "Landlock"); }

TEST_P(sandbox_kernels, without_name_spaces_are_named) { expect_layer(SYS_unshare, "name spaces"); }

TEST_P(sandbox_kernels, without_capset_are_named) { expect_layer(SYS_capset, "capabilities"); }

TEST_P(sandbox_kernels, without_all_second_lines_keep_the_policy) {
  for (const bool by_zygote : {false, true}) {
    const std::string said = layers({create_ruleset, SYS_unshare, SYS_capset}, by_zygote);
    const std::string error = ": " + std::generic_category().message(GetParam()) + '\n';
    EXPECT_EQ(said, "Landlock" + error + "name spaces" + error + "capabilities" + error + "works");
  }
}

/// Fibers that wait for calls, for each other and for the time. One thread then sleeps on several words.
std::string waits() {
  sandbox box(policy().read("/etc/passwd").memory(64U << 20U), sandbox_options{.jobs = 4, .broker_threads = 2});
  std::vector<sandbox::job<long>> jobs;
  for (int i = 0; i < 4; ++i)
    jobs.push_back(box.submit([](inside& calls) -> long {
      long all = 0;
      std::vector<muster::fiber> fibers;
      for (int f = 0; f < 8; ++f)
        fibers.emplace_back([&] {
          for (int call = 0; call < 50; ++call) {
            all += calls.getppid() > 0;
            if (call % 25 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        });
      for (muster::fiber& one : fibers) one.join();
      return all;
    }));
  // The outside waits in fibers, too.
  long all = 0;
  std::vector<muster::fiber> waiting;
  for (auto& job : jobs) waiting.emplace_back([&] { all += job.get().value(); });
  for (muster::fiber& one : waiting) one.join();
  return "calls: " + std::to_string(all);
}

TEST_P(sandbox_kernels, without_waits_for_several_words_work) {
  EXPECT_EQ(said_without({waitv}, GetParam(), waits), "calls: 1600");
}

TEST_P(sandbox_kernels, without_membarrier_work) {
  EXPECT_EQ(said_without({SYS_membarrier}, GetParam(), waits), "calls: 1600");
}

// A filter that comes later than the sandbox, and takes the means to end it.
TEST_P(sandbox_kernels, that_forbid_the_end_of_a_sandbox_do_not_hang_it) {
  const int error = GetParam();
  const auto of_zygote = [error](bool by_zygote) {
    return said_without({}, ENOSYS, [=]() -> std::string {
      std::optional<muster::zygote> early;
      if (by_zygote) early.emplace();
      std::optional<sandbox> box;
      const policy rules = policy().time(1);  // which ends the inside in any case
      if (by_zygote) box.emplace(*early, rules);
      else box.emplace(rules);
      auto job = box->submit([](inside&) {
        for (;;) muster::pause();
      });
      if (!lose({SYS_pidfd_send_signal}, error)) return "no filter";
      try {
        return "stopped: " + box->stop().text();
      } catch (const std::system_error& refused) {
        box->wait();
        return refused.what();
      }
    });
  };
  EXPECT_EQ(of_zygote(true), "stopped: the sandbox has been stopped");
  const std::string said = of_zygote(false);
  EXPECT_NE(said.find("sandbox::stop: the program has given up the rights with which it made the sandbox (user ids, or "
                      "pidfd_send_signal(2) by a filter)"),
            std::string::npos)
      << said;
}

INSTANTIATE_TEST_SUITE_P(answer, sandbox_kernels, ::testing::Values(ENOSYS, EPERM),
                         [](const auto& error) { return error.param == ENOSYS ? "enosys" : "eperm"; });

}  // namespace
