// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/byte_arena.hpp: where the only producer of a ring puts its messages: a ring of bytes that skips the messages
// which stopped consumers hold.
//
// All of it is private to the producer's process; the shared memory has only the messages. A block belongs to the rank
// of its message, and is free when that rank is finished: the cell's word is the one record of that, so no death can
// leave two that differ. The next producer of the ring finds the blocks in use by looking at the cells (adopt).
//
// The blocks are listed in the order in which the cursor will meet them. Usually that is the order of their ranks, and
// the first is the next to be freed. A block whose consumer is late is passed: it moves to the end of the list, and the
// cursor behind it. It is passed only if a later block is free, or there is room right behind it: otherwise the cursor
// would run ahead of consumers that are merely at work.
//
// Which messages fit: with h blocks of H bytes in use, one of (bytes − H) / (h + 1) always does.
#pragma once

#include <muster/base/arch.hpp>                   // line_size
#include <muster/queue/detail/shared_layout.hpp>  // item_use
#include <muster/queue/options.hpp>               // rank_t

#include <algorithm>  // std::sort, std::rotate
#include <bit>        // std::bit_ceil
#include <cstddef>    // std::size_t
#include <vector>     // the list

namespace muster::inline MUSTER_ABI::detail {

class byte_arena {
 public:
  static constexpr std::size_t unit = line_size;  // blocks start at multiples of it, and share no line

  /// `ranks`: at most so many are unfinished at once.
  byte_arena(std::size_t bytes, std::size_t ranks)
      : size_(bytes), blocks_(std::bit_ceil(2 * ranks)), mask_(blocks_.size() - 1) {}

  std::size_t size() const noexcept { return size_; }

  /// A block in use that an earlier producer has left. After all of them: start().
  void adopt(std::size_t at, std::size_t bytes, rank_t rank) {
    if (count_ == blocks_.size() || at >= size_ || at % unit != 0 || bytes > size_ - at) return;  // written by nonsense
    push_back({at, at + length(bytes), rank});
  }
  void start() {
    if (count_ == 0) return;
    const auto begin = blocks_.begin(), end = begin + static_cast<std::ptrdiff_t>(count_);
    // As the earlier producer left it: the cursor is behind the newest message.
    const std::size_t newest =
        std::min_element(begin, end, [](const block& a, const block& b) { return before(b.rank, a.rank); })->end;
    std::sort(begin, end, [](const block& a, const block& b) { return a.at < b.at; });
    std::rotate(begin, std::find_if(begin, end, [&](const block& b) { return b.at >= newest; }), end);
    cursor_ = newest;
  }

  /// Finds room for a message. `use_of(rank)` tells how far a rank is. Returns false if there is none now. The room
  /// stays the producer's until the next call.
  template <class UseOf>
  MUSTER_HOT bool reserve(std::size_t bytes, UseOf use_of) noexcept {
    const std::size_t wanted = length(bytes);
    if (room() >= wanted && count_ != blocks_.size()) [[likely]]
      return true;
    return search(wanted, use_of);
  }
  /// Where the reserved room begins.
  std::size_t reserved() const noexcept { return cursor_; }
  /// The message in the reserved room, perhaps a shorter one, has been published.
  void keep(std::size_t bytes, rank_t rank) noexcept {
    push_back({cursor_, cursor_ + length(bytes), rank});
    cursor_ += length(bytes);
  }

 private:
  struct block {
    std::size_t at, end;
    rank_t rank;
  };

  /// A message of no bytes has a place, too.
  static constexpr std::size_t length(std::size_t bytes) noexcept {
    return bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
  }

  bool ahead() const noexcept { return count_ != 0 && first().at >= cursor_; }
  /// Free bytes from the cursor on.
  std::size_t room() const noexcept { return (ahead() ? first().at : size_) - cursor_; }

  template <class UseOf>
  MUSTER_COLD bool search(std::size_t wanted, UseOf use_of) noexcept {
    const std::size_t begin = cursor_;
    std::size_t passed = 0;
    bool around = false;
    bool open = true;  // the block after those passed is free, or there are none: their bytes may be left behind
    for (;;) {
      if (room() >= wanted && open) {
        if (count_ != blocks_.size()) return true;
        if (!sweep(use_of)) break;
        continue;
      }
      if (!ahead()) {
        if (around) break;
        around = true;
        cursor_ = 0;
        open = open || room() >= wanted;
        continue;
      }
      const item_use use = passed == count_ ? item_use::unclaimed : use_of(first().rank);
      if (use == item_use::unclaimed) break;
      const block next = first();
      pop_front();
      if (use == item_use::finished) {
        open = true;
        continue;
      }
      push_back(next);
      ++passed;
      cursor_ = next.end;
      open = room() >= wanted;
    }
    // As before, but for the blocks found free.
    for (; passed != 0; --passed) push_front(pop_back());
    cursor_ = begin;
    return false;
  }

  /// Forgets all free blocks. Returns false if there are none.
  template <class UseOf>
  bool sweep(UseOf use_of) noexcept {
    const std::size_t had = count_;
    for (std::size_t i = 0; i != had; ++i) {
      const block next = first();
      pop_front();
      if (use_of(next.rank) != item_use::finished) push_back(next);
    }
    return count_ != had;
  }

  const block& first() const noexcept { return blocks_[begin_ & mask_]; }
  void push_back(const block& b) noexcept { blocks_[(begin_ + count_++) & mask_] = b; }
  void push_front(const block& b) noexcept {
    blocks_[--begin_ & mask_] = b;
    ++count_;
  }
  void pop_front() noexcept { ++begin_, --count_; }
  block pop_back() noexcept { return blocks_[(begin_ + --count_) & mask_]; }

  const std::size_t size_;
  std::vector<block> blocks_;  // a ring
  const std::size_t mask_;
  std::size_t begin_ = 0, count_ = 0;
  std::size_t cursor_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
