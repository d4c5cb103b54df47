// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// compare.hpp: sends the same orders to exchanges that are shared in several ways, and compares the results.
//
// The results are identical, however the threads are interleaved. Each instrument belongs to one client, which sends
// its orders in the order of the file; so a book sees the same orders in every run, and gives the same answers. All
// clients change accounts and totals, but only by sums, which do not depend on the order.
#pragma once

#include "exchange.hpp"
#include "orders.hpp"

#include <muster/base/arch.hpp>  // line_size
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace order_book {

struct outcome {
  std::vector<std::uint32_t> answers;  // by row
  std::vector<std::uint64_t> state;    // of the exchange
  totals sums;
  std::uint64_t resting = 0;
  std::string broken;  // an invariant that does not hold
  double seconds = 0;
};

/// A sender of orders. A client has its messages in its own memory, and decodes them itself, as the gateways of an
/// exchange do. It has its own cache lines, because it is written all the time.
struct alignas(muster::line_size) client {
  struct message {
    std::uint32_t row;
    std::uint32_t length;
  };
  std::vector<message> messages;
  std::string text;  // of all messages, one after the other
  std::vector<std::uint32_t> answers;
};

/// Deals the instruments out. Clients beyond the number of instruments get nothing.
inline std::vector<client> deal(const order_file& orders, std::size_t clients) {
  std::vector<client> all(clients);
  for (std::uint32_t row = 0; row != orders.size(); ++row) {
    client& c = all[orders.instrument(row) % clients];
    c.messages.push_back({row, static_cast<std::uint32_t>(orders.line(row).size())});
    c.text += orders.line(row);
  }
  for (client& c : all) c.answers.resize(c.messages.size());
  return all;
}

/// Sends all orders from `fibers` fibers on each of `threads` threads. `apply(f)` must execute f(exchange) as if under
/// a lock.
template <class Apply>
void send_orders(const order_file& orders, unsigned threads, unsigned fibers, outcome& result, Apply&& apply) {
  std::vector<client> clients = deal(orders, std::size_t{threads} * fibers);
  const auto start = std::chrono::steady_clock::now();
  // [clients]
  muster::run_team({.carriers = threads, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
    client& mine = clients[fiber * threads + carrier];
    std::string_view text = mine.text;
    for (std::size_t i = 0; i != mine.messages.size(); ++i) {
      const auto [row, length] = mine.messages[i];
      const order next = orders.decode_row(row, text.substr(0, length));  // outside the operation, so no client waits
      text.remove_prefix(length);
      mine.answers[i] = apply([&next](exchange& all) { return all.handle(next); });
    }
  });
  // [/clients]
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.answers.resize(orders.size());
  for (const client& c : clients)
    for (std::size_t i = 0; i != c.messages.size(); ++i) result.answers[c.messages[i].row] = c.answers[i];
}

inline void look_at(const exchange& all, outcome& result) {
  result.state = all.state();
  result.sums = all.sums();
  result.resting = all.resting();
  result.broken = all.check();
}

inline outcome run_sequentially(const order_file& orders, unsigned threads, unsigned fibers) {
  exchange all(orders.instruments(), orders.accounts(), orders.size());
  outcome result;
  send_orders(orders, threads, fibers, result, [&](auto f) { return f(all); });
  look_at(all, result);
  return result;
}

// [methods]
inline outcome run_with_mutex(const order_file& orders, unsigned threads, unsigned fibers) {
  exchange all(orders.instruments(), orders.accounts(), orders.size());
  std::mutex mutex;
  outcome result;
  send_orders(orders, threads, fibers, result, [&](auto f) {
    const std::lock_guard lock(mutex);
    return f(all);
  });
  look_at(all, result);
  return result;
}

inline outcome run_with_osci(const order_file& orders, unsigned threads, unsigned fibers) {
  muster::osci<exchange> all({}, orders.instruments(), orders.accounts(), orders.size());
  outcome result;
  send_orders(orders, threads, fibers, result, [&](auto f) { return all.apply(f); });
  all.apply([&result](exchange& e) { look_at(e, result); });
  return result;
}
// [/methods]

struct method {
  std::string name;
  unsigned threads;
  unsigned fibers;  // of each thread
  outcome (*run)(const order_file&, unsigned threads, unsigned fibers);
};

struct comparison {
  outcome reference;  // the result of the first, untimed run
  struct runs {
    std::vector<double> seconds;
    std::uint64_t digest = 0;  // of the last run
  };
  std::vector<runs> methods;  // in their order
  std::string difference;     // empty when all results were equal
};

/// The first error in a result, as a message; empty if the result equals the reference.
inline std::string difference(const outcome& reference, const outcome& result, const std::string& name) {
  if (!result.broken.empty()) return "the exchange of '" + name + "' is broken: " + result.broken;
  for (std::size_t row = 0; row != reference.answers.size(); ++row)
    if (result.answers.at(row) != reference.answers[row])
      return "'" + name + "' answers " + std::to_string(result.answers[row]) + " to order " + std::to_string(row + 1) +
             ", and the reference " + std::to_string(reference.answers[row]);
  if (result.state != reference.state) return "the exchange of '" + name + "' ends in another state than the reference";
  return {};
}

/// A number for all answers and the whole state.
inline std::uint64_t digest(const outcome& result) {
  std::uint64_t h = result.answers.size();
  const auto mix = [&h](std::uint64_t value) {
    h = (h ^ value) * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
  };
  for (const std::uint32_t answer : result.answers) mix(answer);
  for (const std::uint64_t word : result.state) mix(word);
  return h;
}

/// Runs each method `repeats` times; the first one also makes an untimed run, the reference for the results. The
/// methods take turns, in a new random order each round, so that a slow moment of the machine does not always hit the
/// same one.
inline comparison compare_methods(const std::vector<method>& methods, const order_file& orders, std::size_t repeats) {
  comparison result;
  const auto run = [&](const method& how) { return how.run(orders, how.threads, how.fibers); };
  result.reference = run(methods.front());
  result.difference = difference(result.reference, result.reference, methods.front().name);  // the invariants
  result.methods.resize(methods.size());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i != methods.size(); ++i) order.push_back(i);
  std::mt19937 random(1);
  for (std::size_t round = 0; round != repeats; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t which : order) {
      if (!result.difference.empty()) return result;
      const outcome one = run(methods[which]);
      result.difference = difference(result.reference, one, methods[which].name);
      result.methods[which].seconds.push_back(one.seconds);
      result.methods[which].digest = digest(one);
    }
  }
  return result;
}

/// The median; the mean of the middle two when the number of values is even.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace order_book
