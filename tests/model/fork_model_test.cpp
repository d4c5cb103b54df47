// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The forks of a thread under the checker: one owner that forks and joins, thieves that steal, ask, take without being
// answered, sleep and are woken. Every half of every fork must be executed once, and what it has written must be seen
// after the join.
//
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/fork/detail/watermark.hpp>

#include "checker/explore.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
namespace sync = muster::sync;
using muster::detail::completion_count;
using muster::detail::idle_workers;
using muster::detail::parker;
using muster::detail::task;
using muster::detail::theft;
using muster::detail::watermark_engine;

/// The owner executes trees, one after another. A tree is '(' first half second half ')', or a leaf '.', or a leaf that
/// lasts until another thread has executed something: 'w' forks meanwhile, 'l' does not; at 'a' the owner polls for
/// requests, as loops do.
/// A thief executes one letter after another: 's' steals, 'a' requests, 'u' takes without an answer, 'z' sleeps until
/// there is a task, and takes it.
struct script {
  std::string tree;
  std::vector<std::string> thieves;
  bool always = false;
};

class game {
 public:
  explicit game(const script& s) : script_(s), deque_(asleep_, {.always = s.always}), places_(s.thieves.size() + 1) {
    for (std::size_t i = 0; i < s.tree.size(); ++i) leaves_.push_back(std::make_unique<leaf>());
  }

  void play() {
    std::vector<unsigned> threads;
    for (unsigned t = 0; t < script_.thieves.size(); ++t)
      threads.push_back(mm::spawn([this, t] { steal(t + 1, script_.thieves[t]); }));
    for (std::size_t at = 0; at < script_.tree.size(); at = end_of(at)) execute(at);
    deque_.check();
    // Wakes thieves whose task never came.
    over_.store(1, std::memory_order_relaxed);
    sync::full_fence();
    while (asleep_.anyone()) asleep_.wake_one();
    for (const unsigned t : threads) mm::join(t);
    for (std::size_t i = 0; i < script_.tree.size(); ++i)
      if (script_.tree[i] != '(' && script_.tree[i] != ')' && leaves_[i]->executions.read_ref() != 1)
        fail("a leaf has been executed " + std::to_string(leaves_[i]->executions.read_ref()) + " times");
  }

 private:
  struct leaf {
    sync::cell<unsigned> executions{0U};
    sync::atomic<unsigned> by_a_thief{0};
  };
  struct half : task {
    half(game& all, std::size_t place) : in(all), at(place) {}
    game& in;
    const std::size_t at;
  };

  static bool any(const task&) { return true; }
  static void fail(const std::string& what) { mm::engine::running().fail(what); }

  std::size_t end_of(std::size_t at) const {
    if (script_.tree[at] != '(') return at + 1;
    return end_of(end_of(at + 1)) + 1;
  }

  /// By the owner.
  void execute(std::size_t at) {
    if (script_.tree[at] != '(') {
      leaves_[at]->executions.write_ref() += 1;
      if (script_.tree[at] == 'w') wait_for_thief();
      if (script_.tree[at] == 'a') deque_.tasks().request_work();
      while (script_.tree[at] == 'l' && stolen_.load(std::memory_order_relaxed) == 0) sync::yield();
      return;
    }
    half second(*this, end_of(at + 1));
    deque_.push(second, [](task& r) noexcept -> completion_count* {
      auto& here = static_cast<half&>(r);
      here.in.executed_by_thief(here.at);
      return nullptr;
    });
    execute(at + 1);
    if (deque_.pop(second) || deque_.take_back(second)) {
      execute(second.at);
    } else {
      // Every second one looks for a while first, and then need not sleep.
      if (at % 2 == 0) {
        while (!second.is_done()) sync::yield();
      } else {
        sleep_for(second);
        if (!second.is_done()) fail("woken before the second half is done");
      }
      if (second.thief() == 0 || second.thief() > script_.thieves.size()) fail("stolen by no thief");
      second.joined();
    }
  }
  /// As a join that checks again before it continues to sleep.
  void sleep_for(task& second) {
    if (!second.may_sleep(places_[0])) return;
    if (second.withdraw() && !second.may_sleep(places_[0])) return;
    places_[0].park();
  }
  void executed_by_thief(std::size_t at) {
    if (script_.tree[at] != '(') {
      leaves_[at]->executions.write_ref() += 1;
    } else {
      executed_by_thief(at + 1);
      executed_by_thief(end_of(at + 1));
    }
    stolen_.store(1, std::memory_order_relaxed);
  }
  /// Answers requests until something has been stolen.
  void wait_for_thief() {
    while (stolen_.load(std::memory_order_relaxed) == 0) {
      if (!deque_.tasks().work_requested()) {
        sync::yield();
        continue;
      }
      half nothing(*this, 0);
      deque_.push(nothing, [](task& r) noexcept -> completion_count* {
        static_cast<half&>(r).in.stolen_.store(1, std::memory_order_relaxed);
        return nullptr;
      });
      if (!deque_.pop(nothing) && !deque_.take_back(nothing)) {
        if (nothing.may_sleep(places_[0])) places_[0].park();
        nothing.joined();
      }
    }
  }

  task* steal_any(unsigned self) {
    theft unused;
    return deque_.tasks().steal(self, unused, any);
  }
  void finish(task* r) {
    if (r != nullptr) r->run();
  }
  void steal(unsigned self, const std::string& commands) {
    for (const char c : commands) switch (c) {
        case 's': finish(steal_any(self)); break;
        case 'a': deque_.tasks().request_work(); break;
        case 'u':
          deque_.publish_for_owner();
          finish(steal_any(self));
          break;
        case 'z': steal_or_sleep(self); break;
        default: fail("no such command");
      }
  }
  void steal_or_sleep(unsigned self) {
    while (over_.load(std::memory_order_relaxed) == 0) {
      while (deque_.tasks().offers()) {
        if (task* r = steal_any(self)) return finish(r);
        sync::yield();
      }
      asleep_.announce(places_[self]);
      deque_.tasks().request_work();
      sync::heavy_fence();
      if (deque_.may_have_more()) deque_.publish_for_owner();
      if (deque_.tasks().offers() || over_.load(std::memory_order_relaxed) != 0) {
        asleep_.withdraw(places_[self]);
      } else {
        places_[self].park();
      }
    }
  }

  const script& script_;
  idle_workers asleep_;
  watermark_engine deque_;
  std::vector<parker> places_;
  std::vector<std::unique_ptr<leaf>> leaves_;
  sync::atomic<unsigned> stolen_{0}, over_{0};
};

/// Worker 0 forks, and while it waits for its second half, steals out of it. Worker 1 steals that half while it has a
/// fork of its own, which worker 0 must not execute, and forks within it. Or, far: worker 1 has no fork of its own, and
/// worker 2, which has, steals the one within that half, and forks within that.
class leapfrog {
 public:
  explicit leapfrog(bool far) : far_(far) {}

  void play() {
    const unsigned other = mm::spawn([this] {
      if (far_) {
        steal_from(0, 1);
      } else {
        fork_one(1, executions_[2], false, [this] { steal_from(0, 1); });
      }
    });
    unsigned third = 0;
    if (far_) third = mm::spawn([this] { fork_one(2, executions_[2], false, [this] { steal_from(1, 2); }); });
    half second(executions_[0], true);
    deques_[0].push(second, &half::run_alone);
    if (deques_[0].pop(second) || deques_[0].take_back(second)) {
      second.executed();
    } else {
      unsigned looks = 0;
      do {
        theft now;
        task* r = deques_[1].tasks().steal_part_of(&second, 0, 0, now);
        if (r == nullptr && far_) r = deques_[2].tasks().steal_part_of(&second, 0, 0, now);
        if (r != nullptr) {
          if (!static_cast<half*>(r)->of_stolen) mm::engine::running().fail("executes what it does not wait for");
          deques_[0].tasks().enter(now, deques_[0].depth());
          r->run();
          deques_[0].tasks().leave(now);
        } else if (++looks == 2) {
          if (second.may_sleep(places_[0])) places_[0].park();
        } else {
          sync::yield();
        }
      } while (!second.is_done());
      second.joined();
    }
    mm::join(other);
    if (far_) mm::join(third);
    for (const auto& one : executions_)
      if (one.read_ref() > 1) mm::engine::running().fail("executed twice");
    if (executions_[0].read_ref() != 1 || executions_[2].read_ref() != 1) mm::engine::running().fail("not executed");
  }

 private:
  struct half : task {
    half(sync::cell<unsigned>& count, bool stolen) : executions(count), of_stolen(stolen) {}
    void executed() { executions.write_ref() += 1; }
    static completion_count* run_alone(task& r) noexcept {
      static_cast<half&>(r).executed();
      return nullptr;
    }
    sync::cell<unsigned>& executions;
    const bool of_stolen;
  };
  template <class First>
  void fork_one(unsigned self, sync::cell<unsigned>& count, bool stolen, First first) {
    half inner(count, stolen);
    deques_[self].push(inner, &half::run_alone);
    first();
    if (deques_[self].pop(inner) || deques_[self].take_back(inner)) return inner.executed();
    if (inner.may_sleep(places_[self])) places_[self].park();
    inner.joined();
  }
  /// And forks within what it has stolen.
  void steal_from(unsigned victim, unsigned self) {
    theft now;
    task* const r = deques_[victim].tasks().steal(self, now, [](const task&) { return true; });
    if (r == nullptr) return;
    // Far, worker 1 has no fork of its own.
    const bool alone = far_ && self == 1;
    if (alone) deques_[self].tasks().enter_alone(now);
    else deques_[self].tasks().enter(now, deques_[self].depth());
    static_cast<half*>(r)->executed();
    fork_one(self, executions_[victim == 0 ? 1 : 3], true, [] {});
    r->done();
    if (alone) deques_[self].tasks().leave_alone();
    else deques_[self].tasks().leave(now);
    if (deques_[self].tasks().newest_theft() != nullptr) mm::engine::running().fail("a theft that has ended is noted");
  }

  const bool far_;
  idle_workers asleep_;
  watermark_engine deques_[3] = {watermark_engine(asleep_, {.always = true}),
                                 watermark_engine(asleep_, {.always = true}),
                                 watermark_engine(asleep_, {.always = true})};
  parker places_[3];
  sync::cell<unsigned> executions_[4] = {sync::cell<unsigned>(0U), sync::cell<unsigned>(0U), sync::cell<unsigned>(0U),
                                         sync::cell<unsigned>(0U)};
};

/// The owner keeps two tasks for a group. Two thieves take the tasks that they find, and the owner executes the rest;
/// or the thieves continue until each has one. The owner sleeps until all have ended, at once or after another check.
/// Then the scope ends.
void keep_two(bool owner_helps, bool looks_again) {
  struct kept : task {
    kept(completion_count& c, sync::cell<unsigned>& n) : open(&c), count(&n) {}
    static completion_count* run_taken(task& r) noexcept {
      auto& here = static_cast<kept&>(r);
      here.count->write_ref() += 1;
      return here.open;
    }
    completion_count* open;
    sync::cell<unsigned>* count;
  };
  idle_workers asleep;
  watermark_engine deque(asleep);
  parker place;
  sync::cell<unsigned> counts[2] = {sync::cell<unsigned>(0U), sync::cell<unsigned>(0U)};
  std::unique_ptr<kept> both[2];
  auto open = std::make_unique<completion_count>(place);
  const muster::detail::scope_node scope;
  unsigned thieves[2];
  for (unsigned& t : thieves)
    t = mm::spawn([&] {
      task* r = nullptr;
      theft unused;
      while ((r = deque.tasks().steal(1, unused, [](const task&) { return true; })) == nullptr && !owner_helps)
        sync::yield();
      if (r != nullptr) r->run();
    });
  for (unsigned i = 0; i < 2; ++i) {
    both[i] = std::make_unique<kept>(*open, counts[i]);
    open->begin();
    deque.offer(*both[i], &kept::run_taken, scope);
  }
  theft own;
  while (owner_helps && deque.tasks().offers())
    if (task* r = deque.tasks().steal_part_of(&scope, 0, 0, own)) {
      r->run();
    } else {
      sync::yield();
    }
  if (!open->all_ended() && open->may_sleep() && (!looks_again || !open->withdraw() || open->may_sleep())) place.park();
  if (counts[0].read_ref() != 1 || counts[1].read_ref() != 1) mm::engine::running().fail("not executed once");
  open.reset();
  for (const unsigned t : thieves) mm::join(t);
}

/// A thread is about to leave its place in a part of a pool, while another gives the place a token for some work. The
/// thread takes it, or the token calls a thread: never both, and never none.
void leave_a_place() {
  struct lent final : parker {
    lent() : parker(&call) {}
    static void call(parker& to) noexcept { static_cast<lent&>(to).calls.fetch_add(1, std::memory_order_relaxed); }
    sync::atomic<unsigned> calls{0};
    sync::cell<unsigned> work{0};
  };
  const auto check = [](bool is_right, const char* otherwise) {
    if (!is_right) mm::engine::running().fail(otherwise);
  };
  lent place;
  place.unpark();
  check(place.calls.load(std::memory_order_relaxed) == 1, "a vacant place calls no thread");
  place.park();
  const unsigned giver = mm::spawn([&] {
    place.work.write_ref() = 7;
    place.unpark();
  });
  const bool has_left = place.leave();
  if (has_left) {
    while (place.calls.load(std::memory_order_relaxed) == 1) sync::yield();
    place.park();  // the thread that has been called
  }
  check(place.work.read_ref() == 7, "the token comes before the work");
  mm::join(giver);
  check(place.calls.load(std::memory_order_relaxed) == (has_left ? 2 : 1), "a place calls a thread that is there");
  check(place.leave(), "a token comes twice");
}

std::function<void()> program(const script& s) {
  return [s] { game(s).play(); };
}

void search(const mm::limits& within, const script& s) { muster_model_test::expect_right(within, s.tree, program(s)); }

TEST(forks, are_executed_once_when_a_thief_asks) {
  for (const char* thief : {"s", "as", "asas"}) {
    search({.preemptions = 2, .stale = 1}, {"(..)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((..).)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"(.(..))", {thief}});
  }
}

TEST(forks, are_executed_once_when_a_thief_does_not_wait_for_an_answer) {
  for (const char* thief : {"u", "uu", "aus"}) {
    search({.preemptions = 2, .stale = 1}, {"(..)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((..).)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((..)(..))", {thief}});
  }
}

TEST(forks, are_executed_once_when_their_owner_asks) {
  for (const char* thief : {"s", "as", "us", "uas"}) {
    search({.preemptions = 2, .stale = 1}, {"(a.)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((a.)a)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((..)(a.))", {thief}});
  }
  search({.preemptions = 2, .stale = 1}, {"(a(w.))", {"z"}});
}

TEST(forks, are_executed_once_when_all_are_published) {
  search({.preemptions = 2, .stale = 1}, {"((..).)", {"ss"}, true});
  search({.preemptions = 2, .stale = 0}, {"((..).)", {"s", "s"}, true});
}

TEST(forks, wake_sleepers) {
  search({.preemptions = 2, .stale = 1}, {"(w.)", {"z"}});
  search({.preemptions = 1, .stale = 1}, {"((w.).)", {"z", "z"}});
  search({.preemptions = 2, .stale = 1}, {"(l.)", {"z"}});
  search({.preemptions = 2, .stale = 1}, {"(.(l.))", {"z"}});
}

TEST(forks, that_come_out_of_a_stolen_half_are_distinguished_from_others) {
  for (const bool far : {false, true}) {
    const auto play = [far] { leapfrog(far).play(); };
    muster_model_test::expect_right(mm::limits{.preemptions = far ? 1 : 2, .stale = 1}, "leapfrog", play);
    for (const auto how : {mm::strategy::random, mm::strategy::priorities})
      muster_model_test::expect_right(mm::limits{.how = how, .executions = 20000, .depth = 4}, "leapfrog", play);
  }
}

TEST(offers, are_executed_once_and_the_scope_outlives_them) {
  for (const bool owner_helps : {true, false})
    for (const bool looks_again : {true, false}) {
      const auto play = [=] { keep_two(owner_helps, looks_again); };
      muster_model_test::expect_right(mm::limits{.preemptions = owner_helps ? 2 : 1, .stale = 1}, "keep two", play);
      for (const auto how : {mm::strategy::random, mm::strategy::priorities})
        muster_model_test::expect_right(mm::limits{.how = how, .executions = 20000, .depth = 4}, "keep two", play);
    }
}

TEST(places, are_left_or_their_token_is_taken) {
  muster_model_test::expect_right(mm::limits{.preemptions = 3, .stale = 2}, "leave a place", leave_a_place);
}

const std::vector<script> many = {{"(((..).)(..))", {"asas", "as"}},
                                  {"((..)(..))", {"uas", "asu"}},
                                  {"((((..).).).)", {"asss", "uu"}},
                                  {"(w.)", {"z"}},
                                  {"((w.)(..))", {"zas", "as"}},
                                  {"((..)(..))", {"sss", "ss"}, true},
                                  {"(..)", {"as"}},
                                  {"((..).)", {"uu", "as"}},
                                  {"(.(.(..)))", {"asas", "uas"}},
                                  {"(l.)", {"z"}},
                                  {"(.(l.))", {"z"}},
                                  {"((w.)(l.))", {"z", "a"}},
                                  {"(..)(l.)", {"z", "a"}}};

TEST(forks, are_executed_once_by_chance) {
  for (const auto how : {mm::strategy::random, mm::strategy::priorities})
    for (const script& s : many) search({.how = how, .executions = 5000, .depth = 4}, s);
}

muster_model_test::mutant_program mutant_program_of(const std::string& name, const std::function<void()>& run) {
  return {name, true, run, {}};
}

TEST(mutants, are_noticed_or_explained) {
  muster_model_test::mutant_search search;
  const script late{"(..)(l.)", {"z", "a"}};
  const auto lost = mutant_program_of("late", program(late));
  const auto leap = mutant_program_of("leapfrog", [] { leapfrog(false).play(); });
  const auto leap_far = mutant_program_of("leapfrog far", [] { leapfrog(true).play(); });
  for (const script& s : many) search.programs.push_back(mutant_program_of(s.tree + ' ' + s.thieves[0], program(s)));
  search.programs.push_back(leap);
  search.programs.push_back(leap_far);
  for (const bool owner_helps : {true, false})
    for (const bool looks_again : {true, false})
      search.programs.push_back(mutant_program_of("keep two", [=] { keep_two(owner_helps, looks_again); }));
  search.programs.push_back(mutant_program_of("leave a place", leave_a_place));
  search.files = {"detail/watermark.hpp", "detail/steal_list.hpp", "detail/task.hpp", "detail/parking.hpp"};
  search.prefix = "";
  search.executions = 512;
  search.survivors = {
      {"watermark_engine::publish_for_owner: load repeated", true, "reads what may_have_more() has just read"},
      {"watermark_engine::depth: load repeated", true, "the owner reads what it has written"},
  };
  search.needles = {{"steal_list::clear_request: fence seq_cst", lost},
                    {"idle_workers::announce: fence seq_cst", lost}};
  search.run();
}

}  // namespace
