// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// batch.hpp: requests of one kind that a state may execute together, when it can do so in less than one by one.
//
// A state that wants them defines   void execute(batch<State, F, R> all) noexcept;
// for a callable type F with result R. It must do what calling all[0].function(), all[1].function(), … on the state
// would have done, and put each result where it belongs. F and R must be trivially copyable and of up to eight bytes.
//
// Some requests answer each other without the state: a push and the pop after it. A state that knows such defines
//   static void eliminate(batch<State, F, R> all, std::span<std::uint32_t> notes) noexcept;
//   using eliminates = F;
// It puts the results of those, and sets their notes to batch::answered; the other requests, executed in their order,
// must do what all would have done in theirs. osci calls it before a batch that is all F leaves the thread, so what is
// answered never meets the object, and a batch of which nothing is left is not announced at all.
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
}

template <class State, class F, class R>
class batch {
 public:
  static constexpr std::uint32_t answered = ~std::uint32_t{0};

  class item {
   public:
    const F& function() const noexcept { return one_->ref().template as<F>(); }
    /// Call once, after the last use of function(): the result takes its place.
    template <class T>
    void result(const T& value) noexcept
      requires(!std::is_void_v<R>)
    {
      one_->ref().put(static_cast<R>(value));
    }

   private:
    friend batch;
    explicit item(sync::cell<detail::request<State>>* one) noexcept : one_(one) {}
    sync::cell<detail::request<State>>* one_;
  };

  batch(sync::cell<detail::request<State>>* first, sync::cell<detail::request<State>>* last) noexcept
      : first_(first), last_(last) {}

  std::size_t size() const noexcept { return static_cast<std::size_t>(last_ - first_); }
  item operator[](std::size_t i) const noexcept { return item(first_ + i); }

 private:
  sync::cell<detail::request<State>>* first_;
  sync::cell<detail::request<State>>* last_;
};

namespace detail {
template <class State, class F, class R>
concept executes = requires(State& state, batch<State, F, R> all) { state.execute(all); };

template <class State>
concept eliminating = requires { typename State::eliminates; };
}  // namespace detail

}  // namespace muster::inline MUSTER_ABI
