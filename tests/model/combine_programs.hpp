// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine_programs.hpp: small programs for the checker that use a combining object, written as scripts:
//
//   "apply*2 | submit submit get get | post flush"     three threads
//
// The object is a list of numbers, and an operation appends the number that it has been made with. "last" is "apply" in
// a program that has no other operations: the thread whose operation is the last one destroys the object.
// Checked     every execution: data races (of the object too), lost wakes and leaks by the engine; here: each number is
//             appended once, every operation returns the place of its number, an exception reaches the caller of its
//             operation, and the order agrees with happens-before.
#pragma once

#include <muster/combine.hpp>

#include "checker/explore.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace muster_model_test {

namespace mm = muster_model;

struct numbers {
  std::vector<unsigned> order;
};

/// Returns how many there are then. Small: it travels as bytes.
struct append {
  unsigned number;
  unsigned operator()(numbers& n) const {
    n.order.push_back(number);
    return static_cast<unsigned>(n.order.size());
  }
};
struct append_quietly {
  unsigned number;
  void operator()(numbers& n) const noexcept {
    const mm::heap::untracked aside;
    n.order.push_back(number);
  }
};
struct refusal {
  unsigned number;
};
/// Appends and throws.
struct append_and_throw {
  unsigned number;
  unsigned operator()(numbers& n) const {
    n.order.push_back(number);
    throw refusal{number};
  }
};

/// An object with submit() and post().
template <class Object>
concept detaches = requires(Object o) { o.flush(); };

template <class Object>
struct ticket_of {
  struct type {};
};
template <detaches Object>
struct ticket_of<Object> {
  using type = decltype(std::declval<Object&>().submit(append{}));
};

template <class Object>
class combine_program {
 public:
  combine_program(const muster::combine_options& options, const std::string& text) : options_(options) {
    std::istringstream words(text);
    script_.emplace_back();
    for (std::string word; words >> word;) {
      if (word == "|") {
        script_.emplace_back();
        continue;
      }
      const std::size_t star = word.find('*');
      const unsigned times = star == std::string::npos ? 1 : static_cast<unsigned>(std::stoul(word.substr(star + 1)));
      script_.back().push_back({word.substr(0, star), times});
      operations_ += times;
      ends_ |= script_.back().back().verb == "last";
    }
  }

  void operator()() const {
    auto now = std::make_unique<run>(*this);
    if (now->everything_finished()) return;
    static_cast<void>(now.release());  // an object in which a thread has stopped cannot be destroyed
  }

 private:
  struct command {
    std::string verb;
    unsigned times;
  };

  class run {
   public:
    explicit run(const combine_program& program) : program_(program), object_(std::in_place, program.options_) {
      if (program.ends_) return;  // there, threads meet that are the first to come
      const mm::heap::untracked aside;
      object_->apply([](numbers& n) { n.order.reserve(64); });
    }

    bool everything_finished() {
      std::vector<unsigned> threads;
      for (unsigned t = 0; t < program_.script_.size(); ++t) threads.push_back(mm::spawn([this, t] { commands(t); }));
      bool stopped = false;
      for (const unsigned t : threads) stopped |= !mm::join(t);
      if (stopped) return false;
      if (object_) object_->check();
      const std::vector<unsigned> order = object_ ? all() : last_order_;
      mm::require(order.size() == made_, "an operation has been executed twice, or not at all");
      for (unsigned thread = 0; thread < program_.script_.size(); ++thread) {
        unsigned last = 0;
        for (const unsigned number : order) {
          if (number / per_thread != thread + 1) continue;
          mm::require(number == last + 1 || (last == 0 && number == per_thread * (thread + 1) + 1),
                      "a thread's operations are not executed in their order, each once");
          last = number;
        }
      }
      for (const auto& [number, place] : places_)
        mm::require(place >= 1 && place <= order.size() && order[place - 1] == number,
                    "an operation has the result of another");
      for (const auto& [first, second] : ordered_)
        mm::require(std::find(order.begin(), order.end(), first) < std::find(order.begin(), order.end(), second),
                    "an operation that ended before another began comes after it");
      return true;
    }

   private:
    using tickets = std::vector<std::pair<unsigned, typename ticket_of<Object>::type>>;
    static constexpr unsigned per_thread = 100;  // numbers of thread t are 100 (t + 1) + 1, …

    std::vector<unsigned> all() {
      return object_->apply([](numbers& n) { return n.order; });
    }

    void commands(unsigned t) {
      unsigned next = per_thread * (t + 1);
      tickets mine;
      for (const command& c : program_.script_[t]) {
        if constexpr (requires { object_->apply_batch(std::span<append>(), static_cast<unsigned*>(nullptr)); })
          if (c.verb == "batch") {
            batch(c.times, next);
            continue;
          }
        for (unsigned i = 0; i < c.times; ++i) single(c.verb, next, mine);
      }
    }

    void batch(unsigned many, unsigned& next) {
      std::vector<append> all;
      std::vector<unsigned> results(many);
      for (unsigned i = 0; i < many; ++i) all.push_back({make(next)});
      object_->apply_batch(std::span(all), results.begin());
      for (unsigned i = 0; i < many; ++i) got(all[i].number, results[i]);
    }

    unsigned make(unsigned& next) {
      ++made_;
      return ++next;
    }
    void got(unsigned number, unsigned place) {
      const mm::heap::untracked aside;
      places_.emplace_back(number, place);
      newest_ = number;
    }

    void single(const std::string& verb, unsigned& next, tickets& mine) {
      if (verb == "apply") {
        const unsigned number = make(next);
        got(number, object_->apply(append{number}));
      } else if (verb == "last") {
        const unsigned number = make(next);
        const unsigned place = object_->apply(append{number});
        got(number, place);
        if (place != program_.operations_) return;
        last_order_ = all();
        object_.reset();
      } else if (verb == "large") {  // the callable and its result stay in this frame
        const unsigned number = make(next);
        const std::array<unsigned, 4> kept = {number, 0, 0, number};
        const auto result = object_->apply([kept](numbers& n) {
          n.order.push_back(kept[0]);
          return std::array<std::size_t, 3>{n.order.size(), kept[3], 1};
        });
        mm::require(result[1] == number, "a large result is another's");
        got(number, static_cast<unsigned>(result[0]));
      } else if (verb == "bad") {
        const unsigned number = make(next);
        try {
          object_->apply(append_and_throw{number});
          mm::require(false, "an operation that throws returns");
        } catch (const refusal& r) {
          mm::require(r.number == number, "the exception of another operation");
        }
      } else if (verb == "nested") {
        bool refused = false;
        const unsigned number = make(next);
        got(number, object_->apply([this, number, &refused](numbers& n) {
          try {
            object_->apply(append{number});
          } catch (const std::logic_error&) {
            refused = true;
          }
          return append{number}(n);
        }));
        mm::require(refused, "an operation on the object that executes it is not refused");
      } else if (verb == "signal") {  // what this thread has done is over before what comes after await
        signalled_.store(newest_, std::memory_order_release);
      } else if (verb == "await") {
        unsigned before = 0;
        while ((before = signalled_.load(std::memory_order_acquire)) == 0) muster::sync::yield();
        const mm::heap::untracked aside;
        ordered_.emplace_back(before, next + 1);
      } else if constexpr (detaches<Object>) {
        if (verb == "submit") {
          const unsigned number = make(next);
          mine.emplace_back(number, object_->submit(append{number}));
        } else if (verb == "get") {
          got(mine.front().first, mine.front().second.get());
          mine.erase(mine.begin());
        } else if (verb == "post") {
          object_->post(append_quietly{make(next)});
        } else if (verb == "flush") {
          object_->flush();
        }
      }
    }

    const combine_program& program_;
    std::optional<Object> object_;
    std::vector<unsigned> last_order_;
    unsigned made_ = 0;
    unsigned newest_ = 0;
    muster::sync::atomic<unsigned> signalled_{0};
    std::vector<std::pair<unsigned, unsigned>> places_;   // a number, and the place it got
    std::vector<std::pair<unsigned, unsigned>> ordered_;  // two numbers, the first before the second
  };

  const muster::combine_options options_;
  std::vector<std::vector<command>> script_;
  unsigned operations_ = 0;
  bool ends_ = false;  // the last operation ends the object
};

}  // namespace muster_model_test
