// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// malloc_upstream.hpp: CUDA's malloc in kernels as an upstream allocator (upstream.hpp); the C library's malloc
// elsewhere.
//
// Requests   CUDA's malloc takes some 50 times as long for 129 to 2047 bytes as for 2048 (curves of 2020). So it is
//            asked for chunks of 3 to 4 KiB, which are cut into blocks of one size each. A block of more than a KiB is
//            a chunk of its own, of at least 2 KiB.
// Rests      A lane takes the first block of a chunk and leaves the rest in a FIFO. A lane that finds the rest takes
//            its first block and leaves the others.
// Sizes      of blocks in chunks: powers of two, 64 bytes to 1 KiB.
// Alignment  16 bytes, or a granule of the heap if that is larger.
// Memory     16 bytes more for each block, and 16 at the begin of a chunk, which count its blocks in use and in the
//            rest. A chunk returns to malloc with the last of them; trim() returns the rests.
// Cost       allocate: one pop and one push of a FIFO (fifo.hpp). malloc is called if the FIFO has no rest, once for 3
//            to 50 blocks (with granules of 16 bytes), and for each block of more than a KiB. deallocate: one
//            fetch-sub, and free with the last block of a chunk. If malloc has no memory: a pop of each of 16 FIFOs.
//            trim: O(rests).
// Failure    null, after one look for a rest, at malloc for a chunk, for a rest in any FIFO of the size, and at malloc
//            for a block.
// Sides      created and used on one side only: a kernel frees what a kernel has allocated.
// Progress   that of malloc.
#pragma once

#include <muster/gpu/fifo.hpp>      // rests
#include <muster/gpu/simt.cuh>      // atomic
#include <muster/gpu/upstream.hpp>  // granule_bits_for

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t
#include <cstdlib>  // malloc
#include <new>      // placement

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// The malloc of kernels, or of the host.
struct side_malloc {
  static MUSTER_GPU void* allocate(std::size_t bytes) { return ::malloc(bytes); }
  static MUSTER_GPU void free(void* block) { ::free(block); }
};

/// `Malloc` has two static functions, allocate(bytes) and free(block), and returns multiples of 16.
template <class Malloc>
class basic_malloc_upstream {
 public:
  static constexpr std::size_t smallest_block = 64;
  static constexpr unsigned size_classes = 5;
  static constexpr std::size_t largest_cut = smallest_block << (size_classes - 1);
  static constexpr std::size_t largest_chunk = 4032;     // a page of 4 KiB, with room for a header of malloc's
  static constexpr std::size_t smallest_request = 2048;  // for a single block
  static constexpr unsigned fifos = 16;                  // of rests, per size

  /// `heap_bytes`: at least the size of malloc's heap. `rests`: the FIFOs hold so many of each size.
  MUSTER_GPU explicit basic_malloc_upstream(std::uint64_t heap_bytes, unsigned rests = 256)
      : granule_bits_(granule_bits_for(2 * heap_bytes)) {
    for (auto& of_class : rests_)
      for (auto& one : of_class) one.start(rests / fifos + (rests % fifos != 0));
    // Its heap lies around the first block that it returns.
    void* const some = Malloc::allocate(16);
    origin_ = reinterpret_cast<std::uintptr_t>(some) - (std::uintptr_t{1} << (31 + granule_bits_));
    origin_ &= ~(granule() - 1);
    Malloc::free(some);
  }

  MUSTER_GPU void* allocate(std::size_t bytes) {
    if (bytes > largest_cut) return allocate_alone(bytes, smallest_request);
    unsigned size_class = 0;
    while (smallest_block << size_class < bytes) ++size_class;
    char* block = rest_of(size_class, multiprocessor());
    if (block == nullptr) block = new_chunk(size_class);
    if (block == nullptr) block = any_rest_of(size_class);
    if (block == nullptr) return allocate_alone(smallest_block << size_class, 0);
    leave_rest(block);
    return block;
  }

  MUSTER_GPU_COLD void deallocate(void* block) {
    header* const its = header_of(static_cast<char*>(block));
    if (its->after == alone) {
      Malloc::free(begin_of(its));
    } else {
      give_back(its, 1);
    }
  }

  /// Always true: malloc does not expose where its heap lies.
  MUSTER_GPU bool owns(const void*) const { return true; }
  MUSTER_GPU std::uintptr_t origin() const { return origin_; }
  MUSTER_GPU unsigned granule_bits() const { return granule_bits_; }

  /// Returns the rests. No lane may allocate or free meanwhile.
  MUSTER_GPU void trim() {
    for (unsigned c = 0; c < size_classes; ++c)
      for (unsigned f = 0; f < fifos; ++f)
        while (char* const rest = rest_of(c, f)) give_back(header_of(rest), header_of(rest)->after + 1);
  }

 private:
  /// Before a block.
  struct header {
    std::uint32_t distance;  // of the header from the begin of the chunk
    std::uint32_t after;     // how many blocks follow it in the chunk, or `alone`: it is the whole of its chunk
  };
  /// At the begin of a chunk of several blocks.
  struct count {
    MUSTER_GPU count(std::uint32_t blocks, std::uint32_t its_class) : live(blocks), size_class(its_class) {}
    atomic<std::uint32_t> live;  // blocks in use and in the rest
    std::uint32_t size_class;
  };

  static constexpr std::uint32_t alone = ~std::uint32_t{0};
  static constexpr std::uint32_t room = 16;
  static_assert(sizeof(header) <= room && sizeof(count) <= room);

  MUSTER_GPU std::uintptr_t granule() const { return std::uintptr_t{1} << granule_bits_; }
  MUSTER_GPU std::uintptr_t rounded(std::uintptr_t at) const { return (at + granule() - 1) & ~(granule() - 1); }

  static MUSTER_GPU header* header_of(char* block) { return reinterpret_cast<header*>(block - room); }
  static MUSTER_GPU char* begin_of(header* its) { return reinterpret_cast<char*>(its) - its->distance; }
  static MUSTER_GPU count* count_of(header* its) { return reinterpret_cast<count*>(begin_of(its)); }

  /// The bytes from a block to the next one of its chunk.
  MUSTER_GPU std::uintptr_t step(unsigned size_class) const { return rounded((smallest_block << size_class) + room); }
  /// The bytes of a chunk before its first block, at most.
  MUSTER_GPU std::uintptr_t before_first() const { return 2 * room + granule() - 16; }
  MUSTER_GPU std::uint32_t blocks(unsigned size_class) const {
    if (before_first() + step(size_class) > largest_chunk) return 0;
    return static_cast<std::uint32_t>(largest_chunk - before_first()) / static_cast<std::uint32_t>(step(size_class));
  }

  /// The first block of a new chunk, followed by the others; null if there is none.
  MUSTER_GPU char* new_chunk(unsigned size_class) {
    if (blocks(size_class) < 2) return nullptr;  // granules of a heap of terabytes
    auto* const begin = static_cast<char*>(Malloc::allocate(before_first() + blocks(size_class) * step(size_class)));
    if (begin == nullptr) return nullptr;
    ::new (static_cast<void*>(begin)) count(blocks(size_class), size_class);
    return with_header(begin, 2 * room, blocks(size_class) - 1);
  }
  MUSTER_GPU_COLD void* allocate_alone(std::size_t bytes, std::size_t least) {
    const std::size_t more = room + static_cast<std::size_t>(granule()) - 16;
    if (bytes > ~std::size_t{0} - more) return nullptr;
    auto* const begin = static_cast<char*>(Malloc::allocate(bytes + more < least ? least : bytes + more));
    return begin == nullptr ? nullptr : with_header(begin, room, alone);
  }
  /// Makes the first block that begins at least so many bytes after `begin`.
  MUSTER_GPU char* with_header(char* begin, std::uint32_t least, std::uint32_t after) const {
    auto* const block = reinterpret_cast<char*>(rounded(reinterpret_cast<std::uintptr_t>(begin) + least));
    ::new (static_cast<void*>(block - room)) header{static_cast<std::uint32_t>(block - begin) - room, after};
    return block;
  }

  /// Takes a rest from a FIFO; null if there is none.
  MUSTER_GPU_COLD char* rest_of(unsigned size_class, unsigned which) {
    std::uint32_t number = 0;
    if (!rests_[size_class][which % fifos].try_pop(number)) return nullptr;
    return reinterpret_cast<char*>(origin_ + (std::uintptr_t{number} << granule_bits_));
  }
  MUSTER_GPU char* any_rest_of(unsigned size_class) {
    for (unsigned which = 0; which < fifos; ++which)
      if (char* const block = rest_of(size_class, which)) return block;
    return nullptr;
  }
  /// Leaves the blocks after this one for others.
  MUSTER_GPU void leave_rest(char* block) {
    header* const its = header_of(block);
    if (its->after == 0) return;
    const unsigned size_class = count_of(its)->size_class;
    char* const next = block + step(size_class);
    ::new (static_cast<void*>(next - room))
        header{its->distance + static_cast<std::uint32_t>(step(size_class)), its->after - 1};
    const std::uint64_t number = (reinterpret_cast<std::uintptr_t>(next) - origin_) >> granule_bits_;
    const bool has_number = number <= ~std::uint32_t{0};
    if (has_number && rests_[size_class][multiprocessor() % fifos].try_push(static_cast<std::uint32_t>(number))) return;
    // There is no place for them. They wait for the other blocks of the chunk, of which this one is in use.
    give_back(its, its->after);
  }
  MUSTER_GPU void give_back(header* of, std::uint32_t many) {
    // (1) acq_rel: pairs with (1). The lane that frees the chunk does so after all others have finished with it.
    if (count_of(of)->live.fetch_sub(many, std::memory_order_acq_rel) == many) Malloc::free(begin_of(of));
  }

  std::uintptr_t origin_;
  unsigned granule_bits_;
  fifo<1024> rests_[size_classes][fifos];
};

using malloc_upstream = basic_malloc_upstream<side_malloc>;

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
