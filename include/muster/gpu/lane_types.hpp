// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lane_types.hpp: what all sides of lane.cuh speak of.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::gpu {

inline constexpr unsigned warp_size = 32;

/// Lanes of one warp: bit n for lane n.
using lane_mask = std::uint32_t;

/// What CUDA calls dim3.
struct index3 {
  unsigned x = 1, y = 1, z = 1;
};

}  // namespace muster::inline MUSTER_ABI::gpu
