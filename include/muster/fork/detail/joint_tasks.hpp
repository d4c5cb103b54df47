// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// joint_tasks.hpp: tasks that are given to a pool one by one and waited for together.
//
// A thread that waits takes tasks that no thread has begun, or steals parts of tasks that others execute, and sleeps if
// there is neither. It wakes when a task is given.
#pragma once

#include <muster/base/sync.hpp>                // deadline
#include <muster/fork/detail/group_count.hpp>  // group_count
#include <muster/fork/detail/injector.hpp>     // injected, injected_group
#include <muster/fork/detail/scheduler.hpp>    // pool_core, worker

#include <exception>  // std::exception

namespace muster::inline MUSTER_ABI::detail {

class joint_tasks {
 public:
  /// `of`: what the tasks are part of, as in injected::of().
  explicit joint_tasks(const void* of) noexcept : of_(of) {}

  /// Gives a task to the pool, from any thread. Returns false if the pool is ending: then the caller ends the task.
  bool give(pool_core& to, injected& one) noexcept {
    const worker* const self = worker::current();
    count.begin();
    if (!to.inject(one, &queued_, self != nullptr && &self->pool == &to)) return false;
    wake();
    return true;
  }
  /// The same for a thread inside the pool that executes the task itself if no other worker does.
  bool share(pool_core& with, injected& one) noexcept {
    count.begin();
    if (!with.share(one, queued_)) return false;
    wake();
    return true;
  }
  /// For several, appended to chain().
  bool share(pool_core& with, injected_chain& those) noexcept {
    count.begin(those.size());
    if (!with.share(those)) return false;
    wake();
    return true;
  }
  injected_chain chain() noexcept { return injected_chain(queued_); }
  /// For a thread inside the pool that has executed a task: returns another one that no thread has begun, or null. The
  /// caller executes it in the same call, and then ends all of them together.
  injected* take_another(pool_core& in) noexcept { return in.injected_functions.take_of(queued_); }
  /// Waits until all have ended. A thread outside the pool enters it meanwhile.
  void await(pool_core& in) noexcept {
    if (count.is_over()) return;
    waiting to(*this, in);
    worker* const self = worker::current();
    if (self != nullptr && &self->pool == &in) return self->await_injected(to);
    try {
      const entered_pool here(in);
      here.self->is_alone = true;
      return here.self->await_injected(to);
    } catch (const std::exception&) {  // the pool has no place left for this thread: its own threads execute the tasks
      while (!count.is_over()) count.sleep(no_deadline, [] { return false; });
    }
  }

  group_count count;

 private:
  /// For worker::await_injected().
  class waiting {
   public:
    waiting(joint_tasks& on, pool_core& in) noexcept : tasks_(on), pool_(in) {}
    bool is_over() const noexcept { return tasks_.count.is_over(); }
    bool execute_some(worker* self) const noexcept {
      injected* const one = pool_.injected_functions.take_of(tasks_.queued_);
      if (one != nullptr) self->execute_injected(*one);
      return one != nullptr;
    }
    const void* executed() const noexcept { return tasks_.of_; }
    void sleep(deadline until) const noexcept {
      tasks_.count.sleep(until, [this] { return tasks_.queued_.has_any(); });
    }

   private:
    joint_tasks& tasks_;
    pool_core& pool_;
  };

  /// A task has been given to the pool.
  void wake() noexcept {
    // (1) full_fence: pairs with group_count.hpp (1). A thread that is about to sleep sees the task, or we see it.
    sync::full_fence();
    count.wake();
  }

  const void* const of_;
  injected_group queued_;
};

}  // namespace muster::inline MUSTER_ABI::detail
