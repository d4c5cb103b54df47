// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// wall.hpp: the system calls that a process may make itself: a list of rules that the kernel enforces (seccomp).
//
// A call that no rule allows fails with EPERM, ends the process, or is trapped: the thread then gets SIGSYS, and the
// handler can ask a broker. A rule may check arguments, each against some values under a mask; memory that they point
// to cannot be checked.
//
// Threads    raise() applies to all threads of the process, including future ones. It cannot be undone.
// Other ABIs a call by another ABI than this program's (int 0x80, x32) ends the process.
// Not kept   uretprobe (335, from Linux 6.11) and uprobe (336, from 6.17) pass every filter. Without a probe they end
//            their caller, or fail.
// Errors     std::system_error, with advice, if the kernel accepts no filter.
#pragma once

#include <muster/base/config.hpp>             // MUSTER_ABI
#include <muster/base/detail/os.hpp>          // os::futex_waitv_call
#include <muster/base/detail/system_abi.hpp>  // native_calls

#include <linux/filter.h>   // sock_filter
#include <linux/futex.h>    // FUTEX_WAIT
#include <linux/seccomp.h>  // SECCOMP_RET_ALLOW
#include <sys/mman.h>       // PROT_EXEC
#include <sys/prctl.h>      // PR_SET_NO_NEW_PRIVS
#include <sys/syscall.h>    // SYS_futex
#include <unistd.h>         // syscall

#include <algorithm>     // std::ranges::sort
#include <cerrno>        // EPERM
#include <csignal>       // SIGSYS
#include <cstddef>       // offsetof
#include <cstdint>       // std::uint32_t
#include <ctime>         // CLOCK_TAI
#include <span>          // rules
#include <string>        // messages
#include <system_error>  // std::system_error
#include <utility>       // std::move
#include <vector>        // rules

namespace muster::inline MUSTER_ABI::detail {

class wall {
 public:
  /// The treatment of a call that no rule allows.
  enum class refusal : std::uint32_t {
    fail = SECCOMP_RET_ERRNO | EPERM,
    trap = SECCOMP_RET_TRAP,
    kill = SECCOMP_RET_KILL_PROCESS,
  };

  /// One value, or all from `least` to `most`.
  struct range {
    constexpr range(std::uint32_t value) noexcept : least(value), most(value) {}  // NOLINT(google-explicit-constructor)
    constexpr range(std::uint32_t from, std::uint32_t to) noexcept : least(from), most(to) {}
    std::uint32_t least, most;
  };
  /// The low 32 bits of an argument, under `mask`, are in one of `values`.
  struct check {
    unsigned argument;
    std::uint32_t mask;
    std::vector<range> values;
  };
  struct rule {
    long call;
    std::vector<check> checks;  // all must hold
  };

  /// The calls that muster's queues, fibers and waits need once everything is created, and calls to end the process.
  static wall pure();
  /// Adds private memory of the process.
  wall& with_memory(bool executable = false);
  /// Adds the needs of another program that starts in the process: its own thread pointer.
  wall& with_program();
  /// Adds one call. Add each call only once.
  wall& with(long call, std::vector<check> checks = {}) {
    rules_.push_back({call, std::move(checks)});
    return *this;
  }

  const std::vector<rule>& rules() const noexcept { return rules_; }
  /// Returns the filter for the kernel.
  std::vector<sock_filter> compiled(refusal otherwise) const;
  /// Applies from here on. Neither allocates nor frees, as both may need a system call. Throws std::system_error.
  static void raise(std::vector<sock_filter>& code);

 private:
  static constexpr std::uint32_t all = ~std::uint32_t{0};
  using code = std::vector<sock_filter>;
  using some_rules = std::span<const rule>;

  static void append_rule(code& to, const rule& r, refusal otherwise);
  static void append_search(code& to, some_rules sorted, refusal otherwise);

  std::vector<rule> rules_;
};

inline wall wall::pure() {
  wall made;
  for (const long call : {long{SYS_exit}, long{SYS_exit_group}, long{SYS_rt_sigreturn}, long{SYS_sched_yield},
                          long{SYS_getrandom}, os::futex_waitv_call})
    made.with(call);
  made.with(SYS_restart_syscall);  // with which the kernel resumes a timed wait after SIGSTOP and SIGCONT
  // The machine's clocks and the process's own, not those of other processes.
  const check clocks{0, all, {{CLOCK_REALTIME, CLOCK_TAI}}};
  made.with(SYS_clock_gettime, {clocks}).with(SYS_clock_nanosleep, {clocks});
  // Handlers for its own faults and for every signal except the wall's.
  made.with(SYS_sigaltstack);
  made.with(SYS_rt_sigaction, {{0, all, {{1, SIGSYS - 1}, {SIGSYS + 1, _NSIG - 1}}}});
  // Waits and wakes, with bits or without: no requeue, no priority inheritance.
  made.with(SYS_futex, {{1,
                         ~std::uint32_t{FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME},
                         {FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET}}});
  // The fast fence within the process, which was registered before. No fence that interrupts other processes, and no
  // registration.
  made.with(SYS_membarrier, {{0, all, {1U << 3U}}});
  return made;
}

inline wall& wall::with_memory(bool executable) {
  const check allowed{2, executable ? 0U : std::uint32_t{PROT_EXEC}, {0}};
  // Not mremap: it could show more of a previously mapped file.
  with(SYS_brk).with(SYS_munmap);
  // Not 100 and 101, the tests of memory failures: with privileges they take pages away from all processes. Not
  // MADV_MERGEABLE: pages merged with those of other processes reveal their contents, and the kernel's work is not
  // counted.
  with(SYS_madvise, {{2, all, {{0, MADV_MERGEABLE - 1}, {MADV_MERGEABLE + 1, 99}, {102, 103}}}});
  // No file, nothing shared, and no stack that grows: the limit of data does not count these. No pages of a pool that
  // the whole machine shares, and none that the machine could not use otherwise.
  constexpr std::uint32_t kind = MAP_TYPE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_HUGETLB | MAP_LOCKED;
  with(SYS_mmap, {allowed, {3, kind, {MAP_PRIVATE | MAP_ANONYMOUS}}});
  return with(SYS_mprotect, {allowed});
}

inline wall& wall::with_program() {
  if (old_calls::arch_prctl < 0) return *this;  // it is an instruction on that machine
  constexpr std::uint32_t set = 0x1002;
  return with(old_calls::arch_prctl, {{0, all, {set}}});
}

/// Appends the checks of one rule to a call with its number.
inline void wall::append_rule(code& to, const rule& r, refusal otherwise) {
  constexpr std::uint16_t equal = BPF_JMP | BPF_JEQ | BPF_K, at_least = BPF_JMP | BPF_JGE | BPF_K;
  for (const check& c : r.checks) {
    // Little-endian: the low half.
    const std::size_t argument = offsetof(seccomp_data, args) + c.argument * sizeof(std::uint64_t);
    to.push_back({BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(argument)});
    if (c.mask != all) to.push_back({BPF_ALU | BPF_AND | BPF_K, 0, 0, c.mask});
    // Each value is a jump past the refusal; its length is set once the refusal is appended.
    std::vector<std::size_t> jumps;
    for (const range& values : c.values) {
      if (values.least != values.most) {
        to.push_back({at_least, 0, 1, values.least});
        to.push_back({BPF_JMP | BPF_JGT | BPF_K, 0, 0, values.most});
      } else {
        to.push_back({equal, 0, 0, values.least});
      }
      jumps.push_back(to.size() - 1);
    }
    to.push_back({BPF_RET | BPF_K, 0, 0, static_cast<std::uint32_t>(otherwise)});
    for (const std::size_t jump : jumps) {
      sock_filter& one = to[jump];
      (one.code == equal ? one.jt : one.jf) = static_cast<std::uint8_t>(to.size() - jump - 1);
    }
  }
  to.push_back({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW});
}

/// Halves the rules until one is left. The kernel executes this for each number when it accepts a filter, and for each
/// call that is allowed with checks.
inline void wall::append_search(code& to, some_rules sorted, refusal otherwise) {
  constexpr std::uint16_t at_least = BPF_JMP | BPF_JGE | BPF_K, equal = BPF_JMP | BPF_JEQ | BPF_K;
  if (sorted.size() <= 1) {
    if (!sorted.empty()) {
      to.push_back({equal, 1, 0, static_cast<std::uint32_t>(sorted[0].call)});
      to.push_back({BPF_RET | BPF_K, 0, 0, static_cast<std::uint32_t>(otherwise)});
      append_rule(to, sorted[0], otherwise);
    } else {
      to.push_back({BPF_RET | BPF_K, 0, 0, static_cast<std::uint32_t>(otherwise)});
    }
    return;
  }
  const std::size_t middle = sorted.size() / 2;
  to.push_back({at_least, 0, 1, static_cast<std::uint32_t>(sorted[middle].call)});
  const std::size_t jump = to.size();
  to.push_back({BPF_JMP | BPF_JA, 0, 0, 0});  // farther than the 255 steps of a comparison
  append_search(to, sorted.first(middle), otherwise);
  to[jump].k = static_cast<std::uint32_t>(to.size() - jump - 1);
  append_search(to, sorted.subspan(middle), otherwise);
}

inline std::vector<sock_filter> wall::compiled(refusal otherwise) const {
  std::vector<rule> sorted = rules_;
  std::ranges::sort(sorted, {}, &rule::call);
  constexpr auto load = [](std::size_t at) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(at)};
  };
  constexpr sock_filter end_it{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS};
  code made{load(offsetof(seccomp_data, arch)), {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, native_calls},       end_it,
            load(offsetof(seccomp_data, nr)),   {BPF_JMP | BPF_JGE | BPF_K, 0, 1, first_foreign_call}, end_it};
  append_search(made, sorted, otherwise);
  return made;
}

inline void wall::raise(std::vector<sock_filter>& code) {
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  const auto refused = [](const char* what) {
    throw std::system_error(
        errno, std::generic_category(),
        std::string("cannot raise the wall of a sandbox: ") + what +
            "; the kernel must be built with seccomp filters (Linux 4.14 or newer), and a container must allow them");
  };
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) refused("prctl(PR_SET_NO_NEW_PRIVS) fails");
  const long done = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (done > 0) errno = EBUSY;  // the number of a thread that has its own filter
  if (done != 0) refused(done > 0 ? "a thread has another filter already" : "seccomp fails");
}

}  // namespace muster::inline MUSTER_ABI::detail
