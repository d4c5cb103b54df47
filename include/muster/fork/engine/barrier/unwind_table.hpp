// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// unwind_table.hpp: finds a function's unwind information: the loader knows the library that contains an address (glibc
// 2.35), and the library has a sorted table of its functions.
//
// Signals    may be used in signal handlers: takes no lock, allocates no memory. The C++ runtime's own search takes a
//            lock in programs that have registered frames by hand, including all static ones.
// Not found  functions in no such table: code that a program generated and registered itself; static programs.
// Source     Linux Standard Base, ".eh_frame_hdr"; glibc manual, "_dl_find_object".
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <dlfcn.h>  // _dl_find_object

#include <bit>      // std::bit_cast
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t
#include <cstring>  // std::memcpy

namespace muster::inline MUSTER_ABI::detail {

/// The function that begins at or before an address, and its entry of .eh_frame; null if there is none.
struct unwind_entry {
  std::uintptr_t function = 0;
  const unsigned char* entry = nullptr;

  /// True if the second address is in a library, and the first in the same.
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
    // The format that linkers write: the version; three encodings: of the address of .eh_frame, of the number of pairs
    // (four bytes), of the pairs (four bytes each, relative to the table); then these three.
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
    // The last function that begins at or before the address is in [low, high).
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
