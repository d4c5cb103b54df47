// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's submitted functions, groups and pipelines; and std::async, which makes a thread for each function.
#include "driver/task_run.hpp"

#include <muster/fork.hpp>

#include <cstddef>
#include <future>
#include <optional>
#include <vector>

namespace muster::bench {
namespace {

class muster_tasks {
 public:
  static constexpr bool caller_works = true;
  explicit muster_tasks(unsigned workers) : pool_(workers) {}

  template <class F>
  auto one(F f) {
    return pool_.submit(f).get();
  }
  template <class F>
  void in_flight(std::size_t many, F f) {
    std::vector<future<unsigned>> all;
    all.reserve(many);
    for (std::size_t i = 0; i < many; ++i) all.push_back(pool_.submit([f, i] { return f(i); }));
    for (auto& each : all) each.get();
  }
  template <class F>
  void group(std::size_t many, F f) {
    task_group tasks(pool_);
    for (std::size_t i = 0; i < many; ++i) tasks.run([f, i] { f(i); });
    tasks.wait();
  }
  template <class F>
  void tree(std::size_t many, F f) {
    task_group tasks(pool_);
    grow(tasks, 1, many, f);
    tasks.wait();
  }
  template <class F, class G>
  void pipeline(std::size_t many, F f, G g) {
    std::size_t next = 0;
    muster::pipeline line(pool_, serial([&]() -> std::optional<std::size_t> {
                            if (next == many) return std::nullopt;
                            return next++;
                          }),
                          parallel([f](std::size_t i) {
                            f(i);
                            return i;
                          }),
                          serial([g](std::size_t i) { g(i); }));
    line.run();
  }

 private:
  template <class F>
  static void grow(task_group& tasks, std::size_t i, std::size_t many, F f) {
    tasks.run([&tasks, i, many, f] {
      f(i);
      for (const std::size_t child : {2 * i, 2 * i + 1})
        if (child < many) grow(tasks, child, many, f);
    });
  }

  pool pool_;
};

class std_async {
 public:
  static constexpr bool caller_works = false;
  explicit std_async(unsigned) {}

  template <class F>
  auto one(F f) {
    return std::async(std::launch::async, f).get();
  }
};

}  // namespace

void add_tasks(catalogue& to) {
  to.add({.name = "muster",
          .family = "muster",
          .role = "ours",
          .note = "pool::submit, task_group, pipeline",
          .tasks = run_tasks<muster_tasks>});
  to.add({.name = "std::async",
          .family = "std",
          .role = "baseline",
          .note = "a new thread for each function",
          .tasks = run_tasks<std_async>,
          .task_loads = {task_load::one}});
}

}  // namespace muster::bench
