// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The ring of a sandbox's requests and the slots of its answers under the checker: with an inside that keeps to the
// rules, each request is claimed once, whole and in order, and each caller gets its own answer; with one that stores
// anything anywhere, the outside terminates, reads no other memory, and claims no rank twice.
#include <gtest/gtest.h>
#include <muster/syscall/detail/guarded_ring.hpp>
#include <muster/syscall/detail/guarded_slots.hpp>

#include "checker/explore.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;
namespace sync = muster::sync;
constexpr auto relaxed = std::memory_order_relaxed;

constexpr std::size_t words = 2;
using producer = muster::detail::guarded_producer<words>;
using consumers = muster::detail::guarded_consumers<words>;
using cells = std::array<producer::cell, 2>;

/// One cell for each of two callers, which wait for their answers before they call again.
class calls {
 public:
  explicit calls(std::uint64_t first_rank)
      : first_(first_rank),
        in_(cells_.data(), cells_.size(), first_rank),
        out_(cells_.data(), cells_.size(), first_rank) {}

  /// For the inside: `many` calls of the two callers in turn.
  void call(unsigned many) {
    for (unsigned i = 0; i < many; ++i) {
      const unsigned caller = i % 2;
      if (i >= 2) await_answer(caller, i - 2);
      mm::require(in_.push({i + 1, ~std::uint64_t{i}}) == first_ + i + 1, "a number that is not the next");
    }
  }
  /// For a thread of the outside.
  void serve_one() {
    std::optional<consumers::numbered> one;
    while (!(one = out_.try_pop())) {
      if (served_.load(relaxed) == most_) return;
      sync::yield();
    }
    answer(*one);
  }
  void try_to_serve() {
    if (const auto one = out_.try_pop()) answer(*one);
  }
  void expect_served(unsigned many) { most_ = many; }
  /// When the inside has seen all answers.
  void expect_all() const { mm::require(served_.load(relaxed) == most_, "a request is lost, or served twice"); }

 private:
  void await_answer(unsigned caller, unsigned call) {
    std::int64_t result = 0;
    while (!muster::detail::is_answered(slots_.at(caller), call + 1, result)) sync::yield();
    mm::require(result == -std::int64_t{call}, "an answer with another's result");
  }
  void answer(const consumers::numbered& one) {
    const std::uint64_t i = one.words[0] - 1;
    mm::require(one.words[1] == ~i, "a request is a mixture of two");
    mm::require(one.number == first_ + i + 1, "a request with another's number");
    mm::require(i < 8 && seen_.at(i).fetch_add(1, relaxed) == 0, "a request is served twice");
    served_.fetch_add(1, relaxed);
    muster::detail::answer(slots_.at(i % 2), i + 1, -static_cast<std::int64_t>(i));
  }

  const std::uint64_t first_;
  cells cells_{};
  producer in_;
  consumers out_;
  unsigned most_ = 0;
  std::array<muster::detail::guarded_slot, 2> slots_{};
  std::array<sync::atomic<unsigned>, 8> seen_{};
  sync::atomic<unsigned> served_{0};
};

/// One thread of the outside serves all but one, another the one that is left.
template <std::uint64_t First, unsigned Many>
void two_serve() {
  calls all(First);
  all.expect_served(Many);
  mm::parallel([&] { all.call(Many); },
               [&] {
                 for (unsigned i = 0; i + 1 < Many; ++i) all.serve_one();
               },
               [&] { all.serve_one(); });
  all.expect_all();
}

/// Another looks once, at any time.
void one_looks() {
  constexpr unsigned many = 3;
  calls all(0);
  all.expect_served(many);
  mm::parallel([&] { all.call(many); },
               [&] {
                 for (unsigned i = 0; i < many; ++i) all.serve_one();
               },
               [&] { all.try_to_serve(); });
  all.expect_all();
}

/// An inside that writes anything, also while the outside reads it.
void anything() {
  cells shared{};
  const producer prepared(shared.data(), shared.size());
  consumers out(shared.data(), shared.size());
  std::array<unsigned, 2> got{};
  const auto look = [&](unsigned& count) {
    for (unsigned i = 0; i < 2; ++i)
      if (const auto one = out.try_pop()) {
        ++count;
        mm::require(one->words[0] < 3 && one->words[1] < 3, "a word that was never written");
      }
  };
  mm::parallel(
      [&] {
        for (const std::uint64_t rank : {2U, 1U, 2U})
          for (producer::cell& to : shared) {
            to.words[0].store(rank, relaxed);
            to.rank.store(rank, relaxed);
          }
      },
      [&] { look(got[0]); }, [&] { look(got[1]); });
  mm::require(out.claimed() == got[0] + got[1], "a rank has been claimed twice, or never");
}

struct row {
  const char* name;
  void (*run)();
  search_bounds within;
};

constexpr std::uint64_t last = ~std::uint64_t{0};
const row table[] = {
    {"two_serve_two", two_serve<0, 2>, {-1, -1}},
    {"two_serve_three", two_serve<0, 3>, {1, 2}},
    {"two_serve_across_the_wrap", two_serve<last, 3>, {1, 1}},
    {"two_serve_before_the_wrap", two_serve<last - 1, 3>, {1, 1}},
    {"two_serve_four", two_serve<0, 4>, {1, 1}},
    {"one_looks", one_looks, {1, 2}},
    {"anything", anything, {1, 2}},
};

class guarded_ring_model : public ::testing::TestWithParam<row> {};

TEST_P(guarded_ring_model, keeps_its_promises) {
  const row& r = GetParam();
  expect_right(r.within, r.name, r.run);
  expect_right(mm::limits{.how = mm::strategy::priorities, .executions = 20'000, .depth = 4}, r.name, r.run);
}

INSTANTIATE_TEST_SUITE_P(programs, guarded_ring_model, ::testing::ValuesIn(table),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(guarded_ring_mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const row& r : table) search.programs.push_back({r.name, true, r.run, {}});
  search.survivors = {
      {"guarded_consumers::try_pop: load repeated #1", true,
       "an old head is found out by the second look, or the claim"},
  };
  search.files = {"detail/guarded_ring", "detail/guarded_slots"};
  search.prefix = "guarded_consumers";
  search.run();
}

}  // namespace
