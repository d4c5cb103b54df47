// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The forks of a thread that are found on its stack, under the checker: one owner that forks and joins on a
// modelled stack, thieves that steal, request work, interrupt the owner by signals, sleep and are woken. Every half of
// every fork must be executed once, and what it has written must be seen after the join.
//
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/fork/detail/engine.hpp>

#include "checker/explore.hpp"
#include "expect_right.hpp"
#include "modelled_stack.hpp"
#include "mutant_search.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
using namespace muster_model_test;
using muster::detail::idle_workers;
using muster::detail::parker;
using engine = muster::detail::barrier_engine<modelled_stack>;
static_assert(muster::detail::worker_engine<engine>);

/// The owner executes trees, one after another. A tree is '(' first half second half ')', or a leaf: '.'; 'w' forks
/// until another thread has executed something; a digit lasts, without a fork, until others have executed that many;
/// 't' lasts until that or until it has been interrupted; 'n' is executed as a stolen task; 'p' is in another pool for
/// a moment; 'q' offers all, as before sleep; 'x' throws; at 'a' the owner polls for requests, as loops do.
/// A thief executes one letter after another: 's' steals, 'a' requests, 'i' interrupts the owner, 'u' interrupts it and
/// steals, 'z' sleeps until there is a task, and takes it.
struct script {
  std::string tree;
  std::vector<std::string> thieves;
  bool always = false;
  unsigned refusals = 0;
  bool looks = false;  // at which fork ends: one step more for the owner
};
struct thrown {};

class game {
 public:
  explicit game(const script& s) : script_(s), deque_(asleep_, {.always = s.always}), places_(s.thieves.size() + 1) {
    for (std::size_t i = 0; i < s.tree.size(); ++i) leaves_.push_back(std::make_unique<leaf>());
  }

  void play() {
    std::vector<unsigned> threads;
    stack_.refusals = script_.refusals;
    deque_.begin(this);
    for (unsigned t = 0; t < script_.thieves.size(); ++t)
      threads.push_back(mm::spawn([this, t] { steal(t + 1, script_.thieves[t]); }));
    deque_.set_running(true);
    for (std::size_t at = 0; at < script_.tree.size(); at = end_of(at)) execute(at);
    deque_.set_running(false);
    deque_.check();
    // Wakes thieves whose task never came.
    over_.store(1, std::memory_order_relaxed);
    sync::full_fence();
    while (asleep_.anyone()) asleep_.wake_one();
    for (const unsigned t : threads) mm::join(t);
    paper::end();
    for (std::size_t i = 0; i < script_.tree.size(); ++i)
      if (const unsigned many = leaves_[i]->executions.read_ref();
          script_.tree[i] != '(' && script_.tree[i] != ')' && many != 1 && (many != 0 || !leaves_[i]->may_be_left))
        fail("a leaf has been executed " + std::to_string(many) + " times");
  }

 private:
  static constexpr std::size_t nothing = ~std::size_t{0}, of_another_pool = nothing - 1;  // second halves
  struct leaf {
    sync::cell<unsigned> executions{0U};
    bool may_be_left = false;  // by an exception
  };

  static bool any(const task&) { return true; }
  static void fail(const std::string& what) { mm::engine::running().fail(what); }

  std::size_t end_of(std::size_t at) const {
    if (script_.tree[at] != '(') return at + 1;
    return end_of(end_of(at + 1)) + 1;
  }

  /// By the owner.
  void execute(std::size_t at) {
    const char what = script_.tree[at];
    if (what == '(') return fork([&] { execute(at + 1); }, end_of(at + 1));
    leaves_[at]->executions.write_ref() += 1;
    const unsigned enough = what == 'w' ? 1 : what >= '0' && what <= '9' ? static_cast<unsigned>(what - '0') : 0;
    while (stolen_.load(std::memory_order_relaxed) < enough) {
      if (what == 'w' && deque_.tasks().work_requested()) {
        fork([] {}, nothing);
      } else {
        sync::yield();
      }
    }
    while (what == 't' && stack_.answers.load(std::memory_order_relaxed) == 0 &&
           stolen_.load(std::memory_order_relaxed) == 0)
      sync::yield();
    if (what == 'n') {
      deque_.set_running(true);
      deque_.set_running(false);
    }
    if (what == 'p') {
      deque_.suspend();
      stack_.goes_away(of_another_pool);
      static_cast<void>(stolen_.load(std::memory_order_relaxed));  // meanwhile
      stack_.comes_back();
      deque_.resume();
    }
    if (what == 'q') deque_.publish_all();
    if (what == 'a') deque_.tasks().request_work();
    if (what == 'x') throw thrown{};
  }
  /// The steps of barrier/frame.hpp and barrier/join.hpp.
  template <class First>
  void fork(First first, std::size_t second) {
    if (deque_.tasks().work_requested()) {
      stack_.call(second);
      paper::step();
      deque_.publish_at_fork();
    } else {
      stack_.begins_to_fork(true);
      paper::step();
      stack_.call(second);
    }
    paper::step();
    try {
      first();
    } catch (const thrown&) {
      return pass(second);
    }
    for (;;) {
      paper::step();
      stack_fork* const r = stack_.ret();
      paper::step();
      if (r == nullptr) break;
      stack_.call_again();
      paper::step();
      if (script_.looks && r != deque_.newest()) fail("a fork ends that is not the newest");
      if (!deque_.take_back_at_barrier(*r)) return join(*r);
      paper::step();
      deque_.recycle(*r);
    }
    if (second != nothing) execute(second);
  }
  void join(stack_fork& r) {
    while (!r.is_done()) sync::yield();
    if (r.thief() == 0 || r.thief() > script_.thieves.size()) fail("stolen by no thief");
    paper::step();
    if (stack_.ret() != nullptr) fail("the barrier is passed twice");
    paper::step();
    deque_.end(r);
    paper::step();
    deque_.recycle(r);
  }

  /// An exception ends the first half, and is caught around the fork.
  void pass(std::size_t second) {
    leaves_[second]->may_be_left = true;
    stack_fork* const r = stack_.unwinds();
    paper::step();
    if (r != nullptr) {
      if (!deque_.take_back(*r)) {
        stack_.leaves(true);
        while (!r->is_done()) sync::yield();
        stack_.leaves(false);
        deque_.end(*r);
      }
      paper::step();
      deque_.recycle(*r);
    }
    stack_.catch_exception();
  }

  static void executed_by_thief(void* self, std::size_t second) {
    if (second == of_another_pool) fail("a fork of another pool is stolen");
    if (second == paper::overwritten) fail("a thief has taken a return address for a second half");
    auto& here = *static_cast<game*>(self);
    if (second != nothing) here.execute_stolen(second);
    here.stolen_.fetch_add(1, std::memory_order_relaxed);
  }
  void execute_stolen(std::size_t at) {
    if (script_.tree[at] == '(') {
      execute_stolen(at + 1);
      execute_stolen(end_of(at + 1));
    } else {
      leaves_[at]->executions.write_ref() += 1;
    }
  }

  void finish(task* r) {
    if (r != nullptr) r->run();
  }
  auto* steal_any(unsigned self) {
    muster::detail::theft unused;
    return deque_.tasks().steal(self, unused, any);
  }
  void steal(unsigned self, const std::string& commands) {
    for (const char c : commands) switch (c) {
        case 's': finish(steal_any(self)); break;
        case 'a': deque_.tasks().request_work(); break;
        case 'i':
          if (deque_.may_have_more()) deque_.publish_for_owner();
          break;
        case 'u':
          if (deque_.may_have_more()) deque_.publish_for_owner();
          finish(steal_any(self));
          break;
        case 'z': steal_or_sleep(self); break;
        default: fail("no such command");
      }
  }
  /// As worker::sleep().
  void steal_or_sleep(unsigned self) {
    while (over_.load(std::memory_order_relaxed) == 0) {
      while (deque_.tasks().offers()) {
        if (task* r = steal_any(self)) return finish(r);
        sync::yield();
      }
      asleep_.announce(places_[self]);
      deque_.tasks().request_work();
      sync::heavy_fence();
      const bool all = !deque_.may_have_more() || deque_.publish_for_owner();
      const bool needed = deque_.tasks().offers() || over_.load(std::memory_order_relaxed) != 0;
      if (!needed && all) {
        places_[self].park();
      } else if (needed || !places_[self].park_until(muster::deadline_clock::time_point{})) {
        asleep_.withdraw(places_[self]);
      }
    }
  }

  const script& script_;
  idle_workers asleep_;
  paper stack_{this, &game::executed_by_thief};
  engine deque_;
  std::vector<parker> places_;
  std::vector<std::unique_ptr<leaf>> leaves_;
  sync::atomic<unsigned> stolen_{0}, over_{0};
};

std::function<void()> program(const script& s) {
  return [s] { game(s).play(); };
}
void search(const mm::limits& within, script s) {
  s.looks = true;
  expect_right(within, s.tree + ' ' + s.thieves[0], program(s));
}

TEST(frames, are_executed_once_when_a_thief_asks) {
  for (const char* thief : {"s", "as", "asas"}) {
    search({.preemptions = 2, .stale = 1}, {"(..)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((..).)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"(.(..))", {thief}});
  }
}

TEST(frames, are_executed_once_when_the_owner_is_stopped) {
  for (const char* thief : {"u", "uu", "aus"}) {
    search({.preemptions = 2, .stale = 1}, {"(..)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((..).)", {thief}});
  }
}

TEST(frames, are_executed_once_when_their_owner_asks) {
  for (const char* thief : {"s", "us"}) {
    search({.preemptions = 2, .stale = 1}, {"(a.)", {thief}});
    search({.preemptions = 2, .stale = 1}, {"((a.)(a.))", {thief}});
  }
}

TEST(frames, wake_sleepers) {
  search({.preemptions = 1, .stale = 1}, {"(1.)", {"z"}});
  search({.preemptions = 2, .stale = 0}, {"(1.)", {"z"}});
  search({.preemptions = 1, .stale = 0}, {"(.(1.))", {"z"}});
}

const std::vector<script> many = {
    {"(((..).)(..))", {"asas", "as"}},
    {"((..)(..))", {"uas", "asu"}},
    {"((((..).).).)", {"asss", "uu"}},
    {"(w.)", {"z"}},
    {"((w.)(..))", {"zas", "as"}},
    {"((..)(..))", {"sss", "ss"}, true},
    {"(..)", {"us"}},
    {"((..).)", {"uu", "as"}},
    {"(.(.(..)))", {"uuss", "uas"}},
    {"(1.)", {"z"}},
    {"(.(1.))", {"z"}},
    {"((w.)(1.))", {"z", "a"}},
    {"(..)(1.)", {"z", "a"}},
    {"((1.).)", {"z", "z"}},
    {"((p.)(q.))", {"us", "u"}},
    {"(p(1.))", {"z", "u"}},
    {"((1.)(1.))", {"zu", "u"}},
    {"(..)(1.)", {"uz"}},
    {"(t.)(1.)", {"iz"}},
    {"(((2.).).)", {"zz", "zz"}},
    {"((((3.).).).)", {"izzz"}},
    {"(1.)(2.)", {"zz"}},
    {"(n(1.))", {"z"}},
    {"(((2.).).)", {"zz"}, false, 2},
    {"((x.)(1.))", {"uz"}},
    {"((x.)(x.))", {"usu", "ss"}},
};

TEST(frames, are_executed_once_by_chance) {
  for (const auto how : {mm::strategy::random, mm::strategy::priorities})
    for (const script& s : many) search({.how = how, .executions = 5000, .depth = 4}, s);
}

TEST(mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const script& s : many) search.programs.push_back({s.tree + ' ' + s.thieves[0], true, program(s), {}});
  search.files = {"barrier/engine.hpp", "barrier/records.hpp"};
  search.prefix = "";
  search.executions = 4096;
  search.survivors = {
      {"barrier_engine::begin: store skipped #2", true, "of signal_: the first who asks loses patience"},
      {"barrier_engine::suspend: store skipped", true, "it is interrupted without need"},
      {"barrier_engine::publish_in_handler: store release -> relaxed", true, "clear_request() has a fence"},
      {"barrier_engine::publish_in_handler: store skipped #1", true, "of quiet_: it is interrupted without need"},
      {"barrier_engine::publish_in_handler: store skipped #3", true, "of signal_: the requester loses patience"},
      {"barrier_engine::publish_for_owner: load repeated", true, "of signal_: the requester loses patience"},
      {"barrier_engine::publish_for_owner: exchange skipped", true, "stops the owner again, and does not wait for it"},
      {"frame_stock::give: exchange skipped", true, "of lacking_: more is given than is needed"},
  };
  for (const script& s : {script{"(p(1.))", {"z", "u"}}, script{"(n(1.))", {"z"}}})
    search.needles.push_back(
        {"barrier_engine::may_have_more: load repeated", {s.tree + ' ' + s.thieves[0], true, program(s), {}}});
  search.run();
}

}  // namespace
