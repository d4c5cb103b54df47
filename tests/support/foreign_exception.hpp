// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// foreign_exception.hpp: an exception of another language, which passes through C++ and cannot be kept there.
#pragma once

#include <unwind.h>

#include <atomic>
#include <cstring>
#include <exception>

namespace muster_test {

class foreign_exception {
 public:
  foreign_exception() {
    dropped() = 0;
    std::memcpy(&raised_.exception_class, "OTHERLNG", 8);
    raised_.exception_cleanup = [](_Unwind_Reason_Code, _Unwind_Exception*) { ++dropped(); };
  }
  void raise() { _Unwind_RaiseException(&raised_); }
  static std::atomic<int>& dropped() {
    static std::atomic<int> times{0};
    return times;
  }

 private:
  _Unwind_Exception raised_{};
};

/// Returns true if a foreign exception leaves f().
template <class F>
bool lets_foreign_pass(F f) {
  try {
    f();
  } catch (...) {
    return std::current_exception() == nullptr;
  }
  return false;
}
template <class F>
bool throws_bad_exception(F f) {
  try {
    f();
  } catch (const std::bad_exception&) {
    return true;
  }
  return false;
}

}  // namespace muster_test
