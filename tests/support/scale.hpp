// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// scale.hpp: how much work a test does. The only place in the tests that asks which sanitizer is compiled in.
#pragma once

#include <algorithm>
#include <cstddef>

// g++ defines the two macros; clang answers __has_feature instead.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define MUSTER_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define MUSTER_TEST_SANITIZED 1
#endif
#endif
#ifndef MUSTER_TEST_SANITIZED
#define MUSTER_TEST_SANITIZED 0
#endif
#if defined(__SANITIZE_THREAD__)
#define MUSTER_TEST_THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MUSTER_TEST_THREAD_SANITIZED 1
#endif
#endif
#ifndef MUSTER_TEST_THREAD_SANITIZED
#define MUSTER_TEST_THREAD_SANITIZED 0
#endif

namespace muster_test {

/// True when the program is slowed down by a sanitizer.
inline constexpr bool sanitized = MUSTER_TEST_SANITIZED != 0;
/// By that of threads, which keeps no more than 65,536 calls.
inline constexpr bool thread_sanitized = MUSTER_TEST_THREAD_SANITIZED != 0;

/// A count chosen for the plain release build, made ten times smaller under a sanitizer, but never zero.
constexpr std::size_t scaled(std::size_t n) { return sanitized ? std::max<std::size_t>(n / 10, 1) : n; }

/// The types of a typed test: all of them. Where they are compiled once more, under a sanitizer or with delays, only a
/// few, unless MUSTER_TEST_MATRIX asks for all; and a few where MUSTER_TEST_FEW is defined.
#if (MUSTER_TEST_SANITIZED || defined(MUSTER_CHAOS) || defined(MUSTER_TEST_FEW)) && !defined(MUSTER_TEST_MATRIX)
template <class All, class Few>
using kinds_to_test = Few;
#else
template <class All, class Few>
using kinds_to_test = All;
#endif

}  // namespace muster_test

#undef MUSTER_TEST_SANITIZED
#undef MUSTER_TEST_THREAD_SANITIZED
