// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// caught.hpp: keeps an exception for another thread, or for later.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <exception>  // std::exception_ptr, std::bad_exception

namespace muster::inline MUSTER_ABI::detail {

/// In a catch-all handler, returns the exception caught. For an exception of another language, which C++ cannot keep,
/// returns std::bad_exception.
inline std::exception_ptr caught() noexcept {
  std::exception_ptr now = std::current_exception();
  return now != nullptr ? now : std::make_exception_ptr(std::bad_exception());
}

}  // namespace muster::inline MUSTER_ABI::detail
