// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// scope_exit.hpp: an action at the end of a scope, however it ends.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <utility>  // std::move

namespace muster::inline MUSTER_ABI::detail {

/// Runs an action at the end of a scope, even if an exception leaves it.
template <class Action>
class scope_exit {
 public:
  explicit scope_exit(Action action) noexcept : action_(std::move(action)) {}
  scope_exit(const scope_exit&) = delete;
  scope_exit& operator=(const scope_exit&) = delete;
  ~scope_exit() { action_(); }

 private:
  Action action_;
};

}  // namespace muster::inline MUSTER_ABI::detail
