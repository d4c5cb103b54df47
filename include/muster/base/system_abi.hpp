// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// system_abi.hpp: how system calls are made on this machine, as a filter of system calls sees it. Linux.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <linux/audit.h>  // AUDIT_ARCH_X86_64

#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::detail {

#if defined(__x86_64__)
/// What the kernel calls the way in which this program makes them.
inline constexpr std::uint32_t native_calls = AUDIT_ARCH_X86_64;
/// Numbers from here on are another way's.
inline constexpr std::uint32_t first_foreign_call = 0x40000000;  // x32
#elif defined(__aarch64__)
inline constexpr std::uint32_t native_calls = AUDIT_ARCH_AARCH64;
inline constexpr std::uint32_t first_foreign_call = ~std::uint32_t{0};
#else
#error "muster/syscall needs x86-64 or AArch64: leave it out here, or add the machine to base/system_abi.hpp."
#endif

}  // namespace muster::inline MUSTER_ABI::detail
