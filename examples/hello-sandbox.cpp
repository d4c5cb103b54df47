// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The first program of the guide to sandboxes: code that may read one file.

// [readme]
#include <muster/syscall.hpp>

#include <cstdio>
#include <fstream>
#include <string>

/// Any code that was never reviewed. It knows nothing of sandboxes.
long lines_of(const char* path) {
  std::ifstream file(path);
  if (!file) return -1;
  long lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

int main() {
  // [short]
  muster::sandbox box(muster::policy::parse(R"(
    read   /etc/passwd
    memory 64M
  )"));
  const auto allowed = box.run([](muster::inside&) { return lines_of("/etc/passwd"); });
  const auto refused = box.run([](muster::inside&) { return lines_of("/etc/group"); });
  // [/short]
  std::printf("inside: %ld lines, and %ld; outside: %ld lines\n", allowed.value(), refused.value(),
              lines_of("/etc/passwd"));
  return allowed.value() == lines_of("/etc/passwd") && refused.value() == -1 ? 0 : 1;
}
// [/readme]
