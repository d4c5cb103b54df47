// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// echo: a TCP server that answers each line with the same line in upper case, until its standard input ends.

#include "command_line.hpp"
#include "server.hpp"

#include <cctype>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

namespace {

std::string in_upper_case(std::string line) {
  for (char& c : line) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int wrong_usage = 2;
  unsigned port = 0, workers = 2;
  examples::command_line line(
      "Answers each line of its clients with the same line in upper case. Listens on the loopback interface, and ends "
      "when its standard input does.",
      "echo");
  line.add("--port", port, "the port to listen on; 0: any that is free").in(0, 65535).shows_default();
  line.add("--workers", workers, "the threads that compute answers").in(1, 60).shows_default();
  if (const auto status = line.parse(argc, argv, wrong_usage)) return *status;
  try {
    echo::server server(static_cast<std::uint16_t>(port), workers, in_upper_case);
    std::printf("port %u\n", unsigned{server.port()});
    std::fflush(stdout);
    std::jthread input([&server] {
      while (std::getchar() != EOF) {
      }
      server.stop();
    });
    server.run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "echo: %s\n", error.what());
    return 1;
  }
}
