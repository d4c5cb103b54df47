// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The gate of a pipeline's serial stages under the checker: items pass in order, one at a time, each with the effects
// of the one before, and none stays at the gate. Slots are used again by later numbers.
//
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/fork/detail/parking.hpp>
#include <muster/fork/detail/serial_gate.hpp>

#include "checker/explore.hpp"
#include "named_programs.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
namespace sync = muster::sync;
using muster::detail::serial_gate;
using muster::detail::spin_lock;
using muster_model_test::named_program;

/// Threads take numbers and bring items to a gate, of which at most `places` are under way at a time. A thread that
/// lets an item leave takes the next one along.
class game {
 public:
  game(unsigned threads, unsigned places, unsigned numbers)
      : threads_(threads), numbers_(numbers), gate_(places), items_(new item[places]) {
    for (unsigned i = 0; i < places; ++i) free_.write_ref().push_back(&items_[i]);
  }

  void play() {
    std::vector<unsigned> others;
    for (unsigned i = 1; i < threads_; ++i) others.push_back(mm::spawn([this] { work(); }));
    work();
    for (const unsigned t : others) mm::join(t);
    if (passed_.read_ref() != numbers_) fail(std::to_string(passed_.read_ref()) + " items have passed");
  }

 private:
  struct item {
    unsigned number = 0;
    sync::cell<unsigned> brought{0U};
  };

  static void fail(const std::string& what) { mm::engine::running().fail(what); }

  item* begin() {
    const std::lock_guard lock(lock_);
    if (begun_.read_ref() == numbers_ || free_.read_ref().empty()) return nullptr;
    item* const one = free_.read_ref().back();
    free_.write_ref().pop_back();
    one->number = begun_.write_ref()++;
    return one;
  }
  void end(item& one) {
    const std::lock_guard lock(lock_);
    free_.write_ref().push_back(&one);
  }
  void work() {
    while (item* one = begin()) {
      one->brought.write_ref() = one->number;
      if (!gate_.enter(*one, one->number)) continue;
      while (one != nullptr) {
        if (passed_.read_ref() != one->number || one->brought.read_ref() != one->number) fail("out of order");
        passed_.write_ref() += 1;
        item* const next = gate_.leave(one->number);
        end(*one);
        one = next;
      }
    }
  }

  const unsigned threads_, numbers_;
  serial_gate<item> gate_;
  const std::unique_ptr<item[]> items_;
  spin_lock lock_;
  sync::cell<std::vector<item*>> free_;
  sync::cell<unsigned> begun_{0U};
  sync::cell<unsigned> passed_{0U};  // at the gate, without a lock
};

named_program with(const char* name, unsigned threads, unsigned places, unsigned numbers) {
  return {name, [=] { game(threads, places, numbers).play(); }};
}
const std::vector<named_program> few = {with("alone", 1, 2, 3), with("one place", 2, 1, 3), with("two", 2, 2, 3)};
const std::vector<named_program> more = {with("two, longer", 2, 2, 6), with("three", 3, 3, 4),
                                         with("three, two places", 3, 2, 5), with("three, longer", 3, 4, 7)};

TEST(gates, let_items_pass_in_order) { muster_model_test::expect_all_right(few); }
TEST(gates, let_items_pass_in_order_by_chance) { muster_model_test::expect_right_by_chance(more); }

TEST(mutants, are_noticed_or_explained) { muster_model_test::expect_mutants_noticed(more, {"detail/serial_gate.hpp"}); }

}  // namespace
