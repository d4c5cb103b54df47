// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine_table.hpp: the programs that the combining objects are checked with (combine_model_test.cpp), and that are
// run against each change of the objects' operations, at least one of them must notice it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace muster_model_test {

struct combine_row {
  const char* object;
  unsigned help;
  const char* text;
  int preemptions;            // −1: no bound
  int stale;                  // −1: no bound
  std::uint64_t chances = 0;  // not 0: this many random executions and as many by priorities, instead of the search
};

inline std::string name_of(const combine_row& r) {
  return std::string(r.object) + " help " + std::to_string(r.help) + ": " + r.text;
}

inline const std::vector<combine_row> combine_table = {
    {"osci", 9, "apply | apply", -1, -1},
    {"osci", 9, "apply*2 | apply*2", 2, 2},
    {"osci", 1, "apply | apply | apply", 2, 1},
    {"osci", 9, "apply | apply | apply", 2, 1},
    {"osci", 1, "apply*2 | large | bad", 1, 1},
    {"osci", 9, "batch*3 | apply", 2, 1},
    {"osci", 1, "batch*4 | large apply | bad", 1, 1},
    {"osci", 9, "apply signal | await apply", 2, 2},
    {"osci", 1, "nested | apply", 2, 1},
    {"osci detached", 9, "submit submit get get | apply*2", 2, 1},
    {"osci detached", 1, "submit*3 get*3 | apply", 2, 1},
    {"osci detached", 9, "post flush | apply*2", 2, 2},
    {"osci detached", 1, "post*3 flush | apply | post flush", 1, 1},
    {"osci detached", 9, "post batch*4 | apply", 1, 1},
    {"osci detached", 9, "submit post flush get apply | submit*2 get*2", 2, 1},
    {"osci detached", 9, "post apply | large | submit get", 1, 1},
    {"cc_synch", 9, "apply*2 | apply", 2, 2},
    {"cc_synch", 1, "apply | large | bad", 1, 1},
    {"cc_synch", 9, "apply signal | await apply", 2, 2},
    {"cc_synch", 1, "apply*3 | apply*2 bad | large*2 | nested apply", -1, -1, 4000},
    {"flat_combining", 9, "apply*2 | apply", 2, 2},
    {"flat_combining", 1, "apply | large | bad", 1, 1},
    {"flat_combining", 9, "apply signal | await apply", 2, 2},
    {"flat_combining", 1, "apply*3 | apply*2 bad | large*2 | nested apply", -1, -1, 4000},
    {"osci_shared", 9, "apply | apply", 2, 2},
    {"osci_shared", 1, "apply*2 | apply", 2, 1},
    {"osci_shared", 9, "apply | apply | apply", 1, 1},
    {"osci_shared", 1, "apply | large | bad", 1, 1},
    {"osci_shared", 9, "apply signal | await apply", 2, 2},
    {"osci_shared 2", 1, "apply*2 | apply | apply", 1, 1},
    {"osci_shared", 9, "apply*3 | apply*3 | large*2 | bad apply", -1, -1, 4000},
    {"osci_shared 2", 1, "apply*3 | apply*3 | large*2 | bad apply", -1, -1, 4000},
    {"osci", 9, "last*2 | last", 2, 1},
    {"osci", 1, "last | last | last", 1, 1},
    {"cc_synch", 9, "last*2 | last", 2, 1},
    {"cc_synch", 1, "last | last | last", 1, 1},
    {"flat_combining", 9, "last*2 | last", 2, 1},
    {"flat_combining", 1, "last | last | last", 1, 1},
    {"osci_shared", 9, "last*2 | last", 2, 1},
    {"osci_shared 2", 1, "last | last | last", 1, 1},
    {"osci", 1, "apply*3 | apply*3 | large*2 | bad batch*3", -1, -1, 4000},
    {"osci", 9, "apply signal apply | await apply*2 | batch*3 | large*2", -1, -1, 4000},
    {"osci detached", 1, "submit*3 get*3 apply | post*3 flush apply | apply*3 | submit get bad", -1, -1, 4000},
};

/// Those of the techniques that the benchmark compares with.
inline const std::vector<combine_row> combine_baseline_table = {
    {"dsm_synch", 9, "apply*2 | apply", 2, 2},
    {"dsm_synch", 1, "apply | large | bad", 1, 1},
    {"dsm_synch", 9, "apply signal | await apply", 2, 2},
    {"dsm_synch", 1, "apply*3 | apply*2 bad | large*2 | nested apply", -1, -1, 4000},
    {"h_synch", 9, "apply*2 | apply", 2, 2},
    {"h_synch", 1, "apply | large | bad", 1, 1},
    {"h_synch", 9, "apply signal | await apply", 2, 2},
    {"h_synch", 1, "apply*3 | apply*2 bad | large*2 | nested apply", -1, -1, 4000},
    {"oyama", 9, "apply*2 | apply", 2, 2},
    {"oyama", 1, "apply | large | bad", 1, 1},
    {"oyama", 9, "apply signal | await apply", 2, 2},
    {"oyama", 1, "apply*3 | apply*2 bad | large*2 | nested apply", -1, -1, 4000},
    {"clh", 9, "apply*2 | apply", 2, 2},
    {"clh", 1, "apply | large | bad", 1, 1},
    {"clh", 9, "apply signal | await apply", 2, 2},
    {"clh", 1, "apply*3 | apply*2 bad | large*2 | nested apply", -1, -1, 4000},
    {"mcs", 9, "apply*2 | apply", 2, 2},
    {"mcs", 1, "apply | large | bad", 1, 1},
    {"mcs", 9, "apply signal | await apply", 2, 2},
    {"mcs", 1, "apply*3 | apply*2 bad | large*2 | nested apply", -1, -1, 4000},
    // By chance: its server, a thread more, looks and looks.
    {"ffwd", 1, "apply | apply", -1, -1, 500},
    {"ffwd", 1, "apply large | bad", -1, -1, 500},
    {"ffwd", 1, "apply signal | await apply", -1, -1, 500},
    {"ffwd", 1, "apply large | bad | apply", -1, -1, 500},
    {"dsm_synch", 9, "last*2 | last", 2, 1},
    {"dsm_synch", 1, "last | last | last", 1, 1},
    {"h_synch", 9, "last*2 | last", 2, 1},
    {"h_synch", 1, "last | last | last", 1, 1},
    {"oyama", 9, "last*2 | last", 2, 1},
    {"oyama", 1, "last | last | last", 1, 1},
    {"clh", 9, "last*2 | last", 2, 1},
    {"clh", 1, "last | last | last", 1, 1},
    {"ffwd", 1, "last*2 | last", -1, -1, 500},
    {"mcs", 9, "last*2 | last", 2, 1},
    {"mcs", 1, "last | last | last", 1, 1},
};

/// The program of a row.
std::function<void()> make_program(const combine_row& r);
std::function<void()> make_baseline_program(const combine_row& r);

}  // namespace muster_model_test
