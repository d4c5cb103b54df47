// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// finally.hpp: an action at the end of a scope, however it ends.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <utility>  // std::move

namespace muster::inline MUSTER_ABI::detail {

/// Runs an action at the end of a scope, even if an exception leaves it.
template <class Action>
class finally {
 public:
  explicit finally(Action action) noexcept : action_(std::move(action)) {}
  finally(const finally&) = delete;
  finally& operator=(const finally&) = delete;
  ~finally() { action_(); }

 private:
  Action action_;
};

}  // namespace muster::inline MUSTER_ABI::detail
