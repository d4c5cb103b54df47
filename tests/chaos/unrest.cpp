// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// unrest.cpp: linked to a stress test that is compiled with MUSTER_CHAOS: delays and yields between any two operations.
#include <muster/base/sync.hpp>

namespace {

const bool set = [] {
  muster_chaos::settings() = {.delay_one_in = 97, .yield_one_in = 31};
  return true;
}();

}  // namespace
