// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap.hpp: what a checked program does with operator new and delete. While an execution runs, its blocks are tracked:
// a block freed twice, and at the end a block that nobody freed, is a failure. Freed blocks are filled with a pattern
// and not used again before the end of the execution, so that an atomic in one is noticed when it is used.
#pragma once

#include <string>

namespace muster_model::heap {

void begin();
/// Ends the tracking and gives back what is left. Returns the failure: leaks only when `complete`, that is, when every
/// thread of the execution has returned.
std::string end(bool complete);

/// Blocks of the checker's own, allocated in the middle of a program.
class untracked {
 public:
  untracked() noexcept;
  ~untracked();
  untracked(const untracked&) = delete;
  untracked& operator=(const untracked&) = delete;

 private:
  bool before_;
};

}  // namespace muster_model::heap
