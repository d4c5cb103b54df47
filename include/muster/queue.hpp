// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue.hpp: the queues of one process. Each of the headers below can be included by itself, and so can
// queue/shared.hpp and queue/shared_bytes.hpp, the queues between processes. queue/select.hpp waits for several queues,
// queue/notify_fd.hpp is for event loops, queue/async.hpp for coroutines.
#pragma once

#include <muster/queue/lanes.hpp>  // IWYU pragma: export
#include <muster/queue/mpmc.hpp>   // IWYU pragma: export
#include <muster/queue/spmc.hpp>   // IWYU pragma: export
#include <muster/queue/spsc.hpp>   // IWYU pragma: export
