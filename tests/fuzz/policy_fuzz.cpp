// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Any text as a policy: it is an error that names its line, or a policy whose text says the same when it is read again.
#include <muster/syscall/policy.hpp>

#include "broken.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using muster::policy;
  using muster_test::require;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  try {
    const policy made = policy::parse(text);
    const policy again = policy::parse(made.text());
    require(again.text() == made.text(), "a policy does not say what its text says");
    require(std::ranges::equal(again.places(), made.places(), {}, &policy::place::path, &policy::place::path),
            "a path is not read as it was written");
    require(made.files() >= 1 && made.files() <= 4000, "a limit of files is out of its bounds");
    for (const policy::place& one : made.places()) {
      std::string_view rest;
      require(made.find(one.path(), rest) == &one, "a rule is not that of its own place");
      require(made.find(one.path() + "/../x", rest) == nullptr, "a path that goes up has a rule");
      const std::string word = policy::word_for(one.path());
      require(word.empty() || policy::parse("read " + word).places()[0].path() == one.path(),
              "a path is not read as it was suggested");
    }
  } catch (const muster::policy_error& error) {
    require(error.line() >= 1 && error.line() <= lines, "an error names a line that is not there");
  }
  return 0;
}
