// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: messages of any length between processes, copied or in place.

#include "expect.hpp"

#include <muster/queue/shared_bytes.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace {

// [bytes-send]
/// In any number of processes: each has room for its own messages.
void send(const std::string& path, std::string_view name, int lines) {
  auto queue = muster::shared_bytes<>::open(path, "log 1");
  auto out = queue.producer();
  for (int i = 0; i < lines; ++i) {
    const std::string line = std::string(name) + " " + std::to_string(i);
    out.push(std::as_bytes(std::span(line)));  // copied into the queue
  }
}
// [/bytes-send]

int in_a_process(auto work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

int main() {
  const std::string path = "/dev/shm/muster-guide-bytes-" + std::to_string(getpid());

  // [bytes-create]
  auto queue = muster::shared_bytes<>::create(path, {.messages = 1024, .bytes = 1 << 20, .queue = {.tag = "log 1"}});
  // [/bytes-create]
  expect(in_a_process([&] { send(path, "left", 100); }) == 0);
  expect(in_a_process([&] { send(path, "right", 100); }) == 0);

  // [bytes-loan]
  auto out = queue.producer();
  {
    auto room = out.loan(4096);  // waits for room; nothing is sent if the loan ends unpushed
    const int length = std::snprintf(reinterpret_cast<char*>(room->data()), room->size(), "written in place %d", 1);
    room->push(static_cast<std::size_t>(length));  // sends these bytes; the rest of the room is free again
  }
  // [/bytes-loan]
  queue.close();

  int lines = 0;
  std::size_t in_place = 0;
  // [bytes-peek]
  auto in = queue.consumer();
  while (auto message = in.peek()) {  // in place: no copy
    const std::string_view line(reinterpret_cast<const char*>(message->data()), message->size());
    in_place += line == "written in place 1";
    ++lines;
  }  // the bytes are free when the message ends
  // [/bytes-peek]
  expect(lines == 201 && in_place == 1);
  std::filesystem::remove(path);
}
