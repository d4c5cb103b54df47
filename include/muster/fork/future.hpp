// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// future.hpp: the results of functions that a pool executes while the caller continues: pool::submit, future, when_all.
//
// Order      submitted functions begin in the order of their submission, except that a thread may wait for a later one.
// Threads    a submitted function runs on a thread of the pool, or on one that waits for its result; never in submit(),
//            unless the pool has no thread and the system cannot create one. From the first submit() on, the pool has
//            as many threads as workers; one of them rests while another thread is inside run().
// Waiting    get() and wait() execute the function themselves if no thread has begun it; a worker also executes parts
//            of it. So a function may wait for others in a pool of one worker, and a mutex may be held meanwhile. A
//            fiber that waits executes the function on its own stack.
// Exceptions get() rethrows the function's exception. If nothing calls get(), it is lost, as that of std::future.
// The end    when a pool ends, the functions that have begun are finished. The others are destroyed, and their futures
//            throw broken_promise.
// Memory     an allocation for each function that is submitted or follows another.
// Cost       submit: O(1) under the pool's lock, and a futex call if a worker must be woken. get, wait: one more turn
//            of that lock if they execute the function; otherwise they spin for some microseconds, then sleep. then:
//            O(1), and as submit when the input is there. when_all of n futures: O(n).
// Libraries  a library whose function has been submitted stays in memory.
// Source     Halstead, "Multilisp" (TOPLAS 1985), for futures whose consumer may compute them: Mohr, Kranz, Halstead,
//            "Lazy Task Creation" (TPDS 1991). The names are those of std::future and of the Concurrency TS (N4538).
#pragma once

#include <muster/base/detail/exception.hpp>        // capture_exception
#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/detail/shared_object.hpp>    // pin_once
#include <muster/base/detail/time.hpp>             // std::chrono
#include <muster/base/detail/time_limit.hpp>       // deadline_after, attempt_until
#include <muster/fork/detail/call.hpp>             // call_as
#include <muster/fork/detail/future_state.hpp>     // future_state
#include <muster/fork/detail/scheduler.hpp>        // worker
#include <muster/fork/pool.hpp>                    // pool

#include <concepts>     // std::invocable
#include <cstddef>      // std::size_t
#include <exception>    // std::exception_ptr
#include <functional>   // std::invoke
#include <mutex>        // std::lock_guard
#include <stdexcept>    // std::runtime_error
#include <string>       // messages
#include <tuple>        // std::tuple
#include <type_traits>  // std::is_void_v
#include <utility>      // std::exchange
#include <vector>       // the results of many

namespace muster::inline MUSTER_ABI {

template <class T>
class future;

namespace detail {

/// A state with a T, or nothing if T is void.
template <class T>
class value_state : public future_state {
 public:
  using value = result_or_nothing<T>;

  bool has_error() const noexcept { return error_.read_ref() != nullptr; }
  /// For the future or the successor, once. Leaves none behind, so that the exception ends on the thread that takes it.
  std::exception_ptr take_error() noexcept { return std::exchange(error_.write_ref(), nullptr); }
  /// The same, if there is no error.
  value take() { return std::move(value_.write_ref().value); }

 protected:
  using future_state::future_state;
  ~value_state() override {
    if (has_value_) value_.write_ref().destroy();
  }
  void set_error(std::exception_ptr error) noexcept { error_.write_ref() = std::move(error); }
  /// Stores the result of make(), or its exception.
  template <class Make>
  void set(Make make) noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        make();
        value_.write_ref().construct();
      } else {
        value_.write_ref().construct(make());
      }
      has_value_ = true;
    } catch (...) {
      set_error(capture_exception());
    }
  }

 private:
  sync::cell<std::exception_ptr> error_;
  sync::cell<manual_lifetime<value>> value_;
  bool has_value_ = false;
};

/// A state whose value a function makes. The function is destroyed before the state is complete, so that nothing that
/// it owns outlives the waiting for it.
template <class T, class F>
class function_state : public value_state<T>, public injected {
 public:
  template <class G>
  function_state(injector& home, G&& function, injected::action to_run, injected::action to_drop, bool refers = true)
      : value_state<T>(home, this, refers), injected(to_run, to_drop) {
    function_.construct(std::forward<G>(function));
    // The code that runs the function is in the library that submits it.
    pin_once<function_state>(to_run);
  }

 protected:
  F& function() noexcept { return function_.value; }
  void destroy_function() noexcept { function_.destroy(); }
  void break_promise() noexcept {
    destroy_function();
    this->set_error(std::make_exception_ptr(broken_promise()));
  }

 private:
  manual_lifetime<F> function_;
};

template <class F>
class submitted final : public function_state<result_of<F>, F> {
 public:
  using base = function_state<result_of<F>, F>;
  template <class G>
  submitted(injector& home, G&& function) : base(home, std::forward<G>(function), &run, &drop, false) {}
  void begin(pool_core& pool) noexcept {
    if (!base::submit(pool)) drop(*this);
  }

 private:
  static void run(injected& of) noexcept {
    auto& here = static_cast<submitted&>(of);
    here.set([&]() -> result_of<F> { return call_as(*worker::current(), here.function()); });
    here.destroy_function();
    future_state::complete_all(&here);
  }
  static void drop(injected& of) noexcept {
    auto& here = static_cast<submitted&>(of);
    here.break_promise();
    future_state::complete_all(&here);
  }
};

/// True if F is called with the value, rather than with the future.
template <class F, class T>
constexpr bool follows_value() {
  if constexpr (std::is_void_v<T>) return std::invocable<F&>;
  else return std::invocable<F&, T>;
}
template <class F, class T>
struct followed {
  using type = std::invoke_result_t<F&, future<T>>;
};
template <class F, class T>
  requires(follows_value<F, T>() && !std::is_void_v<T>)
struct followed<F, T> {
  using type = std::invoke_result_t<F&, T>;
};
template <class F>
  requires(follows_value<F, void>())
struct followed<F, void> {
  using type = std::invoke_result_t<F&>;
};

/// A state whose function follows the completion of another state.
template <class F, class T>
class following final : public function_state<typename followed<F, T>::type, F> {
 public:
  using result = typename followed<F, T>::type;
  using base = function_state<result, F>;
  template <class G>
  following(value_state<T>& input, G&& function)
      : base(input.home(), std::forward<G>(function), &run, &drop), input_(&input) {}
  void begin() noexcept {
    if (!input_.read_ref()->precede(*this) && take_input()) future_state::complete_all(this);
  }

  bool take_input() noexcept override {
    if constexpr (follows_value<F, T>()) {
      if (input_.read_ref()->has_error()) {
        this->destroy_function();
        value_state<T>* const input = release_input();
        this->set_error(input->take_error());
        input->release();
        return true;
      }
    }
    if (base::begin()) return false;
    abandon();
    return true;
  }

 private:
  ~following() override = default;

  static void run(injected& of) noexcept {
    auto& here = static_cast<following&>(of);
    value_state<T>* const input = here.release_input();
    if constexpr (follows_value<F, T>()) {
      here.set([&]() -> result {
        if constexpr (std::is_void_v<T>) return std::invoke(here.function());
        else return std::invoke(here.function(), input->take());
      });
      input->release();
    } else {
      here.set([&]() -> result { return std::invoke(here.function(), future<T>(*input)); });
    }
    here.destroy_function();
    future_state::complete_all(&here);
  }
  static void drop(injected& of) noexcept {
    auto& here = static_cast<following&>(of);
    here.abandon();
    future_state::complete_all(&here);
  }
  void abandon() noexcept {
    this->break_promise();
    release_input()->release();
  }
  value_state<T>* release_input() noexcept {
    const std::lock_guard lock(lock_);
    return std::exchange(input_.write_ref(), nullptr);
  }
  future_state* incomplete_input() noexcept override {
    const std::lock_guard lock(lock_);
    future_state* const input = input_.read_ref();
    if (input == nullptr || input->is_complete()) return nullptr;
    input->refer();
    return input;
  }

  spin_lock lock_;
  sync::cell<value_state<T>*> input_;  // under the lock, once other threads know the state
};

/// A state that is complete when all of its inputs are.
template <class T>
class joint_state : public value_state<T> {
 public:
  joint_state(injector& home, std::vector<future_state*> inputs) noexcept
      : value_state<T>(home, nullptr), inputs_(std::move(inputs)), missing_(inputs_.size() + 1) {}
  bool take_input() noexcept override {
    // (1) acq_rel: alone, because it pairs with itself: the last one has seen the values of all others.
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
    std::vector<future_state*> inputs;
    {
      const std::lock_guard lock(lock_);
      inputs.swap(inputs_);
    }
    this->set([&]() -> T { return collect(inputs); });
    for (future_state* one : inputs) one->release();
    return true;
  }
  void begin() noexcept {
    for (future_state* const one : inputs_)  // nothing takes them before the last take_input()
      if (!one->precede(*this)) static_cast<void>(take_input());
    if (take_input()) future_state::complete_all(this);
  }

 protected:
  virtual T collect(const std::vector<future_state*>& inputs) = 0;

 private:
  future_state* incomplete_input() noexcept override {
    const std::lock_guard lock(lock_);
    for (; looked_at_ < inputs_.size(); ++looked_at_)
      if (future_state* const one = inputs_[looked_at_]; !one->is_complete()) {
        one->refer();
        return one;
      }
    return nullptr;
  }

  spin_lock lock_;
  std::vector<future_state*> inputs_;  // under the lock
  std::size_t looked_at_ = 0;          // the inputs before are complete; under the lock
  sync::atomic<std::size_t> missing_;  // incomplete inputs, and one until all know their successor
};

/// The value of a complete input. Throws its error.
template <class T>
result_or_nothing<T> value_of(future_state* input) {
  auto& of = static_cast<value_state<T>&>(*input);
  if (of.has_error()) std::rethrow_exception(of.take_error());
  return of.take();
}

template <class... Ts>
class tuple_state final : public joint_state<std::tuple<result_or_nothing<Ts>...>> {
 public:
  using joint_state<std::tuple<result_or_nothing<Ts>...>>::joint_state;

 private:
  std::tuple<result_or_nothing<Ts>...> collect(const std::vector<future_state*>& inputs) override {
    return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      return std::tuple<result_or_nothing<Ts>...>{value_of<Ts>(inputs[Index])...};  // from left to right
    }(std::index_sequence_for<Ts...>());
  }
};

template <class T>
using values_of_many = std::conditional_t<std::is_void_v<T>, void, std::vector<result_or_nothing<T>>>;

template <class T>
class vector_state final : public joint_state<values_of_many<T>> {
 public:
  using joint_state<values_of_many<T>>::joint_state;

 private:
  values_of_many<T> collect(const std::vector<future_state*>& inputs) override {
    if constexpr (std::is_void_v<T>) {
      for (future_state* one : inputs) value_of<void>(one);
    } else {
      std::vector<T> all;
      all.reserve(inputs.size());
      for (future_state* one : inputs) all.push_back(value_of<T>(one));
      return all;
    }
  }
};

}  // namespace detail

/// The result of a function that a pool executes. One thread at a time may use it; it can be moved to others.
template <class T>
class [[nodiscard]] future {
 public:
  future() noexcept = default;
  future(future&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  future& operator=(future&& other) noexcept {
    future moved(std::move(other));
    std::swap(state_, moved.state_);
    return *this;
  }
  /// Does not wait: the function is executed nevertheless.
  ~future() {
    if (state_ != nullptr) state_->release();
  }

  /// False after get() and then(), and for futures that have been moved from.
  bool valid() const noexcept { return state_ != nullptr; }
  /// True if get() returns at once.
  bool is_ready() const { return state("future::is_ready").is_complete(); }
  /// Waits until there is a result. Executes the function if no thread has begun it.
  void wait() const { state("future::wait").wait(no_deadline); }
  /// The same for a limited time; returns true if there is a result. On a thread outside all pools it executes
  /// nothing; a worker may execute the function, and returns when that has ended.
  template <class Rep, class Period>
  bool wait_for(const std::chrono::duration<Rep, Period>& time) const {
    return ready_by("future::wait_for", detail::deadline_after(time));
  }
  template <class Clock, class Duration>
  bool wait_until(const std::chrono::time_point<Clock, Duration>& when) const {
    return detail::attempt_until(
        when, [this](deadline until) { return ready_by("future::wait_until", until); },
        [](bool ready) { return !ready; });
  }
  /// Waits, and returns the result or throws the function's exception, or broken_promise. Afterwards the future is
  /// empty.
  T get() {
    auto& of = state("future::get");
    of.wait_for_last();
    const future last(std::move(*this));  // its state ends when we return
    if (of.has_error()) std::rethrow_exception(of.take_error());
    if constexpr (!std::is_void_v<T>) return of.take();
  }
  /// Calls f with the result, in the same pool, when it is there, and returns the future of what f returns. If there is
  /// an exception instead, the new future has it and f is not called; unless f takes a future<T>, which is ready then.
  /// Afterwards this future is empty.
  template <class F>
  auto then(F&& f) {
    using function = std::decay_t<F>;
    constexpr bool fits = detail::follows_value<function, T>() || std::invocable<function&, future<T>>;
    static_assert(fits,
                  "then takes a function of the future's value, or of no arguments if that is void, or of the future");
    if constexpr (fits) {
      using next = detail::following<function, T>;
      static_assert(!std::is_reference_v<typename next::result>,
                    "the function that follows returns a reference: return a pointer, or a value");
      auto& of = state("future::then");
      of.refuse_in_child();
      auto* const one = new next(of, std::forward<F>(f));
      state_ = nullptr;  // the new state owns it
      future<typename next::result> result(*one);
      one->begin();
      return result;
    }
  }

 private:
  friend class pool;
  template <class>
  friend class future;
  template <class, class>
  friend class detail::following;
  template <class... Ts>
  friend future<std::tuple<detail::result_or_nothing<Ts>...>> when_all(future<Ts>... all);
  template <class U>
  friend future<detail::values_of_many<U>> when_all(std::vector<future<U>> all);

  explicit future(detail::value_state<T>& of) noexcept : state_(&of) {}
  detail::value_state<T>& state(const char* caller) const {
    if (state_ == nullptr)
      throw std::logic_error(std::string(caller) + ": the future is empty: its result was taken, or it was moved from");
    return *state_;
  }

  bool ready_by(const char* caller, deadline until) const {
    auto& of = state(caller);
    of.wait(until);
    return of.is_complete();
  }

  detail::value_state<T>* state_ = nullptr;
};

/// Returns the future of all results, std::monostate for void. If there are exceptions, it has the leftmost, when all
/// functions have ended. The futures that are passed are empty afterwards.
template <class... Ts>
future<std::tuple<detail::result_or_nothing<Ts>...>> when_all(future<Ts>... all) {
  static_assert(sizeof...(Ts) != 0, "when_all takes futures, or a vector of them");
  std::vector<detail::future_state*> inputs{static_cast<detail::future_state*>(&all.state("when_all"))...};
  detail::injector& home = inputs.front()->home();
  auto* const one = new detail::tuple_state<Ts...>(home, std::move(inputs));
  ((all.state_ = nullptr), ...);
  future<std::tuple<detail::result_or_nothing<Ts>...>> result(*one);
  one->begin();
  return result;
}
/// The same for a vector, which must not be empty.
template <class T>
future<detail::values_of_many<T>> when_all(std::vector<future<T>> all) {
  if (all.empty()) throw std::invalid_argument("when_all: the vector of futures is empty; there is no pool to wait in");
  std::vector<detail::future_state*> inputs;
  inputs.reserve(all.size());
  for (const future<T>& each : all) inputs.push_back(&each.state("when_all"));
  detail::injector& home = inputs.front()->home();
  auto* const one = new detail::vector_state<T>(home, std::move(inputs));
  for (future<T>& each : all) each.state_ = nullptr;
  future<detail::values_of_many<T>> result(*one);
  one->begin();
  return result;
}

template <class F>
detail::future_of<F> pool::submit(F&& function) {
  using stored = std::decay_t<F>;
  constexpr bool fits = std::invocable<stored&> || std::invocable<stored&, context&>;
  static_assert(fits,
                "submit takes a function of no arguments, or of a muster::context: bind its arguments in a lambda");
  if constexpr (fits) {
    static_assert(detail::can_be_forked<stored>());
    core_.refuse_in_child();
    auto* const one = new detail::submitted<stored>(core_.injected_functions, std::forward<F>(function));
    detail::future_of<F> result(*one);
    one->begin(core_);
    return result;
  }
}

}  // namespace muster::inline MUSTER_ABI
