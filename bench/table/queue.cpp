// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue.cpp: queues beside peers that promise the same order.
#include "sim/workloads/item.hpp"
#include "table/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

const axis by_shape{"shape", "", "category", ""};

study one_to_one_stream(const setting& s) {
  std::string text = "capacity 4096, 8-byte items";
  if (s.full()) text += "; 10^8 items per run, or as many as take 4 s";
  study made = chart(std::move(text), by_shape, throughput);
  for (const contender* c : s.contenders.about(one_to_one))
    add_stream_point(made, s, *c, made.add_line(*c), "1→1", 1, 1).full_items = 100'000'000;
  return made;
}

study one_to_many(const setting& s) {
  study made = chart("1 producer, capacity 4096, 8-byte items; peers marked baseline take several items per operation",
                     {"consumers", "", "log2", ""}, throughput);
  for (const contender* c : s.contenders.about(fan_out)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned n : {1U, 2U, 4U, 8U}) add_stream_point(made, s, *c, line, n, 1, n);
  }
  return made;
}

/// Lanes are FIFO per producer only, so their peer is the queue that promises the same.
study many_to_many_stream(const setting& s) {
  study made = chart(
      fmt::format("n producers and n consumers on {} hardware threads, capacity 4096, 8-byte items", s.place.units()),
      {"producers = consumers", "", "log2", ""}, throughput);
  for (const contender* c : s.contenders.about(many_to_many)) {
    const std::size_t line = add_line_in_order(made, *c);
    for (const unsigned n : {1U, 2U, 4U, 8U}) add_stream_point(made, s, *c, line, n, n, n);
  }
  return made;
}

/// Round trips of each contender that has this way to run them.
template <class Spec>
study round_trips(const setting& s, const std::string& text, runner<round_trip_spec> contender::* how,
                  const std::vector<unsigned>& in_flight, unsigned servers = 1) {
  study made = chart(text, {"requests in flight", "", "log2", ""}, {"round trips", "M/s", "", "higher"}, mega_items);
  for (const contender& c : s.contenders.all) {
    if (c.*how == nullptr || (servers != 1 && !c.to_servers)) continue;
    const std::size_t line = made.add_line(c);
    for (const unsigned n : points_of(s, in_flight, {1, 64})) {
      Spec spec;
      spec.in_flight = n;
      spec.servers = servers;
      spec.pus = s.place.assign(1, servers);
      // A thread that another program keeps from its processor answers late.
      add_point(made, c, line, n, std::move(spec)).maybe_slow = true;
    }
  }
  return made;
}

/// With several servers, the answers come through a queue of several producers.
study requests_in_flight(const setting& s, unsigned servers) {
  return round_trips<round_trip_spec>(
      s,
      fmt::format("1 client, {}; 8-byte requests through one queue, answers through another; capacity 4096; the client "
                  "waits for each answer, and then sends one more request",
                  servers == 1 ? "1 server" : fmt::format("{} servers", servers)),
      &contender::round_trips, {1, 2, 4, 8, 16, 64}, servers);
}

study answers_to_an_event_loop(const setting& s) {
  return round_trips<event_loop_spec>(
      s,
      "1 client, 1 server; 8-byte requests through one queue, answers through another; capacity 4096; the client waits "
      "in epoll_wait for each answer that is not there yet, and then sends one more request",
      &contender::to_event_loop, {1, 4, 16, 64, 256});
}

study answers_of_a_process(const setting& s) {
  return round_trips<process_trip_spec>(
      s,
      "1 client, 1 server, each a process; 64-byte requests through one queue, answers through another; capacity 4096; "
      "the client waits for each answer, and then sends one more request",
      &contender::trips_between, {1, 2, 4, 8, 16, 64});
}

/// A queue that is full refuses every push, one that is empty every pop, and one that is half full nothing.
study tries(const setting& s, fullness state) {
  constexpr std::array texts{"try_pop of an empty queue",
                             "a queue of half its capacity; each try_push and try_pop in turns",
                             "try_push into a full queue"};
  study made = chart(fmt::format("{}, by so many threads on {} hardware threads; capacity 4096, 8-byte items",
                                 texts[static_cast<std::size_t>(state)], s.place.units()),
                     {"threads", "", "log2", ""}, {"time per operation", "ns", "", "lower"}, nanoseconds_per_item);
  for (const contender& c : s.contenders.all) {
    if (c.tries == nullptr) continue;
    const std::size_t line = add_line_in_order(made, c);
    for (const unsigned n : points_of(s, {1, 2, 4, 8}, {1, 4}))
      if (n == 1 || (c.topics & pairs_alone) == 0)  // it has one producer
        // Some wait inside for a thread that has claimed a place and does not run.
        add_point(made, c, line, n, try_spec{.state = state, .pus = s.place.assign(n, 0)}).maybe_slow = n != 1;
  }
  return made;
}

/// Streams in which each operation is timed.
study tails(const setting& s, unsigned producers, unsigned consumers) {
  const axis time{"time of a push", "ns", "log2", "lower"};
  study made =
      chart(fmt::format("{}→{} threads on {} hardware threads, capacity 4096, 8-byte items; with the wait for room or "
                        "for an item",
                        producers, consumers, s.place.units()),
            by_quantile, time, detail_value("push p99.9"), [time](std::vector<result>& results) {
              axis of_pops = time;
              of_pops.name = "time of a pop";
              const result& pushes = results.front();
              results.push_back(pushes.derived_chart("-pop", pushes.title + ": pops", of_pops));
              show_quantiles(results.front(), "push ");
              show_quantiles(results.back(), "pop ");
            });
  for (const contender* c : s.contenders.about(oversubscribed)) {
    if (c->tails == nullptr || (producers != 1 && (c->topics & pairs_alone) != 0)) continue;
    tail_spec spec;
    spec.producers = producers;
    spec.consumers = consumers;
    spec.demand_order = c->order;
    spec.pus = s.place.assign(producers, consumers);
    const std::size_t line = producers == 1 ? made.add_line(*c) : add_line_in_order(made, *c);
    add_point(made, *c, line, "p99.9", std::move(spec)).maybe_slow = true;
  }
  return made;
}

/// Four for each hardware thread.
unsigned threads_of_a_crowd(const setting& s) { return std::min(4 * s.place.units(), 2 * most_producers); }

void add_cpu_time(std::vector<result>& results) {
  add_changed(results, "-cpu", "CPU time with four threads per hardware thread",
              {"CPU time per item", "ns", "", "lower"}, [](const series&, point& p) {
                p.samples.clear();
                for (const double seconds : p.cpu_seconds)
                  p.samples.push_back(seconds * 1e9 / static_cast<double>(p.items));
              });
}

study four_threads_each(const setting& s) {
  constexpr const char* fan = "1→n";
  constexpr const char* crowd = "n→n";
  const unsigned threads = threads_of_a_crowd(s);
  const unsigned half = threads / 2;
  study made =
      chart(fmt::format("{} threads on {} hardware threads, capacity 4096, 8-byte items; {} is 1→{}, {} is {}→{}",
                        threads, s.place.units(), fan, threads - 1, crowd, half, half),
            by_shape, throughput, mega_items, add_cpu_time);
  for (const contender* c : s.contenders.about(oversubscribed)) {
    const std::size_t line = made.add_line(*c);
    add_stream_point(made, s, *c, line, fan, 1, threads - 1);
    if (c->name != "spmc_queue") add_stream_point(made, s, *c, line, crowd, half, half);
  }
  return made;
}

/// The producer has a hardware thread to itself, so that its latency is the queue's and not the scheduler's.
std::vector<int> producer_apart(const placement& place) {
  std::vector<int> pus = place.assign(1, 2);
  if (place.chosen() == policy::spread && place.pinned() && place.units() == 2) pus[2] = pus[1];
  return pus;
}

/// The effect on the producer of a consumer that sleeps between its claim and its release. It sleeps a tenth of the
/// time, so its delays reach the 99th percentile; the machine's own delays do not.
study a_sleeper(const setting& s) {
  constexpr std::uint64_t items_between_sleeps = 2500;
  stall_spec spec;
  spec.pus = producer_apart(s.place);
  study made = chart(
      fmt::format(
          "1 producer pushing every {} us, 2 consumers, capacity {}; latency from the scheduled time; the sleeper "
          "stops for {} ms, every {} items, in the middle of taking one",
          spec.period_ns / 1000, spec.capacity, spec.sleep_ns / 1000000, items_between_sleeps),
      {"consumers", "", "category", ""}, {"push latency, 99.9th percentile", "ns", "", "lower"}, detail_value("p99.9"),
      add_charts({{"-p99",
                   "A consumer falls asleep while it takes an item: 99th percentile",
                   {"push latency, 99th percentile", "ns", "", "lower"},
                   "p99"}}));
  for (const contender* c : s.contenders.about(slow_consumer)) {
    const std::size_t line = made.add_line(*c, {}, c->no_stall);
    if (!c->no_stall.empty()) continue;  // named without points, not dropped silently
    spec.demand_order = c->order;
    for (const char* x : {"no sleeper", "sleeper"}) {
      spec.sleep_every = x == std::string("sleeper") ? items_between_sleeps : 0;
      const double run_seconds = s.work.seconds > 0 ? s.work.seconds : 0.04;
      add_point(made, *c, line, x, spec).fixed_items = static_cast<std::uint64_t>(run_seconds * 1e9) / spec.period_ns;
    }
  }
  return made;
}

study from_process_to_process(const setting& s) {
  constexpr unsigned most_processes = 64;  // on each side
  const unsigned half = std::clamp(2 * s.place.units(), 4U, most_processes);
  study made = chart(
      fmt::format(
          "capacity 4096, 64-byte items; each producer and each consumer is a process; the last on {} hardware threads",
          s.place.units()),
      {"producers→consumers", "", "category", ""}, {"time per item", "ns", "", "lower"}, nanoseconds_per_item);
  struct place {
    unsigned producers, consumers;
    topic who;
  };
  for (const contender* c : s.contenders.about(between_processes)) {
    const std::size_t line = made.add_line(*c);
    for (const place p : {place{1, 1, between_processes}, place{1, 2, from_one_process}, place{2, 2, between_many},
                          place{half, half, between_many}})
      if ((c->topics & p.who) != 0)
        add_stream_point(made, s, *c, line, fmt::format("{}→{}", p.producers, p.consumers), p.producers, p.consumers);
  }
  return made;
}

study messages_of_any_length(const setting& s) {
  study made = chart(
      "one producer and one consumer, each a process; one writes all words of a message, the other reads "
      "them; room for 8 messages, at least 256 KiB",
      {"message", "bytes", "log2", ""}, {"time per message", "ns", "log2", "lower"}, nanoseconds_per_item);
  for (const contender& c : s.contenders.all) {
    if (!c.messages) continue;
    const std::size_t line = made.add_line(c);
    for (const unsigned size : points_of(s, {8, 64, 1024, 16384, 131072, 1048576}, {64, 1048576})) {
      configuration& one = add_point(made, c, line, size, message_spec{.size = size, .pus = s.place.assign(1, 1)});
      one.maybe_slow = true;
      one.few = std::clamp((std::uint64_t{32} << 20U) / size, std::uint64_t{32}, one.few);
    }
  }
  return made;
}

}  // namespace

std::vector<experiment> queue_rows() {
  return {
      {"queue/one-to-one", "queue", "", "One producer, one consumer", one_to_one_stream},
      {"queue/fan-out", "queue", "", "One producer, several consumers", one_to_many},
      {"queue/many-to-many", "queue", "", "Several producers, several consumers", many_to_many_stream},
      {"queue/request-reply", "queue", "", "A client that waits for answers",
       [](const setting& s) { return requests_in_flight(s, 1); }},
      {"queue/request-reply-servers", "queue", "", "A client that waits for the answers of four servers",
       [](const setting& s) { return requests_in_flight(s, 4); }},
      {"queue/oversubscribed", "queue", "", "Four threads per hardware thread", four_threads_each},
      {"queue/slow-consumer", "queue", "", "A consumer falls asleep while it takes an item", a_sleeper},
      {"queue/shared", "queue", "", "From process to process", from_process_to_process},
      {"queue/shared-bytes", "queue", "", "Messages of any length from process to process", messages_of_any_length},
      {"queue/event-loop", "queue", "", "Answers to an event loop", answers_to_an_event_loop},
      {"queue/request-reply-processes", "queue", "", "A client that waits for the answers of another process",
       answers_of_a_process},
      {"queue/try-empty", "queue", "", "Pops from an empty queue, without waiting",
       [](const setting& s) { return tries(s, fullness::empty); }},
      {"queue/try-half-full", "queue", "", "Pushes and pops without waiting",
       [](const setting& s) { return tries(s, fullness::half); }},
      {"queue/try-full", "queue", "", "Pushes into a full queue, without waiting",
       [](const setting& s) { return tries(s, fullness::full); }},
      {"queue/tails", "queue", "", "Latencies with four threads per hardware thread",
       [](const setting& s) { return tails(s, threads_of_a_crowd(s) / 2, threads_of_a_crowd(s) / 2); }},
      {"queue/tails-fan-out", "queue", "", "Latencies with one producer, and four threads per hardware thread",
       [](const setting& s) { return tails(s, 1, threads_of_a_crowd(s) - 1); }},
  };
}

}  // namespace muster::bench
