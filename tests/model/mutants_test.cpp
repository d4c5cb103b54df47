// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queues' mutants (mutant_search.hpp), with the programs of queue_table.hpp. A queue is its own files and the
// waiting that it is built on; lanes are built on spmc_queue, and what they alone use
// of it is changed with it.
#include <gtest/gtest.h>

#include "mutant_search.hpp"
#include "queue_table.hpp"
#include "small_items_programs.hpp"
#include "small_waits.hpp"

#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

const std::vector<survivor> survivors = {
    {"temporal_slip::", true, "decides how long a thread looks, not what it finds"},
    {"eventcount::wake_bits: compare_exchange skipped", true, "the bit stays: superfluous wakes"},
    {"eventcount::wake_bits: load repeated", true, "an older word, which is not found again: the bit stays, as above"},
    {"eventcount::has_listeners: load repeated", true, "without listeners: they are changed in notify_model_test.cpp"},
    {"eventcount::wake_one: fetch_or skipped", true,
     "it changes nothing, and what it has read is all the same the newest"},
    {"eventcount::wake_one: futex_wake skipped", true, "as if no thread had been asleep: all of the key are woken"},
    {"spmc_queue::pass_over: load repeated", false,
     "the queue is closed while a bulk push throws, and one more item is pushed: see unit/queue_lifetime_test.cpp"},
    {"spmc_queue::unclaimed: load repeated", true, "see temporal_slip"},
    {"spmc_queue::has_first: load repeated", true, "see temporal_slip: lanes ask it before they look longer"},
    {"spmc_queue::await_room: load repeated", true, "the wait has a limit of a millisecond"},
    {"pop_watch::pop_watch: load repeated", true, "an older rank: has moved, so that it does not wait at all"},
    {"spmc_queue::claim_item: load repeated", true, "the rank is resolved: both looks say the same of its item"},
    {"spmc_queue::look_at_head: load repeated", false,
     "of lanes: one of two items is taken between two loads of a sleeper's last check, and the other stays"},
    {"spmc_queue::resolved: load repeated", true, "a bulk pop takes fewer items"},
    {"spmc_queue::claim_at_once: load repeated", true, "the same, or the compare-exchange fails"},
    {"mpmc_queue::claim: compare_exchange seq_cst -> acq_rel", false,
     "a thread that makes a gap has read the word, but for a push that waits for the room of its rank as the queue is "
     "closed"},
    {"mpmc_queue::claim_late: compare_exchange seq_cst -> acq_rel", false, "as in claim"},
    {"mpmc_queue::make_gap: load seq_cst -> acquire", false,
     "matters if another thread has raised gaps_end_ further, for a later gap"},
    {"mpmc_queue::make_gap: load repeated", true, "the compare-exchange reads it again"},
    {"mpmc_queue::claim_place: load repeated", true, "tight_, a hint: whether a thread slips; see temporal_slip"},
    {"mpmc_queue::claim_place_slowly: load repeated", true, "tight_, a hint: a step more or less until it has a rank"},
    {"mpmc_queue::take_rank_with_room: load repeated", true, "head_seen_, a hint: see tight_"},
    {"mpmc_queue::take_rank_with_room: store skipped", true, "tight_, a hint: ranks are taken one check later"},
    {"mpmc_queue::knows_room: load repeated", true, "head_seen_, a hint: an older bound"},
    {"mpmc_queue::is_there: load repeated", true, "the item is not there yet: a slower look follows"},
    {"mpmc_queue::claim_at_once: load repeated", true, "an older head: the compare-exchange fails, and it looks again"},
    {"mpmc_queue::await_own_room: store skipped", true, "tight_, a hint: ranks are taken that there is no room for"},
    {"mpmc_queue::has_room: store skipped", true, "a hint: the next push looks at head_ itself"},
    {"mpmc_queue::claim_up_to: load repeated", false,
     "of tail_: head_ has moved meanwhile, a producer is late, and another's item is behind it"},
    {"mpmc_queue::free_places: load repeated", true, "see temporal_slip"},
    {"mpmc_queue::free_places: store skipped", true, "a hint: the next push looks at head_ itself"},
    {"mpmc_queue::await_room: load repeated", true, "asks for the room of an older rank: at worst tries once more"},
    {"mpmc_queue::await_cell: load repeated", true, "the wait has a limit of a millisecond"},
    {"pop_watch::ready: load repeated", true, "of mpmc: the look before it finds the cell freed"},
    {"mpmc_queue::unclaimed: load repeated", true, "see temporal_slip"},
    {"lane_bitmap::clear_empty: fetch_and skipped", true, "the bits stay: consumers look into empty lanes"},
    {"lane_bitmap::clear_empty: load repeated", true, "fewer lanes, or some that are out already"},
    {"lane_bitmap::next: load repeated", true, "a late bit; what is answered comes from the lanes"},
    {"lanes::lanes: store skipped", true, "all threads begin in the same lane"},
    {"lanes::size_approx: load repeated", true, "see temporal_slip; and an approximation"},
    {"lanes::visit_unmarked: load repeated", true, "fewer lanes, as for the next"},
    {"lanes::visit_marked: load repeated", true, "a late lane: a pop that finds nothing looks at all of them anyway"},
    {"lanes::is_drained: load repeated", true, "a wait ends early, and the pop looks again"},
    {"lanes::consumer: fetch_add skipped", true,
     "all handles have the same number: they begin in one lane, and wake together"},
    {"seated::~seated: store skipped", true, "a thread forgets the lane it was in"},
};

mutant_program made(const row& r, bool asymmetric) {
  return {name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), asymmetric, make_program(r), {}};
}

// An operation that finds the queue empty because of a pop after close() must not report that it is open.
mutant_program last_pop(const char* queue, const char* text) { return made({queue, 1, text, -1, -1}, false); }

// The first thread is late: a lap later another makes a gap in the cell of its rank, which a slow consumer holds.
const row late{"mpmc", 1, "wait push | push*2 pop set taken set push pop push set | pop_slow*3 | wait*2 pop", 0, 0};
// And then another producer uses the cell again that it has given back.
const row later{"mpmc", 1,
                "wait push | push*2 pop set taken set push pop push set pop push pop push | pop_slow*3 | wait*2 pop",
                -1, -1};

// A request to stop wakes every sleeper without asking whether there is one: the new epoch alone says that it came.
void request_to_stop() {
  muster::eventcount events;
  muster::sync::atomic<unsigned> stop{0};
  const auto stopped = [&] { return stop.load(std::memory_order_relaxed) == 1; };
  mm::parallel(
      [&] {
        stop.store(1, std::memory_order_relaxed);
        events.wake_sleepers();
      },
      [&] { events.await<hasty>(0, stopped, muster::no_deadline, [] {}); });
}

std::vector<needle> needles() {
  return {
      {"eventcount::wake_bits: fetch_add release -> relaxed", {"a request to stop", false, request_to_stop, {}}},
      {"eventcount::announce: load acquire -> relaxed", {"a request to stop", false, request_to_stop, {}}},
      {"spmc_queue::claim_resolved: compare_exchange rel",
       made({"spmc", 2, "try_push*2 try_pop | close try_pop | try_pop", -1, -1}, false)},
      {"spmc_queue::claim_exactly: load repeated", made({"spmc", 4, "try_push*3 try_pop | try_pop*2", -1, -1}, true)},
      {"spmc_queue::take_ticket: fetch_add release -> relaxed", last_pop("spmc", "try_push try_pop | close pop")},
      {"mpmc_queue::claim_up_to: load acquire -> relaxed", last_pop("mpmc", "try_push try_pop | close try_pop")},
      {"mpmc_queue::claim_up_to: compare_exchange rel", last_pop("mpmc", "try_push try_pop | close try_pop_n")},
      {"mpmc_queue::claim_at_once: compare_exchange rel", last_pop("mpmc", "try_push try_pop | close try_pop")},
      {"mpmc_queue::take_ticket: fetch_add release -> relaxed", last_pop("mpmc", "try_push try_pop | close pop")},
      {"mpmc_queue::has_room: load repeated", made({"mpmc", 1, "push_bad | push*4 | pop*2 | pop*2", -1, -1}, false)},
      {"mpmc_queue::take_rank: fetch_add", made({"mpmc", 2, "push*2 pop push | pop push | pass_on", -1, -1}, false)},
      {"mpmc_queue::take_rank: compare_exchange",
       made({"mpmc", 2, "push*2 pass_on | pass_on | pass_on", -1, -1}, false)},
      {"mpmc_queue::take_rank_with_room: compare_exchange rel",
       made({"mpmc", 2, "push*2 pass_on | pass_on | pass_on", -1, -1}, false)},
      {"mpmc_queue::claim: ", made(late, true)},
      {"mpmc_queue::claim_among_gaps: ", made(late, true)},
      {"mpmc_queue::claim_late: ", made(late, false)},
      {"mpmc_queue::make_gap: compare_exchange", made(late, true)},
      {"mpmc_queue::give_back: store release -> relaxed", made(later, true)},
      {"mpmc_queue::look: load seq_cst", made(late, true)},
      {"eventcount::wake_one: fetch_add skipped", made({"mpmc", 1, "push*2 | push | pop*2", -1, -1}, true)},
      {"spmc_queue::resolved: load acquire -> relaxed",
       made({"spmc", 3, "try_push*5 | try_pop | try_pop try_pop_n*3", -1, -1}, true)},
  };
}

class mutants : public ::testing::TestWithParam<std::string> {};

TEST_P(mutants, are_noticed_or_explained) {
  mutant_search search;
  const bool lanes = GetParam() == "lane";
  for (const row& r : table)
    for (const bool asymmetric : {true, false})
      if (!lanes || std::string(r.queue).starts_with("lane")) search.programs.push_back(made(r, asymmetric));
  if (GetParam() == "spsc")
    for (const named_program& one : small_item_programs) search.programs.push_back({one.name, true, one.run, {}});
  search.survivors = survivors;
  search.needles = needles();
  search.files = {"/" + GetParam()};
  if (!lanes) search.files.insert(search.files.end(), {"detail/eventcount", "detail/temporal_slip"});
  search.prefix = lanes ? "lane" : GetParam() + "_queue::";
  search.run();
}

INSTANTIATE_TEST_SUITE_P(of, mutants, ::testing::Values("spsc", "spmc", "mpmc", "lane"),
                         [](const auto& at) { return at.param; });

}  // namespace
