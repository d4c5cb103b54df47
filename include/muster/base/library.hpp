// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// library.hpp: keeps the shared library that some code is in from being unloaded: threads that never end execute it, or
// the system calls it.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <dlfcn.h>  // dlopen

namespace muster::inline MUSTER_ABI {

namespace detail {

// Programs that are linked statically need no loader, and are not to be given one.
[[gnu::weak, gnu::visibility("default")]] int find_library(const void* code, Dl_info* found) noexcept asm("dladdr");
[[gnu::weak, gnu::visibility("default")]] void* open_library(const char* path, int how) noexcept asm("dlopen");

}  // namespace detail

inline void keep_library_of(const void* code) noexcept {
  Dl_info found;
  if (&detail::find_library == nullptr || &detail::open_library == nullptr) return;
  if (detail::find_library(code, &found) == 0 || found.dli_fname == nullptr) return;
  detail::open_library(found.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace muster::inline MUSTER_ABI
