// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// broken.hpp: how a target of the fuzzer says that a promise is broken.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace muster_test {

/// The fuzzer keeps the input that has led here.
inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "a promise is broken: %s\n", what.c_str());
  std::abort();
}

}  // namespace muster_test
