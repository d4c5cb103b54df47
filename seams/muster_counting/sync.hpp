// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sync.hpp: the counting side of the seam muster/base/sync.hpp, for headers compiled with MUSTER_COUNTING. The standard
// library's atomics, which count their read-modify-writes.
#pragma once

#include <muster/base/detail/native.hpp>

#include <atomic>
#include <cstdint>

namespace muster::inline MUSTER_ABI::counting {

using namespace native;

/// The count of the calling thread.
inline thread_local std::uint64_t read_modify_writes = 0;

template <class T>
class atomic : public std::atomic<T> {
  using base = std::atomic<T>;

 public:
  using base::base;

  T exchange(T value, std::memory_order order) noexcept {
    ++read_modify_writes;
    return base::exchange(value, order);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T wanted, Orders... orders) noexcept {
    ++read_modify_writes;
    return base::compare_exchange_strong(expected, wanted, orders...);
  }
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T wanted, Orders... orders) noexcept {
    ++read_modify_writes;
    return base::compare_exchange_weak(expected, wanted, orders...);
  }
  T fetch_add(T by, std::memory_order order) noexcept {
    ++read_modify_writes;
    return base::fetch_add(by, order);
  }
  T fetch_sub(T by, std::memory_order order) noexcept {
    ++read_modify_writes;
    return base::fetch_sub(by, order);
  }
  T fetch_or(T bits, std::memory_order order) noexcept {
    ++read_modify_writes;
    return base::fetch_or(bits, order);
  }
  T fetch_and(T bits, std::memory_order order) noexcept {
    ++read_modify_writes;
    return base::fetch_and(bits, order);
  }
  T fetch_xor(T bits, std::memory_order order) noexcept {
    ++read_modify_writes;
    return base::fetch_xor(bits, order);
  }
};

}  // namespace muster::inline MUSTER_ABI::counting
