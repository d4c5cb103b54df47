// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sha1.hpp: SHA-1 (FIPS 180-4) of messages of a few words: the random numbers of the unbalanced tree search. The
// numbers of a child depend on its parent's and on its place, so the tree does not depend on the order of visits.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace muster::bench {

using sha1_digest = std::array<std::uint32_t, 5>;

/// The SHA-1 of a message of at most 13 words.
template <std::size_t Words>
[[gnu::noinline]] inline sha1_digest sha1(const std::array<std::uint32_t, Words>& message) {
  static_assert(Words <= 13, "the message, its end mark and its length fill one block");
  std::array<std::uint32_t, 16> w{};
  for (std::size_t i = 0; i < Words; ++i) w[i] = message[i];
  w[Words] = 0x80000000U;
  w[15] = Words * 32;
  const sha1_digest start{0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U, 0xc3d2e1f0U};
  auto [a, b, c, d, e] = start;
  const auto round = [&](std::size_t t, std::uint32_t mixed, std::uint32_t constant) {
    const std::size_t at = t % 16;
    if (t >= 16) w[at] = std::rotl(w[(t + 13) % 16] ^ w[(t + 8) % 16] ^ w[(t + 2) % 16] ^ w[at], 1);
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + constant + w[at];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  };
  std::size_t t = 0;
  for (; t < 20; ++t) round(t, (b & c) | (~b & d), 0x5a827999U);
  for (; t < 40; ++t) round(t, b ^ c ^ d, 0x6ed9eba1U);
  for (; t < 60; ++t) round(t, (b & c) | (b & d) | (c & d), 0x8f1bbcdcU);
  for (; t < 80; ++t) round(t, b ^ c ^ d, 0xca62c1d6U);
  return {start[0] + a, start[1] + b, start[2] + c, start[3] + d, start[4] + e};
}

}  // namespace muster::bench
