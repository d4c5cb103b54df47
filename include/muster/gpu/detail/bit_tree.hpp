// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// bit_tree.hpp: a set of small numbers as a tree of words, in which any lane finds a member in a few loads: how
// gpu::heap finds free chunks, and slabs with free objects.
//
// Shape      64 numbers to a word, and 64 words to one of the next level, up to a level of one word. A bit of an upper
//            level says that the word below it is not zero.
// Hints      The set describes something else, such as a word of memory that counts free pages. After changing that, a
//            lane calls settle(), and the bit agrees with it as soon as no settle() is under way. Until then a search
//            may miss a member or find a number that is none, so its caller looks at the thing itself.
// Cost       a search in an empty set: one load for each level, two levels for 4096 numbers. A change: one atomic, and
//            one more for each level whose word becomes zero or stops being zero.
// Progress   lock-free: settle() repeats only if another lane changed the thing meanwhile. A search is wait-free: it
//            moves in one direction.
#pragma once

#include <muster/gpu/simt.cuh>  // atomic

#include <atomic>   // std::memory_order
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

/// The position of the lowest set bit of a word that is not zero.
MUSTER_GPU unsigned lowest_bit(std::uint64_t bits) {
  const auto low = static_cast<lane_mask>(bits);
  return low != 0 ? first_of(low) : 32 + first_of(static_cast<lane_mask>(bits >> 32U));
}
MUSTER_GPU unsigned count_bits(std::uint64_t bits) {
  return many_of(static_cast<lane_mask>(bits)) + many_of(static_cast<lane_mask>(bits >> 32U));
}

/// Where the levels of a tree are, the same for all trees of one size.
struct tree_shape {
  static constexpr unsigned most_levels = 6;  // for 2^31 numbers

  std::uint32_t levels = 0;
  std::uint32_t words = 0;               // of all levels
  std::uint32_t bits[most_levels] = {};  // of each level
  std::uint32_t begin[most_levels] = {};

  static MUSTER_GPU tree_shape of(std::uint32_t numbers) {
    tree_shape made;
    for (std::uint32_t bits = numbers;; bits = (bits + 63) / 64) {
      made.bits[made.levels] = bits;
      made.begin[made.levels++] = made.words;
      made.words += (bits + 63) / 64;
      if (bits <= 64) return made;
    }
  }

  /// Word `at` of a level, in a tree that has the numbers from `first` up to `end`, which is excluded.
  MUSTER_GPU std::uint64_t word_of_range(unsigned level, std::uint32_t at, std::uint32_t first,
                                         std::uint32_t end) const {
    if (first >= end) return 0;
    const std::uint64_t low = std::uint64_t{first} >> (6 * level);
    const std::uint64_t high = (std::uint64_t{end} - 1) >> (6 * level);  // included
    std::uint64_t word = 0;
    for (std::uint64_t bit = 0; bit < 64; ++bit) {
      const std::uint64_t number = std::uint64_t{at} * 64 + bit;
      word |= std::uint64_t{number >= low && number <= high} << bit;
    }
    return word;
  }
};

/// A view: the words belong to the caller.
class bit_tree {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  MUSTER_GPU bit_tree(const tree_shape& shape, atomic<std::uint64_t>* words) : shape_(shape), words_(words) {}

  /// The first member that is not below `from`, or none.
  MUSTER_GPU std::uint32_t find(std::uint32_t from) const { return find_in(shape_, words_, from); }
  /// As find, but continues at 0 after the last number.
  MUSTER_GPU std::uint32_t find_around(std::uint32_t from) const {
    const std::uint32_t found = find(from);
    return found != none || from == 0 ? found : find(0);
  }

  /// Makes `number` a member, or not; returns true if it was one.
  MUSTER_GPU bool change(std::uint32_t number, bool member) { return change_in(shape_, words_, number, member); }

  /// Makes `number` a member if is_member() says so. Call it after a change of what is_member() reads.
  template <class F>
  MUSTER_GPU void settle(std::uint32_t number, F is_member) {
    MUSTER_GPU_ROLLED
    for (;;) {
      const bool member = is_member();
      change(number, member);
      // If it has changed since, the lane that changed it may have been at the bit before this one.
      if (is_member() == member) return;
    }
  }

  /// While no lane changes the set: true if every upper bit agrees with the word below it.
  MUSTER_GPU bool is_consistent() const {
    for (unsigned level = 1; level < shape_.levels; ++level)
      for (std::uint32_t n = 0; n < shape_.bits[level]; ++n)
        if ((at_level(level, n / 64).load(std::memory_order_relaxed) >> n % 64 & 1U) !=
            (at_level(level - 1, n).load(std::memory_order_relaxed) != 0 ? 1U : 0U))
          return false;
    return true;
  }
  MUSTER_GPU bool has(std::uint32_t number) const {
    return (at_level(0, number / 64).load(std::memory_order_relaxed) >> number % 64 & 1U) != 0;
  }

 private:
  MUSTER_GPU atomic<std::uint64_t>& at_level(unsigned level, std::uint32_t word) const {
    return words_[shape_.begin[level] + word];
  }
  // Not inlined, because malloc calls them in many places; their arguments are not the view, which would need memory.
  static MUSTER_GPU_COLD std::uint32_t find_in(const tree_shape& shape, const atomic<std::uint64_t>* words,
                                               std::uint32_t from) {
    // A search from 0 begins at the top, so that an empty set costs one load.
    std::uint32_t level = from == 0 ? shape.levels - 1 : 0;
    MUSTER_GPU_ROLLED
    for (std::uint32_t at = from; at < shape.bits[level];) {
      const std::uint64_t word = words[shape.begin[level] + at / 64].load(std::memory_order_relaxed) >> at % 64;
      if (word != 0) {
        at += lowest_bit(word);
        if (level == 0) return at;
        at *= 64;
        --level;
      } else {
        if (++level == shape.levels) break;
        at = at / 64 + 1;
      }
    }
    return none;
  }
  static MUSTER_GPU_COLD bool change_in(const tree_shape& shape, atomic<std::uint64_t>* words, std::uint32_t number,
                                        bool member) {
    bool turned = false;
    const bool was = change_bit(words[number / 64], number, member, turned);
    MUSTER_GPU_ROLLED
    for (unsigned level = 1; turned && level < shape.levels; ++level) {
      number /= 64;
      turned = false;
      const atomic<std::uint64_t>& below = words[shape.begin[level - 1] + number];
      MUSTER_GPU_ROLLED
      for (bool now = below.load(std::memory_order_relaxed) != 0;; now = !now) {
        change_bit(words[shape.begin[level] + number / 64], number, now, turned);
        // As in settle().
        if ((below.load(std::memory_order_relaxed) != 0) == now) break;
      }
    }
    return was;
  }
  /// Sets `turned` if the word has become zero, or has been.
  static MUSTER_GPU bool change_bit(atomic<std::uint64_t>& word, std::uint32_t number, bool member, bool& turned) {
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    // (1) acq_rel: pairs with (1). Of two lanes that change a word, the second sees all that the first did before. So
    // if both have changed the thing before, the second reads it as it is now, and corrects the bit.
    const std::uint64_t old =
        member ? word.fetch_or(bit, std::memory_order_acq_rel) : word.fetch_and(~bit, std::memory_order_acq_rel);
    turned = turned || (old == 0) != ((member ? old | bit : old & ~bit) == 0);
    return (old & bit) != 0;
  }

  const tree_shape& shape_;
  atomic<std::uint64_t>* const words_;
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
