// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pipe-receive: receives the file that pipe-send sends through a muster::shared_queue, and compares digests. If it is
// killed, another one with the same arguments continues.
//
// Exit status: 0 the file is complete; 1 it is not; 2 wrong usage.

#include "command_line.hpp"
#include "pipe.hpp"

#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>

namespace {

using namespace pipe_example;
using namespace std::chrono_literals;

/// Waits for the queue to exist and opens it.
pipe_queue open_within(const std::string& name, std::chrono::seconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!std::filesystem::exists(name) && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
  return pipe_queue::open(name, tag);
}

[[noreturn]] void give_up(const std::string& name, const std::string& why) {
  std::filesystem::remove(name);
  throw std::runtime_error(why + ": the file is not complete; send it again");
}

/// The next piece, however long it takes.
chunk pop(const std::string& name, pipe_queue& queue, pipe_queue::consumer_port& in) {
  for (;;) {
    if (auto piece = in.pop_for(1s)) return *piece;
    // The items of a dead sender are still delivered; so if none has come, none is left.
    const auto [sender, process] = look_for(queue, true);
    if (queue.size_approx() != 0) continue;
    if (sender == peer::dead) give_up(name, "the sender, process " + std::to_string(process) + ", has died");
    if (queue.is_closed()) give_up(name, "the sender has stopped in the middle");
  }
}

void receive(const std::string& name, const std::string& path, std::chrono::seconds patience) {
  pipe_queue queue = open_within(name, patience);
  pipe_queue::consumer_port in = queue.consumer();
  file out(path, O_RDWR | O_CREAT);
  std::uint64_t pieces = 0;
  chunk piece = pop(name, queue, in);
  for (; piece.size != 0; piece = pop(name, queue, in), ++pieces)
    out.write(std::span(piece.bytes).first(piece.size), piece.offset);

  out.cut(piece.offset);
  out.rewind();
  digest all;
  for (chunk copy; (copy.size = out.read(copy.bytes)) != 0;) all.add(std::span(copy.bytes).first(copy.size));
  std::printf("received  %llu bytes, %llu pieces by this process, digest %s\n",
              static_cast<unsigned long long>(piece.offset), static_cast<unsigned long long>(pieces),
              to_text(all.value()).c_str());
  std::filesystem::remove(name);
  if (all.value() != piece.digest)
    throw std::runtime_error(path + " is not what was sent, whose digest is " + to_text(piece.digest) +
                             ": a receiver has died while it held a piece; send the file again");
}

}  // namespace

int main(int argc, char** argv) {
  std::string name, path;
  unsigned patience = 10;
  examples::command_line line("Receives what pipe-send sends, and compares digests.", "pipe-receive");
  line.add("QUEUE", name, "the queue's file, which is deleted at the end").required();
  line.add("OUT", path, "the file to write").required();
  line.add("--wait", patience, "seconds to wait for the queue").in(0, 86400).shows_default();
  if (const auto status = line.parse(argc, argv, wrong_usage)) return *status;
  try {
    receive(name, path, std::chrono::seconds(patience));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipe-receive: %s\n", error.what());
    return failed;
  }
  return all_is_well;
}
