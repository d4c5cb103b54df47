// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// page_map.hpp: the free pages of gpu::heap, by chunks of 32.
//
// Chunk      a word with a bit for each of its pages that is taken. Pages that the heap does not have, before its first
//            and after its last, are taken forever.
// Runs       of up to 31 pages lie in one chunk; longer ones begin with a chunk, and the pages that they leave of their
//            last chunk are free for others. Chunks that are partly used are looked at first, so that whole ones last.
// Failure    none, after one look at all chunks with free pages; in a full heap there are none, which takes two loads.
//            A lane that takes several chunks and finds that they do not suffice gives them back, and another lane may
//            miss them meanwhile.
// Progress   lock-free.
#pragma once

#include <muster/gpu/detail/bit_tree.hpp>
#include <muster/gpu/simt.cuh>  // atomic

#include <atomic>   // std::memory_order
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// A view: the words belong to the caller.
class page_map {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t in_chunk = 32;
  static constexpr std::uint32_t full = ~std::uint32_t{0};

  /// `partly`: the chunks with free and with taken pages; `whole`: those with free pages only.
  MUSTER_GPU page_map(std::uint32_t chunks, atomic<std::uint32_t>* taken, bit_tree partly, bit_tree whole)
      : chunks_(chunks), taken_(taken), partly_(partly), whole_(whole) {}

  /// Takes 1, 2, 4, 8, 16 or 32 pages, aligned to that number; returns the first. Searches from a chunk on, so that
  /// multiprocessors take theirs from different ones.
  MUSTER_GPU std::uint32_t take_aligned(std::uint32_t pages, std::uint32_t from) { return take(pages, true, from); }
  /// Takes any number of pages, at the beginning of a chunk if wanted or if they are more than 31.
  MUSTER_GPU std::uint32_t take_run(std::uint32_t pages, bool at_chunk) {
    return at_chunk || pages >= in_chunk ? take_chunks(pages) : take(pages, false, 0);
  }
  /// Gives back pages that were taken, wherever they lie.
  MUSTER_GPU void give(std::uint32_t first, std::uint32_t pages) {
    MUSTER_GPU_ROLLED
    while (pages != 0) {
      const std::uint32_t at = first % in_chunk;
      const std::uint32_t here = pages < in_chunk - at ? pages : in_chunk - at;
      give_in(first / in_chunk, ones(here) << at);
      first += here;
      pages -= here;
    }
  }
  MUSTER_GPU std::uint32_t taken_in(std::uint32_t chunk) const { return taken_[chunk].load(std::memory_order_relaxed); }
  /// While no lane changes it: true if both sets agree with the words of chunks.
  MUSTER_GPU bool is_consistent() const {
    for (std::uint32_t c = 0; c < chunks_; ++c)
      if (partly_.has(c) != is_partly(taken_in(c)) || whole_.has(c) != (taken_in(c) == 0)) return false;
    return partly_.is_consistent() && whole_.is_consistent();
  }

 private:
  static MUSTER_GPU std::uint32_t ones(std::uint32_t many) {
    return many >= in_chunk ? full : (std::uint32_t{1} << many) - 1;
  }
  /// The places among free pages where that many follow each other.
  static MUSTER_GPU std::uint32_t places(std::uint32_t free, std::uint32_t pages, bool aligned) {
    MUSTER_GPU_ROLLED
    for (std::uint32_t have = 1; have < pages;) {
      const std::uint32_t more = have < pages - have ? have : pages - have;
      free &= free >> more;
      have += more;
    }
    // A bit for each multiple of `pages`.
    return aligned ? free & full / ones(pages) : free;
  }
  static MUSTER_GPU bool is_partly(std::uint32_t taken) { return taken != 0 && taken != full; }

  MUSTER_GPU std::uint32_t take(std::uint32_t pages, bool aligned, std::uint32_t from) {
    // First in some of the chunks that are partly used, then in whole ones, then in all that are partly used; each time
    // from a chunk on, and before it. The last chunk is partly used from the beginning, and would spread the objects
    // over the whole heap, so it is not among the first.
    constexpr std::uint32_t some = 16;
    MUSTER_GPU_ROLLED
    for (unsigned pass = pages < in_chunk ? 0 : 2; pass < (pages < in_chunk ? 6U : 4U); ++pass) {
      const bit_tree of = pass / 2 == 1 ? whole_ : partly_;
      const std::uint32_t end = pass % 2 == 1 ? from : pass == 0 ? chunks_ - 1 : chunks_;
      std::uint32_t c = of.find(pass % 2 == 0 ? from : 0);
      MUSTER_GPU_ROLLED
      for (std::uint32_t looked = 0; c < end && (pass > 1 || looked < some); ++looked) {
        const std::uint32_t found = take_in(c, pages, aligned);
        if (found != none) return found;
        c = of.find(c + 1);
      }
    }
    return none;
  }
  MUSTER_GPU std::uint32_t take_in(std::uint32_t chunk, std::uint32_t pages, bool aligned) {
    std::uint32_t taken = taken_[chunk].load(std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t fit = places(~taken, pages, aligned);
      if (fit == 0) return none;
      const std::uint32_t at = first_of(fit);
      if (!add(chunk, taken, ones(pages) << at)) continue;
      return chunk * in_chunk + at;
    }
  }
  MUSTER_GPU std::uint32_t take_chunks(std::uint32_t pages) {
    const std::uint32_t chunks = pages / in_chunk, rest = ones(pages % in_chunk);
    const std::uint64_t needed = std::uint64_t{chunks} + (rest != 0 ? 1 : 0);
    std::uint32_t c = whole_.find(0);
    while (c != none && c + needed <= chunks_) {
      std::uint32_t got = 0;
      while (got < chunks && claim(c + got, full)) ++got;
      if (got == chunks && (rest == 0 || claim(c + got, rest))) return c * in_chunk;
      MUSTER_GPU_ROLLED
      for (std::uint32_t i = 0; i < got; ++i) give_in(c + i, full);
      c = whole_.find(c + got + 1);  // chunk c + got is not whole
    }
    return none;
  }
  /// Takes these pages of a chunk if all of them are free.
  MUSTER_GPU bool claim(std::uint32_t chunk, std::uint32_t pages) {
    std::uint32_t taken = taken_[chunk].load(std::memory_order_relaxed);
    while ((taken & pages) == 0)
      if (add(chunk, taken, pages)) return true;
    return false;
  }
  MUSTER_GPU bool add(std::uint32_t chunk, std::uint32_t& taken, std::uint32_t pages) {
    const std::uint32_t before = taken;
    // (1) acquire: pairs with (2). All that has used the pages before has ended.
    if (!taken_[chunk].compare_exchange_strong(taken, before | pages, std::memory_order_acquire,
                                               std::memory_order_relaxed))
      return false;
    settle(chunk, before, before | pages);
    return true;
  }
  MUSTER_GPU void give_in(std::uint32_t chunk, std::uint32_t pages) {
    // (2) release: pairs with (1).
    const std::uint32_t before = taken_[chunk].fetch_and(~pages, std::memory_order_release);
    settle(chunk, before, before & ~pages);
  }
  MUSTER_GPU void settle(std::uint32_t chunk, std::uint32_t before, std::uint32_t now) {
    if (is_partly(before) != is_partly(now)) partly_.settle(chunk, [&] { return is_partly(taken_in(chunk)); });
    if ((before == 0) != (now == 0)) whole_.settle(chunk, [&] { return taken_in(chunk) == 0; });
  }

  const std::uint32_t chunks_;
  atomic<std::uint32_t>* const taken_;
  bit_tree partly_;
  bit_tree whole_;
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
