// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queues.hpp: programs with queues and with single words that run on real threads and on simulated ones, from one text:
// over the simulated atomics in a file that is compiled with MUSTER_SIMULATION, and over the real ones in others.
//
// ThreadGroup(const sim_spec&)  prepares; objects are made and destroyed while it lives
// ThreadGroup::run(body)        calls body(index, hand) on each thread; returns the time taken, in a struct that also
//                               has room for the number of items, an error, and details by name
// hand.start()                  waits for the other threads of the group
// hand.delay()                  works from least_work to most_work nanoseconds without touching shared memory
#pragma once

#include "sim/workloads/item.hpp"
#include "sim/workloads/spec.hpp"
#include "sim/workloads/wait.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Each thread pushes an item and takes one, as in Figure 8 of the FFQ paper. Q(const sim_spec&), and
/// Q::handle(Q&, unsigned), or else Q, with push(item) and item pop(), which waits.
template <class ThreadGroup, class Q>
auto sim_pairs(const sim_spec& spec) {
  ThreadGroup group(spec);
  const auto threads = static_cast<unsigned>(spec.threads.size());
  std::vector<consumer_check> consumer_checks(threads, consumer_check(threads));
  std::vector<std::uint64_t> sent(threads);
  for (unsigned i = 0; i < threads; ++i) sent[i] = model_share(spec, i, threads);
  const auto queue = std::make_unique<Q>(spec);
  auto result = group.run([&](unsigned index, auto& hand) {
    decltype(auto) mine = handle_of(*queue, index);
    consumer_check own(threads);
    hand.start();
    for (std::uint64_t n = 1; n <= sent[index]; ++n) {
      mine.push(make_item(index, n));
      hand.delay();
      own.add(mine.pop());
      hand.delay();
    }
    consumer_checks[index] = own;
  });
  result.items = spec.items;
  result.error = judge(consumer_checks, sent, true).error;
  return result;
}

/// Items from the first threads to the others, through a queue of the library.
template <class ThreadGroup, class Queue>
auto sim_stream(const sim_spec& spec) {
  ThreadGroup group(spec);
  const unsigned producers = spec.producers;
  const auto consumers = static_cast<unsigned>(spec.threads.size()) - producers;
  std::vector<consumer_check> consumer_checks(consumers, consumer_check(producers));
  std::vector<std::uint64_t> sent(producers);
  for (unsigned i = 0; i < producers; ++i) sent[i] = model_share(spec, i, producers);
  const auto queue = std::make_unique<Queue>(spec.capacity);
  struct alignas(isolation_size) {
    sync::atomic<unsigned> count{0};
  } done;
  auto result = group.run([&](unsigned index, auto& hand) {
    hand.start();
    if (index < producers) {
      for (std::uint64_t n = 1; n <= sent[index]; ++n) queue->push(make_item(index, n));
      if (done.count.fetch_add(1, std::memory_order_acq_rel) + 1 == producers) queue->close();
    } else {
      consumer_check own(producers);
      while (const auto value = queue->pop()) own.add(*value);
      consumer_checks[index - producers] = own;
    }
  });
  result.items = spec.items;
  result.error = judge(consumer_checks, sent, true).error;
  return result;
}

/// Requests and their answers, many in flight at once, between the first thread and the second.
/// Requests(const sim_spec&) with push(item), end(), and std::optional<item> pop(), which waits and has no value at
/// the end; Answers(const sim_spec&) with push(item) and std::optional<item> try_pop(). No push waits forever while
/// the capacity of one of them is in flight.
template <class ThreadGroup, class Requests, class Answers>
auto sim_exchange(const sim_spec& spec) {
  ThreadGroup group(spec);
  std::vector<consumer_check> consumer_checks(1, consumer_check(1));
  const auto requests = std::make_unique<Requests>(spec);
  const auto answers = std::make_unique<Answers>(spec);
  auto result = group.run([&](unsigned index, auto& hand) {
    hand.start();
    if (index != 0) {
      while (const auto value = requests->pop()) answers->push(*value);
      return;
    }
    consumer_check own(1);
    std::uint64_t answered = 0;
    for (std::uint64_t n = 1; answered < spec.items; ++answered) {
      for (; n <= spec.items && n - 1 - answered < spec.capacity; ++n) requests->push(make_item(0, n));
      until([&] {
        const std::optional<item> value = answers->try_pop();
        if (value) own.add(*value);
        return value.has_value();
      });
    }
    requests->end();
    consumer_checks[0] = own;
  });
  result.items = spec.items;
  result.error = judge(consumer_checks, {spec.items}, true).error;
  return result;
}

/// Nothing but a fetch-add by each thread, `Lines` counters in turn.
template <class ThreadGroup, unsigned Lines>
auto sim_fetch_add(const sim_spec& spec) {
  ThreadGroup group(spec);
  struct alignas(isolation_size) counter {
    sync::atomic<std::uint64_t> value{0};
  };
  std::vector<counter> counters(Lines);
  const std::size_t threads = spec.threads.size();
  auto result = group.run([&](unsigned index, auto& hand) {
    hand.start();
    for (std::uint64_t n = model_share(spec, index, threads); n != 0; --n) {
      for (counter& c : counters) {
        c.value.fetch_add(1, std::memory_order_relaxed);
        hand.delay();
      }
    }
  });
  result.items = spec.items;
  for (const counter& c : counters)
    if (c.value.load(std::memory_order_relaxed) != spec.items) result.error = "a fetch-add was lost";
  return result;
}

/// Two threads that answer each other through one word. An item is a step of one of them.
template <class ThreadGroup>
auto sim_ping_pong(const sim_spec& spec) {
  ThreadGroup group(spec);
  struct alignas(isolation_size) {
    sync::atomic<std::uint64_t> step{0};
  } word;
  auto result = group.run([&](unsigned index, auto& hand) {
    hand.start();
    for (std::uint64_t n = index; n < spec.items; n += 2) {
      while (word.step.load(std::memory_order_acquire) != n) {
      }
      word.step.store(n + 1, std::memory_order_release);
    }
  });
  result.items = spec.items;
  if (word.step.load(std::memory_order_relaxed) != spec.items) result.error = "a step was lost";
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
