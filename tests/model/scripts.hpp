// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// scripts.hpp: how the small programs are written that use a queue under the checker:
//
//   "push*2 close | pop*2 | try_pop"     three threads; the first pushes twice and closes
//   "push set | wait pop"                the second begins when one set has been executed
//   "pop_slow*2"                         a pop whose item is being moved out until there have been two sets
//   "push_slow*2"                        a push whose item, when it is moved in, makes a set, and waits for another
//   "front"                              looks at the first item, if there is one, and then pops it
//   "taken"                              waits until a push has begun, or an item is there
//   "handle", "enter", "leave", "end"    a producer's handle is taken and given back, counting the steps; taken; given
//                                        back; the same, counting the steps
#pragma once

#include "checker/explore.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster_model_test {

namespace mm = muster_model;

struct command {
  std::string verb;
  unsigned times = 1;
};
using script = std::vector<std::vector<command>>;

/// Throws std::invalid_argument.
inline script parse(const std::string& text) {
  static const char* const verbs[] = {
      "push",         "try_push",   "push_for",  "push_stop",   "push_n",      "try_push_n",   "push_bad",
      "try_push_bad", "pop",        "try_pop",   "pop_for",     "pop_stop",    "pop_n",        "try_pop_n",
      "close",        "stop",       "drain",     "drain_n",     "drain_try",   "drain_poll",   "drain_for",
      "leave",        "pass_on",    "try_round", "set",         "wait",        "taken",        "pop_slow",
      "push_slow",    "push_until", "consume",   "try_consume", "consume_for", "consume_stop", "front",
      "pop_until",    "is_closed",  "size",      "handle",      "enter",       "end"};
  script s(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "|") {
      s.emplace_back();
      continue;
    }
    command c;
    const std::size_t star = word.find('*');
    c.verb = word.substr(0, star);
    if (star != std::string::npos) c.times = static_cast<unsigned>(std::stoul(word.substr(star + 1)));
    if (std::find(std::begin(verbs), std::end(verbs), c.verb) == std::end(verbs))
      throw std::invalid_argument("no operation is called \"" + c.verb + "\" in the script \"" + text + "\"");
    s.back().push_back(std::move(c));
  }
  if (s.size() >= mm::most_threads) throw std::invalid_argument("too many threads in the script \"" + text + "\"");
  return s;
}

inline constexpr std::uint64_t near_the_wrap = ~std::uint64_t{0} - 1;  // two items before

}  // namespace muster_model_test
