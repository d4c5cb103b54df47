// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// watermark_fork.hpp: a fork that pushes and pops a record for its second half. See watermark.hpp.
#pragma once

#include <muster/base/caught.hpp>      // caught
#include <muster/fork/impl/calls.hpp>  // borrowed, call_half

#include <exception>    // std::exception_ptr
#include <type_traits>  // std::remove_reference_t
#include <utility>      // std::exchange

namespace muster::inline MUSTER_ABI::detail {

template <class G>
struct second_half : fork_record {
  using result = result_or_nothing<result_of<G>>;
  explicit second_half(std::remove_reference_t<G>& g) noexcept : function(g) {}

  static open_count* run_stolen(fork_record& r) noexcept {
    auto& here = static_cast<second_half&>(r);
    try {
      here.value.construct(call_half(*worker::current(), here.function.get()));
    } catch (...) {
      here.error() = caught();
    }
    return nullptr;
  }
  result take() {
    const std::exception_ptr thrown = std::exchange(error(), nullptr);
    joined();
    if (thrown != nullptr) std::rethrow_exception(thrown);
    struct ended {
      slot<result>& value;
      ~ended() { value.destroy(); }
    };
    const ended last{value};
    return std::move(value.value);
  }
  void drop() noexcept {
    if (error() == nullptr) value.destroy();
    joined();
  }

  slot<result> value;  // only if stolen; a small one fits into the free half of the record's last word
  borrowed<G> function;
};

/// Ends a fork whose first half has thrown.
template <class G>
struct unfinished_fork {
  worker& self;
  second_half<G>& second;
  bool finished = false;
  MUSTER_HOT ~unfinished_fork() {
    if (!finished) [[unlikely]]
      abandon(self, second);
  }
  MUSTER_COLD static void abandon(worker& self, second_half<G>& second) noexcept {
    if (self.forks.pop(second) || self.forks.take_back(second)) return;
    self.await(second);
    second.drop();
  }
};

/// The second half's result, after pop() has returned false.
template <class G>
MUSTER_COLD typename second_half<G>::result finish_fork(worker& self, second_half<G>& second) {
  if (self.forks.take_back(second)) return call_half(self, second.function.get());
  self.await(second);
  return second.take();
}

template <class F, class G>
MUSTER_HOT fork_results<F, G> push_fork(worker& self, F&& f, G&& g) {
  second_half<G> second(g);
  self.forks.push(second, &second_half<G>::run_stolen);
  unfinished_fork<G> guard{self, second};
  auto first = call_half(self, f);
  guard.finished = true;
  if (self.forks.pop(second)) [[likely]]
    return {std::move(first), call_half(self, g)};
  return {std::move(first), finish_fork(self, second)};
}

}  // namespace muster::inline MUSTER_ABI::detail
