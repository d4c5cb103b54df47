// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// search.hpp: the schedulers behind explore().
#pragma once

#include "checker/explore.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace muster_model {

/// Keeps the decisions of an execution as numbers, 0 for the ordinary ones, so that any execution can be repeated.
/// For threads: 0 is the current one if it can run, the others follow by their numbers.
class recording_scheduler : public scheduler {
 public:
  explicit recording_scheduler(const limits& within) : limits_(within) {}

  unsigned pick(thread_set runnable, unsigned current, const pending* next) final;
  unsigned choose(unsigned alternatives, const char* what) final;
  unsigned stale_left() const final { return stale_left_; }
  void took_stale() final { --stale_left_; }

  /// Of the execution that has just ended.
  const decisions& path() const { return path_; }

 protected:
  virtual void begin() {}
  virtual unsigned decide_thread(thread_set runnable, unsigned current, const pending* next) = 0;
  virtual unsigned decide(unsigned alternatives) = 0;
  void begin_execution();

  const limits limits_;
  std::uint32_t count_ = 0;  // decisions so far

 private:
  decisions path_;
  unsigned stale_left_ = 0;
};

/// Depth first. next() goes on to an execution that has not been run; false when there is none.
class exhaustive final : public recording_scheduler {
 public:
  explicit exhaustive(const limits& within) : recording_scheduler(within) { begin_execution(); }
  bool next();

 private:
  struct node {
    bool is_thread = false;
    unsigned alternatives = 0, taken = 0;  // of a choice
    // Of a choice of threads: the runnable ones, those to be tried, those already tried, and those whose next step has
    // been run elsewhere.
    thread_set runnable = 0, wanted = 0, done = 0, asleep = 0;
    unsigned chosen = 0;
    unsigned before = 0;  // the thread that had run until here
    unsigned preemptions = 0;
    std::array<pending, most_threads> next{};
    std::array<std::uint32_t, most_threads> clock{};  // of the step chosen here: the steps that it depends on
  };

  bool reduces() const override { return limits_.preemptions < 0; }
  unsigned decide_thread(thread_set runnable, unsigned current, const pending* next) override;
  unsigned decide(unsigned alternatives) override;
  static bool choose_thread(node& n);
  void find_races(std::size_t depth);
  bool comes_before(std::size_t i, std::size_t k) const;
  void reverse(std::size_t first, std::size_t second);
  static bool preempts(const node& n, unsigned thread) {
    return thread != n.before && (n.runnable >> n.before & 1) != 0;
  }

  std::vector<node> nodes_;
  std::vector<std::size_t> free_;
  std::size_t depth_ = 0;
  thread_set asleep_ = 0;
  unsigned preemptions_ = 0;
  std::array<std::array<std::uint32_t, most_threads>, most_threads> clocks_{};  // of each thread's last step
};

class by_chance : public recording_scheduler {
 public:
  by_chance(const limits& within, std::uint64_t seed) : recording_scheduler(within), state_(seed | 1) {}
  void next();

 protected:
  std::uint64_t below(std::uint64_t n);

 private:
  unsigned decide_thread(thread_set runnable, unsigned current, const pending* next) override;
  unsigned decide(unsigned alternatives) override { return static_cast<unsigned>(below(alternatives)); }

  std::uint64_t state_;
  std::uint32_t steps_ = 0;
  std::uint32_t longest_ = 100;
  std::array<int, most_threads> priority_{};
  std::vector<std::uint32_t> changes_;
};

class repeating final : public recording_scheduler {
 public:
  repeating(const limits& within, const decisions& wanted) : recording_scheduler(within), wanted_(wanted) {
    begin_execution();
  }

 private:
  unsigned wanted_now() const;
  unsigned decide_thread(thread_set runnable, unsigned current, const pending* next) override;
  unsigned decide(unsigned alternatives) override;

  const decisions& wanted_;
};

}  // namespace muster_model
