// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// objects.hpp: what tests of heaps share: threads by number, and the objects that they have allocated.
#pragma once

#include <muster/gpu/simt.cuh>

#include "muster_simt/launch.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace muster_test {

MUSTER_GPU unsigned number_in_block() {
  const auto t = muster::gpu::thread_index(), size = muster::gpu::block_size();
  return t.x + size.x * (t.y + size.y * t.z);
}
MUSTER_GPU unsigned number_in_grid() {
  const auto b = muster::gpu::block_index(), grid = muster::gpu::grid_size(), size = muster::gpu::block_size();
  return number_in_block() + size.x * size.y * size.z * (b.x + grid.x * (b.y + grid.y * b.z));
}

/// An object that a lane has allocated, or null.
struct object {
  unsigned char* at;
  std::uint64_t bytes;
};
/// The byte that its owner writes at a place of an object.
MUSTER_GPU unsigned char value_of(std::uint64_t at, unsigned owner) {
  return static_cast<unsigned char>(at * 31 + owner * 7 + 1);
}

/// Objects that are alive: address and bytes.
using objects = std::map<std::uintptr_t, std::size_t>;

inline objects alive_of(const muster_simt::device_array<object>& all) {
  objects alive;
  for (const object& o : all)
    if (o.at != nullptr) alive[reinterpret_cast<std::uintptr_t>(o.at)] = o.bytes;
  return alive;
}
inline std::size_t many_of(const muster_simt::device_array<object>& all) {
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const object& o) { return o.at != nullptr; }));
}

}  // namespace muster_test
