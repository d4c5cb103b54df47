// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// programs.hpp: programs that run on real threads and on simulated ones, from one text. A file that is compiled without
// MUSTER_SIMULATION has them over the real atomics and the crew `measured`, one with it over the simulated ones and the
// crew `simulated`.
//
// Crew(const model_spec&)           prepares; objects are made and ended while it lives
// Crew::run(threads, body)          calls body(index, hand) on each thread; returns the time that it has taken
// hand.delay()                      works from least_work to most_work nanoseconds without touching shared memory
#pragma once

#include "driver/contender.hpp"
#include "driver/item.hpp"
#include "driver/wait.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// How many of the items are this thread's.
inline std::uint64_t model_share(const model_spec& spec, unsigned index, std::size_t among) {
  return spec.items / among + (index < spec.items % among ? 1 : 0);
}

/// Each thread pushes an item and takes one, as in Figure 8 of the FFQ paper. Q(const model_spec&), and
/// Q::handle(Q&, unsigned), or else Q, with push(item) and item pop(), which waits.
template <class Crew, class Q>
outcome model_pairs(const model_spec& spec) {
  Crew crew(spec);
  const auto threads = static_cast<unsigned>(spec.threads.size());
  std::vector<receipt> receipts(threads, receipt(threads));
  std::vector<std::uint64_t> sent(threads);
  for (unsigned i = 0; i < threads; ++i) sent[i] = model_share(spec, i, threads);
  const auto queue = std::make_unique<Q>(spec);
  outcome result = crew.run([&](unsigned index, auto& hand) {
    decltype(auto) mine = handle_of(*queue, index);
    receipt own(threads);
    hand.start();
    for (std::uint64_t n = 1; n <= sent[index]; ++n) {
      mine.push(make_item(index, n));
      hand.delay();
      own.add(mine.pop());
      hand.delay();
    }
    receipts[index] = own;
  });
  result.items = spec.items;
  result.error = judge(receipts, sent, true).error;
  return result;
}

/// Items from the first threads to the others, through a queue of the library.
template <class Crew, class Queue>
outcome model_stream(const model_spec& spec) {
  Crew crew(spec);
  const unsigned producers = spec.producers;
  const auto consumers = static_cast<unsigned>(spec.threads.size()) - producers;
  std::vector<receipt> receipts(consumers, receipt(producers));
  std::vector<std::uint64_t> sent(producers);
  for (unsigned i = 0; i < producers; ++i) sent[i] = model_share(spec, i, producers);
  const auto queue = std::make_unique<Queue>(spec.capacity);
  struct alignas(isolation_size) {
    sync::atomic<unsigned> count{0};
  } done;
  outcome result = crew.run([&](unsigned index, auto& hand) {
    hand.start();
    if (index < producers) {
      for (std::uint64_t n = 1; n <= sent[index]; ++n) queue->push(make_item(index, n));
      if (done.count.fetch_add(1, std::memory_order_acq_rel) + 1 == producers) queue->close();
    } else {
      receipt own(producers);
      while (const auto value = queue->pop()) own.add(*value);
      receipts[index - producers] = own;
    }
  });
  result.items = spec.items;
  result.error = judge(receipts, sent, true).error;
  return result;
}

/// A request and its answer, again and again, many under way at once: between the first thread and the second.
/// Requests(const model_spec&) with push(item), end(), and std::optional<item> pop(), which waits and has no value at
/// the end; Answers(const model_spec&) with push(item) and std::optional<item> try_pop(). No push waits for ever while
/// the capacity of one of them is under way.
template <class Crew, class Requests, class Answers>
outcome model_exchange(const model_spec& spec) {
  Crew crew(spec);
  std::vector<receipt> receipts(1, receipt(1));
  const auto requests = std::make_unique<Requests>(spec);
  const auto answers = std::make_unique<Answers>(spec);
  outcome result = crew.run([&](unsigned index, auto& hand) {
    hand.start();
    if (index != 0) {
      while (const auto value = requests->pop()) answers->push(*value);
      return;
    }
    receipt own(1);
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
    receipts[0] = own;
  });
  result.items = spec.items;
  result.error = judge(receipts, {spec.items}, true).error;
  return result;
}

/// Nothing but a fetch-add by each thread, `Lines` counters in turn.
template <class Crew, unsigned Lines>
outcome model_fetch_add(const model_spec& spec) {
  Crew crew(spec);
  struct alignas(isolation_size) counter {
    sync::atomic<std::uint64_t> value{0};
  };
  std::vector<counter> counters(Lines);
  const std::size_t threads = spec.threads.size();
  outcome result = crew.run([&](unsigned index, auto& hand) {
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
template <class Crew>
outcome model_ping_pong(const model_spec& spec) {
  Crew crew(spec);
  struct alignas(isolation_size) {
    sync::atomic<std::uint64_t> step{0};
  } word;
  outcome result = crew.run([&](unsigned index, auto& hand) {
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
