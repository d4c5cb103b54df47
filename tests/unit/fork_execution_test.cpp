// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The scheduler of P2300 of a pool: what its concepts ask for, in the words of the proposal, since no standard library
// has them yet; that each operation completes once, on a thread of the pool or as stopped; and, where CMake has found
// stdexec (MUSTER_TEST_stdexec_DIR), its own concepts and algorithms.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <atomic>
#include <concepts>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<stdexec/execution.hpp>)
#include <stdexec/execution.hpp>
#endif

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using muster::member_names;
using muster::pool;
using muster_test::fib;
using muster_test::scaled;
using muster_test::small_stack;

/// Notes how operations have completed, and calls a function in set_value().
struct record {
  std::atomic<int> values{0}, stopped{0};
  std::function<void()> in_value = [] {};
  std::stop_token stop{};

  int completed() const { return values + stopped; }
  void await(int many) const {
    while (completed() < many) std::this_thread::yield();
  }
};
class receiver {
 public:
  explicit receiver(record& in) : in_(&in) {}
  receiver(receiver&& other) noexcept : in_(std::exchange(other.in_, nullptr)) {}
  receiver& operator=(receiver&&) = delete;
  ~receiver() = default;

  void set_value() && noexcept {
    record& in = *std::exchange(in_, nullptr);
    in.in_value();
    ++in.values;
  }
  void set_stopped() && noexcept { ++std::exchange(in_, nullptr)->stopped; }
  std::stop_token get_stop_token() const noexcept { return in_->stop; }

 private:
  record* in_;
};

// The concepts of P2300R10, for the tags of member_names.
template <class S>
concept operation_state =
    std::destructible<S> && std::is_object_v<S> &&
    std::derived_from<typename S::operation_state_concept, member_names::operation_state_t> && requires(S& state) {
      { state.start() } noexcept;
    };
template <class S>
concept queryable_sender =
    std::move_constructible<S> && std::copy_constructible<S> &&
    std::derived_from<typename S::sender_concept, member_names::sender_t> && requires(const S& sender) {
      { sender.get_env() } noexcept;
      typename S::completion_signatures;
    };
template <class S, class R>
concept sender_to = queryable_sender<S> && requires(S sender, R to) {
  { std::move(sender).connect(std::move(to)) } -> operation_state;
};
template <class S>
concept scheduler =
    std::derived_from<typename S::scheduler_concept, member_names::scheduler_t> && std::copy_constructible<S> &&
    std::equality_comparable<S> && std::is_nothrow_copy_constructible_v<S> && requires(const S& of) {
      { of.schedule() } -> queryable_sender;
      {
        of.schedule().get_env().query(member_names::get_completion_scheduler_t<member_names::set_value_t>())
      } noexcept -> std::same_as<S>;
    };
using pools = muster::pool_scheduler<member_names>;
static_assert(scheduler<pools>);
static_assert(sender_to<pools::sender, receiver>);
static_assert(!std::move_constructible<pools::operation<receiver>>, "an operation that has been started may not move");

class schedulers : public muster_test::in_pools {};
INSTANTIATE_TEST_SUITE_P(, schedulers, ::testing::ValuesIn(muster_test::fork_settings), muster_test::name_of);

TEST_P(schedulers, complete_in_the_pool) {
  record seen;
  std::atomic<int> wrong{0};
  seen.in_value = [&] {
    if (!workers_.worker_index().has_value() || fib(8) != 21) ++wrong;
  };
  const pools of = workers_.scheduler();
  for (int i = 0; i < 50; ++i) {
    auto operation = of.schedule().connect(receiver(seen));
    EXPECT_EQ(seen.completed(), i) << "it has begun before start()";
    operation.start();
    seen.await(i + 1);
  }
  EXPECT_EQ(seen.values, 50);
  EXPECT_EQ(wrong, 0);
}

TEST_P(schedulers, complete_each_operation_once) {
  const int many = static_cast<int>(scaled(2000));
  record seen;
  std::deque<pools::operation<receiver>> operations;
  const auto add = [&]() -> auto& {
    struct from {
      operator pools::operation<receiver>() { return of.schedule().connect(receiver(to)); }
      pools of;
      record& to;
    };
    return operations.emplace_back(from{workers_.scheduler(), seen});
  };
  for (int i = 0; i < many; ++i) add().start();
  workers_.run([] { fib(10); });
  seen.await(many);
  EXPECT_EQ(seen.values, many);
}

/// An operation that starts the next one when it completes, and is destroyed by that.
struct chain {
  record& seen;
  const pools of;
  int left;
  struct link {
    chain* in;
    void set_value() && noexcept {
      ++in->seen.values;
      chain& here = *in;
      if (--here.left > 0) here.next();
    }
    void set_stopped() && noexcept { ++in->seen.stopped; }
  };
  struct started {
    pools::operation<link> operation;
    explicit started(chain& in) : operation(in.of.schedule().connect(link{&in})) {}
  };
  std::unique_ptr<started> now;
  void next() {
    now = std::make_unique<started>(*this);  // the previous one ends while it completes
    now->operation.start();
  }
};
TEST_P(schedulers, may_destroy_an_operation_that_completes) {
  const int many = static_cast<int>(scaled(2000));
  record seen;
  chain all{seen, workers_.scheduler(), many, {}};
  all.next();
  seen.await(many);
  EXPECT_EQ(seen.values, many);
  workers_.run_on_all([] {});  // the last one has returned
}

TEST_P(schedulers, stop_what_has_not_begun) {
  std::stop_source stop;
  record before, meanwhile;
  stop.request_stop();
  before.stop = stop.get_token();
  auto operation = workers_.scheduler().schedule().connect(receiver(before));
  operation.start();
  EXPECT_EQ(before.stopped, 1) << "at once";

  std::stop_source later;
  meanwhile.stop = later.get_token();
  std::atomic<bool> go{false};
  std::vector<muster::future<void>> busy;
  for (unsigned i = 0; i < workers_.workers() + 1; ++i)
    busy.push_back(workers_.submit([&] {
      while (!go) std::this_thread::yield();
    }));
  auto queued = workers_.scheduler().schedule().connect(receiver(meanwhile));
  queued.start();
  later.request_stop();
  go = true;
  meanwhile.await(1);
  EXPECT_EQ(meanwhile.stopped, 1);
  for (auto& each : busy) each.get();
}

TEST(schedulers_of_a_pool_that_ends, stop_what_has_not_begun) {
  for (int i = 0; i < static_cast<int>(scaled(100)); ++i) {
    record seen;
    std::deque<pools::operation<receiver>> operations;
    struct from {
      operator pools::operation<receiver>() { return of.schedule().connect(receiver(to)); }
      pools of;
      record& to;
    };
    {
      pool ends({.workers = 2, .stack_bytes = small_stack});
      std::atomic<int> busy{0};
      for (int k = 0; k < 2; ++k)
        static_cast<void>(ends.submit([&] {
          ++busy;
          while (seen.completed() < 10) std::this_thread::yield();  // until the pool ends
        }));
      while (busy < 2) std::this_thread::yield();
      for (int k = 0; k < 10; ++k) operations.emplace_back(from{ends.scheduler(), seen}).start();
    }
    EXPECT_EQ(seen.stopped, 10);
    EXPECT_EQ(seen.values, 0);
  }
}

TEST(schedulers_of_pools, are_equal_if_the_pool_is) {
  pool one({.workers = 1, .stack_bytes = small_stack}), other({.workers = 1, .stack_bytes = small_stack});
  EXPECT_EQ(one.scheduler(), one.scheduler());
  EXPECT_NE(one.scheduler(), other.scheduler());
  EXPECT_EQ(
      one.scheduler().schedule().get_env().query(member_names::get_completion_scheduler_t<member_names::set_value_t>()),
      one.scheduler());
  pool part = one.part(1);
  record seen;
  auto operation = part.scheduler().schedule().connect(receiver(seen));
  operation.start();
  seen.await(1);
  EXPECT_EQ(seen.values, 1);
}

TEST(schedulers_of_pools, stop_in_a_child_process) {
  pool parents({.workers = 2, .stack_bytes = small_stack});
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    record seen;
    auto operation = parents.scheduler().schedule().connect(receiver(seen));
    operation.start();
    ::_exit(seen.stopped == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#if __has_include(<stdexec/execution.hpp>)
// [names]
struct names {
  using scheduler_t = stdexec::scheduler_t;
  using sender_t = stdexec::sender_t;
  using operation_state_t = stdexec::operation_state_t;
  using set_value_t = stdexec::set_value_t;
  using set_stopped_t = stdexec::set_stopped_t;
  template <class... Signatures>
  using completion_signatures = stdexec::completion_signatures<Signatures...>;
  template <class Tag>
  using get_completion_scheduler_t = stdexec::get_completion_scheduler_t<Tag>;
  static bool stop_requested(const auto& of) noexcept {
    return stdexec::get_stop_token(stdexec::get_env(of)).stop_requested();
  }
  static void set_value(auto&& to) noexcept { stdexec::set_value(std::forward<decltype(to)>(to)); }
  static void set_stopped(auto&& to) noexcept { stdexec::set_stopped(std::forward<decltype(to)>(to)); }
};
// [/names]
#endif

TEST(schedulers_of_pools, work_with_stdexec) {
#if __has_include(<stdexec/execution.hpp>)
  using with_stdexec = muster::pool_scheduler<names>;
  static_assert(stdexec::scheduler<with_stdexec> && stdexec::sender<with_stdexec::sender>);
  pool workers({.workers = 2, .stack_bytes = small_stack});
  // [senders]
  const auto of = workers.scheduler<names>();
  const auto [found] = stdexec::sync_wait(stdexec::schedule(of) | stdexec::then([] { return fib(12); })).value();
  // [/senders]
  EXPECT_EQ(found, 144);
  const auto [inside] =
      stdexec::sync_wait(stdexec::schedule(of) | stdexec::then([&] { return workers.worker_index().has_value(); }))
          .value();
  EXPECT_TRUE(inside);
  const auto [a, b] = stdexec::sync_wait(stdexec::when_all(stdexec::schedule(of) | stdexec::then([] { return 1; }),
                                                           stdexec::starts_on(of, stdexec::just(2))))
                          .value();
  EXPECT_EQ(a + b, 3);
  EXPECT_THROW(stdexec::sync_wait(stdexec::schedule(of) | stdexec::then([]() -> int { throw std::runtime_error(""); })),
               std::runtime_error);
#else
  GTEST_SKIP() << "stdexec is not installed: set MUSTER_TEST_stdexec_DIR to its directory `include`";
#endif
}

}  // namespace
