// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// reentrancy.hpp: the objects whose operations a thread or fiber is executing. A nested operation on one of them would
// wait for itself forever.
//
// Each thread and each fiber has a chain of these objects, usually empty, on the stack. If a fiber inside an operation
// joins another fiber, the joiner's chain is appended to that fiber's, because the operation waits for it.
#pragma once

#include <muster/base/sync.hpp>  // sync::innermost

namespace muster::inline MUSTER_ABI::detail {

class reentrancy_scope {
 public:
  explicit reentrancy_scope(const void* object) noexcept : object_(object), outer_(sync::innermost()) {
    sync::innermost() = this;
  }
  ~reentrancy_scope() { sync::innermost() = outer_; }
  reentrancy_scope(const reentrancy_scope&) = delete;
  reentrancy_scope& operator=(const reentrancy_scope&) = delete;

  /// Returns true if the chain that begins at `innermost` contains the object.
  static bool has(const void* innermost, const void* object) noexcept {
    for (const reentrancy_scope* at = from(innermost); at != nullptr; at = from(at->outer_))
      if (at->object_ == object) return true;
    return false;
  }
  /// Returns true if the caller is inside an operation of the object.
  static bool is_in(const void* object) noexcept { return has(sync::innermost(), object); }
  /// Appends `outer` to the chain that begins at `innermost`.
  static void append(const void*& innermost, const void* outer) noexcept {
    const void** end = &innermost;
    while (*end != nullptr && *end != outer) end = &from(*end)->outer_;
    *end = outer;
  }

 private:
  static const reentrancy_scope* from(const void* place) noexcept {
    return static_cast<const reentrancy_scope*>(place);
  }

  const void* const object_;
  mutable const void* outer_;
};

}  // namespace muster::inline MUSTER_ABI::detail
