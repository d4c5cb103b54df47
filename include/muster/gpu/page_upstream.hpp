// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// page_upstream.hpp: an upstream allocator for xmalloc in a region of memory that the program provides: pages of 4 KiB,
// cut into blocks of one size, or taken in runs.
//
// Region     any memory that all lanes can reach. Its bookkeeping is at its beginning and has no pointers, so other
//            address spaces can inspect the region.
// Blocks     of 64 bytes to 2 KiB by powers of two, 63 or fewer in a page; larger ones are runs of whole pages. A page
//            whose blocks are all free is free for any use.
// Alignment  64 bytes.
// Cost       allocate looks at pages one after another, from the last successful one; at all pages at most. Intended
//            for rare calls, by allocators that keep blocks themselves.
// Failure    null when one look at all pages finds no block: there was none, or other lanes took and freed blocks
//            meanwhile.
// Misuse     a pointer to no block, or a double free, is counted and ignored. One case is missed: a lane frees a block
//            twice and is stopped in the middle until its page has been used for something else, and again as before.
// Progress   lock-free.
#pragma once

#include <muster/gpu/simt.cuh>      // atomic
#include <muster/gpu/upstream.hpp>  // granule_bits_for

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t
#include <new>      // placement

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

class page_upstream {
 public:
  /// Bytes of a page.
  static constexpr std::size_t page_size = 4096;
  /// Bytes of the smallest block.
  static constexpr std::size_t smallest = 64;
  /// Bytes of the largest block that shares a page; larger blocks take whole pages.
  static constexpr std::size_t largest_in_page = page_size / 2;

  /// Creates an upstream allocator at the beginning of a region, which must be aligned to 4096 bytes. Returns null if
  /// the region has no room for one page. Called by one lane or thread.
  static MUSTER_GPU page_upstream* make(void* region, std::uint64_t bytes) {
    constexpr std::uint64_t fixed = (sizeof(page_upstream) + alignof(page) - 1) / alignof(page) * alignof(page);
    if (region == nullptr || bytes < 2 * page_size) return nullptr;
    // Each page needs its own bytes and a `page`.
    std::uint64_t pages = (bytes - fixed) / (page_size + sizeof(page));
    const auto first = [&] { return (fixed + pages * sizeof(page) + page_size - 1) / page_size * page_size; };
    while (pages != 0 && first() + pages * page_size > bytes) --pages;
    if (pages == 0 || pages >= page::run) return nullptr;
    auto* const made = ::new (region) page_upstream(static_cast<std::uint32_t>(pages), fixed, first());
    for (std::uint32_t p = 0; p < made->pages_; ++p) ::new (static_cast<void*>(&made->at(p))) page;
    return made;
  }
  page_upstream(const page_upstream&) = delete;
  page_upstream& operator=(const page_upstream&) = delete;

  /// Returns a block of at least that many bytes; null if there is no memory, or for 0 bytes.
  MUSTER_GPU_COLD void* allocate(std::size_t bytes) {
    if (bytes == 0 || bytes > std::uint64_t{pages_} * page_size) return nullptr;
    return bytes > largest_in_page ? take_run(static_cast<std::uint32_t>((bytes + page_size - 1) / page_size))
                                   : take_cell(class_of(bytes));
  }

  /// Frees a block of this upstream allocator. Counts a block that is free already, or that is none, and leaves the
  /// memory as it is.
  MUSTER_GPU_COLD void deallocate(void* block) {
    const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(block) - origin();
    const auto number = static_cast<std::uint32_t>(offset / page_size);
    if (!owns(block)) return note(invalid_);
    page& p = at(number);
    const std::uint32_t use = p.use.load(std::memory_order_relaxed);
    if (is_run(use) && offset % page_size == 0) return free_run(number, use);
    if (!is_cells(use)) return note(use == page::free || use == page::changing ? twice_ : invalid_);
    const auto in_page = static_cast<std::uint32_t>(offset % page_size);
    if (in_page % size_of(use) != 0 || in_page / size_of(use) >= cells_of(use)) return note(invalid_);
    free_cell(p, std::uint64_t{1} << in_page / size_of(use), use);
  }

  /// Returns true if an address is in a page.
  MUSTER_GPU bool owns(const void* p) const {
    return reinterpret_cast<std::uintptr_t>(p) - origin() < std::uint64_t{pages_} * page_size;
  }
  /// The address of granule 0.
  MUSTER_GPU std::uintptr_t origin() const { return reinterpret_cast<std::uintptr_t>(this) + first_; }
  /// The size of a granule, as a power of two; all blocks begin at one.
  MUSTER_GPU unsigned granule_bits() const {
    const unsigned bits = granule_bits_for(std::uint64_t{pages_} * page_size);
    return bits < 6 ? 6 : bits;
  }

  /// The number of pages.
  MUSTER_GPU std::uint32_t pages() const { return pages_; }
  /// How often a free block was freed.
  MUSTER_GPU std::uint64_t freed_twice() const { return twice_.load(std::memory_order_relaxed); }
  /// How often an address that is no block was freed.
  MUSTER_GPU std::uint64_t freed_invalid() const { return invalid_.load(std::memory_order_relaxed); }

  // --- While no lane allocates or frees.

  /// Calls f(block, bytes) for each allocated block, by address.
  template <class F>
  void each_block(F f) const {
    for (std::uint32_t number = 0; number < pages_; ++number) {
      const page& p = at(number);
      const std::uint32_t use = p.use.load(std::memory_order_relaxed);
      if (is_run(use)) f(page_at(number), std::size_t{use - page::run} * page_size);
      if (!is_cells(use)) continue;
      const std::uint64_t taken = p.taken.load(std::memory_order_relaxed);
      for (std::uint32_t c = 0; c < cells_of(use); ++c)
        if ((taken >> c & 1U) != 0) f(static_cast<char*>(page_at(number)) + c * size_of(use), size_of(use));
    }
  }
  /// The number of free pages.
  std::uint32_t free_pages() const {
    std::uint32_t many = 0;
    for (std::uint32_t p = 0; p < pages_; ++p) many += at(p).use.load(std::memory_order_relaxed) == page::free;
    return many;
  }

 private:
  /// The state of a page. INVARIANT: only a lane that holds a cell of the page, or has closed it, may rely on `use`.
  struct page {
    // `use` is one of these, or size class c, or run + the number of pages for the first page of a run.
    static constexpr std::uint32_t free = 0x40000000, changing = 0x40000001, inside_run = 0x40000002;
    static constexpr std::uint32_t run = 0x80000000;
    static constexpr std::uint64_t closed = std::uint64_t{1} << 63U;

    atomic<std::uint64_t> taken{closed};  // bit c: cell c; closed: no cell may be taken
    atomic<std::uint32_t> use{free};
    std::uint32_t unused = 0;
  };
  static constexpr unsigned classes = 6;

  MUSTER_GPU page_upstream(std::uint32_t pages, std::uint64_t table, std::uint64_t first)
      : pages_(pages), table_(table), first_(first) {}

  static MUSTER_GPU bool is_run(std::uint32_t use) { return use >= page::run; }
  static MUSTER_GPU bool is_cells(std::uint32_t use) { return use < classes; }
  static MUSTER_GPU std::uint32_t size_of(std::uint32_t size_class) {
    return static_cast<std::uint32_t>(smallest) << size_class;
  }
  /// In a page of the smallest cells, the last one has no bit.
  static MUSTER_GPU std::uint32_t cells_of(std::uint32_t size_class) {
    return size_class == 0 ? 63 : static_cast<std::uint32_t>(page_size) / size_of(size_class);
  }
  static MUSTER_GPU std::uint64_t all_of(std::uint32_t size_class) {
    return (std::uint64_t{1} << cells_of(size_class)) - 1;
  }
  static MUSTER_GPU unsigned class_of(std::size_t bytes) {
    unsigned c = 0;
    while (size_of(c) < bytes) ++c;
    return c;
  }
  static MUSTER_GPU unsigned lowest(std::uint64_t bits) {
    const auto low = static_cast<lane_mask>(bits);
    return low != 0 ? first_of(low) : 32 + first_of(static_cast<lane_mask>(bits >> 32U));
  }
  static MUSTER_GPU void note(atomic<std::uint64_t>& what) { what.fetch_add(1, std::memory_order_relaxed); }

  MUSTER_GPU page& at(std::uint32_t number) const {
    return reinterpret_cast<page*>(reinterpret_cast<std::uintptr_t>(this) + table_)[number];
  }
  MUSTER_GPU void* page_at(std::uint32_t number) const {
    return reinterpret_cast<void*>(origin() + std::uint64_t{number} * page_size);
  }

  MUSTER_GPU void* take_cell(std::uint32_t size_class) {
    std::uint32_t number = lucky_[size_class].load(std::memory_order_relaxed);
    for (std::uint32_t looked = 0; looked < pages_; ++looked, number = number + 1 == pages_ ? 0 : number + 1) {
      page& p = at(number);
      std::uint32_t use = p.use.load(std::memory_order_relaxed);
      if (use != page::free && use != size_class) continue;
      if (use == page::free) open(p, size_class);
      const int cell = take_cell_of(p, size_class);
      if (cell < 0) continue;
      if (looked != 0) lucky_[size_class].store(number, std::memory_order_relaxed);
      return static_cast<char*>(page_at(number)) + static_cast<std::uint32_t>(cell) * size_of(size_class);
    }
    return nullptr;
  }
  /// Gives a free page cells, unless another lane takes it first.
  MUSTER_GPU void open(page& p, std::uint32_t size_class) {
    std::uint32_t use = page::free;
    // (1) acquire: pairs with (4). The page's previous use is over.
    if (!p.use.compare_exchange_strong(use, page::changing, std::memory_order_acquire, std::memory_order_relaxed))
      return;
    p.use.store(size_class, std::memory_order_relaxed);
    // (2) release: pairs with (3), (8). A lane that takes a cell sees the page's new use.
    p.taken.store(0, std::memory_order_release);
  }
  /// Returns the number of the cell, or a negative number if there is none.
  MUSTER_GPU int take_cell_of(page& p, std::uint32_t size_class) {
    std::uint64_t taken = p.taken.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t left = ~taken & all_of(size_class);
      if ((taken & page::closed) != 0 || left == 0) return -1;
      const unsigned cell = lowest(left);
      const std::uint64_t bit = std::uint64_t{1} << cell;
      // (3) acquire: pairs with (2), (5). The page's use is current, and the cell's last user has finished.
      if (!p.taken.compare_exchange_strong(taken, taken | bit, std::memory_order_acquire, std::memory_order_relaxed))
        continue;
      const std::uint32_t use = p.use.load(std::memory_order_relaxed);
      if (use == size_class) return static_cast<int>(cell);
      // The page has changed its use meanwhile, and this cell belongs to the new use.
      free_cell(p, bit, use);
      return -1;
    }
  }

  MUSTER_GPU void free_cell(page& p, std::uint64_t bit, std::uint32_t size_class) {
    // (8) acquire: pairs with (2). The page's use is not older than the cells read here.
    std::uint64_t taken = p.taken.load(std::memory_order_acquire);
    do {
      if ((taken & bit) == 0 || p.use.load(std::memory_order_relaxed) != size_class) return note(twice_);
      // (5) release: pairs with (3), (6). The caller has finished with the cell.
      // (8)
    } while (
        !p.taken.compare_exchange_strong(taken, taken & ~bit, std::memory_order_release, std::memory_order_acquire));
    if ((taken & ~bit & all_of(size_class)) != 0) return;
    std::uint64_t none = 0;
    // (6) acquire: pairs with (5). The users of all cells have finished.
    if (!p.taken.compare_exchange_strong(none, page::closed, std::memory_order_acquire, std::memory_order_relaxed))
      return;
    // (4) release: pairs with (1), (7).
    p.use.store(page::free, std::memory_order_release);
  }

  /// Searches from where the last run was found, then from the beginning.
  MUSTER_GPU void* take_run(std::uint32_t many) {
    const std::uint32_t hint = lucky_[classes].load(std::memory_order_relaxed);
    void* found = take_run_between(hint, pages_, many);
    if (found == nullptr && hint != 0) found = take_run_between(0, hint + many < pages_ ? hint + many : pages_, many);
    return found;
  }
  MUSTER_GPU void* take_run_between(std::uint32_t first, std::uint32_t end, std::uint32_t many) {
    while (first + many <= end) {
      std::uint32_t got = 0;
      for (; got < many; ++got) {
        std::uint32_t use = at(first + got).use.load(std::memory_order_relaxed);
        // (7) acquire: pairs with (4). The page's previous use is over.
        if (use != page::free || !at(first + got)
                                      .use.compare_exchange_strong(use, page::inside_run, std::memory_order_acquire,
                                                                   std::memory_order_relaxed))
          break;
      }
      if (got == many) {
        at(first).use.store(page::run + many, std::memory_order_relaxed);
        lucky_[classes].store(first, std::memory_order_relaxed);
        return page_at(first);
      }
      for (std::uint32_t n = 0; n < got; ++n) {
        // (4)
        at(first + n).use.store(page::free, std::memory_order_release);
      }
      first += got + 1;
    }
    return nullptr;
  }
  MUSTER_GPU void free_run(std::uint32_t first, std::uint32_t use) {
    // If two lanes free it, one of them changes its first page.
    std::uint32_t expected = use;
    if (!at(first).use.compare_exchange_strong(expected, page::changing, std::memory_order_relaxed,
                                               std::memory_order_relaxed))
      return note(twice_);
    for (std::uint32_t n = use - page::run; n-- > 0;) {
      // (4)
      at(first + n).use.store(page::free, std::memory_order_release);
    }
  }

  const std::uint32_t pages_;
  const std::uint64_t table_;  // offset of the table of pages in the region
  const std::uint64_t first_;  // offset of the first page
  atomic<std::uint64_t> twice_{0};
  atomic<std::uint64_t> invalid_{0};
  atomic<std::uint32_t> lucky_[classes + 1]{};  // the last page that had a free cell, by class; and the last run
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
