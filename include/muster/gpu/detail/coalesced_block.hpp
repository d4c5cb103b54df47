// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// coalesced_block.hpp: one block of memory that several lanes allocated together, cut into a slot for each.
//
// Layout     8 bytes for the block, then the slots, each a multiple of 16 bytes: an 8-byte header and the
//            object. So every object is aligned to 16 if the block is.
//
//              +------+------+-----------+------+-----------+---
//              | head | slot | object    | slot | object    |
//              +------+------+-----------+------+-----------+---
//              0      8      16
//
// Alone      a lane that allocates by itself gets a block of one slot, with a tag of its own.
// Tags       depend on the address, so a copied slot, or a pointer into an object, passes for a slot only
//            once in 2^32. A tag changes when its slot is freed: a double free is noticed until the memory is
//            used for something else.
// Source     Huang and others, 2011 (fifo.hpp), section 5.1 and Figure 3; with alignment to 16, not 8.
#pragma once

#include <muster/gpu/simt.cuh>  // atomic

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t
#include <new>      // placement

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// The header of a block.
struct coalesced_block {
  atomic<std::uint32_t> live;  // slots that have not been freed
  std::uint32_t size_class;    // of the block, which returns to the FIFOs of this class

  static constexpr std::size_t header = 8;
};

/// The result of a free.
enum class freed { together, alone, twice, invalid };

/// The header of an object.
class block_slot {
 public:
  static constexpr std::size_t header = 8;
  static constexpr std::size_t alignment = 16;

  /// The size of a slot for an object of that many bytes, header included.
  static constexpr MUSTER_GPU std::size_t bytes_for(std::size_t object) {
    return (object + header + alignment - 1) / alignment * alignment;
  }
  /// Creates the slot that begins `offset` bytes after `begin`, and returns its object.
  static MUSTER_GPU void* make(char* begin, std::uint32_t offset, bool alone) {
    auto* const c = ::new (static_cast<void*>(begin + offset)) block_slot;
    c->offset_ = offset;
    c->tag_.store(c->tag(alone ? alone_tag : shared_tag), std::memory_order_relaxed);
    return begin + offset + header;
  }
  /// The slot of an object, if it is one. The 8 bytes before `object` must be readable, and `object` aligned.
  static MUSTER_GPU block_slot* of(void* object) {
    return reinterpret_cast<block_slot*>(static_cast<char*>(object) - header);
  }

  /// Marks the slot as freed if it was live.
  MUSTER_GPU freed free() {
    const std::uint32_t together = tag(shared_tag), alone = tag(alone_tag);
    // Relaxed: the caller guarantees that other lanes no longer use the object.
    std::uint32_t found = tag_.load(std::memory_order_relaxed);
    const bool alive = found == together || found == alone;
    // If two lanes free it at once, the exchange of one of them fails.
    if (alive && tag_.compare_exchange_strong(found, ~found, std::memory_order_relaxed, std::memory_order_relaxed))
      return found == together ? freed::together : freed::alone;
    return found == ~together || found == ~alone ? freed::twice : freed::invalid;
  }
  MUSTER_GPU coalesced_block* its_block() {
    return reinterpret_cast<coalesced_block*>(reinterpret_cast<char*>(this) - offset_);
  }

 private:
  static constexpr std::uint32_t shared_tag = 0x5ea7c0de;
  static constexpr std::uint32_t alone_tag = 0xa10e5eed;

  MUSTER_GPU std::uint32_t tag(std::uint32_t kind) const {
    const auto at = reinterpret_cast<std::uintptr_t>(this);
    return kind ^ static_cast<std::uint32_t>(at >> 3U ^ at >> 35U) * 0x9e3779b9U;
  }

  atomic<std::uint32_t> tag_;
  std::uint32_t offset_ = 0;  // from the block's beginning
};

static_assert(sizeof(block_slot) == block_slot::header && sizeof(coalesced_block) == coalesced_block::header);

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
