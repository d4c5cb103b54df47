// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queue between processes under the checker, where a process is a thread, and one that has stopped forever is dead:
// all histories (shared_queue_table.hpp), and the state after a process dies before any of its operations
// (shared_deaths.hpp).
#include <gtest/gtest.h>

#include "expect_right.hpp"
#include "mutant_search.hpp"
#include "shared_bytes_programs.hpp"
#include "shared_deaths.hpp"
#include "shared_queue_table.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

class shared_queue_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(shared_queue_model, has_no_execution_that_breaks_a_promise) {
  const shared_row& r = shared_table[GetParam()];
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    expect_right(r.within, name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), make_program(r));
  }
}

INSTANTIATE_TEST_SUITE_P(programs, shared_queue_model, ::testing::Range(std::size_t{0}, shared_table.size()));

/// A consumer that keeps popping while its lane has items finds those of the other lane.
class turns {
  using place = shared_lanes<false>;
  static constexpr unsigned most = 64;  // in a row, from one lane

 public:
  void play() {
    all_.open(own_);
    all_.open(consumer_);
    unsigned pops = 0;
    while (pops != most - 1) push_and_pop(), ++pops;
    const unsigned other = mm::spawn([this] {
      std::optional<place::producer_port> port;
      all_.open(port);
      static_cast<void>(port->push(others));
    });
    push_and_pop();
    mm::join(other);
    for (pops = 0; !found_others_; ++pops) {
      if (pops > most) mm::engine::running().fail("a lane with items is not reached");
      push_and_pop();
    }
    own_.reset();
    consumer_.reset();
  }

 private:
  static constexpr number others = 1000;

  void push_and_pop() {
    static_cast<void>(own_->push(++pushed_));
    const auto item = consumer_->pop();
    if (!item || (*item == others ? found_others_ : *item != popped_ + 1))
      mm::engine::running().fail("another item than the first of its lane");
    if (*item == others) found_others_ = true;
    else popped_ = *item;
  }

  place all_{2, near_the_wrap};
  std::optional<place::producer_port> own_;
  std::optional<place::consumer_port> consumer_;
  number pushed_ = 0, popped_ = 0;
  bool found_others_ = false;
};

TEST(shared_queue_lanes, are_all_reached_by_one_consumer) {
  const auto program = [] { std::make_unique<turns>()->play(); };
  expect_right(mm::limits{.preemptions = 2, .stale = 0, .executions = 100'000}, "lanes: turns", program);
}

TEST(shared_queue_places, are_handed_over) {
  for (const death_row& d : handovers())
    for (const auto how : {mm::strategy::random, mm::strategy::priorities})
      expect_right(mm::limits{.how = how, .executions = 20'000, .depth = 4}, d.name, d.program);
}

TEST(shared_queue_deaths, lose_no_item_and_block_no_other_process) {
  for (const death_row& d : deaths()) {
    for (const bool asymmetric : {true, false}) {
      mm::settings().asymmetric_fences = asymmetric;
      expect_right(mm::limits{.preemptions = 1, .stale = 0, .executions = 1'000'000, .freeze = 1}, d.name, d.program);
      for (const auto how : {mm::strategy::random, mm::strategy::priorities})
        for (const int mortal : {1, -1})
          expect_right(mm::limits{.how = how, .executions = 10'000, .depth = 4, .freeze = mortal}, d.name, d.program);
    }
  }
}

TEST(shared_queue_mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const shared_row& r : shared_table)
    for (const bool asymmetric : {true, false})
      search.programs.push_back({name_of(r), asymmetric, make_program(r), {}});
  for (const death_row& d : deaths()) search.programs.push_back({d.name, true, d.program, {}, 1});
  search.programs.push_back({deaths().back().name + ", and live", true, deaths().back().program, {}});
  for (const death_row& d : handovers()) search.programs.push_back({d.name, true, d.program, {}});
  for (const letters_row& r : letters_programs())
    for (const bool asymmetric : {true, false})
      search.programs.push_back({r.name, asymmetric, r.program, {}, r.freeze});
  search.survivors = {
      {"shared_ring::claim_item: load repeated", true, "an older hint: walks over the ranks between"},
      {"shared_ring::check: load repeated", true, "an older hint, as above"},
      {"shared_ring::view_of: load repeated", true, "an older head: its sleepers check again after 50 ms"},
      {"shared_ring::look_closer: load repeated", true, "of a ring's end: any that is there with the flag is right"},
      {"shared_ring::claim_item: store skipped", true, "a hint: consumers walk over the ranks between"},
      {"shared_ring::has_news: load repeated", true, "a hint: the pop looks again"},
      {"shared_ring::help_to_close: load repeated", true, "what has changed in between has seen the flag"},
      {"shared_ring::claim_place: load repeated", true, "an older hint: walks over the ranks between"},
      {"shared_ring::claim_place: store skipped", true, "a hint, as above"},
      {"shared_ring::search_place: load repeated", true,
       "of a cell met again a lap later: only its producers make it less free, and they claim by compare-exchange"},
      {"shared_ring::search_place: store release -> relaxed", false,
       "when there is no room: as the store of claim_place, and a fifth thread that finds no room"},
      {"shared_ring::has_room: store skipped", true, "a hint: the next push walks again"},
      {"shared_ring::await_room: load repeated", true, "asks for the room of an older rank"},
      {"shared_ring::size_approx: load repeated", true,
       "an approximation; and decides how long a thread looks, not what it finds"},
      {"shared_ring::free_places: load repeated", true, "decides how long a thread looks, as above"},
      {"shared_ring::find_place: load repeated", true, "an older rank of its own: walks over those between"},
      {"shared_ring::find_place: store skipped", true, "a hint, as the store of claim_place"},
      {"shared_ring::help: load repeated", true, "a hint, and a seat that is looked at before anything is done"},
  };
  const shared_row hint{"mpmc", 3, "try_push | try_push | try_push | close try_pop*2", {-1, -1}};
  // An operation that finds the queue empty because of a pop after close() must not report that it is open.
  const shared_row last_pop{"mpmc", 1, "try_push try_pop | close try_pop", {-1, -1}};
  const auto made = [](const shared_row& r, bool asymmetric) {
    return mutant_program{name_of(r), asymmetric, make_program(r), {}};
  };
  const shared_row takers{"mpmc", 2, "try_push*2 try_pop | try_push try_pop | close try_pop*2", {-1, -1}};
  const shared_row full{"mpmc", 1, "try_push*2 | try_push try_pop | close try_pop*2", {-1, -1}};
  search.needles = {
      {"shared_ring::claim_item: load acquire -> relaxed", made(takers, false)},
      {"shared_ring::claim_place: load acquire -> relaxed", made(takers, false)},
      {"shared_ring::claim_place: store release -> relaxed", made(takers, false)},
      {"shared_ring::claim_place: store release -> relaxed", made(hint, false)},
      {"shared_ring::has_room: store release -> relaxed", made(full, false)},
      {"shared_ring::claim_item_of: compare_exchange release -> relaxed", made(last_pop, false)},
      {"shared_ring::claim_item: store release -> relaxed", made(last_pop, false)},
  };
  search.files = {"detail/shared_"};
  search.prefix = "shared_ring::";
  search.executions = 16384;
  search.run();
}

}  // namespace
