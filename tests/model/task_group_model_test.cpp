// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a group under the checker, without the pool's workers: they are given to an injector by the thread that
// waits for them and by each other, and taken by workers or by the waiting thread. Each must be executed once before
// the wait is over, the waiter must see its effects and must not miss a task that only it can execute, and the group
// may be destroyed at once.
//
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/fork/detail/group_count.hpp>
#include <muster/fork/detail/injector.hpp>

#include "checker/explore.hpp"
#include "named_programs.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
namespace sync = muster::sync;
using muster::no_deadline;
using muster::detail::group_count;
using muster::detail::injected;
using muster::detail::injected_group;
using muster::detail::injector;
using muster_model_test::named_program;

/// Three tasks; the first gives the third to the pool. One letter for each thread: 'w' is a worker, which executes what
/// it finds; '1' executes one task only, as a thread that then has other things to do. The first thread makes two tasks
/// and waits, and executes tasks if its letter is 'x', or only sleeps if it is 's'.
class game {
 public:
  explicit game(const std::string& s)
      : threads_(s), all_(*new injector(reinterpret_cast<muster::detail::pool_core*>(this), 1)) {}

  void play() {
    std::vector<unsigned> threads;
    for (std::size_t i = 1; i < threads_.size(); ++i) {
      all_.refer();
      threads.push_back(mm::spawn([this, i] {
        be(threads_[i]);
        all_.release();
      }));
    }
    group_ = std::make_unique<group>();
    give(tasks_[0]);
    give(tasks_[1]);
    if (threads_.size() == 1 && !tasks_[1].is_queued()) fail("not queued");
    const bool executes = threads_[0] == 'x';
    while (!group_->count.is_over()) {
      injected* const one = executes ? all_.take_of(group_->queued) : nullptr;
      if (one != nullptr && one->is_queued()) fail("still queued");
      if (one != nullptr) one->run();
      else group_->count.sleep(no_deadline, [&] { return executes && group_->queued.has_any(); });
    }
    for (const task& one : tasks_)
      if (one.calls.read_ref() != 1)
        fail("executed " + std::to_string(one.calls.read_ref()) + " times before the wait is over");
    if (group_->count.take_error() == nullptr) fail("the exception is lost");
    group_ = nullptr;
    over_.store(1, std::memory_order_relaxed);
    all_.release_by_pool();
    for (const unsigned t : threads) mm::join(t);
  }

 private:
  struct group {
    group_count count;
    injected_group queued;
  };
  struct task : injected {
    explicit task(game& of)
        : injected([](injected& one) noexcept { static_cast<task&>(one).execute(); }, [](injected&) noexcept {}),
          in(of) {}
    void execute() noexcept {
      calls.write_ref() += 1;
      if (this == &in.tasks_[0]) in.give(in.tasks_[2]);
      in.group_->count.end(this == &in.tasks_[2] ? std::make_exception_ptr(std::runtime_error("the third")) : nullptr);
    }
    game& in;
    sync::cell<unsigned> calls{0U};
  };

  static void fail(const std::string& what) { mm::engine::running().fail(what); }

  void give(task& one) noexcept {
    group_->count.begin();
    if (!all_.put(one, &group_->queued, &one == &tasks_[2])) fail("refused");
    sync::full_fence();
    group_->count.wake();
  }
  void be(char what) {
    while (over_.load(std::memory_order_relaxed) == 0)
      if (injected* const one = all_.take()) {
        one->run();
        if (what == '1') return;
      } else {
        sync::yield();
      }
  }

  const std::string threads_;
  injector& all_;
  std::unique_ptr<group> group_;
  task tasks_[3]{task(*this), task(*this), task(*this)};
  sync::atomic<unsigned> over_{0};
};

std::vector<named_program> programs(const std::vector<std::string>& all) {
  std::vector<named_program> made;
  for (const std::string& threads : all) made.push_back({threads, [threads] { game(threads).play(); }});
  return made;
}
const std::vector<named_program> many = programs({"x", "xw", "x1", "sw", "xww", "x11", "sww", "x1w"});

TEST(groups, are_over_when_each_task_has_been_executed_once) {
  muster_model_test::expect_all_right(programs({"x", "xw", "x1", "sw"}));
}
TEST(groups, are_over_when_each_task_has_been_executed_once_by_chance) {
  muster_model_test::expect_right_by_chance(many);
}

TEST(mutants, are_noticed_or_explained) {
  muster_model_test::expect_mutants_noticed(
      many, {"detail/group_count.hpp", "detail/injector.hpp"},
      {
          {"injector::count: store skipped #2", true, "a hint; the programs of sleepers notice"},
          {"injector::count: load repeated #2", true, "a hint; the programs of sleepers notice"},
          {"group_count::is_over: load repeated", true, "the waiting thread looks again under the lock"},
      });
}

}  // namespace
