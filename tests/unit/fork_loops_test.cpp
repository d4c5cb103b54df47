// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Loops, scans and sorting: every turn is executed once, combinations are made from left to right, results are those of
// the serial algorithms, exceptions leave everything whole.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster::parallel_exclusive_scan;
using muster::parallel_for;
using muster::parallel_reduce;
using muster::parallel_scan;
using muster::parallel_sort;
using muster::pool;
using muster_test::scaled;

class loops : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(on, loops, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

TEST_P(loops, execute_every_turn_once) {
  for (const std::size_t grain : {0U, 1U, 7U, 100'000U})
    for (const int many : {0, 1, 2, 3, 1000, 20'000}) {
      std::vector<std::atomic<unsigned>> turns(static_cast<std::size_t>(many));
      workers_.run([&] {
        parallel_for(-5, many - 5, [&](int i) { ++turns[static_cast<std::size_t>(i + 5)]; }, {.grain = grain});
        parallel_for(turns.begin(), turns.end(), [](std::atomic<unsigned>& turn) { turn += 10; }, {.grain = grain});
        parallel_for(turns, [](std::atomic<unsigned>& turn) { turn += 100; });
        parallel_for(std::size_t{0}, turns.size(),
                     [&](std::size_t first, std::size_t last) {
                       for (; first != last; ++first) turns[first] += 1000;
                     },
                     {.grain = grain});
        parallel_for(many, -1, [](int) { ADD_FAILURE() << "a turn of a loop that has none"; });
      });
      EXPECT_TRUE(std::ranges::all_of(turns, [](const auto& turn) { return turn == 1111U; }));
    }
}

TEST_P(loops, count_by_small_integers) {
  std::atomic<unsigned> turns{0};
  workers_.run([&] {
    parallel_for(std::int8_t{-128}, std::int8_t{127}, [&](std::int8_t) { ++turns; });
    parallel_for('a', 'f', [&](char) { ++turns; }, {.grain = 2});
    parallel_for(std::uint64_t{1} << 63U, (std::uint64_t{1} << 63U) + 7, [&](std::uint64_t) { ++turns; });
  });
  EXPECT_EQ(turns, 255U + 5U + 7U);
}

TEST_P(loops, within_loops) {
  std::vector<std::atomic<unsigned>> cells(60 * 50);
  workers_.run([&] {
    parallel_for(0U, 60U,
                 [&](unsigned row) { parallel_for(0U, 50U, [&](unsigned column) { ++cells[row * 50 + column]; }); });
  });
  EXPECT_TRUE(std::ranges::all_of(cells, [](const auto& cell) { return cell == 1U; }));
}

// The first turn ends when the others have been executed, which takes another worker.
TEST_P(loops, offer_later_turns_during_a_long_one) {
  if (GetParam().workers == 1) {
    std::vector<int> order;
    workers_.run([&] { parallel_for(0, 100, [&](int i) { order.push_back(i); }); });
    for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    return;
  }
  for (const std::size_t grain : {0U, 1U})
    for (const int many : {2, 3, 10, 1000})
      for (const bool within : {false, true}) {
        std::atomic<int> others{0};
        bool all = false;
        const auto turn = [&](int i) {
          if (i != 0) {
            ++others;
            return;
          }
          // With forks, as not every system lets thieves take from threads that do not answer.
          // At least a millisecond, since a loop of which little time is expected is not divided.
          const auto begin = std::chrono::steady_clock::now();
          for (auto now = begin; now < begin + std::chrono::milliseconds(1) ||
                                 (others != many - 1 && now < begin + std::chrono::minutes(1));
               now = std::chrono::steady_clock::now())
            muster::fork2([] {}, [] {});
          all = others == many - 1;
        };
        workers_.run([&] {
          if (!within) return parallel_for(0, many, turn, {.grain = grain});
          parallel_for(0, many, [&](int i) { parallel_for(i, i + 1, turn); }, {.grain = grain});
        });
        EXPECT_TRUE(all) << many << " turns, grain " << grain;
      }
}

// A request during a piece is answered by the join, which has nothing else to offer, and by the loop.
TEST(asked_loops, offer_half) {
  pool alone({.workers = 1});
  alone.run([] {
    parallel_for(0, 4,
                 [](int i) {
                   if (i == 0) muster::detail::worker::current()->request_work();
                 },
                 {.grain = 1});
  });
  EXPECT_GE(alone.statistics().offered, 1U);
}

// Loops of which little time is expected, after the first ones, are executed in one piece.
TEST_P(loops, that_are_brief_execute_every_turn_once) {
  std::vector<unsigned> turns(300);
  for (const unsigned many : {0U, 1U, 2U, 10U, 129U, 300U})
    for (unsigned round = 0; round < 50; ++round) {
      std::ranges::fill(turns, 0U);
      workers_.run([&] {
        parallel_for(0U, many, [&](unsigned i) { ++turns[i]; });
        parallel_for(turns.begin(), turns.begin() + many, [](unsigned& turn) { turn += 10; });
        parallel_for(0U, many, [&](unsigned from, unsigned to) {
          for (; from != to; ++from) turns[from] += 100;
        });
        EXPECT_EQ(parallel_reduce(0U, many, 5U, std::plus<>(), [](unsigned i) { return i; }),
                  5 + (many == 0 ? 0 : many * (many - 1) / 2));
      });
      for (unsigned i = 0; i < turns.size(); ++i) ASSERT_EQ(turns[i], i < many ? 111U : 0U) << many << " turns";
    }
}

TEST_P(loops, that_are_brief_throw_the_leftmost) {
  constexpr unsigned many = 200;
  for (unsigned round = 0; round < 300; ++round) {
    const unsigned bad = round < 50 ? many : round * 7 % many;  // the first rounds show that the turns are brief
    std::vector<std::atomic<unsigned>> turns(many);
    unsigned caught = many;
    try {
      workers_.run([&] {
        parallel_for(0U, many, [&](unsigned i) {
          ++turns[i];
          if (i >= bad) throw i;
        });
      });
    } catch (const unsigned i) {
      caught = i;
    }
    ASSERT_EQ(caught, bad);
    for (unsigned i = 0; i < many; ++i) {
      if (i <= bad) ASSERT_EQ(turns[i], 1U);
      else ASSERT_LE(turns[i], 1U);
    }
  }
}

// Others help although the same turns were brief before, at the latest in a later loop.
TEST_P(loops, that_become_long_are_shared) {
  if (GetParam().workers == 1) return;
  bool is_long = false;
  std::mutex m;
  std::set<std::thread::id> threads;
  const auto turn = [&](int) {
    if (!is_long) return;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < end) continue;
    const std::scoped_lock lock(m);
    threads.insert(std::this_thread::get_id());
  };
  workers_.run([&] {
    for (int round = 0; round < 10'000; ++round) parallel_for(0, 4, turn);
    is_long = true;
    for (int round = 0; round < 10'000 && threads.size() < 2; ++round) {
      threads.clear();
      parallel_for(0, 4, turn);
    }
  });
  EXPECT_GE(threads.size(), 2U);
}

// Even if there is a request when they begin, or one comes while they run.
TEST(asked_loops, that_are_brief_execute_every_turn_once) {
  pool alone({.workers = 1});
  alone.run([] {
    auto& self = *muster::detail::worker::current();
    int turns = 0, ask_at = -1;
    const auto turn = [&](int i) {
      ++turns;
      if (i == ask_at) self.request_work();
    };
    for (int round = 0; round < 1000; ++round) {
      ask_at = round % 3 == 0 ? -1 : round % 100;
      if (round % 5 == 0) self.request_work();
      turns = 0;
      parallel_for(0, 300, turn);
      ASSERT_EQ(turns, 300);
      ASSERT_EQ(parallel_reduce(0, 300, 0, std::plus<>(), [](int i) { return i; }), 299 * 300 / 2);
    }
  });
}

TEST_P(loops, reduce_what_others_take_meanwhile_from_left_to_right) {
  const auto append = [](std::string all, const std::string& more) { return std::move(all) + more; };
  std::string expected;
  for (unsigned i = 0; i < 200; ++i) expected += std::to_string(i) + ',';
  for (unsigned slow = 0; slow < 200; slow += 7) {
    const auto text = [&](unsigned i) {
      if (i % 50 == slow % 50)
        for (unsigned n = 0; n < 200; ++n) muster::fork2([] {}, [] { std::this_thread::yield(); });
      return std::to_string(i) + ',';
    };
    for (const std::size_t grain : {0U, 1U, 5U})
      EXPECT_EQ(workers_.run([&] { return parallel_reduce(0U, 200U, std::string(), append, text, {.grain = grain}); }),
                expected);
  }
}

TEST_P(loops, reduce_from_left_to_right) {
  const auto append = [](std::string all, const std::string& more) { return std::move(all) + more; };
  const auto text = [](unsigned i) { return std::to_string(i) + ','; };
  for (const unsigned many : {0U, 1U, 2U, 100U, 3000U}) {
    std::string expected = "begin:";
    for (unsigned i = 0; i < many; ++i) expected += text(i);
    for (const muster::loop_options& options :
         {muster::loop_options{}, muster::loop_options{.grain = 3}, muster::loop_options{.fixed = true},
          muster::loop_options{.grain = 5, .fixed = true}}) {
      EXPECT_EQ(workers_.run([&] { return parallel_reduce(0U, many, std::string("begin:"), append, text, options); }),
                expected);
    }
    std::vector<std::string> texts;
    for (unsigned i = 0; i < many; ++i) texts.push_back(text(i));
    EXPECT_EQ(workers_.run([&] { return parallel_reduce(texts.begin(), texts.end(), std::string("begin:"), append); }),
              expected);
  }
}

TEST_P(loops, of_which_each_sum_is_moved) {
  const auto add = [](std::unique_ptr<long> a, std::unique_ptr<long> b) {
    *a += *b;
    return a;
  };
  const auto made = [](long i) { return std::make_unique<long>(i); };
  EXPECT_EQ(*workers_.run([&] { return parallel_reduce(0L, 2000L, made(1), add, made); }), 1 + 1999 * 2000 / 2);
}

TEST_P(loops, whose_functions_cannot_be_copied) {
  const auto sum = [] {
    return parallel_reduce(
        0, 1000, 1, [one = std::make_unique<int>(1)](int a, int b) { return a + *one * b; },
        [two = std::make_unique<int>(2)](int i) { return *two * i; });
  };
  EXPECT_EQ(workers_.run(sum), 1 + 999 * 1000);
  EXPECT_EQ(sum(), 1 + 999 * 1000);  // in no pool
}

TEST_P(loops, of_sums_that_cannot_be_empty) {
  struct product {
    explicit product(unsigned n) : value(n) {}
    unsigned value;
  };
  const auto multiply = [](product a, product b) { return product(a.value * b.value); };
  EXPECT_EQ(workers_.run([&] {
    return parallel_reduce(1U, 2000U, product(3), multiply, [](unsigned i) { return product(2 * i + 1); }).value;
  }),
            [] {
              unsigned all = 3;
              for (unsigned i = 1; i < 2000; ++i) all *= 2 * i + 1;
              return all;
            }());
}

// While others execute what comes after.
TEST_P(loops, whose_sums_throw) {
  for (int bad = 1; bad < 200; bad += 11)
    for (const std::size_t grain : {0U, 1U, 16U}) {
      const auto add = [&](int a, int b) {
        if (a + b >= bad) throw std::domain_error("too much");
        return a + b;
      };
      const auto slow = [](int) {
        muster::fork2([] {}, [] { std::this_thread::yield(); });
        return 1;
      };
      EXPECT_THROW(workers_.run([&] { return parallel_reduce(0, 400, 0, add, slow, {.grain = grain}); }),
                   std::domain_error);
    }
}

TEST_P(loops, whose_pieces_throw) {
  for (unsigned bad = 0; bad < 2000; bad += 101) {
    std::vector<std::atomic<unsigned>> turns(2000);
    try {
      workers_.run([&] {
        parallel_for(0U, 2000U, [&](unsigned first, unsigned last) {
          for (; first != last; ++first) {
            ++turns[first];
            if (first >= bad) throw first;
          }
        });
      });
      ADD_FAILURE() << "nothing has been thrown";
    } catch (const unsigned caught) {
      EXPECT_EQ(caught, bad);
    }
    for (unsigned i = 0; i <= bad; ++i) ASSERT_EQ(turns[i], 1U);
    for (unsigned i = bad; i < 2000; ++i) ASSERT_LE(turns[i], 1U);
  }
}

TEST_P(loops, that_are_stopped_sum_what_was_executed) {
  for (unsigned stop_at = 1; stop_at < 3000; stop_at += 271) {
    std::stop_source stop;
    std::atomic<unsigned> executed{0};
    std::atomic<std::uint64_t> expected{0};
    const std::uint64_t sum = workers_.run([&] {
      return parallel_reduce(std::uint64_t{0}, std::uint64_t{100'000}, std::uint64_t{0}, std::plus<>(),
                             [&](std::uint64_t i) {
                               expected += i;
                               if (++executed == stop_at) stop.request_stop();
                               return i;
                             },
                             {.stop = stop.get_token()});
    });
    EXPECT_EQ(sum, expected);
    EXPECT_GE(executed, stop_at);
  }
}

// Equal to the last bit, which sums of floating-point numbers are not when they are split anywhere.
TEST_P(loops, that_are_fixed_give_the_same_in_every_pool) {
  std::vector<double> numbers(10'007);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1.0 / static_cast<double>(3 * i + 1);
  const auto sum = [&] {
    return parallel_reduce(numbers.begin(), numbers.end(), 0.0, std::plus<>(), {.grain = 100, .fixed = true});
  };
  const double expected = pool({.workers = 1}).run(sum);
  for (std::size_t round = 0; round < scaled(50); ++round) EXPECT_EQ(workers_.run(sum), expected);
}

TEST_P(loops, throw_the_leftmost) {
  constexpr unsigned many = 64;
  for (unsigned bad = 0; bad < many; ++bad) {
    std::vector<std::atomic<unsigned>> turns(many);
    try {
      workers_.run([&] {
        parallel_for(0U, many,
                     [&](unsigned i) {
                       ++turns[i];
                       if (i >= bad && i % 3 == bad % 3) throw i;
                     },
                     {.grain = 1});
      });
      ADD_FAILURE() << "nothing has been thrown";
    } catch (const unsigned caught) {
      EXPECT_EQ(caught, bad);
    }
    for (unsigned i = 0; i < many; ++i) EXPECT_LE(turns[i], 1U);
    for (unsigned i = 0; i <= bad; ++i) EXPECT_EQ(turns[i], 1U);
  }
}

// Many are in one piece, whose end may be left for later while others execute what comes after it.
TEST_P(loops, of_cheap_turns_throw_the_leftmost) {
  constexpr unsigned many = 20'000;
  for (std::size_t round = 0; round < scaled(300); ++round) {
    const unsigned bad = 997 * static_cast<unsigned>(round) % many;
    std::vector<std::atomic<unsigned>> turns(many);
    try {
      workers_.run([&] {
        parallel_for(0U, many, [&](unsigned i) {
          ++turns[i];
          if (i >= bad && (i == bad || i % 64 == 1)) throw i;
        });
      });
      ADD_FAILURE() << "nothing has been thrown";
    } catch (const unsigned caught) {
      EXPECT_EQ(caught, bad);
    }
    for (unsigned i = 0; i < many; ++i) ASSERT_LE(turns[i], 1U);
    for (unsigned i = 0; i <= bad; ++i) ASSERT_EQ(turns[i], 1U) << "turn " << i << ", " << bad << " throws";
  }
}

TEST_P(loops, end_early_when_a_stop_is_requested) {
  muster_test::stop_at_call turn(100);
  workers_.run([&] { parallel_for(0, 1'000'000, [&](int) { turn(); }, {.grain = 10, .stop = turn.token()}); });
  EXPECT_GE(turn.calls(), 100U);
  EXPECT_LE(turn.calls(), 100U + 9 + 10 * (GetParam().workers - 1)) << "each ends the piece it is in";
  for (const bool fixed : {false, true})
    EXPECT_EQ(workers_.run([&] {
      return parallel_reduce(0, 100'000, 5, std::plus<>(), [](int i) { return i; },
                             {.fixed = fixed, .stop = turn.token()});
    }),
              5);
}

/// By pieces, over all the numbers there are: only the stop ends it.
template <class I>
void loop_over_everything(pool& workers) {
  std::stop_source stop;
  std::atomic<int> pieces{0};
  workers.run([&] {
    parallel_for(std::numeric_limits<I>::min(), std::numeric_limits<I>::max(),
                 [&](I from, I to) {
                   EXPECT_LT(from, to);
                   if (++pieces == 1000) stop.request_stop();
                 },
                 {.grain = 100, .stop = stop.get_token()});
  });
  EXPECT_GE(pieces, 1000);
  std::atomic<int> turns{0};
  workers.run([&] {
    const auto turn = [&](I) {
      if (++turns == 1000) stop.request_stop();
      return 0;
    };
    for (const bool fixed : {false, true}) {
      stop = {};
      turns = 0;
      parallel_reduce(std::numeric_limits<I>::min(), std::numeric_limits<I>::max(), 0, std::plus<>(), turn,
                      {.grain = 1, .fixed = fixed, .stop = stop.get_token()});
      EXPECT_GE(turns, 1000);
    }
  });
}
TEST_P(loops, over_everything_end_when_a_stop_is_requested) {
  loop_over_everything<std::int64_t>(workers_);
  loop_over_everything<std::uint64_t>(workers_);
}

TEST_P(loops, scan_as_the_serial_algorithm) {
  const auto append = [](std::string all, const std::string& more) { return std::move(all) + more; };
  for (const std::size_t many : {0U, 1U, 2U, 5U, 100U, 600U}) {
    std::vector<std::string> texts(many), expected(many), got(many);
    for (std::size_t i = 0; i < many; ++i) texts[i] = std::string(1, static_cast<char>('a' + i % 26));
    std::inclusive_scan(texts.begin(), texts.end(), expected.begin(), append);
    workers_.run([&] { EXPECT_EQ(parallel_scan(texts.begin(), texts.end(), got.begin(), append), got.end()); });
    EXPECT_EQ(got, expected);
    std::inclusive_scan(texts.begin(), texts.end(), expected.begin(), append, std::string("begin:"));
    workers_.run([&] { parallel_scan(texts.begin(), texts.end(), got.begin(), append, std::string("begin:")); });
    EXPECT_EQ(got, expected);
    std::exclusive_scan(texts.begin(), texts.end(), expected.begin(), std::string("begin:"), append);
    workers_.run(
        [&] { parallel_exclusive_scan(texts.begin(), texts.end(), texts.begin(), std::string("begin:"), append); });
    EXPECT_EQ(texts, expected);
  }
}

TEST_P(loops, scan_many_numbers_in_place) {
  std::vector<std::uint64_t> numbers(scaled(300'000)), expected(numbers.size());
  for (std::size_t round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i * 31 + round;
    std::inclusive_scan(numbers.begin(), numbers.end(), expected.begin());
    workers_.run([&] { parallel_scan(numbers.begin(), numbers.end(), numbers.begin()); });
    EXPECT_EQ(numbers, expected);
  }
}

std::vector<std::vector<std::uint32_t>> sequences(std::size_t many) {
  std::mt19937 random(static_cast<unsigned>(many));
  std::vector<std::vector<std::uint32_t>> all(8, std::vector<std::uint32_t>(many));
  for (std::size_t i = 0; i < many; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    all[0][i] = static_cast<std::uint32_t>(random());
    all[1][i] = n;
    all[2][i] = static_cast<std::uint32_t>(many) - n;
    all[3][i] = 7;
    all[4][i] = n % 2;
    all[5][i] = n < many / 2 ? n : static_cast<std::uint32_t>(many) - n;  // an organ pipe
    all[6][i] = n % 1000 == 0 ? static_cast<std::uint32_t>(random()) : n;
    all[7][i] = static_cast<std::uint32_t>(random()) % 16;
  }
  return all;
}

TEST_P(loops, sort) {
  for (const std::size_t many : {0U, 1U, 2U, 3U, 24U, 25U, 26U, 255U, 257U, 2048U, 5000U, 100'000U}) {
    for (std::vector<std::uint32_t>& numbers : sequences(many == 100'000U ? scaled(many) : many)) {
      std::vector<std::uint32_t> expected = numbers;
      std::ranges::sort(expected, std::greater<>());
      std::deque<std::uint32_t> elsewhere(numbers.begin(), numbers.end());
      workers_.run([&] { parallel_sort(numbers.begin(), numbers.end(), std::greater<>()); });
      EXPECT_EQ(numbers, expected);
      if (many > 5000) continue;
      workers_.run([&] { parallel_sort(elsewhere); });
      EXPECT_TRUE(std::equal(elsewhere.rbegin(), elsewhere.rend(), expected.begin(), expected.end()));
    }
  }
}

// Sorted and almost sorted ones take other ways, which may also end at any comparison.
TEST_P(loops, sort_any_sequence_and_keep_all_elements_when_a_comparison_throws) {
  for (const std::size_t many : {26U, 300U, 40'000U})
    for (const std::vector<std::uint32_t>& numbers : sequences(many)) {
      std::vector<std::string> texts;
      for (const std::uint32_t number : numbers) texts.push_back("a text of some length: " + std::to_string(number));
      std::vector<std::string> expected = texts;
      std::ranges::sort(expected);
      for (std::size_t bad = 1; bad < 2 * many; bad += 1 + bad * 3 / 2) {
        std::vector<std::string> got = texts;
        std::atomic<std::size_t> comparisons{0};
        try {
          workers_.run([&] {
            parallel_sort(got, [&](const std::string& a, const std::string& b) {
              if (comparisons.fetch_add(1, std::memory_order_relaxed) == bad) throw std::runtime_error("compared");
              return a < b;
            });
          });
        } catch (const std::runtime_error&) {
          std::ranges::sort(got);
        }
        ASSERT_EQ(got, expected) << "comparison " << bad << " of " << many << " elements";
      }
    }
}

// Comparisons that are no strict order: any order may result, but nothing is lost, and the call ends.
TEST_P(loops, sort_and_keep_all_elements_by_no_order) {
  for (const std::size_t many : {30U, 3000U, 30'000U})
    for (const std::vector<std::uint32_t>& numbers : sequences(many)) {
      std::vector<std::uint32_t> expected = numbers;
      std::ranges::sort(expected);
      const auto check = [&](const auto& less) {
        std::vector<std::uint32_t> got = numbers;
        workers_.run([&] { parallel_sort(got, less); });
        std::ranges::sort(got);
        ASSERT_EQ(got, expected);
      };
      check(std::less_equal<>());
      check([](std::uint32_t, std::uint32_t) { return true; });
      check([](std::uint32_t, std::uint32_t) { return false; });
      check([](std::uint32_t a, std::uint32_t b) { return (a * 2654435761U ^ b) % 3 == 0; });
    }
}

TEST_P(loops, sort_what_is_sorted_or_reversed_by_few_comparisons) {
  constexpr std::uint32_t many = 100'000;
  for (const bool reversed : {false, true}) {
    std::vector<std::uint32_t> numbers(many);
    for (std::uint32_t i = 0; i < many; ++i) numbers[i] = reversed ? many - i : i;
    std::atomic<std::size_t> comparisons{0};
    workers_.run([&] {
      parallel_sort(numbers, [&](std::uint32_t a, std::uint32_t b) {
        comparisons.fetch_add(1, std::memory_order_relaxed);
        return a < b;
      });
    });
    EXPECT_TRUE(std::ranges::is_sorted(numbers));
    EXPECT_LE(comparisons, many + 10);
  }
}

// So many that several workers divide them together.
TEST_P(loops, sort_very_many) {
  std::mt19937 random(7);
  for (const std::uint32_t values : {3U, 1'000'000'000U}) {
    std::vector<std::uint32_t> numbers(300'000);
    for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random() % values);
    std::vector<std::uint32_t> expected = numbers;
    std::ranges::sort(expected);
    workers_.run([&] { parallel_sort(numbers); });
    ASSERT_TRUE(numbers == expected);
  }
}

TEST_P(loops, sort_what_can_only_be_moved) {
  std::mt19937 random(3);
  std::vector<std::unique_ptr<std::string>> texts(20'000);
  for (auto& text : texts) text = std::make_unique<std::string>(std::to_string(random()));
  const auto less = [](const auto& a, const auto& b) { return *a < *b; };
  workers_.run([&] { parallel_sort(texts, less); });
  EXPECT_TRUE(std::ranges::is_sorted(texts, less));
}

// Few enough to be sorted in one piece, and then in several: each comparison throws once.
TEST_P(loops, sort_and_keep_all_elements_whichever_comparison_throws) {
  for (const unsigned many : {20U, 90U}) {
    std::vector<std::string> shuffled;
    for (unsigned i = 0; i < many; ++i) shuffled.push_back("a string of some length: " + std::to_string(i * 37 % many));
    bool throws = true;
    for (unsigned bad = 0; throws; bad += 1 + bad / 50) {
      std::vector<std::string> numbers = shuffled;
      std::atomic<unsigned> comparisons{0};
      throws = false;
      try {
        workers_.run([&] {
          muster::parallel_sort(numbers.begin(), numbers.end(), [&](const std::string& a, const std::string& b) {
            if (comparisons.fetch_add(1, std::memory_order_relaxed) == bad) throw std::runtime_error("compared");
            return a < b;
          });
        });
      } catch (const std::runtime_error&) {
        throws = true;
      }
      std::vector<std::string> expected = shuffled;
      std::sort(expected.begin(), expected.end());
      if (throws) std::sort(numbers.begin(), numbers.end());
      ASSERT_EQ(numbers, expected) << "comparison " << bad << " of " << many << " elements";
    }
  }
}

TEST_P(loops, sort_and_keep_all_elements_when_a_comparison_throws) {
  std::vector<std::uint32_t> numbers(200'000);
  std::iota(numbers.begin(), numbers.end(), 0U);
  std::ranges::shuffle(numbers, std::mt19937(5));
  for (const std::uint64_t bad : {10U, 3000U, 250'000U, 1'500'000U}) {
    std::atomic<std::uint64_t> comparisons{0};
    const auto less = [&](std::uint32_t a, std::uint32_t b) {
      if (comparisons.fetch_add(1, std::memory_order_relaxed) == bad) throw std::runtime_error("compared");
      return a < b;
    };
    EXPECT_THROW(workers_.run([&] { parallel_sort(numbers, less); }), std::runtime_error);
    std::vector<bool> found(numbers.size());
    for (const std::uint32_t number : numbers) found[number] = true;
    EXPECT_TRUE(std::ranges::all_of(found, std::identity()));
  }
}

// Moving may throw; then elements may be lost, as after std::sort.
TEST_P(loops, sort_and_throw_what_moving_throws) {
  struct heavy {
    heavy(std::uint32_t n, std::atomic<std::int64_t>& left) : number(n), moves_left(&left) {}
    heavy(heavy&& other) noexcept(false) : number(other.number), moves_left(other.moves_left) { count(); }
    heavy& operator=(heavy&& other) noexcept(false) {
      number = other.number;
      count();
      return *this;
    }
    ~heavy() = default;
    void count() const {
      if (moves_left->fetch_sub(1, std::memory_order_relaxed) <= 0) throw std::runtime_error("moved");
    }
    std::uint32_t number;
    std::atomic<std::int64_t>* moves_left;
  };
  for (const std::int64_t moves : {0, 1, 2, 7, 100, 1001, 20'000}) {
    std::atomic<std::int64_t> left{std::numeric_limits<std::int64_t>::max()};
    std::vector<heavy> numbers;
    for (std::uint32_t i = 0; i < 10'000; ++i) numbers.emplace_back(i * 7919U % 10'000U, left);
    left = moves;
    const auto less = [](const heavy& a, const heavy& b) { return a.number < b.number; };
    EXPECT_THROW(workers_.run([&] { parallel_sort(numbers, less); }), std::runtime_error);
  }
}

TEST(loops_outside, of_any_pool_run_in_the_shared_one) {
  EXPECT_EQ(parallel_reduce(0, 1000, 0, std::plus<>(), [](int i) { return i; }), 499'500);
}

}  // namespace
