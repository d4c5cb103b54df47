// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// async.hpp: pop and push for coroutines. A coroutine that waits blocks no thread.
//
// Result     co_await async_pop(queue, scheduler) gives the result of pop(), and
//            co_await async_push(queue, scheduler, item) that of push(). The coroutine is suspended only if it has to
//            wait.
// Resumes    on the scheduler. The thread that makes the event (a push, a pop, close(), or an operation of another
//            coroutine) calls scheduler.submit(f). submit must not throw or wait, and must call f once, soon, on a
//            thread that may use the queue. It may call f at once, but then pushes and pops run coroutines. If submit
//            throws, the program ends with a message. A scheduler that drops f leaves the coroutine suspended.
// Pools      a muster::pool resumes coroutines without allocating. If the pool ends before it has resumed the
//            coroutine, co_await throws broken_promise, and no item is taken or pushed; the coroutine continues on the
//            thread that ends the pool, or on the thread that makes the event if the pool had ended by then. An
//            exception that leaves the coroutine's resume() ends the program.
// Senders    what async_pop and async_push return begins when it is awaited, and can be moved before. In a library of
//            P2300 (std::execution), all that can be awaited is a sender, so these are; the library then makes a
//            coroutine of its own. A request to stop does not end the wait; close() does.
// Order      an event resumes the coroutine that has waited longest; close() resumes all, the longest first. A thread
//            or another coroutine may take the item first; then the resumed one waits again, behind the others.
// Cost       a push into a queue without waiting coroutines pays nothing. An event resumes one coroutine, which resumes
//            the next if there is more. Each wait costs a heavy fence (microseconds).
// Roles      as of pop and push: of an spsc_queue, one coroutine or thread pops at a time.
// Preempted  a thread stopped in submit or before it delays the coroutines that it would resume, and others until the
//            next event. One stopped as it begins to wait delays all coroutines and descriptors of the queue.
// Blocks     while stopped threads hold every cell of a queue that has room, async_push waits on its thread, as push.
// Destroyed  a suspended coroutine may be destroyed while no event is resuming it: no other thread uses the queue,
//            and the scheduler holds none of its functions. Otherwise the program ends with a message. Close the queue
//            instead, and let the coroutine end.
// Memory     in the coroutine's frame, and as much as submit needs.
// Errors     an exception of an item's move reaches the coroutine, and that item is lost.
// Use it     in programs made of coroutines. A thread or fiber calls pop(), and an event loop uses notify_fd.
#pragma once

#include <muster/base/config.hpp>                // MUSTER_CHECK
#include <muster/base/detail/brief_wait.hpp>     // brief_wait
#include <muster/base/detail/listeners.hpp>      // listener
#include <muster/queue/detail/watch_access.hpp>  // watch_of
#include <muster/queue/status.hpp>               // queue_result

#include <coroutine>  // std::coroutine_handle
#include <exception>  // std::exception_ptr
#include <optional>   // the result
#include <utility>    // std::move

namespace muster::inline MUSTER_ABI {

namespace detail {

/// Resumes an operation by its scheduler's submit(f).
template <class Operation, class Scheduler>
class resumption_by_submit {
 public:
  resumption_by_submit(Scheduler& on, Operation& one) noexcept : scheduler_(on), one_(one) {}

  static void prepare() noexcept {}
  bool submit() noexcept {
    MUSTER_TRY { static_cast<void>(scheduler_.submit(function{&one_})); }
    MUSTER_CATCH_ALL {
      MUSTER_CHECK(false, "async_pop, async_push: the scheduler's submit has thrown as it was to resume a coroutine");
    }
    return true;
  }
  static bool is_broken() noexcept { return false; }
  static void rethrow() noexcept {}

 private:
  struct function {
    void operator()() const { operation->resume(); }
    Operation* operation;
  };

  Scheduler& scheduler_;
  Operation& one_;
};
/// Schedulers with a member template `resumption` resume by it, such as a pool, whose end it outlives.
template <class Operation, class Scheduler>
struct resumption_of {
  using type = resumption_by_submit<Operation, Scheduler>;
};
template <class Operation, class Scheduler>
  requires requires { typename Scheduler::template resumption<Operation>; }
struct resumption_of<Operation, Scheduler> {
  using type = typename Scheduler::template resumption<Operation>;
};

/// The common part of async_pop and async_push: repeats an attempt, on the scheduler after the first wait.
template <class Waits, class Queue, class Scheduler>
class async_operation : private listener {
  using resumption = typename resumption_of<async_operation, Scheduler>::type;
  friend resumption;

 public:
  bool await_ready() { return self().attempt(); }
  /// Returns false if it need not wait any more. Otherwise the coroutine may have been resumed, and may have ended.
  bool await_suspend(std::coroutine_handle<> caller) {
    caller_ = caller;
    resumption_.prepare();
    return !proceed();
  }

 protected:
  async_operation(Queue& queue, Scheduler& scheduler) noexcept
      : listener(kind::taker), queue_(queue), resumption_(scheduler, *this) {}
  ~async_operation() {
    if (waits_)
      MUSTER_CHECK(Waits::events(queue_).stop_listening(*this),
                   "async_pop, async_push: the coroutine is destroyed while its scheduler is to resume it; close the "
                   "queue, and let the coroutine end");
  }
  Queue& queue() const noexcept { return queue_; }
  /// Throws if the scheduler has ended before it has resumed the coroutine.
  void rethrow() const { resumption_.rethrow(); }

 private:
  void notify() noexcept override {
    if (!resumption_.submit()) resume();
  }
  /// Called by the resumption. Looks again, unless the scheduler has ended; waits again, or resumes the coroutine.
  void resume() {
    bool ended = true;
    if (!resumption_.is_broken()) {
      MUSTER_TRY { ended = self().attempt() || proceed(); }
      MUSTER_CATCH_ALL { self().failed(std::current_exception()); }
    }
    if (!ended) return;
    waits_ = false;
    pass_on();
    caller_.resume();
  }
  /// The event that has resumed this operation may have been several.
  void pass_on() noexcept {
    auto& events = Waits::events(queue_);
    if (!events.has_listeners()) return;
    bool more = false;
    MUSTER_TRY { more = Waits::watch(queue_, false).ready(); }
    MUSTER_CATCH_ALL {
      more = true;  // no memory for the thread's place: the next operation looks itself
    }
    if (more) events.notify_listeners();
  }

  /// Returns true if the operation has ended; false if it listens: then the frame may not exist any more.
  bool proceed() {
    for (brief_wait turn;; turn.pause()) {
      auto watch = Waits::watch(queue_, true);
      watch.before_sleep();
      waits_ = true;
      if (watch.events().listen(*this, watch.listen_bits(), [&watch] { return watch.ready(); })) return false;
      waits_ = false;
      if (self().attempt()) return true;
    }
  }

  Waits& self() noexcept { return static_cast<Waits&>(*this); }

  Queue& queue_;
  resumption resumption_;
  std::coroutine_handle<> caller_;
  bool waits_ = false;
};

template <class Queue, class Scheduler>
class pop_operation final : public async_operation<pop_operation<Queue, Scheduler>, Queue, Scheduler> {
  using base = async_operation<pop_operation, Queue, Scheduler>;
  friend base;
  static_assert(watch_of<Queue>::policy::parks, "async_pop: pushes into a queue with wait::spin signal nothing");

 public:
  using result = queue_result<typename Queue::value_type>;
  pop_operation(Queue& queue, Scheduler& scheduler) noexcept : base(queue, scheduler) {}
  result await_resume() {
    this->rethrow();
    if (error_ != nullptr) std::rethrow_exception(error_);
    return *std::move(result_);  // NOLINT(bugprone-unchecked-optional-access): there has been an attempt
  }

 private:
  static auto watch(Queue& queue, bool sleeps) { return watch_access::watch(queue, sleeps); }
  static auto& events(Queue& queue) noexcept { return watch_access::events(queue); }
  bool attempt() {
    result_.emplace(this->queue().try_pop());
    return result_->has_value() || result_->status() == queue_status::closed;
  }
  void failed(std::exception_ptr error) noexcept { error_ = std::move(error); }

  std::optional<result> result_;
  std::exception_ptr error_;
};

template <class Queue, class Scheduler>
class push_operation final : public async_operation<push_operation<Queue, Scheduler>, Queue, Scheduler> {
  using base = async_operation<push_operation, Queue, Scheduler>;
  friend base;
  using item = typename Queue::value_type;
  static_assert(push_watch_of<Queue>::policy::parks, "async_push: pops from a queue with wait::spin signal nothing");

 public:
  push_operation(Queue& queue, Scheduler& scheduler, item&& one) : base(queue, scheduler), item_(std::move(one)) {}
  queue_status await_resume() {
    this->rethrow();
    if (error_ != nullptr) std::rethrow_exception(error_);
    return status_;
  }

 private:
  static auto watch(Queue& queue, bool /*sleeps*/) { return watch_access::push_watch(queue); }
  static auto& events(Queue& queue) noexcept { return watch_access::push_events(queue); }
  bool attempt() {
    status_ = this->queue().try_push(std::move(item_));
    return status_ == queue_status::success || status_ == queue_status::closed;
  }
  void failed(std::exception_ptr error) noexcept { error_ = std::move(error); }

  item item_;
  queue_status status_ = queue_status::full;
  std::exception_ptr error_;
};

/// A call of async_pop: makes the operation when it is awaited, and can be moved until then.
template <class Queue, class Scheduler>
class pop_request {
 public:
  pop_request(Queue& queue, Scheduler& scheduler) noexcept : queue_(queue), scheduler_(scheduler) {}
  pop_operation<Queue, Scheduler> operator co_await() const noexcept { return {queue_, scheduler_}; }

 private:
  Queue& queue_;
  Scheduler& scheduler_;
};

/// The same for async_push; the item is in it.
template <class Queue, class Scheduler>
class push_request {
  using item = typename Queue::value_type;

 public:
  push_request(Queue& queue, Scheduler& scheduler, item&& one)
      : queue_(queue), scheduler_(scheduler), item_(std::move(one)) {}
  push_operation<Queue, Scheduler> operator co_await() && { return {queue_, scheduler_, std::move(item_)}; }

 private:
  Queue& queue_;
  Scheduler& scheduler_;
  item item_;
};

/// As a callable that a scheduler must accept.
struct callable_of_async {
  void operator()() const;
  void* operation;
};

}  // namespace detail

/// Calls functions on threads of its own: submit(f) arranges for one call of f(), soon. f is as large as a pointer, and
/// can be copied. A muster::pool is a scheduler.
template <class S>
concept queue_scheduler = requires(S& scheduler, detail::callable_of_async function) { scheduler.submit(function); };

/// co_await it: takes an item; the coroutine is suspended while there is none. Returns no value only when closed and
/// drained. The queue, or handle of a consumer, must live until then, and so must the scheduler, unless it is a pool:
/// co_await throws broken_promise if that ends first.
template <detail::watchable Queue, queue_scheduler Scheduler>
[[nodiscard]] detail::pop_request<Queue, Scheduler> async_pop(Queue& queue, Scheduler& scheduler) {
  return {queue, scheduler};
}

/// co_await it: appends an item; the coroutine is suspended while the queue is full. Returns success, or closed: then
/// the item is destroyed. If a pool ends first, the item is destroyed, too, and co_await throws broken_promise.
template <detail::push_watchable Queue, queue_scheduler Scheduler>
[[nodiscard]] detail::push_request<Queue, Scheduler> async_push(Queue& queue, Scheduler& scheduler,
                                                                typename Queue::value_type item) {
  return {queue, scheduler, std::move(item)};
}

}  // namespace muster::inline MUSTER_ABI
