// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// deque.hpp: selects the deque of a worker: that of the engine that the program is compiled with. See base/config.hpp.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_BARRIER

#if defined(MUSTER_BARRIER)
#include <muster/fork/engine/barrier/frame_deque.hpp>    // basic_frame_deque
#include <muster/fork/engine/barrier/machine_stack.hpp>  // machine_stack
#else
#include <muster/fork/engine/watermark.hpp>  // fork_deque
#endif

namespace muster::inline MUSTER_ABI::detail {

#if defined(MUSTER_BARRIER)
using deque = basic_frame_deque<machine_stack>;
#else
using deque = fork_deque;
#endif

}  // namespace muster::inline MUSTER_ABI::detail
