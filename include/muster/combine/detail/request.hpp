// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// request.hpp: an operation that another thread may execute: any callable, any result, any exception.
//
// A request is a pointer to the function that runs it, and eight bytes. A trivially copyable callable of up to eight
// bytes travels in them, and so does its result; a batch of such requests is an array that the combiner traverses once.
// Larger callables stay in the frame of their waiting owner, and the eight bytes point there. Neighbours of one kind
// run in one loop, where the compiler sees the callable: one indirect call for all. A state that defines
// `execute(batch)` for that kind gets them at once (batch.hpp).
#pragma once

#include <muster/base/detail/exception.hpp>        // capture_exception, forced_unwind
#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/sync.hpp>                    // sync::cell
#include <muster/combine/batch.hpp>                // batch, executes

#include <array>        // bytes of a result
#include <bit>          // std::bit_cast
#include <cstddef>      // std::byte
#include <cstring>      // std::memcpy
#include <exception>    // std::exception_ptr
#include <functional>   // std::invoke
#include <memory>       // std::construct_at
#include <new>          // std::launder
#include <optional>     // results
#include <type_traits>  // std::invoke_result_t
#include <utility>      // std::exchange

namespace muster::inline MUSTER_ABI::detail {

template <class T>
concept fits_in_request =
    std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T> && sizeof(T) <= 8 && alignof(T) <= 8;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
struct result_fits_in_request : std::bool_constant<std::is_void_v<T> || std::is_reference_v<T> || fits_in_request<T>> {
};
template <class T>
struct result_fits_in_request<std::optional<T>> : std::bool_constant<fits_in_request<T>> {};

template <class State>
struct request {
  /// Runs consecutive requests of its kind, starting with the first. Returns the first that it has not run.
  using runner = sync::cell<request>* (*)(State&, sync::cell<request>* first, sync::cell<request>* last);

  runner run = &unrecorded;  // or its outcome: has_thrown, with the exception in `room`, or returned_nothing
  alignas(8) std::byte room[8];

  static sync::cell<request>* unrecorded(State&, sync::cell<request>*, sync::cell<request>*) {
    fail_check("combining: a request without a callable is executed; this is a bug in muster", __FILE__, __LINE__);
  }
  static sync::cell<request>* has_thrown(State&, sync::cell<request>*, sync::cell<request>*) {
    fail_check("combining: a request is executed twice; this is a bug in muster", __FILE__, __LINE__);
  }

  static sync::cell<request>* returned_nothing(State&, sync::cell<request>*, sync::cell<request>*) {
    fail_check("combining: a request is executed twice; this is a bug in muster", __FILE__, __LINE__);
  }

  template <class T>
  T& as() noexcept {
    return *std::launder(reinterpret_cast<T*>(room));
  }
  template <class T>
  void put(const T& value) noexcept {
    if constexpr (std::is_copy_constructible_v<T>) {
      std::construct_at(reinterpret_cast<T*>(room), value);
    } else {
      std::memcpy(room, static_cast<const void*>(std::addressof(value)), sizeof(T));  // its move is trivial
    }
  }

  // Results are stored as a word of a type that few states contain. So the compiler knows that writing one leaves a
  // state of another type unchanged. It can keep that state in a register over a row of requests.
  using word = unsigned long long;
  // NOLINTBEGIN(bugprone-sizeof-expression): a result may be a pointer
  template <class T>
  void put_bytes(const T& value) noexcept {
    word bytes = 0;
    std::memcpy(&bytes, static_cast<const void*>(std::addressof(value)), sizeof(T));
    put(bytes);
  }
  template <class T>
  T bytes() noexcept {
    std::array<std::byte, sizeof(T)> copy;
    std::memcpy(copy.data(), &as<word>(), sizeof(T));
    return std::bit_cast<T>(copy);
  }
  // NOLINTEND(bugprone-sizeof-expression)

  template <class R>
  void put_result(const R& value) noexcept {
    if constexpr (is_optional<R>) {
      if (value.has_value()) {
        put_bytes(*value);
      } else {
        run = &returned_nothing;
      }
    } else {
      put_bytes(value);
    }
  }
};

/// Runs all requests of a row.
template <class State>
void run_requests(State& state, sync::cell<request<State>>* first, sync::cell<request<State>>* last) {
  while (first != last) first = first->write_ref().run(state, first, last);
}

/// Running a copy of the callable is indistinguishable: the original is about to end, cannot change, or is empty.
template <class Forwarded>
concept is_not_changed =
    !std::is_lvalue_reference_v<Forwarded> || std::is_const_v<std::remove_reference_t<Forwarded>> ||
    std::is_empty_v<std::remove_reference_t<Forwarded>>;

/// A callable that cannot be copied is moved only if its owner gave it away.
template <class F, class Forwarded>
concept may_travel =
    std::is_copy_constructible_v<F> || (std::is_move_constructible_v<F> && !std::is_lvalue_reference_v<Forwarded>);

/// One call of `apply`: lives in its frame, fills a request, and fetches the result. `Forwarded` is the type that apply
/// received: a callable passed by reference that may change itself is not copied.
template <class State, class Forwarded>
class call {
  using F = std::remove_reference_t<Forwarded>;
  using request_type = request<State>;
  using row = sync::cell<request_type>;

 public:
  using result = std::invoke_result_t<F&, State&>;
  static_assert(std::is_void_v<result> || std::is_reference_v<result> || std::is_move_constructible_v<result>,
                "apply: the operation's result must be movable or copyable, because another thread may execute the "
                "operation; return a std::unique_ptr to it, or a reference");
  static constexpr bool throws = !std::is_nothrow_invocable_v<F&, State&>;
  /// True if no part of it is in the owner's frame.
  static constexpr bool is_small = fits_in_request<std::remove_const_t<F>> && is_not_changed<Forwarded> &&
                                   may_travel<std::remove_const_t<F>, Forwarded> &&
                                   result_fits_in_request<result>::value;

  explicit call(F& f) noexcept : function_(std::addressof(f)) {}
  call(const call&) = delete;
  call& operator=(const call&) = delete;

  /// Runs it here and now.
  result run_here(State& state) noexcept(!throws) { return std::invoke(*function_, state); }

  /// Small requests of one callable are of one kind, regardless of `Forwarded`.
  static typename request_type::runner kind() noexcept {
    if constexpr (is_small) {
      return &call<State, F>::run;
    } else {
      return &run;
    }
  }

  void record(request_type& into) noexcept {
    into.run = kind();
    if constexpr (is_small) {
      into.put(*function_);
    } else {
      into.put(this);
    }
  }

  /// After the request has run: returns its result or rethrows its exception.
  result take_result(request_type& from) noexcept(!throws && moves_safely) {
    if constexpr (is_small) {
      return fetch_small(from);
    } else {
      if constexpr (throws)
        if (outcome_.error != nullptr) std::rethrow_exception(std::exchange(outcome_.error, nullptr));
      if constexpr (std::is_reference_v<result>) {
        return static_cast<result>(*outcome_.returned.value);
      } else if constexpr (!std::is_void_v<result>) {
        const ended last{outcome_.returned};
        return std::move(outcome_.returned.value);  // the only move, and on the owner's thread
      }
    }
  }

  /// The same for a small callable, without a call object.
  static result fetch_small(request_type& from) noexcept(!throws)
    requires is_small
  {
    if constexpr (throws)
      if (from.run == &request_type::has_thrown) {
        const std::exception_ptr error = std::move(from.template as<std::exception_ptr>());
        std::destroy_at(&from.template as<std::exception_ptr>());
        std::rethrow_exception(error);
      }
    if constexpr (std::is_reference_v<result>) {
      return static_cast<result>(*from.template bytes<std::remove_reference_t<result>*>());
    } else if constexpr (is_optional<result>) {
      if (from.run == &request_type::returned_nothing) return std::nullopt;
      return from.template bytes<typename result::value_type>();
    } else if constexpr (!std::is_void_v<result>) {
      return from.template bytes<result>();
    }
  }

 private:
  template <class, class>
  friend class call;
  using stored =
      std::conditional_t<std::is_void_v<result>, char,
                         std::conditional_t<std::is_reference_v<result>, std::remove_reference_t<result>*, result>>;
  static constexpr bool moves_safely =
      std::is_void_v<result> || std::is_reference_v<result> || std::is_nothrow_move_constructible_v<result>;
  struct ended {
    manual_lifetime<stored>& kept;
    ~ended() { kept.destroy(); }
  };

  static row* run(State& state, row* first, row* last) {
    if constexpr (is_small && executes<State, std::remove_const_t<F>, result>) {
      static_assert(noexcept(state.execute(batch<State, std::remove_const_t<F>, result>(first, last))),
                    "State::execute(batch) must be noexcept: after an exception, the executed requests are unknown");
      row* end = first + 1;
      while (end != last && end->write_ref().run == &run) ++end;
      state.execute(batch<State, std::remove_const_t<F>, result>(first, end));
      return end;
    } else {
      return run_all(state, first, last);
    }
  }

  MUSTER_HOT static row* run_all(State& state, row* first, row* last) {
    do {
      run_one(state, first->write_ref());
      ++first;
    } while (first != last && first->write_ref().run == &run);
    return first;
  }

  /// Call inside a handler.
  static void keep_error(request_type& one) noexcept {
    static_assert(sizeof(std::exception_ptr) <= sizeof one.room);
    std::construct_at(reinterpret_cast<std::exception_ptr*>(one.room), capture_exception());
    one.run = &request_type::has_thrown;
  }

  MUSTER_HOT static void run_one(State& state, request_type& one) noexcept {
    if constexpr (!throws) {
      run_one_or_throw(state, one);
    } else {
      try {
        run_one_or_throw(state, one);
      } catch (const forced_unwind&) {
        fail_check(
            "apply: an operation ended the thread that executed it for another (pthread_exit, or cancellation); return "
            "from the operation first",
            __FILE__, __LINE__);
      } catch (...) {
        if constexpr (is_small) {
          keep_error(one);
        } else {
          one.template as<call*>()->outcome_.error = capture_exception();
        }
      }
    }
  }

  MUSTER_HOT static void run_one_or_throw(State& state, request_type& one) noexcept(!throws) {
    if constexpr (is_small) {
      F& f = one.template as<F>();
      if constexpr (std::is_void_v<result>) {
        std::invoke(f, state);
      } else if constexpr (std::is_reference_v<result>) {
        auto&& there = std::invoke(f, state);
        one.put_bytes(std::addressof(there));
      } else {
        one.put_result(std::invoke(f, state));
      }
    } else {
      call& owner = *one.template as<call*>();
      if constexpr (std::is_void_v<result>) {
        std::invoke(*owner.function_, state);
      } else if constexpr (std::is_reference_v<result>) {
        auto&& there = std::invoke(*owner.function_, state);
        owner.outcome_.returned.construct(std::addressof(there));
      } else {
        // In place: a move could throw where the operation cannot.
        auto* const place = const_cast<std::remove_const_t<stored>*>(std::addressof(owner.outcome_.returned.value));
        ::new (static_cast<void*>(place)) stored(std::invoke(*owner.function_, state));
      }
    }
  }

  /// Extra storage of the owner of a large request.
  struct outcome {
    manual_lifetime<stored> returned;
    std::exception_ptr error;
  };
  struct none {};

  F* const function_;
  [[no_unique_address]] std::conditional_t<is_small, none, outcome> outcome_;
};

}  // namespace muster::inline MUSTER_ABI::detail
