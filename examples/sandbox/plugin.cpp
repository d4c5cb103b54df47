// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// plugin.cpp: an ordinary plug-in: a shared library with one function. It is not linked to the program that uses it,
// and knows nothing of sandboxes.

#include <cstdint>
#include <vector>

/// A digest of what came before and of `n`.
extern "C" std::uint64_t muster_plugin_mix(std::uint64_t before, std::uint64_t n) {
  static const std::vector<std::uint64_t> odd{0x9e3779b97f4a7c15U, 0xbf58476d1ce4e5b9U, 0x94d049bb133111ebU};
  std::uint64_t mixed = before ^ (n + odd[n % odd.size()]);
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  return mixed ^ (mixed >> 27U);
}
