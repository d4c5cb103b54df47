// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// notify_fd and notify_room_fd: when the descriptor is readable. A lost signal hangs the test.
#include <gtest/gtest.h>
#include <muster/queue/lanes.hpp>
#include <muster/queue/mpmc.hpp>
#include <muster/queue/notify_fd.hpp>
#include <muster/queue/spmc.hpp>
#include <muster/queue/spsc.hpp>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "scale.hpp"

namespace {

using namespace std::chrono_literals;
using muster::notify_fd;
using muster::notify_room_fd;
using muster::queue_status;
using muster_test::scaled;
using packed = muster::layout::packed;

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}
void await(int fd) {
  pollfd one{fd, POLLIN, 0};
  ASSERT_EQ(::poll(&one, 1, -1), 1);
}

TEST(queue_notify, signals_the_first_item_after_it_was_armed) {
  muster::spsc_queue<int> q(8);
  notify_fd items(q);
  ASSERT_EQ(q.push(1), queue_status::success);
  EXPECT_FALSE(is_readable(items.fd())) << "not armed yet";
  EXPECT_FALSE(items.arm()) << "there is an item";
  ASSERT_EQ(*q.try_pop(), 1);
  ASSERT_TRUE(items.arm());
  EXPECT_FALSE(is_readable(items.fd()));
  ASSERT_EQ(q.push(2), queue_status::success);
  EXPECT_TRUE(is_readable(items.fd()));
  ASSERT_EQ(*q.try_pop(), 2);
  EXPECT_TRUE(is_readable(items.fd())) << "until it is armed again";
  ASSERT_TRUE(items.arm());
  EXPECT_FALSE(is_readable(items.fd()));
  ASSERT_TRUE(items.arm()) << "armed twice";
  ASSERT_EQ(q.push(3), queue_status::success);
  EXPECT_TRUE(is_readable(items.fd()));
  ASSERT_EQ(*q.try_pop(), 3);
}

TEST(queue_notify, signals_the_end) {
  muster::mpmc_queue<int> q(8);
  notify_fd items(q);
  ASSERT_TRUE(items.arm());
  q.close();
  EXPECT_TRUE(is_readable(items.fd()));
  EXPECT_FALSE(items.arm());
  EXPECT_EQ(q.try_pop().status(), queue_status::closed);
}

TEST(queue_notify, signals_every_armed_descriptor) {
  muster::lanes<int> q(8);
  auto one = q.consumer();
  notify_fd a(q), unarmed(q);
  notify_fd b(one);
  ASSERT_TRUE(a.arm());
  ASSERT_TRUE(b.arm());
  ASSERT_EQ(q.producer().push(1), queue_status::success);
  EXPECT_TRUE(is_readable(a.fd()));
  EXPECT_TRUE(is_readable(b.fd()));
  EXPECT_FALSE(is_readable(unarmed.fd()));
  ASSERT_EQ(*one.try_pop(), 1);
}

TEST(queue_notify, ends_while_it_is_armed) {
  muster::spmc_queue<int> q(8);
  auto first = std::make_unique<notify_fd<muster::spmc_queue<int>>>(q);
  auto second = std::make_unique<notify_fd<muster::spmc_queue<int>>>(q);
  ASSERT_TRUE(first->arm());
  ASSERT_TRUE(second->arm());
  first.reset();
  ASSERT_EQ(q.push(1), queue_status::success);
  EXPECT_TRUE(is_readable(second->fd()));
  second.reset();
  ASSERT_EQ(q.push(2), queue_status::success);
}

TEST(queue_notify, ends_in_a_child_process_without_an_effect_on_its_parent) {
  muster::mpmc_queue<int> q(8);
  auto items = std::make_unique<notify_fd<muster::mpmc_queue<int>>>(q);
  ASSERT_TRUE(items->arm());
  ASSERT_EQ(q.push(1), queue_status::success);
  const pid_t child = ::fork();
  if (child == 0) {
    items.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(is_readable(items->fd()));
}

TEST(queue_notify, is_not_readable_because_a_thread_stops_to_wait) {
  muster::mpmc_queue<int> q(8);
  notify_fd items(q);
  ASSERT_TRUE(items.arm());
  std::jthread([&](const std::stop_token& stop) { EXPECT_FALSE(q.pop(stop)); });  // its destructor stops it
  EXPECT_FALSE(is_readable(items.fd()));
  ASSERT_EQ(q.push(1), queue_status::success);
  EXPECT_TRUE(is_readable(items.fd()));
}

class noted final : public muster::detail::listener {
 public:
  noted(std::vector<int>& all, int number, bool takes)
      : listener(takes ? kind::taker : kind::watcher), all_(all), number_(number) {}
  void notify() noexcept override { all_.push_back(number_); }

 private:
  std::vector<int>& all_;
  const int number_;
};

// Two events come while another thread has the turn, and then one for all.
TEST(listeners, are_notified_watchers_first_and_then_takers_in_their_order) {
  std::vector<int> notified;
  noted first(notified, 1, true), second(notified, 2, true), third(notified, 3, true), fourth(notified, 4, true);
  noted watches(notified, 0, false);
  muster::detail::listeners all;
  all.enter();
  for (noted* const one : {&first, &second, &third, &watches, &fourth}) all.under_turn().add(*one);
  EXPECT_FALSE(all.enter_for(1));
  EXPECT_FALSE(all.enter_for(1));
  int empty = 0;
  const auto count = [&] { ++empty; };
  all.leave(0, count).notify();
  EXPECT_EQ(notified, (std::vector{0, 1, 2}));
  EXPECT_EQ(empty, 0);
  ASSERT_TRUE(all.enter_for(muster::detail::listeners::all));
  all.leave(muster::detail::listeners::all, count).notify();
  EXPECT_EQ(notified, (std::vector{0, 1, 2, 3, 4}));
  EXPECT_EQ(empty, 1);
}

TEST(queue_notify, signals_edges) {
  muster::spsc_queue<int> q(8);
  notify_fd items(q);
  const int poller = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(poller, EPOLL_CTL_ADD, items.fd(), &wanted), 0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(items.arm());
    ASSERT_EQ(q.push(i), queue_status::success);
    epoll_event found{};
    ASSERT_EQ(::epoll_wait(poller, &found, 1, 0), 1) << i;
    ASSERT_EQ(::epoll_wait(poller, &found, 1, 0), 0) << i;
    ASSERT_EQ(*q.try_pop(), i);
  }
  ::close(poller);
}

/// Event loops and a thread that pops take all items of several pushers.
template <class Queue, class Push>
void serve_all(Queue& q, std::size_t pushers, Push push, std::size_t loops, std::size_t poppers) {
  const std::uint64_t each = scaled(20'000);
  std::atomic<std::uint64_t> items{0}, sum{0};
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < loops; ++i)
    threads.emplace_back([&] {
      notify_fd ready(q);
      std::uint64_t own = 0, count = 0;
      for (bool open = true; open;) {
        auto item = q.try_pop();
        if (item) own += *item, ++count;
        else if (item.status() == queue_status::closed) open = false;
        else if (ready.arm()) await(ready.fd());
      }
      items += count, sum += own;
    });
  for (std::size_t i = 0; i < poppers; ++i)
    threads.emplace_back([&] {
      std::uint64_t own = 0, count = 0;
      while (const auto item = q.pop()) own += *item, ++count;
      items += count, sum += own;
    });
  {
    std::vector<std::jthread> pushing;
    for (std::size_t i = 0; i < pushers; ++i)
      pushing.emplace_back([&, i] {
        push(i, each, [](std::uint64_t at) {
          if (at % 512 == 0) std::this_thread::sleep_for(20us);  // so that the loops sleep now and then
        });
      });
  }
  q.close();
  threads.clear();
  EXPECT_EQ(items.load(), pushers * each);
  EXPECT_EQ(sum.load(), pushers * (each * (each + 1) / 2));
}

template <class Queue>
auto pushes_into(Queue& q) {
  return [&q](std::size_t, std::uint64_t each, auto pause) {
    for (std::uint64_t i = 1; i <= each; ++i) {
      ASSERT_EQ(q.push(i), queue_status::success);
      pause(i);
    }
  };
}

TEST(queue_notify, loses_no_item_of_spsc) {
  muster::spsc_queue<std::uint64_t> q(4);
  serve_all(q, 1, pushes_into(q), 1, 0);
}
TEST(queue_notify, loses_no_item_of_spmc) {
  muster::spmc_queue<std::uint64_t, packed, muster::wait::park> q(4);
  serve_all(q, 1, pushes_into(q), 2, 1);
}
TEST(queue_notify, loses_no_item_of_mpmc) {
  muster::mpmc_queue<std::uint64_t> q(4);
  serve_all(q, 2, pushes_into(q), 2, 1);
}
TEST(queue_notify, loses_no_item_of_lanes) {
  muster::lanes<std::uint64_t, packed, muster::wait::park> q(4, {.producers = 2});
  serve_all(
      q, 2,
      [&q](std::size_t, std::uint64_t each, auto pause) {
        auto lane = q.producer();
        pushes_into(lane)(0, each, pause);
      },
      2, 1);
}

TEST(queue_notify_room, signals_the_first_room_after_it_was_armed) {
  muster::spsc_queue<int> q(1);
  notify_room_fd room(q);
  EXPECT_FALSE(room.arm()) << "there is room";
  ASSERT_EQ(q.try_push(1), queue_status::success);
  ASSERT_EQ(q.try_push(2), queue_status::full);
  EXPECT_FALSE(is_readable(room.fd())) << "not armed yet";
  ASSERT_TRUE(room.arm());
  EXPECT_FALSE(is_readable(room.fd()));
  ASSERT_EQ(*q.try_pop(), 1);
  EXPECT_TRUE(is_readable(room.fd()));
  ASSERT_EQ(q.try_push(2), queue_status::success);
  EXPECT_TRUE(is_readable(room.fd())) << "until it is armed again";
  ASSERT_TRUE(room.arm());
  EXPECT_FALSE(is_readable(room.fd()));
  ASSERT_TRUE(room.arm()) << "armed twice";
  ASSERT_EQ(q.consume([](int item) { EXPECT_EQ(item, 2); }), queue_status::success);
  EXPECT_TRUE(is_readable(room.fd()));
  EXPECT_FALSE(room.arm());
}

template <class Queue>
void expect_to_signal_the_end() {
  Queue q(1);
  ASSERT_EQ(q.try_push(1), queue_status::success);
  notify_room_fd room(q);
  ASSERT_TRUE(room.arm());
  q.close();
  EXPECT_TRUE(is_readable(room.fd()));
  EXPECT_EQ(q.try_push(2), queue_status::closed);
  EXPECT_FALSE(room.arm());
}
TEST(queue_notify_room, signals_the_end) {
  expect_to_signal_the_end<muster::spsc_queue<int>>();
  expect_to_signal_the_end<muster::spmc_queue<int>>();
  expect_to_signal_the_end<muster::mpmc_queue<int>>();
}

TEST(queue_notify_room, is_that_of_its_own_lane) {
  muster::lanes<int> q(1, {.producers = 2});
  auto one = q.producer(), two = q.producer();
  ASSERT_EQ(one.push(1), queue_status::success);
  notify_room_fd room(one), other(two);
  ASSERT_TRUE(room.arm());
  EXPECT_FALSE(other.arm()) << "this lane has room";
  ASSERT_EQ(two.push(2), queue_status::success);
  ASSERT_TRUE(other.arm());
  const int first = *q.pop();
  EXPECT_EQ(is_readable(room.fd()), first == 1);
  EXPECT_EQ(is_readable(other.fd()), first == 2);
  q.close();
  EXPECT_TRUE(is_readable(room.fd()));
  EXPECT_TRUE(is_readable(other.fd()));
}

TEST(queue_notify_room, signals_every_armed_descriptor_and_no_other) {
  muster::mpmc_queue<int> q(2);
  notify_room_fd a(q), b(q), unarmed(q);
  notify_fd items(q);
  ASSERT_TRUE(items.arm());
  ASSERT_EQ(q.push(1), queue_status::success);
  ASSERT_EQ(q.push(2), queue_status::success);
  EXPECT_TRUE(is_readable(items.fd()));
  ASSERT_TRUE(a.arm());
  ASSERT_TRUE(b.arm());
  EXPECT_FALSE(items.arm());
  ASSERT_EQ(*q.pop(), 1);
  EXPECT_TRUE(is_readable(a.fd()));
  EXPECT_TRUE(is_readable(b.fd()));
  EXPECT_FALSE(is_readable(unarmed.fd()));
  EXPECT_FALSE(is_readable(items.fd()));
  ASSERT_EQ(*q.pop(), 2);
}

TEST(queue_notify_room, ends_while_it_is_armed) {
  muster::spmc_queue<int> q(1);
  ASSERT_EQ(q.push(1), queue_status::success);
  auto first = std::make_unique<notify_room_fd<muster::spmc_queue<int>>>(q);
  auto second = std::make_unique<notify_room_fd<muster::spmc_queue<int>>>(q);
  ASSERT_TRUE(first->arm());
  ASSERT_TRUE(second->arm());
  first.reset();
  ASSERT_EQ(*q.pop(), 1);
  EXPECT_TRUE(is_readable(second->fd()));
  ASSERT_EQ(q.push(2), queue_status::success);
  second.reset();
  ASSERT_EQ(*q.pop(), 2);
}

// A stopped consumer holds every cell: there is room, and no event will tell when there is a cell.
TEST(queue_notify_room, does_not_wait_for_a_cell) {
  muster::spmc_queue<int> q(1, {.threads = 1, .cells = 2});
  ASSERT_EQ(q.push(1), queue_status::success);
  notify_room_fd room(q);
  ASSERT_EQ(q.consume([&](int) {
    ASSERT_EQ(q.push(2), queue_status::success);
    ASSERT_EQ(q.consume([&](int) {
      EXPECT_EQ(q.try_push(3), queue_status::busy);
      EXPECT_FALSE(room.arm());
    }),
              queue_status::success);
  }),
            queue_status::success);
  ASSERT_EQ(q.push(3), queue_status::success);
}

/// Event loops and a thread push all numbers, which are popped by several threads.
template <class Queue, class Handle>
void feed_all(Queue& q, std::size_t loops, std::size_t pushers, std::size_t poppers, Handle handle) {
  const std::uint64_t each = scaled(20'000);
  std::atomic<std::uint64_t> items{0}, sum{0};
  std::vector<std::jthread> popping, pushing;
  for (std::size_t i = 0; i < poppers; ++i)
    popping.emplace_back([&] {
      std::uint64_t own = 0, count = 0;
      while (const auto item = q.pop()) {
        own += *item;
        if (++count % 512 == 0) std::this_thread::sleep_for(20us);  // so that the loops sleep now and then
      }
      items += count, sum += own;
    });
  for (std::size_t i = 0; i < loops; ++i)
    pushing.emplace_back([&] {
      auto&& to = handle(q);
      notify_room_fd room(to);
      for (std::uint64_t next = 1; next <= each;) {
        const queue_status status = to.try_push(next);
        if (status == queue_status::success) ++next;
        else if (status == queue_status::full && room.arm()) await(room.fd());
      }
    });
  for (std::size_t i = 0; i < pushers; ++i)
    pushing.emplace_back([&] {
      auto&& to = handle(q);
      for (std::uint64_t next = 1; next <= each; ++next) ASSERT_EQ(to.push(next), queue_status::success);
    });
  pushing.clear();
  q.close();
  popping.clear();
  EXPECT_EQ(items.load(), (loops + pushers) * each);
  EXPECT_EQ(sum.load(), (loops + pushers) * (each * (each + 1) / 2));
}
constexpr auto itself = [](auto& q) -> auto& { return q; };

TEST(queue_notify_room, is_not_missed_in_spsc) {
  muster::spsc_queue<std::uint64_t> q(4);
  feed_all(q, 1, 0, 1, itself);
}
TEST(queue_notify_room, is_not_missed_in_spmc) {
  muster::spmc_queue<std::uint64_t, packed, muster::wait::park> q(4);
  feed_all(q, 1, 0, 2, itself);
}
TEST(queue_notify_room, is_not_missed_in_mpmc) {
  muster::mpmc_queue<std::uint64_t> q(4);
  feed_all(q, 2, 1, 2, itself);
}
TEST(queue_notify_room, is_not_missed_in_lanes) {
  muster::lanes<std::uint64_t, packed, muster::wait::park> q(4, {.producers = 3});
  feed_all(q, 2, 1, 2, [](auto& all) { return all.producer(); });
}

}  // namespace
