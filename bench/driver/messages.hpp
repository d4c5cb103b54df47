// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// messages.hpp: messages of one size from a process to another, which the first makes and the second reads, every
// word of them, checked and timed.
//
// A channel takes part through an adapter:
//   C(std::size_t size)   in the process that starts both
//   C::producer(C&)   push(fill): calls fill(words) once with room for a message, then sends it; in another process
//   C::consumer(C&)   pop(read): waits, then calls read(words) once with the next message; in another process
//   C::forget()   the first process no longer uses the channel
#pragma once

#include "driver/contender.hpp"
#include "driver/process_group.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

namespace muster::bench {

using words = std::span<std::uint64_t>;

template <class Channel>
outcome run_messages(const message_spec& spec) {
  const in_common<std::atomic<bool>> right(true);
  auto channel = std::make_unique<Channel>(spec.size);
  outcome result = run_processes(
      spec.pus,
      [&](unsigned me, start_line& line) {
        if (me == 0) {
          typename Channel::producer to(*channel);
          line.arrive_and_wait();
          for (std::uint64_t n = 1; n <= spec.items; ++n)
            to.push([n](words message) { std::fill(message.begin(), message.end(), n); });
          return;
        }
        typename Channel::consumer from(*channel);
        bool all_right = true;
        line.arrive_and_wait();
        for (std::uint64_t n = 1; n <= spec.items; ++n)
          from.pop([&, n](words message) {
            std::uint64_t different = message.size() * sizeof(n) ^ spec.size;
            for (const std::uint64_t word : message) different |= word ^ n;
            all_right &= different == 0;
          });
        right->store(all_right, std::memory_order_relaxed);
      },
      [&] { channel->forget(); });
  result.items = spec.items;
  if (!right->load(std::memory_order_relaxed)) result.error = "a message is lost, out of order or not whole";
  return result;
}

/// The bytes that a channel holds, where it lets us choose: of eight messages, at least 256 KiB.
inline std::size_t message_room(std::size_t size) { return std::max<std::size_t>(8 * size, std::size_t{256} << 10); }

}  // namespace muster::bench
