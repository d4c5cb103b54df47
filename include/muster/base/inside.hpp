// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// inside.hpp: which objects' operations a thread or a fiber is executing. An operation that applies another to one of
// them would wait for itself for ever.
//
// Each thread and each fiber has the chain of these objects, usually none; it lives on the stack. The chain of a fiber
// that is joined by one that executes an operation goes on with the joiner's: the operation waits for the fiber.
#pragma once

#include <muster/base/sync.hpp>  // sync::innermost

namespace muster::inline MUSTER_ABI::detail {

class inside {
 public:
  explicit inside(const void* object) noexcept : object_(object), outer_(sync::innermost()) {
    sync::innermost() = this;
  }
  ~inside() { sync::innermost() = outer_; }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;

  /// Whether a chain that begins at `innermost` has the object.
  static bool has(const void* innermost, const void* object) noexcept {
    for (const inside* at = from(innermost); at != nullptr; at = from(at->outer_))
      if (at->object_ == object) return true;
    return false;
  }
  /// Whether the caller is in the middle of an operation of the object.
  static bool is_in(const void* object) noexcept { return has(sync::innermost(), object); }
  /// The chain that begins at `innermost` goes on with `outer`.
  static void append(const void*& innermost, const void* outer) noexcept {
    const void** end = &innermost;
    while (*end != nullptr && *end != outer) end = &from(*end)->outer_;
    *end = outer;
  }

 private:
  static const inside* from(const void* place) noexcept { return static_cast<const inside*>(place); }

  const void* const object_;
  mutable const void* outer_;
};

}  // namespace muster::inline MUSTER_ABI::detail
