// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// text.hpp: which lines of a text contain a pattern, when several threads look at a piece each.
//
// Pieces are cut anywhere, in the middle of a line or of a match. What is found in a piece says enough about its two
// ends for neighbours to be added up, so nobody looks for line ends before the work is dealt out, and one line that is
// longer than memory is as good as many short ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace find_text {

// [matches]
/// How many lines of a piece of text contain the pattern. A line that is cut by the end of the piece counts as a line.
struct matches {
  std::uint64_t lines = 0;
  bool first = false;  // the first line is one of them
  bool last = false;   // the last line is one of them
  bool single = true;  // there is no line end, so the first line is the last

  /// What is in `a` and in `b`, which comes behind it: a line that was cut between the two counts once. The sum is
  /// associative, as parallel_reduce needs it, and not commutative, which parallel_reduce does not need.
  friend matches operator+(const matches& a, const matches& b) {
    return {.lines = a.lines + b.lines - (a.last && b.first ? 1 : 0),
            .first = a.first || (a.single && b.first),
            .last = b.last || (b.single && a.last),
            .single = a.single && b.single};
  }
  friend bool operator==(const matches&, const matches&) = default;
};
// [/matches]

/// The matches that begin in the first `size` bytes of `text`. The text has to go on behind them, so far as the file
/// does, by one byte less than the pattern: a match may begin here and end there. The pattern is not empty and contains
/// no line end, so that a match lies in one line.
inline matches find_matches(std::string_view text, std::size_t size, std::string_view pattern) {
  const std::string_view piece = text.substr(0, size);
  const std::size_t first_end = piece.find('\n');
  const std::size_t last_end = piece.rfind('\n');
  matches found;
  found.single = first_end == piece.npos;
  for (std::size_t at = text.find(pattern); at < piece.size(); at = text.find(pattern, at)) {
    ++found.lines;
    if (at < first_end) found.first = true;
    if (found.single || at > last_end) found.last = true;
    at = piece.find('\n', at);
    if (at == piece.npos) break;
  }
  return found;
}

/// The lines of a text, without their ends. The last one need not have an end.
inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace find_text
