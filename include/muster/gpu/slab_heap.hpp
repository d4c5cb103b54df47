// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// slab_heap.hpp: gpu::heap as kernels see it: an allocator of any sizes in a region of memory. heap.cuh creates it.
//
// Callers    any lanes of any kernels of one device. Lanes that call together for the same size are served by one
//            atomic operation. The host, where a thread is a lane, while no kernel uses the heap.
// Objects    have no headers. Objects of one size class lie in slabs, with a bit for each in words outside the slab;
//            larger ones are runs of pages. Each object is freed by itself, and its place can then be used again.
// Slabs      Each multiprocessor has an active slab of each class, so that multiprocessors change different words. They
//            do not share active slabs while less than half of the pages are taken; after that, each may take objects
//            from the slabs of any other. A slab whose objects are all free returns its pages, except an active one,
//            which does so when pages run out.
// Size       of the region: 2 pages at least. A hundredth of it is the heap's own.
// Alignment  16 bytes; up to a chunk on request.
// Failure    null for the lanes concerned: there is neither room in the class, nor a free page, nor a larger object of
//            up to twice the size, nor, for more than half a page, a run of pages. In a full heap, a few loads detect
//            this. Zero bytes: null.
// Misuse     A double free, or a pointer to no object of the heap, is counted and changes nothing, as long as the place
//            has not been used again. After that, the pointer is the address of a new object, and a double free would
//            free this one.
// Cost       allocate: a few loads, and one fetch-or for each word of 64 objects that serves the calling lanes. free:
//            one fetch-and for the lanes whose objects are of one word. A word that becomes full, or no longer is, adds
//            O(log pages) atomics; one that becomes free, a look at the slab's words; a new slab, 32 stores at most.
//            Larger objects: one atomic for each 32 pages, and a search of O(chunks). calloc, realloc: O(bytes).
// Progress   lock-free. No lane waits for one that did not call at the same time.
// Memory     Pages, classes and trees are numbered by offsets, so another process may map the region elsewhere, at an
//            address that differs by a multiple of a chunk.
#pragma once

#include <muster/gpu/detail/bit_tree.hpp>
#include <muster/gpu/detail/page_map.hpp>
#include <muster/gpu/detail/size_classes.hpp>
#include <muster/gpu/misuse.hpp>
#include <muster/gpu/simt.cuh>  // atomic, active_mask

#include <atomic>   // std::memory_order
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// Where everything is in a region, as offsets from its beginning.
template <unsigned PageBits>
struct heap_plan {
  using classes = size_classes<PageBits>;

  std::uint64_t bytes = 0;   // of the region
  std::uint64_t origin = 0;  // of chunk 0, before the region if this is negative
  std::uint32_t first = 0;   // the first page that may be used
  std::uint32_t end = 0;     // and the first that may not
  std::uint32_t chunks = 0;  // which contain all pages, from 0 on
  std::uint32_t shards = 0;  // active slabs of each class
  tree_shape by_page, by_chunk;
  classes sizes;
  std::uint64_t taken = 0, partly = 0, whole = 0, kept = 0, rooms = 0, active = 0, slabs = 0, words = 0;

  static constexpr std::uint64_t words_of_page = (classes::page / classes::granule + 63) / 64;
  static constexpr std::uint64_t slab_bytes = 24;

  /// A plan for a region of that many bytes at that address; `end` is 0 if it is too small.
  static heap_plan of(std::uintptr_t at, std::uint64_t bytes, std::uint32_t shards, std::uint64_t header) {
    heap_plan made;
    made.bytes = bytes;
    made.shards = shards;
    const std::uintptr_t begin = at / classes::chunk * classes::chunk;
    const std::uint64_t pages = (at + bytes - begin) / classes::page;
    made.origin = begin - at;
    if (pages >= std::uint64_t{1} << 31U) return made;
    made.chunks = static_cast<std::uint32_t>((pages + 31) / 32);
    if (made.chunks == 0) return made;
    made.sizes = classes::for_pages(pages);
    made.by_page = tree_shape::of(made.chunks * 32);
    made.by_chunk = tree_shape::of(made.chunks);
    std::uint64_t next = (header + 63) / 64 * 64;
    const auto place = [&next](std::uint64_t& offset, std::uint64_t size) {
      offset = next;
      next = (next + size + 63) / 64 * 64;
    };
    place(made.taken, std::uint64_t{made.chunks} * 4);
    place(made.partly, std::uint64_t{made.by_chunk.words} * 8);
    place(made.whole, std::uint64_t{made.by_chunk.words} * 8);
    place(made.kept, std::uint64_t{made.by_page.words} * 8);
    place(made.rooms, std::uint64_t{made.by_page.words} * 8 * classes::many);
    place(made.active, std::uint64_t{shards} * classes::many * 4);
    place(made.slabs, std::uint64_t{made.chunks} * 32 * slab_bytes);
    place(made.words, std::uint64_t{made.chunks} * 32 * words_of_page * 8);
    made.first = static_cast<std::uint32_t>((at + next - begin + classes::page - 1) / classes::page);
    made.end = made.first < pages ? static_cast<std::uint32_t>(pages) : 0;
    return made;
  }
  /// The bytes at the beginning of the region that must be zero before prepare().
  std::uint64_t own_bytes() const { return words + std::uint64_t{chunks} * 32 * words_of_page * 8; }
};

/// The state of a heap while no lane allocates or frees.
struct heap_stats {
  std::uint64_t bytes = 0;         // in pages that may be used
  std::uint64_t free_bytes = 0;    // in free pages
  std::uint64_t peak_bytes = 0;    // the most in pages that were taken, since creation or reset
  std::uint64_t slabs = 0;         // and runs
  std::uint64_t objects = 0;       // that are alive
  std::uint64_t object_bytes = 0;  // of them, as usable_size() has it
  std::uint64_t failed = 0;        // requests that got null for lack of memory
  std::uint64_t freed_twice = 0;
  std::uint64_t freed_invalid = 0;
};

template <unsigned PageBits>
class slab_heap {
  static_assert(PageBits >= 12 && PageBits <= 16, "slab_heap: PageBits must be between 12 and 16");

 public:
  using classes = size_classes<PageBits>;
  using plan_type = heap_plan<PageBits>;
  static constexpr std::size_t page = classes::page;
  static constexpr std::size_t largest_alignment = classes::chunk;

  slab_heap(const slab_heap&) = delete;
  slab_heap& operator=(const slab_heap&) = delete;

  // --- For kernels.

  MUSTER_GPU void* allocate(std::size_t bytes) {
    if (bytes == 0) return nullptr;
    return bytes <= classes::largest ? allocate_in_class(classes::of(bytes), classes::granule)
                                     : allocate_run(bytes, false);
  }
  /// Returns null if the alignment is not a power of two, or is larger than a chunk.
  MUSTER_GPU void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
    if (bytes == 0 || alignment == 0 || alignment > largest_alignment || (alignment & (alignment - 1)) != 0)
      return nullptr;
    if (bytes > classes::largest || alignment > classes::largest) return allocate_run(bytes, alignment > page);
    return allocate_in_class(classes::of(bytes, alignment),
                             static_cast<std::uint32_t>(alignment < classes::granule ? classes::granule : alignment));
  }
  MUSTER_GPU void* calloc(std::size_t many, std::size_t bytes) {
    if (bytes != 0 && many > ~std::size_t{0} / bytes) return nullptr;
    auto* const made = static_cast<std::uint64_t*>(allocate(many * bytes));
    if (made == nullptr) return nullptr;
    for (std::size_t i = 0; i < (many * bytes + 7) / 8; ++i) made[i] = 0;
    return made;
  }
  /// As the C library's: null allocates, zero bytes frees, and if there is no room the old object stays. A pointer to
  /// no object is counted, and the result is null.
  MUSTER_GPU void* realloc(void* object, std::size_t bytes) {
    if (object == nullptr) return allocate(bytes);
    const std::size_t old = usable_size(object);
    if (bytes == 0 || old == 0) {
      free(object);  // which counts it if it is none
      return nullptr;
    }
    if (bytes <= old && rounded(bytes) == old) return object;
    auto* const made = static_cast<std::uint64_t*>(allocate(bytes));
    if (made == nullptr) return bytes <= old ? object : nullptr;
    const auto* const from = static_cast<const std::uint64_t*>(object);
    for (std::size_t i = 0; i < ((bytes < old ? bytes : old) + 7) / 8; ++i) made[i] = from[i];
    free(object);
    return made;
  }

  /// Null has no effect.
  MUSTER_GPU void free(void* object) {
    if (object == nullptr) return;
    const place at = find_place(object);
    if (at.size_class == is_run) return free_run(at.slab);
    if (at.size_class == no_object) return note(invalid_, 1);
    const std::uint32_t bit = at.object % 64;
    const std::uint64_t word = at.word();
    // Lanes that free objects of the same word change it with one operation.
    const lane_mask together = match_any(active_mask(), word);
    const std::uint64_t low = reduce_or(together, bit < 32 ? std::uint32_t{1} << bit : 0);
    const std::uint64_t high = reduce_or(together, bit < 32 ? 0 : std::uint32_t{1} << (bit - 32));
    sync_warp(together);
    if (!is_first_of(together)) return;
    give_objects(at.slab, at.object / 64, high << 32U | low, many_of(together));
  }

  /// Returns the size of an object in bytes, at least the size requested; 0 if the pointer is to no object of this
  /// heap.
  MUSTER_GPU std::size_t usable_size(const void* object) const {
    const place at = find_place(object);
    if (at.size_class == no_object) return 0;
    if (at.size_class == is_run) return std::size_t{slab_at(at.slab).use.load(std::memory_order_relaxed) - run} * page;
    const std::uint64_t taken = word_at(at.slab, at.object / 64).load(std::memory_order_relaxed);
    return (taken >> at.object % 64 & 1U) != 0 ? classes::size(at.size_class) : 0;
  }
  /// True for an address in the heap's pages, in an object or not.
  MUSTER_GPU bool owns(const void* p) const {
    const std::uint64_t number = (reinterpret_cast<std::uintptr_t>(p) - origin()) / page;
    return number >= plan_.first && number < plan_.end;
  }

  // --- For all lanes of a mask or a block, which call together and receive the same object.

  MUSTER_GPU void* allocate_together(lane_mask among, std::size_t bytes) {
    void* object = nullptr;
    if (is_first_of(among)) object = allocate(bytes);
    object = shuffle(among, object, first_of(among));
    sync_warp(among);
    return object;
  }
  MUSTER_GPU void free_together(lane_mask among, void* object) {
    sync_warp(among);
    if (is_first_of(among)) free(object);
  }
  /// `slot`: in memory that the block shares.
  MUSTER_GPU void* allocate_for_block(std::size_t bytes, void*& slot) {
    const auto me = thread_index();
    sync_block();
    if (me.x + me.y + me.z == 0) slot = allocate(bytes);
    sync_block();
    return slot;
  }
  MUSTER_GPU void free_for_block(void* object) {
    const auto me = thread_index();
    sync_block();
    if (me.x + me.y + me.z == 0) free(object);
  }

  MUSTER_GPU misuse noticed() const {
    return {twice_.load(std::memory_order_relaxed), invalid_.load(std::memory_order_relaxed)};
  }

  // --- For heap.cuh. Each is called for all numbers from 0 up to some other, by different threads or one.

  /// Prepares one thread's part of a region whose own bytes are zero. Called by `threads` threads.
  static MUSTER_GPU void prepare(void* region, const plan_type& plan, std::uint32_t me, std::uint32_t threads) {
    auto& made = *static_cast<slab_heap*>(region);
    if (me == 0) made.plan_ = plan;
    const auto at = [&](std::uint64_t offset) { return static_cast<char*>(region) + offset; };
    auto* const taken = reinterpret_cast<atomic<std::uint32_t>*>(at(plan.taken));
    for (std::uint32_t c = me; c < plan.chunks; c += threads)
      taken[c].store(never_free(plan, c), std::memory_order_relaxed);
    // All chunks in the middle are entirely free. The first and the last usable chunk may be free in part.
    const std::uint32_t first_whole = (plan.first + 31) / 32, end_whole = plan.end / 32;
    const auto grow = [&](std::uint64_t tree, std::uint32_t first, std::uint32_t end) {
      auto* const words = reinterpret_cast<atomic<std::uint64_t>*>(at(tree));
      for (unsigned level = 0; level < plan.by_chunk.levels; ++level)
        for (std::uint32_t w = me; w < (plan.by_chunk.bits[level] + 63) / 64; w += threads)
          words[plan.by_chunk.begin[level] + w].fetch_or(plan.by_chunk.word_of_range(level, w, first, end),
                                                         std::memory_order_relaxed);
    };
    grow(plan.whole, first_whole, end_whole);
    for (const std::uint32_t c : {plan.first / 32, (plan.end - 1) / 32}) {
      const std::uint32_t never = never_free(plan, c);
      if (never != 0 && never != page_map::full) grow(plan.partly, c, c + 1);
    }
  }
  /// Returns the pages of a slab if all of its objects are free. Lanes may use the heap meanwhile.
  MUSTER_GPU void trim(std::uint32_t number) { return_if_empty(number, 0, true); }
  /// Calls f(object, bytes) for each object that begins in a page; g(bytes) for a slab or run that begins there.
  template <class F, class G>
  MUSTER_GPU void visit(std::uint32_t number, F f, G g) {
    const std::uint32_t use = slab_at(number).use.load(std::memory_order_relaxed);
    if (use > run) {
      g(std::size_t{use - run} * page);
      f(address_of(number), std::size_t{use - run} * page);
    }
    if (!is_class(use)) return;
    const unsigned size_class = use - 1;
    g(std::size_t{plan_.sizes.pages(size_class)} * page);
    for (std::uint32_t w = 0; w < plan_.sizes.words(size_class); ++w)
      for (std::uint64_t left = word_at(number, w).load(std::memory_order_relaxed); left != 0; left &= left - 1)
        f(address_of(number) + std::size_t{64 * w + lowest_bit(left)} * classes::size(size_class),
          classes::size(size_class));
  }
  /// Returns true if hints and sets agree with the words that they summarize, every page is free or used once, and
  /// return_kept() finds each slab without objects. Reads everything, for tests.
  MUSTER_GPU bool is_consistent() const {
    const page_map map = pages();
    bool right =
        map.is_consistent() && kept().is_consistent() && under_way(moves_.load(std::memory_order_relaxed)) == 0;
    for (unsigned c = 0; c < classes::many; ++c) right = right && rooms_of(c).is_consistent();
    std::uint32_t used = 0;  // pages of the current slab or run that are still to come
    for (std::uint32_t number = 0; number < plan_.chunks * 32 && right; ++number) {
      const slab& its = slab_at(number);
      const std::uint32_t use = its.use.load(std::memory_order_relaxed);
      const bool ours = number >= plan_.first && number < plan_.end;
      if (is_class(use) || use > run) {
        right = right && used == 0;
        used = is_class(use) ? plan_.sizes.pages(use - 1) : use - run;
      }
      const bool taken = (map.taken_in(number / 32) >> number % 32 & 1U) != 0;
      right = right && taken == (!ours || used != 0) && (ours || use == 0);
      right = right && (is_class(use) || use > run || use == 0 || (used != 0 && (use & inside) != 0));
      std::uint64_t all = 0;
      for (std::uint32_t w = 0; is_class(use) && w < plan_.sizes.words(use - 1); ++w) {
        all |= word_at(number, w).load(std::memory_order_relaxed);
        right = right && has_room(number, w) == ((its.hint.load(std::memory_order_relaxed) >> w & 1U) != 0);
      }
      right = right && (!is_class(use) || all != 0 || kept().has(number));
      for (unsigned c = 0; c < classes::many; ++c)
        right = right && rooms_of(c).has(number) == (use == c + 1 && its.hint.load(std::memory_order_relaxed) != 0);
      if (used != 0) --used;
    }
    return right;
  }
  MUSTER_GPU const plan_type& plan() const { return plan_; }
  MUSTER_GPU std::uint32_t taken_pages() const { return pages_taken_.load(std::memory_order_relaxed); }
  MUSTER_GPU std::uint32_t most_pages() const { return most_pages_.load(std::memory_order_relaxed); }
  MUSTER_GPU std::uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }
  atomic<std::uint64_t> visited[3];  // results of visit()

 private:
  /// The state of a slab or run, stored at the number of its first page. INVARIANT: a lane that owns a bit of the
  /// slab's words may rely on `use`, which only a lane changes that has seen all bits zero. A bit is set while it has
  /// an owner: the lane whose object it stands for, or a lane that found the slab in another use and is about to clear
  /// the bit.
  struct slab {
    atomic<std::uint64_t> hint;  // bit w: word w has free objects, as bit_tree.hpp has it
    // 0: none; 1 + size class; that + closing; that + inside, in the slab's other pages; or run + number of pages
    atomic<std::uint32_t> use;
    atomic<std::uint32_t> owner;  // 1 + the shard that has taken it as its active slab; 0: none
    atomic<std::uint32_t> busy;   // a word that was not zero when a lane looked
    std::uint32_t unused;
  };
  static_assert(sizeof(slab) == plan_type::slab_bytes);

  static constexpr std::uint32_t none = bit_tree::none;
  static constexpr std::uint32_t run = 0x80000000;
  static constexpr std::uint32_t inside = 0x20000000;   // not the slab's first page
  static constexpr std::uint32_t closing = 0x40000000;  // a lane looks whether all words are zero
  static constexpr std::uint32_t opening = 0x80000000;  // in active_of(): a lane opens a slab
  static constexpr unsigned most_rounds = 16;           // while other lanes move pages
  static constexpr unsigned is_run = classes::many, no_object = classes::many + 1;

  /// The place of an object.
  struct place {
    std::uint32_t slab = 0;
    std::uint32_t object = 0;
    unsigned size_class = no_object;

    MUSTER_GPU std::uint64_t word() const { return std::uint64_t{slab} << 32U | object / 64; }
  };
  /// Objects of a slab that belong to the caller: the bits of a word.
  struct objects {
    std::uint64_t bits = 0;
    std::uint32_t slab = 0;
    std::uint32_t word = 0;
    unsigned size_class = 0;
  };

  // ------------------------------------------------------------------------------------------------- where things are

  template <class T>
  MUSTER_GPU T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(this) + offset);
  }
  MUSTER_GPU std::uintptr_t origin() const { return reinterpret_cast<std::uintptr_t>(this) + plan_.origin; }
  MUSTER_GPU char* address_of(std::uint32_t number) const {
    return reinterpret_cast<char*>(origin() + std::uint64_t{number} * page);
  }
  MUSTER_GPU slab& slab_at(std::uint32_t number) const { return at<slab>(plan_.slabs)[number]; }
  MUSTER_GPU atomic<std::uint64_t>& word_at(std::uint32_t number, std::uint32_t word) const {
    return at<atomic<std::uint64_t>>(plan_.words)[std::uint64_t{number} * plan_type::words_of_page + word];
  }
  MUSTER_GPU atomic<std::uint32_t>& active_of(std::uint32_t shard, unsigned size_class) const {
    return at<atomic<std::uint32_t>>(plan_.active)[shard * classes::many + size_class];
  }
  /// The slabs of a class that have free objects.
  MUSTER_GPU bit_tree rooms_of(unsigned size_class) const {
    return {plan_.by_page, at<atomic<std::uint64_t>>(plan_.rooms) + std::uint64_t{size_class} * plan_.by_page.words};
  }
  /// Active slabs without objects.
  MUSTER_GPU bit_tree kept() const { return {plan_.by_page, at<atomic<std::uint64_t>>(plan_.kept)}; }
  MUSTER_GPU page_map pages() const {
    return {plan_.chunks, at<atomic<std::uint32_t>>(plan_.taken),
            bit_tree(plan_.by_chunk, at<atomic<std::uint64_t>>(plan_.partly)),
            bit_tree(plan_.by_chunk, at<atomic<std::uint64_t>>(plan_.whole))};
  }
  static MUSTER_GPU std::uint32_t never_free(const plan_type& plan, std::uint32_t chunk) {
    std::uint32_t pages = 0;
    for (std::uint32_t i = 0; i < 32; ++i)
      pages |= std::uint32_t{chunk * 32 + i < plan.first || chunk * 32 + i >= plan.end} << i;
    return pages;
  }
  static MUSTER_GPU bool is_class(std::uint32_t use) { return use - 1 < classes::many; }
  /// The use of a slab, also while a lane looks whether it can close it.
  MUSTER_GPU std::uint32_t use_of(std::uint32_t number) const {
    return slab_at(number).use.load(std::memory_order_relaxed) & ~closing;
  }
  MUSTER_GPU place find_place(const void* object) const {
    place found;
    const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(object) - origin();
    if (!owns(object)) return found;
    const auto number = static_cast<std::uint32_t>(offset / page);
    std::uint32_t use = slab_at(number).use.load(std::memory_order_relaxed);
    if (use > run) {
      found.slab = number;
      if (offset % page == 0) found.size_class = is_run;
      return found;
    }
    use &= ~(closing | inside);
    if (!is_class(use)) return found;
    const unsigned size_class = use - 1;
    found.slab = number & ~(plan_.sizes.pages(size_class) - 1);
    const auto in_slab = static_cast<std::uint32_t>(offset - std::uint64_t{found.slab} * page);
    found.object = in_slab / classes::size(size_class);
    if (found.object * classes::size(size_class) == in_slab && found.object < plan_.sizes.objects(size_class))
      found.size_class = size_class;
    return found;
  }
  static MUSTER_GPU std::size_t rounded(std::size_t bytes) {
    return bytes <= classes::largest ? classes::size(classes::of(bytes)) : (bytes + page - 1) / page * page;
  }
  static MUSTER_GPU_COLD void note(atomic<std::uint64_t>& what, std::uint64_t many) {
    what.fetch_add(many, std::memory_order_relaxed);
  }

  // --------------------------------------------------------------------------------------------------------- allocate

  /// All objects of the class are aligned; larger ones, or pages, must be too.
  MUSTER_GPU void* allocate_in_class(unsigned size_class, std::uint32_t alignment) {
    // Lanes for which one word had no room try again together.
    lane_mask left = match_any(active_mask(), std::uint64_t{alignment} << 32U | size_class);
    for (;;) {
      objects got;
      if (is_first_of(left)) got = take(size_class, many_of(left), alignment);
      const unsigned first = first_of(left);
      got.bits = shuffle(left, got.bits, first);
      const std::uint64_t where =
          shuffle(left, std::uint64_t{got.slab} << 32U | got.word << 16U | got.size_class, first);
      sync_warp(left);
      const unsigned my_rank = many_of(before_me(left));
      if (my_rank < count_bits(got.bits)) {
        const auto number = static_cast<std::uint32_t>(where >> 16U & 0xffffU) * 64 + bit_of_rank(got.bits, my_rank);
        return address_of(static_cast<std::uint32_t>(where >> 32U)) +
               std::size_t{number} * classes::size(static_cast<unsigned>(where & 0xffffU));
      }
      if (got.bits == 0)
        return is_part_of_page(size_class) ? nullptr : allocate_run(classes::size(size_class), alignment > page);
      left = without_lowest(left, count_bits(got.bits));
    }
  }
  /// Larger objects may lie in pages of their own.
  static MUSTER_GPU bool is_part_of_page(unsigned size_class) { return classes::size(size_class) <= page / 2; }
  /// Without the lowest `many` lanes.
  static MUSTER_GPU lane_mask without_lowest(lane_mask lanes, unsigned many) {
    MUSTER_GPU_ROLLED
    for (; many != 0; --many) lanes &= lanes - 1;
    return lanes;
  }
  /// The position of the set bit above `rank` others.
  static MUSTER_GPU unsigned bit_of_rank(std::uint64_t bits, unsigned rank) {
    unsigned at = 0;
    for (unsigned width = 32; width != 0; width /= 2) {
      const unsigned below = count_bits(bits >> at & ((std::uint64_t{1} << width) - 1));
      if (rank < below) continue;
      rank -= below;
      at += width;
    }
    return at;
  }

  /// Up to `many` objects, at least one if there is one.
  MUSTER_GPU_COLD objects take(unsigned size_class, std::uint32_t many, std::uint32_t alignment) {
    const std::uint32_t last = active_of(my_shard(), size_class).load(std::memory_order_relaxed);
    objects got;
    got.size_class = size_class;
    got.slab = number_of(last);
    if (got.slab == none || !take_from(got, many, false)) {
      do {
        const std::uint64_t room = find_room(size_class, alignment);
        got.slab = static_cast<std::uint32_t>(room);
        got.size_class = static_cast<unsigned>(room >> 32U);
        if (got.slab == none) {
          if (is_part_of_page(size_class)) note(failed_, many);
          break;
        }
      } while (!take_from(got, many, true));
    }
    return got;
  }
  MUSTER_GPU std::uint32_t my_shard() const { return multiprocessor() % plan_.shards; }
  /// The slab that a word of active_of() names.
  static MUSTER_GPU std::uint32_t number_of(std::uint32_t active) { return (active & ~opening) - 1; }

  /// Takes up to `many` objects from one word of the slab that `got` names. False: there are none, or the slab is of
  /// another class by now. `correct`: hints have led here, so correct the wrong ones.
  MUSTER_GPU bool take_from(objects& got, std::uint32_t many, bool correct) {
    slab& its = slab_at(got.slab);
    // (9) acquire: pairs with (7), (10). A lane that finds this one's bits in a word sees the slab's use.
    std::uint64_t hint = its.hint.load(std::memory_order_acquire);
    while (hint != 0) {
      // Warps that come at the same time look at different words, or halves of one.
      const unsigned words = count_bits(hint), turn = warp_place();
      got.word = bit_of_rank(hint, turn % words);
      const bool upper = (turn / words & 1U) != 0;
      atomic<std::uint64_t>& word = word_at(got.slab, got.word);
      const std::uint64_t all = plan_.sizes.objects_of(got.size_class, got.word);
      std::uint64_t taken = word.load(std::memory_order_relaxed);
      while ((~taken & all) != 0) {
        const std::uint64_t wanted = some_bits(~taken & all, many, upper);
        // (2) acq_rel: pairs with (2), (5), (6). The objects' last users have finished; and of this lane and one that
        // closes the slab, one sees the other.
        taken = word.fetch_or(wanted, std::memory_order_acq_rel);
        got.bits = wanted & ~taken;
        taken |= wanted;
        if (got.bits == 0) continue;
        // (3) acquire: pairs with (4). If the slab has changed its use, these bits are no objects of the class.
        if (its.use.load(std::memory_order_acquire) != got.size_class + 1) {
          give_bits(got.slab, got.word, got.bits);
          got.bits = 0;
          hint = 0;
          break;
        }
        if ((~taken & all) == 0) settle_hint(got.slab, got.word);
        return true;
      }
      if (correct && hint != 0) settle_hint(got.slab, got.word);
      hint &= ~(std::uint64_t{1} << got.word);
    }
    if (correct) settle_room(got.slab, got.size_class);
    return false;
  }
  /// Up to `many` bits, from the upper half if wanted and if it has enough.
  static MUSTER_GPU std::uint64_t some_bits(std::uint64_t bits, std::uint32_t many, bool upper) {
    const std::uint64_t above = bits >> 32U << 32U;
    if (upper && count_bits(above) >= many) bits = above;
    if (count_bits(bits) <= many) return bits;
    return bits & ((std::uint64_t{1} << bit_of_rank(bits, many)) - 1);
  }

  /// Returns a slab that probably has free objects of the class, and makes it active; or one with larger objects. The
  /// upper half is the class of the objects. Returns `none` if there is no memory.
  MUSTER_GPU_COLD std::uint64_t find_room(unsigned size_class, std::uint32_t alignment) {
    const std::uint32_t shard = my_shard();
    atomic<std::uint32_t>& active = active_of(shard, size_class);
    // If another lane is opening a slab for this shard, the loop looks again up to this often.
    unsigned patience = 64;
    MUSTER_GPU_ROLLED
    for (unsigned round = 0; round < most_rounds;) {
      std::uint32_t last = active.load(std::memory_order_relaxed);
      // (1) acquire: pairs with (8). Pages that another lane has given back are found.
      const std::uint64_t before = moves_.load(std::memory_order_acquire);
      std::uint32_t found = choose(size_class, shard);
      if (found == none) {
        if (patience != 0) {
          --patience;
          if ((last & opening) != 0 || !active.compare_exchange_strong(last, last | opening, std::memory_order_relaxed,
                                                                       std::memory_order_relaxed))
            continue;
        }
        found = open(size_class, shard);
        // Without pages, one of another shard.
        if (found == none) found = rooms_of(size_class).find(0);
      }
      if (number_of(last) != none && number_of(last) != found) {
        atomic<std::uint32_t>& owner = slab_at(number_of(last)).owner;
        if (owner.load(std::memory_order_relaxed) == shard + 1) owner.store(0, std::memory_order_relaxed);
      }
      active.store(found + 1, std::memory_order_relaxed);
      if (found != none) return std::uint64_t{size_class} << 32U | found;
      if (return_kept()) continue;
      MUSTER_GPU_ROLLED
      for (unsigned larger = size_class + 1; larger <= size_class + 8 && larger < classes::many; ++larger) {
        if ((classes::size(larger) & (alignment - 1)) != 0) continue;
        found = rooms_of(larger).find(0);
        if (found != none) return std::uint64_t{larger} << 32U | found;
      }
      // While other lanes move pages, there may be free pages that no lane can find.
      if (have_stayed(before)) break;
      ++round;
    }
    return none;
  }
  /// A slab with free objects for a shard: its own, or one that has no owner; another's only if pages are scarce.
  MUSTER_GPU std::uint32_t choose(unsigned size_class, std::uint32_t shard) {
    const bit_tree rooms = rooms_of(size_class);
    std::uint32_t found = rooms.find_around(plan_.end / plan_.shards * shard), another = none;
    MUSTER_GPU_ROLLED
    for (unsigned tries = 0; found != none && tries < 4; ++tries, found = rooms.find(found + 1)) {
      const std::uint32_t owner = slab_at(found).owner.load(std::memory_order_relaxed);
      if (owner == 0 || owner == shard + 1) {
        slab_at(found).owner.store(shard + 1, std::memory_order_relaxed);
        return found;
      }
      another = found;
    }
    return taken_pages() > (plan_.end - plan_.first) / 2 ? another : none;
  }
  /// A new slab.
  MUSTER_GPU_COLD std::uint32_t open(unsigned size_class, std::uint32_t shard) {
    const std::uint32_t many = plan_.sizes.pages(size_class);
    // The slabs of different shards begin in different chunks, all in the first eighth of the chunks, so that most
    // chunks stay whole.
    const std::uint32_t first = pages().take_aligned(many, shard % (plan_.chunks / 8 + 1));
    if (first == none) return none;
    count_pages(many);
    slab_at(first).owner.store(shard + 1, std::memory_order_relaxed);
    MUSTER_GPU_ROLLED
    for (std::uint32_t i = many; i-- > 0;) {
      // (4) release: pairs with (3). The pages' previous use is over.
      slab_at(first + i).use.store(size_class + 1 + (i == 0 ? 0 : inside), std::memory_order_release);
    }
    const std::uint32_t words = plan_.sizes.words(size_class);
    // (7) release: pairs with (9), (10). A lane that changes the hint after this one sees the new use.
    slab_at(first).hint.store(words == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << words) - 1,
                              std::memory_order_release);
    settle_room(first, size_class);
    return first;
  }

  /// Corrects bit w of a slab's hint, and the slab's bit in the tree of its class if the hint becomes zero or was zero.
  MUSTER_GPU_COLD void settle_hint(std::uint32_t number, std::uint32_t w) {
    slab& its = slab_at(number);
    const std::uint64_t bit = std::uint64_t{1} << w;
    for (;;) {
      const bool room = has_room(number, w);
      // (10) acq_rel: pairs with (7), (9), (10). As in the tree of bits.
      const auto order = std::memory_order_acq_rel;
      const std::uint64_t old = room ? its.hint.fetch_or(bit, order) : its.hint.fetch_and(~bit, order);
      if (old == 0 || old == bit) {
        const std::uint32_t use = use_of(number);
        if (is_class(use)) settle_room(number, use - 1);
      }
      if (has_room(number, w) == room) return;
    }
  }
  MUSTER_GPU bool has_room(std::uint32_t number, std::uint32_t w) const {
    const std::uint32_t use = use_of(number);
    if (!is_class(use)) return false;
    return (~word_at(number, w).load(std::memory_order_relaxed) & plan_.sizes.objects_of(use - 1, w)) != 0;
  }
  /// Corrects the slab's bit in the tree of a class.
  MUSTER_GPU_COLD void settle_room(std::uint32_t number, unsigned size_class) {
    const slab& its = slab_at(number);
    rooms_of(size_class).settle(number, [&] {
      return its.use.load(std::memory_order_relaxed) == size_class + 1 && its.hint.load(std::memory_order_relaxed) != 0;
    });
  }

  // ------------------------------------------------------------------------------------------------------------- free

  /// Frees objects, as `many` lanes have asked for.
  MUSTER_GPU_COLD void give_objects(std::uint32_t number, std::uint32_t w, std::uint64_t bits, std::uint32_t many) {
    const std::uint32_t use = use_of(number);
    // (5) acq_rel: pairs with (2), (5), (6).
    const std::uint64_t old = word_at(number, w).fetch_and(~bits, std::memory_order_acq_rel);
    const std::uint32_t freed = count_bits(old & bits);
    if (freed != many) note(twice_, many - freed);
    if (freed == 0 || !is_class(use)) return;
    if ((~old & plan_.sizes.objects_of(use - 1, w)) == 0) settle_hint(number, w);
    if ((old & ~bits) == 0) return_if_empty(number, w, false);
  }
  /// Clears bits that the caller has set in a slab whose use had changed.
  MUSTER_GPU_COLD void give_bits(std::uint32_t number, std::uint32_t w, std::uint64_t bits) {
    // (5)
    word_at(number, w).fetch_and(~bits, std::memory_order_acq_rel);
    // The word may be one of a slab that begins later, or earlier.
    const auto words_of_page = static_cast<std::uint32_t>(plan_type::words_of_page);
    const std::uint32_t here = number + w / words_of_page;
    const std::uint32_t use = use_of(here) & ~inside;
    if (!is_class(use)) return;
    const std::uint32_t first = here & ~(plan_.sizes.pages(use - 1) - 1);
    w = (here - first) * words_of_page + w % words_of_page;
    if (w >= plan_.sizes.words(use - 1)) return;
    settle_hint(first, w);
    return_if_empty(first, w, false);
  }

  /// Called by a lane that has cleared the last bit of a word. Of the lanes that clear the last bits of a slab's words,
  /// the last one finds all words zero; it returns the pages, or keeps the slab if it is active and may be kept.
  MUSTER_GPU_COLD void return_if_empty(std::uint32_t number, std::uint32_t w, bool even_active) {
    slab& its = slab_at(number);
    for (;;) {
      const std::uint32_t use = its.use.load(std::memory_order_relaxed);
      if (!is_class(use) || is_used(number, use - 1, w)) return;
      const std::uint32_t owner = its.owner.load(std::memory_order_relaxed);
      if (owner != 0 && !even_active &&
          active_of(owner - 1, use - 1).load(std::memory_order_relaxed) % opening == number + 1) {
        kept().change(number, true);
        return;
      }
      if (close(number, use)) return;
    }
  }
  /// Returns true if a word is not zero. The lane that clears that word then sees everything that this lane has done.
  MUSTER_GPU bool is_used(std::uint32_t number, unsigned size_class, std::uint32_t w) {
    const std::uint32_t words = plan_.sizes.words(size_class);
    std::uint32_t look = slab_at(number).busy.load(std::memory_order_relaxed);
    if (look >= words) look = w < words ? w : 0;
    MUSTER_GPU_ROLLED
    for (std::uint32_t i = 0; i < words; ++i, look = look + 1 >= words ? 0 : look + 1) {
      atomic<std::uint64_t>& word = word_at(number, look);
      if (word.load(std::memory_order_relaxed) == 0) continue;
      // (6) acq_rel: pairs with (2), (5). Either the other lane clears the word later, and sees the words that this
      // lane has cleared; or this lane sees the other's.
      if (word.fetch_or(0, std::memory_order_acq_rel) == 0) continue;
      slab_at(number).busy.store(look, std::memory_order_relaxed);
      return true;
    }
    return false;
  }
  /// Returns a slab's pages to the heap if all its words are zero. Returns false if a word was not zero; it may be zero
  /// by now, so the caller checks again.
  MUSTER_GPU_COLD bool close(std::uint32_t number, std::uint32_t use) {
    slab& its = slab_at(number);
    const unsigned size_class = use - 1;
    std::uint32_t expected = use;
    begin_move();
    // Another lane is closing the slab, or has closed it, and checks again itself.
    if (!its.use.compare_exchange_strong(expected, use | closing, std::memory_order_relaxed,
                                         std::memory_order_relaxed)) {
      end_move();
      return true;
    }
    bool empty = true;
    MUSTER_GPU_ROLLED
    for (std::uint32_t w = 0; w < plan_.sizes.words(size_class) && empty; ++w) {
      // (6)
      empty = word_at(number, w).fetch_or(0, std::memory_order_acq_rel) == 0;
    }
    if (!empty) {
      // (4)
      its.use.store(use, std::memory_order_release);
      settle_room(number, size_class);
      end_move();
      return false;
    }
    const std::uint32_t many = plan_.sizes.pages(size_class);
    its.owner.store(0, std::memory_order_relaxed);
    MUSTER_GPU_ROLLED
    for (std::uint32_t i = 0; i < many; ++i) slab_at(number + i).use.store(0, std::memory_order_relaxed);
    settle_room(number, size_class);
    give_pages(number, many);
    end_move();
    return true;
  }
  /// Returns the pages of one active slab without objects to the heap. Returns false if there is no such slab.
  MUSTER_GPU bool return_kept() {
    const std::uint32_t number = kept().find(0);
    if (number == none) return false;
    if (!kept().change(number, false)) return true;
    return_if_empty(number, 0, true);
    return true;
  }

  // ------------------------------------------------------------------------------------------------- pages, and runs

  MUSTER_GPU_COLD void* allocate_run(std::size_t bytes, bool at_chunk) {
    if (bytes > std::uint64_t{plan_.end} * page) {
      note(failed_, 1);
      return nullptr;
    }
    const auto many = static_cast<std::uint32_t>((bytes + page - 1) / page);
    MUSTER_GPU_ROLLED
    for (unsigned round = 0;; ++round) {
      // (1)
      const std::uint64_t before = moves_.load(std::memory_order_acquire);
      if (many >= page_map::in_chunk) begin_move();
      const std::uint32_t first = pages().take_run(many, at_chunk);
      if (many >= page_map::in_chunk) end_move();
      if (first != none) {
        count_pages(many);
        slab_at(first).use.store(run + many, std::memory_order_relaxed);
        return address_of(first);
      }
      MUSTER_GPU_ROLLED
      while (return_kept()) continue;
      const std::uint64_t own = many >= page_map::in_chunk ? one_move_ended : 0;
      if (have_stayed(before, own) || round >= most_rounds) break;
    }
    note(failed_, 1);
    return nullptr;
  }
  MUSTER_GPU_COLD void free_run(std::uint32_t first) {
    std::uint32_t use = slab_at(first).use.load(std::memory_order_relaxed);
    // If several lanes free the run, only one of them changes `use`.
    if (use <= run ||
        !slab_at(first).use.compare_exchange_strong(use, 0, std::memory_order_relaxed, std::memory_order_relaxed))
      return note(twice_, 1);
    give_pages(first, use - run);
  }
  MUSTER_GPU_COLD void give_pages(std::uint32_t first, std::uint32_t many) {
    pages_taken_.fetch_sub(many, std::memory_order_relaxed);
    pages().give(first, many);
  }
  MUSTER_GPU void count_pages(std::uint32_t many) {
    const std::uint32_t now = pages_taken_.fetch_add(many, std::memory_order_relaxed) + many;
    std::uint32_t most = most_pages_.load(std::memory_order_relaxed);
    while (most < now &&
           !most_pages_.compare_exchange_strong(most, now, std::memory_order_relaxed, std::memory_order_relaxed)) {
    }
  }

  // The lower half counts the lanes that hold pages and may give them back; the upper half counts how often such a lane
  // has finished.
  static constexpr std::uint64_t one_move_ended = std::uint64_t{1} << 32U;
  static MUSTER_GPU std::uint32_t under_way(std::uint64_t moves) { return static_cast<std::uint32_t>(moves); }
  MUSTER_GPU void begin_move() {
    // (11) acquire: pairs with (12).
    moves_.fetch_add(1, std::memory_order_acquire);
  }
  MUSTER_GPU void end_move() {
    // (8) release: pairs with (1).
    moves_.fetch_add(one_move_ended - 1, std::memory_order_release);
  }
  /// Returns true if no lane has held pages that it may give back since `before`, except this lane; `own` is what this
  /// lane has added to moves_ since.
  MUSTER_GPU bool have_stayed(std::uint64_t before, std::uint64_t own = 0) {
    // (12) release: pairs with (11). A lane that begins later takes nothing that this one has looked for.
    return under_way(before) == 0 && moves_.fetch_or(0, std::memory_order_release) == before + own;
  }

  plan_type plan_;  // constant
  atomic<std::uint64_t> moves_;
  atomic<std::uint64_t> failed_, twice_, invalid_;
  atomic<std::uint32_t> pages_taken_, most_pages_;
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
