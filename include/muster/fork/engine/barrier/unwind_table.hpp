// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// unwind_table.hpp: finds a function's unwind information: the loader knows which library an address lies in (glibc
// 2.35), and the library has a sorted table of its functions.
//
// Signals    may be used in signal handlers: no lock, no memory. The C++ runtime's own search takes a lock in programs
//            that have registered frames by hand, all static ones among them.
// Not found  what is not in such a table: code that a program has made and registered itself; static programs.
// Source     Linux Standard Base, ".eh_frame_hdr"; glibc manual, "_dl_find_object".
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <dlfcn.h>  // _dl_find_object

#include <bit>      // std::bit_cast
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t
#include <cstring>  // std::memcpy

namespace muster::inline MUSTER_ABI::detail {

/// A function that begins at or before an address, and its entry of .eh_frame; null when there is none.
struct unwind_entry {
  std::uintptr_t function = 0;
  const unsigned char* entry = nullptr;

  /// Whether the second address lies in a library, and the first in the same.
  static bool in_one_library(std::uintptr_t first, std::uintptr_t second) noexcept {
    dl_find_object library;
    if (::_dl_find_object(std::bit_cast<void*>(second), &library) != 0) return false;
    return first >= std::bit_cast<std::uintptr_t>(library.dlfo_map_start) &&
           first < std::bit_cast<std::uintptr_t>(library.dlfo_map_end);
  }
  static unwind_entry of(std::uintptr_t address) noexcept {
    dl_find_object library;
    if (::_dl_find_object(std::bit_cast<void*>(address), &library) != 0 || library.dlfo_eh_frame == nullptr) return {};
    const auto* const table = static_cast<const unsigned char*>(library.dlfo_eh_frame);
    // What linkers write: the version; how the three that follow are encoded: the address of .eh_frame, four bytes;
    // their number, four bytes; pairs of four bytes each, relative to the table.
    constexpr unsigned char version = 1, number_of_four = 0x03, relative_pairs = 0x3b;
    constexpr std::size_t number_at = 8, pairs_at = 12;
    const unsigned char where = table[1];
    if (table[0] != version || (where & 0x0fU) != 0x0bU || table[2] != number_of_four || table[3] != relative_pairs)
      return {};
    const auto part = [&](std::size_t at) {
      std::int32_t distance = 0;
      std::memcpy(&distance, table + at, sizeof distance);
      return distance;
    };
    const auto begin_of = [&](std::size_t pair) {
      return std::bit_cast<std::uintptr_t>(table) +
             static_cast<std::uintptr_t>(std::int64_t{part(pairs_at + 8 * pair)});
    };
    // The last one that begins at or before the address lies in [low, high).
    std::size_t low = 0, high = static_cast<std::uint32_t>(part(number_at));
    if (high == 0 || address < begin_of(0)) return {};
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (begin_of(middle) <= address ? low : high) = middle;
    }
    return {begin_of(low), table + part(pairs_at + 8 * low + 4)};
  }
};

}  // namespace muster::inline MUSTER_ABI::detail
