// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// disk_room.hpp: the disk space that a policy still leaves to a sandbox.
//
// Counted    the bytes by which files become longer, holes included; blocks by which they grow beyond that; entries of
//            directories. Nothing is given back.
// Holes      that the sandbox has made have been counted with the file's length, so filling them costs nothing: their
//            bytes are kept as paid, for any file.
// Blocks     are what the system says after a call. Some file systems count them later, and do not say where holes are.
//            So bytes written within a file that seems to have holes count unless its blocks grew by more.
// Threads    none: one thread at a time looks at it and uses it.
// Source     ours.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <sys/stat.h>  // struct stat

#include <algorithm>  // std::min
#include <cstdint>    // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

class disk_room {
 public:
  explicit disk_room(std::uint64_t bytes) noexcept : room_(bytes) {}

  bool empty() const noexcept { return room_ == 0; }
  void take(std::uint64_t bytes) noexcept { room_ -= std::min(room_, bytes); }

  /// Returns how many of `size` bytes may be written at an offset of the file. Then call written().
  std::uint64_t most(const struct stat& before, std::uint64_t at, std::uint64_t size) const noexcept {
    const std::uint64_t length = length_of(before);
    if (at < length) return std::min(size, std::min(paid_, length - at) + room_);
    return at - length < room_ ? std::min(size, room_ - (at - length)) : 0;
  }
  /// Counts a write of `done` bytes.
  void written(const struct stat& before, const struct stat& after, std::uint64_t done) noexcept {
    const std::uint64_t longer = growth(length_of(before), length_of(after));
    const std::uint64_t blocks = growth(space_of(before), space_of(after));
    take(longer);
    // A length without blocks is a new hole, and blocks beyond the length fill old ones.
    const std::uint64_t beyond = std::min(done, longer);
    paid_ += longer - std::min(longer, std::max(blocks, beyond));
    const std::uint64_t in_holes = space_of(before) < length_of(before) ? done - beyond : 0;
    const std::uint64_t fills = std::max(blocks - std::min(blocks, longer), in_holes);
    const std::uint64_t from_paid = std::min(paid_, fills);
    paid_ -= from_paid;
    take(fills - from_paid);
  }
  /// Counts a change of the length. Returns false if there is not enough room.
  bool set_length(const struct stat& before, std::uint64_t length) noexcept {
    const std::uint64_t longer = growth(length_of(before), length);
    if (longer > room_) return false;
    room_ -= longer;
    paid_ += longer;
    return true;
  }

 private:
  static std::uint64_t growth(std::uint64_t before, std::uint64_t after) noexcept {
    return after > before ? after - before : 0;
  }
  static std::uint64_t length_of(const struct stat& file) noexcept { return static_cast<std::uint64_t>(file.st_size); }
  static std::uint64_t space_of(const struct stat& file) noexcept {
    constexpr std::uint64_t unit = 512;
    return static_cast<std::uint64_t>(file.st_blocks) * unit;
  }

  std::uint64_t room_;
  std::uint64_t paid_ = 0;  // holes that have been counted, and not been filled
};

}  // namespace muster::inline MUSTER_ABI::detail
