// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// client_data.hpp: memory that a sandbox's inside can write at any time. The outside passes it to the kernel, or copies
// it once.
//
// Order      none: each byte of a copy has its value at some time during the copy.
// Progress   wait-free; a copy takes as many steps as it has bytes.
// Hostile    The broker cannot check a byte here and read it again later. Only the decoder can copy, into a string of
//            its own; all other code gets an untyped address, for the arguments of system calls.
// Source     ours. Many kernels suffer from double fetches: Wang, Krinke, Lu, Li, Dodier-Lazaro, "How Double-Fetch
//            Situations Turn into Double-Fetch Vulnerabilities", USENIX Security 2017.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI
#include <muster/base/sync.hpp>    // sync::atomic

#include <cstddef>  // std::byte
#include <cstdint>  // std::uint64_t
#include <cstring>  // std::memcpy
#include <string>   // copies

namespace muster::inline MUSTER_ABI::detail {

/// A part of the arena.
struct window {
  std::uint64_t at = 0;
  std::uint64_t size = 0;
};

/// Address and size come from the outside's own knowledge, never from the client.
class client_data {
 public:
  client_data(std::byte* start, std::uint64_t size) noexcept : start_(start), size_(size) {}

  std::uint64_t size() const noexcept { return size_; }
  bool has(const window& w) const noexcept { return w.size <= size_ && w.at <= size_ - w.size; }
  /// For the arguments of a system call. Requires has(w).
  void* for_kernel(const window& w) const noexcept { return start_ + w.at; }
  /// Writes a whole window, and reads nothing of it.
  void put(const window& w, const void* from) const noexcept { std::memcpy(start_ + w.at, from, w.size); }

 private:
  friend class decoder;

  /// Reads each byte once.
  std::string copied(const window& w) const {
    std::string copy(w.size, '\0');
    auto* const bytes = reinterpret_cast<const sync::atomic<unsigned char>*>(start_ + w.at);
    for (std::uint64_t i = 0; i < w.size; ++i) copy[i] = static_cast<char>(bytes[i].load(std::memory_order_relaxed));
    return copy;
  }

  std::byte* start_;
  std::uint64_t size_;
};

}  // namespace muster::inline MUSTER_ABI::detail
