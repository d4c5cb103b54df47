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
#include "driver/process_group.hpp"
#include "sim/workloads/item.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench {

/// 64 bytes.
struct parcel {
  item number = 0;
  std::array<std::uint64_t, 7> content{};
};

inline parcel parcel_of(unsigned producer, std::uint64_t n) { return {make_item(producer, n), {n, n, n, n, n, n, n}}; }

/// The number, or 0, which no producer sends, if the content is another's.
inline item number_of(const parcel& p) {
  return p.content[6] == (p.number & ((item{1} << producer_shift) - 1)) ? p.number : 0;
}

template <class Channel>
outcome run_between(const stream_spec& spec) {
  struct state {
    explicit state(unsigned senders) : producers(senders) {}
    std::atomic<unsigned> producers;           // that have not finished
    std::array<tally, most_processes> seen{};  // by consumer
  };
  const in_common<state> common(spec.producers);
  std::vector<std::uint64_t> shares(spec.producers, spec.items / spec.producers);
  shares.front() += spec.items % spec.producers;
  auto channel = std::make_unique<Channel>(spec.capacity, spec.producers, spec.consumers);

  outcome result = run_processes(
      spec.pus,
      [&](unsigned me, start_line& line) {
        if (me < spec.producers) {
          typename Channel::producer to(*channel);
          line.arrive_and_wait();
          for (std::uint64_t n = 1; n <= shares[me]; ++n) to.push(parcel_of(me, n));
          to.leave(common->producers.fetch_sub(1, std::memory_order_acq_rel) == 1);
        } else {
          typename Channel::consumer from(*channel);
          consumer_check seen(spec.producers);
          line.arrive_and_wait();
          for (parcel p; from.pop(p);) seen.add(number_of(p));
          common->seen[me - spec.producers] = seen.seen();
        }
      },
      [&] { channel->forget(); });
  result.items = spec.items;
  if (!result.error.empty()) return result;
  const verdict checked =
      judge(std::vector<tally>(common->seen.begin(), common->seen.begin() + spec.consumers), shares, true);
  result.error = checked.error;
  result.out_of_order = checked.out_of_order;
  return result;
}

/// Round trips (round_trips.hpp) of a client and a server, each a process, through two channels.
template <class Channel>
outcome run_trips_between(const round_trip_spec& spec) {
  constexpr std::size_t capacity = 4096;
  const in_common<std::array<tally, 2>> seen;
  const auto requests = std::make_unique<Channel>(capacity, 1, 1);
  const auto answers = std::make_unique<Channel>(capacity, 1, 1);
  outcome result = run_processes(
      spec.pus,
      [&](unsigned me, start_line& line) {
        const bool client = me == 0;
        typename Channel::producer to(client ? *requests : *answers);
        typename Channel::consumer from(client ? *answers : *requests);
        consumer_check own(1);
        parcel p;
        line.arrive_and_wait();
        if (client) {
          std::uint64_t sent = 0;
          while (sent < spec.in_flight && sent < spec.items) to.push(parcel_of(0, ++sent));
          for (std::uint64_t back = 0; back < spec.items && from.pop(p); ++back) {
            own.add(number_of(p));
            if (sent < spec.items) to.push(parcel_of(0, ++sent));
          }
        } else {
          for (; from.pop(p); to.push(p)) own.add(number_of(p));
        }
        to.leave(true);
        (*seen)[me] = own.seen();
      },
      [&] {
        requests->forget();
        answers->forget();
      });
  result.items = spec.items;
  for (const std::size_t side : {1U, 0U})
    if (result.error.empty()) {
      const std::string wrong = judge(std::vector{(*seen)[side]}, {spec.items}, true).error;
      if (!wrong.empty()) result.error = (side == 0 ? "answers: " : "requests: ") + wrong;
    }
  return result;
}

}  // namespace muster::bench
