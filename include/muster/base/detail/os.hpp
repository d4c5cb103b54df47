// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// os.hpp: where the operating system is chosen. Each side has the same functions, which all of base/ uses; the parts
// that need more of a system include base/detail/needs_linux.hpp first. Only base/parallelism.hpp and
// fiber/this_fiber.hpp choose as well, whether there are affinities and fibers.
//
// sleep          sleeps if the word has the expected value, until a wake or the deadline; may return without cause.
// wake           wakes up to `count` sleepers that share a bit, and returns how many; or wakes all of the word, and
//                returns 0, where the system can neither select nor count.
// sleep_any      the same for several words at once. Returns false, without sleeping, if the system cannot.
// join_fences    enables fence_others() for a scope. Returns false if the system has no such fence.
// fence_others   on return, every other thread of the scope has executed a full fence since the call began. Returns
//                false, with no effect, if the system has no such fence.
// yield, nap     give the processor away; sleep for about fifty microseconds, or the shortest time that the system can.
// in_child       arranges a call in the child of every later fork; empty where there is no fork.
// thread_key     a pointer of each thread, with a function that is called at the thread's end with one that is not
//                null, after the destructors of thread_local objects. make() returns false if there is no such call.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_LINUX

#if defined(MUSTER_LINUX)
#include <muster/base/detail/os_linux.hpp>  // IWYU pragma: export
#elif defined(MUSTER_WINDOWS)
#include <muster/base/detail/os_windows.hpp>  // IWYU pragma: export
#else
#include <muster/base/detail/os_macos.hpp>  // IWYU pragma: export
#endif
