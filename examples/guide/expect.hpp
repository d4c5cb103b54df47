// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// expect.hpp: how the programs of the guide check themselves.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

/// Ends the program with exit status 1, and says where, unless `condition` is true. Works in every build type, and on
/// every thread: other threads may be waiting in a queue, so nothing is joined or destroyed.
inline void expect(bool condition, std::source_location where = std::source_location::current()) {
  if (condition) return;
  std::fprintf(stderr, "%s:%u: what the guide says here is not true\n", where.file_name(),
               static_cast<unsigned>(where.line()));
  std::_Exit(1);
}
