// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// batch.hpp: requests of one kind that a state executes together, where that costs less than one by one.
//
// A state opts in by defining   void execute(batch<State, F, R> all) noexcept;   for a callable type F with result R.
// It must have the effect of calling all[0].function(), all[1].function(), … on the state, and store each result in its
// item. F and R must be trivially copyable and at most eight bytes; R may also be a std::optional of such a type.
//
// Some requests eliminate each other without the state, such as a push and the pop after it. A state with such requests
// defines   static void eliminate(outgoing_batch<State> all, std::span<std::uint32_t> notes) noexcept;
// It stores the results of these requests and sets their notes to outgoing_batch::eliminated. The remaining requests,
// executed in order, must have the effect that all requests would have had. Hence no pair may be matched across a
// request of an unknown kind. osci calls it before a batch leaves the thread: eliminated requests never reach the
// object, and an empty batch is not announced.
#pragma once

#include <muster/base/sync.hpp>  // sync::cell

#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint32_t
#include <span>         // notes
#include <type_traits>  // std::is_void_v

namespace muster::inline MUSTER_ABI {

namespace detail {
template <class State>
struct request;
template <class State, class Forwarded>
class call;
}  // namespace detail

/// Requests of type F, with results of type R, that a state executes together.
template <class State, class F, class R>
class batch {
  using row = sync::cell<detail::request<State>>;

 public:
  /// One of the requests.
  class item {
   public:
    /// The callable object of the request.
    const F& function() const noexcept { return one_->write_ref().template as<F>(); }
    /// Call once, after the last use of function(): the result is stored in its place.
    template <class T>
    void result(const T& value) noexcept
      requires(!std::is_void_v<R>)
    {
      one_->write_ref().put_result(static_cast<R>(value));
    }

   private:
    friend batch;
    explicit item(row* one) noexcept : one_(one) {}
    row* one_;
  };

  /// Made by the library only.
  batch(row* first, row* last) noexcept : first_(first), last_(last) {}

  /// The number of requests.
  std::size_t size() const noexcept { return static_cast<std::size_t>(last_ - first_); }
  /// A request, in the order in which they were made.
  item operator[](std::size_t i) const noexcept { return item(first_ + i); }

 private:
  row* first_;
  row* last_;
};

/// Requests of any kind that are about to leave their thread.
template <class State>
class outgoing_batch {
  using row = sync::cell<detail::request<State>>;

 public:
  /// The note of a request that needs the state no more.
  static constexpr std::uint32_t eliminated = ~std::uint32_t{0};

  /// One of the requests.
  class item {
   public:
    /// Returns true if the request is an F. F and its result must be trivially copyable and at most eight bytes.
    template <class F>
    bool is() const noexcept {
      const auto kind = one_->write_ref().run;
      return kind == detail::call<State, F>::kind() || kind == detail::call<State, const F>::kind();
    }
    /// Requires is<F>().
    template <class F>
    const F& function() const noexcept {
      static_assert(detail::call<State, F>::is_small, "eliminate: F and its result must have at most eight bytes each");
      return one_->write_ref().template as<F>();
    }
    /// Call once, after the last use of function(): the result is stored in its place.
    template <class F, class T>
    void result(const T& value) noexcept {
      one_->write_ref().put_result(static_cast<typename detail::call<State, F>::result>(value));
    }

   private:
    friend outgoing_batch;
    explicit item(row* one) noexcept : one_(one) {}
    row* one_;
  };

  /// Made by the library only.
  outgoing_batch(row* first, std::size_t size) noexcept : first_(first), size_(size) {}

  /// The number of requests.
  std::size_t size() const noexcept { return size_; }
  /// A request, in the order in which they were made.
  item operator[](std::size_t i) const noexcept { return item(first_ + i); }

 private:
  row* first_;
  std::size_t size_;
};

namespace detail {
template <class State, class F, class R>
concept executes = requires(State& state, batch<State, F, R> all) { state.execute(all); };

template <class State>
concept eliminating =
    requires(outgoing_batch<State> all, std::span<std::uint32_t> notes) { State::eliminate(all, notes); };
}  // namespace detail

}  // namespace muster::inline MUSTER_ABI
