// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_info.hpp: what a queue between processes says of itself, for programs that look at it from outside, too. Reads
// the queue's memory, writes nothing, and waits for nobody. The queue: shared.hpp.
#pragma once

#include <muster/base/process.hpp>  // pid_t

#include <cstddef>     // std::size_t
#include <cstdint>     // std::uint64_t
#include <filesystem>  // names
#include <stdexcept>   // std::runtime_error
#include <string>      // messages
#include <vector>      // participants

namespace muster::inline MUSTER_ABI {

/// What opens is not what was expected, or a port cannot be had. what() says what to do.
class shared_queue_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A port that somebody has opened and not closed.
struct shared_queue_participant {
  bool produces = false;
  bool alive = false;   // not known to be dead
  bool hidden = false;  // a filter forbids this process to see whether it lives
  pid_t process = 0;
  std::uint64_t items = 0;      // pushed, or returned by pop
  std::uint64_t last_rank = 0;  // of a consumer: the item that was returned last; its process may have died with it
};

/// What a queue says of itself. All counts are of some recent moment.
struct shared_queue_info {
  std::string shape;
  std::string tag;
  std::size_t item_size = 0;
  std::size_t capacity = 0;  // of a lane
  std::size_t lanes = 0;
  std::size_t items = 0;  // gaps and pushes in progress count
  bool closed = false;
  std::uint64_t deaths = 0;  // whose ports have been cleared up, by whomever; again if that was interrupted by another
  std::vector<shared_queue_participant> participants;
};

/// Reads a queue's file and changes nothing: the processes that use it do not notice. Throws as open() does.
shared_queue_info inspect_shared_queue(const std::filesystem::path& path);
/// The same by a descriptor, which may be one that only reads. It stays the caller's.
shared_queue_info inspect_shared_queue(int descriptor);

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/shared_info.hpp>  // definitions
