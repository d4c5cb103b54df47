// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// While a fiber waits, the others of its thread run: every operation that waits, with a fiber or a thread on the other
// side, on one carrier.
#include <gtest/gtest.h>
#include <muster/muster.hpp>

#include "queue_kinds.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace {

using muster::fiber;
using muster::queue_status;
namespace this_fiber = muster::this_fiber;
using namespace std::chrono_literals;

enum class other { fiber, thread };

/// One waits, as a fiber or as the thread that has fibers; the other acts later: a fiber of the same thread after some
/// turns, or another thread after some time.
class two_sides {
 public:
  explicit two_sides(other who) : who_(who) {}

  template <class Wait, class Act>
  void run(Wait wait, Act act) {
    const auto acts = [&] {
      if (who_ == other::fiber) {
        for (int turns = 0; turns < 40; ++turns) this_fiber::yield();
      } else {
        std::this_thread::sleep_for(200us);
      }
      act();
    };
    bool over = false;
    std::uint64_t turns = 0;
    fiber bystander([&] {
      while (!over) {
        this_fiber::yield();
        ++turns;
      }
    });
    fiber actor;
    std::jthread thread;
    if (who_ == other::fiber) actor = fiber(acts);
    else thread = std::jthread(acts);
    {
      fiber waiter([&] { wait(); });
    }
    over = true;
    bystander.join();
    EXPECT_GE(turns, 1U) << "the bystander has not run";
  }

 private:
  const other who_;
};

template <class Kind>
class waiting_for_a_queue : public ::testing::Test {};
TYPED_TEST_SUITE(waiting_for_a_queue, muster_test::varied_kinds, muster_test::kind_names);

constexpr other both[] = {other::fiber, other::thread};

TYPED_TEST(waiting_for_a_queue, pop_waits_for_a_push) {
  for (const other who : both) {
    typename TypeParam::template of<int> queue(4);
    int got = 0;
    two_sides(who).run([&] { got = *queue.pop(); }, [&] { queue.push(17); });
    EXPECT_EQ(got, 17);
  }
}

TYPED_TEST(waiting_for_a_queue, push_waits_for_a_pop) {
  for (const other who : both) {
    typename TypeParam::template of<int> queue(2);
    ASSERT_EQ(queue.push(1), queue_status::success);
    while (queue.try_push(2) == queue_status::success) continue;
    queue_status pushed = queue_status::closed;
    two_sides(who).run([&] { pushed = queue.push(3); }, [&] { queue.pop(); });
    EXPECT_EQ(pushed, queue_status::success);
  }
}

TYPED_TEST(waiting_for_a_queue, both_wait_for_a_close) {
  for (const other who : both) {
    typename TypeParam::template of<int> empty(2);
    typename TypeParam::template of<int> full(2);
    while (full.try_push(1) == queue_status::success) continue;
    two_sides(who).run([&] { EXPECT_EQ(empty.pop().status(), queue_status::closed); }, [&] { empty.close(); });
    two_sides(who).run([&] { EXPECT_EQ(full.push(2), queue_status::closed); }, [&] { full.close(); });
  }
}

TYPED_TEST(waiting_for_a_queue, with_a_limit) {
  for (const other who : both) {
    typename TypeParam::template of<int> queue(2);
    two_sides(who).run([&] { EXPECT_EQ(queue.pop_for(2ms).status(), queue_status::empty); }, [] {});
    two_sides(who).run([&] { EXPECT_EQ(*queue.pop_for(1h), 5); }, [&] { queue.push(5); });
    std::stop_source stop;
    two_sides(who).run([&] { EXPECT_EQ(queue.pop(stop.get_token()).status(), queue_status::empty); },
                       [&] { stop.request_stop(); });
    while (queue.try_push(1) == queue_status::success) continue;
    two_sides(who).run([&] { EXPECT_NE(queue.push_for(1, 2ms), queue_status::success); }, [] {});
    two_sides(who).run([&] { EXPECT_EQ(queue.push_for(6, 1h), queue_status::success); }, [&] { queue.pop(); });
  }
}

TYPED_TEST(waiting_for_a_queue, many_items_together) {
  for (const other who : both) {
    constexpr int count = 500;
    typename TypeParam::template of<int> queue(4);
    std::vector<int> sent(count);
    for (int i = 0; i < count; ++i) sent[static_cast<std::size_t>(i)] = i;
    std::vector<int> got;
    two_sides(who).run(
        [&] {
          while (got.size() != count) queue.pop_n(std::back_inserter(got), 3);
        },
        [&] { EXPECT_EQ(queue.push_n(sent.begin(), sent.size()), sent.size()); });
    EXPECT_EQ(got, sent);
  }
}

// A stream through a small queue: only the two fibers run, and the thread in join.
TYPED_TEST(waiting_for_a_queue, two_fibers_alone) {
  constexpr std::uint64_t items = 5000;
  typename TypeParam::template of<std::uint64_t> queue(2);
  std::uint64_t next = 1;
  fiber producer([&] {
    for (std::uint64_t i = 1; i <= items; ++i) ASSERT_EQ(queue.push(i), queue_status::success);
    queue.close();
  });
  fiber consumer([&] {
    while (auto item = queue.pop()) ASSERT_EQ(*item, next++);
  });
  consumer.join();
  producer.join();
  EXPECT_EQ(next, items + 1);
}

// The thread itself, between its fibers.
TYPED_TEST(waiting_for_a_queue, the_thread_that_has_fibers) {
  typename TypeParam::template of<int> queue(2);
  fiber producer([&] {
    for (int turns = 0; turns < 40; ++turns) this_fiber::yield();
    queue.push(3);
  });
  EXPECT_EQ(*queue.pop(), 3);
}

// Each fiber has a queue of its own, more than a thread sleeps on at once. Nothing else wakes the thread.
TEST(waiting_fibers, a_thread_sleeps_on_many_words) {
  for (const unsigned many : {1U, 2U, 3U, 64U, 65U, 200U}) {
    std::vector<std::unique_ptr<muster::spsc_queue<unsigned, muster::layout::packed, muster::wait::park>>> queues;
    for (unsigned i = 0; i < many; ++i)
      queues.push_back(std::make_unique<decltype(queues)::value_type::element_type>(2));
    std::jthread producer([&] {
      for (unsigned round = 0; round < 3; ++round) {
        std::this_thread::sleep_for(5ms);
        for (unsigned i = many; i-- != 0;) queues[i]->push(round * 1000 + i);
      }
    });
    std::vector<fiber> fibers;
    unsigned received = 0;
    for (unsigned i = 0; i < many; ++i)
      fibers.emplace_back([&, i] {
        for (unsigned round = 0; round < 3; ++round) {
          ASSERT_EQ(*queues[i]->pop(), round * 1000 + i);
          ++received;
        }
      });
    fibers.clear();
    EXPECT_EQ(received, 3 * many);
  }
}

// One after the other: no other event wakes the thread meanwhile.
TEST(waiting_fibers, a_thread_that_sleeps_on_too_many_words_looks_at_all_of_them) {
  constexpr unsigned many = 100, rounds = 20;
  std::vector<std::unique_ptr<muster::spsc_queue<unsigned, muster::layout::packed, muster::wait::park>>> queues;
  for (unsigned i = 0; i < many; ++i) queues.push_back(std::make_unique<decltype(queues)::value_type::element_type>(2));
  std::atomic<unsigned> received{0};
  std::jthread producer([&] {
    for (unsigned round = 0; round < rounds; ++round) {
      queues[many - 1 - round % 3]->push(round);
      while (received != round + 1) std::this_thread::yield();
    }
    for (auto& one : queues) one->close();
  });
  std::vector<fiber> fibers;
  for (unsigned i = 0; i < many; ++i)
    fibers.emplace_back([&, i] {
      while (queues[i]->pop()) ++received;
    });
  fibers.clear();
  EXPECT_EQ(received, rounds);
}

// There is no event: the thread has to wake for the nearest limit.
TYPED_TEST(waiting_for_a_queue, no_others_and_a_limit) {
  typename TypeParam::template of<int> first(2), second(2);
  const auto wait = [](auto& queue, auto span) {
    const auto end = std::chrono::steady_clock::now() + span;
    EXPECT_EQ(queue.pop_for(span).status(), queue_status::empty);
    EXPECT_GE(std::chrono::steady_clock::now(), end);
  };
  fiber one([&] { wait(first, 2ms); }), two([&] { wait(second, 5ms); });
  one.join();
  two.join();
  {
    fiber alone([&] { wait(first, 1ms); });
  }
  // Beside one that waits until its queue is closed.
  fiber unlimited([&] { EXPECT_EQ(second.pop().status(), queue_status::closed); });
  fiber limited([&] {
    wait(first, 2ms);
    second.close();
  });
}

// Fibers of one thread and threads without fibers sleep on one queue, for room and for items: a wake for one sleeper
// must not be lost in a thread that waits for something else.
TEST(waiting_fibers, beside_threads_in_one_queue) {
  constexpr unsigned each = 2000;
  muster::mpmc_queue<unsigned, muster::layout::packed, muster::wait::park> queue(2);
  std::atomic<std::uint64_t> sum{0};
  std::atomic<unsigned> popped{0};
  const auto produce = [&](unsigned who, bool timed) {
    for (unsigned i = 0; i < each; ++i) {
      if (timed) ASSERT_EQ(queue.push_for(who * each + i + 1, 1h), queue_status::success);
      else ASSERT_EQ(queue.push(who * each + i + 1), queue_status::success);
    }
  };
  const auto consume = [&] {
    while (const auto item = queue.pop()) {
      sum += *item;
      ++popped;
    }
  };
  {
    std::jthread consumers([&] { fiber one(consume), two(consume); });
    std::jthread another(consume);
    {
      std::jthread plain([&] { produce(0, true); });
      std::jthread plain_too([&] { produce(1, false); });
      std::jthread with_fibers(
          [&] { fiber one(produce, 2U, true), two(produce, 3U, false), three(produce, 4U, true); });
    }
    queue.close();
  }
  constexpr std::uint64_t all = std::uint64_t{5} * each;
  EXPECT_EQ(popped, all);
  EXPECT_EQ(sum, all * (all + 1) / 2);
}

// A request to a fiber of another thread, and its answer, with no other activity.
TEST(waiting_fibers, requests_and_replies_between_two_carriers) {
  constexpr unsigned pairs = 8, rounds = 500;
  std::vector<std::unique_ptr<muster::spsc_queue<unsigned>>> requests, replies;
  for (unsigned i = 0; i < pairs; ++i) {
    requests.push_back(std::make_unique<muster::spsc_queue<unsigned>>(2));
    replies.push_back(std::make_unique<muster::spsc_queue<unsigned>>(2));
  }
  muster::run_team({.carriers = 2, .fibers = pairs}, [&](unsigned carrier, unsigned f) {
    for (unsigned round = 0; round < rounds; ++round) {
      if (carrier == 0) {
        requests[f]->push(round * pairs + f);
        ASSERT_EQ(*replies[f]->pop(), round * pairs + f + 1);
      } else {
        replies[f]->push(*requests[f]->pop() + 1);
      }
    }
  });
}

// An operation of a combining object that waits for a fiber of its own thread.
struct adapting {
  static constexpr bool parks = true;
  static constexpr unsigned pauses = 800;
  static constexpr unsigned yields = 0;
  static constexpr bool adapts = true;
};

// Work, not time: how often a fiber looks. Not every sleep is brief, so there are many.
TEST(waiting_fibers, spin_longer_after_brief_sleeps) {
  constexpr unsigned looks_at_once = adapting::pauses / 8;
  muster::eventcount events, never;
  std::atomic<std::uint64_t> asleep{0}, happened{0};
  std::atomic<bool> over{false};
  std::thread waker([&] {
    for (std::uint64_t round = 1; !over; std::this_thread::yield()) {
      if (asleep != round) continue;
      happened = round++;
      if (muster::eventcount::wakes(events.waiters_after_event(), 0)) events.wake(0);
    }
  });
  fiber sibling([&] { never.await<muster::wait::park>(0, [&] { return over.load(); }, muster::no_deadline); });
  std::uint64_t looks = 0, most = 0;
  for (std::uint64_t round = 1; most < adapting::pauses + looks_at_once && round <= 1'000'000; ++round) {
    looks = 0;
    events.await<adapting>(0, [&] { return ++looks, happened == round; }, muster::no_deadline, [&] { asleep = round; });
    most = std::max(most, looks);
    if (round == 1) EXPECT_LT(most, adapting::pauses + looks_at_once);
  }
  EXPECT_GE(most, adapting::pauses + looks_at_once);
  over = true;
  waker.join();
  sibling.join();
}

TEST(waiting_fibers, in_the_middle_of_an_operation) {
  muster::osci<int> object;
  muster::spsc_queue<int> queue(2);
  int seen = 0;
  fiber first([&] { object.apply([&](int& state) { state += *queue.pop(); }); });
  fiber second([&] { object.apply([&](int& state) { seen = state; }); });
  fiber third([&] {
    for (int turns = 0; turns < 100; ++turns) this_fiber::yield();
    queue.push(4);
  });
  first.join();
  second.join();
  EXPECT_TRUE(seen == 0 || seen == 4);
  EXPECT_EQ(object.apply([](int& state) { return state; }), 4);
}

// Operations that wait for another thread, so that fibers of the combiner's thread come and go amid a batch.
TEST(waiting_fibers, while_a_batch_is_executed) {
  muster::mpmc_queue<int> requests(2), replies(2);
  std::jthread echo([&] {
    while (const auto one = requests.pop()) replies.push(*one);
  });
  constexpr int rounds = static_cast<int>(muster_test::scaled(300));
  {
    muster::osci<int> object({.batch = 3, .detached = true});
    const auto operation = [&](int& s) noexcept {
      ++s;
      if (s % 4 != 0) return;
      requests.push(s);
      EXPECT_EQ(*replies.pop(), s);
    };
    muster::run_team({.carriers = 3, .fibers = 5}, [&](unsigned, unsigned f) {
      for (int i = 0; i < rounds; ++i) {
        switch ((static_cast<int>(f) + i) % 4) {
          case 0: object.post([&operation](int& s) noexcept { operation(s); }); break;
          case 1: {
            auto ticket = object.submit([&operation](int& s) { operation(s); });
            this_fiber::yield();
            ticket.get();
            break;
          }
          default: object.apply(operation);
        }
      }
    });
    object.flush();
    while (object.apply([](int& s) { return s; }) != 15 * rounds) this_fiber::yield();
  }
  requests.close();
}

// The others only make fibers and join them: none yields.
TEST(waiting_fibers, beside_fibers_that_are_only_joined) {
  muster::spsc_queue<int> queue(2);
  bool got = false;
  fiber waits([&] { got = *queue.pop() == 3; });
  fiber waits_in_vain([&] {
    muster::spsc_queue<int> another(2);
    EXPECT_EQ(another.pop_for(1ms).status(), queue_status::empty);
  });
  for (int turns = 0; turns < 20; ++turns) this_fiber::yield();
  std::jthread producer([&] { queue.push(3); });
  while (!got || !waits_in_vain.done()) fiber([] {}).join();
}

// The other half of a fork, taken by another worker, waits for a fiber of the joining thread.
TEST(waiting_fibers, in_a_join) {
  for (const muster::fork_engine engine : {muster::fork_engine::watermark, muster::fork_engine::automatic}) {
    muster::pool pool({.workers = 2, .engine = engine});
    muster::mpmc_queue<int> begun(2), answers(2);
    for (int round = 0; round < 20; ++round) {
      int got = 0;
      fiber joins([&] { pool.run([&] { muster::fork2([&] { begun.push(round); }, [&] { got = *answers.pop(); }); }); });
      fiber answers_it([&] {
        EXPECT_EQ(*begun.pop(), round);
        for (int turns = 0; turns < 100; ++turns) this_fiber::yield();
        answers.push(round + 7);
      });
      joins.join();
      EXPECT_EQ(got, round + 7);
    }
  }
}

// For so long that the thread sleeps: it must sleep for the join and for its other fibers at once.
TEST(waiting_fibers, in_a_join_that_sleeps) {
  muster::pool pool({.workers = 2});
  muster::mpmc_queue<int> begun(2), answers(2), late(2);
  int got = 0;
  std::atomic<bool> taken{false};
  std::jthread outside([&] {
    begun.pop();
    std::this_thread::sleep_for(20ms);
    late.push(1);
  });
  fiber joins([&] {
    pool.run([&] {
      muster::fork2(
          [&] {
            while (!taken) muster::fork2([] {}, [] {});
          },
          [&] {
            taken = true;
            begun.push(1);
            got = *answers.pop();
          });
    });
  });
  fiber answers_it([&] { answers.push(*late.pop()); });
  joins.join();
  EXPECT_EQ(got, 1);
}

TEST(waiting_fibers, in_a_scope) {
  muster::pool pool({.workers = 2});
  muster::mpmc_queue<int> begun(2), answers(2);
  for (int round = 0; round < 20; ++round) {
    int got = 0;
    fiber waits([&] {
      pool.run([&] {
        muster::finish([&](muster::async_scope& scope) {
          scope.async([&] {
            begun.push(round);
            got = *answers.pop();
          });
        });
      });
    });
    fiber answers_it([&] {
      EXPECT_EQ(*begun.pop(), round);
      answers.push(round + 9);
    });
    waits.join();
    EXPECT_EQ(got, round + 9);
  }
}

// A body has left a fiber behind on a thread of the pool.
TEST(waiting_fibers, of_a_worker_without_work) {
  muster::mpmc_queue<int> queue(2);
  std::atomic<int> got{0};
  auto* const left = new fiber;
  {
    muster::pool pool({.workers = 2});
    const auto here = std::this_thread::get_id();
    std::atomic<bool> made{false};
    while (!made)
      pool.run([&] {
        muster::fork2([] { std::this_thread::sleep_for(1ms); },
                      [&] {
                        if (std::this_thread::get_id() == here) return;
                        *left = fiber([&] { got = *queue.pop(); });
                        this_fiber::yield();
                        made = true;
                      });
      });
    queue.push(8);
    while (got == 0) std::this_thread::yield();
    std::atomic<bool> joined{false};
    while (!joined)
      pool.run([&] {
        muster::fork2([] { std::this_thread::sleep_for(1ms); },
                      [&] {
                        if (std::this_thread::get_id() == here) return;
                        left->join();
                        joined = true;
                      });
      });
  }
  delete left;
  EXPECT_EQ(got, 8);
}

TEST(waiting_fibers, of_a_team) {
  muster::mpmc_queue<int> requests(2), replies(2);
  int sum = 0;
  fiber leader([&] {
    muster::run_team({.carriers = 2, .fibers = 2}, [&](unsigned carrier, unsigned f) {
      requests.push(static_cast<int>(carrier * 2 + f));
      replies.pop();
    });
  });
  fiber serves([&] {
    for (int i = 0; i < 4; ++i) {
      sum += *requests.pop();
      replies.push(0);
    }
  });
  leader.join();
  EXPECT_EQ(sum, 6);
}

TEST(waiting_fibers, a_time_that_has_passed_returns_at_once) {
  muster::mpmc_queue<int> queue(2);
  muster::spsc_queue<int> another(2);
  std::uint64_t turns = 0;
  bool over = false;
  fiber sibling([&] {
    while (!over) {
      this_fiber::yield();
      ++turns;
    }
  });
  EXPECT_EQ(queue.pop_for(-1h).status(), queue_status::empty);
  EXPECT_EQ(queue.pop_until(std::chrono::steady_clock::time_point::min()).status(), queue_status::empty);
  EXPECT_EQ(another.pop_for(-1h).status(), queue_status::empty);
  while (another.try_push(1) == queue_status::success) continue;
  EXPECT_EQ(another.push_for(1, -1h), queue_status::full);
  EXPECT_EQ(turns, 0U);
  over = true;
}

}  // namespace
