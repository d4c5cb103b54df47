// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue_programs.hpp: small programs for the checker that use a queue, written as scripts (scripts.hpp).
//
// Checked     every execution: data races, lost wake-ups and leaks by the engine; here: nothing is lost, invented or
//             delivered twice; busy has a reason; the queue's own invariants at the end; and whether the whole history
//             is linearizable.
// Order       of operations in a history: happens-before; and when no operation of the execution has read an old value,
//             also the order of execution.
#pragma once

#include <muster/queue.hpp>

#include "checker/explore.hpp"
#include "queue_spec.hpp"
#include "scripts.hpp"
#include "wing_gong_lowe.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace muster_model_test {

namespace mm = muster_model;
using muster_test::event;
using muster_test::op;
using muster_test::result;

/// Thrown by the constructor of an item that refuses to be made.
struct refused {};
struct refusing {};

/// A value that fails the execution if it is used after its end.
class item {
 public:
  item() = default;
  explicit item(std::uint64_t value) : value_(value) {}
  explicit item(refusing) { throw refused{}; }
  item(item&& other) noexcept : value_(std::exchange(other.value_, moved_from)) {
    if (meanwhile != nullptr) meanwhile(whose);
  }
  item& operator=(item&& other) noexcept {
    value_ = std::exchange(other.value_, moved_from);
    return *this;
  }
  ~item() { value_ = destroyed; }
  std::uint64_t value() const { return value_; }

  // Called while an item is moved, if there is one. No std::function: what that allocates belongs to one execution.
  static inline void (*meanwhile)(void*) = nullptr;
  static inline void* whose = nullptr;
  static constexpr std::uint64_t moved_from = 1'000'001;
  static constexpr std::uint64_t destroyed = 1'000'002;

 private:
  std::uint64_t value_ = 0;
};

struct queue_setup {
  std::size_t capacity = 2;
  std::size_t cells = 0;
  std::size_t threads = 1;
  muster::rank_t first_rank = near_the_wrap;
  bool full_may_be_early = false;
};

/// A queue that is FIFO for each producer only. See check_order.
template <class Queue>
inline constexpr bool fifo_per_producer = false;

template <class Queue>
inline constexpr bool has_front = false;
template <class... With>
inline constexpr bool has_front<muster::spsc_queue<With...>> = true;

template <class Queue>
class queue_program {
 public:
  queue_program(const queue_setup& setup, script s) : setup_(setup), script_(std::move(s)) {}

  void operator()() const {
    auto now = std::make_unique<run>(*this);
    // A queue in which a thread has stopped cannot be destroyed.
    if (now->everything_finished()) return;
    static_cast<void>(now.release());
  }

 private:
  static constexpr std::uint64_t per_thread = 100;  // values of thread t are 100 t + 1, 100 t + 2, …

  struct entry {
    event e{};
    unsigned thread = 0;
    mm::view begin, end;
    std::size_t open = 0;  // events of this kind that have begun and not ended
  };

  class run {
   public:
    explicit run(const queue_program& program)
        : program_(program),
          queue_(program.setup_.capacity, {.threads = program.setup_.threads,
                                           .cells = program.setup_.cells,
                                           .first_rank = program.setup_.first_rank}) {
      entries_.reserve(64);
    }

    /// Runs all threads, then checks their history. Returns false if one of them has stopped forever.
    bool everything_finished() {
      item::meanwhile = nullptr;
      std::vector<unsigned> threads;
      for (unsigned t = 0; t < program_.script_.size(); ++t) threads.push_back(mm::spawn([this, t] { commands(t); }));
      bool stopped = false;
      for (const unsigned t : threads) stopped |= !mm::join(t);
      if (!stopped) drain();
      check_history(stopped);
      return !stopped;
    }

   private:
    using status = muster::queue_status;

    void drain() {
      queue_.check();
      for (;;) {
        begin(op::pop, 0);
        const auto left = queue_.try_pop();
        if (!left && left.status() == muster::queue_status::busy) fail("a quiet queue is busy");
        answer(left);
        if (!left) break;
      }
    }

    [[noreturn]] static void fail(const char* what) { mm::engine::running().fail(what); }
    static unsigned self() { return mm::engine::running().current(); }

    // -------------------------------------------------------------------------------------------------- the history
    void begin(op kind, std::uint64_t value, std::size_t events = 1) {
      const mm::heap::untracked aside;
      mm::engine& e = mm::engine::running();
      e.begin_operation();
      pending_[self()] = {
          {self(), kind, value, result::pending, e.steps() + 1, muster_test::never}, self(), e.known().now, {}, events};
    }
    void end(result outcome, std::uint64_t value) {
      const mm::heap::untracked aside;
      mm::engine& e = mm::engine::running();
      e.end_operation();
      entry& done = pending_[self()];
      done.e.outcome = outcome;
      if (outcome == result::success && done.e.kind == op::pop) done.e.value = value;
      done.e.end = e.steps();
      --done.open;
      ++e.known().now.clock(self());
      done.end = e.known().now;
      entries_.push_back(done);
    }
    void answer(status s) { end(muster_test::as_result(s), 0); }
    template <class T>
    void answer(const muster::queue_result<T>& r) {
      if (r) {
        end(result::success, r->value());
      } else {
        answer(r.status());
      }
    }

    void check_history(bool stopped) {
      const mm::heap::untracked aside;
      // The operation in which a thread stopped may have happened or not.
      for (entry& last : pending_) {
        last.end.clock(last.thread) = ~0U;
        for (; stopped && last.open != 0; --last.open, ++last.e.value) entries_.push_back(last);
      }
      std::vector<event> history;
      std::vector<std::uint64_t> before(entries_.size(), 0);
      const bool by_time = !mm::engine::running().was_stale();
      for (std::size_t i = 0; i < entries_.size(); ++i) {
        history.push_back(entries_[i].e);
        for (std::size_t j = 0; j < entries_.size(); ++j) {
          const entry& a = entries_[j];
          const entry& b = entries_[i];
          const bool happens_before = a.thread == b.thread ? j < i : b.begin.clock(a.thread) >= a.end.clock(a.thread);
          if (happens_before || (by_time && a.e.end < b.e.begin)) before[i] |= std::uint64_t{1} << j;
        }
      }
      if (!stopped) conserve(history);
      justify_busy(history, before);
      if constexpr (!fifo_per_producer<Queue>) return check_order(history, before);
      // Each lane is linearizable, and what an operation says of all of them, it says of each: of that, each producer's
      // items are checked; and what is said of a lane without any.
      for (unsigned t = 0; t <= program_.script_.size(); ++t) {
        std::vector<event> own;
        std::vector<std::uint64_t> own_before;
        std::vector<std::size_t> from;
        for (std::size_t i = 0; i < history.size(); ++i) {
          const event& e = history[i];
          if ((e.kind == op::push || (e.kind == op::pop && e.outcome == result::success)) &&
              e.value / per_thread != t + 1)
            continue;
          own.push_back(e);
          from.push_back(i);
        }
        for (const std::size_t i : from) {
          std::uint64_t bits = 0;
          for (std::size_t j = 0; j < from.size(); ++j) bits |= (before[i] >> from[j] & 1) << j;
          own_before.push_back(bits);
        }
        check_order(own, own_before);
      }
    }

    void check_order(const std::vector<event>& history, const std::vector<std::uint64_t>& before) const {
      muster_test::wing_gong_lowe<muster_test::queue_spec> search(
          muster_test::queue_spec({program_.setup_.capacity, program_.setup_.full_may_be_early}));
      if (search.linearizable(history, before)) return;
      static std::string what;
      what = "the history is not linearizable:\n" + muster_test::describe(history);
      mm::engine::running().fail(what);
    }

    /// busy has the reasons that docs/contracts/queue.md gives. A push: a pop or close() under way. A pop: close()
    /// under way, or a push; in a queue of one producer, a push after close() has begun.
    void justify_busy(const std::vector<event>& history, const std::vector<std::uint64_t>& before) const {
      const auto after = [&](std::size_t i, std::size_t j) { return (before[i] >> j & 1) != 0; };
      for (std::size_t i = 0; i < history.size(); ++i) {
        const event& e = history[i];
        if (e.outcome != result::busy || (e.kind == op::push && e.value == 0)) continue;  // 0: see push_bad
        bool other_side = false, closing = false, close_has_begun = false;
        for (std::size_t j = 0; j < history.size(); ++j) {
          const bool overlap = !after(i, j) && !after(j, i);
          closing |= overlap && history[j].kind == op::close;
          close_has_begun |= !after(j, i) && history[j].kind == op::close;
          other_side |= overlap && history[j].kind == (e.kind == op::push ? op::pop : op::push);
        }
        const bool needs_close = e.kind == op::pop && !program_.setup_.full_may_be_early;
        if (!closing && !(other_side && (close_has_begun || !needs_close)))
          fail("an operation says busy for no reason");
      }
    }

    static void conserve(const std::vector<event>& history) {
      for (const event& pop : history) {
        if (pop.kind != op::pop || pop.outcome != result::success) continue;
        unsigned pushed = 0, popped = 0;
        for (const event& e : history) {
          pushed += e.kind == op::push && e.outcome == result::success && e.value == pop.value;
          popped += e.kind == op::pop && e.outcome == result::success && e.value == pop.value;
        }
        if (pushed != 1) fail("a pop delivers what no push has pushed");
        if (popped != 1) fail("an item is delivered twice");
      }
      for (const event& push : history) {
        if (push.kind != op::push || push.outcome != result::success) continue;
        bool popped = false;
        for (const event& e : history)
          popped |= e.kind == op::pop && e.outcome == result::success && e.value == push.value;
        if (!popped) fail("an item is lost");
      }
    }

    // ------------------------------------------------------------------------------------------------- the commands
    void commands(unsigned t) {
      std::uint64_t next = per_thread * (t + 1);
      for (const command& c : program_.script_[t]) {
        if (c.verb.ends_with("_n")) {
          bulk(c, next);
        } else if (c.verb == "wait") {
          await_sets(c.times);
        } else if (c.verb.ends_with("_slow")) {
          struct slow {
            run* in;
            unsigned thread, times;
            bool tells;
          } me{this, self(), c.times, c.verb == "push_slow"};
          item::whose = &me;
          item::meanwhile = [](void* whose) {
            const slow& s = *static_cast<slow*>(whose);
            if (s.in->self() != s.thread) return;
            if (s.tells) s.in->sets_.fetch_add(1, std::memory_order_relaxed);
            s.in->await_sets(s.times);
          };
          if (c.verb == "pop_slow") pop([this] { return queue_.pop(); });
          else single("push", next);
          item::meanwhile = nullptr;
        } else {
          for (unsigned i = 0; i < c.times; ++i) single(c.verb, next);
        }
      }
    }

    void await_sets(unsigned times) {
      while (sets_.load(std::memory_order_relaxed) < times) muster::sync::yield();
    }

    void single(const std::string& verb, std::uint64_t& next) {
      using namespace std::chrono_literals;
      if (verb == "push") push(next, [this](item& v) { return queue_.push(std::move(v)); });
      if (verb == "try_push") push(next, [this](item& v) { return queue_.try_push(std::move(v)); });
      if (verb == "push_for") push(next, [this](item& v) { return queue_.push_for(std::move(v), 1h); });
      if (verb == "push_stop") push(next, [this](item& v) { return queue_.push(std::move(v), stop_.get_token()); });
      if (verb == "push_bad") push_bad([this] { return queue_.emplace(refusing{}); });
      if (verb == "try_push_bad") push_bad([this] { return queue_.try_emplace(refusing{}); });
      if constexpr (requires { queue_.pop_until(an_hour_from_now()); }) {
        if (verb == "push_until")
          push(next, [this](item& v) { return queue_.push_until(std::move(v), an_hour_from_now()); });
        if (verb == "pop_until") pop([this] { return queue_.pop_until(an_hour_from_now()); });
      }
      if (verb == "pop") pop([this] { return queue_.pop(); });
      if (verb == "try_pop") pop([this] { return queue_.try_pop(); });
      if (verb == "pop_for") pop([this] { return queue_.pop_for(1h); });
      if (verb == "pop_stop") pop([this] { return queue_.pop(stop_.get_token()); });
      in_place(verb);
      if (verb == "drain")
        while (pop([this] { return queue_.pop(); })) {
        }
      if (verb == "drain_for")
        while (pop([this] { return queue_.pop(never_.get_token()); })) {
        }
      if (verb == "drain_try") drain_try();
      if (verb == "drain_poll") drain_poll();
      if (verb == "stop") stop_.request_stop();
      if (verb == "set") sets_.fetch_add(1, std::memory_order_relaxed);
      if constexpr (requires { queue_.size_approx(); })
        if (verb == "taken")
          while (queue_.size_approx() == 0) muster::sync::yield();
      if (verb == "pass_on") {
        pop([this] { return queue_.pop(); });
        if (push(next, [this](item& v) { return queue_.try_push(std::move(v)); }) == status::full)
          fail("full, though every item that is there has had a place since before the call");
      }
      if (verb == "try_round" &&
          push(next, [this](item& v) { return queue_.try_push(std::move(v)); }) == status::success)
        pop([this] { return queue_.pop(); });
      if constexpr (fifo_per_producer<Queue>)
        if (verb == "leave") queue_.leave();
      observe(verb);
      if (verb == "close") {
        begin(op::close, 0);
        queue_.close();
        end(result::success, 0);
      }
    }

    static std::chrono::steady_clock::time_point an_hour_from_now() {
      return std::chrono::steady_clock::now() + std::chrono::hours(1);
    }

    /// Pops that do not move the item out of its cell.
    void in_place(const std::string& verb) {
      using namespace std::chrono_literals;
      const auto moving = [](auto operation) {
        muster::queue_result<item> got(status::empty);
        const status s = operation([&got](item& in_its_cell) {
          std::destroy_at(&got);
          std::construct_at(&got, std::in_place, std::move(in_its_cell));
        });
        if (got.has_value() != (s == status::success))
          fail("the function of consume is called without a success, or not");
        return got ? std::move(got) : muster::queue_result<item>(s);
      };
      if constexpr (requires { queue_.try_consume([](item&) {}); }) {
        if (verb == "consume") pop([&] { return moving([&](auto f) { return queue_.consume(f); }); });
        if (verb == "try_consume") pop([&] { return moving([&](auto f) { return queue_.try_consume(f); }); });
        if (verb == "consume_for") pop([&] { return moving([&](auto f) { return queue_.consume_for(f, 1h); }); });
        if (verb == "consume_stop")
          pop([&] { return moving([&](auto f) { return queue_.consume(f, stop_.get_token()); }); });
      }
      if constexpr (has_front<Queue>)
        if (verb == "front")
          if (const item* const first = queue_.front()) {
            const std::uint64_t value = first->value();
            pop([&] {
              auto got = queue_.try_pop();
              if (!got || got->value() != value) fail("front() shows another item than the next pop returns");
              return got;
            });
          }
    }

    /// Operations that are in no history; counts their steps.
    void observe(const std::string& verb) {
      const auto counted = [](auto operation) {
        mm::engine::running().begin_operation();
        operation();
        mm::engine::running().end_operation();
      };
      constexpr std::size_t most_rings = fifo_per_producer<Queue> ? 2 : 1;
      if constexpr (requires { queue_.is_closed(); })
        if (verb == "is_closed") counted([this] { static_cast<void>(queue_.is_closed()); });
      if constexpr (requires { queue_.size_approx(); })
        if (verb == "size")
          counted([this] {
            if (queue_.size_approx() > most_rings * program_.setup_.capacity) fail("a size beyond the capacity");
          });
      if constexpr (requires { queue_.handle(); })
        if (verb == "handle") counted([this] { queue_.handle(); });
      if constexpr (requires { queue_.enter(); })
        if (verb == "enter") queue_.enter();
      if constexpr (fifo_per_producer<Queue>)
        if (verb == "end") counted([this] { queue_.leave(); });
    }

    template <class Push>
    status push(std::uint64_t& next, Push p) {
      item value(++next);
      begin(op::push, next);
      const status s = p(value);
      answer(s);
      if (s != status::success && value.value() != next) fail("a push that failed has changed its item");
      return s;
    }
    template <class Push>
    void push_bad(Push p) {
      begin(op::push, 0);
      try {
        const status s = p();
        if (s == status::success) fail("an item that refuses to be made is pushed");
        answer(s);
      } catch (const refused&) {
        end(result::busy, 0);  // it changed nothing
      }
    }
    template <class Pop>
    bool pop(Pop p) {
      begin(op::pop, 0);
      const auto r = p();
      answer(r);
      return static_cast<bool>(r);
    }
    void drain_try() {
      for (unsigned vain = 0; vain < 10;) {
        begin(op::pop, 0);
        const auto r = queue_.try_pop();
        answer(r);
        if (!r && r.status() == status::closed) return;
        if (!r) ++vain, muster::sync::yield();
      }
    }

    /// The same until it succeeds; unsuccessful attempts are not in the history.
    void drain_poll() {
      for (;;) {
        begin(op::pop, 0);
        const auto r = queue_.try_pop();
        if (r || r.status() == status::closed) answer(r);
        pending_[self()].open = 0;
        if (!r && r.status() == status::closed) return;
        if (!r) muster::sync::yield();
      }
    }

    void bulk(const command& c, std::uint64_t& next) {
      const std::size_t n = c.times;
      if (c.verb.starts_with("push") || c.verb.starts_with("try_push")) {
        std::vector<std::uint64_t> values;
        for (std::size_t i = 0; i < n; ++i) values.push_back(++next);
        begin(op::push, values.front(), n);
        const std::size_t done =
            c.verb == "push_n" ? queue_.push_n(values.begin(), n) : queue_.try_push_n(values.begin(), n);
        for (std::size_t i = 0; i < done; ++i) repeat(result::success, values[i]);
        if (done < n && c.verb == "push_n") repeat(result::closed, values[done]);
        pending_[self()].open = 0;
        return;
      }
      for (bool more = true; more;) {
        std::vector<item> out(n);
        begin(op::pop, 0, n);
        const std::size_t got = c.verb == "try_pop_n" ? queue_.try_pop_n(out.data(), n) : queue_.pop_n(out.data(), n);
        for (std::size_t i = 0; i < got; ++i) repeat(result::success, out[i].value());
        if (got == 0 && c.verb != "try_pop_n") repeat(result::closed, 0);
        pending_[self()].open = 0;
        more = c.verb == "drain_n" && got != 0;
      }
    }
    /// One of the events of a bulk operation: all have the same beginning.
    void repeat(result outcome, std::uint64_t value) {
      const entry same = pending_[self()];
      end(outcome, value);
      if (entries_.back().e.kind == op::push) entries_.back().e.value = value;
      pending_[self()] = same;
      pending_[self()].open = 0;
    }

    const queue_program& program_;
    Queue queue_;
    std::stop_source stop_, never_;
    muster::sync::atomic<unsigned> sets_{0};
    entry pending_[mm::most_threads];
    std::vector<entry> entries_;
  };

  queue_setup setup_;
  script script_;
};

}  // namespace muster_model_test
