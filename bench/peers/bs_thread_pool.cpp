// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// BS::thread_pool: its futures, and tasks without one that it waits for all together.
#include "driver/task_run.hpp"

#include <BS_thread_pool.hpp>

#include <cstddef>
#include <future>
#include <vector>

namespace muster::bench {
namespace {

class bs_tasks {
 public:
  static constexpr bool caller_works = false;
  explicit bs_tasks(unsigned workers) : pool_(workers) {}

  template <class F>
  auto one(F f) {
    return pool_.submit_task(f).get();
  }
  template <class F>
  void in_flight(std::size_t many, F f) {
    std::vector<std::future<unsigned>> all;
    all.reserve(many);
    for (std::size_t i = 0; i < many; ++i) all.push_back(pool_.submit_task([f, i]() -> unsigned { return f(i); }));
    for (auto& each : all) each.get();
  }
  template <class F>
  void group(std::size_t many, F f) {
    for (std::size_t i = 0; i < many; ++i) pool_.detach_task([f, i] { f(i); });
    pool_.wait();
  }
  template <class F>
  void tree(std::size_t many, F f) {
    grow(1, many, f);
    pool_.wait();
  }

 private:
  template <class F>
  void grow(std::size_t i, std::size_t many, F f) {
    pool_.detach_task([this, i, many, f] {
      f(i);
      for (const std::size_t child : {2 * i, 2 * i + 1})
        if (child < many) grow(child, many, f);
    });
  }

  BS::thread_pool<> pool_;
};

}  // namespace

void add_bs_thread_pool(catalogue& to) {
  to.add({.name = "BS::thread_pool",
          .family = "BS::thread_pool",
          .role = "peer",
          .note = "submit_task, detach_task and wait",
          .tasks = run_tasks<bs_tasks>,
          .task_loads = {task_load::one, task_load::in_flight, task_load::group, task_load::tree}});
}

}  // namespace muster::bench
