// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// manual_lifetime.hpp: storage for one T that may not exist yet. The owner tracks whether it does; the manual_lifetime
// does not.
#pragma once

#include <muster/base/config.hpp>            // MUSTER_ABI
#include <muster/base/detail/utilities.hpp>  // std::addressof, std::construct_at

#include <utility>  // std::forward

namespace muster::inline MUSTER_ABI {

template <class T>
union manual_lifetime {
  manual_lifetime() noexcept {}
  ~manual_lifetime() {}
  manual_lifetime(const manual_lifetime&) = delete;
  manual_lifetime& operator=(const manual_lifetime&) = delete;

  template <class... Args>
  void construct(Args&&... args) {
    std::construct_at(std::addressof(value), std::forward<Args>(args)...);
  }
  void destroy() noexcept { std::destroy_at(std::addressof(value)); }

  T value;
};

}  // namespace muster::inline MUSTER_ABI
