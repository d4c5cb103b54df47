# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Mutants of meaning of memory on GPUs, compiled for the emulation of one: see mutants.py."""

AREA, BASES, FIFO, PAGES, XMALLOC = (f"muster/gpu/{name}.hpp"
                                     for name in ("area", "bases", "fifo", "page_base", "xmalloc"))
XMC, LANE = "muster/gpu/xmc.cuh", "muster/gpu/lane.cuh"

MUTANTS = (
    # name, header, before, after, test, cases of the test

    # Objects: where they lie, and what is taken for one.
    ("gpu-area-compartments-overlap", AREA,
     "(object + header + alignment - 1) / alignment * alignment;", "(object + alignment - 1) / alignment * alignment;",
     "gpu/xmalloc", "*serves_every_number_of_lanes"),
    ("gpu-area-alignment-ignored", AREA,
     "return (object + header + alignment - 1) / alignment * alignment;", "return object + header;",
     "gpu/xmalloc", "*serves_every_number_of_lanes"),
    ("gpu-area-tags-without-address", AREA,
     "return kind ^ static_cast<std::uint32_t>(at >> 3U ^ at >> 35U) * 0x9e3779b9U;", "return kind;",
     "gpu/xmalloc", "*takes_no_copy_of_an_object_for_one"),
    ("gpu-area-freed-twice-at-once", AREA,
     "if (alive && tag_.compare_exchange_strong(found, ~found, std::memory_order_relaxed, std::memory_order_relaxed))\n"
     "      return found == together ? freed::together : freed::alone;",
     "if (alive) {\n"
     "      tag_.store(~found, std::memory_order_relaxed);\n"
     "      return found == together ? freed::together : freed::alone;\n"
     "    }",
     "gpu/xmalloc", "*reports_all_but_one*"),

    # Lanes that allocate and free together.
    ("gpu-xmalloc-area-not-counted", XMALLOC,
     "const std::uint32_t all = static_cast<std::uint32_t>(area::header) + reduce_add(together, mine);",
     "const std::uint32_t all = reduce_add(together, mine);",
     "gpu/xmalloc", "*serves_every_number_of_lanes:*survives_churn"),
    ("gpu-xmalloc-block-back-too-early", XMALLOC,
     "fetch_sub(many, std::memory_order_acq_rel) == many)", "fetch_sub(many, std::memory_order_acq_rel) >= many)",
     "gpu/xmalloc", "*survives_churn"),
    ("gpu-xmalloc-freed-together-counted-by-each", XMALLOC,
     "    if (!is_first_of(together)) return;\n", "",
     "gpu/xmalloc", "*serves_every_number_of_lanes"),
    ("gpu-xmalloc-no-room-for-all-is-none-for-one", XMALLOC,
     "return begin == nullptr ? allocate_alone(bytes) : compartment::make(begin, offset, false);",
     "return begin == nullptr ? nullptr : compartment::make(begin, offset, false);",
     "gpu/xmalloc", "*serves_some_where_there_is_no_room*"),
    ("gpu-xmalloc-something-for-nothing", XMALLOC,
     "    if (bytes == 0) return nullptr;\n", "",
     "gpu/xmalloc", "*serves_small_and_large_and_nothing*"),

    # Blocks and the sizes that they are kept for.
    ("gpu-xmalloc-size-class-off-by-one", XMALLOC,
     "while (block_size(c) < bytes) ++c;", "while (block_size(c) + 1 < bytes) ++c;",
     "gpu/xmalloc", "*survives_churn_without_coalescing"),
    ("gpu-xmalloc-size-of-what-was-found-forgotten", XMALLOC,
     "    for (; size_class < size_classes; ++size_class)\n      for (auto& one : kept_[size_class])\n",
     "    for (std::uint32_t larger = size_class; larger < size_classes; ++larger)\n"
     "      for (auto& one : kept_[larger])\n",
     "gpu/xmalloc", "*finds_blocks_that_are_kept_for_other_sizes*"),
    ("gpu-xmalloc-other-fifos-of-the-size-not-looked-at", XMALLOC,
     "    for (; size_class < size_classes; ++size_class)\n",
     "    for (++size_class; size_class < size_classes; ++size_class)\n",
     "gpu/xmalloc", "*finds_the_last_free_block*"),
    ("gpu-xmalloc-bytes-overflow", XMALLOC,
     "if (bytes > ~std::size_t{0} - headers - compartment::alignment) return nullptr;\n", "\n",
     "gpu/xmalloc", "*returns_null_for_too_large_a_size"),
    ("gpu-xmalloc-kept-between-granules", XMALLOC,
     "has_number = (offset & ((std::uint64_t{1} << bits) - 1)) == 0 && offset >> bits",
     "has_number = offset >> bits",
     "gpu/xmalloc", "*keeps_no_block_that_its_numbers_cannot_name"),

    # Frees that must be refused.
    ("gpu-xmalloc-header-outside-the-base", XMALLOC,
     "!base_.owns(object) || !base_.owns(static_cast<char*>(object) - 16))", "!base_.owns(object))",
     "gpu/xmalloc", "*reads_no_memory_outside_the_base"),
    ("gpu-xmalloc-twice-counted-as-invalid", XMALLOC,
     "if (what == freed::twice) return note(twice_);", "if (what == freed::twice) return note(invalid_);",
     "gpu/xmalloc", "*notices_double_frees*"),
    ("gpu-pages-own-one-past-the-end", PAGES,
     "- origin() < std::uint64_t{pages_} * page_size;", "- origin() <= std::uint64_t{pages_} * page_size;",
     "gpu/page_base", "page_base.owns*"),
    ("gpu-pages-middle-of-a-block-freed", PAGES,
     "if (in_page % size_of(use) != 0 || in_page / size_of(use) >= cells_of(use)) return",
     "if (in_page / size_of(use) >= cells_of(use)) return",
     "gpu/page_base", "page_base.frees_nothing_but_blocks"),
    ("gpu-pages-middle-of-a-run-freed", PAGES,
     "if (is_run(use) && offset % page_size == 0) return", "if (is_run(use)) return",
     "gpu/page_base", "page_base.frees_no_part*"),
    ("gpu-pages-run-freed-twice-counted-as-invalid", PAGES,
     "note(use == page::free || use == page::changing ? twice_ : invalid_);", "note(invalid_);",
     "gpu/page_base", "page_base.*"),
    ("gpu-bump-owns-one-past-the-end", BASES,
     "- begin_ < bytes_; }", "- begin_ <= bytes_; }",
     "gpu/page_base", "bump_base.*"),

    # Pages, their blocks, and runs of them.
    ("gpu-pages-one-block-too-many", PAGES,
     "return size_class == 0 ? 63 : static_cast<std::uint32_t>(page_size) / size_of(size_class);",
     "return static_cast<std::uint32_t>(page_size) / size_of(size_class);",
     "gpu/page_base", "page_base.frees_nothing_but_blocks"),
    ("gpu-pages-free-with-a-block-taken", PAGES,
     "    if ((taken & ~bit & all_of(size_class)) != 0) return;\n    std::uint64_t none = 0;\n",
     "    std::uint64_t none = taken & ~bit;\n",
     "gpu/xmalloc", "*survives_churn_of_the_base_alone"),
    ("gpu-pages-no-run-over-the-hint", PAGES,
     "take_run_between(0, hint + many < pages_ ? hint + many : pages_, many);", "take_run_between(0, hint, many);",
     "gpu/page_base", "page_base.finds_every_run*"),
    ("gpu-pages-of-a-run-in-vain-lost", PAGES,
     "for (std::uint32_t n = 0; n < got; ++n) {", "for (std::uint32_t n = 0; n + 1 < got; ++n) {",
     "gpu/page_base", "page_base.finds_every_run*"),
    ("gpu-granule-too-large-at-the-limit", BASES,
     "(bytes - 1) >> (32 + bits) != 0", "bytes >> (32 + bits) != 0",
     "gpu/xmalloc", "*numbers_reach_over_the_whole_heap"),

    # Queues of free blocks.
    ("gpu-fifo-one-too-many", FIFO,
     "if (number_of(tail) - head + 1 >= Capacity) return false;",
     "if (number_of(tail) - head + 1 > Capacity) return false;",
     "gpu/page_base", "fifo.*"),
    ("gpu-fifo-last-one-stays", FIFO,
     "if (number_of(tail) + 1 == head) return false;", "if (number_of(tail) + 1 - head <= 1) return false;",
     "gpu/xmalloc", "*finds_the_last_free_block*"),

    # The paper's calls, and sums over lanes.
    ("gpu-xmc-another-size-accepted", XMC,
     "  if (size != bytes)\n", "  if (size > bytes)\n",
     "gpu/xmc", "xmc.says_why*"),
    ("gpu-lane-sum-includes-the-caller", LANE,
     "  return sum - value;\n", "  return sum;\n",
     "gpu/simt", "*collectives_give*"),
)
