// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_marks.hpp: which calls on a stack are forks: those whose innermost handler catches a `landing`. The compiler's
// exception tables say so; nothing is written when a program forks.
//
// Source     the tables: Itanium C++ ABI, "Exception Handling Tables"; DWARF 5, 7.6 and the pointer encodings of the
//            Linux Standard Base 10.5.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <bit>       // std::bit_cast
#include <cstdint>   // std::uintptr_t
#include <cstring>   // std::memcpy
#include <typeinfo>  // std::type_info

namespace muster::inline MUSTER_ABI::detail {

/// Reads the tables. What it does not know makes it fail, and it stays so.
class table_reader {
 public:
  explicit table_reader(const unsigned char* at) noexcept : at_(at) {}
  const unsigned char* at() const noexcept { return at_; }
  bool failed() const noexcept { return failed_; }

  unsigned byte() noexcept { return *at_++; }
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
  /// A pointer, as `encoding` says.
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
  /// The bytes of such a pointer, 0 when they differ.
  static std::int64_t size_of(unsigned encoding) noexcept {
    switch (encoding & 0x0fU) {
      case 0x00:
      case 0x04:
      case 0x0c: return 8;
      case 0x03:
      case 0x0b: return 4;
      case 0x02:
      case 0x0a: return 2;
      default: return 0;
    }
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

/// The exception table of a function that begins at `function`.
class function_table {
 public:
  function_table(std::uintptr_t function, const void* table, const std::type_info& marks) noexcept
      : function_(function), table_(static_cast<const unsigned char*>(table)), marks_(marks) {}

  /// Whether the call that returns to `return_address` is within a try block whose first handler catches `marks`.
  bool is_marked(std::uintptr_t return_address) const noexcept {
    const std::uintptr_t call = return_address - 1 - function_;
    return any([&](std::uintptr_t from, std::uintptr_t length) { return call >= from && call - from < length; });
  }
  /// Whether any call is.
  bool has_marks() const noexcept {
    return any([](std::uintptr_t, std::uintptr_t) { return true; });
  }

 private:
  template <class Wanted>
  bool any(Wanted wanted) const noexcept {
    constexpr unsigned omitted = 0xff;
    if (table_ == nullptr) return false;
    table_reader read(table_);
    if (const unsigned encoding = read.byte(); encoding != omitted) read.pointer(encoding);
    const unsigned type_encoding = read.byte();
    const std::int64_t size = table_reader::size_of(type_encoding);
    if (type_encoding == omitted || size == 0) return false;
    const std::uint64_t to_types = read.unsigned_number();
    const unsigned char* const types = read.at() + to_types;
    const unsigned call_encoding = read.byte();
    const std::uint64_t calls_length = read.unsigned_number();
    const unsigned char* const actions = read.at() + calls_length;
    while (read.at() < actions && !read.failed()) {
      const std::uintptr_t from = read.pointer(call_encoding);
      const std::uintptr_t length = read.pointer(call_encoding);
      const std::uintptr_t pad = read.pointer(call_encoding);
      const std::uint64_t action = read.unsigned_number();
      if (pad == 0 || action == 0 || !wanted(from, length)) continue;
      const std::int64_t filter = table_reader(actions + action - 1).signed_number();
      if (filter <= 0) continue;
      table_reader type(types - filter * size);
      if (type.pointer(type_encoding) == reinterpret_cast<std::uintptr_t>(&marks_) && !type.failed()) return true;
    }
    return false;
  }

  const std::uintptr_t function_;
  const unsigned char* const table_;
  const std::type_info& marks_;
};

/// Whether a function may have masked the stack pointer before a call of its own: whether its code has the bytes of
/// such an instruction.
inline bool masks_stack_pointer(std::uintptr_t function, std::uintptr_t return_address) noexcept {
  const auto* at = std::bit_cast<const unsigned char*>(function);
  const auto* const end = std::bit_cast<const unsigned char*>(return_address);
  for (; at + 2 < end; ++at)
    if (at[0] == 0x48 && (at[1] == 0x83 || at[1] == 0x81) && at[2] == 0xe4) return true;  // andq $..., %rsp
  return false;
}

}  // namespace muster::inline MUSTER_ABI::detail
