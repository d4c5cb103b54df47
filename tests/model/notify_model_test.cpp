// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// notify_fd, async_pop and async_push under the checker, with an object as the file descriptor and a thread as the
// scheduler. A loop that sleeps after the event that it waits for, or a coroutine that is not resumed, is a deadlock,
// which the checker reports.
#include <gtest/gtest.h>
#include <muster/queue.hpp>
#include <muster/queue/async.hpp>
#include <muster/queue/notify_fd.hpp>

#include "small_waits.hpp"

#include <atomic>
#include <bit>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <string>

namespace {

using namespace muster_model_test;
using muster::eventcount;
using muster::queue_status;
namespace sync = muster::sync;
constexpr auto relaxed = std::memory_order_relaxed;

/// As a file descriptor: readable from a signal until it is cleared.
class flag {
 public:
  void signal() const {
    readable_.store(1, std::memory_order_release);
    if (pollers_.waiters_after_event(eventcount::bit(0)) != 0) pollers_.wake(0);
  }
  void clear() const { readable_.store(0, relaxed); }
  void poll() const {
    pollers_.await<hasty>(0, [this] { return readable_.load(std::memory_order_acquire) == 1; }, muster::no_deadline);
  }

 private:
  mutable sync::atomic<unsigned> readable_{0};
  mutable eventcount pollers_;
};

/// Takes `most` items, or all until the end. Returns their sum.
template <class Queue>
int serve(Queue& from, int most = 100) {
  muster::detail::notifier<Queue, flag> ready(from);
  int sum = 0;
  for (int taken = 0; taken < most;) {
    const auto item = from.try_pop();
    if (item) {
      sum += *item;
      ++taken;
    } else if (item.status() == queue_status::closed) {
      break;
    } else if (ready.arm()) {
      ready.signal().poll();
    }
  }
  return sum;
}

template <class Queue>
void items_and_the_end() {
  made<Queue> q;
  mm::parallel([&] { mm::require(serve<Queue>(q) == 3, "another item"); }, [&] { q.push(1), q.push(2), q.close(); });
}

// The loop ends, and with it an armed notifier, as another item comes.
template <class Queue>
void the_end_of_a_notifier() {
  made<Queue> q;
  mm::parallel(
      [&] {
        muster::detail::notifier<Queue, flag> ready(q);
        static_cast<void>(ready.arm());
      },
      [&] { q.push(1); });
  mm::require(q.try_pop().has_value(), "no item");
}

template <class Queue>
void two_loops() {
  made<Queue> q;
  sync::atomic<int> sum{0};
  const auto take = [&] { sum.fetch_add(serve<Queue>(q, 1), relaxed); };
  mm::parallel(take, take, [&] { q.push(1), q.push(2); });
  mm::require(sum.load(relaxed) == 3, "another item");
}

// Two events at once, while a loop enters the list.
void two_producers() {
  made<mpmc> q;
  mm::parallel([&] { mm::require(serve<mpmc>(q, 2) == 3, "another item"); }, [&] { q.push(1); }, [&] { q.push(2); });
}

template <class Queue>
void beside_a_claim() {
  made<Queue> q;
  sync::atomic<int> sum{0};
  mm::parallel([&] { sum.fetch_add(serve<Queue>(q, 1), relaxed); },
               [&] {
                 const auto item = q.pop();
                 sum.fetch_add(item ? *item : 100, relaxed);
               },
               [&] { q.push(1), q.push(2); });
  mm::require(sum.load(relaxed) == 3, "another item");
}

void of_lanes() {
  lanes q(2, {.producers = 2, .threads = 3, .cells = 0, .first_rank = 0});
  auto first = q.producer(), second = q.producer();
  mm::parallel([&] { mm::require(serve<lanes>(q, 2) == 3, "another item"); }, [&] { first.push(1); },
               [&] { second.push(2); });
}

/// Pushes 1 to `most`, or until the end. Returns the sum of what it has pushed.
template <class Producer>
int feed(Producer& to, int most) {
  muster::detail::notifier<Producer, flag, muster::detail::of_room> room(to);
  int sum = 0;
  for (int i = 1; i <= most;) {
    const queue_status status = to.try_push(i);
    if (status == queue_status::success) sum += i++;
    else if (status == queue_status::closed) break;
    else if (room.arm()) room.signal().poll();
  }
  return sum;
}

/// Holds one item.
template <class Queue>
struct narrow : Queue {
  narrow() : Queue(1, {.threads = 3, .cells = 0, .first_rank = 0}) {}
};

template <class Queue>
int pop_three(Queue& q) {
  int sum = 0;
  for (int i = 0; i < 3; ++i) {
    const auto item = q.pop();
    sum += item ? *item : 100;
  }
  return sum;
}

template <class Queue>
void room() {
  narrow<Queue> q;
  mm::parallel([&] { mm::require(feed<Queue>(q, 3) == 6, "not all"); },
               [&] { mm::require(pop_three(q) == 6, "another item"); });
}

// The end of a full queue, or of one in which there has been room.
template <class Queue>
void room_or_the_end() {
  narrow<Queue> q;
  q.push(7);
  int pushed = 0;
  mm::parallel([&] { pushed = feed<Queue>(q, 1); }, [&] { static_cast<void>(q.try_pop()), q.close(); });
  const auto left = q.try_pop();
  mm::require((left ? *left : 0) == pushed, "another item");
}

template <class Queue>
void the_end_of_a_full_queue() {
  narrow<Queue> q;
  q.push(7);
  mm::parallel([&] { mm::require(feed<Queue>(q, 1) == 0, "room in a full queue"); }, [&] { q.close(); });
}

// The loop ends, and with it an armed notifier, as an item is taken.
template <class Queue>
void the_end_of_a_notifier_of_room() {
  narrow<Queue> q;
  q.push(7);
  mm::parallel(
      [&] {
        muster::detail::notifier<Queue, flag, muster::detail::of_room> room(q);
        static_cast<void>(room.arm());
      },
      [&] { static_cast<void>(q.pop()); });
  mm::require(q.try_push(1) == queue_status::success, "no room");
}

void two_loops_push() {
  narrow<mpmc> q;
  const auto push = [&] { mm::require(feed<mpmc>(q, 1) == 1, "not all"); };
  mm::parallel(push, push, [&] {
    const auto one = q.pop(), two = q.pop();
    mm::require(one && two, "no item");
  });
}

void a_loop_pushes_beside_a_thread() {
  narrow<mpmc> q;
  mm::parallel([&] { mm::require(feed<mpmc>(q, 2) == 3, "not all"); }, [&] { q.push(1); },
               [&] { mm::require(pop_three(q) == 4, "another item"); });
}

void room_in_a_lane() {
  lanes q(1, {.producers = 1, .threads = 2, .cells = 0, .first_rank = 0});
  auto producer = q.producer();
  mm::parallel([&] { mm::require(feed(producer, 3) == 6, "not all"); },
               [&] { mm::require(pop_three(q) == 6, "another item"); });
}

// Both sides are event loops.
void from_loop_to_loop() {
  narrow<spsc> q;
  mm::parallel([&] { feed<spsc>(q, 3), q.close(); }, [&] { mm::require(serve<spsc>(q) == 6, "another item"); });
}

/// A coroutine whose frame ends with it.
struct task {
  struct promise_type {
    task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

/// A thread that resumes what is submitted, until its coroutines have ended.
class worker {
 public:
  template <class F>
  void submit(F f) {
    static_assert(sizeof(F) == sizeof(void*));
    resume_ = [](void* argument) { std::bit_cast<F>(argument)(); };
    for (auto& one : submitted_) {
      void* none = nullptr;
      if (!one.compare_exchange_strong(none, std::bit_cast<void*>(f), std::memory_order_release, relaxed)) continue;
      if (events_.waiters_after_event(eventcount::bit(0)) != 0) events_.wake(0);
      return;
    }
    mm::require(false, "a coroutine is submitted twice");
  }
  void run() {
    while (left != 0) {
      events_.await<hasty>(
          0, [this] { return submitted_[0].load(relaxed) != nullptr || submitted_[1].load(relaxed) != nullptr; },
          muster::no_deadline);
      for (auto& one : submitted_)
        if (void* const next = one.load(std::memory_order_acquire); next != nullptr) {
          one.store(nullptr, relaxed);
          resume_(next);
        }
    }
  }
  int left = 0;  // coroutines
  int sum = 0;

 private:
  static inline void (*resume_)(void*) = nullptr;
  sync::atomic<void*> submitted_[2];
  eventcount events_;
};

template <class Queue>
task pop_some(worker& on, Queue& q, int count) {
  ++on.left;
  for (int i = 0; i < count; ++i) {
    const auto item = co_await muster::async_pop(q, on);
    on.sum += item ? *item : 100;
  }
  --on.left;
}
template <class Queue>
task pop_to_the_end(worker& on, Queue& q) {
  ++on.left;
  for (;;) {
    const auto item = co_await muster::async_pop(q, on);
    if (!item) break;
    on.sum += *item;
  }
  --on.left;
}
template <class Queue>
task push_some(worker& on, Queue& q, int count) {
  ++on.left;
  for (int i = 1; i <= count; ++i) co_await muster::async_push(q, on, i);
  --on.left;
}

template <class Queue>
void a_coroutine_pops() {
  made<Queue> q;
  worker on;
  mm::parallel(
      [&] {
        pop_to_the_end<Queue>(on, q);
        on.run();
      },
      [&] { q.push(1), q.push(2), q.close(); });
  mm::require(on.sum == 3, "another item");
}

// Two of one thread, which are resumed one by one.
template <class Queue>
void two_coroutines_pop() {
  made<Queue> q;
  worker on;
  mm::parallel(
      [&] {
        pop_some<Queue>(on, q, 1), pop_some<Queue>(on, q, 1);
        on.run();
      },
      [&] { q.push(1), q.push(2); });
  mm::require(on.sum == 3, "another item");
}
template <class Queue>
void two_coroutines_learn_of_the_end() {
  made<Queue> q;
  worker on;
  mm::parallel(
      [&] {
        pop_to_the_end<Queue>(on, q), pop_to_the_end<Queue>(on, q);
        on.run();
      },
      [&] { q.push(1), q.close(); });
  mm::require(on.sum == 1, "another item");
}

// Of two threads.
template <class Queue>
void coroutines_of_two_threads_pop() {
  made<Queue> q;
  worker one, two;
  mm::parallel([&] { pop_some<Queue>(one, q, 1), one.run(); }, [&] { pop_some<Queue>(two, q, 1), two.run(); },
               [&] { q.push(1), q.push(2); });
  mm::require(one.sum + two.sum == 3, "another item");
}

// One event for two items, as both consumers have the same key: the coroutine that is resumed for it must see both, and
// resume the other.
void two_items_at_once() {
  lanes q(2, {.producers = 1, .threads = 3, .cells = 0, .first_rank = 0});
  auto producer = q.producer();
  auto first = q.consumer();
  for (std::uint32_t i = 1; i < eventcount::keys; ++i) static_cast<void>(q.consumer());
  auto second = q.consumer();
  worker one, two;
  mm::parallel([&] { pop_some(one, first, 1), one.run(); }, [&] { pop_some(two, second, 1), two.run(); },
               [&] {
                 const int items[] = {1, 2};
                 producer.push_n(items, 2);
               });
  mm::require(one.sum + two.sum == 3, "another item");
}

template <class Queue>
void beside_a_thread() {
  made<Queue> q;
  worker on;
  sync::atomic<int> sum{0};
  mm::parallel([&] { pop_some<Queue>(on, q, 1), on.run(); },
               [&] {
                 const auto item = q.pop();
                 sum.fetch_add(item ? *item : 100, relaxed);
               },
               [&] { q.push(1), q.push(2); });
  mm::require(on.sum + sum.load(relaxed) == 3, "another item");
}

template <class Queue>
void a_coroutine_pushes() {
  Queue q(1, {.threads = 3, .cells = 0, .first_rank = 0});
  worker on;
  int sum = 0;
  mm::parallel([&] { push_some<Queue>(on, q, 3), on.run(); },
               [&] {
                 for (int i = 0; i < 3; ++i) {
                   const auto item = q.pop();
                   sum += item ? *item : 100;
                 }
               });
  mm::require(sum == 6, "another item");
}

// The end of a full queue, which is a flag beside the events that the coroutine waits for.
template <class Queue>
void a_coroutine_pushes_until_the_end() {
  Queue q(1, {.threads = 3, .cells = 0, .first_rank = 0});
  q.push(7);
  worker on;
  mm::parallel([&] { push_some<Queue>(on, q, 1), on.run(); }, [&] { q.close(); });
  mm::require(q.try_pop().has_value() && !q.try_pop(), "another item");
}

void two_push() {
  mpmc q(1, {.threads = 3, .cells = 0, .first_rank = 0});
  worker on;
  int sum = 0;
  mm::parallel([&] { push_some<mpmc>(on, q, 1), push_some<mpmc>(on, q, 1), on.run(); }, [&] { q.push(1); },
               [&] {
                 for (int i = 0; i < 3; ++i) {
                   const auto item = q.pop();
                   sum += item ? *item : 100;
                 }
               });
  mm::require(sum == 3, "another item");
}

const waiting_program table[] = {
    {"items_and_the_end_of_spsc", items_and_the_end<spsc>, {2, 1}},
    {"items_and_the_end_of_spmc", items_and_the_end<spmc>, {1, 1}},
    {"items_and_the_end_of_mpmc", items_and_the_end<mpmc>, {1, 1}},
    {"the_end_of_a_notifier_of_spsc", the_end_of_a_notifier<spsc>, {2, 1}},
    {"the_end_of_a_notifier_of_mpmc", the_end_of_a_notifier<mpmc>, {2, 1}},
    {"two_loops_of_spmc", two_loops<spmc>, {1, 0}},
    {"two_loops_of_mpmc", two_loops<mpmc>, {1, 0}},
    {"two_producers", two_producers, {1, 0}},
    {"beside_a_claim_of_spmc", beside_a_claim<spmc>, {1, 0}},
    {"beside_a_claim_of_mpmc", beside_a_claim<mpmc>, {1, 0}},
    {"of_lanes", of_lanes, {1, 0}},
    {"room_in_spsc", room<spsc>, {1, 1}},
    {"room_in_spmc", room<spmc>, {1, 1}},
    {"room_in_mpmc", room<mpmc>, {1, 1}},
    {"room_or_the_end_of_spsc", room_or_the_end<spsc>, {2, 1}},
    {"room_or_the_end_of_spmc", room_or_the_end<spmc>, {2, 1}},
    {"room_or_the_end_of_mpmc", room_or_the_end<mpmc>, {1, 1}},
    {"the_end_of_a_full_spsc", the_end_of_a_full_queue<spsc>, {2, 2}},
    {"the_end_of_a_full_spmc", the_end_of_a_full_queue<spmc>, {2, 2}},
    {"the_end_of_a_full_mpmc", the_end_of_a_full_queue<mpmc>, {2, 2}},
    {"the_end_of_a_notifier_of_room_in_spsc", the_end_of_a_notifier_of_room<spsc>, {2, 1}},
    {"the_end_of_a_notifier_of_room_in_mpmc", the_end_of_a_notifier_of_room<mpmc>, {2, 1}},
    {"two_loops_push", two_loops_push, {1, 0}},
    {"a_loop_pushes_beside_a_thread", a_loop_pushes_beside_a_thread, {1, 0}},
    {"room_in_a_lane", room_in_a_lane, {1, 0}},
    {"from_loop_to_loop", from_loop_to_loop, {1, 0}},
    {"a_coroutine_pops_of_spsc", a_coroutine_pops<spsc>, {1, 1}},
    {"a_coroutine_pops_of_mpmc", a_coroutine_pops<mpmc>, {1, 0}},
    {"two_coroutines_pop_of_spmc", two_coroutines_pop<spmc>, {1, 0}},
    {"two_coroutines_pop_of_mpmc", two_coroutines_pop<mpmc>, {1, 0}},
    {"two_coroutines_learn_of_the_end_of_spmc", two_coroutines_learn_of_the_end<spmc>, {1, 0}},
    {"coroutines_of_two_threads_pop_of_mpmc", coroutines_of_two_threads_pop<mpmc>, {1, 0}},
    {"two_items_at_once", two_items_at_once, {1, 1}},
    {"beside_a_thread_of_spmc", beside_a_thread<spmc>, {1, 0}},
    {"beside_a_thread_of_mpmc", beside_a_thread<mpmc>, {1, 0}},
    {"a_coroutine_pushes_of_spsc", a_coroutine_pushes<spsc>, {1, 1}},
    {"a_coroutine_pushes_of_spmc", a_coroutine_pushes<spmc>, {1, 0}},
    {"a_coroutine_pushes_of_mpmc", a_coroutine_pushes<mpmc>, {1, 0}},
    {"a_coroutine_pushes_until_the_end_of_spsc", a_coroutine_pushes_until_the_end<spsc>, {2, 2}},
    {"a_coroutine_pushes_until_the_end_of_spmc", a_coroutine_pushes_until_the_end<spmc>, {2, 2}},
    {"a_coroutine_pushes_until_the_end_of_mpmc", a_coroutine_pushes_until_the_end<mpmc>, {2, 2}},
    {"two_push", two_push, {0, 0}},
};

class notify_model : public ::testing::TestWithParam<waiting_program> {};

TEST_P(notify_model, forgets_no_listener) { expect_right_with_any_fences(GetParam(), 2'000); }

INSTANTIATE_TEST_SUITE_P(programs, notify_model, ::testing::ValuesIn(table),
                         [](const auto& at) { return std::string(at.param.name); });

// Of the lists of listeners, and of signalling.
TEST(notify_mutants, are_noticed_or_explained) {
  mutant_search search;
  add_with_any_fences(search, table);
  search.files = {"detail/listeners", "queue/notify_fd"};
  for (const char* what : {"listeners::enter_for_event: fetch_add acq_rel -> acquire",
                           "listeners::leave: compare_exchange failure acquire"})
    search.needles.push_back({what, {"two_items_at_once", true, two_items_at_once, {}}});
  search.prefix = "";
  search.executions = 4096;
  search.run();
}

}  // namespace
