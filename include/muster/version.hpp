// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// version.hpp: which muster this is. The only place where the number is written: CMakeLists.txt reads it from here.
//
// Versions are semantic. While the first number is 0, a change of the second may break source and binary
// compatibility, and a change of the third breaks neither.
#pragma once

/// The first number of the version.
#define MUSTER_VERSION_MAJOR 0
/// The second number.
#define MUSTER_VERSION_MINOR 1
/// The third number.
#define MUSTER_VERSION_PATCH 0

/// One number to compare with: MUSTER_VERSION >= MUSTER_MAKE_VERSION(0, 2, 0).
#define MUSTER_MAKE_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
/// The version as one number.
#define MUSTER_VERSION MUSTER_MAKE_VERSION(MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH)

namespace muster {

/// A version, for code. Compare header_version with the version that a binary was built with to find a mixed
/// installation.
struct version {
  int major;  ///< MUSTER_VERSION_MAJOR
  int minor;  ///< MUSTER_VERSION_MINOR
  int patch;  ///< MUSTER_VERSION_PATCH
  friend constexpr bool operator==(const version&, const version&) = default;
};

/// The version of the headers that the program is compiled with.
inline constexpr version header_version{MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR, MUSTER_VERSION_PATCH};

}  // namespace muster
