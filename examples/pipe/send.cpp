// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pipe-send: sends a file to pipe-receive, through a muster::shared_queue.
//
// Exit status: 0 everything is in the queue, or received; 1 it is not; 2 wrong usage.

#include "command_line.hpp"
#include "pipe.hpp"

#include <chrono>
#include <exception>
#include <string>

namespace {

using namespace pipe_example;
using namespace std::chrono_literals;

/// Waits for room, without a limit, and reports a missing receiver. Returns false if the queue was closed.
bool push(pipe_queue& queue, pipe_queue::producer_port& out, const chunk& piece) {
  for (bool told = false;;) {
    const muster::queue_status now = out.push_for(piece, 1s);
    if (now == muster::queue_status::success) return true;
    if (now == muster::queue_status::closed) return false;
    const auto [receiver, process] = look_for(queue, false);
    if (!told && receiver == peer::none) std::fprintf(stderr, "pipe-send: waiting for pipe-receive\n");
    if (!told && receiver == peer::dead)
      std::fprintf(stderr, "pipe-send: the receiver, process %d, has died; another one continues where it stopped\n",
                   static_cast<int>(process));
    told = receiver != peer::alive;
  }
}

/// Closes the queue, even if the rest of the file cannot be read: the receiver learns that no more items will come.
struct closing {
  pipe_queue& queue;
  ~closing() { queue.close(); }
};

void send(const std::string& path, const std::string& name, std::size_t capacity) {
  file in(path, O_RDONLY);
  chunk piece;
  piece.size = in.read(piece.bytes);  // before the queue exists: an unreadable file leaves no queue behind
  pipe_queue queue = pipe_queue::create(name, capacity, {.tag = tag});
  pipe_queue::producer_port out = queue.producer();
  const closing at_the_end{queue};
  digest all;
  std::uint64_t pieces = 0;
  for (; piece.size != 0; piece.size = in.read(piece.bytes)) {
    all.add(std::span(piece.bytes).first(piece.size));
    if (!push(queue, out, piece)) throw std::runtime_error(name + " was closed by another process");
    piece.offset += piece.size;
    ++pieces;
  }
  piece.digest = all.value();
  if (!push(queue, out, piece)) throw std::runtime_error(name + " was closed by another process");
  std::printf("sent      %llu bytes in %llu pieces, digest %s\n", static_cast<unsigned long long>(piece.offset),
              static_cast<unsigned long long>(pieces), to_text(piece.digest).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::string path, name;
  std::size_t capacity = 256;
  examples::command_line line("Sends a file to pipe-receive, which may run already, or later.", "pipe-send");
  line.add("FILE", path, "what to send; it may be a FIFO, or /dev/stdin").required();
  line.add("QUEUE", name, "the queue's file, which is made here; best under /dev/shm").required();
  line.add("--capacity", capacity, "pieces of 4 KiB that wait in the queue at most").in(1, 1 << 20).shows_default();
  if (const auto status = line.parse(argc, argv, wrong_usage)) return *status;
  try {
    send(path, name, capacity);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipe-send: %s\n", error.what());
    return failed;
  }
  return all_is_well;
}
