// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// table_reader.hpp: reads the tables that compilers write for exceptions.
//
// Source     DWARF 5, 7.6 and the pointer encodings of the Linux Standard Base 10.5.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <bit>      // std::bit_cast
#include <cstdint>  // std::uintptr_t
#include <cstring>  // std::memcpy

namespace muster::inline MUSTER_ABI::detail {

/// Reads the tables. After an unknown encoding it stays failed().
class table_reader {
 public:
  explicit table_reader(const unsigned char* at) noexcept : at_(at) {}
  const unsigned char* at() const noexcept { return at_; }
  bool failed() const noexcept { return failed_; }

  unsigned byte() noexcept { return *at_++; }
  void skip(std::uint64_t bytes) noexcept { at_ += bytes; }
  std::uint64_t unsigned_number() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint64_t next = *at_++;
      if (shift < 64) value |= (next & 0x7f) << shift;
      if (next < 0x80) return value;
    }
  }
  std::int64_t signed_number() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const std::uint64_t next = *at_++;
      if (shift < 64) value |= (next & 0x7f) << shift;
      shift += 7;
      if (next >= 0x80) continue;
      if (shift < 64 && (next & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
  }
  /// Reads a pointer in the given encoding.
  std::uintptr_t pointer(unsigned encoding) noexcept {
    const auto here = reinterpret_cast<std::uintptr_t>(at_);
    std::uintptr_t value = 0;
    switch (encoding & 0x0fU) {
      case 0x00:
      case 0x04:
      case 0x0c: value = fixed<std::uint64_t>(); break;
      case 0x01: value = unsigned_number(); break;
      case 0x02: value = fixed<std::uint16_t>(); break;
      case 0x03: value = fixed<std::uint32_t>(); break;
      case 0x09: value = static_cast<std::uintptr_t>(signed_number()); break;
      case 0x0a: value = static_cast<std::uintptr_t>(std::int64_t{fixed<std::int16_t>()}); break;
      case 0x0b: value = static_cast<std::uintptr_t>(std::int64_t{fixed<std::int32_t>()}); break;
      default: failed_ = true;
    }
    if (value == 0) return 0;
    if ((encoding & 0x70U) == 0x10) {
      value += here;
    } else if ((encoding & 0x70U) != 0) {
      failed_ = true;
    }
    if ((encoding & 0x80U) != 0 && !failed_) value = *std::bit_cast<const std::uintptr_t*>(value);
    return value;
  }

 private:
  template <class T>
  T fixed() noexcept {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  const unsigned char* at_;
  bool failed_ = false;
};

}  // namespace muster::inline MUSTER_ABI::detail
