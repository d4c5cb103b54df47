// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// message_of.hpp: the message of the exception that a function throws.
#pragma once

#include <exception>
#include <string>

namespace muster_test {

/// Returns "nothing" if it throws none.
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace muster_test
