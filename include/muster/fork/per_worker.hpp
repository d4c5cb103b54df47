// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// per_worker.hpp: an object of each worker of a pool, for sums and buffers that need no lock.
//
// Elements   a worker's element is made when it first calls local(), as a copy of the initial value. Elements are in
//            cache lines of their own.
// Rules      a worker that waits in a join, or for a future or a group, may execute other work, which then uses the
//            same element: keep no reference across a wait.
// Progress   local() is wait-free, but for making the element.
// Memory     8 KiB, and an allocation for each worker that calls local().
// Cost       local(): O(1), loads only. for_each, combine, clear: O(1024), the most workers of a pool.
#pragma once

#include <muster/base/arch.hpp>              // isolation_size
#include <muster/fork/detail/scheduler.hpp>  // pool_core
#include <muster/fork/pool.hpp>              // pool

#include <cstddef>    // std::size_t
#include <memory>     // std::unique_ptr
#include <optional>   // the result
#include <stdexcept>  // std::logic_error
#include <utility>    // std::move
#include <vector>     // the elements

namespace muster::inline MUSTER_ABI {

template <class T>
class per_worker {
 public:
  /// One element for each worker of the pool, made when it is first used as a copy of `initial`. The pool must outlive
  /// the object.
  explicit per_worker(const pool& of, T initial = T())
      : pool_(of), initial_(std::move(initial)), elements_(detail::pool_core::most_workers) {}
  per_worker(const per_worker&) = delete;
  per_worker& operator=(const per_worker&) = delete;

  /// Returns the calling worker's element. Throws std::logic_error on a thread that is not directly inside the pool.
  T& local() {
    const std::optional<unsigned> index = pool_.worker_index();
    if (!index.has_value()) [[unlikely]]
      throw std::logic_error(
          "per_worker::local: the calling thread is not a worker of the pool; call it inside pool::run, or in a task");
    std::unique_ptr<element>& mine = elements_[*index];
    if (mine == nullptr) [[unlikely]]
      mine = std::make_unique<element>(initial_);
    return mine->value;
  }

  /// Calls f(element) for each worker that has called local(), in the order of their indices. No thread may call
  /// local() meanwhile.
  template <class F>
  void for_each(F&& f) {
    for (const std::unique_ptr<element>& each : elements_)
      if (each != nullptr) f(each->value);
  }
  /// Returns the elements, combined by op(sum, element) in the order of their indices; the initial value if there are
  /// none. No thread may call local() meanwhile.
  template <class Op>
  T combine(Op op) const {
    std::optional<T> sum;
    for (const std::unique_ptr<element>& each : elements_) {
      if (each == nullptr) continue;
      if (sum.has_value()) sum.emplace(op(std::move(*sum), static_cast<const T&>(each->value)));
      else sum.emplace(static_cast<const T&>(each->value));
    }
    return sum.has_value() ? *std::move(sum) : initial_;
  }
  /// Destroys the elements. No thread may call local() meanwhile.
  void clear() noexcept {
    for (std::unique_ptr<element>& each : elements_) each = nullptr;
  }

 private:
  struct alignas(isolation_size) element {
    explicit element(const T& initial) : value(initial) {}
    T value;
  };

  const pool& pool_;
  const T initial_;
  // By the workers' indices. A thread that gets an index after another one sees what that thread has written.
  std::vector<std::unique_ptr<element>> elements_;
};

}  // namespace muster::inline MUSTER_ABI
