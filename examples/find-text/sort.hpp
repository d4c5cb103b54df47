// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sort.hpp: the order of sort in the locale "C": by the bytes, each taken as a number from 0 to 255. A line that is the
// beginning of another comes first. Lines that compare equal are equal, so there is only one right result.
#pragma once

#include <muster/fork.hpp>

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

namespace find_text {

using lines = std::vector<std::string_view>;

inline void sort_serially(lines& all) { std::sort(all.begin(), all.end()); }

// [sort]
inline void sort_in_parallel(lines& all) { muster::parallel_sort(all.begin(), all.end(), std::less<>()); }
// [/sort]

}  // namespace find_text
