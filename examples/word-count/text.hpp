// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// text.hpp: defines words, and splits a text into them.
//
// A word is a maximal run of the bytes A-Z, a-z, 0-9 and _. Upper and lower case are the same word. Every other
// byte separates words; so binary files and every text encoding can be read, and none is decoded.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace word_count {

/// For each byte: the byte in lower case when it belongs to a word, 0 when it separates words.
inline constexpr std::array<char, 256> folded = [] {
  std::array<char, 256> table{};
  for (char c = '0'; c <= '9'; ++c) table[static_cast<unsigned char>(c)] = c;
  for (char c = 'a'; c <= 'z'; ++c) {
    table[static_cast<unsigned char>(c)] = c;
    table[static_cast<unsigned char>(c - 'a' + 'A')] = c;
  }
  table[static_cast<unsigned char>('_')] = '_';
  return table;
}();

inline char fold(char byte) { return folded[static_cast<unsigned char>(byte)]; }

/// Calls `use(std::string_view)` for each word of `text`, in order, in lower case. It folds the words in place, so
/// nothing is copied; the caller must own the text. A view lives as long as the text does.
template <class Use>
void for_each_word(std::span<char> text, Use&& use) {
  char* at = text.data();
  char* const end = at + text.size();
  while (true) {
    while (at != end && fold(*at) == 0) ++at;
    if (at == end) return;
    char* const word = at;
    for (char c = 0; at != end && (c = fold(*at)) != 0; ++at) *at = c;
    use(std::string_view(word, static_cast<std::size_t>(at - word)));
  }
}

/// The number of bytes of `text` that can be cut off without splitting a word that may continue behind it: all up to
/// and including the last separator; 0 if there is none.
inline std::size_t cut_length(std::string_view text) {
  std::size_t length = text.size();
  while (length != 0 && fold(text[length - 1]) != 0) --length;
  return length;
}

}  // namespace word_count
