// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sync.hpp: the simulated side of the seam muster/base/sync.hpp, for headers compiled with MUSTER_SIMULATION. Atomics
// and cells have the real layout, so that data that shares a line here shares one there. Each operation is reported to
// the simulation (sim/cache/engine.hpp), and has the cost in the machine's file.
#pragma once

#include <muster/base/detail/asymmetric_fence.hpp>
#include <muster/base/detail/futex.hpp>
#include <muster/base/detail/native.hpp>
#include <muster/base/detail/thread_state.hpp>

#include "sim/cache/engine.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster::inline MUSTER_ABI::simulation {

using muster_simulation::engine;

/// All simulated threads are fibers of one thread, so plain data will do.
template <class T>
class alignas(std::atomic<T>) atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) == sizeof(std::atomic<T>));
  using order = std::memory_order;

 public:
  atomic() noexcept = default;
  explicit atomic(T value) noexcept : value_(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(order = order::seq_cst) const noexcept {
    engine::active().load(this, sizeof(T));
    return value_;
  }
  void store(T v, order o = order::seq_cst) noexcept {
    if (o == order::seq_cst) engine::active().read_modify_write(this, sizeof(T));
    else engine::active().store(this, sizeof(T));
    value_ = v;
  }
  T exchange(T v, order = order::seq_cst) noexcept {
    return change([v](T) { return v; });
  }
  T fetch_add(T by, order = order::seq_cst) noexcept {
    return change([by](T old) { return static_cast<T>(old + by); });
  }
  T fetch_sub(T by, order = order::seq_cst) noexcept {
    return change([by](T old) { return static_cast<T>(old - by); });
  }
  T fetch_or(T bits, order = order::seq_cst) noexcept {
    return change([bits](T old) { return static_cast<T>(old | bits); });
  }
  T fetch_and(T bits, order = order::seq_cst) noexcept {
    return change([bits](T old) { return static_cast<T>(old & bits); });
  }
  T fetch_xor(T bits, order = order::seq_cst) noexcept {
    return change([bits](T old) { return static_cast<T>(old ^ bits); });
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T desired, Orders...) noexcept {
    engine::active().read_modify_write(this, sizeof(T));
    const bool same = value_ == expected;
    expected = std::exchange(value_, same ? desired : value_);
    return same;
  }
  /// Never fails spuriously.
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T desired, Orders... orders) noexcept {
    return compare_exchange_strong(expected, desired, orders...);
  }

  const void* address() const noexcept { return &value_; }
  /// A look without cost in simulated time.
  T now() const noexcept { return value_; }

 private:
  template <class Change>
  T change(Change f) noexcept {
    engine::active().read_modify_write(this, sizeof(T));
    return std::exchange(value_, f(value_));
  }

  T value_{};
};

template <class T>
class cell {
 public:
  /// A comparison with the previous contents shows if a reference wrote, so they must be deterministic.
  cell() : value_{} {
    if constexpr (std::is_union_v<T>) std::memset(static_cast<void*>(&value_), 0, sizeof(T));  // a slot
  }
  template <class... Args>
    requires(sizeof...(Args) > 0)
  explicit cell(Args&&... args) : value_(std::forward<Args>(args)...) {}

  T& write_ref() noexcept {
    engine::active().refer(&value_, sizeof(T));
    return value_;
  }
  const T& read_ref() const noexcept {
    engine::active().load(&value_, sizeof(T));
    return value_;
  }

 private:
  T value_;
};

/// The first two words of `both` change together (bench/baselines/double_word.hpp).
template <class Both, class Word>
bool exchange_both(Both& both, Word old_first, Word old_second, Word new_first, Word new_second) noexcept {
  engine::active().read_modify_write(&both, 2 * sizeof(Word));
  const Word old[] = {old_first, old_second};
  const Word fresh[] = {new_first, new_second};
  const bool same = std::memcmp(static_cast<const void*>(&both), old, sizeof old) == 0;
  if (same) std::memcpy(static_cast<void*>(&both), fresh, sizeof fresh);
  return same;
}

inline std::uint64_t new_object_id() noexcept { return engine::active().new_object_id(); }
inline void* cached_part(std::uint64_t identity) noexcept { return engine::active().cached_part(identity); }
inline void cache_part(std::uint64_t identity, void* part) noexcept { engine::active().cache_part(identity, part); }
using native::copy_of_library;
using native::last_work;
using native::lasting;
using native::thread_tenure;
inline unsigned thread_index() noexcept { return engine::active().current(); }
inline thread_tenure own_tenure() noexcept { return {thread_index(), 0}; }
/// Simulated threads keep their numbers to the end, and do nothing when they end.
inline bool lasts(const thread_tenure&) noexcept { return true; }
inline void before_thread_end(const std::shared_ptr<last_work>&) noexcept {}
inline const void*& innermost() noexcept { return engine::active().innermost(); }
/// The per-thread data of a simulated thread: its fibers, and one object of each type.
struct kept_data {
  template <class T>
  static inline char type_of = 0;
  detail::siblings* siblings = nullptr;
  std::vector<std::pair<const void*, std::shared_ptr<void>>> all;  // with the address of type_of<T>
};
template <class T>
T& own() {
  std::shared_ptr<void>& kept = engine::active().own();
  if (kept == nullptr) kept = std::make_shared<kept_data>();
  auto& all = static_cast<kept_data*>(kept.get())->all;
  for (const auto& [type, one] : all)
    if (type == &kept_data::type_of<T>) return *static_cast<T*>(one.get());
  return *static_cast<T*>(all.emplace_back(&kept_data::type_of<T>, std::make_shared<T>()).second.get());
}
inline detail::siblings*& own_siblings() noexcept {
  static constinit detail::siblings* none = nullptr;
  const std::shared_ptr<void>& kept = engine::active().own();
  return kept == nullptr ? none : static_cast<kept_data*>(kept.get())->siblings;
}
/// No effect: simulated threads do not need it.
template <class Check>
const void* at_thread_end() noexcept {
  return nullptr;
}

/// No thread forks.
inline unsigned fork_generation() noexcept { return 0; }
inline void switch_fiber() noexcept { engine::active().switch_fiber(); }
inline void relax() noexcept { engine::active().pause(); }
inline void yield() noexcept { engine::active().yield(); }
inline void nap() noexcept { engine::active().yield(); }
inline void light_fence() noexcept {}
inline void full_fence() noexcept { engine::active().fence(); }
inline void heavy_fence(futex_scope = futex_scope::process) noexcept { engine::active().heavy_fence(); }
inline bool try_heavy_fence(futex_scope = futex_scope::process) noexcept {
  engine::active().heavy_fence();
  return true;
}
inline bool asymmetric_fences(futex_scope = futex_scope::process) noexcept { return true; }

inline futex_reason futex_wait_any(const futex_words& words, deadline until) noexcept {
  if (until != no_deadline) engine::active().fail("a simulated wait has a deadline, and the clock is not simulated");
  const auto at = [&](unsigned i) { return static_cast<const atomic<std::uint32_t>*>(words[i].at); };
  for (unsigned i = 0; i < words.count(); ++i) static_cast<void>(at(i)->load(std::memory_order_relaxed));
  std::vector<engine::futex> all;
  for (unsigned i = 0; i < words.count(); ++i) {
    if (at(i)->now() != words[i].value) return futex_reason::changed;
    all.push_back({at(i)->address(), words.count() == 1 ? words[i].bits : ~0U});
  }
  engine::active().sleep(std::move(all));
  return futex_reason::woken;
}

inline futex_reason futex_wait(const atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t bits,
                               deadline until, futex_scope scope) noexcept {
  futex_words one;
  one.add({&word, expected, bits, scope}, false);
  return simulation::futex_wait_any(one, until);
}

inline int futex_wake(const atomic<std::uint32_t>& word, int count, std::uint32_t bits, futex_scope) noexcept {
  return static_cast<int>(engine::active().wake(word.address(), static_cast<unsigned>(count), bits));
}

}  // namespace muster::inline MUSTER_ABI::simulation
