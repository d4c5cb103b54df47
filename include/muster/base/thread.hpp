// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// thread.hpp: what the library keeps for each thread: a small number, what the thread is in the middle of, and where it
// has found things of its own.
// Include base/sync.hpp instead, which has the same for the model checker's threads.
//
// Numbers  dense from 0, the smallest that is free; no two threads that live have the same. Given back when the
//          thread's thread_local objects are destroyed; a destructor that runs later takes another. The next owner of a
//          number sees everything that the last has done, so that data that belongs to it needs no other order.
// Cost     one load and one compare, after the first call of a thread.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <pthread.h>  // pthread_key_create

#include <algorithm>   // std::pop_heap
#include <atomic>      // new_identity
#include <cstddef>     // std::size_t
#include <cstdint>     // std::uint64_t
#include <functional>  // std::greater
#include <mutex>       // the set of free numbers
#include <utility>     // std::exchange
#include <vector>      // the set of free numbers

namespace muster::inline MUSTER_ABI::real {

namespace detail {

/// The numbers that threads have given back, smallest first. Never destroyed: threads may end after static objects.
class thread_numbers {
 public:
  static thread_numbers& all() {
    static auto* const one = new thread_numbers;
    return *one;
  }
  unsigned take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.reserve(made_ + 1);  // so that give_back does not allocate
      return made_++;
    }
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    const unsigned number = free_.back();
    free_.pop_back();
    return number;
  }
  void give_back(unsigned number) {
    const std::lock_guard lock(mutex_);
    free_.push_back(number);
    std::push_heap(free_.begin(), free_.end(), std::greater<>());
  }

 private:
  std::mutex mutex_;
  std::vector<unsigned> free_;  // a heap
  unsigned made_ = 0;
};

inline constexpr unsigned no_number = ~0U;
inline constinit thread_local unsigned thread_number = no_number;
inline constinit thread_local const void* innermost_operation = nullptr;

/// The thread's part of an object, by the object's identity.
struct kept_part {
  std::uint64_t identity = 0;
  void* part = nullptr;
};
inline constexpr std::size_t kept_parts = 8;
inline constinit thread_local kept_part thread_parts[kept_parts];

/// Returns the calling thread's number, if it has one, and forgets the parts that belong to the number.
inline void end_number() noexcept {
  if (thread_number == no_number) return;
  for (kept_part& kept : thread_parts) kept = {};
  thread_numbers::all().give_back(std::exchange(thread_number, no_number));
}

/// A pthread key whose destructor returns a number taken while the thread's objects are being destroyed. It runs after
/// the destructors of thread_local objects, and again if the destructor of another key takes a number.
class late_end {
 public:
  static const late_end& all() {
    static const late_end one;
    return one;
  }
  /// Arms or disarms the destructor for the calling thread. If the process has run out of keys, a number taken so late
  /// is never used again.
  void arm(bool armed) const noexcept {
    if (exists_) ::pthread_setspecific(key_, armed ? this : nullptr);
  }

 private:
  late_end() : exists_(::pthread_key_create(&key_, [](void*) { end_number(); }) == 0) {}

  pthread_key_t key_{};
  const bool exists_;
};

struct number_end {
  ~number_end() {
    end_number();
    late_end::all().arm(false);  // this library may be unloaded once the thread's objects are destroyed
  }
};

[[gnu::noinline]] inline unsigned first_thread_index() {
  thread_local const number_end last;
  static_cast<void>(&last);
  thread_number = thread_numbers::all().take();
  late_end::all().arm(true);
  return thread_number;
}

}  // namespace detail

/// The number of the calling thread. Throws std::bad_alloc, at a thread's first call.
inline unsigned thread_index() {
  const unsigned number = detail::thread_number;
  return number != detail::no_number ? number : detail::first_thread_index();
}

/// An identity that no other object of the program has had.
inline std::uint64_t new_identity() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
/// What the calling thread has kept of the object with this identity; null when it has kept others since.
inline void* kept_part_of(std::uint64_t identity) noexcept {
  const detail::kept_part& kept = detail::thread_parts[identity % detail::kept_parts];
  if (kept.identity != identity) return nullptr;
  if (kept.part == nullptr) __builtin_unreachable();  // the caller's test for null is this one
  return kept.part;
}
/// Keeps it. It must belong to the thread's number.
inline void keep_part_of(std::uint64_t identity, void* part) noexcept {
  detail::thread_parts[identity % detail::kept_parts] = {identity, part};
}

/// A T of each thread: made without running code, and never destroyed.
template <class T>
T& own() noexcept {
  static constinit thread_local T one{};
  return one;
}

/// Makes a T for the calling thread at its first call, and destroys it when the thread ends.
template <class T>
void at_thread_end() {
  thread_local const T last;
  static_cast<void>(&last);
}

/// The innermost operation that runs a user's function now, or null. Each fiber has its own.
inline const void*& innermost() noexcept { return detail::innermost_operation; }

/// What a thread is in a pool of threads.
struct pool_place {
  void* worker = nullptr;  // null: in none
  // At what its forks look before they call: a word that is less than nobodys_mark, unless they must do something else.
  const void* mark = &nobodys_mark;
  static constexpr std::uint64_t nobodys_mark = ~std::uint64_t{1};
};

/// Of the calling thread. Each fiber has its own. Whoever sets it sets innermost() as well.
inline pool_place& own_place() noexcept {
  static constinit thread_local pool_place place;
  return place;
}

}  // namespace muster::inline MUSTER_ABI::real
