// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// replaced_return.hpp: what a replaced return address was, and what is called instead.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <cstdint>  // std::uintptr_t

namespace muster::inline MUSTER_ABI::detail {

/// The barrier's code knows where its parts lie.
struct replaced_return {
  std::uintptr_t before_return;  // one less: what unwinders look for above a frame that they take for a signal's
  std::uintptr_t return_address;
  void (*body)();                             // barrier_body
  void* (*came)(replaced_return&) noexcept;   // which it calls: what was waited for has returned
  void (*passed)(replaced_return&) noexcept;  // an exception is on its way to the frame that waits
};

}  // namespace muster::inline MUSTER_ABI::detail
