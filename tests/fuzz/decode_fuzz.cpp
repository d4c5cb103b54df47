// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as an arena that begins with requests. Each request is decoded to a call within its bounds, or refused; so
// is each with one word replaced by a value at a bound, which a fuzzer rarely guesses. The arena ends with the input,
// so the address sanitizer reports any access beyond it.
#include "broken.hpp"
#include "decoded_bounds.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

using muster::detail::client_data;
using muster::detail::decoded_call;
using muster::detail::decoder;
using muster::detail::raw_request;
using muster::detail::sandbox_call;
using muster_test::require;

constexpr std::uint32_t slots = 8;
constexpr std::size_t most_requests = 16;

/// Says at the end how many requests have been decoded.
struct count {
  std::uint64_t requests = 0;
  ~count() { std::fprintf(stderr, "requests decoded: %llu\n", static_cast<unsigned long long>(requests)); }
} decoded;

void decode_one(const decoder& decode, const client_data& arena, const unsigned char* start, const raw_request& words) {
  ++decoded.requests;
  const decoded_call one = decode(words);
  const char* const broken = muster_test::out_of_bounds(one, arena, slots);
  require(broken == nullptr, broken != nullptr ? broken : "");
  if (one.error != 0) return;
  // A path is the text in the arena at the place and with the size of two words of its request.
  const auto require_path = [&](const std::string& path, std::uint64_t at, std::uint64_t size) {
    require(path.size() == size && std::memcmp(path.data(), start + at, size) == 0, "a path is another");
  };
  if (!one.path.empty()) require_path(one.path, words[1], words[2]);
  if (one.what == sandbox_call::rename) require_path(one.other_path, words[3], words[4]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const client_data arena(reinterpret_cast<std::byte*>(const_cast<unsigned char*>(data)), size);  // nothing writes it
  const decoder decode(arena, slots);
  constexpr std::uint64_t one = 1, most = ~std::uint64_t{0};
  const std::array<std::uint64_t, 14> bounds{0,          1,
                                             size - 1,   size,
                                             size + 1,   size - decoder::bytes_of_stat,
                                             65535,      65536,
                                             one << 31U, (one << 32U) - 1,
                                             one << 32U, (one << 63U) - 1,
                                             one << 63U, most};
  const std::size_t requests = std::min(size / sizeof(raw_request), most_requests);
  for (std::size_t i = 0; i < requests; ++i) {
    raw_request words;
    std::memcpy(words.data(), data + i * sizeof words, sizeof words);
    decode_one(decode, arena, data, words);
    for (std::size_t w = 1; w < words.size(); ++w) {
      raw_request other = words;
      for (const std::uint64_t bound : bounds) {
        other[w] = bound;
        decode_one(decode, arena, data, other);
      }
    }
  }
  return 0;
}
