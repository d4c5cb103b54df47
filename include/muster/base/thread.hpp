// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// thread.hpp: the library's per-thread state: a small number, the current operation, and cached parts of objects.
// Include base/sync.hpp instead, which also serves the model checker's threads.
//
// Numbers  dense from 0, always the smallest free one; no two live threads share one. Released when the thread's
//          thread_local objects are destroyed; a destructor that runs later takes another. A thread that reuses a
//          number sees everything its previous owner did, so per-number data needs no further ordering.
// Tenure   a number, and how often it has been taken: unique to each thread, forever.
// Cost     one load and one compare, after the first call of a thread.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <pthread.h>  // pthread_key_create

#include <atomic>   // new_identity
#include <bit>      // std::countr_zero
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t
#include <memory>   // std::weak_ptr
#include <mutex>    // the set of free numbers
#include <utility>  // std::exchange
#include <vector>   // the set of free numbers

namespace muster::inline MUSTER_ABI {

namespace detail {
class siblings;
}

namespace real {

namespace detail {

/// A thread's number, from taking it until giving it back.
struct thread_tenure {
  std::uint32_t number = no_number;
  std::uint32_t turn = 0;  // how many threads had the number before
  static constexpr std::uint32_t no_number = ~std::uint32_t{0};
  bool operator==(const thread_tenure&) const = default;
};

/// The numbers that threads have given back, smallest first. Never destroyed, as threads may outlive static objects.
class thread_numbers {
 public:
  static thread_numbers& all() {
    static auto* const one = new thread_numbers;
    return *one;
  }
  thread_tenure take() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < free_.size(); ++i)
      if (free_[i] != 0) {
        const int smallest = std::countr_zero(free_[i]);
        free_[i] &= ~(std::uint64_t{1} << smallest);
        const auto number = static_cast<std::uint32_t>(i * bits) + static_cast<std::uint32_t>(smallest);
        return {number, turns_[number]};
      }
    const std::size_t number = turns_.size();
    if (number % bits == 0) free_.push_back(0);
    turns_.push_back(0);
    return {static_cast<std::uint32_t>(number), 0};
  }
  void give_back(std::uint32_t number) noexcept {
    const std::lock_guard lock(mutex_);
    ++turns_[number];
    free_[number / bits] |= std::uint64_t{1} << (number % bits);
  }
  /// Returns true if the thread still has the number. If not, the caller sees everything that the thread did.
  bool lasts(const thread_tenure& tenure) {
    const std::lock_guard lock(mutex_);
    return turns_[tenure.number] == tenure.turn;
  }

 private:
  static constexpr std::uint32_t bits = 64;
  std::mutex mutex_;
  std::vector<std::uint64_t> free_;   // a bit for each number
  std::vector<std::uint32_t> turns_;  // for each number, how often it has been given back
};

inline constinit thread_local thread_tenure own_tenure;
inline constinit thread_local const void* innermost_operation = nullptr;
inline constinit thread_local MUSTER_ABI::detail::siblings* thread_siblings = nullptr;

/// The thread's part of an object, with the object's identity.
struct kept_part {
  std::uint64_t identity = 0;
  void* part = nullptr;
};
inline constexpr std::size_t kept_parts = 8;
inline constinit thread_local kept_part thread_parts[kept_parts];

/// Work that a thread must do before it gives its number back.
class last_work {
 public:
  virtual void at_thread_end() noexcept = 0;

 protected:
  ~last_work() = default;
};

/// All such work of a thread whose objects still exist.
class last_works {
 public:
  void add(const std::shared_ptr<last_work>& work) {
    if (all_.size() == all_.capacity()) std::erase_if(all_, [](const auto& one) { return one.expired(); });
    all_.push_back(work);
  }
  void run() noexcept {
    for (const std::weak_ptr<last_work>& one : all_)
      if (const std::shared_ptr<last_work> work = one.lock(); work != nullptr) work->at_thread_end();
  }

 private:
  std::vector<std::weak_ptr<last_work>> all_;
};
inline constinit thread_local last_works* own_last_works = nullptr;

/// Does the calling thread's last work, drops its kept parts, and gives its number back, if it has one.
inline void end_number() noexcept {
  while (own_last_works != nullptr) {
    const std::unique_ptr<last_works> last(std::exchange(own_last_works, nullptr));
    last->run();
  }
  if (own_tenure.number == thread_tenure::no_number) return;
  for (kept_part& kept : thread_parts) kept = {};
  thread_numbers::all().give_back(std::exchange(own_tenure, {}).number);
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

[[gnu::noinline]] inline void take_number() {
  thread_local const number_end last;
  static_cast<void>(&last);
  own_tenure = thread_numbers::all().take();
  late_end::all().arm(true);
}

}  // namespace detail

using detail::last_work;
using detail::thread_tenure;

/// Returns the calling thread's tenure. A thread's first call may throw std::bad_alloc.
inline thread_tenure own_tenure() {
  if (detail::own_tenure.number == thread_tenure::no_number) [[unlikely]]
    detail::take_number();
  return detail::own_tenure;
}
inline unsigned thread_index() { return own_tenure().number; }
/// Returns true if the thread still has its number. If not, the caller sees everything that the thread did.
inline bool lasts(const thread_tenure& tenure) { return detail::thread_numbers::all().lasts(tenure); }

/// Arranges a call of work->at_thread_end() before the calling thread gives its number back, if *work still exists.
inline void before_thread_end(const std::shared_ptr<last_work>& work) {
  static_cast<void>(own_tenure());  // so that it is given back
  if (detail::own_last_works == nullptr) detail::own_last_works = new detail::last_works;
  detail::own_last_works->add(work);
}

/// Returns an identity that no other object of the program has had.
inline std::uint64_t new_identity() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
/// Returns the part that the calling thread has kept of the object with this identity; null if another replaced it.
inline void* kept_part_of(std::uint64_t identity) noexcept {
  const detail::kept_part& kept = detail::thread_parts[identity % detail::kept_parts];
  if (kept.identity != identity) return nullptr;
  if (kept.part == nullptr) __builtin_unreachable();  // the caller's test for null is this one
  return kept.part;
}
/// Keeps a part, which must belong to the thread's number.
inline void keep_part_of(std::uint64_t identity, void* part) noexcept {
  detail::thread_parts[identity % detail::kept_parts] = {identity, part};
}

/// Returns the calling thread's T, which is constant-initialized and never destroyed.
template <class T>
T& own() noexcept {
  static constinit thread_local T one{};
  return one;
}

/// Constructs a T for the calling thread at its first call, and destroys it when the thread ends.
template <class T>
void at_thread_end() {
  thread_local const T last;
  static_cast<void>(&last);
}

/// The innermost operation that is running a user's function, or null. Each fiber has its own.
inline const void*& innermost() noexcept { return detail::innermost_operation; }

/// The fibers of the thread, once it has made one (base/siblings.hpp).
inline MUSTER_ABI::detail::siblings*& own_siblings() noexcept { return detail::thread_siblings; }

/// The position of a thread in a pool.
struct pool_place {
  void* worker = nullptr;  // null: in no pool
  // Its forks check the word at this address before they call. It is less than nobodys_mark, unless they must do
  // something else.
  const void* mark = &nobodys_mark;
  static constexpr std::uint64_t nobodys_mark = ~std::uint64_t{1};
};

/// The calling thread's. Each fiber has its own. Code that sets it must also set innermost().
inline pool_place& own_place() noexcept {
  static constinit thread_local pool_place place;
  return place;
}

}  // namespace real

}  // namespace muster::inline MUSTER_ABI
