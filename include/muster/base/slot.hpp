// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// slot.hpp: storage for one T that may not exist yet. The owner tracks whether it does; the slot does not.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <memory>   // std::addressof, std::construct_at
#include <utility>  // std::forward

namespace muster::inline MUSTER_ABI {

template <class T>
union slot {
  slot() noexcept {}
  ~slot() {}
  slot(const slot&) = delete;
  slot& operator=(const slot&) = delete;

  template <class... Args>
  void construct(Args&&... args) {
    std::construct_at(std::addressof(value), std::forward<Args>(args)...);
  }
  void destroy() noexcept { std::destroy_at(std::addressof(value)); }

  T value;
};

}  // namespace muster::inline MUSTER_ABI
