// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// text.hpp: finds the lines of a text that contain a pattern, while several threads search a piece each.
//
// Pieces are cut anywhere, even in the middle of a line or of a match. The result of a piece describes its two ends, so
// the results of neighbours can be added up. No thread looks for line ends before the work is divided, and a line that
// is longer than memory works as well as many short ones.
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

  /// The matches in `a` and in `b`, which follows it: a line that was cut between the two counts once. The sum is
  /// associative, as parallel_reduce requires, and not commutative, which parallel_reduce does not require.
  friend matches operator+(const matches& a, const matches& b) {
    return {.lines = a.lines + b.lines - (a.last && b.first ? 1 : 0),
            .first = a.first || (a.single && b.first),
            .last = b.last || (b.single && a.last),
            .single = a.single && b.single};
  }
  friend bool operator==(const matches&, const matches&) = default;
};
// [/matches]

/// The matches that begin in the first `size` bytes of `text`. Unless the file ends, `text` must extend beyond them by
/// the length of the pattern less one byte, for matches that begin here and end there. The pattern must not be empty or
/// contain a line end, so a match lies in one line.
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
