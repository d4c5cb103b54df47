// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Futures under the checker, without the pool's workers: functions that are given to an injector, taken by a worker or
// by the thread that waits for them, followed by others, or dropped when the pool ends. Each must be executed or
// dropped once, every waiter must see the value and wake, and no guest may be left when the pool has ended.
//
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/fork/detail/completion.hpp>
#include <muster/fork/detail/injector.hpp>

#include "checker/explore.hpp"
#include "named_programs.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
namespace sync = muster::sync;
using muster::no_deadline;
using muster::detail::injected;
using muster::detail::injector;
using muster_model_test::named_program;

/// Two functions; the second follows the first. One letter for each thread: 'w' is a worker, which executes what it
/// finds; 'o' waits for the first, 't' for the second, and each executes what it waits for if no other thread does; 'v'
/// as 'o', and as the worker that is kept for guests if it can; 's' waits for the second and only sleeps; 'r' enters
/// and leaves. The first thread makes both, acts as its letter says, and ends the pool.
class game {
 public:
  explicit game(const std::string& s)
      : threads_(s), all_(*new injector(reinterpret_cast<muster::detail::pool_core*>(this), 1)) {}

  void play() {
    if (!all_.keep(*visited_)) fail("a worker is kept at first");
    if (!all_.put(first_, nullptr, false, true)) fail("refused");
    std::vector<unsigned> workers, others;
    for (std::size_t i = 1; i < threads_.size(); ++i) {
      all_.refer();
      (threads_[i] == 'w' ? workers : others).push_back(mm::spawn([this, i] {
        be(threads_[i]);
        all_.release();
      }));
    }
    second_.made.write_ref() = true;
    if (!first_.completion.precede(second_)) {
      if (first_.calls.read_ref() != 1) fail("the successor does not see the value");
      give_second();
    }
    be(threads_[0]);
    // As the end of a pool.
    all_.close();
    while (injected* const one = all_.take()) one->drop();
    over_.store(1, std::memory_order_relaxed);
    for (const unsigned t : workers) mm::join(t);
    all_.await_guests();
    ended_.write_ref() = true;
    if (all_.has_visitor()) fail("a visitor is left");
    if (all_.take_kept() != visited_) fail("the worker for guests is lost");
    all_.release_by_pool();
    for (const unsigned t : others) mm::join(t);
    if (reference_.read_ref()) all_.release();
    for (const function* one : {&first_, &second_})
      if (one->calls.read_ref() != 1) fail("executed or dropped " + std::to_string(one->calls.read_ref()) + " times");
  }

 private:
  struct function : injected {
    explicit function(game& of)
        : injected([](injected& one) noexcept { static_cast<function&>(one).end(true); },
                   [](injected& one) noexcept { static_cast<function&>(one).end(false); }),
          in(of) {}
    void end(bool executed) noexcept {
      if (executed && in.ended_.read_ref()) fail("executed after the pool has ended");
      calls.write_ref() += 1;
      if (completion.complete(*this) == &in.second_) in.give_second();
    }
    game& in;
    muster::detail::completion<function> completion;
    sync::cell<unsigned> calls{0U};
    sync::cell<bool> made{false};
  };

  static void fail(const std::string& what) { mm::engine::running().fail(what); }

  void give_second() noexcept {
    if (!second_.made.read_ref()) fail("the successor is not seen");
    all_.refer();
    const bool enters = all_.enter() != nullptr;
    if (enters && all_.put(second_)) second_.completion.begin();
    else second_.drop();
    if (enters) all_.leave();
    all_.release();
  }
  void be(char what) {
    switch (what) {
      case 'w':
        while (over_.load(std::memory_order_relaxed) == 0)
          if (injected* const one = all_.take()) one->run();
          else sync::yield();
        break;
      case 'o': wait_for(first_, true); break;
      case 'v':
        visit(first_);
        wait_for(first_, true);
        break;
      case 't':
        wait_for(first_, true);
        wait_for(second_, true);
        break;
      case 's': wait_for(second_, false); break;
      case 'r':
        if (all_.enter() != nullptr) all_.leave();
        break;
      default: break;
    }
  }
  void visit(function& one) {
    muster::detail::worker* const as = all_.visit(one);
    if (as == nullptr) return;
    if (as != visited_ || !all_.has_visitor()) fail("a visitor is not counted, or not the worker that is kept");
    if (visits_.read_ref()) fail("two threads are one worker");
    visits_.write_ref() = true;
    one.run();
    visits_.write_ref() = false;
    reference_.write_ref() = false;
    all_.end_visit(true);
  }
  void wait_for(function& one, bool executes) {
    const auto can_be_taken = [&] { return executes && one.is_queued(); };
    while (!one.completion.is_complete()) {
      if (!can_be_taken()) {
        one.completion.sleep(no_deadline, can_be_taken);
      } else if (all_.enter() == nullptr) {
        executes = false;  // the pool's end drops it
      } else {
        if (all_.take(one)) one.run();
        all_.leave();
      }
    }
    if (one.calls.read_ref() != 1) fail("a waiter does not see the value");
  }

  const std::string threads_;
  injector& all_;
  function first_{*this}, second_{*this};
  sync::atomic<unsigned> over_{0};
  sync::cell<bool> ended_{false};
  sync::cell<bool> visits_{false};
  muster::detail::worker* const visited_ = reinterpret_cast<muster::detail::worker*>(this);  // never accessed
  sync::cell<bool> reference_{true};  // of the first function's owner, which a visit releases
};

std::vector<named_program> programs(const std::vector<std::string>& all) {
  std::vector<named_program> made;
  for (const std::string& threads : all) made.push_back({threads, [threads] { game(threads).play(); }});
  return made;
}
const std::vector<named_program> many = programs(
    {".", ".w", ".t", ".s", "sw", "tw", "sww", "swt", "tso", ".tw", ".ts", ".oo", ".v", "v", "vv", "vw", ".vt", ".r"});

TEST(futures, are_completed_once_and_waited_for) {
  muster_model_test::expect_all_right(
      programs({"t", "v", ".w", ".t", ".s", ".v", ".r", "ow", "tw", "sw", "st", "to", "vw"}));
}
TEST(futures, are_completed_once_and_waited_for_by_chance) { muster_model_test::expect_right_by_chance(many); }

TEST(mutants, are_noticed_or_explained) {
  muster_model_test::expect_mutants_noticed(
      many, {"detail/completion.hpp", "detail/injector.hpp"},
      {
          {"completion::is_complete: load repeated", true, "the waiting thread looks again before it sleeps"},
          {"completion::sleep: load repeated", true, "the read-modify-write notices, or the futex"},
          {"injector::count: store skipped #2", true, "a hint; the programs of sleepers notice"},
          {"injector::count: load repeated #2", true, "a hint; the programs of sleepers notice"},
          {"injector::release_by_pool: fetch_sub acq_rel -> release #1", true,
           "the lock before orders all but a guest that comes later and is refused, before the deletion"},
      });
}

}  // namespace
