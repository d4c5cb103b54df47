// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// misuse.hpp: what an allocator has noticed of its callers' errors.
#pragma once

#include <muster/gpu/simt.cuh>  // MUSTER_GPU_SIDE

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// The misuse that a heap has noticed since its creation.
struct misuse {
  std::uint64_t twice = 0;    // objects that were freed again
  std::uint64_t invalid = 0;  // pointers to no object
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
