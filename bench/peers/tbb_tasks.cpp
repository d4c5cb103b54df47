// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// oneTBB's task_group and parallel_pipeline. It has no futures: a result is what the task of a group has stored.
#include "driver/task_run.hpp"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_pipeline.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <cstddef>

namespace muster::bench {
namespace {

class tbb_tasks {
 public:
  static constexpr bool caller_works = true;
  explicit tbb_tasks(unsigned workers)
      : workers_(workers),
        limit_(tbb::global_control::max_allowed_parallelism, workers),
        arena_(static_cast<int>(workers)) {}

  template <class F>
  auto one(F f) {
    decltype(f()) result{};
    arena_.execute([&] {
      tbb::task_group task;
      task.run([&] { result = f(); });
      task.wait();
    });
    return result;
  }
  template <class F>
  void group(std::size_t many, F f) {
    arena_.execute([&] {
      tbb::task_group tasks;
      for (std::size_t i = 0; i < many; ++i) tasks.run([f, i] { f(i); });
      tasks.wait();
    });
  }
  template <class F>
  void tree(std::size_t many, F f) {
    arena_.execute([&] {
      tbb::task_group tasks;
      grow(tasks, 1, many, f);
      tasks.wait();
    });
  }
  template <class F, class G>
  void pipeline(std::size_t many, F f, G g) {
    std::size_t next = 0;
    arena_.execute([&] {
      tbb::parallel_pipeline(
          std::size_t{4} * workers_,
          tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, [&](tbb::flow_control& stream) {
            if (next == many) stream.stop();
            return next++;
          }) & tbb::make_filter<std::size_t, std::size_t>(tbb::filter_mode::parallel, [f](std::size_t i) {
            f(i);
            return i;
          }) & tbb::make_filter<std::size_t, void>(tbb::filter_mode::serial_in_order, [g](std::size_t i) { g(i); }));
    });
  }

 private:
  template <class F>
  static void grow(tbb::task_group& tasks, std::size_t i, std::size_t many, F f) {
    tasks.run([&tasks, i, many, f] {
      f(i);
      for (const std::size_t child : {2 * i, 2 * i + 1})
        if (child < many) grow(tasks, child, many, f);
    });
  }

  unsigned workers_;
  tbb::global_control limit_;
  tbb::task_arena arena_;
};

}  // namespace

void add_tbb_tasks(catalogue& to) {
  to.add({.name = "oneTBB",
          .family = "tbb",
          .role = "peer",
          .note = "task_group, parallel_pipeline",
          .tasks = run_tasks<tbb_tasks>,
          .task_loads = {task_load::one, task_load::group, task_load::tree, task_load::pipeline}});
}

}  // namespace muster::bench
