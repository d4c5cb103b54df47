// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// no_fibers.hpp: the carrier of a system on which there are no fibers: every thread is alone.
#pragma once

#include <muster/base/config.hpp>             // MUSTER_ABI
#include <muster/base/detail/reentrancy.hpp>  // reentrancy_scope

#include <cstdint>  // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

/// A wait for a combining object (combine/detail/fiber_wait.hpp). No other fiber asks for it.
struct object_wait {
  const void* object;
  bool (*is_over)(object_wait&) noexcept;
};

class carrier {
 public:
  static carrier own() noexcept { return {}; }

  static constexpr bool has_siblings() noexcept { return false; }
  static constexpr std::uint64_t current_number() noexcept { return 0; }
  static constexpr void yield() noexcept {}
  static constexpr void add(object_wait&) noexcept {}
  static constexpr void remove(object_wait&) noexcept {}

  static constexpr const char* joined_by_its_operation =
      "combine: a thread waits for an operation that it executes itself; this is a mistake in muster";
  /// Returns true if the caller is inside an operation of the object.
  static bool closes_ring(const void* object) noexcept { return reentrancy_scope::is_in(object); }
};

}  // namespace muster::inline MUSTER_ABI::detail
