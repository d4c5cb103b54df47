// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// task_group.hpp: tasks that a pool executes while the caller continues, and that are waited for together.
//
// Threads    any thread may run tasks in the group, tasks of the group included, and any thread outside them may wait.
// Order      none is promised. With a tree of tasks, the newest are executed first, so that it needs little memory.
// Waiting    wait() executes tasks of the group that no thread has begun, and parts of tasks that others execute. So
//            groups may be nested in a pool of one worker, and a mutex may be held meanwhile.
// Depth      tasks never run inside run(), so a chain of tasks has any length, whatever the stack. Groups within groups
//            nest on the stack, as any recursion.
// Exceptions all tasks are executed even if some throw. wait() then rethrows the first exception; the others are lost.
// Stopping   once a stop is requested, tasks that have not begun are destroyed.
// The end    the destructor waits. An exception that no wait() has rethrown ends the program with a message, unless
//            another exception is leaving the scope.
// Memory     an allocation for each task. A scope of finish() allocates hardly ever; see finish.hpp.
// Cost       run: O(1), two turns of locks and a full fence; a futex call if a worker, or the thread that waits, must
//            be woken. Executing the task takes two to four more turns. wait: O(1) besides the tasks.
// Libraries  a library whose task has been run in a group stays in memory.
#pragma once

#include <muster/base/detail/exception.hpp>      // capture_exception
#include <muster/base/detail/reentrancy.hpp>     // reentrancy_scope
#include <muster/base/detail/shared_object.hpp>  // pin_once
#include <muster/fork/detail/call.hpp>           // call_as
#include <muster/fork/detail/injector.hpp>       // injected
#include <muster/fork/detail/joint_tasks.hpp>    // joint_tasks
#include <muster/fork/detail/scheduler.hpp>      // worker
#include <muster/fork/pool.hpp>                  // broken_promise, pool

#include <concepts>     // std::invocable
#include <exception>    // std::uncaught_exceptions
#include <memory>       // std::unique_ptr
#include <stop_token>   // std::stop_token
#include <type_traits>  // std::decay_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI {

class task_group {
 public:
  /// The pool must outlive the group.
  explicit task_group(pool& in, std::stop_token stop = {}) noexcept : pool_(in.core_), stop_(std::move(stop)) {}
  /// In the default pool.
  explicit task_group(std::stop_token stop = {}) : task_group(pool::shared(), std::move(stop)) {}
  /// Waits. No other thread may use the group then, but the tasks.
  ~task_group() {
    if (!pool_.is_ours()) return;  // the threads that execute the tasks are in the parent of this process
    await_all();
    MUSTER_CHECK(tasks_.count.take_error() == nullptr || std::uncaught_exceptions() > unwinding_,
                 "task_group::~task_group: a task has thrown an exception that no wait() has rethrown: call wait() "
                 "before the group ends");
  }
  task_group(const task_group&) = delete;
  task_group& operator=(const task_group&) = delete;

  /// Gives function(), or function(context&) if it takes one, to the pool. Objects that it captures by reference must
  /// live until wait() returns.
  template <class F>
  void run(F&& function) {
    using stored = std::decay_t<F>;
    constexpr bool fits = std::invocable<stored&> || std::invocable<stored&, context&>;
    static_assert(fits,
                  "task_group::run takes a function of no arguments, or of a muster::context: bind its arguments in a "
                  "lambda");
    if constexpr (fits) {
      pool_.refuse_in_child();
      if (stop_.stop_requested()) return;
      give(*new task<stored>(*this, std::forward<F>(function)));
    }
  }

  /// Waits until all tasks have ended, those included that are run meanwhile; rethrows the first exception. Then the
  /// group can be used again. Called by a task of the group, which would wait for itself, it ends the program with a
  /// message.
  void wait() {
    pool_.refuse_in_child();
    await_all();
    if (const std::exception_ptr thrown = tasks_.count.take_error(); thrown != nullptr) std::rethrow_exception(thrown);
  }

 private:
  template <class F>
  class task final : public detail::injected {
   public:
    template <class G>
    task(task_group& in, G&& function) : injected(&run, &drop, &in), group_(in), function_(std::forward<G>(function)) {
      // The code that runs the task is in the library that gives it to the group.
      pin_once<task>(&run);
    }

   private:
    static void run(injected& of) noexcept {
      std::unique_ptr<task> here(&static_cast<task&>(of));
      task_group& group = here->group_;
      std::exception_ptr error;
      if (!group.stop_.stop_requested()) {
        const detail::reentrancy_scope within(&group);
        try {
          static_cast<void>(detail::call_as(*detail::worker::current(), here->function_));
        } catch (...) {
          error = detail::capture_exception();
        }
      }
      here = nullptr;  // so that nothing that the task owns outlives the waiting
      group.tasks_.count.end(std::move(error));
    }
    static void drop(injected& of) noexcept {
      std::unique_ptr<task> here(&static_cast<task&>(of));
      task_group& group = here->group_;
      here = nullptr;
      group.tasks_.count.end(std::make_exception_ptr(broken_promise()));
    }

    task_group& group_;
    F function_;
  };

  void give(detail::injected& one) noexcept {
    if (!tasks_.give(pool_, one)) one.drop();
  }
  void await_all() noexcept {
    MUSTER_CHECK(
        !detail::reentrancy_scope::is_in(this),
        "task_group::wait: called by a task of the group, which would wait for itself; wait outside the group");
    tasks_.await(pool_);
  }

  detail::pool_core& pool_;
  const std::stop_token stop_;
  const int unwinding_ = std::uncaught_exceptions();
  detail::joint_tasks tasks_{this};
};

}  // namespace muster::inline MUSTER_ABI
