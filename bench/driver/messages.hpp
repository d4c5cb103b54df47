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
#include "driver/counters.hpp"
#include "driver/placement.hpp"
#include "sim/workloads/wait.hpp"

#include <muster/base/detail/mapped_region.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <span>

namespace muster::bench {

using words = std::span<std::uint64_t>;

namespace detail {

/// The state that both processes share beside the channel.
struct message_run {
  start_line line{2};
  std::atomic<bool> ok[2]{};
  std::chrono::steady_clock::time_point ends[2]{};
};

}  // namespace detail

template <class Channel>
outcome run_messages(const message_spec& spec) {
  using clock = std::chrono::steady_clock;
  const mapped_region memory = mapped_region::make_anonymous(sizeof(detail::message_run), [](unsigned char* at) {
    std::construct_at(reinterpret_cast<detail::message_run*>(at));
  });
  auto& common = *reinterpret_cast<detail::message_run*>(memory.start());
  auto channel = std::make_unique<Channel>(spec.size);

  const auto produce = [&] {
    typename Channel::producer to(*channel);
    common.line.arrive_and_wait();
    for (std::uint64_t n = 1; n <= spec.items; ++n)
      to.push([n](words message) { std::fill(message.begin(), message.end(), n); });
    return true;
  };
  const auto consume = [&] {
    typename Channel::consumer from(*channel);
    bool right = true;
    common.line.arrive_and_wait();
    for (std::uint64_t n = 1; n <= spec.items; ++n)
      from.pop([&, n](words message) {
        std::uint64_t different = message.size() * sizeof(n) ^ spec.size;
        for (const std::uint64_t word : message) different |= word ^ n;
        right &= different == 0;
      });
    return right;
  };
  pid_t children[2];
  for (unsigned me = 0; me != 2; ++me) {
    children[me] = ::fork();
    if (children[me] == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted run leaves no process behind
      try {
        pin_this_thread(spec.pus[me]);
        const bool right = me == 0 ? produce() : consume();
        common.ends[me] = clock::now();
        common.ok[me].store(right, std::memory_order_release);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
  }
  channel->forget();
  common.line.wait_for_all();
  const clock::time_point begin = clock::now();
  common.line.open();
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  outcome result;
  result.items = spec.items;
  result.cpu_seconds = cpu_seconds_of_children();
  for (unsigned me = 0; me != 2; ++me) {
    if (!common.ok[me].load(std::memory_order_acquire))
      result.error = me == 0 ? "the producer has failed" : "a message is lost, out of order or not whole";
    result.seconds = std::max(result.seconds, std::chrono::duration<double>(common.ends[me] - begin).count());
  }
  return result;
}

/// The bytes that a channel holds, where it lets us choose: of eight messages, at least 256 KiB.
inline std::size_t message_room(std::size_t size) { return std::max<std::size_t>(8 * size, std::size_t{256} << 10); }

}  // namespace muster::bench
