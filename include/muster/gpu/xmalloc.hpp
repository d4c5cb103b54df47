// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// xmalloc.hpp: a layer over any allocator of the GPU that makes it many times as fast: the lanes of a warp allocate one
// block together, and freed blocks are kept in FIFOs for later calls.
//
// Callers    any lane of any kernel on the heap's device; lanes that call together are served together. The host may
//            call while no kernel uses the heap; a thread of the host counts as a lane.
// Sizes      any. Up to largest_coalesced together with others; larger ones, and lanes that call alone, separately.
//            Blocks up to 16 KiB are kept, by powers of two from 64 bytes on; larger ones return to the upstream
//            allocator.
// Alignment  16 bytes.
// Failure    a lane gets null if there is no memory for it. Before, it has tried the upstream allocator once, and all
//            FIFOs whose blocks are large enough: first together with the other lanes, then alone. No block is lost.
//            Zero bytes: null.
// Misuse     a double free, or a pointer to no object, is counted and ignored, within the limits of the tags before the
//            objects (coalesced_block.hpp). If the upstream allocator's owns() is exact, it rejects every foreign
//            pointer first.
// Blow-up    a block is freed with the last of its objects, so one object may keep the memory of 32. The FIFOs keep
//            free blocks: of each of nine sizes up to the configured number, and in all up to the configured bytes.
// Cost       allocate: one pop from a FIFO (fifo.hpp) for the lanes that call together. The upstream allocator is asked
//            if that FIFO is empty; if it has no memory, up to 16 FIFOs of this size and of each larger one. free: one
//            compare-exchange for each object, one fetch-sub for the lanes that free objects of one block together, and
//            a push for the last of a block; the upstream allocator gets it if the FIFO is full.
// Progress   lock-free, if the upstream allocator is.
// Source     Huang, Rodrigues, Jones, Buck, Hwu (J. Supercomputing, 2011), section 5. Figure 4, and its sums in shared
//            memory, rely on lanes that run in lockstep; here everything is in registers, and masks name the lanes.
#pragma once

#include <muster/gpu/detail/coalesced_block.hpp>  // coalesced_block, block_slot
#include <muster/gpu/fifo.hpp>                    // fifo
#include <muster/gpu/misuse.hpp>
#include <muster/gpu/simt.cuh>      // atomic, active_mask
#include <muster/gpu/upstream.hpp>  // what an upstream allocator is

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t
#include <new>      // placement

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// How a lane chooses among the FIFOs of a size.
enum class fifo_choice {
  hash,            ///< by a hash of thread, block and clock, as in the paper
  multiprocessor,  ///< by the multiprocessor that it runs on
};

/// To change an option, derive from it and hide the member: struct one_fifo : xmalloc_options { static constexpr
/// unsigned fifos = 1; }. It is a type because nvcc cannot launch kernels whose types depend on values of classes.
struct xmalloc_options {
  static constexpr bool coalesce = true;
  static constexpr bool buffer = true;
  static constexpr unsigned fifos = 16;      // per size
  static constexpr unsigned blocks = 16384;  // per size, in all its FIFOs: the most that a heap can be created for
  static constexpr unsigned largest_coalesced = 256;
  static constexpr fifo_choice choice = fifo_choice::multiprocessor;
};

template <class Upstream, class Options = xmalloc_options>
class xmalloc {
  static_assert(Options::fifos >= 1 && Options::fifos <= 16, "xmalloc: Options::fifos must be between 1 and 16");
  static_assert(Options::largest_coalesced <= 256, "xmalloc: Options::largest_coalesced must be at most 256");
  static_assert(Options::blocks >= Options::fifos, "xmalloc: Options::blocks must be at least Options::fifos");

 public:
  /// The number of sizes of blocks that are kept: each twice the one before.
  static constexpr unsigned size_classes = 9;
  /// Bytes of the smallest size.
  static constexpr std::size_t smallest_block = 64;
  /// Bytes of the largest size; a larger block comes from the upstream allocator each time.
  static constexpr std::size_t largest_block = smallest_block << (size_classes - 1);

  /// Keeps up to `blocks` blocks of each size, Options::blocks at most; each FIFO's share is rounded up to a power of
  /// two. The default is the paper's; on a GPU, resident_warps() (xmc.cuh) is better. Keeps `most_bytes` at most, of
  /// all sizes: if that is less, there are fewer blocks of the larger sizes.
  MUSTER_GPU explicit xmalloc(Upstream& upstream, unsigned blocks = 256, std::uint64_t most_bytes = ~std::uint64_t{0})
      : upstream_(upstream) {
    unsigned wanted = 1;
    while (wanted < buffer_most && std::uint64_t{wanted} * Options::fifos < blocks) wanted *= 2;
    // The bytes in a FIFO that suffice for every size; halved until all FIFOs together have few enough.
    std::uint64_t in_fifo = wanted * largest_block;
    while (all_kept(wanted, in_fifo) > most_bytes) in_fifo /= 2;
    for (unsigned c = 0; c < size_classes; ++c)
      for (auto& one : kept_[c]) one.start(many_kept(c, wanted, in_fifo));
  }
  xmalloc(const xmalloc&) = delete;
  xmalloc& operator=(const xmalloc&) = delete;

  /// Returns bytes aligned to 16; null if there is no memory, or for 0 bytes. Lanes that call together ask for one
  /// block.
  MUSTER_GPU void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    if (!Options::coalesce || bytes > Options::largest_coalesced) return allocate_alone(bytes);
    const lane_mask together = active_mask();
    if (many_of(together) == 1) return allocate_alone(bytes);

    const auto mine = static_cast<std::uint32_t>(block_slot::bytes_for(bytes));
    const auto offset = static_cast<std::uint32_t>(coalesced_block::header) + exclusive_sum(together, mine);
    const std::uint32_t all = static_cast<std::uint32_t>(coalesced_block::header) + reduce_add(together, mine);
    char* begin = nullptr;
    if (is_first_of(together)) begin = take_block(all, many_of(together));
    begin = shuffle(together, begin, first_of(together));
    // A lane that receives one of the pointers may free it at once, so the block must be complete before.
    sync_warp(together);
    // If there is no room for all lanes, there may be room for one.
    return begin == nullptr ? allocate_alone(bytes) : block_slot::make(begin, offset, false);
  }

  /// Null has no effect.
  MUSTER_GPU void free(void* object) {
    if (object == nullptr) return;
    const auto at = reinterpret_cast<std::uintptr_t>(object);
    if (at % block_slot::alignment != 0 || !upstream_.owns(object) || !upstream_.owns(static_cast<char*>(object) - 16))
      return note(invalid_);
    block_slot* const its = block_slot::of(object);
    const freed what = its->free();
    if (what == freed::twice) return note(twice_);
    if (what == freed::invalid) return note(invalid_);
    coalesced_block* const from = its->its_block();
    if (what == freed::alone) return give_back(from);
    // Lanes that free slots of the same block count them with one operation.
    const lane_mask together = match_any(active_mask(), reinterpret_cast<std::uint64_t>(from));
    sync_warp(together);
    if (!is_first_of(together)) return;
    const std::uint32_t many = many_of(together);
    // (1) acq_rel: pairs with (1). The lane that frees the block does so after all others have finished with it.
    if (from->live.fetch_sub(many, std::memory_order_acq_rel) == many) give_back(from);
  }

  /// How often an object was freed that is free already, or that is none of this heap.
  MUSTER_GPU misuse noticed() const {
    return {twice_.load(std::memory_order_relaxed), invalid_.load(std::memory_order_relaxed)};
  }
  /// The upstream allocator.
  MUSTER_GPU Upstream& upstream() { return upstream_; }
  /// The number of blocks that are kept at most, of one of the sizes: 64 bytes for 0, twice as many for each further.
  MUSTER_GPU unsigned most_kept(unsigned size_class) const { return kept_[size_class][0].capacity() * Options::fifos; }

  // --- While no lane allocates or frees.

  /// Returns all kept blocks to the upstream allocator, which returns its own.
  MUSTER_GPU void trim() {
    for (auto& of_class : kept_)
      for (auto& one : of_class)
        for (std::uint32_t number = 0; one.try_pop(number);) upstream_.deallocate(block_at(number));
    if constexpr (requires { upstream_.trim(); }) upstream_.trim();
  }
  /// Calls f(block, bytes) for each kept block.
  template <class F>
  void each_kept(F f) const {
    for (unsigned c = 0; c < size_classes; ++c)
      for (const auto& one : kept_[c]) one.each([&](std::uint32_t number) { f(block_at(number), block_size(c)); });
  }

 private:
  static constexpr unsigned buffer_most = Options::blocks / Options::fifos;
  using buffer = fifo<buffer_most>;

  static constexpr std::uint32_t not_kept = ~std::uint32_t{0};

  static MUSTER_GPU std::size_t block_size(unsigned size_class) { return smallest_block << size_class; }
  static MUSTER_GPU unsigned class_of(std::size_t bytes) {
    unsigned c = 0;
    while (block_size(c) < bytes) ++c;
    return c;
  }

  /// How many blocks a FIFO of that size keeps: as many as wanted, a power of two, if they fit.
  static MUSTER_GPU unsigned many_kept(unsigned size_class, unsigned wanted, std::uint64_t in_fifo) {
    while (wanted * block_size(size_class) > in_fifo) wanted /= 2;
    return wanted;
  }
  /// The bytes that all FIFOs keep at most.
  static MUSTER_GPU std::uint64_t all_kept(unsigned wanted, std::uint64_t in_fifo) {
    std::uint64_t all = 0;
    for (unsigned c = 0; c < size_classes; ++c) all += Options::fifos * many_kept(c, wanted, in_fifo) * block_size(c);
    return all;
  }

  MUSTER_GPU void* allocate_alone(std::size_t bytes) {
    constexpr std::size_t headers = coalesced_block::header + block_slot::header;
    if (bytes > ~std::size_t{0} - headers - block_slot::alignment) return nullptr;
    char* const begin = take_block(headers + bytes, 1);
    return begin == nullptr ? nullptr : block_slot::make(begin, coalesced_block::header, true);
  }

  /// A block for that many slots, which the caller must create; or null.
  MUSTER_GPU_COLD char* take_block(std::size_t bytes, std::uint32_t slots) {
    std::uint32_t size_class = not_kept;
    void* const block = take(bytes, size_class);
    if (block == nullptr) return nullptr;
    auto* const made = ::new (block) coalesced_block;
    made->live.store(slots, std::memory_order_relaxed);
    made->size_class = size_class;
    return static_cast<char*>(block);
  }

  MUSTER_GPU void* take(std::size_t bytes, std::uint32_t& size_class) {
    if (!Options::buffer || bytes > largest_block) return upstream_.allocate(bytes);
    size_class = class_of(bytes);
    std::uint32_t number = 0;
    if (kept_[size_class][choose()].try_pop(number)) return block_at(number);
    if (void* const block = upstream_.allocate(block_size(size_class))) return block;
    return take_any(size_class);
  }
  /// A block from another FIFO of the size, or a larger one.
  MUSTER_GPU_COLD void* take_any(std::uint32_t& size_class) {
    std::uint32_t number = 0;
    for (; size_class < size_classes; ++size_class)
      for (auto& one : kept_[size_class])
        if (one.try_pop(number)) return block_at(number);
    return nullptr;
  }

  MUSTER_GPU_COLD void give_back(coalesced_block* block) {
    const std::uint32_t size_class = block->size_class;
    const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(block) - upstream_.origin();
    const unsigned bits = upstream_.granule_bits();
    const bool has_number = (offset & ((std::uint64_t{1} << bits) - 1)) == 0 && offset >> bits <= ~std::uint32_t{0};
    if (size_class < size_classes && has_number &&
        kept_[size_class][choose()].try_push(static_cast<std::uint32_t>(offset >> bits)))
      return;
    upstream_.deallocate(block);
  }
  MUSTER_GPU void* block_at(std::uint32_t number) const {
    return reinterpret_cast<void*>(upstream_.origin() + (std::uintptr_t{number} << upstream_.granule_bits()));
  }

  static MUSTER_GPU unsigned choose() {
    if (Options::fifos == 1) return 0;
    if (Options::choice == fifo_choice::multiprocessor) return multiprocessor() % Options::fifos;
    std::uint32_t h =
        thread_index().x * 0x9e3779b9U ^ block_index().x * 0x85ebca6bU ^ static_cast<std::uint32_t>(clock());
    h ^= h >> 15U;
    return h * 0x2c1b3c6dU % Options::fifos;
  }

  static MUSTER_GPU_COLD void note(atomic<std::uint64_t>& what) { what.fetch_add(1, std::memory_order_relaxed); }

  Upstream& upstream_;
  atomic<std::uint64_t> twice_{0};
  atomic<std::uint64_t> invalid_{0};
  buffer kept_[size_classes][Options::fifos];
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
