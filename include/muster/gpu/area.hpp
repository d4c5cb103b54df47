// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// area.hpp: one block of memory that several lanes have asked for together, cut into a compartment for each.
//
// Layout     8 bytes for the area, then the compartments, of multiples of 16 bytes each: 8 bytes of their own, and the
//            object. So every object lies at a multiple of 16 when the area does.
//
//              +------+------+-----------+------+-----------+---
//              | area | comp.| object    | comp.| object    |
//              +------+------+-----------+------+-----------+---
//              0      8      16
//
// Alone      what a lane has asked for by itself is an area of one compartment, with a tag that says so.
// Tags       depend on the address, so that a compartment that has been copied, or a pointer into an object, is not
//            taken for a compartment; but by one in 2^32. A tag changes when its compartment is freed: who frees twice
//            is noticed until the memory is used for something else.
// Source     Huang and others, 2011 (fifo.hpp), section 5.1 and Figure 3; with alignment to 16, not 8.
#pragma once

#include <muster/gpu/lane.cuh>  // atomic

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t
#include <new>      // placement

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// At the beginning of the block.
struct area {
  atomic<std::uint32_t> live;  // compartments that have not been freed
  std::uint32_t size_class;    // the block's; it goes back to where it came from

  static constexpr std::size_t header = 8;
};

/// What it was that somebody frees.
enum class freed { together, alone, twice, invalid };

/// Right before an object.
class compartment {
 public:
  static constexpr std::size_t header = 8;
  static constexpr std::size_t alignment = 16;

  /// With header, for an object of so many bytes.
  static constexpr MUSTER_GPU std::size_t bytes_for(std::size_t object) {
    return (object + header + alignment - 1) / alignment * alignment;
  }
  /// Makes the compartment that begins `offset` bytes after `begin`, and returns its object.
  static MUSTER_GPU void* make(char* begin, std::uint32_t offset, bool alone) {
    auto* const c = ::new (static_cast<void*>(begin + offset)) compartment;
    c->offset_ = offset;
    c->tag_.store(c->tag(alone ? alone_tag : shared_tag), std::memory_order_relaxed);
    return begin + offset + header;
  }
  /// Of an object, if it is one. The 8 bytes before `object` must be readable, and `object` be aligned.
  static MUSTER_GPU compartment* of(void* object) {
    return reinterpret_cast<compartment*>(static_cast<char*>(object) - header);
  }

  /// Marks it as freed, if it was alive.
  MUSTER_GPU freed free() {
    const std::uint32_t together = tag(shared_tag), alone = tag(alone_tag);
    // Relaxed: that others have done with the object is for the caller to know.
    std::uint32_t found = tag_.load(std::memory_order_relaxed);
    const bool alive = found == together || found == alone;
    // Of two who free it at once, one is told by the exchange.
    if (alive && tag_.compare_exchange_strong(found, ~found, std::memory_order_relaxed, std::memory_order_relaxed))
      return found == together ? freed::together : freed::alone;
    return found == ~together || found == ~alone ? freed::twice : freed::invalid;
  }
  MUSTER_GPU area* its_area() { return reinterpret_cast<area*>(reinterpret_cast<char*>(this) - offset_); }

 private:
  static constexpr std::uint32_t shared_tag = 0x5ea7c0de;
  static constexpr std::uint32_t alone_tag = 0xa10e5eed;

  MUSTER_GPU std::uint32_t tag(std::uint32_t kind) const {
    const auto at = reinterpret_cast<std::uintptr_t>(this);
    return kind ^ static_cast<std::uint32_t>(at >> 3U ^ at >> 35U) * 0x9e3779b9U;
  }

  atomic<std::uint32_t> tag_;
  std::uint32_t offset_ = 0;  // from the area's beginning
};

static_assert(sizeof(compartment) == compartment::header && sizeof(area) == area::header);

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
