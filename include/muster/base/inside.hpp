// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// inside.hpp: notices an operation that applies another to the object that is executing it, which would wait for itself
// for ever.
//
// Each thread and each fiber has the chain of objects whose operations it is executing, usually none; it lives on the
// stack.
#pragma once

#include <muster/base/sync.hpp>  // sync::innermost

#include <stdexcept>  // std::logic_error

namespace muster::inline MUSTER_ABI::detail {

class inside {
 public:
  explicit inside(const void* object) noexcept : object_(object), outer_(sync::innermost()) {
    sync::innermost() = this;
  }
  ~inside() { sync::innermost() = outer_; }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;

  /// Throws std::logic_error when the caller is in the middle of an operation of `object`.
  MUSTER_HOT static void refuse(const void* object) {
    if (sync::innermost() != nullptr) [[unlikely]]
      refuse_known(object);
  }

 private:
  MUSTER_COLD static void refuse_known(const void* object) {
    for (const void* at = sync::innermost(); at != nullptr; at = static_cast<const inside*>(at)->outer_)
      if (static_cast<const inside*>(at)->object_ == object)
        throw std::logic_error(
            "apply: called from within an operation of the same object, which would wait for itself; use the State& "
            "that the operation has been given");
  }

  const void* const object_;
  const void* const outer_;
};

}  // namespace muster::inline MUSTER_ABI::detail
