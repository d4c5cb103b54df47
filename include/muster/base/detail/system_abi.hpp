// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// system_abi.hpp: the system call convention of this machine, as seen by a system call filter. Linux.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <linux/audit.h>  // AUDIT_ARCH_X86_64
#include <sys/syscall.h>  // SYS_open
#include <ucontext.h>     // ucontext_t

#include <array>    // arguments
#include <csignal>  // sigset_t
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

/// The context of a SIGSYS handler: a system call that a filter has trapped, so it has not been executed.
class trapped_call {
 public:
  using arguments = std::array<std::uint64_t, 6>;

  explicit trapped_call(void* context) noexcept
      : machine_(static_cast<ucontext_t*>(context)->uc_mcontext),
        blocked_(static_cast<ucontext_t*>(context)->uc_sigmask) {}
  inline arguments given() const noexcept;
  /// Sets the caller's result, effective when the handler returns.
  inline void set_result(std::int64_t result) noexcept;
  /// The signal mask after the handler returns.
  sigset_t& blocked_signals() noexcept { return blocked_; }

 private:
  mcontext_t& machine_;
  sigset_t& blocked_;
};

#if defined(__x86_64__)
/// The kernel's identifier of this program's system call convention.
inline constexpr std::uint32_t native_calls = AUDIT_ARCH_X86_64;
/// Numbers from here on belong to another convention.
inline constexpr std::uint32_t first_foreign_call = 0x40000000;  // x32

inline trapped_call::arguments trapped_call::given() const noexcept {
  const auto at = [this](int which) { return static_cast<std::uint64_t>(machine_.gregs[which]); };
  return {at(REG_RDI), at(REG_RSI), at(REG_RDX), at(REG_R10), at(REG_R8), at(REG_R9)};
}
inline void trapped_call::set_result(std::int64_t result) noexcept { machine_.gregs[REG_RAX] = result; }

/// Calls that newer architectures lack; negative there.
struct old_calls {
  static constexpr long open = SYS_open, creat = SYS_creat, stat = SYS_stat, lstat = SYS_lstat, access = SYS_access,
                        readlink = SYS_readlink, unlink = SYS_unlink, rmdir = SYS_rmdir, mkdir = SYS_mkdir,
                        rename = SYS_rename, renameat = SYS_renameat, getrlimit = SYS_getrlimit, getpgrp = SYS_getpgrp,
                        fork = SYS_fork, vfork = SYS_vfork, poll = SYS_poll, select = SYS_select, pipe = SYS_pipe,
                        arch_prctl = SYS_arch_prctl, dup2 = SYS_dup2, chmod = SYS_chmod, chown = SYS_chown,
                        lchown = SYS_lchown, utimes = SYS_utimes;
};
#elif defined(__aarch64__)
inline constexpr std::uint32_t native_calls = AUDIT_ARCH_AARCH64;
inline constexpr std::uint32_t first_foreign_call = ~std::uint32_t{0};

inline trapped_call::arguments trapped_call::given() const noexcept {
  const auto& r = machine_.regs;
  return {r[0], r[1], r[2], r[3], r[4], r[5]};
}
inline void trapped_call::set_result(std::int64_t result) noexcept {
  machine_.regs[0] = static_cast<std::uint64_t>(result);
}

/// Calls that newer architectures lack; negative there.
struct old_calls {
  static constexpr long open = -1, creat = -2, stat = -3, lstat = -4, access = -5, readlink = -6, unlink = -7,
                        rmdir = -8, mkdir = -9, rename = -10, renameat = -11, getrlimit = -12, getpgrp = -13,
                        fork = -14, vfork = -15, poll = -16, select = -17, pipe = -18, arch_prctl = -19, dup2 = -20,
                        chmod = -21, chown = -22, lchown = -23, utimes = -24;
};
#else
#error "muster/syscall needs x86-64 or AArch64: leave it out here, or add the machine to base/detail/system_abi.hpp."
#endif

}  // namespace muster::inline MUSTER_ABI::detail
