// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// structure_programs.hpp: small programs on an unbounded queue or stack, in which each thread pushes distinct numbers
// and pops. Every number must come out once, and whole histories must be linearizable: by happens-before, and by time
// when no operation has read an old value.
#pragma once

#include "checker/explore.hpp"
#include "object_specs.hpp"
#include "queue_spec.hpp"
#include "wing_gong_lowe.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace muster_model_test {

namespace mm = muster_model;
using muster_test::event;
using muster_test::op;
using muster_test::result;
using number = std::uint64_t;

/// The operations that the main thread does first, and then those of each thread, of which it is the first: 'u' pushes,
/// 'o' pops.
struct script {
  std::string before;
  std::vector<std::string> threads;

  std::string text() const {
    std::string all = before;
    for (const std::string& one : threads) all += " | " + one;
    return all;
  }
};

/// `Spec`: what a history must look like.
template <class Structure, class Spec>
class structure_run {
 public:
  template <class Make>
  structure_run(const script& s, const Make& make) : script_(s), object_(make()) {
    all_.reserve(32);
    go(s.before);
  }

  /// Returns false if a thread has stopped forever.
  bool everything_finished() {
    std::vector<unsigned> threads;
    for (std::size_t t = 1; t < script_.threads.size(); ++t)
      threads.push_back(mm::spawn([this, t] { go(script_.threads[t]); }));
    go(script_.threads[0]);
    bool stopped = false;
    for (const unsigned t : threads) stopped |= !mm::join(t);
    if (!stopped) object_.check();
    while (pop()) {
    }
    check_history(stopped);
    return !stopped;
  }

 private:
  struct entry {
    event e;
    mm::view begin, end;
    bool open = false;
  };
  static unsigned self() { return mm::engine::running().current(); }

  void go(const std::string& commands) {
    for (unsigned i = 0; i < commands.size(); ++i)
      if (commands[i] == 'u') {
        push(++pushed_[self()] + 16 * self());
      } else {
        pop();
      }
  }
  void push(number value) {
    begin(op::push, value);
    object_.push(value);
    end(result::success);
  }
  bool pop() {
    begin(op::pop, 0);
    const std::optional<number> value = object_.pop();
    if (value) open_[self()].e.value = *value;
    end(value ? result::success : result::empty);
    return value.has_value();
  }

  void begin(op kind, number value) {
    const mm::heap::untracked aside;
    mm::engine& e = mm::engine::running();
    e.begin_operation();
    open_[self()] = {
        {self(), kind, value, result::pending, e.steps() + 1, muster_test::never}, e.known().now, {}, true};
  }
  void end(result outcome) {
    const mm::heap::untracked aside;
    mm::engine& e = mm::engine::running();
    e.end_operation();
    entry& done = open_[self()];
    done.e.outcome = outcome;
    done.e.end = e.steps();
    done.open = false;
    ++e.known().now.clock(self());
    done.end = e.known().now;
    all_.push_back(done);
  }

  void check_history(bool stopped) {
    const mm::heap::untracked aside;
    // The operation in which a thread stopped may have happened or not.
    for (entry& last : open_)
      if (stopped && last.open) {
        last.end.clock(last.e.thread) = ~0U;
        all_.push_back(last);
      }
    std::vector<event> history;
    std::vector<std::uint64_t> before(all_.size(), 0);
    const bool by_time = !mm::engine::running().was_stale();
    number pushed = 0, popped = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const entry& b = all_[i];
      history.push_back(b.e);
      if (b.e.outcome == result::success) (b.e.kind == op::push ? pushed : popped) += b.e.value;
      for (std::size_t j = 0; j < all_.size(); ++j) {
        const entry& a = all_[j];
        const unsigned by = a.e.thread;
        const bool happens_before = by == b.e.thread ? j < i : b.begin.clock(by) >= a.end.clock(by);
        if (happens_before || (by_time && a.e.end < b.e.begin)) before[i] |= std::uint64_t{1} << j;
      }
    }
    if (!stopped && pushed != popped) mm::engine::running().fail("an item is lost, or comes twice");
    muster_test::wing_gong_lowe<Spec> search;
    if (!search.linearizable(std::span<const event>(history), before))
      mm::engine::running().fail("the history is not linearizable:\n" + muster_test::describe(history));
  }

  const script& script_;
  Structure object_;
  std::vector<entry> all_;
  std::array<entry, mm::most_threads> open_;
  std::array<number, mm::most_threads> pushed_{};
};

/// `make()` returns the structure, which cannot be moved.
template <class Structure, class Spec, class Make>
std::function<void()> structure_program(const script& s, Make make) {
  return [s, make] {
    auto now = std::make_unique<structure_run<Structure, Spec>>(s, make);
    // An object in which a thread has stopped cannot be destroyed.
    if (!now->everything_finished()) static_cast<void>(now.release());
  };
}

}  // namespace muster_model_test
