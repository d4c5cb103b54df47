// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_followers.hpp: programs in which a process takes the place of another in a queue between processes: after a
// death, or when the other has left.
#pragma once

#include "queue_programs.hpp"
#include "shared_region.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace muster_model_test {

/// A process has died with a rank that it was writing and an item that it had claimed. Two others recover it, one of
/// which may die; then main does.
class clearing {
  using place = region<muster::shape::mpmc, true>;

 public:
  void play() {
    auto& rings = *all_.queue;
    for (unsigned seat = 1; seat <= 4; ++seat) rings.acquire_seat(seat == 4 ? dead_from_the_beginning : seat, 1);
    typename place::rings::view seen = rings.view_of(0);
    static_cast<void>(all_.try_push(1, seen, 1));
    static_cast<void>(rings.claim_item(0, 4));
    static_cast<void>(rings.claim_place(0, 4, seen));
    static_cast<void>(all_.try_push(1, seen, 2));

    const unsigned mortal = mm::spawn([this] { clear_up(0); });
    const unsigned other = mm::spawn([this] {
      clear_up(1);
      // The next process in this seat is not taken for the dead one.
      if (all_.queue->acquire_seat(3, 1) == 4 &&
          all_.queue->clear_up(4, 3, detail::leave_items{}) != detail::recovery::none_dead)
        mm::engine::running().fail("a seat is taken from a process that lives");
    });
    const bool died = !mm::join(mortal) && mm::engine::running().has_stopped(mortal);
    mm::join(other);
    clear_up(2);
    const unsigned given = given_[0].read_ref() + given_[1].read_ref() + given_[2].read_ref();
    if (given == 0) mm::engine::running().fail("the item of the dead is lost");
    if (given > (died ? 2 : 1)) mm::engine::running().fail("the item of the dead is given twice");
    const number after = rings.seat(4).holder.load(std::memory_order_relaxed);
    if (after != 0 && after != 3) mm::engine::running().fail("the seat of the dead is not free");
    const auto second = all_.try_pop(1);
    if (!second || *second != 2) mm::engine::running().fail("what came after the dead is lost");
    if (all_.try_pop(1).status() != queue_status::empty) mm::engine::running().fail("there is an item too many");
    if (after == 0 && rings.seat(4).role.load(std::memory_order_relaxed) != 0)
      mm::engine::running().fail("a free seat has a role");

    // The next one there dies, too.
    if (rings.seat(4).holder.load(std::memory_order_relaxed) != 0) rings.release_seat(4);
    rings.acquire_seat(dead_from_the_beginning, 1);
    static_cast<void>(all_.try_push(1, seen, 1));
    static_cast<void>(rings.claim_item(0, 4));
    clear_up(2);
    if (given_[0].read_ref() + given_[1].read_ref() + given_[2].read_ref() != given + 1)
      mm::engine::running().fail("a seat can be cleared up only once");
    rings.check();
  }

 private:
  void clear_up(unsigned who) {
    all_.queue->clear_up(4, mm::engine::running().current() + 1, [&](number item) {
      if (item != 1) mm::engine::running().fail("an item that was not claimed is delivered");
      ++given_[who].write_ref();
    });
  }

  place all_{2, 4, near_the_wrap, 5};
  std::array<muster::sync::cell<unsigned>, 3> given_{muster::sync::cell<unsigned>(0U), muster::sync::cell<unsigned>(0U),
                                                     muster::sync::cell<unsigned>(0U)};
};

/// The place of the only producer, and of the only consumer, goes from one thread to another.
template <class Shape>
class handover {
  using place = region<Shape, false>;

 public:
  void play() {
    const auto produce = [this](number first) {
      const unsigned seat = take_place(all_.queue->ends(0).producer, detail::leave_items{});
      typename place::rings::view seen = all_.queue->view_of(0);
      for (number value = first; value != first + 2; ++value) static_cast<void>(all_.push(seat, seen, value));
      leave(seat, 2, 0);
    };
    const auto consume = [this](unsigned items) {
      const unsigned seat = take_place(all_.queue->ends(0).consumer, detail::hand_over{});
      for (unsigned i = 0; i < items; ++i) {
        const auto item = all_.pop(seat);
        if (!item || !got_.insert(*item)) mm::engine::running().fail("an item is delivered twice");
      }
      leave(seat, items, detail::shared_word::step * (near_the_wrap + got_.size() - 1));
    };
    mm::parallel([&] { produce(11); }, [&] { produce(21); }, [&] { consume(1); }, [&] { consume(1); });
    consume(2);
    all_.queue->check();
  }

 private:
  template <class Give>
  unsigned take_place(muster::sync::atomic<std::uint32_t>& of, Give give) {
    const number self = model_life<false>::self();
    unsigned seat = all_.queue->acquire_seat(self, 1);
    while (seat == 0) {
      muster::sync::yield();
      seat = all_.queue->acquire_seat(self, 1);
    }
    while (!all_.queue->own(of, seat, self, give)) muster::sync::yield();
    expect(seat, 0, 0);
    return seat;
  }
  /// Checks the reported state of a seat.
  void expect(unsigned seat, number items, number last) const {
    const detail::shared_seat& s = all_.queue->seat(seat);
    if (s.role.load(std::memory_order_relaxed) != 1 || s.items.load(std::memory_order_relaxed) != items ||
        s.last.load(std::memory_order_relaxed) != last)
      mm::engine::running().fail("a seat tells what is not so");
  }
  void leave(unsigned seat, number items, number last) {
    expect(seat, items, last);
    all_.queue->release_seat(seat);
  }
  struct set {
    bool insert(number value) {
      const bool is_new = std::count(values.begin(), values.end(), value) == 0;
      *std::find(values.begin(), values.end(), 0) = value;
      return is_new;
    }
    number size() const { return values.size() - static_cast<number>(std::count(values.begin(), values.end(), 0)); }
    std::array<number, 8> values{};
  };

  place all_{2, 4, near_the_wrap, 5};  // each cell is used once: there are no gaps
  set got_;
};

/// The only consumer dies, or leaves, and others try to follow it, one of which may die as well; each pops `items` and
/// leaves. Main is the last.
class heirs {
  using place = region<muster::shape::spsc, true>;

 public:
  explicit heirs(std::vector<unsigned> items) : items_(std::move(items)) {}

  void play() {
    for (unsigned seat = 1; seat != 3 + items_.size(); ++seat) all_.queue->acquire_seat(seat, 1);
    typename place::rings::view seen = all_.queue->view_of(0);
    for (number value = 1; value <= 3; ++value) static_cast<void>(all_.try_push(1, seen, value));
    all_.queue->ends(0).consumer.store(2, std::memory_order_relaxed);
    std::vector<unsigned> all = {mm::spawn([this] { pop_and_leave(2, 2); })};
    for (unsigned i = 0; i != items_.size(); ++i)
      all.push_back(mm::spawn([this, i] {
        if (follows(3 + i)) pop_and_leave(3 + i, items_[i]);
      }));
    for (const unsigned one : all)
      if (!mm::join(one) && !mm::engine::running().has_stopped(one)) fail("the dead keep the others from finishing");
    if (!follows(1)) fail("the dead keep their place");
    pop_and_leave(1, 3);
    number nowhere = 0, last = 0;
    for (const number value : found_) {
      if (value == 0) break;
      if (value <= last) fail("items are out of order, or delivered twice");
      nowhere += value - last - 1;
      last = value;
    }
    nowhere += 3 - last;
    // The item of a pop that stopped after its last step is nowhere but in a register; its seat counts it.
    for (unsigned seat = 2; seat != 3 + items_.size(); ++seat)
      nowhere -= std::min(nowhere, all_.queue->seat(seat).items.load(std::memory_order_relaxed) - popped_[seat]);
    if (nowhere != 0) fail("an item is lost");
    all_.queue->check();
  }

 private:
  [[noreturn]] static void fail(const char* what) { mm::engine::running().fail(what); }

  bool follows(unsigned seat) { return all_.queue->own(all_.queue->ends(0).consumer, seat, seat, detail::hand_over{}); }
  void pop_and_leave(unsigned seat, unsigned items) {
    for (; items != 0; --items) {
      const auto inherited = all_.queue->inherited_item();
      const auto item = inherited ? all_.queue->take(seat, inherited) : all_.try_pop(seat);
      if (!item) break;
      found(seat, *item);
    }
    all_.queue->release_seat(seat);
  }
  void found(unsigned seat, number value) {
    *std::find(found_.begin(), found_.end(), 0) = value;
    ++popped_[seat];
  }

  const std::vector<unsigned> items_;
  place all_{3, 4, near_the_wrap, 5};
  std::array<number, 8> found_{};
  std::array<number, 5> popped_{};
};

}  // namespace muster_model_test
