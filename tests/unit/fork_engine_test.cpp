// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The concept worker_engine: workers can use an engine that the library does not have.
#include <gtest/gtest.h>
#include <muster/fork/detail/engine.hpp>
#include <muster/fork/pool.hpp>

#include <cstdint>
#include <memory>

namespace {

using namespace muster::detail;

/// An engine that finds no forks and keeps what it is to offer until a thief makes it answer.
class reluctant_engine {
 public:
  reluctant_engine(idle_workers& asleep, const engine_options& options) noexcept : pushed_(asleep, options) {}

  steal_list& tasks() noexcept { return pushed_.tasks(); }
  const steal_list& tasks() const noexcept { return pushed_.tasks(); }
  watermark_engine& pushed() noexcept { return pushed_; }
  static const char* unavailable_reason() noexcept { return nullptr; }
  bool uses_stack_scan() const noexcept { return false; }
  const void* poll_word() const noexcept { return pushed_.poll_word(); }
  std::uint64_t depth() const noexcept { return pushed_.depth(); }
  void begin(const void*) noexcept {}
  void begin_thread() noexcept {}
  void set_running(bool) noexcept {}
  void suspend() noexcept {}
  void resume() noexcept {}
  void offer(task& async, task::runner run, const scope_node& scope) noexcept {
    publish_all();
    kept_ = &async;
    run_ = run;
    scope_ = &scope;
  }
  void publish_all() noexcept {
    if (kept_ != nullptr) pushed_.offer(*kept_, run_, *scope_);
    kept_ = nullptr;
  }
  bool may_have_more() const noexcept { return kept_ != nullptr; }
  bool publish_for_owner() noexcept {
    publish_all();
    return true;
  }

 private:
  watermark_engine pushed_;
  task* kept_ = nullptr;
  task::runner run_ = nullptr;
  const scope_node* scope_ = nullptr;
};

/// As an engine, but not one: thieves cannot make it answer.
class mute_engine : public reluctant_engine {
 public:
  using reluctant_engine::reluctant_engine;

 private:
  using reluctant_engine::publish_for_owner;
};

static_assert(worker_engine<reluctant_engine> && worker_engine<watermark_engine> && worker_engine<selected_engine>);
static_assert(!worker_engine<mute_engine> && !worker_engine<steal_list>);

struct async : task {
  static completion_count* run_taken(task& r) noexcept {
    auto& here = static_cast<async&>(r);
    ++here.executions;
    return here.open;
  }
  completion_count* open = nullptr;
  int executions = 0;
};

template <class Engine>
class engines : public testing::Test {};
using all_engines = testing::Types<reluctant_engine, watermark_engine, selected_engine>;
TYPED_TEST_SUITE(engines, all_engines);

/// As a worker whose scope has two asyncs, and one that looks for work.
TYPED_TEST(engines, offer_asyncs_of_which_each_is_executed_once) {
  idle_workers asleep;
  parker place;
  completion_count open(place);
  const scope_node scope, other;
  const auto engine = std::make_unique<TypeParam>(asleep, engine_options{});
  async two[2];
  for (async& one : two) {
    one.open = &open;
    open.begin();
    engine->offer(one, &async::run_taken, scope);
  }
  while (engine->may_have_more() && !engine->publish_for_owner()) {
  }
  EXPECT_EQ(engine->tasks().offered(), 2U);

  constexpr unsigned thief = 1;
  theft noted;
  EXPECT_EQ(engine->tasks().steal_part_of(&other, 0, thief, noted), nullptr);
  for (async& one : two) {  // the oldest first
    task* const taken = engine->tasks().steal_part_of(&scope, 0, thief, noted);
    ASSERT_EQ(taken, &one);
    EXPECT_EQ(noted.of, &scope);
    taken->run();
  }
  EXPECT_FALSE(engine->tasks().offers());
  EXPECT_TRUE(open.all_ended());
  for (const async& one : two) EXPECT_EQ(one.executions, 1);
}

/// A request stays until the owner looks, at a fork or at the next offer.
TYPED_TEST(engines, answer_requests_by_offering) {
  idle_workers asleep;
  parker place;
  completion_count open(place);
  const scope_node scope;
  const auto engine = std::make_unique<TypeParam>(asleep, engine_options{});
  EXPECT_FALSE(engine->tasks().work_requested());
  engine->tasks().request_work();
  EXPECT_TRUE(engine->tasks().work_requested());

  async one;
  one.open = &open;
  open.begin();
  engine->offer(one, &async::run_taken, scope);
  engine->publish_all();
  EXPECT_FALSE(engine->tasks().work_requested());
  ASSERT_TRUE(engine->tasks().take_back(one));
  EXPECT_FALSE(engine->tasks().offers());
  open.end();
}

}  // namespace
