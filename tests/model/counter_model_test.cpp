// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The counter under the checker: programs in which threads add, directly and in groups, alone and as fibers, and in
// which the last addition ends the counter.
//
// Checked     every execution: data races, lost wakes and leaks by the engine; here: the results are those of the
//             additions one after another, in an order that agrees with that of each thread and with happens-before.
//             All sums differ, so there is one such order. A thread sees what others did before the additions that its
//             result contains.
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/combine/counter.hpp>

#include "checker/explore.hpp"
#include "mutant_search.hpp"
#include "small_waits.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace mm = muster_model;
namespace sync = muster::sync;
using muster_model_test::hasty;
using muster_model_test::search_bounds;

using counter = muster::basic_counter<hasty>;

/// A word for each operation of a thread, and "|" between threads:
///   add, take   an addition, and one of a negative number
///   pair        one by each of two fibers of the thread
///   load        reads the value
///   signal      makes what this thread has done happen before what another does after "await"
///   await
/// In a program whose words end in "!", the thread with the last addition ends the counter.
class game {
 public:
  game(const muster::counter_options& options, const std::string& text) : options_(options) {
    std::istringstream words(text);
    threads_.emplace_back();
    for (std::string word; words >> word;) {
      if (word == "|") {
        threads_.emplace_back();
        continue;
      }
      ends_ |= word.back() == '!';
      if (word.back() == '!') word.pop_back();
      negative_ |= word == "take";
      additions_ += word == "pair" ? 2 : word == "add" || word == "take" ? 1 : 0;
      threads_.back().push_back(word);
    }
  }

  void operator()() const {
    auto now = std::make_unique<run>(*this);
    if (now->everything_finished()) return;
    static_cast<void>(now.release());  // a counter in which a thread has stopped cannot be destroyed
  }

 private:
  /// An operation: it has added n to `before`. A load has added 0.
  struct event {
    std::int64_t n;
    std::int64_t before;
    unsigned thread;
    unsigned at;  // of the thread's
  };

  class run {
   public:
    explicit run(const game& g) : game_(g), counter_(std::in_place, first, g.options_), seen_(g.additions_) {}

    bool everything_finished() {
      std::vector<unsigned> all;
      for (unsigned t = 0; t < game_.threads_.size(); ++t) all.push_back(mm::spawn([this, t] { play(t); }));
      bool stopped = false;
      for (const unsigned t : all) stopped |= !mm::join(t);
      if (stopped) return false;
      if (counter_) judge(counter_->load());
      else judge(last_);
      return true;
    }

   private:
    static constexpr std::int64_t first = 1'000'000;

    /// All different, and so are the sums of any of them.
    std::int64_t next_number() {
      seen_[made_].write_ref() = true;
      return std::int64_t{1} << made_++;
    }
    void look_at_all_in(std::int64_t value) {
      for (unsigned i = 0; !game_.negative_ && i < game_.additions_; ++i)
        if (((value - first) >> i) % 2 != 0) mm::require(seen_[i].read_ref(), "a number that was never made");
    }

    void play(unsigned t) {
      unsigned at = 0;
      for (const std::string& word : game_.threads_[t]) {
        if (word == "add" || word == "take") {
          add(t, ++at, word == "add" ? next_number() : -next_number());
        } else if (word == "pair") {
          ++at;
          muster::fiber other([&] { add(t, at, next_number()); });
          add(t, at, next_number());
          other.join();
        } else if (word == "load") {
          const std::int64_t now = counter_->load();
          look_at_all_in(now);
          note({0, now, t, ++at});
        } else if (word == "signal") {
          signalled_.store(t * 100 + at + 1, std::memory_order_release);
        } else if (word == "await") {
          unsigned before = 0;
          while ((before = signalled_.load(std::memory_order_acquire)) == 0) sync::yield();
          const mm::heap::untracked aside;
          ordered_.push_back({(before - 1) / 100, (before - 1) % 100, t, at + 1});
        }
      }
    }
    void add(unsigned t, unsigned at, std::int64_t n) {
      const std::int64_t before = counter_->fetch_add(n);
      look_at_all_in(before);
      // As the result tells the thread: others may not have returned from theirs.
      const std::int64_t sum = first + (std::int64_t{1} << game_.additions_) - 1;
      if (game_.ends_ && before + n == sum) {
        last_ = sum;
        counter_.reset();
      }
      note({n, before, t, at});
    }
    void note(const event& e) {
      const mm::heap::untracked aside;
      events_.push_back(e);
    }

    void judge(std::int64_t last) {
      std::vector<event> left = events_;
      std::vector<event> order;
      for (std::int64_t now = first; !left.empty();) {
        // Loads of a value come before the addition to it.
        auto next = std::find_if(left.begin(), left.end(), [&](const event& e) { return e.n == 0 && e.before == now; });
        if (next == left.end())
          next = std::find_if(left.begin(), left.end(), [&](const event& e) { return e.before == now; });
        mm::require(next != left.end(), "the results are not those of additions one after another");
        now += next->n;
        order.push_back(*next);
        left.erase(next);
      }
      std::int64_t sum = first;
      for (const event& e : events_) sum += e.n;
      mm::require(last == sum, "the value is not the sum");
      for (std::size_t i = 0; i < order.size(); ++i)
        for (std::size_t j = i + 1; j < order.size(); ++j) {
          const event& a = order[i];
          const event& b = order[j];
          mm::require(a.thread != b.thread || a.at <= b.at, "a thread's operations are not in their order");
          for (const auto& o : ordered_)
            mm::require(!(b.thread == o.thread && b.at <= o.at && a.thread == o.later && a.at >= o.later_at),
                        "an operation that ended before another began comes after it");
        }
    }

    struct edge {
      unsigned thread, at, later, later_at;
    };

    const game& game_;
    std::optional<counter> counter_;
    std::vector<sync::cell<bool>> seen_;  // by the number
    unsigned made_ = 0;
    std::int64_t last_ = 0;
    std::vector<event> events_;
    std::vector<edge> ordered_;
    sync::atomic<unsigned> signalled_{0};
  };

  const muster::counter_options options_;
  std::vector<std::vector<std::string>> threads_;
  std::size_t additions_ = 0;
  bool ends_ = false;
  bool negative_ = false;
};

struct row {
  const char* name;
  muster::counter_options options;
  const char* text;
  search_bounds within;
};

constexpr muster::counter_options direct{.gather_from = 100, .group = 4, .threads = 8, .look_every = 1};
constexpr muster::counter_options one_group{.gather_from = 0, .group = 4, .threads = 8, .look_every = 1};
constexpr muster::counter_options two_groups{.gather_from = 0, .group = 2, .threads = 8, .look_every = 1};
constexpr muster::counter_options either{.gather_from = 1, .group = 4, .threads = 8, .look_every = 1};

const std::vector<row> table = {
    {"direct", direct, "add take | add load", {-1, -1}},
    {"direct", direct, "add signal | await add load", {-1, -1}},
    {"direct", direct, "add add | load add", {-1, -1}},
    {"direct", direct, "add! add | add!", {3, 2}},
    {"a group", one_group, "add take | add", {2, 1}},
    {"a group", one_group, "add | add | add", {1, 1}},
    {"a group", one_group, "add load | take load", {2, 1}},
    {"a group", one_group, "add add | load add", {2, 1}},
    {"a group", one_group, "add signal | await add", {2, 2}},
    {"a group", one_group, "add! add! | add!", {2, 1}},
    {"a group", one_group, "add! | add! | add!", {1, 1}},
    {"two groups", two_groups, "add | add take | add", {1, 1}},
    {"two groups", two_groups, "add! | add! | add!", {1, 1}},
    {"either", either, "add add | add take", {2, 1}},
    {"either", either, "add add add | add take | add", {1, 1}},
    {"fibers", one_group, "pair | add", {1, 1}},
    {"fibers", one_group, "pair add | pair", {1, 1}},
    {"fibers", either, "pair | pair", {1, 1}},
    {"a group", one_group, "add add add | add add add | add load add | add add", {-1, -1, 4000}},
    {"a group", one_group, "add add take | take add add | add load add | take add", {-1, -1, 4000}},
    {"two groups", two_groups, "add add take | take add add | add load add | take add", {-1, -1, 4000}},
    {"either", either, "add add take | take add add | add load add | take add", {-1, -1, 4000}},
    {"direct", direct, "add add add add add add add add add add add add | add take", {-1, -1, 1000}},
    {"fibers", one_group, "pair pair | pair pair | pair add", {-1, -1, 4000}},
    {"fibers", two_groups, "pair pair | pair pair | pair add", {-1, -1, 4000}},
    {"a group", one_group, "add! add! | add! add! | add! add! | add!", {-1, -1, 4000}},
};

std::string name_of(const row& r) { return std::string(r.name) + ": " + r.text; }

class counter_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(counter_model, has_no_execution_that_breaks_a_promise) {
  muster_model_test::prepare_fibers();
  const row& r = table[GetParam()];
  for (const bool asymmetric : {true, false}) {
    muster_model::settings().asymmetric_fences = asymmetric;
    muster_model_test::expect_right(r.within, name_of(r), game(r.options, r.text));
  }
}

INSTANTIATE_TEST_SUITE_P(programs, counter_model, ::testing::Range(std::size_t{0}, table.size()));

const std::vector<muster_model_test::survivor> survivors = {
    {"basic_counter::fetch_add: load repeated", true, "how to add is a matter of speed"},
    {"basic_counter::add_with_care: load repeated", true, "how to add is a matter of speed"},
    {"basic_counter::look_and_add: load repeated", true, "the exchange fails, and the addition is direct"},
    {"basic_counter::note_meeting: load repeated", true, "how to add is a matter of speed"},
    {"basic_counter::note_calm: load repeated", true, "how to add is a matter of speed"},
    {"basic_counter::note_calm: store skipped", true, "how to add is a matter of speed"},
    {"basic_counter::note_meeting: fetch_or skipped", true, "the threads that meet still add directly"},
    {"basic_counter::announce: fetch_or skipped", true, "each thread is a delegate, of itself: correct, and slow"},
    {"basic_counter::find_groups: load repeated", true, "the exchange reads it again"},
    {"basic_counter::find_group: load repeated", true, "the exchange reads it again"},
    {"basic_counter::add_for_all: load repeated", true, "how long a delegate waits is a matter of speed"},
    {"basic_counter::add_for_all: store skipped", true, "how long a delegate waits is a matter of speed"},
};

TEST(mutants, are_noticed_or_explained) {
  muster_model_test::prepare_fibers();
  muster_model_test::mutant_search search;
  for (const row& r : table)
    for (const bool asymmetric : {true, false})
      search.programs.push_back(
          {name_of(r) + (asymmetric ? "" : ", without the asymmetric fence"), asymmetric, game(r.options, r.text), {}});
  search.files = {"combine/counter.hpp"};
  search.survivors = survivors;
  search.prefix = "basic_counter::";
  search.executions = 1024;
  search.run();
}

}  // namespace
