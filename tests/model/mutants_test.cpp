// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Does the checking of the queues look hard enough, and are their operations no stronger than they need to be? Every
// operation of theirs on what threads share is changed, one at a time (muster_model/mutation.hpp), and the programs of
// queue_table.hpp that execute it are run until one of them fails. A change that none of them notices must be listed
// below with the reason. A queue is its own files and the waiting that it is built on. Each ends with the line
// `mutants: killed K of N`.
#include <gtest/gtest.h>

#include "queue_table.hpp"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;

/// A change that is not noticed. The description begins with `what`.
struct survivor {
  const char* what;
  bool is_right;  // the changed queue is right as well; otherwise the checker cannot, or need not, go that far
  const char* reason;
};

const std::vector<survivor> survivors = {
    {"slipping::", true, "decides how long a thread looks, not what it finds"},
    {"event_mask::wake_bits: fetch_and skipped", true, "the bit stays: superfluous wakes"},
    {"event_mask::wake_one: futex_wake skipped", true, "as if nobody had been asleep: all of the key are woken"},
    {"spsc_queue::has_item: load repeated", true, "the consumer's own: a bulk pop makes a second run of nothing"},
    {"spmc_queue::unclaimed: load repeated", true, "see slipping"},
    {"spmc_queue::await_room: load repeated", true, "the wait has a limit of a millisecond"},
    {"spmc_queue::await_head: load repeated", true, "an older rank: has moved, so that it does not wait at all"},
    {"spmc_queue::try_pop: load repeated", true, "the rank is resolved: both looks say the same of its item"},
    {"spmc_queue::resolved: load repeated", true, "a bulk pop takes fewer items"},
    {"mpmc_queue::claim_place: load repeated", true, "an older hint: walks over the ranks between"},
    {"mpmc_queue::make_gap: load repeated", true, "the compare-exchange reads it again"},
    {"mpmc_queue::claim_place: store skipped", true, "a hint: producers walk over the ranks between"},
    {"mpmc_queue::has_room: store skipped", true, "a hint: the next push looks at head_ itself"},
    {"mpmc_queue::free_places: load repeated", true, "see slipping"},
    {"mpmc_queue::await_room: load repeated", true, "asks for the room of an older rank: at worst tries in vain"},
    {"mpmc_queue::await_cell: load repeated", true, "the wait has a limit of a millisecond"},
    {"mpmc_queue::await_head: load repeated", true, "the look before it finds the cell freed"},
    {"mpmc_queue::claim_place: store release -> relaxed", false,
     "of the first store, when there is no room: as for the other, and a fifth thread that finds no room"},
    {"mpmc_queue::unclaimed: load repeated", true, "see slipping"},
    {"mpmc_queue::is_passed: load repeated", true, "what has changed in between has seen the flag"},
    {"mpmc_queue::look: load acquire -> relaxed", false,
     "of the gap: a sequentially consistent load executed before an older relaxed one is beyond the checker"},
};

/// Changes that need one program and many executions by priorities.
struct hard {
  const char* what;
  bool asymmetric;
  row program;
};

// The hint of mpmc_queue: a third push sets it back between a push that has missed close() and the walk of close().
const row hint{"mpmc", 3, "try_push | try_push | try_push | close try_pop*2", -1, -1};
const std::vector<hard> needles = {
    {"mpmc_queue::claim_place: load acquire -> relaxed", false, hint},
    {"mpmc_queue::claim_place: store release -> relaxed", false, hint},
    {"mpmc_queue::has_room: load repeated", false, {"mpmc", 1, "push_bad | push*4 | pop*2 | pop*2", -1, -1}},
    {"mpmc_queue::give_back: store release -> relaxed", true, {"mpmc", 1, "push_stop*2 | push_stop*2 | pop*4", -1, -1}},
    {"spmc_queue::resolved: load acquire -> relaxed",
     true,
     {"spmc", 3, "try_push*5 | try_pop | try_pop try_pop_n*3", -1, -1}},
};

struct program {
  std::string name;
  bool asymmetric;
  std::function<void()> run;
  std::map<mm::strategy, std::uint64_t> right;  // the unchanged program has passed so many executions
};

std::vector<program> programs() {
  std::vector<program> all;
  for (const row& r : table)
    for (const bool asymmetric : {true, false})
      all.push_back(
          {name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), asymmetric, make_program(r), {}});
  return all;
}

mm::limits within(mm::strategy how, std::uint64_t executions) {
  return {.how = how, .executions = executions, .steps = 2000, .depth = 4};
}

/// Whether the program notices the change, and the same search finds nothing in the unchanged program.
bool notices(program& p, const mm::mutation& m, mm::strategy how, std::uint64_t executions) {
  mm::settings().asymmetric_fences = p.asymmetric;
  const mm::result changed = mm::explore(within(how, executions), p.run, &m);
  if (!changed.failed) return false;
  if (p.right[how] < changed.executions) {
    p.right[how] = changed.executions;
    const mm::result unchanged = mm::explore(within(how, changed.executions), p.run);
    EXPECT_FALSE(unchanged.failed) << p.name << " fails without a change: " << unchanged.failed->what;
  }
  return true;
}

/// Which program notices the change; empty: none of the programs within so many executions.
std::string killer_of(const mm::mutation& m, const std::vector<program*>& users, std::uint64_t most) {
  for (std::uint64_t executions = 64; executions <= most; executions *= 8)
    for (program* p : users)
      for (const auto how : {mm::strategy::priorities, mm::strategy::random})
        if (notices(*p, m, how, executions)) return p->name;
  return {};
}

std::string killer_of(const mm::mutation& m, const hard& needle) {
  program p{name_of(needle.program), needle.asymmetric, make_program(needle.program), {}};
  return notices(p, m, mm::strategy::priorities, 300'000) ? p.name : "";
}

/// Where an operation stands: which programs execute it, and whether in one of them it reads what it has read before.
struct place {
  std::vector<program*> users;
  bool rereads = false;
};

struct score {
  unsigned mutants = 0, killed = 0, right = 0;
};

class mutants : public ::testing::TestWithParam<const char*> {};

TEST_P(mutants, are_noticed_or_explained) {
  const std::string file = GetParam();
  std::vector<program> all = programs();
  std::map<mm::operation_site, place> places;
  for (program& p : all) {
    mm::settings().asymmetric_fences = p.asymmetric;
    for (const mm::operation_site& site : mm::operations_of(within(mm::strategy::random, 100), p.run)) {
      if (site.file.find(file) == std::string::npos && site.file.find("base/wait") == std::string::npos) continue;
      places[site].users.push_back(&p);
      places[site].rereads |= site.rereads;
    }
  }
  ASSERT_FALSE(places.empty()) << "no program executes anything in " << file;
  score here;
  std::set<std::string> used;
  for (const auto& [known, at] : places) {
    mm::operation_site site = known;
    site.rereads = at.rereads;
    for (const mm::mutation& m : mm::mutations_of(site)) {
      ++here.mutants;
      const std::string what = m.describe();
      const auto explained =
          std::find_if(survivors.begin(), survivors.end(), [&](const survivor& s) { return what.starts_with(s.what); });
      const bool expected = explained != survivors.end();
      const auto needle =
          std::find_if(needles.begin(), needles.end(), [&](const hard& h) { return what.starts_with(h.what); });
      std::string killer = killer_of(m, at.users, expected || needle != needles.end() ? 64 : 32768);
      if (killer.empty() && needle != needles.end()) killer = killer_of(m, *needle);
      here.killed += !killer.empty();
      here.right += killer.empty() && expected && explained->is_right;
      if (killer.empty() && expected) used.insert(explained->what);
      std::cout << site.file << ':' << site.line << ' ' << what << ": "
                << (!killer.empty() ? "killed by " + killer
                    : expected      ? std::string("survives: ") + explained->reason
                                    : "SURVIVES")
                << '\n';
      EXPECT_TRUE(expected || !killer.empty()) << what << " is not noticed by any program";
    }
  }
  const std::string queue = file.substr(file.find('/') + 1) + "_queue::";
  for (const survivor& s : survivors)
    EXPECT_TRUE(used.contains(s.what) || !std::string(s.what).starts_with(queue)) << s.what << " explains no survivor";
  EXPECT_GE(here.killed, 0.95 * (here.mutants - here.right));
  std::cout << here.right << " mutants change nothing that is promised\n"
            << "mutants: killed " << here.killed << " of " << here.mutants - here.right << '\n';
}

INSTANTIATE_TEST_SUITE_P(of, mutants, ::testing::Values("impl/spsc", "impl/spmc", "impl/mpmc"),
                         [](const auto& at) { return std::string(at.param).substr(5); });

}  // namespace
