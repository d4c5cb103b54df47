// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// this_fiber.hpp: what the calling fiber may do and ask, as namespace std::this_thread has it for threads.
//
// Without the means to make fibers, which need Linux: structures that fibers wait for include this header alone.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_LINUX

#if defined(MUSTER_LINUX)
#include <muster/fiber/detail/carrier.hpp>  // carrier
#else
#include <muster/fiber/detail/no_fibers.hpp>  // carrier
#endif

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI {

/// The calling fiber, or the thread itself.
namespace this_fiber {

/// Lets each other fiber of this thread run once, if it can. Returns at once when there is none.
MUSTER_HOT void yield() noexcept { detail::carrier::own().yield(); }
/// Returns true if the thread has other fibers that can run while this one waits, now or after an event.
MUSTER_HOT bool has_siblings() noexcept { return detail::carrier::own().has_siblings(); }
/// The number of this fiber, counted from 1 in the order of creation on this thread; 0 is the thread itself.
inline std::uint64_t number() noexcept { return detail::carrier::own().current_number(); }

}  // namespace this_fiber

}  // namespace muster::inline MUSTER_ABI
