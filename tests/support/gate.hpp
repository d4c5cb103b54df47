// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// gate.hpp: keeps threads busy until the test lets them continue.
#pragma once

#include <atomic>

namespace muster_test {

class gate {
 public:
  void open() {
    open_ = true;
    open_.notify_all();
  }
  /// Waits until it is open. The gate must exist until this has returned.
  void pass() {
    ++arrived_;
    arrived_.notify_all();
    open_.wait(false);
  }
  /// Waits until so many threads have called pass().
  void await_arrivals(unsigned many) {
    for (unsigned now = arrived_; now < many; now = arrived_) arrived_.wait(now);
  }

 private:
  std::atomic<bool> open_{false};
  std::atomic<unsigned> arrived_{0};
};

}  // namespace muster_test
