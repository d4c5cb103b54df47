// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// gpu.hpp: everything of the part `gpu`, for kernels.
#pragma once

#include <muster/gpu/fifo.hpp>           // IWYU pragma: export
#include <muster/gpu/heap.cuh>           // IWYU pragma: export
#include <muster/gpu/page_upstream.hpp>  // IWYU pragma: export
#include <muster/gpu/simt.cuh>           // IWYU pragma: export
#include <muster/gpu/upstream.hpp>       // IWYU pragma: export
#include <muster/gpu/xmalloc.hpp>        // IWYU pragma: export
#include <muster/gpu/xmc.cuh>            // IWYU pragma: export
