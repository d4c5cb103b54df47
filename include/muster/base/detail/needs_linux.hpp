// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// needs_linux.hpp: included first by what needs more of a system than base/detail/os.hpp has. Windows and macOS have
// the queues between threads, queue/select.hpp and queue/async.hpp, and combining.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_LINUX

#if !defined(MUSTER_LINUX)
#error "this part of muster needs Linux; here, use the queues between threads (muster/queue.hpp) and muster/combine.hpp"
#endif
