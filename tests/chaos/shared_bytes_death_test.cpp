// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A process that uses shared_bytes is killed before its n-th operation on the queue's memory, for every n until it
// survives: while it reads messages in place and copies them, while it writes them in place and copies them, and while
// it takes over the arena of a dead producer. Every message is whole and accounted for, those held by the living are
// not overwritten, and all bytes are used again.
#include <gtest/gtest.h>
#include <muster/queue/shared_bytes.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "dying_child.hpp"
#include "running_clock.hpp"
#include "shared_region.hpp"

namespace muster_test {
namespace {

using namespace std::chrono_literals;
using status = muster::queue_status;
namespace shape = muster::shape;

using bytes = std::vector<std::byte>;

constexpr std::size_t arena = 1024;
constexpr std::size_t capacity = 5;

/// Number `n` in every eight bytes of a message of 1 to 6 blocks.
bytes letter(number n) {
  bytes made(8 * (1 + n * 13 % 45));
  for (std::size_t i = 0; i != made.size(); i += 8) std::memcpy(made.data() + i, &n, 8);
  return made;
}
/// 0, which is never sent, if the message is not whole.
template <class Message>
number read(const Message& message) {
  number first = 0;
  if (message.size() < 8) return 0;
  std::memcpy(&first, message.data(), 8);
  const bytes wanted = letter(first);
  return std::equal(message.begin(), message.end(), wanted.begin(), wanted.end()) ? first : 0;
}

template <class Shape>
struct scene {
  using queue = muster::shared_bytes<Shape, muster::wait::park>;

  queue shared = queue::create_anonymous(
      {capacity, arena, {.ports = 4, .lanes = 1, .tag = {}, .first_rank = (muster::rank_t{1} << 52) - 3}});
  shared_region region;
  diary& child = region.make<diary>();

  void push(number first, number last) {
    auto port = shared.producer();
    for (number i = first; i <= last; ++i) ASSERT_EQ(port.try_push(letter(i)), status::success);
  }
  void child_pushes(number first, number count) {
    auto port = shared.producer();
    for (number i = first; i != first + count; ++i) {
      child.tried = i;
      const bytes content = letter(i);
      if (i % 2 == 0) {
        if (port.try_push(content) != status::success) return;
      } else {
        auto room = port.try_loan(content.size() + 64);
        if (!room) return;
        muster_chaos::point();
        std::memcpy(room->data(), content.data(), content.size());
        muster_chaos::point();
        if (room->push(content.size()) != status::success) return;
      }
      child.pushed = i;
    }
  }
  void child_pops(number most) {
    auto port = shared.consumer();
    for (number i = 0; i != most; ++i)
      if (i % 2 == 0) {
        const auto message = port.try_pop();
        if (!message) return;
        muster_chaos::point();
        child.popped[child.pops++] = read(*message);
      } else {
        auto message = port.try_peek();
        if (!message) return;
        muster_chaos::point();
        const number got = read(message->bytes());
        {
          auto ends = std::move(*message);
        }
        muster_chaos::point();
        child.popped[child.pops++] = got;
      }
  }
  std::vector<number> recover() {
    std::vector<number> given;
    shared.recover([&](std::span<const std::byte> message) { given.push_back(read(message)); });
    return given;
  }
  std::vector<number> drain() {
    std::vector<number> items;
    auto port = shared.consumer();
    for (const auto begin = running_clock::now();;) {
      const auto message = port.try_pop();
      if (message) items.push_back(read(*message));
      if (message.status() == status::empty) return items;
      if (running_clock::now() - begin > 1s)
        return ADD_FAILURE() << "dead processes block the queue for more than a second", items;
    }
  }
  /// Every cell and every byte is used, lap after lap.
  void still_works() {
    auto in = shared.producer();
    auto out = shared.consumer();
    for (number n = 1'000; n != 1'010; ++n) {
      ASSERT_EQ(in.try_push(bytes(arena)), status::success);
      ASSERT_EQ(in.try_push(bytes(1)), status::full);
      ASSERT_EQ(out.try_pop()->size(), arena);
      for (number i = 0; i != 3; ++i) ASSERT_EQ(in.try_push(letter(n + i)), status::success);
      for (number i = 0; i != 3; ++i) ASSERT_EQ(read(*out.try_pop()), n + i);
      for (number i = 0; i != capacity; ++i) ASSERT_EQ(in.try_push(bytes(8)), status::success);
      ASSERT_EQ(in.try_push(bytes(8)), status::full);
      for (number i = 0; i != capacity; ++i) ASSERT_TRUE(out.try_pop());
    }
    shared.check();
  }
};

/// The numbers of 1 … n that are nowhere; each of the others is in one place.
std::vector<number> missing(std::vector<number> all, number n) {
  std::sort(all.begin(), all.end());
  EXPECT_TRUE(std::adjacent_find(all.begin(), all.end()) == all.end()) << "a message is delivered twice";
  std::vector<number> none;
  for (number i = 1; i <= n; ++i)
    if (!std::binary_search(all.begin(), all.end(), i)) none.push_back(i);
  EXPECT_EQ(all.size() + none.size(), n) << "a message that is not whole, or was never sent";
  return none;
}
void add(std::vector<number>& all, const std::vector<number>& more) { all.insert(all.end(), more.begin(), more.end()); }

template <class Shape>
class shared_bytes_death : public ::testing::Test {};
using shapes = ::testing::Types<shape::spsc, shape::spmc, shape::lanes>;
struct shape_names {
  template <class Shape>
  static std::string GetName(int) {
    return Shape::name;
  }
};
TYPED_TEST_SUITE(shared_bytes_death, shapes, shape_names);

TYPED_TEST(shared_bytes_death, of_a_consumer_loses_no_message_but_the_one_it_was_given) {
  std::size_t lost = 0, given = 0;
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    s.push(1, 4);
    died = child_dies(n, [&] { s.child_pops(3); });
    const std::vector<number> back = s.recover();
    std::vector<number> all = s.child.items();
    add(all, back);
    add(all, s.drain());
    const std::vector<number> gone = missing(all, 4);
    EXPECT_LE(gone.size(), died ? 1U : 0U) << "died at " << n;
    EXPECT_LE(back.size(), died ? 1U : 0U) << "died at " << n;
    given += back.size();
    lost += gone.size();
    ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
    ASSERT_FALSE(this->HasFailure()) << "died at " << n;
  }
  EXPECT_GT(n, 20U);
  EXPECT_GT(lost, 2U);
  EXPECT_GT(given, 2U);
}

TYPED_TEST(shared_bytes_death, of_a_producer_costs_the_message_that_it_was_writing) {
  number n = 1;
  std::size_t lost = 0;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    died = child_dies(n, [&] { s.child_pushes(1, 3); });
    // A successor sends more, before and after a consumer has looked, and overwrites nothing.
    std::vector<number> got;
    if (n % 2 == 0) got = s.drain();
    s.push(101, 101);
    add(got, s.drain());
    ASSERT_FALSE(got.empty()) << "died at " << n;
    EXPECT_EQ(got.back(), 101U) << "died at " << n;
    got.pop_back();
    EXPECT_GE(got.size(), s.child.pushed);
    EXPECT_LE(got.size(), s.child.tried);
    for (number i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i + 1) << "died at " << n;
    lost += s.child.tried - got.size();
    EXPECT_TRUE(s.recover().empty());
    ASSERT_NO_FATAL_FAILURE(s.still_works()) << "died at " << n;
    ASSERT_FALSE(this->HasFailure()) << "died at " << n;
  }
  EXPECT_GT(n, 20U);
  EXPECT_GT(lost, 2U);
}

TYPED_TEST(shared_bytes_death, of_producers_one_after_another_overwrites_no_message_in_use) {
  number n = 1;
  for (bool died = true; died; ++n) {
    scene<TypeParam> s;
    s.push(1, 3);
    auto out = s.shared.consumer();
    const auto held = out.try_peek();
    ASSERT_TRUE(held);
    ASSERT_EQ(read(*out.try_pop()), 2U);
    // The first dies while it follows the producer above, the second while it follows the first.
    died = child_dies(n, [&] { s.child_pushes(4, 2); });
    died |= child_dies(n, [&] {
      auto port = s.shared.producer();
      for (number i = 201; i != 300; ++i)
        if (port.try_push(letter(i)) != status::success) return;
    });
    number last = 0;
    const auto pop_all = [&] {
      const auto begin = running_clock::now();
      for (;;) {
        const auto message = out.try_pop();
        if (message.status() == status::empty) return;
        ASSERT_TRUE(running_clock::now() - begin < 1s) << "died at " << n;
        if (!message) continue;
        const number got = read(*message);
        ASSERT_GT(got, last) << "died at " << n;
        last = got;
      }
    };
    ASSERT_NO_FATAL_FAILURE(pop_all());
    s.push(301, 301);
    ASSERT_NO_FATAL_FAILURE(pop_all());
    EXPECT_EQ(last, 301U) << "died at " << n;
    EXPECT_EQ(read(held->bytes()), 1U) << "died at " << n;
  }
  EXPECT_GT(n, 20U);
}

TEST(shared_bytes_ports, of_a_dead_consumer_leave_the_messages_that_it_does_not_hold_to_others) {
  scene<shape::lanes> s;
  s.push(1, 2);
  EXPECT_TRUE(child_dies(1'000'000, [&] {
    auto port = s.shared.consumer();
    const auto one = port.try_peek();
    const auto two = port.try_peek();
    s.child.pops = two ? 2 : 0;
    ::raise(SIGKILL);
  }));
  EXPECT_EQ(s.child.pops, 2U);
  auto in = s.shared.producer();
  auto out = s.shared.consumer();
  for (number i = 100; i != 200; ++i) {
    ASSERT_EQ(in.try_push(letter(i % 3)), status::success) << i;
    ASSERT_TRUE(out.try_pop()) << i;
  }
  EXPECT_EQ(s.recover(), (std::vector<number>{1, 2}));
  EXPECT_EQ(in.try_push(bytes(arena)), status::success);
}

// The next consumer first gets the messages that the dead one was reading, each once, also when it holds one of them.
TEST(shared_bytes_ports, are_inherited_with_the_messages_in_place) {
  scene<shape::spsc> s;
  s.push(1, 3);
  EXPECT_TRUE(child_dies(1'000'000, [&] {
    auto port = s.shared.consumer();
    const auto one = port.try_peek();
    const auto two = port.try_peek();
    ::raise(SIGKILL);
  }));
  auto out = s.shared.consumer();
  const auto first = out.try_peek();
  const auto second = out.try_peek();
  const auto third = out.try_pop();
  EXPECT_EQ(read(first->bytes()), 1U);
  EXPECT_EQ(read(second->bytes()), 2U);
  EXPECT_EQ(read(*third), 3U);
  EXPECT_EQ(out.try_peek().status(), status::empty);
}

}  // namespace
}  // namespace muster_test
