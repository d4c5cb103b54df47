// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// unwind.hpp: the rule that leads from a function's frame to its caller's, for a place in its code, read from the
// tables that compilers write for exceptions. The loader knows the library that contains an address (glibc 2.35), and
// the library has a sorted table of its functions.
//
// Frames     ordinary ones only: the caller's stack pointer is an offset from a register, or is stored at an offset
//            from rbp, and callee-saved registers are in the frame. Other frames have no known rule.
// Signals    may be used in signal handlers: takes no lock, allocates no memory. The C++ runtime's own search takes a
//            lock in programs that have registered frames by hand, including all static ones.
// Not found  functions in no such table: code that a program generated and registered itself; static programs.
// Source     DWARF 5, 6.4 "Call Frame Information" and 7.6; Linux Standard Base 10.5 and 10.6, ".eh_frame",
//            ".eh_frame_hdr" and the encodings of pointers; glibc manual, "_dl_find_object"; System V ABI, x86-64, 3.6.
#pragma once

#include <muster/base/config.hpp>                // MUSTER_ABI
#include <muster/fork/detail/barrier/frame.hpp>  // kept_registers, stack_point

#include <dlfcn.h>  // _dl_find_object

#include <array>    // a rule for each register
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

/// Reads the numbers of the tables. After an unknown encoding it stays failed().
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

struct frame_rule {
  static constexpr std::uint8_t stack_pointer = kept_registers::many;

  bool known = false;
  bool cfa_in_memory = false;  // the canonical frame address is in memory; registers are saved at offsets from rbp
  std::uint8_t base = 0;       // a register of kept_registers, or stack_pointer
  std::uint8_t saved = 0;      // a bit for each register
  std::int32_t offset = 0;     // from the base
  std::array<std::int16_t, kept_registers::many>
      at{};  // where each is saved, in words, from the canonical frame address or rbp

  /// Moves p from a point in the function to the point in its caller. Returns false unless that is a little higher on
  /// the stack: otherwise the rule is wrong, or the frame is too large.
  [[nodiscard]] bool apply(stack_point& p) const noexcept {
    constexpr std::uintptr_t largest = std::uintptr_t{16} << 20;
    const std::uintptr_t from =
        (base == stack_pointer ? p.stack : p.kept.of[base]) + static_cast<std::uintptr_t>(offset);
    if (from - p.stack > largest) return false;
    const std::uintptr_t cfa = cfa_in_memory ? word(from) : from;
    if (cfa <= p.stack || cfa - p.stack > largest) return false;
    const std::uintptr_t beside = cfa_in_memory ? p.kept.of[kept_registers::rbp] : cfa;
    for (unsigned i = 0; i < kept_registers::many; ++i)
      if ((saved >> i & 1U) != 0) p.kept.of[i] = word(beside + static_cast<std::uintptr_t>(at[i] * std::int64_t{8}));
    p.at = word(cfa - sizeof(void*));
    p.stack = cfa;
    return true;
  }

 private:
  static std::uintptr_t word(std::uintptr_t address) noexcept { return *std::bit_cast<const std::uintptr_t*>(address); }
};

/// Reads a function's unwind information.
class unwind_information {
 public:
  explicit unwind_information(std::uintptr_t at) noexcept : found_(unwind_entry::of(at)), at_(at) {
    if (found_.entry != nullptr) readable_ = read_header() && at < end();
  }
  /// True if there is readable unwind information.
  bool found() const noexcept { return readable_; }
  std::uintptr_t function() const noexcept { return found_.function; }
  std::uintptr_t end() const noexcept { return found_.function + bytes_; }
  /// Valid after rule(). True for a function that leaves by __builtin_eh_return: its frame saves rax or rdx, which it
  /// passes to the handler; no other frame does.
  bool leads_to_handlers() const noexcept { return leads_to_handlers_; }

  frame_rule rule() noexcept {
    frame_rule rule;
    if (!readable_ || is_signal_frame_) return rule;
    row now;
    if (!execute(common_program_, common_end_, now)) return rule;
    initial_ = now;
    if (!execute(program_, end_, now) || !now.cfa_known || !now.returns) return rule;
    leads_to_handlers_ = now.for_handler;
    rule.known = true;
    rule.cfa_in_memory = now.cfa_in_memory;
    rule.base = static_cast<std::uint8_t>(now.base);
    if (!fits(now.offset, rule.offset)) rule.known = false;
    for (unsigned i = 0; i < kept_registers::many; ++i) {
      const saved_register& one = now.kept[i];
      if (one.where == saved_register::kept) continue;
      const bool right = one.where == (now.cfa_in_memory ? saved_register::beside_base : saved_register::in_frame);
      if (!right || one.offset % 8 != 0 || !fits(one.offset / 8, rule.at[i])) rule.known = false;
      rule.saved = static_cast<std::uint8_t>(rule.saved | 1U << i);
    }
    return rule;
  }

 private:
  struct saved_register {
    enum place : std::uint8_t { kept, in_frame, beside_base, elsewhere } where = kept;
    std::int64_t offset = 0;
  };
  struct row {
    bool cfa_known = false, cfa_in_memory = false;
    bool returns = true;       // the return address is just below the canonical frame address
    bool for_handler = false;  // rax or rdx is saved, which a function need not preserve
    unsigned base = 0;
    std::int64_t offset = 0;
    std::array<saved_register, kept_registers::many> kept{};
  };
  static constexpr std::uint64_t return_column = 16;
  static constexpr unsigned no_register = kept_registers::many + 1;

  template <class To>
  static bool fits(std::int64_t value, To& to) noexcept {
    to = static_cast<To>(value);
    return to == value;
  }
  static std::uint32_t number(const unsigned char* at) noexcept {
    std::uint32_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static unsigned named(std::uint64_t dwarf) noexcept {
    switch (dwarf) {
      case 3: return kept_registers::rbx;
      case 6: return kept_registers::rbp;
      case 7: return frame_rule::stack_pointer;
      case 12:
      case 13:
      case 14:
      case 15: return kept_registers::r12 + static_cast<unsigned>(dwarf - 12);
      default: return no_register;
    }
  }

  bool read_header() noexcept {
    constexpr std::uint32_t long_format = 0xffffffff;
    const unsigned char* const entry = found_.entry;
    const std::uint32_t length = number(entry);
    if (length == long_format) return false;
    end_ = entry + 4 + length;
    const unsigned char* const common = entry + 4 - static_cast<std::int32_t>(number(entry + 4));
    if (number(common) == long_format) return false;
    common_end_ = common + 4 + number(common);
    table_reader read(common + 8);
    const unsigned version = read.byte();
    if (version != 1 && version != 3) return false;
    const unsigned char* augmentation = read.at();
    while (read.byte() != 0) {
    }
    code_unit_ = read.unsigned_number();
    data_unit_ = read.signed_number();
    if ((version == 1 ? read.byte() : read.unsigned_number()) != return_column) return false;
    unsigned pointers = 0;
    const bool augmented = *augmentation == 'z';
    if (augmented) {
      const std::uint64_t bytes = read.unsigned_number();
      const unsigned char* const after = read.at() + bytes;
      for (++augmentation; *augmentation != 0; ++augmentation) {
        switch (*augmentation) {
          case 'L': read.byte(); break;
          case 'R': pointers = read.byte(); break;
          case 'P': {
            const unsigned encoding = read.byte();
            read.pointer(encoding & 0x7fU);
            break;
          }
          case 'S': is_signal_frame_ = true; break;
          default: return false;
        }
      }
      common_program_ = after;
    } else if (*augmentation == 0) {
      common_program_ = read.at();
    } else {
      return false;
    }
    table_reader own(entry + 8);
    own.pointer(pointers);
    bytes_ = own.pointer(pointers & 0x0fU);
    program_ = own.at();
    if (augmented) {
      const std::uint64_t bytes = own.unsigned_number();
      program_ = own.at() + bytes;
    }
    return !read.failed() && !own.failed();
  }

  /// Reads an expression that is an offset from rbp. Returns false for any other.
  static bool beside_base(table_reader& read, bool and_load, std::int64_t& offset) noexcept {
    constexpr unsigned base_plus = 0x76, load = 0x06;
    const std::uint64_t length = read.unsigned_number();
    table_reader inner(read.at());
    read.skip(length);
    if (length < 2 || inner.byte() != base_plus) return false;
    offset = inner.signed_number();
    return (!and_load || inner.byte() == load) && inner.at() == read.at();
  }
  void save(row& now, std::uint64_t dwarf, saved_register how) noexcept {
    if (dwarf == return_column) now.returns = how.where == saved_register::in_frame && how.offset == -8;
    if (dwarf <= 1) now.for_handler = how.where != saved_register::kept;  // rax and rdx
    if (const unsigned r = named(dwarf); r < kept_registers::many) now.kept[r] = how;
  }
  void restore(row& now, std::uint64_t dwarf) noexcept {
    if (dwarf == return_column) now.returns = initial_.returns;
    if (const unsigned r = named(dwarf); r < kept_registers::many) now.kept[r] = initial_.kept[r];
  }
  static void define(row& now, std::uint64_t dwarf, std::int64_t offset) noexcept {
    now.base = named(dwarf);
    now.offset = offset;
    now.cfa_in_memory = false;
    now.cfa_known = now.base != no_register;
  }

  /// Executes a program of the table up to `at_`. Returns false if it contains something unknown.
  bool execute(const unsigned char* from, const unsigned char* to, row& now) noexcept {
    std::array<row, 8> remembered;
    std::size_t many = 0;
    std::uintptr_t at = found_.function;
    table_reader read(from);
    const auto in_frame = [&](std::int64_t units) {
      return saved_register{saved_register::in_frame, units * data_unit_};
    };
    while (read.at() < to && at <= at_) {
      const unsigned code = read.byte();
      const unsigned low = code & 0x3fU;
      switch (code >> 6U) {
        case 1: at += low * code_unit_; continue;
        case 2: save(now, low, in_frame(static_cast<std::int64_t>(read.unsigned_number()))); continue;
        case 3: restore(now, low); continue;
        default: break;
      }
      switch (code) {
        case 0x00: break;                                                                  // nop
        case 0x02: at += read.byte() * code_unit_; break;                                  // advance_loc1
        case 0x03: at += read.pointer(0x02) * code_unit_; break;                           // advance_loc2
        case 0x04: at += read.pointer(0x03) * code_unit_; break;                           // advance_loc4
        case 0x06: restore(now, read.unsigned_number()); break;                            // restore_extended
        case 0x07: save(now, read.unsigned_number(), {saved_register::elsewhere}); break;  // undefined
        case 0x08: save(now, read.unsigned_number(), {}); break;                           // same_value
        case 0x0a:                                                                         // remember_state
          if (many == remembered.size()) return false;
          remembered[many++] = now;
          break;
        case 0x0b:  // restore_state
          if (many == 0) return false;
          now = remembered[--many];
          break;
        case 0x05:    // offset_extended
        case 0x11: {  // offset_extended_sf
          const std::uint64_t r = read.unsigned_number();
          save(now, r,
               in_frame(code == 0x05 ? static_cast<std::int64_t>(read.unsigned_number()) : read.signed_number()));
          break;
        }
        case 0x0c:    // def_cfa
        case 0x12: {  // def_cfa_sf
          const std::uint64_t r = read.unsigned_number();
          define(now, r,
                 code == 0x0c ? static_cast<std::int64_t>(read.unsigned_number()) : read.signed_number() * data_unit_);
          break;
        }
        case 0x0d: define(now, read.unsigned_number(), now.offset); break;                 // def_cfa_register
        case 0x0e: now.offset = static_cast<std::int64_t>(read.unsigned_number()); break;  // def_cfa_offset
        case 0x13: now.offset = read.signed_number() * data_unit_; break;                  // def_cfa_offset_sf
        case 0x0f:                                                                         // def_cfa_expression
          now.cfa_known = now.cfa_in_memory = beside_base(read, true, now.offset);
          now.base = kept_registers::rbp;
          break;
        case 0x10: {  // expression
          const std::uint64_t r = read.unsigned_number();
          saved_register how{saved_register::beside_base};
          if (!beside_base(read, false, how.offset)) how.where = saved_register::elsewhere;
          save(now, r, how);
          break;
        }
        case 0x2e: read.unsigned_number(); break;  // GNU_args_size
        default: return false;
      }
      if (read.failed()) return false;
    }
    return true;
  }

  const unwind_entry found_;
  const std::uintptr_t at_;
  std::uintptr_t bytes_ = 0;
  bool readable_ = false, is_signal_frame_ = false, leads_to_handlers_ = false;
  const unsigned char *program_ = nullptr, *end_ = nullptr;
  const unsigned char *common_program_ = nullptr, *common_end_ = nullptr;
  std::uint64_t code_unit_ = 1;
  std::int64_t data_unit_ = 1;
  row initial_;
};

}  // namespace muster::inline MUSTER_ABI::detail
