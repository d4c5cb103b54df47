// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// trace.cpp: see trace.hpp.
#include "checker/trace.hpp"

#include <algorithm>
#include <cstdio>

namespace muster_model {

namespace {

std::string number(std::uint64_t value) {
  // Ranks near the wrap are easier to read as negative numbers.
  const auto as_signed = static_cast<std::int64_t>(value);
  return as_signed < 0 && as_signed > -1'000'000 ? std::to_string(as_signed) : std::to_string(value);
}

}  // namespace

std::string format_trace(const std::vector<step>& steps) {
  std::string text;
  for (const step& s : steps) {
    std::string what = s.what;
    if (s.location >= 0 && what.rfind("futex", 0) != 0) what += std::string(" ") + name_of(s.ordering);
    std::string value;
    if (s.location >= 0) value = number(s.value);
    if (s.written != 0 || what.rfind("fetch", 0) == 0 || what.rfind("exchange", 0) == 0)
      value += " -> " + number(s.written);
    if (s.read_from >= 0)
      value += s.read_from == 0 ? " (from the start)" : " (from step " + std::to_string(s.read_from) + ")";
    if (s.stale) value += s.read_from >= 0 ? ", not the newest" : " (behind an older store)";
    const std::string place = short_path(s.site.file_name()) + ":" + std::to_string(s.site.line());
    char line[256];
    std::snprintf(line, sizeof line, "%5llu  thread %u  %-34s %-28s %-5s %s\n",
                  static_cast<unsigned long long>(s.number), s.thread, place.c_str(), what.c_str(),
                  s.location >= 0 ? ("#" + std::to_string(s.location)).c_str() : "", value.c_str());
    text += line;
  }
  return text;
}

}  // namespace muster_model
