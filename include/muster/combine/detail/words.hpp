// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// words.hpp: values as words of eight bytes.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <array>        // words
#include <bit>          // std::bit_cast
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <cstring>      // std::memcpy
#include <memory>       // std::addressof
#include <type_traits>  // std::is_empty_v

namespace muster::inline MUSTER_ABI::detail {

/// A value whose bytes are at `words`.
template <class T>
T value_in(const std::uint64_t* words) noexcept {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), words, sizeof(T));
  return std::bit_cast<T>(bytes);
}

template <class T>
std::uint64_t as_word(const T& value) noexcept {
  std::uint64_t bits = 0;
  if constexpr (!std::is_empty_v<T>) std::memcpy(&bits, static_cast<const void*>(std::addressof(value)), sizeof(T));
  return bits;
}

/// The number of words of a result.
template <class T>
inline constexpr std::size_t words_of = (sizeof(T) + 7) / 8;
template <>
inline constexpr std::size_t words_of<void> = 0;

template <class T>
std::array<std::uint64_t, words_of<T>> as_words(const T& value) noexcept {
  std::array<std::uint64_t, words_of<T>> words{};
  if constexpr (!std::is_empty_v<T>)
    std::memcpy(words.data(), static_cast<const void*>(std::addressof(value)), sizeof(T));
  return words;
}

}  // namespace muster::inline MUSTER_ABI::detail
