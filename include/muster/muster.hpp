// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// muster.hpp: everything but muster/gpu.hpp, which is for kernels, muster/queue/shared.hpp and shared_bytes.hpp, the
// queues between processes, and muster/syscall.hpp, the sandbox.
#pragma once

#include <muster/base/parallelism.hpp>  // IWYU pragma: export
#include <muster/combine.hpp>           // IWYU pragma: export
#include <muster/fiber.hpp>             // IWYU pragma: export
#include <muster/fork.hpp>              // IWYU pragma: export
#include <muster/queue.hpp>             // IWYU pragma: export
#include <muster/queue/async.hpp>       // IWYU pragma: export
#include <muster/queue/notify_fd.hpp>   // IWYU pragma: export
#include <muster/queue/select.hpp>      // IWYU pragma: export
#include <muster/version.hpp>           // IWYU pragma: export
