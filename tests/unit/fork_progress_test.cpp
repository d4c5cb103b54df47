// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// loop_progress: that loops count each turn once, and when they call the function.
#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster::loop_progress;

/// Notes the calls, and whether two overlapped.
class calls {
 public:
  explicit calls(std::size_t by) : every(by), progress(by, [this](std::size_t done) { note(done); }) {}

  /// The numbers grow by `every` at least, up to the last, which is `all`.
  void expect(std::size_t all) const {
    EXPECT_FALSE(overlapped);
    EXPECT_EQ(progress.done(), all);
    EXPECT_EQ(numbers.empty() ? 0 : numbers.back(), all);
    std::size_t before = 0;
    for (const std::size_t number : numbers) {
      EXPECT_GT(number, before);
      if (number != all) {
        EXPECT_GE(number - before, every);
      }
      before = number;
    }
  }

  std::vector<std::size_t> numbers;  // by one worker at a time: no lock
  bool overlapped = false;
  const std::size_t every;
  loop_progress progress;

 private:
  void note(std::size_t done) {
    if (inside_.exchange(true)) overlapped = true;
    numbers.push_back(done);
    inside_ = false;
  }
  std::atomic<bool> inside_{false};
};

class progress_of_loops : public muster_test::in_pools {
 protected:
  /// Calls loop(options), which has `turns` turns, with several steps.
  template <class Loop>
  void expect_counts(std::size_t turns, Loop loop) {
    for (const std::size_t every : {std::size_t{1}, std::size_t{7}, std::size_t{100}, std::size_t{1} << 40U})
      for (const std::size_t grain : {std::size_t{0}, std::size_t{3}}) {
        calls seen(every);
        workers_.run([&] { loop(muster::loop_options{.grain = grain, .progress = &seen.progress}); });
        seen.expect(turns);
      }
  }
};
INSTANTIATE_TEST_SUITE_P(, progress_of_loops, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

TEST_P(progress_of_loops, counts_every_turn) {
  for (const std::size_t turns : {0U, 1U, 2U, 65U, 1000U, 20'000U}) {
    expect_counts(turns, [&](const muster::loop_options& options) {
      muster::parallel_for(std::size_t{0}, turns, [](std::size_t) {}, options);
    });
    expect_counts(turns, [&](const muster::loop_options& options) {
      muster::parallel_for(std::size_t{0}, turns, [](std::size_t, std::size_t) {}, options);
    });
    expect_counts(turns, [&](const muster::loop_options& options) {
      muster::parallel_for(std::size_t{0}, 10 * turns, 10, [](std::size_t) {}, options);
    });
    expect_counts(turns, [&](const muster::loop_options& options) {
      EXPECT_EQ(muster::parallel_reduce(std::size_t{0}, turns, std::size_t{0}, std::plus<>(), options),
                turns * (turns - std::min<std::size_t>(turns, 1)) / 2);
    });
    expect_counts(turns, [&](muster::loop_options options) {
      options.fixed = true;
      muster::parallel_reduce(std::size_t{0}, turns, std::size_t{0}, std::plus<>(), options);
    });
  }
}

TEST_P(progress_of_loops, counts_in_every_algorithm) {
  constexpr std::size_t many = 3000;
  std::vector<int> numbers(many), out(many);
  std::iota(numbers.begin(), numbers.end(), 0);
  expect_counts(
      many, [&](const muster::loop_options& options) { muster::parallel_for_each(numbers, [](int) {}, {}, options); });
  expect_counts(many, [&](const muster::loop_options& options) {
    muster::parallel_transform(numbers, out.begin(), [](int i) { return 2 * i; }, {}, options);
  });
  expect_counts(many, [&](const muster::loop_options& options) {
    muster::parallel_transform_reduce(numbers, 0L, std::plus<>(), [](int i) { return i; }, options);
  });
  expect_counts(many, [&](const muster::loop_options& options) {
    muster::parallel_histogram(numbers, many, std::identity(), options);
  });
  expect_counts(many, [&](const muster::loop_options& options) {
    EXPECT_EQ(muster::parallel_find_if(numbers, [](int i) { return i < 0; }, {}, options), numbers.end());
  });
  expect_counts(many, [&](const muster::loop_options& options) {
    EXPECT_TRUE(muster::parallel_all_of(numbers, [](int i) { return i >= 0; }, {}, options));
  });
  expect_counts(many, [&](const muster::loop_options& options) {
    muster::parallel_minmax_element(numbers, std::less<>(), {}, options);
  });
}

// Some turns take long, so that pieces end early and are divided.
TEST_P(progress_of_loops, counts_turns_that_take_long) {
  for (int round = 0; round < 5; ++round) {
    calls seen(10);
    workers_.run([&] {
      muster::parallel_for(0, 3000,
                           [&](int i) {
                             if (i % 500 == 499) std::this_thread::sleep_for(std::chrono::microseconds(300));
                           },
                           {.progress = &seen.progress});
    });
    seen.expect(3000);
  }
}

TEST_P(progress_of_loops, has_the_number_of_executed_turns_after_a_stop) {
  for (int round = 0; round < 10; ++round) {
    calls seen(5);
    std::atomic<std::size_t> executed{0};
    std::stop_source stop;
    workers_.run([&] {
      muster::parallel_for(0, 100'000,
                           [&](int) {
                             if (++executed == 300) stop.request_stop();
                           },
                           {.grain = 2, .stop = stop.get_token(), .progress = &seen.progress});
    });
    EXPECT_LT(executed, 100'000U);
    seen.expect(executed);
  }
}

TEST_P(progress_of_loops, rethrows_what_the_function_throws) {
  for (int round = 0; round < 10; ++round) {
    loop_progress progress(100, [](std::size_t done) {
      if (done >= 500) throw std::out_of_range(std::to_string(done));
    });
    EXPECT_THROW(
        workers_.run([&] { muster::parallel_for(0, 1'000'000, [](int) {}, {.grain = 10, .progress = &progress}); }),
        std::out_of_range);
    EXPECT_GE(progress.done(), 500U);
    EXPECT_LT(progress.done(), 1'000'000U);
    EXPECT_THROW(workers_.run([&] {
      muster::parallel_reduce(0, 1'000'000, 0L, std::plus<>(), {.grain = 10, .progress = &progress});
    }),
                 std::out_of_range);
    // In the last call, when all turns are done.
    loop_progress last(1'000'000, [](std::size_t) { throw std::length_error("at the end"); });
    EXPECT_THROW(workers_.run([&] { muster::parallel_for(0, 1000, [](int) {}, {.progress = &last}); }),
                 std::length_error);
    EXPECT_EQ(last.done(), 1000U);
  }
}

TEST_P(progress_of_loops, makes_no_call_at_the_end_after_an_exception) {
  std::atomic<int> made{0};
  loop_progress progress(1'000'000, [&](std::size_t) { ++made; });
  EXPECT_THROW(workers_.run([&] {
    muster::parallel_for(0, 1000,
                         [](int i) {
                           if (i == 500) throw std::runtime_error("500");
                         },
                         {.progress = &progress});
  }),
               std::runtime_error);
  EXPECT_EQ(made, 0);
}

TEST_P(progress_of_loops, is_added_up_over_several) {
  calls seen(64);
  for (std::size_t loop = 1; loop <= 5; ++loop) {
    workers_.run([&] { muster::parallel_for(0, 1000, [](int) {}, {.progress = &seen.progress}); });
    EXPECT_EQ(seen.progress.done(), 1000 * loop);
    EXPECT_EQ(seen.numbers.back(), 1000 * loop);
  }
  // Two at once, and loops in loops.
  loop_progress both(10, [](std::size_t) {});
  workers_.run([&] {
    muster::fork2([&] { muster::parallel_for(0, 1000, [](int) {}, {.progress = &both}); },
                  [&] { muster::parallel_for(0, 2000, [](int) {}, {.progress = &both}); });
    muster::parallel_for(0, 10, [&](int) { muster::parallel_for(0, 100, [](int) {}, {.progress = &both}); },
                         {.progress = &both});
  });
  EXPECT_EQ(both.done(), 1000U + 2000U + 10U + 1000U);
}

// The function may use loops, even with the same object: it is not called again meanwhile.
TEST_P(progress_of_loops, may_be_reported_by_a_loop) {
  std::atomic<int> calls{0};
  loop_progress* self = nullptr;
  loop_progress progress(100, [&](std::size_t) {
    if (++calls == 1) muster::parallel_for(0, 1000, [](int) {}, {.progress = self});
  });
  self = &progress;
  workers_.run([&] { muster::parallel_for(0, 1000, [](int) {}, {.progress = self}); });
  EXPECT_EQ(progress.done(), 2000U);
  EXPECT_GE(calls, 1);
}

TEST(progress, can_be_read_while_a_loop_runs) {
  muster::pool pool({.workers = 2, .stack_bytes = muster_test::small_stack});
  loop_progress progress(1, [](std::size_t) {});
  std::atomic<bool> seen{false};
  std::jthread reader([&] {
    while (progress.done() < 10) std::this_thread::yield();
    seen = true;
  });
  pool.run([&] {
    muster::parallel_for(0, 100,
                         [&](int i) {
                           while (i > 50 && !seen) std::this_thread::yield();
                         },
                         {.grain = 1, .progress = &progress});
  });
  EXPECT_EQ(progress.done(), 100U);
}

TEST(progress, counts_outside_pools) {
  calls seen(10);
  muster::parallel_for(0, 1000, [](int) {}, {.progress = &seen.progress});
  seen.expect(1000);
}

TEST(progress, of_nothing_is_refused) {
  EXPECT_THROW(loop_progress(0, [](std::size_t) {}), std::invalid_argument);
  EXPECT_THROW(loop_progress(1, {}), std::invalid_argument);
}

}  // namespace
