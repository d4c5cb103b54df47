// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Random programs of forks, scopes, loops, locks and exceptions, several at once in one pool: every part is executed
// once, and the outcome is that of the serial program. Also with a signal every millisecond.
#include <gtest/gtest.h>
#include <sys/time.h>
#include <muster/fork.hpp>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "scale.hpp"

namespace {

using muster_test::scaled;

/// The way in which a node of the program executes its parts. Each node has a number.
enum class kind { leaf, fork, context_fork, scope, loop, fixed_loop, locked };

struct node {
  kind what = kind::leaf;
  bool bad = false;  // throws its number after its parts
  std::uint64_t number = 0;
  std::vector<node> parts;
};

node random_program(std::mt19937_64& random, std::uint64_t& numbers, unsigned size, unsigned bad_in_thousand) {
  node made;
  made.number = ++numbers;
  made.bad = random() % 1000 < bad_in_thousand;
  if (size <= 1) return made;
  constexpr std::array kinds = {kind::fork, kind::fork,       kind::context_fork, kind::scope,
                                kind::loop, kind::fixed_loop, kind::locked};
  made.what = kinds[random() % kinds.size()];
  const bool forks = made.what == kind::fork || made.what == kind::context_fork || made.what == kind::locked;
  const unsigned many = forks ? 2 : 1 + static_cast<unsigned>(random() % 8);
  for (unsigned part = 0; part < many; ++part) {
    const unsigned share =
        made.what == kind::fork && random() % 4 == 0 ? (part == 0 ? size - 2 : 1) : (size - 1) / many;
    made.parts.push_back(random_program(random, numbers, share, bad_in_thousand));
  }
  return made;
}

struct outcome {
  std::uint64_t value = 0;
  std::uint64_t thrown = 0;  // the number of the node
  bool operator==(const outcome&) const = default;
};

std::uint64_t combined(std::uint64_t a, std::uint64_t b) { return a * 1'000'003 + b; }  // not commutative

std::uint64_t serially(const node& n) {
  std::uint64_t value = n.number, thrown = 0;
  for (const node& part : n.parts) {
    try {
      value = combined(value, serially(part));
    } catch (const std::uint64_t number) {
      if (n.what != kind::scope) throw;
      if (thrown == 0) thrown = number;  // the other asyncs are executed all the same
    }
  }
  if (thrown != 0) throw thrown;
  if (n.bad) throw n.number;
  return value;
}

class execution {
 public:
  explicit execution(std::size_t nodes) : counts_(nodes + 1) {}

  std::uint64_t run(const node& n, muster::context here) {
    counts_[n.number].fetch_add(1, std::memory_order_relaxed);
    std::uint64_t value = n.number;
    const auto both = [&](const auto& pair) { value = combined(combined(value, pair.first), pair.second); };
    const auto part = [&](std::size_t i) {
      return muster::fork2([&](muster::context now) { return run(n.parts[i], now); }, [] {}).first;
    };
    switch (n.what) {
      case kind::leaf: break;
      case kind::locked: {
        // While it waits for the lock, the other half runs no part of this one, so it cannot deadlock.
        std::mutex mutex;
        const std::lock_guard lock(mutex);
        both(muster::fork2([&] { return part(0); }, [&] { return part(1); }));
        break;
      }
      case kind::fork: both(muster::fork2([&] { return part(0); }, [&] { return part(1); })); break;
      case kind::context_fork:
        both(here.fork2([&](muster::context now) { return run(n.parts[0], now); },
                        [&](muster::context now) { return run(n.parts[1], now); }));
        break;
      case kind::scope: {
        std::vector<std::uint64_t> values(n.parts.size());
        muster::finish([&](auto& scope) {
          for (std::size_t i = 0; i < n.parts.size(); ++i)
            scope.async([&, i](muster::context now) { values[i] = run(n.parts[i], now); });
        });
        for (const std::uint64_t one : values) value = combined(value, one);
        break;
      }
      case kind::loop: {
        std::vector<std::uint64_t> values(n.parts.size());
        muster::parallel_for(std::size_t{0}, n.parts.size(), [&](std::size_t i) { values[i] = part(i); }, {.grain = 1});
        for (const std::uint64_t one : values) value = combined(value, one);
        break;
      }
      case kind::fixed_loop: {
        // Lists are put together from left to right.
        using list = std::vector<std::uint64_t>;
        const auto join = [](list a, const list& b) {
          a.insert(a.end(), b.begin(), b.end());
          return a;
        };
        const list values =
            muster::parallel_reduce(std::size_t{0}, n.parts.size(), list(), join,
                                    [&](std::size_t i) { return list{part(i)}; }, {.grain = 1, .fixed = true});
        for (const std::uint64_t one : values) value = combined(value, one);
        break;
      }
    }
    if (n.bad) throw n.number;
    return value;
  }
  bool once_each() const {
    for (std::size_t i = 1; i < counts_.size(); ++i)
      if (counts_[i].load(std::memory_order_relaxed) != 1) return false;
    return true;
  }
  bool at_most_once_each() const {
    for (const auto& count : counts_)
      if (count.load(std::memory_order_relaxed) > 1) return false;
    return true;
  }

 private:
  std::vector<std::atomic<std::uint32_t>> counts_;
};

outcome outcome_of(const std::function<std::uint64_t()>& program) {
  try {
    return {.value = program(), .thrown = 0};
  } catch (const std::uint64_t number) {
    return {.value = 0, .thrown = number};
  }
}

void storm(muster::pool& in, std::uint64_t seed, unsigned bad_in_thousand) {
  std::mt19937_64 random(seed);
  std::uint64_t nodes = 0;
  const node program = random_program(random, nodes, static_cast<unsigned>(4 + random() % 400), bad_in_thousand);
  const outcome expected = outcome_of([&] { return serially(program); });
  execution parallel(nodes);
  const outcome got =
      outcome_of([&] { return in.run([&](muster::context here) { return parallel.run(program, here); }); });
  EXPECT_EQ(got.value, expected.value) << "seed " << seed;
  EXPECT_EQ(got.thrown, expected.thrown) << "seed " << seed;
  EXPECT_TRUE(parallel.at_most_once_each()) << "seed " << seed;
  if (expected.thrown == 0) {
    EXPECT_TRUE(parallel.once_each()) << "seed " << seed;
  }
}

void storms(const muster::pool_options& options, std::size_t many) {
  muster::pool in(options);
  for (std::uint64_t seed = 1; seed <= many; ++seed) storm(in, seed, seed % 3 == 0 ? 0 : seed % 3 == 1 ? 4 : 60);
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&in, t, many] {
      for (std::uint64_t seed = 1; seed <= many / 2; ++seed) storm(in, t * 100'000 + seed, t == 1 ? 0 : 10);
    });
}

TEST(storms_of_forks, in_small_pools) {
  storms({.workers = 1}, scaled(200));
  storms({.workers = 2}, scaled(400));
  storms({.workers = 3}, scaled(400));
}

TEST(storms_of_forks, in_which_everything_is_published) {
  storms({.workers = 2, .publish_always = true}, scaled(400));
  storms({.workers = 5, .publish_always = true}, scaled(400));
}

TEST(storms_of_forks, in_a_pool_of_many) { storms({.workers = 64}, scaled(100)); }

std::atomic<std::uint64_t> signals{0};

TEST(storms_of_forks, with_a_signal_every_millisecond) {
  struct sigaction profile{};
  profile.sa_handler = [](int) { signals.fetch_add(1, std::memory_order_relaxed); };
  profile.sa_flags = SA_RESTART;
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGPROF, &profile, &before), 0);
  const itimerval often{{0, 1000}, {0, 1000}};
  ASSERT_EQ(::setitimer(ITIMER_PROF, &often, nullptr), 0);
  while (signals < 50) storms({.workers = 4, .publish_always = true}, scaled(100));
  const itimerval never{};
  ASSERT_EQ(::setitimer(ITIMER_PROF, &never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGPROF, &before, nullptr), 0);
}

}  // namespace
