// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_deaths.hpp: programs in which users of a queue between processes die. A process is a thread, and one that has
// stopped forever is dead.
#pragma once

#include "queue_programs.hpp"
#include "shared_followers.hpp"
#include "shared_ports.hpp"
#include "shared_region.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster_model_test {

/// Thread 1 may die before any of its operations. p pushes, o pops (both wait), t tries to pop, c closes, r clears up.
struct mortals {
  const char* before;  // main does this first
  const char* victim;
  const char* other;
  const char* after = "";  // main does this before it waits for the other, if the victim has died
  std::size_t capacity = 3;
};

/// The items that were pushed, and the items that were popped.
class accounts {
 public:
  [[noreturn]] static void fail(const char* what) { mm::engine::running().fail(what); }

  void pushed(number value) { *std::find(pushed_.begin(), pushed_.end(), 0) = value; }
  void found(number value) {
    if (std::count(found_.begin(), found_.end(), value) != 0) fail("an item is delivered twice");
    *std::find(found_.begin(), found_.end(), 0) = value;
  }
  /// At the end, one after the other.
  void found_in_order(number value) {
    number& before = last_[value / 100];
    if (value <= before) fail("items of one producer are out of order");
    before = value;
    found(value);
  }
  unsigned lost() const {
    unsigned nowhere = 0;
    for (const number value : pushed_)
      if (value != 0 && std::count(found_.begin(), found_.end(), value) == 0) ++nowhere;
    return nowhere;
  }

 private:
  std::array<number, 16> pushed_{}, found_{};
  std::array<number, 4> last_{};
};

template <class Shape>
class death {
  using place = region<Shape, true>;

 public:
  explicit death(const mortals& who)
      : who_(who), all_(who.capacity, std::bit_ceil(who.capacity + 1), near_the_wrap, 4) {}

  /// The item of a pop that stopped after its last step is nowhere but in a register; its seat names it.
  void play() {
    for (unsigned seat = 1; seat <= 3; ++seat) {
      all_.queue->acquire_seat(seat, 1);
      seen_[seat] = all_.queue->view_of(0);
    }
    act(who_.before);
    const unsigned victim = mm::spawn([this] { act(who_.victim); });
    const unsigned other = mm::spawn([this] { act(who_.other); });
    const bool died = !mm::join(victim) && mm::engine::running().has_stopped(victim);
    const number was_given = all_.queue->seat(2).items.load(std::memory_order_relaxed);
    if (died) act(who_.after);
    if (!mm::join(other)) accounts::fail("the dead keep the other from finishing");
    if (died) {
      // Others may have cleared up already, unless the dead have claimed items.
      clear_up();
      if (all_.queue->seat(2).holder.load(std::memory_order_relaxed) != 0)
        accounts::fail("the seat of the dead is not free");
    }
    if (all_.queue->header().deaths.load(std::memory_order_relaxed) != (died ? 1 : 0))
      accounts::fail("a death is not counted, or twice");
    for (auto item = all_.try_pop(1); item; item = all_.try_pop(1)) all_items_.found_in_order(*item);
    all_.queue->check();
    if (all_items_.lost() > (died && was_given > popped_[2] ? 1 : 0)) accounts::fail("an item is lost");
  }

 private:
  void clear_up() {
    static_cast<void>(all_.queue->clear_up(2, 1, [this](number one) { all_items_.found(one); }));
  }

  void act(const char* letters) {
    const unsigned seat = mm::engine::running().current() + 1;
    for (number value = 100 * seat; *letters != '\0'; ++letters) {
      if (*letters == 'p') {
        ++value;
        if (all_.push(seat, seen_[seat], value) == queue_status::success) all_items_.pushed(value);
      } else if (*letters == 'c') {
        all_.queue->close();
      } else if (*letters == 'r') {
        clear_up();
      } else {
        const auto item = *letters == 'o' ? all_.pop(seat) : all_.try_pop(seat);
        if (item) all_items_.found(*item), ++popped_[seat];
      }
    }
  }

  const mortals who_;
  place all_;
  std::array<typename place::rings::view, 4> seen_;
  accounts all_items_;
  std::array<number, 4> popped_{};
};

/// The same with lanes, and with ports: each thread opens its own, and closes them.
class lanes_death {
  using place = shared_lanes<true>;

 public:
  explicit lanes_death(const mortals& who) : who_(who), all_(who.capacity, near_the_wrap) {}

  void play() {
    act(who_.before);
    const unsigned victim = mm::spawn([this] { act(who_.victim); });
    const unsigned other = mm::spawn([this] { act(who_.other); });
    const bool died = !mm::join(victim) && mm::engine::running().has_stopped(victim);
    const bool may_be_lost = died && given_to(victim) > popped_[victim];
    if (died) act(who_.after);
    if (!mm::join(other)) accounts::fail("the dead keep the other from finishing");
    clear_up();
    for (unsigned seat = 1; seat < all_.rings.facts().seats; ++seat)
      if (all_.rings.seat(seat).holder.load(std::memory_order_relaxed) != 0)
        accounts::fail("a seat is not free, though no port is open");
    std::optional<place::consumer_port> rest;
    all_.open(rest);
    auto item = rest->try_pop();
    for (; item; item = rest->try_pop()) all_items_.found_in_order(*item);
    if (item.status() == queue_status::busy) accounts::fail("a queue that was cleared up is busy");
    all_.queue.check();
    if (all_items_.lost() > (may_be_lost ? 1 : 0)) accounts::fail("an item is lost");
  }

 private:
  void clear_up() {
    for (unsigned seat = 1; seat < all_.rings.facts().seats; ++seat)
      all_.rings.clear_up(seat, 0, [this](number one) { all_items_.found(one); });
  }

  /// How many items its consumer's port counts.
  number given_to(unsigned thread) const {
    number items = 0;
    for (unsigned s = 1; s < all_.rings.facts().seats; ++s) {
      const detail::shared_seat& seat = all_.rings.seat(s);
      if (seat.holder.load(std::memory_order_relaxed) == thread + 1 &&
          seat.role.load(std::memory_order_relaxed) == detail::consumer_role)
        items += seat.items.load(std::memory_order_relaxed);
    }
    return items;
  }

  void act(const char* letters) {
    const unsigned self = mm::engine::running().current();
    std::optional<place::producer_port>& producer = producers_[self];
    std::optional<place::consumer_port>& consumer = consumers_[self];
    for (number value = 100 * (self + 1); *letters != '\0'; ++letters) {
      if (*letters == 'p') {
        if (!producer) all_.open(producer);
        ++value;
        if (producer->push(value) == queue_status::success) all_items_.pushed(value);
      } else if (*letters == 'c') {
        all_.queue.close();
      } else if (*letters == 'r') {
        clear_up();
      } else {
        if (!consumer) all_.open(consumer);
        const auto item = *letters == 'o' ? consumer->pop() : consumer->try_pop();
        if (item) all_items_.found(*item), ++popped_[self];
      }
    }
    producer.reset();
    consumer.reset();
  }

  const mortals who_;
  place all_;
  std::array<std::optional<place::producer_port>, 4> producers_;
  std::array<std::optional<place::consumer_port>, 4> consumers_;
  accounts all_items_;
  std::array<number, 4> popped_{};
};

template <class Death>
std::function<void()> death_program(const mortals& who) {
  return [who] { std::make_unique<Death>(who)->play(); };
}

struct death_row {
  std::string name;
  std::function<void()> program;
};

inline std::vector<death_row> deaths() {
  namespace shape = muster::shape;
  std::vector<death_row> all;
  const auto add = [&](const std::string& of, auto program, const std::vector<mortals>& rows) {
    for (const mortals& m : rows) {
      std::string name =
          of + " of " + std::to_string(m.capacity) + ": " + m.before + " | " + m.victim + " | " + m.other;
      if (*m.after != '\0') name += std::string(", and then ") + m.after;
      all.push_back({name, program(m)});
    }
  };
  add("spsc", death_program<death<shape::spsc>>,
      {{"", "p", "t"}, {"p", "to", "p"}, {"p", "p", "o"}, {"p", "o", "p", "t", 1}});
  add("spmc", death_program<death<shape::spmc>>,
      {{"", "pp", "tt"},
       {"pp", "oo", "p"},
       {"pp", "o", "t"},
       {"pp", "to", "pt"},
       {"ppp", "to", "t"},
       {"p", "o", "p", "t", 1}});
  add("mpmc", death_program<death<shape::mpmc>>,
      {{"", "p", "po"},
       {"p", "po", "po"},
       {"pp", "to", "po"},
       {"p", "c", "o"},
       {"p", "pc", "t"},
       {"p", "o", "p", "t", 1},
       {"p", "o", "ptp", "rt", 1}});
  add("lanes", death_program<lanes_death>,
      {{"", "pp", "tt"}, {"p", "p", "o"}, {"pp", "to", "pt"}, {"p", "o", "ptp", "rt", 1}});
  for (const std::vector<unsigned>& items : {std::vector<unsigned>{1}, {0}, {0, 1}})
    all.push_back({"spsc: " + std::to_string(items.size()) + " consumers follow, and pop " +
                       std::to_string(items.back()) + " at the most",
                   [items] { std::make_unique<heirs>(items)->play(); }});
  all.push_back({"mpmc: two clear up", [] { std::make_unique<clearing>()->play(); }});
  return all;
}

inline std::vector<death_row> handovers() {
  namespace shape = muster::shape;
  return {{"spsc: places go from hand to hand", [] { std::make_unique<handover<shape::spsc>>()->play(); }}};
}

}  // namespace muster_model_test
