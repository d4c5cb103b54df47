// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The promises of all combining objects to a single request: results and callables of any type, exceptions, refusals.
// combine_crowd_test.cpp is about many requests.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "combine_kinds.hpp"
#include "foreign_exception.hpp"
#include "scale.hpp"

namespace {

using muster::combine_options;
using muster::run_team;
using muster_test::in_one_round;
using muster_test::in_one_round_of_threads;
using muster_test::scaled;

template <class Kind>
class combine : public testing::Test {};
TYPED_TEST_SUITE(combine, muster_test::combining_kinds, muster_test::kind_names);

struct refusal : std::runtime_error {
  explicit refusal(unsigned n) : std::runtime_error("refusal"), number(n) {}
  unsigned number;
};

// -------------------------------------------------------------------------------------------- results and callables

struct wide {
  std::array<std::uint64_t, 8> words{};
  bool operator==(const wide&) const = default;
};

/// One state for all tests here, which cannot be moved, and has a kind of request that it executes in batches.
struct kept {
  explicit kept(int first = 0, std::unique_ptr<int> more = nullptr) : number(first + (more != nullptr ? *more : 0)) {}
  kept(const kept&) = delete;
  kept& operator=(const kept&) = delete;

  struct add {
    int n;
    int operator()(kept& k) const noexcept { return k.number += n; }
  };
  void execute(muster::batch<kept, add, int> all) noexcept {
    for (std::size_t i = 0; i < all.size(); ++i) all[i].result(number += all[i].function().n);
  }

  std::mutex mutex;
  int number;
  std::string text;
  std::vector<unsigned> seen;
};

/// Fits into a request, and cannot be copied.
struct only_given {
  explicit only_given(unsigned n) : number(n) {}
  only_given(only_given&&) = default;
  only_given(const only_given&) = delete;
  only_given& operator=(only_given&&) = delete;
  ~only_given() = default;
  unsigned operator()(kept&) const noexcept { return number; }
  unsigned number;
};

int add_one(kept& k) { return k.number += 1; }
int number_of(const kept& k) { return k.number; }

/// One request of each kind of result. Requests that return nothing add `tag` to the number and subtract it again.
template <class Object>
void expect_results(Object& object, int tag) {
  object.apply([tag](kept& k) { k.number += tag; });
  object.apply([tag, filler = wide{}](kept& k) noexcept { k.number -= tag + static_cast<int>(filler.words[0]); });
  EXPECT_EQ(object.apply([tag](kept&) { return tag; }), tag);
  EXPECT_EQ(object.apply([tag](kept&) noexcept { return 2.5 * tag; }), 2.5 * tag);
  EXPECT_EQ(*object.apply([tag](kept&) { return std::make_unique<int>(tag); }), tag);
  EXPECT_EQ(object.apply([tag](kept&) { return std::string(100, static_cast<char>('a' + tag % 26)); }),
            std::string(100, static_cast<char>('a' + tag % 26)));
  wide expected;
  expected.words.fill(static_cast<std::uint64_t>(tag));
  EXPECT_EQ(object.apply([tag](kept&) {
    wide w;
    w.words.fill(static_cast<std::uint64_t>(tag));
    return w;
  }),
            expected);
  std::string& text = object.apply([](kept& k) -> std::string& { return k.text; });
  EXPECT_EQ(&text, &object.apply([wide_capture = expected](kept& k) -> std::string& {
    EXPECT_EQ(wide_capture.words[0], wide_capture.words[7]);
    return k.text;
  }));
  const int& number = object.apply([](const kept& k) -> const int& { return k.number; });
  EXPECT_EQ(&number, &object.apply(&kept::number));
}

TYPED_TEST(combine, gives_results_of_every_kind) {
  typename TypeParam::template of<kept> object;
  expect_results(object, 1);
  in_one_round(object, 8, [&](unsigned i) { expect_results(object, static_cast<int>(i)); });
  in_one_round_of_threads(object, 4, [&](unsigned i) { expect_results(object, static_cast<int>(i)); });
  EXPECT_EQ(object.apply(number_of), 0);
}

TYPED_TEST(combine, takes_every_callable) {
  typename TypeParam::template of<kept> object;
  const auto body = [&](unsigned i) {
    object.apply(add_one);
    object.apply(&add_one);
    object.apply([n = std::make_unique<unsigned>(i)](kept& k) { k.number += static_cast<int>(*n); });
    // One that changes itself, small and large: the caller's own is called, and not a copy.
    auto counts = [calls = 0](kept&) mutable { return ++calls; };
    auto counts_in_much = [calls = wide{}](kept&) mutable { return ++calls.words[0]; };
    for (int call = 1; call <= 3; ++call) {
      EXPECT_EQ(object.apply(counts), call);
      EXPECT_EQ(object.apply(counts_in_much), static_cast<std::uint64_t>(call));
    }
    EXPECT_EQ(object.apply([n = 10](kept&) mutable { return ++n; }), 11);
    const auto fixed = [i](kept&) { return i; };
    EXPECT_EQ(object.apply(fixed), i);
    auto only_moved = [n = std::make_unique<unsigned>(i)](kept&) { return *n; };
    EXPECT_EQ(object.apply(only_moved), i);
    EXPECT_EQ(object.apply(std::move(only_moved)), i);
    const only_given small_and_only_moved(i);
    EXPECT_EQ(object.apply(only_given(i)), i);
    EXPECT_EQ(object.apply(small_and_only_moved), i);
  };
  body(0);
  in_one_round(object, 6, body);
  in_one_round_of_threads(object, 4, body);
  EXPECT_EQ(object.apply(number_of), 2 * (1 + 6 + 4) + 15 + 6);
}

TYPED_TEST(combine, makes_its_state_from_arguments_in_place) {
  typename TypeParam::template of<kept> object(combine_options{}, 3, std::make_unique<int>(4));
  EXPECT_EQ(object.apply(number_of), 7);
  object.check();
}

TYPED_TEST(combine, lets_a_state_execute_requests_together) {
  typename TypeParam::template of<kept> object;
  std::vector<int> sums(9);
  in_one_round(object, 8, [&](unsigned i) { sums[i] = object.apply(kept::add{1 << i}); });
  sums[8] = object.apply(kept::add{1 << 8});
  EXPECT_EQ(object.apply(number_of), 0x1ff);
  std::sort(sums.begin(), sums.end());
  EXPECT_TRUE(std::adjacent_find(sums.begin(), sums.end()) == sums.end());
  EXPECT_EQ(sums.back(), 0x1ff);
}

// ------------------------------------------------------------------------------------------------------- exceptions

/// Request i appends i to the state, and then throws when bit i of `throwing` is set.
template <class Object>
void apply_and_maybe_throw(Object& object, unsigned i, unsigned throwing, bool small) {
  const bool throws = (throwing >> i & 1) != 0;
  bool caught = false;
  try {
    if (small) {
      EXPECT_EQ(object.apply([i, throws](kept& k) {
        k.seen.push_back(i);
        if (throws) throw refusal(i);
        return i;
      }),
                i);
    } else {
      EXPECT_EQ(object.apply([i, throws, filler = wide{}](kept& k) {
        k.seen.push_back(i);
        if (throws) throw refusal(i);
        return std::to_string(i + filler.words[0]);
      }),
                std::to_string(i));
    }
  } catch (const refusal& r) {
    caught = true;
    EXPECT_EQ(r.number, i);
  }
  EXPECT_EQ(caught, throws);
}

TYPED_TEST(combine, brings_exceptions_to_their_owner_from_every_position) {
  constexpr unsigned n = 5;
  typename TypeParam::template of<kept> object;
  for (unsigned throwing = 0; throwing < 2 << n; ++throwing)
    for (const bool small : {true, false}) {
      const bool first_throws = (throwing >> n & 1) != 0;
      const auto run = [&] {
        in_one_round(
            object, n, [&](unsigned i) { apply_and_maybe_throw(object, i, throwing, small); },
            [&] {
              if (first_throws) throw refusal(n);
            });
      };
      if (first_throws) {
        EXPECT_THROW(run(), refusal);
      } else {
        run();
      }
      std::vector<unsigned> seen = object.apply([](kept& k) { return std::exchange(k.seen, {}); });
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, (std::vector<unsigned>{0, 1, 2, 3, 4}));
    }
}

// It passes through if its owner executes the operation; if another thread does, its owner learns only that one was
// thrown.
TYPED_TEST(combine, reports_exceptions_of_other_languages) {
  typename TypeParam::template of<kept> object;
  const auto body = [&](unsigned i) {
    muster_test::foreign_exception foreign;
    bool arrives = false;
    try {
      if (i % 2 == 0) {
        object.apply([&foreign](kept&) { foreign.raise(); });
      } else {
        object.apply([&foreign, much = wide{}](kept&) {
          foreign.raise();
          return much;
        });
      }
    } catch (const std::bad_exception&) {
      arrives = true;
    } catch (...) {
      arrives = std::current_exception() == nullptr;
    }
    EXPECT_TRUE(arrives);
    object.apply(add_one);
  };
  for (const unsigned alone : {0U, 1U}) body(alone);
  in_one_round(object, 6, body);
  in_one_round_of_threads(object, 4, body);
  EXPECT_EQ(object.apply(number_of), 2 + 6 + 4);
}

TYPED_TEST(combine, brings_exceptions_to_their_owner_among_threads) {
  typename TypeParam::template of<kept> object;
  const std::size_t rounds = scaled(30);
  for (unsigned round = 0; round < rounds; ++round)
    in_one_round_of_threads(object, 4, [&](unsigned i) { apply_and_maybe_throw(object, i, round, round % 2 == 0); });
  EXPECT_EQ(object.apply([](kept& k) { return k.seen.size(); }), 4 * rounds);
}

// ---------------------------------------------------------------------------------------------------------- misuse

TYPED_TEST(combine, refuses_to_be_applied_from_within_and_stays_usable) {
  typename TypeParam::template of<kept> object;
  const auto again = [&](kept& k) {
    k.number += 1;
    return object.apply(number_of);
  };
  EXPECT_THROW(object.apply(again), std::logic_error);
  EXPECT_EQ(object.apply(add_one), 2);
  unsigned refused = 0;
  in_one_round(object, 6, [&](unsigned i) {
    if (i % 2 == 0) {
      object.apply(add_one);
    } else {
      EXPECT_THROW(object.apply(again), std::logic_error);
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3U);
  EXPECT_EQ(object.apply(add_one), 9);
}

TYPED_TEST(combine, may_be_applied_from_within_another_object) {
  typename TypeParam::template of<kept> outer;
  typename TypeParam::template of<kept> inner;
  const auto each = static_cast<int>(scaled(300));
  run_team({.carriers = 3, .fibers = 4}, [&](unsigned, unsigned) {
    for (int i = 0; i < each; ++i) {
      outer.apply([&](kept& k) {
        inner.apply(add_one);
        return k.number += 1;
      });
      inner.apply(add_one);
    }
  });
  EXPECT_EQ(outer.apply(number_of), 12 * each);
  EXPECT_EQ(inner.apply(number_of), 24 * each);
}

TYPED_TEST(combine, refuses_options_of_zero) {
  if constexpr (requires { TypeParam::takes_any_number_of_threads; }) GTEST_SKIP() << "it takes any number of threads";
  using object = typename TypeParam::template of<kept>;
  combine_options none;
  none.threads = 0;
  EXPECT_THROW(object{none}, std::invalid_argument);
}

TYPED_TEST(combine, notices_that_it_is_in_use_when_it_is_checked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  typename TypeParam::template of<kept> object;
  object.apply(add_one);
  object.check();
  EXPECT_DEATH(object.apply([&](kept&) { object.check(); }), "while a thread is inside an operation");
}

template <class Object>
void expect_help_refused() {
  combine_options none;
  none.help = 0;
  EXPECT_THROW(Object{none}, std::invalid_argument);
}

TEST(combiners, refuse_help_for_no_requests) {
  expect_help_refused<muster::osci<int>>();
  expect_help_refused<muster::cc_synch<int>>();
  expect_help_refused<muster::flat_combining<int>>();
}

}  // namespace
