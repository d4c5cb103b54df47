// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The clocks of simulated threads, worked out by hand on a machine with round numbers, and programs of which each item
// must arrive once. Compiled with MUSTER_SIMULATION.
#include "sim/cache/engine.hpp"
#include "small_machine.hpp"

#include <muster/base/arch.hpp>
#include <muster/base/sync.hpp>
#include <muster/fiber/fiber.hpp>
#include <muster/queue/mpmc.hpp>
#include <muster/queue/spsc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>

namespace {

using muster::isolation_size;
using muster::sync::atomic;
using muster::sync::cell;
using namespace muster_simulation;

struct alignas(isolation_size) counter {
  atomic<std::uint64_t> value{0};
};

std::vector<unsigned> first(unsigned threads) {
  std::vector<unsigned> all(threads);
  for (unsigned i = 0; i < threads; ++i) all[i] = i;
  return all;
}

/// How long each of several pieces of one thread takes, alone.
template <class... Pieces>
std::vector<picoseconds> durations(Pieces... pieces) {
  engine here(small_machine(), 1);
  std::vector<picoseconds> found;
  here.run({0}, [&](unsigned) {
    const auto timed = [&](auto& piece) {
      const picoseconds begin = here.now();
      piece();
      found.push_back(here.now() - begin);
    };
    (timed(pieces), ...);
  });
  return found;
}

std::string why_not(const std::vector<unsigned>& threads, const std::function<void(unsigned)>& body) {
  engine here(small_machine(), 1);
  try {
    here.run(threads, body);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "it went well";
}

TEST(clock, of_one_thread) {
  counter a;
  counter b;
  using times = std::vector<picoseconds>;
  EXPECT_EQ(durations([&] { a.value.load(); }, [&] { a.value.load(); }, [&] { a.value.fetch_add(1); },
                      [&] { b.value.fetch_add(1); }, [] { muster::sync::relax(); }, [] { muster::sync::yield(); },
                      [] { muster::sync::full_fence(); }, [] { muster::sync::heavy_fence(); }),
            (times{200'000, 1'000, 7'000, 206'000, 10'000, 300'000, 3'000, 1'000'000}));
}

TEST(clock, of_a_switch_to_another_fiber_and_back) {
  picoseconds took = 0;
  engine here(small_machine(), 1);
  here.run({0}, [&](unsigned) {
    bool stop = false;
    const muster::fiber other([&] {
      while (!stop) muster::this_fiber::yield();
    });
    const picoseconds begin = here.now();
    muster::this_fiber::yield();
    took = here.now() - begin;
    stop = true;
  });
  EXPECT_EQ(took, 8'000U);
}

TEST(fibers, belong_to_one_simulated_thread_each) {
  engine here(small_machine(), 1);
  std::array<std::uint64_t, 3> most{};
  unsigned wrong = 0;
  here.run(first(3), [&](unsigned thread) {
    std::vector<muster::fiber> all;
    for (unsigned f = 0; f <= thread; ++f)
      all.emplace_back([&, thread] {
        for (unsigned turn = 0; turn < 20; ++turn) {
          wrong += here.current() == thread ? 0 : 1;
          most[thread] = std::max(most[thread], muster::this_fiber::number());
          here.work(1'000 * (thread + 1));
          muster::this_fiber::yield();
        }
      });
  });
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(most, (std::array<std::uint64_t, 3>{1, 2, 3}));
}

TEST(clock, continues_while_stores_wait_for_their_lines) {
  std::array<counter, 4> all;
  const auto store = [&](unsigned i) { return [&all, i] { all[i].value.store(1, std::memory_order_release); }; };
  // Two may wait; both lines arrive after 200 ns, the second a nanosecond later, as it was asked for later.
  using times = std::vector<picoseconds>;
  EXPECT_EQ(durations(store(0), store(1), store(2)), (times{1'000, 1'000, 199'000}));
  EXPECT_EQ(durations(store(0), [&] { all[1].value.fetch_add(1); }), (times{1'000, 405'000}))
      << "a read-modify-write waits for the buffer, and then for its own line";
  EXPECT_EQ(durations(store(0), [] { muster::sync::full_fence(); }), (times{1'000, 202'000}));
  EXPECT_EQ(durations([&] { all[0].value.store(1); }), (times{206'000})) << "sequentially consistent: an exchange";
}

TEST(clock, lines_that_all_want_travel_one_after_another) {
  engine here(small_machine(), 1);
  counter shared;
  std::vector<picoseconds> begins(4);
  std::vector<picoseconds> ends(4);
  std::vector<unsigned> order(4);
  here.run(first(4), [&](unsigned i) {
    begins[i] = here.now();
    order[shared.value.fetch_add(1)] = i;
    ends[i] = here.now();
  });
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(), [&](auto a, auto b) { return begins[a] < begins[b]; }));
  picoseconds expected = begins[order[0]] + 206'000;
  EXPECT_EQ(ends[order[0]], expected);
  for (unsigned i = 1; i < 4; ++i) {
    const bool near = order[i] / 2 == order[i - 1] / 2;  // cores 0 and 1 are a cluster, 2 and 3 the other
    expected += near ? 56'000U : 106'000U;
    EXPECT_EQ(ends[order[i]], expected) << "place " << i;
  }
}

TEST(clock, the_owner_of_a_line_continues_until_a_request_arrives) {
  engine here(small_machine(), 1);
  counter shared;
  constexpr std::uint64_t each = 1000;
  const report seen = here.run({0, 1}, [&](unsigned) {
    for (std::uint64_t n = 0; n < each; ++n) shared.value.fetch_add(1);
  });
  // Half of the 50 ns are time for three or four more, of 7 ns each.
  EXPECT_GE(seen.lines.transfers(), 2 * each / 5);
  EXPECT_LE(seen.lines.transfers(), 2 * each / 4);
  EXPECT_EQ(shared.value.load(), 2 * each);
}

TEST(clock, copies_that_are_only_read_come_side_by_side) {
  engine here(small_machine(), 1);
  counter shared;
  std::vector<picoseconds> ends(4);
  picoseconds written = 0;
  here.run(first(4), [&](unsigned i) {
    if (i == 0) {
      shared.value.fetch_add(1);
      written = here.now();
    }
    here.work(1'000'000 - here.now());
    if (i != 0) shared.value.load();
    ends[i] = here.now();
  });
  EXPECT_LT(written, 1'000'000U);
  // The first fetches it from the core that wrote; the others from a shared cache, or from the other cluster.
  EXPECT_EQ(ends[1], 1'050'000U);
  EXPECT_EQ(ends[2], 1'150'000U);
  EXPECT_LE(ends[3], ends[2]);
}

TEST(clock, threads_of_one_core_share_its_caches) {
  engine here(small_machine(), 1);
  counter shared;
  const report seen = here.run({0, 4}, [&](unsigned) { shared.value.fetch_add(1); });
  EXPECT_EQ(seen.lines.transfers(), 0U);
  EXPECT_EQ(seen.lines.at(place::memory), 1U);
  EXPECT_EQ(seen.lines.at(place::l1), 1U);
}

TEST(clock, plain_data_is_written_when_it_has_changed) {
  engine here(small_machine(), 1);
  struct alignas(isolation_size) apart {
    cell<std::uint64_t> item{0U};
  };
  apart item;
  counter ready;
  const report seen = here.run({0, 1}, [&](unsigned i) {
    if (i == 0) {
      item.item.write_ref() = 5;  // memory
      ready.value.store(1, std::memory_order_release);
      return;
    }
    here.work(1'000'000);
    while (ready.value.load() == 0) muster::sync::relax();
    EXPECT_EQ(item.item.write_ref(), 5U);  // a transfer, and both may read it
    here.work(0);
    EXPECT_EQ(item.item.read_ref(), 5U);  // a hit
  });
  EXPECT_EQ(seen.lines.invalidations, 0U) << "a load does not invalidate the line";
  EXPECT_EQ(seen.lines.at(place::memory), 2U);
  EXPECT_EQ(seen.lines.transfers(), 2U);
}

TEST(clock, a_sleeper_continues_after_it_has_been_woken) {
  engine here(small_machine(), 1);
  atomic<std::uint32_t> word{0};
  picoseconds woken_at = 0;
  picoseconds goes_on = 0;
  const auto process = muster::futex_scope::process;
  const report seen = here.run({0, 1}, [&](unsigned i) {
    if (i == 0) {
      while (word.load() == 0) muster::sync::futex_wait(word, 0, 1, muster::no_deadline, process);
      goes_on = here.now();
    } else {
      here.work(20'000'000);
      word.store(1);
      EXPECT_EQ(muster::sync::futex_wake(word, 1, 2, process), 0) << "no thread waits for that bit";
      EXPECT_EQ(muster::sync::futex_wake(word, 1, 1, process), 1);
      woken_at = here.now();
      EXPECT_EQ(muster::sync::futex_wait(word, 0, 1, muster::no_deadline, process), muster::futex_reason::changed);
    }
  });
  EXPECT_EQ(seen.sleeps, 1U);
  EXPECT_GE(goes_on, woken_at + 5'000'000);
}

TEST(simulation, names_the_thread_that_sleeps_forever) {
  atomic<std::uint32_t> word{0};
  EXPECT_EQ(why_not({0, 1},
                    [&](unsigned i) {
                      if (i == 0) word.load();
                      else muster::sync::futex_wait(word, 0, 1, muster::no_deadline, muster::futex_scope::process);
                    }),
            "a deadlock: no thread can run, and these threads sleep: 1");
}

TEST(simulation, reports_that_all_threads_poll_forever) {
  atomic<std::uint32_t> word{0};
  const std::string why = why_not({0, 1}, [&](unsigned) {
    while (word.load() == 0) muster::sync::relax();
  });
  EXPECT_NE(why.find("they wait for each other forever"), std::string::npos) << why;
}

TEST(simulation, lets_a_thread_work_for_long) {
  atomic<std::uint32_t> word{0};
  const std::string why = why_not({0, 1}, [&](unsigned i) {
    if (i == 0) {
      engine::active().work(4'000'000'000);  // the other looks four million times
      word.store(1);
    }
    while (word.load() == 0) {
    }
  });
  EXPECT_EQ(why, "it went well");
}

TEST(simulation, reports_the_exception_of_a_thread) {
  EXPECT_EQ(why_not({0}, [](unsigned) { throw std::logic_error("a queue is broken"); }),
            "simulated thread 0 has thrown: a queue is broken");
}

TEST(simulation, refuses_threads_that_the_machine_does_not_have) {
  EXPECT_EQ(why_not({8}, [](unsigned) {}), "small has 8 hardware threads, and no thread 8");
  EXPECT_EQ(why_not({}, [](unsigned) {}), "a simulation of no threads: name one at least");
  engine one(small_machine(), 1);
  EXPECT_THROW(engine(small_machine(), 1), std::logic_error);
}

/// Items from half of the threads to the other half. Returns what has been received, and what it has cost.
template <class Queue>
report stream(unsigned threads, std::uint64_t items, std::uint64_t seed, std::multiset<std::uint64_t>& received) {
  engine here(small_machine(), seed);
  Queue queue(4);
  std::uint64_t producers = threads / 2;
  return here.run(first(threads), [&](unsigned i) {
    if (i < threads / 2) {
      for (std::uint64_t n = 0; n < items; ++n) {
        queue.push(i * items + n);
        here.work(here.random() % 100'000);
      }
      if (--producers == 0) queue.close();
    } else {
      while (const auto item = queue.pop()) received.insert(*item);
    }
  });
}

template <class Queue>
void expect_each_item_once(unsigned threads) {
  constexpr std::uint64_t items = 300;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::multiset<std::uint64_t> received;
    const report seen = stream<Queue>(threads, items, seed, received);
    std::multiset<std::uint64_t> sent;
    for (std::uint64_t n = 0; n < threads / 2 * items; ++n) sent.insert(n);
    EXPECT_EQ(received, sent);
    EXPECT_GT(seen.lines.transfers(), 0U);
  }
}

TEST(programs, each_item_arrives_once) {
  expect_each_item_once<muster::spsc_queue<std::uint64_t>>(2);
  expect_each_item_once<muster::mpmc_queue<std::uint64_t>>(2);
  expect_each_item_once<muster::mpmc_queue<std::uint64_t>>(8);
  expect_each_item_once<muster::mpmc_queue<std::uint64_t, muster::layout::packed, muster::wait::park>>(8);
}

TEST(programs, the_same_seed_gives_the_same_counts) {
  std::set<picoseconds> ends;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::multiset<std::uint64_t> received;
    const report once = stream<muster::mpmc_queue<std::uint64_t>>(8, 200, seed, received);
    const std::vector<char> elsewhere(static_cast<std::size_t>(seed * 100'000));  // other addresses
    const report again = stream<muster::mpmc_queue<std::uint64_t>>(8, 200, seed, received);
    EXPECT_EQ(once.end, again.end);
    EXPECT_EQ(once.operations, again.operations);
    EXPECT_EQ(once.sleeps, again.sleeps);
    EXPECT_EQ(once.lines, again.lines);
    ends.insert(once.end);
  }
  EXPECT_EQ(ends.size(), 4U) << "and another seed others";
}

}  // namespace
