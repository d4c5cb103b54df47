// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// utilities.hpp: std::min, std::max, std::addressof, std::to_address, std::construct_at, std::destroy_at,
// std::allocator_traits, std::mutex and std::lock_guard. They are in <algorithm>, <memory> and <mutex>, which have
// 22,000 lines more of algorithms, ranges and streams; libstdc++ keeps them apart.
#pragma once

#include <version>  // __GLIBCXX__

#if defined(__GLIBCXX__) && __has_include(<bits/stl_construct.h>) && __has_include(<bits/stl_algobase.h>) && \
    __has_include(<bits/alloc_traits.h>) && __has_include(<bits/ptr_traits.h>) && __has_include(<bits/std_mutex.h>)
#include <bits/alloc_traits.h>
#include <bits/ptr_traits.h>
#include <bits/std_mutex.h>
#include <bits/stl_algobase.h>
#include <bits/stl_construct.h>
#else
#include <algorithm>
#include <memory>
#include <mutex>
#endif
