// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mutant_search.hpp: does the checking of a structure look hard enough, and are its operations no stronger than they
// need to be? Every operation of the structure on what threads share is changed, one at a time
// (checker/mutation.hpp), and the programs that execute it are run until one of them fails. A change that none of
// them notices must be listed with the reason. Ends with the line `mutants: killed K of N`.
#pragma once

#include <gtest/gtest.h>

#include "checker/explore.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster_model_test {

namespace mm = muster_model;

/// A change that is not noticed. The description begins with `what`; it ends with a number, for a function may have
/// several places to which it fits.
struct survivor {
  const char* what;
  bool is_right;  // the changed structure is right as well; otherwise the checker cannot, or need not, go that far
  const char* reason;
};

struct mutant_program {
  std::string name;
  bool asymmetric;
  std::function<void()> run;
  std::map<mm::strategy, std::uint64_t> right;  // the number of executions that the unchanged program has passed
  int freeze = -1;                              // this thread may stop forever
};

/// A change that needs one program and many executions by priorities.
struct needle {
  const char* what;
  mutant_program program;
};

struct mutant_search {
  std::vector<mutant_program> programs;
  std::vector<survivor> survivors;
  std::vector<needle> needles;
  std::vector<std::string> files;  // parts of the names of the files that are changed
  std::string prefix;              // of the survivors that one of these files must have
  std::uint64_t executions = 32768;

  void run();

 private:
  using program = mutant_program;
  struct place {
    std::vector<program*> users;
    bool rereads = false;  // in one of them it reads what it has read before
  };

  static mm::limits within(const program& p, mm::strategy how, std::uint64_t executions) {
    return {.how = how, .executions = executions, .steps = 2000, .depth = 4, .freeze = p.freeze};
  }
  static bool notices(program& p, const mm::mutation& m, mm::strategy how, std::uint64_t executions);
  static std::string killer_of(const mm::mutation& m, const std::vector<program*>& users, std::uint64_t most);
  std::map<mm::operation_site, place> find_places();
};

/// Returns true if the program notices the change and the same search finds nothing in the unchanged program.
inline bool mutant_search::notices(program& p, const mm::mutation& m, mm::strategy how, std::uint64_t executions) {
  mm::settings().asymmetric_fences = p.asymmetric;
  const mm::result changed = mm::explore(within(p, how, executions), p.run, &m);
  if (!changed.failed) return false;
  if (p.right[how] < changed.executions) {
    p.right[how] = changed.executions;
    const mm::result unchanged = mm::explore(within(p, how, changed.executions), p.run);
    EXPECT_FALSE(unchanged.failed) << p.name << " fails without a change: " << unchanged.failed->what;
  }
  return true;
}

/// The program that notices the change; empty if none does within `most` executions.
inline std::string mutant_search::killer_of(const mm::mutation& m, const std::vector<program*>& users,
                                            std::uint64_t most) {
  for (std::uint64_t executions = 64; executions <= most; executions *= 8)
    for (program* p : users)
      for (const auto how : {mm::strategy::priorities, mm::strategy::random})
        if (notices(*p, m, how, executions)) return p->name;
  return {};
}

/// The operations of the files, and the programs that execute them.
inline std::map<mm::operation_site, mutant_search::place> mutant_search::find_places() {
  std::map<mm::operation_site, place> places;
  for (program& p : programs) {
    mm::settings().asymmetric_fences = p.asymmetric;
    for (const mm::operation_site& site : mm::operations_of(within(p, mm::strategy::random, 100), p.run)) {
      if (std::none_of(files.begin(), files.end(),
                       [&](const std::string& f) { return site.file.find(f) != std::string::npos; }))
        continue;
      places[site].users.push_back(&p);
      places[site].rereads |= site.rereads;
    }
  }
  return places;
}

inline void mutant_search::run() {
  const auto begins = [](const std::string& what) {
    return [&what](const auto& entry) { return what.starts_with(entry.what); };
  };
  const std::map<mm::operation_site, place> places = find_places();
  ASSERT_FALSE(places.empty()) << "no program executes anything in " << files.front();
  unsigned mutants = 0, killed = 0, right = 0;
  std::set<std::string> used;
  std::map<std::string, unsigned> described;
  for (const auto& [known, at] : places) {
    mm::operation_site site = known;
    site.rereads = at.rereads;
    for (const mm::mutation& m : mm::mutations_of(site)) {
      ++mutants;
      std::string what = m.describe();
      what += " #" + std::to_string(++described[what]);
      const auto explained = std::find_if(survivors.begin(), survivors.end(), begins(what));
      const bool expected = explained != survivors.end();
      const bool hard = std::any_of(needles.begin(), needles.end(), begins(what));
      std::string killer = killer_of(m, at.users, expected || hard ? 64 : executions);
      for (needle& n : needles)
        if (killer.empty() && begins(what)(n) && notices(n.program, m, mm::strategy::priorities, 1'000'000))
          killer = n.program.name;
      killed += !killer.empty();
      right += killer.empty() && expected && explained->is_right;
      if (killer.empty() && expected) used.insert(explained->what);
      std::cout << site.file << ':' << site.line << ' ' << what << ": "
                << (!killer.empty() ? "killed by " + killer
                    : expected      ? std::string("survives: ") + explained->reason
                                    : "SURVIVES")
                << std::endl;
      EXPECT_TRUE(expected || !killer.empty()) << what << " is not noticed by any program";
    }
  }
  for (const survivor& s : survivors)
    EXPECT_TRUE(used.contains(s.what) || !std::string(s.what).starts_with(prefix)) << s.what << " explains no survivor";
  EXPECT_GE(killed, 0.95 * (mutants - right));
  std::cout << right << " mutants change nothing that is promised\n"
            << "mutants: killed " << killed << " of " << mutants - right << '\n';
}

}  // namespace muster_model_test
