// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// retry.hpp: an object of up to eight bytes. An operation works on a copy of the state, and begins again when the state
// has changed in the meantime.
//
// Order      linearizable: an operation happens when its copy takes the place of the state. The operations after it see
//            everything that its thread did before.
// Progress   lock-free: an operation begins again only when another has ended.
// Operations run on their caller's thread, perhaps several times: they must do nothing but change the state that they
//            are given and return a result. An exception reaches the caller, and leaves the state as it was. They
//            may not apply to the same object.
// Memory     eight bytes, alone on their cache lines.
// Errors     std::invalid_argument from the constructor; from apply what the operation throws, and std::logic_error
//            when it is called from within an operation of the same object.
// Source     Herlihy, "A methodology for implementing highly concurrent data objects", PPoPP 1990, with randomized
//            exponential backoff (Anderson, 1990).
#pragma once

#include "../turn.hpp"

#include <muster/base/arch.hpp>               // isolation_size
#include <muster/base/detail/reentrancy.hpp>  // reentrancy_scope
#include <muster/base/sync.hpp>               // sync::atomic
#include <muster/combine/options.hpp>         // combine_options

#include <array>        // the bytes of a state
#include <bit>          // std::bit_cast
#include <cstddef>      // std::byte
#include <cstdint>      // std::uint64_t
#include <cstring>      // std::memcpy
#include <functional>   // std::invoke
#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::forward

namespace muster::bench::inline MUSTER_ABI {

/// Its bytes are all there is to it, and they fit into one word.
template <class State>
concept fits_a_word = std::is_trivially_copyable_v<State> && sizeof(State) <= sizeof(std::uint64_t);

/// A function that may be called several times, on copies: it must not change itself (its call operator is const), and
/// must not return a reference, which would point into a copy that is gone.
template <class F, class State>
concept callable_on_copies = std::is_invocable_v<const std::remove_reference_t<F>&, State&> &&
                             !std::is_reference_v<std::invoke_result_t<const std::remove_reference_t<F>&, State&>>;

template <class State>
class retry {
  static_assert(fits_a_word<State>,
                "retry<State>: the state must be trivially copyable and of up to eight bytes; larger ones need one of "
                "the combining objects, for instance cc_synch");

 public:
  using state_type = State;

  /// Constructs the state from `args`. The options are those of all combining objects; none of them is needed here.
  template <class... Args>
  explicit retry(const combine_options& options = {}, Args&&... args)
      : bits_(packed(State(std::forward<Args>(args)...))) {
    if (options.threads == 0) throw std::invalid_argument("combine_options::threads is 0; ask for 1 at least");
  }
  retry(const retry&) = delete;
  retry& operator=(const retry&) = delete;

  /// Executes function(state) in one step, and returns its result.
  template <class F>
    requires callable_on_copies<F, State>
  std::invoke_result_t<const std::remove_reference_t<F>&, State&> apply(F&& function) {
    using result = std::invoke_result_t<const std::remove_reference_t<F>&, State&>;
    const std::remove_reference_t<F>& pure = function;
    if (detail::reentrancy_scope::is_in(this)) [[unlikely]]
      throw std::logic_error(
          "apply: called from within an operation of the same object, which would have no effect; use the State& that "
          "the operation has been given");
    const detail::reentrancy_scope here(this);
    // (2) acquire: pairs with (1).
    std::uint64_t seen = bits_.load(std::memory_order_acquire);
    small_random dice(seen + sync::thread_index());
    for (backoff<cpu_turn> wait(limits, dice);; wait.lost()) {
      State copy = unpacked(seen);
      if constexpr (std::is_void_v<result>) {
        std::invoke(pure, copy);
        if (replace(seen, copy)) return;
      } else {
        result answer = std::invoke(pure, copy);
        if (replace(seen, copy)) return answer;
      }
    }
  }

  /// For generic code: between two steps there is nothing to check.
  void check() const noexcept {}

 private:
  // The first waits are as long as an operation of another thread takes.
  static constexpr backoff_limits limits{.least = 2, .most = 256};

  // All bytes of the word are compared, so those of the state that hold no value (padding) must stay what they are:
  // they are kept as a number, and looked at as a State only in copies.
  static std::uint64_t packed(const State& state) noexcept {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &state, sizeof(State));
    return bits;
  }
  static State unpacked(std::uint64_t bits) noexcept {
    std::array<std::byte, sizeof(State)> bytes;
    std::memcpy(bytes.data(), &bits, sizeof(State));
    return std::bit_cast<State>(bytes);
  }
  bool replace(std::uint64_t& seen, const State& by) noexcept {
    // (1) acq_rel on success, acquire on failure: pairs with (1, 2). An operation sees what the threads of those before
    // it have done.
    return bits_.compare_exchange_strong(seen, packed(by), std::memory_order_acq_rel, std::memory_order_acquire);
  }

  alignas(isolation_size) sync::atomic<std::uint64_t> bits_;
};

}  // namespace muster::bench::inline MUSTER_ABI
