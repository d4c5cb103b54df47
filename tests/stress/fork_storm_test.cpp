// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Random programs of forks, scopes, loops, futures, groups, graphs, pipelines, locks and exceptions, nested in each
// other and several at once in one pool: every part is executed once, and the outcome is that of the serial program.
// Also with a signal every millisecond.
//
// MUSTER_RANDOM_SEED      the programs are those of this seed
// MUSTER_RANDOM_PROGRAMS  times as many programs as usual
#include <gtest/gtest.h>
#include <sys/time.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "scale.hpp"

namespace {

using muster_test::scaled;

/// The way in which a node of the program executes its parts. Each node has a number.
enum class kind { leaf, fork, context_fork, scope, loop, fixed_loop, locked, futures, group, graph, pipeline };

struct node {
  kind what = kind::leaf;
  bool bad = false;  // throws its number after its parts
  std::uint64_t number = 0;
  std::vector<node> parts;
  std::vector<std::vector<std::size_t>> before{};  // of each part of a graph
};

node random_program(std::mt19937_64& random, std::uint64_t& numbers, unsigned size, unsigned bad_in_thousand) {
  node made;
  made.number = ++numbers;
  made.bad = random() % 1000 < bad_in_thousand;
  if (size <= 1) return made;
  constexpr std::array kinds = {kind::fork,  kind::fork,       kind::context_fork, kind::scope,
                                kind::loop,  kind::fixed_loop, kind::locked,       kind::futures,
                                kind::group, kind::graph,      kind::pipeline};
  made.what = kinds[random() % kinds.size()];
  const bool forks = made.what == kind::fork || made.what == kind::context_fork || made.what == kind::locked;
  const unsigned many = forks ? 2 : 1 + static_cast<unsigned>(random() % 8);
  for (unsigned part = 0; part < many; ++part) {
    const unsigned share =
        made.what == kind::fork && random() % 4 == 0 ? (part == 0 ? size - 2 : 1) : (size - 1) / many;
    made.parts.push_back(random_program(random, numbers, share, bad_in_thousand));
    if (made.what != kind::graph) continue;
    made.before.emplace_back();
    for (unsigned edges = static_cast<unsigned>(random() % 3); part != 0 && edges != 0; --edges)
      made.before[part].push_back(random() % part);
  }
  return made;
}

struct outcome {
  std::uint64_t value = 0;
  std::uint64_t thrown = 0;  // the number of the node
  bool operator==(const outcome&) const = default;
};

std::uint64_t combined(std::uint64_t a, std::uint64_t b) { return a * 1'000'003 + b; }  // not commutative

/// True if parts are executed although another part has thrown.
bool executes_all(kind what) {
  return what == kind::scope || what == kind::futures || what == kind::group || what == kind::graph;
}

std::uint64_t serially(const node& n) {
  std::uint64_t value = n.number, thrown = 0;
  std::vector<bool> failed(n.parts.size());
  for (std::size_t i = 0; i < n.parts.size(); ++i) {
    if (n.what == kind::graph)  // what follows a failed part is skipped
      failed[i] = std::ranges::any_of(n.before[i], [&](std::size_t k) { return failed[k]; });
    if (failed[i]) continue;
    try {
      value = combined(value, serially(n.parts[i]));
    } catch (const std::uint64_t number) {
      if (!executes_all(n.what)) throw;
      failed[i] = true;
      if (thrown == 0) thrown = number;
    }
  }
  if (thrown != 0) throw thrown;
  if (n.bad) throw n.number;
  return value;
}

class execution {
 public:
  execution(muster::pool& in, std::size_t nodes) : pool_(in), counts_(nodes + 1) {}

  std::uint64_t run(const node& n, muster::context here) {
    counts_[n.number].fetch_add(1, std::memory_order_relaxed);
    std::uint64_t value = n.number;
    const auto both = [&](const auto& pair) { value = combined(combined(value, pair.first), pair.second); };
    const auto all = [&](const std::vector<std::uint64_t>& values) {
      for (const std::uint64_t one : values) value = combined(value, one);
    };
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
        all(values);
        break;
      }
      case kind::loop: {
        std::vector<std::uint64_t> values(n.parts.size());
        muster::parallel_for(std::size_t{0}, n.parts.size(), [&](std::size_t i) { values[i] = part(i); }, {.grain = 1});
        all(values);
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
        all(values);
        break;
      }
      case kind::futures: {
        std::vector<muster::future<std::uint64_t>> values;
        for (const node& one : n.parts)
          values.push_back(pool_.submit([&](muster::context now) { return run(one, now); }));
        all(muster::when_all(std::move(values)).get());
        break;
      }
      case kind::group: all(in_group(n)); break;
      case kind::graph: {
        std::vector<std::uint64_t> values(n.parts.size());
        muster::task_graph graph;
        std::vector<muster::task_node> nodes;
        for (std::size_t i = 0; i < n.parts.size(); ++i) {
          nodes.push_back(graph.add([&, i](muster::context now) { values[i] = run(n.parts[i], now); }));
          for (const std::size_t k : n.before[i]) nodes[k].precede(nodes[i]);
        }
        graph.run(pool_);
        all(values);
        break;
      }
      case kind::pipeline:
        muster::pipeline(pool_, {.in_flight = 1 + n.number % 5}, muster::serial([&, i = std::size_t{0}]() mutable {
                           return i == n.parts.size() ? std::nullopt : std::optional(i++);
                         }),
                         muster::parallel(part), muster::serial([&](std::uint64_t one) { all({one}); }))
            .run();
        break;
    }
    if (n.bad) throw n.number;
    return value;
  }
  /// The group rethrows any of its exceptions; the serial program, the leftmost.
  std::vector<std::uint64_t> in_group(const node& n) {
    std::vector<std::uint64_t> values(n.parts.size()), thrown(n.parts.size());
    std::uint64_t rethrown = 0;
    muster::task_group group(pool_);
    for (std::size_t i = 0; i < n.parts.size(); ++i)
      group.run([&, i](muster::context now) {
        try {
          values[i] = run(n.parts[i], now);
        } catch (const std::uint64_t number) {
          thrown[i] = number;
          throw;
        }
      });
    try {
      group.wait();
    } catch (const std::uint64_t number) {
      rethrown = number;
    }
    const auto leftmost = std::ranges::find_if(thrown, [](std::uint64_t number) { return number != 0; });
    if (leftmost == thrown.end()) {
      EXPECT_EQ(rethrown, 0U);
      return values;
    }
    EXPECT_NE(std::ranges::find(thrown, rethrown), thrown.end());
    throw *leftmost;
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
  muster::pool& pool_;
  std::vector<std::atomic<std::uint32_t>> counts_;
};

outcome outcome_of(const std::function<std::uint64_t()>& program) {
  try {
    return {.value = program(), .thrown = 0};
  } catch (const std::uint64_t number) {
    return {.value = 0, .thrown = number};
  }
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::atomic<std::uint64_t> executed{0};

class reporter final : public ::testing::Environment {
  void TearDown() override { std::printf("%llu random programs\n", static_cast<unsigned long long>(executed)); }
};
[[maybe_unused]] const auto* const reports = ::testing::AddGlobalTestEnvironment(new reporter);

void storm(muster::pool& in, std::uint64_t seed, unsigned bad_in_thousand) {
  std::mt19937_64 random(seed);
  std::uint64_t nodes = 0;
  const node program = random_program(random, nodes, static_cast<unsigned>(4 + random() % 400), bad_in_thousand);
  const outcome expected = outcome_of([&] { return serially(program); });
  execution parallel(in, nodes);
  const outcome got =
      outcome_of([&] { return in.run([&](muster::context here) { return parallel.run(program, here); }); });
  EXPECT_EQ(got.value, expected.value) << "seed " << seed;
  EXPECT_EQ(got.thrown, expected.thrown) << "seed " << seed;
  EXPECT_TRUE(parallel.at_most_once_each()) << "seed " << seed;
  if (expected.thrown == 0) {
    EXPECT_TRUE(parallel.once_each()) << "seed " << seed;
  }
  ++executed;
}

/// No two programs of a process have the same seed.
void storms(const muster::pool_options& options, std::size_t usual) {
  static std::uint64_t next = 1 + from_environment("MUSTER_RANDOM_SEED", 0) * 10'000'000;
  const std::uint64_t many = usual * from_environment("MUSTER_RANDOM_PROGRAMS", 1);
  muster::pool in(options);
  const std::uint64_t first = std::exchange(next, next + many);
  for (std::uint64_t i = 0; i < many; ++i) storm(in, first + i, i % 3 == 0 ? 0 : i % 3 == 1 ? 4 : 60);
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 1; t <= 3; ++t)
    threads.emplace_back([&in, t, half = many / 2, begin = std::exchange(next, next + many / 2)] {
      for (std::uint64_t i = 0; i < half; ++i) storm(in, begin + i, t == 1 ? 0 : 10);
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
