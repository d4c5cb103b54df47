// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Other ways to make the system calls of another process: notifications of seccomp, ptrace, and messages through a pair
// of sockets. x86-64, as ptrace changes registers.
#include "driver/calls.hpp"

#include <muster/base/detail/mapped_region.hpp>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace muster::bench {
namespace {

using clock = std::chrono::steady_clock;

/// Seen by both processes.
struct shared_state {
  std::atomic<int> listener{-1};  // the number of the caller's descriptor
  std::atomic<bool> begun{false};
  double seconds = 0;
  std::uint64_t right = 0;  // calls that returned what they should
};

/// The calls of all fibers of this process, timed.
template <class Call>
void make_calls(shared_state& common, const call_spec& spec, std::int64_t expected, const Call& call) {
  clock::time_point begin;
  run_callers(
      spec.fibers, [&] { begin = clock::now(); },
      [&](unsigned fiber) {
        std::uint64_t right = 0;
        const auto calls = static_cast<std::uint32_t>(calls_of(spec, fiber));
        for (std::uint32_t n = 1; n <= calls; ++n) right += call(fiber, n) == expected ? 1U : 0U;
        common.right += right;
      });
  common.seconds = std::chrono::duration<double>(clock::now() - begin).count();
}

/// `caller` runs in a process of its own, `maker` in this one.
template <class Caller, class Maker>
outcome run_processes(const call_spec& spec, const Caller& caller, const Maker& maker) {
  const mapped_region memory = mapped_region::make_anonymous(
      sizeof(shared_state), [](unsigned char* at) { std::construct_at(reinterpret_cast<shared_state*>(at)); });
  auto& common = *reinterpret_cast<shared_state*>(memory.start());
  const std::int64_t expected = ::getppid();
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin_this_thread(spec.pus.front());
    caller(common, expected);
    ::_exit(0);
  }
  pin_this_thread(spec.pus.back());
  maker(common, child);
  int status = 0;
  outcome result;
  while (::waitpid(child, &status, 0) == child && !WIFEXITED(status) && !WIFSIGNALED(status)) {
  }
  result.seconds = common.seconds;
  result.items = spec.items;
  result.cpu_seconds = cpu_seconds() + cpu_seconds_of_children();
  if (common.right != spec.items)
    result.error = std::to_string(common.right) + " of " + std::to_string(spec.items) +
                   " calls returned what getppid() does in the process that makes them";
  return result;
}

std::int64_t direct(unsigned, std::uint32_t) { return ::syscall(SYS_getppid); }

/// From now on getppid() has this action, and all else is allowed.
int filter_getppid(std::uint32_t action, unsigned flags) {
  std::array<sock_filter, 4> program{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
                                      BPF_STMT(BPF_RET | BPF_K, action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
  const sock_fprog all{static_cast<unsigned short>(program.size()), program.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &all));
}

outcome run_native(const call_spec& spec) {
  return run_processes(
      spec, [&](shared_state& common, std::int64_t) { make_calls(common, spec, ::getppid(), direct); },
      [](shared_state&, pid_t) {});
}

outcome run_notifications(const call_spec& spec) {
  return run_processes(
      spec,
      [&](shared_state& common, std::int64_t expected) {
        const int listener = filter_getppid(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
        if (listener < 0) ::_exit(1);
        common.listener = listener;
        until([&] { return common.begun.load(); });
        make_calls(common, spec, expected, direct);
      },
      [&](shared_state& common, pid_t child) {
        until([&] { return common.listener >= 0 || ::waitpid(child, nullptr, WNOHANG) != 0; });
        const auto process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
        const auto from = static_cast<int>(::syscall(SYS_pidfd_getfd, process, common.listener.load(), 0));
        if (from < 0) throw std::runtime_error("seccomp gives no listener, or pidfd_getfd(2) is missing");
        // On one processor the kernel may switch to the other side at once (Linux 6.6); a kernel that cannot refuses.
        constexpr std::uint64_t wake_in_step = 1;
        if (spec.pus.front() == spec.pus.back()) ::ioctl(from, SECCOMP_IOW(4, std::uint64_t), wake_in_step);
        common.begun = true;
        for (std::uint64_t n = spec.items; n != 0;) {
          seccomp_notif asked{};
          if (::ioctl(from, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
            if (errno == EINTR) continue;
            throw std::runtime_error("a notification was not received");
          }
          seccomp_notif_resp reply{};
          reply.id = asked.id;
          reply.val = ::syscall(SYS_getppid);
          if (::ioctl(from, SECCOMP_IOCTL_NOTIF_SEND, &reply) != 0) throw std::runtime_error("a reply was refused");
          --n;
        }
      });
}

outcome run_traced(const call_spec& spec) {
  return run_processes(
      spec,
      [&](shared_state& common, std::int64_t expected) {
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        ::raise(SIGSTOP);
        if (filter_getppid(SECCOMP_RET_TRACE, 0) != 0) ::_exit(1);
        make_calls(common, spec, expected, direct);
      },
      [&](shared_state&, pid_t child) {
        int status = 0;
        ::waitpid(child, &status, 0);
        if (::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL) != 0)
          throw std::runtime_error("ptrace(2) is not allowed here");
        ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
        for (std::uint64_t n = 0; n != spec.items && ::waitpid(child, &status, 0) == child && WIFSTOPPED(status);) {
          if (status >> 8 == (SIGTRAP | (PTRACE_EVENT_SECCOMP << 8))) {
            user_regs_struct registers{};
            ::ptrace(PTRACE_GETREGS, child, nullptr, &registers);
            registers.rax = static_cast<unsigned long long>(::syscall(SYS_getppid));
            registers.orig_rax = static_cast<unsigned long long>(-1);  // the kernel makes no call
            ::ptrace(PTRACE_SETREGS, child, nullptr, &registers);
            ++n;
          }
          ::ptrace(PTRACE_CONT, child, nullptr, nullptr);
        }
      });
}

/// When all fibers wait, it waits for one reply, and takes the others that have arrived.
class socket_caller {
 public:
  explicit socket_caller(int end) : end_(end) {}
  void push(const call_request& r) {
    if (::write(end_, &r, sizeof r) != sizeof r) ::_exit(1);
    ++under_way_;
  }
  bool try_pop(call_reply& r) {
    const bool got = under_way_ != 0 && ::recv(end_, &r, sizeof r, first_ ? 0 : MSG_DONTWAIT) == sizeof r;
    if (got) --under_way_;
    first_ = !got;
    return got;
  }

 private:
  const int end_;
  unsigned under_way_ = 0;
  bool first_ = true;
};

outcome run_sockets(const call_spec& spec) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) throw std::runtime_error("no sockets");
  return run_processes(
      spec,
      [&](shared_state& common, std::int64_t expected) {
        ::close(ends[0]);
        socket_caller end(ends[1]);
        call_desk desk(0, spec.fibers, false);
        std::vector<std::uint64_t> left(spec.fibers);
        for (unsigned f = 0; f < spec.fibers; ++f) left[f] = calls_of(spec, f);
        make_calls(common, spec, expected, [&](unsigned fiber, std::uint32_t number) {
          const std::int64_t result = desk.call(end, fiber, number, [&](const call_reply& r) { desk.deliver(r); });
          if (--left[fiber] == 0) desk.leave();
          return result;
        });
      },
      [&](shared_state&, pid_t) {
        ::close(ends[1]);
        for (call_request r; ::read(ends[0], &r, sizeof r) == sizeof r;) {
          const call_reply reply{r.caller, static_cast<std::uint32_t>(r.arguments[0]), ::syscall(r.call)};
          if (::write(ends[0], &reply, sizeof reply) != sizeof reply) break;
        }
      });
}

}  // namespace

void add_call_brokers(catalogue& to) {
  to.add(
      "kernel", "baseline",
      {{.name = "native", .role = "limit", .note = "the process makes its calls", .call_between = run_native},
       {.name = "seccomp notification",
        .note = "SECCOMP_RET_USER_NOTIF; a thread of another process answers",
        .call_between = run_notifications},
       {.name = "ptrace", .note = "SECCOMP_RET_TRACE; the tracer sets the result", .call_between = run_traced},
       {.name = "socket pair",
        .note = "SOCK_SEQPACKET; a write and a read for each call on each side; fibers wait for each other's replies",
        .fibers = 64,
        .call_between = run_sockets}});
}

}  // namespace muster::bench
