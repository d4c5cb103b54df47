// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap.hpp: operator new and delete of a checked program. Blocks are tracked while an execution runs: a block freed
// twice, or not freed at the end, is a failure. Freed blocks are filled with a pattern and not reused before the end of
// the execution, so the use of an atomic in one is noticed.
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
