// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queue between processes under the checker, where a process is a thread, and one that has stopped for ever is
// dead: its rings (impl/shared_engine.hpp) in all histories, and what is left when somebody dies before any of its
// operations.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include "expect_right.hpp"
#include "mutant_search.hpp"
#include "queue_programs.hpp"
#include "shared_region.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace muster_model_test;
using muster::queue_status;
namespace shape = muster::shape;
namespace detail = muster::detail;

// ------------------------------------------------------------------------------------------------------- the histories

/// A region with the face of a queue of items, for queue_programs.hpp. Each thread has a seat.
template <class Shape>
class as_queue {
  using place = region<Shape, false>;

 public:
  struct options {
    std::size_t threads, cells;
    muster::rank_t first_rank;
  };
  as_queue(std::size_t capacity, const options& o) : all_(capacity, o.cells, o.first_rank, mm::most_threads + 1) {
    for (unsigned t = 0; t < mm::most_threads; ++t) {
      all_.queue->sit_down(t + 1, 1);
      seen_[t] = all_.queue->view_of(0);
    }
  }

  queue_status try_push(item&& value) { return after(value, all_.try_push(seat(), seen(), value.value())); }
  queue_status push(item&& value) { return after(value, all_.push(seat(), seen(), value.value())); }
  queue_status push(item&& value, std::stop_token stop) {
    return after(value, all_.push(seat(), seen(), value.value(), {muster::no_deadline, &stop}));
  }
  template <class Time>
  queue_status push_for(item&& value, Time time) {
    return after(value, all_.push(seat(), seen(), value.value(), {detail::deadline_after(time)}));
  }
  muster::queue_result<item> try_pop() { return as_item(all_.try_pop(seat())); }
  muster::queue_result<item> pop() { return as_item(all_.pop(seat())); }
  muster::queue_result<item> pop(std::stop_token stop) {
    return as_item(all_.pop(seat(), {muster::no_deadline, &stop}));
  }
  template <class Time>
  muster::queue_result<item> pop_for(Time time) {
    return as_item(all_.pop(seat(), {detail::deadline_after(time)}));
  }
  queue_status emplace(refusing) { return queue_status::busy; }
  queue_status try_emplace(refusing) { return queue_status::busy; }
  std::size_t push_n(auto, std::size_t) { return 0; }
  std::size_t try_push_n(auto, std::size_t) { return 0; }
  std::size_t pop_n(auto, std::size_t) { return 0; }
  std::size_t try_pop_n(auto, std::size_t) { return 0; }
  void close() { all_.queue->close(); }
  void check() const { all_.queue->check(); }

 private:
  static unsigned seat() { return mm::engine::running().current() + 1; }
  typename place::rings::view& seen() { return seen_[seat() - 1]; }
  static queue_status after(item& value, queue_status s) {
    if (s == queue_status::success) value = item();
    return s;
  }
  static muster::queue_result<item> as_item(const muster::queue_result<number>& r) {
    if (!r) return r.status();
    return muster::queue_result<item>(std::in_place, *r);
  }

  place all_;
  std::array<typename place::rings::view, mm::most_threads> seen_;
};

struct row {
  const char* shape;
  std::size_t capacity;
  const char* text;
  search_bounds within;
};

const std::vector<row> table = {
    {"spsc", 1, "try_push*2 | try_pop*2", {-1, -1}},
    {"spsc", 2, "push*3 | pop*3", {2, 1}},
    {"spsc", 1, "push*2 close | drain", {2, 1}},
    {"spsc", 1, "close | push*2 | drain", {1, 1}},
    {"spmc", 1, "try_push*2 | try_pop*2", {2, 1}},
    {"spmc", 1, "push*2 | pop | pop", {1, 1}},
    {"spmc", 2, "try_push*3 | try_pop*2 | try_pop", {1, 1}},
    {"spmc", 1, "close | push*2 | drain", {1, 1}},
    {"mpmc", 1, "try_push | try_push | try_pop", {2, 1}},
    {"mpmc", 2, "try_push*2 | try_push | try_pop*2", {1, 1}},
    {"mpmc", 1, "push | push | pop*2", {1, 1}},
    {"mpmc", 1, "close | push | drain", {1, 1}},
    {"spsc", 1, "push*2 | close", {-1, -1, 5'000}},
    {"spmc", 1, "pop | close", {-1, -1, 5'000}},
    {"spmc", 1, "push*3 | pop*3", {-1, -1, 5'000}},
    {"mpmc", 1, "try_push | try_pop | close", {-1, -1, 5'000}},
    {"spsc", 2, "close | push*4 | drain_for", {-1, -1, 20'000}},
    {"spsc", 1, "stop | push_stop*2 | pop_stop*3", {-1, -1, 20'000}},
    {"spsc", 2, "push*6 | pop*6", {-1, -1, 20'000}},
    {"spmc", 1, "push_for*3 close | pop_for*2 | drain_for", {-1, -1, 20'000}},
    {"spmc", 2, "close | push*3 | drain | drain", {-1, -1, 20'000}},
    {"spmc", 1, "try_push*4 | try_pop*2 | try_pop*2 | close", {-1, -1, 20'000}},
    {"spmc", 1, "push*4 | pop*2 | pop_stop*2", {-1, -1, 20'000}},
    {"mpmc", 2, "push*2 | push*2 | pop*2 | pop*2", {-1, -1, 20'000}},
    {"mpmc", 1, "close | push*2 | push*2 | drain | drain", {-1, -1, 20'000}},
    {"mpmc", 2, "close | push*2 | try_push*2 | drain | drain_for", {-1, -1, 20'000}},
    {"mpmc", 1, "push_stop*2 | push_stop*2 | pop*4", {-1, -1, 20'000}},
    {"mpmc", 1, "close | push*2 | close | drain", {-1, -1, 20'000}},
    {"mpmc", 3, "try_push*3 | try_push*2 | try_pop*3 | try_pop*2", {-1, -1, 20'000}},
    {"mpmc", 1, "push*2 | push*2 | pop*2 | pop*2", {-1, -1, 20'000}},
    {"mpmc", 1, "try_push try_pop | close try_pop", {2, 2, 20'000}},
    {"mpmc", 1, "try_push try_pop | close try_pop | try_push", {-1, -1, 20'000}},
};

std::function<void()> make_program(const row& r) {
  const std::string shape = r.shape;
  queue_setup setup;
  setup.capacity = r.capacity;
  setup.cells = std::max<std::size_t>(2, std::bit_ceil(r.capacity + (shape == "spsc" ? 0 : 1)));
  setup.full_may_be_early = true;
  if (shape == "spsc") return queue_program<as_queue<shape::spsc>>(setup, parse(r.text));
  if (shape == "spmc") return queue_program<as_queue<shape::spmc>>(setup, parse(r.text));
  return queue_program<as_queue<shape::mpmc>>(setup, parse(r.text));
}

std::string name_of(const row& r) { return std::string(r.shape) + " of " + std::to_string(r.capacity) + ": " + r.text; }

class shared_queue_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(shared_queue_model, has_no_execution_that_breaks_a_promise) {
  const row& r = table[GetParam()];
  for (const bool asymmetric : {true, false}) {
    mm::settings().asymmetric_fences = asymmetric;
    expect_right(r.within, name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), make_program(r));
  }
}

INSTANTIATE_TEST_SUITE_P(programs, shared_queue_model, ::testing::Range(std::size_t{0}, table.size()));

// ---------------------------------------------------------------------------------------------------------- the deaths

/// Thread 1 may die before any of its operations. p pushes, o pops (both wait), t tries to pop, c closes. There is room
/// for three.
struct mortals {
  const char* before;  // main does this first
  const char* victim;
  const char* other;
};

template <class Shape>
class death {
  using place = region<Shape, true>;

 public:
  explicit death(const mortals& who) : who_(who), all_(3, 4, near_the_wrap, 4) {}

  /// The item of a pop that stopped after its last step is nowhere but in a register; its seat names it.
  void play() {
    for (unsigned seat = 1; seat <= 3; ++seat) {
      all_.queue->sit_down(seat, 1);
      seen_[seat] = all_.queue->view_of(0);
    }
    act(who_.before);
    const unsigned victim = mm::spawn([this] { act(who_.victim); });
    const unsigned other = mm::spawn([this] { act(who_.other); });
    const bool died = !mm::join(victim) && mm::engine::running().has_stopped(victim);
    if (!mm::join(other)) fail("the dead keep the other from finishing");
    const number was_given = all_.queue->seat(2).items.load(std::memory_order_relaxed);
    if (died) {
      // The other may have cleared up already, unless the dead have claimed items.
      static_cast<void>(all_.queue->clear_up(2, 1, [this](number one) { found(one); }));
      if (all_.queue->seat(2).holder.load(std::memory_order_relaxed) != 0) fail("the seat of the dead is not free");
    }
    number last[4] = {};
    for (auto item = all_.try_pop(1); item; item = all_.try_pop(1)) {
      number& before = last[*item / 100];
      if (*item <= before) fail("items of one producer are out of order");
      before = *item;
      found(*item);
    }
    all_.queue->check();
    unsigned nowhere = 0;
    for (const number value : pushed_)
      if (value != 0 && std::count(found_.begin(), found_.end(), value) == 0) ++nowhere;
    if (nowhere > (died && was_given > popped_[2] ? 1 : 0)) fail("an item is lost");
  }

 private:
  [[noreturn]] static void fail(const char* what) { mm::engine::running().fail(what); }

  void found(number value) {
    if (std::count(found_.begin(), found_.end(), value) != 0) fail("an item is delivered twice");
    *std::find(found_.begin(), found_.end(), 0) = value;
  }

  void act(const char* letters) {
    const unsigned seat = mm::engine::running().current() + 1;
    for (number value = 100 * seat; *letters != '\0'; ++letters) {
      if (*letters == 'p') {
        ++value;
        if (all_.push(seat, seen_[seat], value) == queue_status::success)
          *std::find(pushed_.begin(), pushed_.end(), 0) = value;
      } else if (*letters == 'c') {
        all_.queue->close();
      } else {
        const auto item = *letters == 'o' ? all_.pop(seat) : all_.try_pop(seat);
        if (item) found(*item), ++popped_[seat];
      }
    }
  }

  const mortals who_;
  place all_;
  std::array<typename place::rings::view, 4> seen_;
  std::array<number, 16> pushed_{}, found_{};
  std::array<number, 4> popped_{};
};

template <class Shape>
std::function<void()> death_program(const mortals& who) {
  return [who] {
    auto now = std::make_unique<death<Shape>>(who);
    now->play();
  };
}

/// Somebody has died with a rank that it was writing and an item that it had claimed. Two clear up after it, one of
/// whom may die; then main does.
class clearing {
  using place = region<shape::mpmc, true>;

 public:
  void play() {
    auto& rings = *all_.queue;
    for (unsigned seat = 1; seat <= 4; ++seat) rings.sit_down(seat == 4 ? dead_from_the_beginning : seat, 1);
    typename place::rings::view seen = rings.view_of(0);
    static_cast<void>(all_.try_push(1, seen, 1));
    static_cast<void>(rings.claim_item(0, 4));
    static_cast<void>(rings.claim_place(0, 4, seen));
    static_cast<void>(all_.try_push(1, seen, 2));

    const unsigned mortal = mm::spawn([this] { clear_up(0); });
    const unsigned other = mm::spawn([this] {
      clear_up(1);
      // Whoever sits there next is not taken for the dead.
      if (all_.queue->sit_down(3, 1) == 4 &&
          all_.queue->clear_up(4, 3, detail::leave_items{}) != detail::cleared::nobody_dead)
        mm::engine::running().fail("a seat is taken from a process that lives");
    });
    const bool died = !mm::join(mortal) && mm::engine::running().has_stopped(mortal);
    mm::join(other);
    clear_up(2);
    const unsigned given = given_[0].get() + given_[1].get() + given_[2].get();
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
    if (rings.seat(4).holder.load(std::memory_order_relaxed) != 0) rings.stand_up(4);
    rings.sit_down(dead_from_the_beginning, 1);
    static_cast<void>(all_.try_push(1, seen, 1));
    static_cast<void>(rings.claim_item(0, 4));
    clear_up(2);
    if (given_[0].get() + given_[1].get() + given_[2].get() != given + 1)
      mm::engine::running().fail("a seat can be cleared up only once");
    rings.check();
  }

 private:
  void clear_up(unsigned who) {
    all_.queue->clear_up(4, mm::engine::running().current() + 1, [&](number item) {
      if (item != 1) mm::engine::running().fail("an item that nobody had claimed is given");
      ++given_[who].ref();
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
    unsigned seat = all_.queue->sit_down(self, 1);
    while (seat == 0) {
      muster::sync::yield();
      seat = all_.queue->sit_down(self, 1);
    }
    while (!all_.queue->own(of, seat, self, give)) muster::sync::yield();
    expect(seat, 0, 0);
    return seat;
  }
  /// What people are told of a seat.
  void expect(unsigned seat, number items, number last) const {
    const detail::shared_seat& s = all_.queue->seat(seat);
    if (s.role.load(std::memory_order_relaxed) != 1 || s.items.load(std::memory_order_relaxed) != items ||
        s.last.load(std::memory_order_relaxed) != last)
      mm::engine::running().fail("a seat tells what is not so");
  }
  void leave(unsigned seat, number items, number last) {
    expect(seat, items, last);
    all_.queue->stand_up(seat);
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
  using place = region<shape::spsc, true>;

 public:
  explicit heirs(std::vector<unsigned> items) : items_(std::move(items)) {}

  void play() {
    for (unsigned seat = 1; seat != 3 + items_.size(); ++seat) all_.queue->sit_down(seat, 1);
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
    all_.queue->stand_up(seat);
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

struct death_row {
  std::string name;
  std::function<void()> program;
};

std::vector<death_row> deaths() {
  std::vector<death_row> all;
  const auto add = [&]<class Shape>(Shape, const std::vector<mortals>& rows) {
    for (const mortals& m : rows)
      all.push_back(
          {std::string(Shape::name) + ": " + m.before + " | " + m.victim + " | " + m.other, death_program<Shape>(m)});
  };
  add(shape::spsc{}, {{"", "p", "t"}, {"p", "to", "p"}, {"p", "p", "o"}});
  add(shape::spmc{}, {{"", "pp", "tt"}, {"pp", "oo", "p"}, {"pp", "o", "t"}, {"pp", "to", "pt"}, {"ppp", "to", "t"}});
  add(shape::mpmc{}, {{"", "p", "po"}, {"p", "po", "po"}, {"pp", "to", "po"}, {"p", "c", "o"}, {"p", "pc", "t"}});
  for (const std::vector<unsigned>& items : {std::vector<unsigned>{1}, {0}, {0, 1}})
    all.push_back({"spsc: " + std::to_string(items.size()) + " consumers follow, and pop " +
                       std::to_string(items.back()) + " at the most",
                   [items] { std::make_unique<heirs>(items)->play(); }});
  all.push_back({"mpmc: two clear up", [] {
                   auto now = std::make_unique<clearing>();
                   now->play();
                 }});
  return all;
}

std::vector<death_row> handovers() {
  return {{"spsc: places go from hand to hand", [] { std::make_unique<handover<shape::spsc>>()->play(); }}};
}

TEST(shared_queue_places, go_from_hand_to_hand) {
  for (const death_row& d : handovers())
    for (const auto how : {mm::strategy::random, mm::strategy::priorities})
      expect_right(mm::limits{.how = how, .executions = 20'000, .depth = 4}, d.name, d.program);
}

TEST(shared_queue_deaths, lose_nothing_and_hold_up_nobody) {
  for (const death_row& d : deaths()) {
    for (const bool asymmetric : {true, false}) {
      mm::settings().asymmetric_fences = asymmetric;
      expect_right(mm::limits{.preemptions = 1, .stale = 0, .executions = 1'000'000, .freeze = 1}, d.name, d.program);
      for (const auto how : {mm::strategy::random, mm::strategy::priorities})
        for (const int mortal : {1, -1})
          expect_right(mm::limits{.how = how, .executions = 10'000, .depth = 4, .freeze = mortal}, d.name, d.program);
    }
  }
}

TEST(shared_queue_mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const row& r : table)
    for (const bool asymmetric : {true, false})
      search.programs.push_back({name_of(r), asymmetric, make_program(r), {}});
  for (const death_row& d : deaths()) search.programs.push_back({d.name, true, d.program, {}, 1});
  search.programs.push_back({deaths().back().name + ", and live", true, deaths().back().program, {}});
  for (const death_row& d : handovers()) search.programs.push_back({d.name, true, d.program, {}});
  search.survivors = {
      {"shared_engine::look_closer: load seq_cst -> acquire", false,
       "of the gap: the checker's sequentially consistent operations order more than C++20 says"},
      {"shared_engine::claim_item: load repeated", true, "an older hint: walks over the ranks between"},
      {"shared_engine::check: load repeated", true, "an older hint, as above"},
      {"shared_engine::view_of: load repeated", true, "an older head: whoever sleeps for it looks again after 50 ms"},
      {"shared_engine::look_closer: load repeated", true, "of a ring's end: any that is there with the flag is right"},
      {"shared_engine::claim_item: store skipped", true, "a hint: consumers walk over the ranks between"},
      {"shared_engine::has_news: load repeated", true, "a hint: the pop looks again"},
      {"shared_engine::help_to_close: load repeated", true, "what has changed in between has seen the flag"},
      {"shared_engine::claim_place: load repeated", true, "an older hint: walks over the ranks between"},
      {"shared_engine::claim_place: store skipped", true, "a hint, as above"},
      {"shared_engine::search_place: load repeated", true,
       "of a cell met again a lap later: only its producers make it less free, and they claim by compare-exchange"},
      {"shared_engine::search_place: store release -> relaxed", false,
       "when there is no room: as the store of claim_place, and a fifth thread that finds no room"},
      {"shared_engine::has_room: store skipped", true, "a hint: the next push walks again"},
      {"shared_engine::await_room: load repeated", true, "asks for the room of an older rank"},
      {"shared_engine::make_gap: load repeated", true, "the compare-exchange reads it again"},
      {"shared_engine::own: load repeated", true, "somebody had the place when we asked"},
      {"shared_engine::help: load repeated", true, "a hint, and a seat that is looked at before anything is done"},
  };
  const row hint{"mpmc", 3, "try_push | try_push | try_push | close try_pop*2", {-1, -1}};
  // Who finds the queue empty because of a pop that came after close() must not say that it is open.
  const row last_pop{"mpmc", 1, "try_push try_pop | close try_pop", {-1, -1}};
  const row laps{"mpmc", 1, "push*3 | push*3 | pop*3 | pop*3", {-1, -1}};
  const auto made = [](const row& r, bool asymmetric) {
    return mutant_program{name_of(r), asymmetric, make_program(r), {}};
  };
  const row takers{"mpmc", 2, "try_push*2 try_pop | try_push try_pop | close try_pop*2", {-1, -1}};
  const row full{"mpmc", 1, "try_push*2 | try_push try_pop | close try_pop*2", {-1, -1}};
  search.needles = {
      {"shared_engine::claim_item: load acquire -> relaxed", made(takers, false)},
      {"shared_engine::claim_place: load acquire -> relaxed", made(takers, false)},
      {"shared_engine::claim_place: store release -> relaxed", made(takers, false)},
      {"shared_engine::claim_place: store release -> relaxed", made(hint, false)},
      {"shared_engine::has_room: store release -> relaxed", made(full, false)},
      {"shared_engine::claim_item_of: compare_exchange release -> relaxed", made(last_pop, false)},
      {"shared_engine::claim_item: store release -> relaxed", made(last_pop, false)},
      {"shared_engine::give_back: store release -> relaxed", made(laps, true)},
  };
  search.files = {"impl/shared_"};
  search.prefix = "shared_engine::";
  search.executions = 16384;
  search.run();
}

}  // namespace
