// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// between.hpp: parcels between processes, from producers to consumers through one channel, checked and timed.
//
// A channel takes part through an adapter:
//   C(std::size_t capacity, unsigned producers, unsigned consumers)   in the process that starts all others
//   C::producer(C&)   in a process that the first one has forked: push(const parcel&) waits
//   C::consumer(C&)   bool pop(parcel&) waits; false at the end
//   C::producer::leave(bool last)   it has pushed its last parcel; `last`: so have all other producers
//   C::forget()   the first process no longer uses the channel
#pragma once

#include "driver/contender.hpp"
#include "driver/counters.hpp"
#include "driver/placement.hpp"
#include "sim/workloads/item.hpp"
#include "sim/workloads/wait.hpp"

#include <muster/base/detail/mapped_region.hpp>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <vector>

namespace muster::bench {

/// 64 bytes.
struct parcel {
  item number = 0;
  std::array<std::uint64_t, 7> content{};
};

namespace detail {

inline constexpr unsigned most_processes = 64;

/// The state that the processes of a run share beside the channel.
struct crossing {
  explicit crossing(unsigned processes, unsigned senders) : line(processes), producers(senders) {}

  start_line line;
  std::atomic<unsigned> producers;                     // that have not finished
  std::array<tally, most_processes> seen{};            // by consumer
  std::array<std::atomic<bool>, most_processes> ok{};  // the process has done all its work
  std::array<std::chrono::steady_clock::time_point, most_processes> ends{};
};

}  // namespace detail

template <class Channel>
outcome run_between(const stream_spec& spec) {
  using clock = std::chrono::steady_clock;
  const unsigned processes = spec.producers + spec.consumers;
  outcome result;
  if (processes > detail::most_processes) {
    result.error = "too many processes";
    return result;
  }
  const mapped_region memory = mapped_region::make_anonymous(sizeof(detail::crossing), [&](unsigned char* at) {
    std::construct_at(reinterpret_cast<detail::crossing*>(at), processes, spec.producers);
  });
  auto& common = *reinterpret_cast<detail::crossing*>(memory.start());
  std::vector<std::uint64_t> shares(spec.producers, spec.items / spec.producers);
  shares.front() += spec.items % spec.producers;
  auto channel = std::make_unique<Channel>(spec.capacity, spec.producers, spec.consumers);

  const auto work = [&](unsigned me) {
    pin_this_thread(spec.pus[me]);
    if (me < spec.producers) {
      typename Channel::producer to(*channel);
      common.line.arrive_and_wait();
      for (std::uint64_t n = 1; n <= shares[me]; ++n) to.push({make_item(me, n), {n, n, n, n, n, n, n}});
      to.leave(common.producers.fetch_sub(1, std::memory_order_acq_rel) == 1);
    } else {
      typename Channel::consumer from(*channel);
      consumer_check seen(spec.producers);
      common.line.arrive_and_wait();
      for (parcel p; from.pop(p);)
        seen.add(p.content[6] == (p.number & ((item{1} << producer_shift) - 1)) ? p.number : 0);
      common.seen[me - spec.producers] = seen.seen();
    }
    common.ends[me] = clock::now();
    common.ok[me].store(true, std::memory_order_release);
  };
  std::vector<pid_t> children;
  for (unsigned me = 0; me < processes; ++me) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted run leaves no process behind
      try {
        work(me);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  channel->forget();
  common.line.wait_for_all();
  const clock::time_point begin = clock::now();
  common.line.open();
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (unsigned me = 0; me < processes; ++me) {
    if (!common.ok[me].load(std::memory_order_acquire)) result.error = "a process has failed";
    result.seconds = std::max(result.seconds, std::chrono::duration<double>(common.ends[me] - begin).count());
  }
  result.cpu_seconds = cpu_seconds_of_children();
  result.items = spec.items;
  if (!result.error.empty()) return result;
  const verdict checked =
      judge(std::vector<tally>(common.seen.begin(), common.seen.begin() + spec.consumers), shares, true);
  result.error = checked.error;
  result.out_of_order = checked.out_of_order;
  return result;
}

}  // namespace muster::bench
