// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_object.hpp: prevents the shared library that contains some code from being unloaded, because threads that
// never end execute it, or the system calls it.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <dlfcn.h>     // dlopen
#include <link.h>      // ElfW
#include <sys/auxv.h>  // getauxval

#include <atomic>   // pin_once
#include <bit>      // std::bit_cast
#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI {

namespace detail {

// Weak, so that statically linked programs do not pull in the loader.
[[gnu::weak, gnu::visibility("default")]] int find_library(const void* code, Dl_info* found) noexcept asm("dladdr");
[[gnu::weak, gnu::visibility("default")]] void* open_library(const char* path, int how) noexcept asm("dlopen");

/// Returns true if the code belongs to the program itself; false if that is unknown.
inline bool is_of_program(const void* code) noexcept {
  const auto* const headers = std::bit_cast<const ElfW(Phdr)*>(::getauxval(AT_PHDR));
  if (headers == nullptr) return false;
  const ElfW(Phdr)* const end = headers + ::getauxval(AT_PHNUM);
  const ElfW(Phdr)* own = headers;  // the entry for the headers themselves
  while (own != end && own->p_type != PT_PHDR) ++own;
  // A static program may have no such entry; it lies at the addresses of its file.
  const auto moved = own == end ? 0 : reinterpret_cast<std::uintptr_t>(headers) - own->p_vaddr;
  const auto offset = reinterpret_cast<std::uintptr_t>(code) - moved;
  for (const ElfW(Phdr)* h = headers; h != end; ++h) {
    if (h->p_type == PT_LOAD && offset - h->p_vaddr < h->p_memsz) return true;
  }
  return false;
}

}  // namespace detail

inline void pin_shared_object(const void* code) noexcept {
  Dl_info found;
  if (detail::is_of_program(code)) return;  // which is never unloaded; dladdr would search all libraries
  if (&detail::find_library == nullptr || &detail::open_library == nullptr) return;
  if (detail::find_library(code, &found) == 0 || found.dli_fname == nullptr) return;
  detail::open_library(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/// The same for a function, but cheap from the second call for the type Once on, all code of which is in one library.
/// Not by a static object, which in a child of fork(2) could be in the making by a thread that the child does not have.
template <class Once, class Function>
void pin_once(Function* code) noexcept {
  static constinit std::atomic<bool> done{false};
  // Relaxed: nothing else depends on it, and two threads may both do it.
  if (done.load(std::memory_order_relaxed)) [[likely]]
    return;
  pin_shared_object(reinterpret_cast<const void*>(code));
  done.store(true, std::memory_order_relaxed);
}

}  // namespace muster::inline MUSTER_ABI
