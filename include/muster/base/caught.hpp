// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// caught.hpp: an exception that is kept for another thread, or for later.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <exception>  // std::exception_ptr, std::bad_exception

namespace muster::inline MUSTER_ABI::detail {

/// In a handler that catches everything: what it has caught. It may be nothing that C++ can keep, from a function in
/// another language; std::bad_exception stands for that.
inline std::exception_ptr caught() noexcept {
  std::exception_ptr now = std::current_exception();
  return now != nullptr ? now : std::make_exception_ptr(std::bad_exception());
}

}  // namespace muster::inline MUSTER_ABI::detail
