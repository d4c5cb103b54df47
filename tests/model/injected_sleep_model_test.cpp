// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions that are given to an injector while workers fall asleep, under the checker: each must be executed, though
// the thread that gives it executes no fence. It looks for sleepers while it holds the injector's lock, and a worker
// takes the lock once more after it has announced its sleep. If either is left out, a program shows a function that
// waits for sleepers.
//
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/fork/detail/injector.hpp>
#include <muster/fork/detail/parking.hpp>

#include "checker/explore.hpp"
#include "named_programs.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
namespace sync = muster::sync;
using muster::detail::idle_workers;
using muster::detail::injected;
using muster::detail::injector;
using muster::detail::parker;
using muster_model_test::named_program;

/// A part of the protocol that is left out.
enum class wrong { nothing, looks_before, checks_without_lock };

/// The first thread gives one function after another and wakes a worker for each, if one sleeps. `workers` others take
/// functions, until all have been executed.
class game {
 public:
  game(unsigned workers, unsigned functions, wrong what = wrong::nothing)
      : what_(what),
        workers_(workers),
        places_(workers),
        all_(*new injector(reinterpret_cast<muster::detail::pool_core*>(this), 1)) {
    for (unsigned i = 0; i < functions; ++i) functions_.push_back(std::make_unique<function>(*this));
  }

  void play() {
    std::vector<unsigned> threads;
    for (unsigned i = 0; i < workers_; ++i) {
      all_.refer();
      threads.push_back(mm::spawn([this, i] {
        work(places_[i]);
        all_.release();
      }));
    }
    for (const auto& one : functions_) give(*one);
    for (const unsigned t : threads) mm::join(t);
    if (all_.operations() != 2 * functions_.size()) fail("not all operations are counted");
    all_.release_by_pool();
    for (const auto& one : functions_)
      if (one->calls.read_ref() != 1) fail("executed " + std::to_string(one->calls.read_ref()) + " times");
  }

 private:
  struct function : injected {
    explicit function(game& of)
        : injected([](injected& one) noexcept { static_cast<function&>(one).execute(); }, [](injected&) noexcept {}),
          in(of) {}
    void execute() noexcept {
      calls.write_ref() += 1;
      // The last one ends the workers.
      if (in.executed_.fetch_add(1, std::memory_order_acq_rel) + 1 != in.functions_.size()) return;
      sync::full_fence();
      while (in.asleep_.anyone()) in.asleep_.wake_one();
    }
    game& in;
    sync::cell<unsigned> calls{0U};
  };

  static void fail(const std::string& what) { mm::engine::running().fail(what); }
  bool is_over() const noexcept { return executed_.load(std::memory_order_acquire) == functions_.size(); }

  void give(function& one) noexcept {
    bool sleeper = what_ == wrong::looks_before && asleep_.anyone();
    const bool given = all_.put(one, nullptr, false, false, [&] {
      if (what_ != wrong::looks_before) sleeper = asleep_.anyone();
    });
    if (!given) fail("refused");
    if (sleeper) asleep_.wake_one();
  }
  void work(parker& place) {
    while (!is_over()) {
      if (injected* const one = all_.take()) {
        one->run();
        continue;
      }
      asleep_.announce(place);
      const bool found = what_ == wrong::checks_without_lock ? all_.has_any() : all_.has_any_for_sleeper();
      if (found || is_over()) asleep_.withdraw(place);
      else place.park();
    }
  }

  const wrong what_;
  const unsigned workers_;
  idle_workers asleep_;
  std::vector<parker> places_;
  injector& all_;
  std::vector<std::unique_ptr<function>> functions_;
  sync::atomic<std::size_t> executed_{0};
};

named_program of(const char* name, unsigned workers, unsigned functions) {
  return {name, [=] { game(workers, functions).play(); }};
}
const std::vector<named_program> few = {of("one", 1, 1), of("one, again", 1, 2), of("two", 2, 1)};
const std::vector<named_program> more = {of("one, again", 1, 2), of("two, again", 2, 2), of("two, more", 2, 3)};

TEST(given_functions, wake_sleepers) { muster_model_test::expect_all_right(few); }
TEST(given_functions, wake_sleepers_by_chance) { muster_model_test::expect_right_by_chance(more); }

TEST(given_functions, would_be_lost_without_either_lock) {
  for (const wrong what : {wrong::looks_before, wrong::checks_without_lock})
    EXPECT_TRUE(mm::explore({.preemptions = 2, .stale = 2}, [what] { game(1, 1, what).play(); }).failed);
}

TEST(mutants, are_noticed_or_explained) {
  constexpr const char* by_futures = "the programs of futures notice";
  muster_model_test::expect_mutants_noticed(
      more, {"detail/injector.hpp"},
      {
          {"injector::put: store skipped #1", true, by_futures},
          {"injector::unlink: store skipped #1", true, by_futures},
          {"injector::release: fetch_sub acq_rel -> acquire #1", true, by_futures},
          {"injector::release: fetch_sub acq_rel -> release #1", true, by_futures},
          {"injector::release_by_pool: fetch_sub acq_rel -> acquire #1", true, by_futures},
          {"injector::release_by_pool: fetch_sub acq_rel -> release #1", true, by_futures},
          {"injector::release_by_pool: fetch_sub skipped #1", true, "the injector is not deleted"},
      });
}

}  // namespace
