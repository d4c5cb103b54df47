// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// time.hpp: std::chrono's durations and clocks. <chrono> has calendars and streams as well since C++20, which take four
// times as long to compile as the rest; libstdc++ keeps them apart. A program that uses more than we do includes
// <chrono> itself.
#pragma once

#include <version>  // __GLIBCXX__

#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>
#else
#include <chrono>
#endif
