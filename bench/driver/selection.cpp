// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/contender.hpp"

#include "table/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace muster::bench {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

void catalogue::add(const char* family, const char* role, std::vector<contender> rows) {
  for (contender& row : rows) {
    if (row.family.empty()) row.family = family;
    if (row.role.empty()) row.role = role;
    all.push_back(std::move(row));
  }
}

void keep_only(catalogue& contenders, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return;
  // Words are separated by commas. So a word also matches all names that begin with it and a comma.
  const auto matches = [](const contender& c, const std::string& word) {
    return lower(c.name) == lower(word) || lower(c.family) == lower(word) ||
           lower(c.name).starts_with(lower(word) + ',');
  };
  for (const std::string& word : wanted) {
    if (std::any_of(contenders.all.begin(), contenders.all.end(), [&](const contender& c) { return matches(c, word); }))
      continue;
    for (const left_out& gone : contenders.missing) {
      // A missing peer's series are unknown to this build; their names begin with the library's.
      if (lower(word).starts_with(lower(gone.family)))
        throw std::invalid_argument(fmt::format("--only {}: {}", word, gone.reason));
    }
    std::vector<std::string> names;
    for (const contender& c : contenders.all) {
      names.push_back(c.name.substr(0, c.name.find(',')));
      names.push_back(c.family);
    }
    for (const left_out& gone : contenders.missing) names.push_back(gone.family);
    throw std::invalid_argument(
        fmt::format("--only {}: no series or library has that name; the nearest is '{}'. `muster-bench list` "
                    "shows all.",
                    word, nearest(word, names)));
  }
  std::erase_if(contenders.all, [&](const contender& c) {
    return std::none_of(wanted.begin(), wanted.end(), [&](const std::string& word) { return matches(c, word); });
  });
}

}  // namespace muster::bench
