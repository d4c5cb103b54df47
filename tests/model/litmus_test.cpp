// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The checker's own test: small programs whose outcomes are known. Every required outcome must be found, and no
// forbidden one. An outcome is the values that the threads read, and where it says so the last values, as digits.
//
// Sources  MCM   Maranget, Sarkar, Sewell, "A Tutorial Introduction to the ARM and POWER Relaxed Memory Models", 2012
//          C20   ISO C++20, [intro.races] and [atomics.order]; P0668 and P0982 are the papers behind it
//          RC11  Lahav, Vafeiadis, Kang, Hur, Dreyer, "Repairing Sequential Consistency in C/C++11", PLDI 2017
//          ours  this library's own idioms
#include <gtest/gtest.h>
#include <muster/base/sync.hpp>

#include "checker/explore.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace {

using namespace muster_model;
using word = muster::sync::atomic<int>;
namespace sync = muster::sync;

constexpr auto rlx = std::memory_order_relaxed;
constexpr auto acq = std::memory_order_acquire;
constexpr auto rel = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto sc = std::memory_order_seq_cst;

template <class... Values>
std::string digits(Values... values) {
  return (std::to_string(values) + ...);
}

void fence(std::memory_order o) { engine::running().fence(o, where::current()); }

struct litmus {
  const char* name;
  const char* source;
  std::function<std::string()> program;
  std::vector<std::string> required;
  std::vector<std::string> forbidden;
};

// The shapes, with the orders left open.
std::string sb(std::memory_order store, std::memory_order load, std::memory_order first, std::memory_order second) {
  word x{0}, y{0};
  int a = 9, b = 9;
  parallel([&] { x.store(1, store), fence(first), a = y.load(load); },
           [&] { y.store(1, store), fence(second), b = x.load(load); });
  return digits(a, b);
}
std::string mp(std::memory_order store, std::memory_order load, std::memory_order before, std::memory_order behind) {
  word data{0}, flag{0};
  int f = 9, d = 9;
  parallel([&] { data.store(1, rlx), fence(before), flag.store(1, store); },
           [&] { f = flag.load(load), fence(behind), d = data.load(rlx); });
  return digits(f, d);
}
std::string lb(std::memory_order store, std::memory_order load) {
  word x{0}, y{0};
  int a = 9, b = 9;
  parallel([&] { a = x.load(load), y.store(1, store); }, [&] { b = y.load(load), x.store(1, store); });
  return digits(a, b);
}
std::string iriw(std::memory_order store, std::memory_order load, std::memory_order between) {
  word x{0}, y{0};
  int a = 9, b = 9, c = 9, d = 9;
  parallel([&] { x.store(1, store); }, [&] { y.store(1, store); },
           [&] { a = x.load(load), fence(between), b = y.load(load); },
           [&] { c = y.load(load), fence(between), d = x.load(load); });
  return digits(a, b, c, d);
}
std::string two_plus_two(std::memory_order store, std::memory_order between) {
  word x{0}, y{0};
  parallel([&] { x.store(1, store), fence(between), y.store(2, store); },
           [&] { y.store(1, store), fence(between), x.store(2, store); });
  return digits(x.load(rlx), y.load(rlx));
}
std::string s_shape(std::memory_order store, std::memory_order load) {
  word x{0}, y{0};
  int a = 9;
  parallel([&] { x.store(2, rlx), y.store(1, store); }, [&] { a = y.load(load), x.store(1, rlx); });
  return digits(a, x.load(rlx));
}
std::string r_shape(std::memory_order o, std::memory_order between) {
  word x{0}, y{0};
  int a = 9;
  parallel([&] { x.store(1, o), fence(between), y.store(1, o); },
           [&] { y.store(2, o), fence(between), a = x.load(o); });
  return digits(y.load(rlx), a);
}
std::string wrc(std::memory_order store, std::memory_order load) {
  word x{0}, y{0};
  int a = 9, b = 9, c = 9;
  parallel([&] { x.store(1, store); }, [&] { a = x.load(load), y.store(1, store); },
           [&] { b = y.load(load), c = x.load(rlx); });
  return digits(a, b, c);
}
std::string rwc(std::memory_order store, std::memory_order load) {
  word x{0}, y{0};
  int a = 9, b = 9, c = 9;
  parallel([&] { x.store(1, store); }, [&] { a = x.load(load), b = y.load(load); },
           [&] { y.store(1, store), c = x.load(load); });
  return digits(a, b, c);
}
std::string isa2(std::memory_order store, std::memory_order load) {
  word x{0}, y{0}, z{0};
  int a = 9, b = 9, c = 9;
  parallel([&] { x.store(1, rlx), y.store(1, store); }, [&] { a = y.load(load), z.store(1, store); },
           [&] { b = z.load(load), c = x.load(rlx); });
  return digits(a, b, c);
}
/// Message passing whose flag is changed once more, by `second`, which runs in a third thread.
std::string mp_through(const std::function<void(word&)>& second) {
  word data{0}, flag{0};
  int f = 9, d = 9;
  parallel([&] { data.store(1, rlx), flag.store(1, rel); }, [&] { second(flag); },
           [&] { f = flag.load(acq), d = data.load(rlx); });
  return digits(f, d);
}
std::string mp_by_failed_exchange(std::memory_order failure) {
  word data{0}, flag{0};
  int f = 9, d = 9;
  parallel([&] { data.store(1, rlx), flag.store(1, rel); },
           [&] { f = 7, static_cast<void>(flag.compare_exchange_strong(f, 8, acq_rel, failure)), d = data.load(rlx); });
  return digits(f, d);
}

const std::vector<litmus> table = {
    // Store buffering.
    {"SB_relaxed", "MCM 3", [] { return sb(rlx, rlx, rlx, rlx); }, {"00", "01", "10", "11"}, {}},
    {"SB_release_acquire", "C20", [] { return sb(rel, acq, rlx, rlx); }, {"00", "01", "10", "11"}, {}},
    {"SB_sequential", "C20", [] { return sb(sc, sc, rlx, rlx); }, {"01", "10", "11"}, {"00"}},
    {"SB_sequential_stores_only", "C20", [] { return sb(sc, rlx, rlx, rlx); }, {"00"}, {}},
    {"SB_sequential_loads_only", "C20", [] { return sb(rlx, sc, rlx, rlx); }, {"00"}, {}},
    {"SB_two_fences", "C20", [] { return sb(rlx, rlx, sc, sc); }, {"01", "10", "11"}, {"00"}},
    {"SB_one_fence", "C20", [] { return sb(rlx, rlx, sc, rlx); }, {"00"}, {}},
    {"SB_weaker_fences", "C20", [] { return sb(rlx, rlx, acq_rel, acq_rel); }, {"00"}, {}},
    {"SB_heavy_and_light_fence",
     "ours; P1202",
     [] {
       word x{0}, y{0};
       int a = 9, b = 9;
       parallel([&] { x.store(1, rlx), sync::light_fence(), a = y.load(rlx); },
                [&] { y.store(1, rlx), sync::heavy_fence(), b = x.load(rlx); });
       return digits(a, b);
     },
     {"01", "10", "11"},
     {"00"}},
    {"SB_two_light_fences",
     "ours; P1202",
     [] {
       word x{0}, y{0};
       int a = 9, b = 9;
       parallel([&] { x.store(1, rlx), sync::light_fence(), a = y.load(rlx); },
                [&] { y.store(1, rlx), sync::light_fence(), b = x.load(rlx); });
       return digits(a, b);
     },
     {"00"},
     {}},
    {"SB_read_modify_writes_of_one_word",
     "ours",
     [] {
       word x{0}, y{0}, mask{0};
       int a = 9, b = 9;
       parallel([&] { x.store(1, rlx), mask.fetch_or(0, acq_rel), a = y.load(rlx); },
                [&] { y.store(1, rlx), mask.fetch_or(1, acq_rel), b = x.load(rlx); });
       return digits(a, b);
     },
     {"01", "10", "11"},
     {"00"}},
    // Message passing.
    {"MP_relaxed", "MCM 3", [] { return mp(rlx, rlx, rlx, rlx); }, {"00", "01", "10", "11"}, {}},
    {"MP_release_acquire", "C20", [] { return mp(rel, acq, rlx, rlx); }, {"00", "01", "11"}, {"10"}},
    {"MP_release_only", "C20", [] { return mp(rel, rlx, rlx, rlx); }, {"10"}, {}},
    {"MP_acquire_only", "C20", [] { return mp(rlx, acq, rlx, rlx); }, {"10"}, {}},
    {"MP_sequential", "C20", [] { return mp(sc, sc, rlx, rlx); }, {"11"}, {"10"}},
    {"MP_fences", "C20", [] { return mp(rlx, rlx, rel, acq); }, {"11"}, {"10"}},
    {"MP_release_fence_acquire_load", "C20", [] { return mp(rlx, acq, rel, rlx); }, {"11"}, {"10"}},
    {"MP_release_store_acquire_fence", "C20", [] { return mp(rel, rlx, rlx, acq); }, {"11"}, {"10"}},
    {"MP_wrong_fences", "C20", [] { return mp(rlx, rlx, acq, rel); }, {"10"}, {}},
    {"MP_release_fence_only", "C20", [] { return mp(rlx, rlx, rel, rlx); }, {"10"}, {}},
    // Release sequences.
    {"release_sequence_by_another_read_modify_write",
     "C20",
     [] { return mp_through([](word& flag) { flag.fetch_add(1, rlx); }); },
     {"21", "10", "11"},
     {"20"}},
    {"release_sequence_ends_at_a_store_of_another",
     "C20",
     [] { return mp_through([](word& flag) { flag.store(2, rlx); }); },
     {"20"},
     {}},
    {"release_sequence_ends_at_a_store_of_the_same_thread",
     "C20; P0982",
     [] {
       word data{0}, flag{0};
       int f = 9, d = 9;
       parallel([&] { data.store(1, rlx), flag.store(1, rel), flag.store(2, rlx); },
                [&] { f = flag.load(acq), d = data.load(rlx); });
       return digits(f, d);
     },
     {"20", "11", "21"},
     {"10"}},
    {"release_sequence_by_a_successful_compare_exchange",
     "C20",
     [] {
       return mp_through([](word& flag) {
         int one = 1;
         flag.compare_exchange_strong(one, 2, rlx, rlx);
       });
     },
     {"21"},
     {"20"}},
    // Load buffering: the known gap. The outcome 11 of the first is allowed by C++ and never found here.
    {"LB_relaxed_gap", "MCM 3; README", [] { return lb(rlx, rlx); }, {"00", "01", "10"}, {"11"}},
    {"LB_acquire_release", "C20", [] { return lb(rel, acq); }, {"00", "01", "10"}, {"11"}},
    {"out_of_thin_air",
     "C20",
     [] {
       word x{0}, y{0};
       int a = 9, b = 9;
       parallel([&] { a = x.load(rlx), y.store(a, rlx); }, [&] { b = y.load(rlx), x.store(b, rlx); });
       return digits(a, b);
     },
     {"00"},
     {"11", "99"}},
    // Independent reads of independent writes.
    {"IRIW_relaxed", "MCM 6", [] { return iriw(rlx, rlx, rlx); }, {"1010"}, {}},
    {"IRIW_release_acquire", "C20", [] { return iriw(rel, acq, rlx); }, {"1010"}, {}},
    {"IRIW_sequential", "C20", [] { return iriw(sc, sc, rlx); }, {"1011", "1110"}, {"1010"}},
    {"IRIW_fences", "C20", [] { return iriw(rlx, rlx, sc); }, {"1011", "1110"}, {"1010"}},
    // Modification order.
    {"2+2W_relaxed", "MCM 4.4", [] { return two_plus_two(rlx, rlx); }, {"11", "12", "21", "22"}, {}},
    {"2+2W_release", "C20", [] { return two_plus_two(rel, rlx); }, {"11"}, {}},
    {"2+2W_sequential", "C20", [] { return two_plus_two(sc, rlx); }, {"12", "21", "22"}, {"11"}},
    {"2+2W_fences", "C20", [] { return two_plus_two(rlx, sc); }, {"12", "21", "22"}, {"11"}},
    {"S_relaxed", "MCM 4.4", [] { return s_shape(rlx, rlx); }, {"12", "11", "01", "02"}, {}},
    {"S_release_acquire", "C20", [] { return s_shape(rel, acq); }, {"11", "01", "02"}, {"12"}},
    {"R_relaxed", "MCM 4.4", [] { return r_shape(rlx, rlx); }, {"20"}, {}},
    {"R_sequential", "C20", [] { return r_shape(sc, rlx); }, {"21", "10", "11"}, {"20"}},
    {"R_fences", "C20", [] { return r_shape(rlx, sc); }, {"21", "10", "11"}, {"20"}},
    // Coherence.
    {"CoRR",
     "C20",
     [] {
       word x{0};
       int a = 9, b = 9;
       parallel([&] { x.store(1, rlx); }, [&] { a = x.load(rlx), b = x.load(rlx); });
       return digits(a, b);
     },
     {"00", "01", "11"},
     {"10"}},
    {"CoRR_two_readers",
     "C20",
     [] {
       word x{0};
       int a = 9, b = 9, c = 9, d = 9;
       parallel([&] { x.store(1, rlx); }, [&] { x.store(2, rlx); }, [&] { a = x.load(rlx), b = x.load(rlx); },
                [&] { c = x.load(rlx), d = x.load(rlx); });
       return digits(a, b, c, d);
     },
     {"1212", "2121"},
     {"1221", "2112"}},
    {"CoWR",
     "C20",
     [] {
       word x{0};
       int a = 9;
       parallel([&] { x.store(1, rlx), a = x.load(rlx); }, [&] { x.store(2, rlx); });
       return digits(a);
     },
     {"1", "2"},
     {"0"}},
    {"CoRW",
     "C20",
     [] {
       word x{0};
       int a = 9;
       parallel([&] { a = x.load(rlx), x.store(1, rlx); }, [&] { x.store(2, rlx); });
       return digits(a, x.load(rlx));
     },
     {"01", "02", "21"},
     {"22"}},
    {"CoWW",
     "C20",
     [] {
       word x{0};
       parallel([&] { x.store(1, rlx), x.store(2, rlx); });
       return digits(x.load(rlx));
     },
     {"2"},
     {"1", "0"}},
    // Read-modify-writes.
    {"two_increments",
     "C20",
     [] {
       word x{0};
       parallel([&] { x.fetch_add(1, rlx); }, [&] { x.fetch_add(1, rlx); });
       return digits(x.load(rlx));
     },
     {"2"},
     {"1"}},
    {"one_of_two_compare_exchanges_wins",
     "C20",
     [] {
       word x{0};
       int won = 0;
       const auto attempt = [&](int mine) {
         int none = 0;
         won += x.compare_exchange_strong(none, mine, rlx, rlx);
       };
       parallel([&] { attempt(1); }, [&] { attempt(2); });
       return digits(won);
     },
     {"1"},
     {"0", "2"}},
    {"a_store_between_a_read_modify_write_and_what_it_read",
     "C20",
     [] {
       word x{0};
       int a = 9;
       parallel([&] { a = x.fetch_add(1, rlx); }, [&] { x.store(5, rlx); });
       return digits(a, x.load(rlx));
     },
     {"05", "56"},
     {"06"}},
    {"a_failed_compare_exchange_may_read_an_old_value",
     "C20",
     [] {
       word x{0}, y{0};
       int a = 9, b = 7;
       parallel([&] { x.store(1, rlx), y.store(1, rlx); },
                [&] { a = y.load(rlx), static_cast<void>(x.compare_exchange_strong(b, 8, rlx, rlx)); });
       return digits(a, b);
     },
     {"10", "11"},
     {}},
    {"a_weak_compare_exchange_may_fail_for_nothing",
     "C20",
     [] {
       word x{0};
       int none = 0;
       const bool done = x.compare_exchange_weak(none, 1, rlx, rlx);
       return digits(static_cast<int>(done), none);
     },
     {"10", "00"},
     {"01"}},
    {"MP_by_a_failed_compare_exchange_acquire", "C20", [] { return mp_by_failed_exchange(acq); }, {"11"}, {"10"}},
    {"MP_by_a_failed_compare_exchange_relaxed", "C20", [] { return mp_by_failed_exchange(rlx); }, {"10"}, {}},
    // Causality through a third thread.
    {"WRC_release_acquire", "MCM 4.1", [] { return wrc(rel, acq); }, {"111", "100"}, {"110"}},
    {"WRC_relaxed", "MCM 4.1", [] { return wrc(rlx, rlx); }, {"110"}, {}},
    {"ISA2_release_acquire", "MCM 4.2", [] { return isa2(rel, acq); }, {"111"}, {"110"}},
    {"ISA2_relaxed", "MCM 4.2", [] { return isa2(rlx, rlx); }, {"110"}, {}},
    {"RWC_release_acquire", "MCM 4.3", [] { return rwc(rel, acq); }, {"100"}, {}},
    {"RWC_sequential", "MCM 4.3", [] { return rwc(sc, sc); }, {"101", "111"}, {"100"}},
    // A sequentially consistent load meets no store older than the last sequentially consistent one.
    {"SC_load_after_SC_store",
     "C20",
     [] {
       word x{0}, seen{0};
       int a = 9, b = 9;
       parallel([&] { x.store(1, sc), seen.store(1, sc); }, [&] { a = seen.load(sc), b = x.load(sc); });
       return digits(a, b);
     },
     {"00", "01", "11"},
     {"10"}},
};

class litmus_test : public ::testing::TestWithParam<litmus> {};

TEST_P(litmus_test, finds_required_outcomes_and_no_forbidden_one) {
  const litmus& l = GetParam();
  std::set<std::string> found;
  const result r = explore(limits{.executions = 3'000'000}, [&] {
    const std::string outcome = l.program();
    const heap::untracked aside;
    found.insert(std::string(outcome.c_str()));
  });
  ASSERT_FALSE(r.failed) << r.failed->what << '\n' << r.failed->trace;
  EXPECT_TRUE(r.complete) << "the search is not complete after " << r.executions << " executions";
  for (const std::string& outcome : l.required) EXPECT_TRUE(found.contains(outcome)) << outcome << " is not found";
  for (const std::string& outcome : l.forbidden) EXPECT_FALSE(found.contains(outcome)) << outcome << " is found";
  RecordProperty("executions", static_cast<int>(r.executions));
}

INSTANTIATE_TEST_SUITE_P(table, litmus_test, ::testing::ValuesIn(table), [](const auto& row) {
  std::string name = row.param.name;
  for (char& c : name)
    if (c == '+') c = '_';
  return name;
});

}  // namespace
