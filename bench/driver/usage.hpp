// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// usage.hpp: CPU seconds and peak memory of this process.
#pragma once

#include <cstdint>

namespace muster::bench {

/// User and system time of all threads of this process so far.
double cpu_seconds();
/// The same of the processes that it has started and waited for.
double cpu_seconds_of_children();

/// Makes the next peak_memory() count from now, where the kernel allows it.
void reset_peak_memory();

/// Most bytes this process had resident since reset_peak_memory() (or since its start where that is refused).
std::uint64_t peak_memory();

}  // namespace muster::bench
