// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The techniques that the benchmark compares the library's combining objects with must be right, too: each request is
// executed once, its result and its exception reach its caller, histories are linearizable, and the last user may
// destroy the object.
#include <gtest/gtest.h>
#include <baselines/combining/clh.hpp>
#include <baselines/combining/dsm_synch.hpp>
#include <baselines/combining/ffwd.hpp>
#include <baselines/combining/h_synch.hpp>
#include <baselines/combining/mcs.hpp>
#include <baselines/combining/oyama.hpp>
#include <baselines/combining/retry.hpp>
#include <muster/fiber.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "combine_crowd.hpp"
#include "combine_kinds.hpp"
#include "counted.hpp"
#include "object_specs.hpp"
#include "scale.hpp"

namespace {

using muster::combine_options;
using muster::run_team;
using muster_test::append_by_team;
using muster_test::counted;
using muster_test::expect_linearizable;
using muster_test::ids;
using muster_test::kind;
using muster_test::scaled;
using number = std::uint64_t;

template <class State, class Wait>
struct two_clusters : muster::bench::h_synch<State, Wait> {
  template <class... Args>
  explicit two_clusters(const combine_options& options = {}, Args&&... args)
      : muster::bench::h_synch<State, Wait>(muster::bench::h_synch_options{options, 2}, std::forward<Args>(args)...) {}
};

struct dsm_synch : kind<muster::bench::dsm_synch> {
  [[maybe_unused]] static constexpr const char* name = "dsm_synch";
};
struct h_synch : kind<muster::bench::h_synch> {
  [[maybe_unused]] static constexpr const char* name = "h_synch";
};
struct h_synch_of_two : kind<two_clusters, muster::wait::park> {
  [[maybe_unused]] static constexpr const char* name = "h_synch_of_two";
};
struct oyama : kind<muster::bench::oyama> {
  [[maybe_unused]] static constexpr const char* name = "oyama";
};
struct clh : kind<muster::bench::clh> {
  [[maybe_unused]] static constexpr const char* name = "clh";
};
struct mcs : kind<muster::bench::mcs, muster::wait::park> {
  [[maybe_unused]] static constexpr const char* name = "mcs";
};
struct ffwd : kind<muster::bench::ffwd> {
  [[maybe_unused]] static constexpr const char* name = "ffwd";
};
using kinds = muster_test::kinds_to_test<testing::Types<dsm_synch, h_synch, h_synch_of_two, oyama, clh, mcs, ffwd>,
                                         testing::Types<dsm_synch, h_synch_of_two, oyama, ffwd>>;

template <class Kind>
class baseline : public testing::Test {};
TYPED_TEST_SUITE(baseline, kinds, muster_test::kind_names);

TYPED_TEST(baseline, executes_every_request_once_with_its_own_argument) {
  for (const unsigned help : {1U, 1024U}) {
    typename TypeParam::template of<ids> object(combine_options{.help = help});
    for (const unsigned fibers : {1U, 8U}) append_by_team(object, 3, fibers, scaled(3000));
    object.check();
  }
}

TYPED_TEST(baseline, serves_all_requests_that_came_meanwhile) {
  for (const unsigned help : {1U, 2U, 1024U})
    muster_test::expect_all_to_be_served<typename TypeParam::template of<ids>>(help);
}

TYPED_TEST(baseline, is_linearizable) {
  expect_linearizable<muster_test::fetch_and_multiply_spec, muster_test::fetch_and_multiply,
                      typename TypeParam::template of<number>>(1);
}

/// A result that does not fit into a request, and a state that is destroyed once.
TYPED_TEST(baseline, brings_results_and_exceptions_to_their_caller) {
  const auto before = counted::alive();
  {
    typename TypeParam::template of<counted> object(combine_options{}, number{3});
    muster_test::in_one_round(object, 6, [&](unsigned i) {
      EXPECT_EQ(object.apply([i](counted&) { return i; }), i);
      EXPECT_EQ(object.apply([i](counted&) { return std::string(40, static_cast<char>('a' + i)); }),
                std::string(40, static_cast<char>('a' + i)));
      EXPECT_EQ(object.apply([i](counted&) { return counted(i); }).value(), i);
      try {
        object.apply([i](counted&) { throw std::runtime_error(std::to_string(i)); });
        ADD_FAILURE() << "nothing is thrown";
      } catch (const std::runtime_error& e) {
        EXPECT_EQ(e.what(), std::to_string(i));
      }
      EXPECT_THROW(object.apply([&object](counted&) { object.apply([](counted&) {}); }), std::logic_error);
    });
    EXPECT_EQ(object.apply([](const counted& s) { return s.value(); }), 3U);
    EXPECT_EQ(counted::alive(), before + 1) << "results are left";
  }
  EXPECT_EQ(counted::alive(), before) << "the state is left";
}

TYPED_TEST(baseline, may_be_owned_by_its_users) {
  using object = typename TypeParam::template of<number>;
  for (std::size_t round = 0; round < scaled(200); ++round) {
    auto first = std::make_shared<object>();
    std::atomic<number> sum{0};
    std::vector<std::jthread> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([mine = first, &sum]() mutable {
        sum.fetch_add(mine->apply([](number& n) { return ++n; }));
        mine.reset();
      });
    first.reset();
    all.clear();
    ASSERT_EQ(sum.load(), 1U + 2 + 3 + 4);
  }
}

TYPED_TEST(baseline, notices_that_it_is_in_use_when_it_is_checked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  typename TypeParam::template of<int> object;
  object.apply([](int& s) { ++s; });
  object.check();
  EXPECT_DEATH(object.apply([&](int&) { object.check(); }), "while a thread is inside an operation");
}

template <class Object>
void expect_help_for(unsigned help) {
  EXPECT_THROW(Object(combine_options{.help = 0}), std::invalid_argument);
  // All come while the first operation is being executed; its thread serves at most `help` of them.
  Object object(combine_options{.help = help});
  std::atomic<unsigned> by_first{0};
  std::atomic<std::thread::id> first;
  const auto note = [&](auto&) {
    if (first.load() == std::this_thread::get_id()) ++by_first;
  };
  muster_test::in_one_round_of_threads(
      object, 5, [&](unsigned) { object.apply(note); }, [&] { first = std::this_thread::get_id(); });
  EXPECT_LE(by_first, help);
}

TEST(baselines, serve_at_most_help_requests) {
  for (const unsigned help : {1U, 3U}) {
    expect_help_for<muster::bench::dsm_synch<int>>(help);
    expect_help_for<muster::bench::h_synch<int>>(help);
    expect_help_for<muster::bench::oyama<int>>(help);
  }
}

// ----------------------------------------------------------------------------------------------------------- retry

using muster::bench::retry;

TEST(retry, executes_every_operation_once_with_its_own_argument) {
  retry<number> object;
  std::vector<number> seen(4 * 8 * 16);
  run_team({.carriers = 4, .fibers = 8}, [&](unsigned c, unsigned f) {
    for (number i = 0; i < 16; ++i) {
      const number id = (c * 8 + f) * 16 + i;
      // The state is the last number that came, and each operation learns which came before it.
      seen[id] = object.apply([id](number& s) { return std::exchange(s, id + 1); });
    }
  });
  const number last = object.apply([](const number& s) { return s; });
  std::set<number> all(seen.begin(), seen.end());
  all.insert(last);
  EXPECT_EQ(all.size(), seen.size() + 1);
}

TEST(retry, is_linearizable) {
  expect_linearizable<muster_test::fetch_and_multiply_spec, muster_test::fetch_and_multiply, retry<number>>(1);
}

TEST(retry, starts_again_from_the_state_of_a_faster_thread) {
  retry<number> object;
  std::atomic<int> stage{0};
  std::jthread faster([&] {
    stage.wait(0);
    object.apply([](number& s) noexcept { s += 10; });
    stage = 2;
    stage.notify_all();
  });
  int runs = 0;
  const number result = object.apply([&](number& s) noexcept {
    if (++runs == 1) {
      stage = 1;
      stage.notify_all();
      stage.wait(1);
    }
    return s += 1;
  });
  EXPECT_EQ(result, 11U);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(object.apply([](number& s) noexcept { return s; }), 11U);
}

TEST(retry, keeps_small_states_with_holes) {
  struct holed {
    char first = 'a';
    short second = 1;
    char third = 'z';
  };
  static_assert(!std::has_unique_object_representations_v<holed>);
  retry<holed> object(combine_options{}, holed{'b', 0, 'y'});
  run_team({.carriers = 3, .fibers = 2}, [&](unsigned, unsigned) {
    for (int i = 0; i < 500; ++i)
      object.apply([](holed& h) { h = holed{h.first, static_cast<short>(h.second + 1), 'x'}; });
  });
  const holed end = object.apply([](const holed& h) { return h; });
  EXPECT_EQ(end.first, 'b');
  EXPECT_EQ(end.second, 3000);
  EXPECT_EQ(end.third, 'x');
}

TEST(retry, leaves_the_state_alone_when_an_operation_throws) {
  retry<int> object(combine_options{}, 5);
  const auto one_more = [](int& s) { return s += 1; };
  EXPECT_THROW(object.apply([](int& s) {
    s = 7;
    throw std::runtime_error("7");
  }),
               std::runtime_error);
  EXPECT_EQ(object.apply(one_more), 6);
  EXPECT_THROW(object.apply([&](int& s) { return s + object.apply(one_more); }), std::logic_error);
  EXPECT_EQ(object.apply(one_more), 7);
  object.check();
  combine_options none;
  none.threads = 0;
  EXPECT_THROW(retry<int>{none}, std::invalid_argument);
}

template <class F>
concept retries = requires(retry<int>& object, F f) { object.apply(std::move(f)); };

TEST(retry, refuses_operations_that_cannot_run_on_copies) {
  const auto pure = [](int& s) { return ++s; };
  const auto changes_itself = [n = 0](int&) mutable { return ++n; };
  const auto points_into_a_copy = [](int& s) -> int& { return s; };
  static_assert(retries<decltype(pure)>);
  static_assert(!retries<std::remove_const_t<decltype(changes_itself)>>);
  static_assert(!retries<decltype(points_into_a_copy)>);
  static_assert(muster::bench::fits_a_word<number> && !muster::bench::fits_a_word<std::string>);
  SUCCEED();
}

}  // namespace
