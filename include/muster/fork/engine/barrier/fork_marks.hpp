// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_marks.hpp: which calls on a stack are forks: those whose innermost handler catches a `landing`. The compiler's
// exception tables say so; nothing is written when a program forks.
//
// Source     the tables: Itanium C++ ABI, "Exception Handling Tables".
#pragma once

#include <muster/fork/engine/barrier/table_reader.hpp>  // table_reader

#include <bit>       // std::bit_cast
#include <cstdint>   // std::uintptr_t
#include <typeinfo>  // std::type_info

namespace muster::inline MUSTER_ABI::detail {

/// Where an exception goes that a call throws.
struct landing_pad {
  std::uintptr_t at = 0;      // 0: the call is not marked
  std::int64_t selector = 0;  // tells the code there which exception it is
};

/// The exception table of a function that begins at `function`.
class function_table {
 public:
  function_table(std::uintptr_t function, const void* table, const std::type_info& marks) noexcept
      : function_(function), table_(static_cast<const unsigned char*>(table)), marks_(marks) {}

  /// The handler of the call that returns to `return_address`, if it is within a try block whose first handler catches
  /// `marks`.
  landing_pad handler_of(std::uintptr_t return_address) const noexcept {
    const std::uintptr_t call = return_address - 1 - function_;
    return find([&](std::uintptr_t from, std::uintptr_t length) { return call >= from && call - from < length; });
  }
  /// Whether any call has one.
  bool has_marks() const noexcept {
    return find([](std::uintptr_t, std::uintptr_t) { return true; }).at != 0;
  }

 private:
  template <class Wanted>
  landing_pad find(Wanted wanted) const noexcept {
    constexpr unsigned omitted = 0xff;
    if (table_ == nullptr) return {};
    table_reader read(table_);
    std::uintptr_t pads = function_;
    if (const unsigned encoding = read.byte(); encoding != omitted) pads = read.pointer(encoding);
    const unsigned type_encoding = read.byte();
    const std::int64_t size = table_reader::size_of(type_encoding);
    if (type_encoding == omitted || size == 0) return {};
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
      const std::uintptr_t caught = type.pointer(type_encoding);
      // Not by their addresses: each library may have its own.
      if (caught != 0 && !type.failed() && *std::bit_cast<const std::type_info*>(caught) == marks_)
        return {pads + pad, filter};
    }
    return {};
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
