// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// slot_map.hpp: for a return address that has been replaced: what was replaced, found by where it lies.
//
// The true return address must be found by the stack pointer alone, by whoever unwinds the stack: the C++ runtime, a
// debugger, a profiler. So it is looked up in a table of the address space: two loads, which unwind information can
// express. It is filled where return addresses are replaced, and only there.
//
// Memory     16 MiB of addresses, and for each 64 MiB of stacks 32 MiB; memory is used for 4 KiB per 8 KiB of stack in
//            which a return address has been replaced. Kept until the process ends.
// Threads    each writes the entries of its own stack.
// Signals    may be used in signal handlers.
#pragma once

#include <muster/base/library.hpp>                         // keep_library_of
#include <muster/base/sync.hpp>                            // sync::atomic
#include <muster/fork/engine/barrier/replaced_return.hpp>  // replaced_return

#include <sys/mman.h>  // mmap

#include <cstddef>  // std::size_t
#include <cstdint>  // std::uintptr_t

/// A function of nothing but assembly, of which the compiler must not conclude which registers it leaves alone.
#if defined(__clang__)
#define MUSTER_NAKED gnu::naked, gnu::no_stack_protector, gnu::no_instrument_function, gnu::noinline
#else
#define MUSTER_NAKED gnu::naked, gnu::no_stack_protector, gnu::no_instrument_function, gnu::noipa
#endif

/// Compilers conclude that a function of nothing but assembly throws nothing, and that callers need not reckon with it,
/// unless they are told: the first where it begins, the second among what it clobbers.
#if defined(__clang__)
#define MUSTER_SEEMS_TO_CALL
#define MUSTER_MAY_THROW : "unwind"
#else
#define MUSTER_SEEMS_TO_CALL \
  if (false) ::muster::detail::may_throw();
#define MUSTER_MAY_THROW
#endif

/// The name of slot_table in assembly.
#define MUSTER_SLOT_TABLE "muster_v0_slot_table"

namespace muster::inline MUSTER_ABI::detail {

void may_throw();

/// Where the table begins. Hidden, so that the barrier can read it relative to itself. So is all that uses it: each
/// shared library has its own, for its own barrier.
[[gnu::visibility("hidden"), gnu::used]] inline constinit sync::atomic<void*> slot_table asm(MUSTER_SLOT_TABLE){
    nullptr};

class [[gnu::visibility("hidden")]] slot_map {
 public:
  static constexpr unsigned address_bits = 47, chunk_bits = 26;

  /// Makes the table, if it is not there; its library stays, as frames of others may return to its barrier. Returns
  /// false when the system has no room for it.
  static bool make() noexcept {
    if (chunks() != nullptr) [[likely]]
      return true;
    constexpr std::size_t bytes = (std::size_t{1} << (address_bits - chunk_bits)) * sizeof(entry);
    void* const made = reserve(bytes);
    void* known = nullptr;
    // (3) release: pairs with (4).
    if (made == nullptr) return false;
    if (slot_table.compare_exchange_strong(known, made, std::memory_order_release)) keep_library_of(&slot_table);
    else ::munmap(made, bytes);
    return chunks() != nullptr;
  }

  /// Makes `frame` be found for the return address at `slot`, which is eight bytes below a multiple of 16, as the
  /// convention has it. Returns false when there is no memory.
  static bool set(std::uintptr_t slot, replaced_return* frame) noexcept {
    const std::uintptr_t above = slot + sizeof(void*);
    if (above % 16 != 0 || above >> address_bits != 0 || chunks() == nullptr) return false;
    // (1) acquire: pairs with (2).
    sync::atomic<entry*>& chunk = chunks()[above >> chunk_bits];
    entry* at = chunk.load(std::memory_order_acquire);
    if (at == nullptr) {
      at = static_cast<entry*>(reserve(chunk_bytes));
      if (at == nullptr) return false;
      entry* known = nullptr;
      // (2) acq_rel, or acquire when another was faster: pairs with (1).
      if (!chunk.compare_exchange_strong(known, at, std::memory_order_acq_rel, std::memory_order_acquire)) {
        ::munmap(static_cast<void*>(at), chunk_bytes);
        at = known;
      }
    }
    at[(above & chunk_mask) / 16] = frame;
    return true;
  }

  /// What has been set for the return address that lay below `above`.
  static replaced_return& find(std::uintptr_t above) noexcept {
    return *chunks()[above >> chunk_bits].load(std::memory_order_relaxed)[(above & chunk_mask) / 16];
  }

 private:
  using entry = replaced_return*;
  static constexpr std::uintptr_t chunk_mask = (std::uintptr_t{1} << chunk_bits) - 1;
  static constexpr std::size_t chunk_bytes = (std::size_t{1} << chunk_bits) / 16 * sizeof(entry);

  static void* reserve(std::size_t bytes) noexcept {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : at;
  }
  static sync::atomic<entry*>* chunks() noexcept {
    // (4) acquire: pairs with (3).
    return static_cast<sync::atomic<entry*>*>(slot_table.load(std::memory_order_acquire));
  }
};

}  // namespace muster::inline MUSTER_ABI::detail
