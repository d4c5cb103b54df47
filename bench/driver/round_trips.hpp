// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// round_trips.hpp: a client that waits for answers. It keeps some requests in flight: after each answer it sends one
// more request. Servers answer one request after another. Requests go through one queue, answers through another.
//
// In request.hpp the client sends bursts and looks for answers in between; here both sides wait in the queue's best
// way.
#pragma once

#include "driver/stream.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster::bench {

/// Waits for an item of an open queue.
template <class Q, class T, class Consumer>
MUSTER_HOT T await_item(Consumer& from) {
  T value{};
  if constexpr (Q::ends_by == ending::closed) {
    from.pop(value);
  } else if constexpr (Q::ends_by == ending::poisoned) {
    value = from.pop();
  } else {
    until([&] { return from.try_pop(value); });
  }
  return value;
}

/// The client's side, on a thread.
struct thread_client {
  template <class Answers, class To, class From>
  static void run(const round_trip_spec& spec, To& to, From& from, consumer_check& own) {
    std::uint64_t sent = 0;
    while (sent < spec.in_flight && sent < spec.items) to.push(make_item(0, ++sent));
    for (std::uint64_t back = 0; back < spec.items; ++back) {
      own.add(await_item<Answers, item>(from));
      if (sent < spec.items) to.push(make_item(0, ++sent));
    }
  }
};

/// A client whose requests are sent and awaited by a fiber each. Fiber(f) runs f, and has join().
template <class Fiber>
struct fiber_client {
  template <class Answers, class To, class From>
  static void run(const round_trip_spec& spec, To& to, From& from, consumer_check& own) {
    std::uint64_t sent = 0;
    std::deque<Fiber> clients;
    for (unsigned f = 0; f < spec.in_flight; ++f)
      clients.emplace_back([&] {
        while (sent < spec.items) {
          to.push(make_item(0, ++sent));
          own.add(await_item<Answers, item>(from));
        }
      });
    for (Fiber& one : clients) one.join();
  }
};

/// A server, on a thread. It ends at the first of `ends(spec)` poison items.
struct thread_server {
  static unsigned ends(const round_trip_spec&) { return 1; }
  template <class Requests, class To, class From>
  static void run(const round_trip_spec&, To& to, From& from, consumer_check& own) {
    for (item value = 0; !is_poison(value = await_item<Requests, item>(from)); to.push(value)) own.add(value);
  }
};

/// A server with as many fibers as there are requests in flight.
template <class Fiber>
struct fiber_server {
  static unsigned ends(const round_trip_spec& spec) { return spec.in_flight; }
  template <class Requests, class To, class From>
  static void run(const round_trip_spec& spec, To& to, From& from, consumer_check& own) {
    std::deque<Fiber> servers;
    for (unsigned f = 0; f < spec.in_flight; ++f)
      servers.emplace_back([&] { thread_server::run<Requests>(spec, to, from, own); });
    for (Fiber& one : servers) one.join();
  }
};

template <class Requests, class Answers = Requests, class Client = thread_client, class Server = thread_server>
outcome run_round_trips(const round_trip_spec& spec) {
  constexpr std::size_t capacity = 4096;
  reset_peak_memory();
  const auto requests = std::make_unique<Requests>(capacity, 1, spec.servers);
  const auto answers = std::make_unique<Answers>(capacity, spec.servers, 1);
  std::vector<consumer_check> asked(spec.servers, consumer_check(1)), answered{consumer_check(1)};
  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    consumer_check own(1);
    if (index == 0) {
      decltype(auto) to = producer_of(*requests, 0);
      decltype(auto) from = consumer_of(*answers, 0);
      line.arrive_and_wait();
      Client::template run<Answers>(spec, to, from, own);
      for (unsigned i = 0; i < spec.servers * Server::ends(spec); ++i) to.push(item{poison});
      answered.front() = own;
    } else {
      decltype(auto) from = consumer_of(*requests, index - 1);
      decltype(auto) to = producer_of(*answers, index - 1);
      line.arrive_and_wait();
      Server::template run<Requests>(spec, to, from, own);
      asked[index - 1] = own;
    }
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  // Answers of several servers overtake each other, and so do those to several fibers, and requests to these.
  constexpr bool ordered = std::is_same_v<Server, thread_server>;
  const verdict requested = judge(asked, {spec.items}, ordered);
  const verdict got =
      judge(answered, {spec.items}, ordered && spec.servers == 1 && std::is_same_v<Client, thread_client>);
  if (!requested.error.empty()) result.error = "requests: " + requested.error;
  else if (!got.error.empty()) result.error = "answers: " + got.error;
  return result;
}

}  // namespace muster::bench
