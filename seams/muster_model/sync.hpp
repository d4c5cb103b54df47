// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sync.hpp: the model side of the seam muster/base/sync.hpp: it replaces the standard library's atomics in headers
// compiled with MUSTER_MODEL.
#pragma once

#include <muster/base/arch.hpp>
#include <muster/base/detail/asymmetric_fence.hpp>
#include <muster/base/detail/futex.hpp>
#include <muster/base/detail/thread_state.hpp>

#include "checker/engine.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

namespace muster::inline MUSTER_ABI::model {

using where = std::source_location;
using muster_model::engine;

template <class T>
class atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "the model has atomics of up to eight bytes");

 public:
  atomic() : atomic(T{}) {}
  explicit atomic(T value) : location_(engine::running().add_location(number(value))) {}
  ~atomic() { engine::running().end_location(location_); }
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(std::memory_order o = std::memory_order_seq_cst, where site = where::current()) const {
    return value(engine::running().load(location_, o, site));
  }
  void store(T v, std::memory_order o = std::memory_order_seq_cst, where site = where::current()) {
    engine::running().store(location_, number(v), o, site);
  }
  T exchange(T v, std::memory_order o = std::memory_order_seq_cst, where site = where::current()) {
    return change("exchange", o, site, [v](T) { return v; });
  }
  T fetch_add(T v, std::memory_order o = std::memory_order_seq_cst, where site = where::current()) {
    return change("fetch_add", o, site, [v](T old) { return static_cast<T>(old + v); });
  }
  T fetch_sub(T v, std::memory_order o = std::memory_order_seq_cst, where site = where::current()) {
    return change("fetch_sub", o, site, [v](T old) { return static_cast<T>(old - v); });
  }
  T fetch_or(T v, std::memory_order o = std::memory_order_seq_cst, where site = where::current()) {
    return change("fetch_or", o, site, [v](T old) { return static_cast<T>(old | v); });
  }
  T fetch_and(T v, std::memory_order o = std::memory_order_seq_cst, where site = where::current()) {
    return change("fetch_and", o, site, [v](T old) { return static_cast<T>(old & v); });
  }
  T fetch_xor(T v, std::memory_order o = std::memory_order_seq_cst, where site = where::current()) {
    return change("fetch_xor", o, site, [v](T old) { return static_cast<T>(old ^ v); });
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure,
                               where site = where::current()) {
    return swap(expected, desired, success, failure, false, site);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order o = std::memory_order_seq_cst,
                               where site = where::current()) {
    return swap(expected, desired, o, muster_model::failing(o), false, site);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure,
                             where site = where::current()) {
    return swap(expected, desired, success, failure, true, site);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order o = std::memory_order_seq_cst,
                             where site = where::current()) {
    return swap(expected, desired, o, muster_model::failing(o), true, site);
  }

  unsigned location() const { return location_; }

 private:
  static std::uint64_t number(T v) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    return bits;
  }
  static T value(std::uint64_t bits) {
    T v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
  }
  template <class Change>
  T change(const char* what, std::memory_order o, const where& site, Change f) {
    const auto on_bits = [&f](std::uint64_t bits) { return number(f(value(bits))); };
    return value(engine::running().modify(location_, o, site, what, std::cref(on_bits)));
  }
  bool swap(T& expected, T desired, std::memory_order success, std::memory_order failure, bool weak,
            const where& site) {
    std::uint64_t bits = number(expected);
    const bool done =
        engine::running().compare_exchange(location_, bits, number(desired), success, failure, weak, site);
    expected = value(bits);
    return done;
  }

  unsigned location_;
};

/// Plain data. Two accesses by different threads, at least one by write_ref(), that are not ordered are a failure. The
/// end of the cell counts as one by write_ref(), and so does its beginning.
template <class T>
class cell {
 public:
  cell() : value_() { begin(); }
  template <class... Args>
  explicit cell(Args&&... args) : value_(std::forward<Args>(args)...) {
    begin();
  }
  cell(const cell&) = delete;
  cell& operator=(const cell&) = delete;
  ~cell() { write_ref(); }

  T& write_ref() {
    engine& e = engine::running();
    if (life_ != alive) e.fail("a cell is used after its end");
    e.plain_access();
    muster_model::view& now = e.known().now;
    const char* race = nullptr;
    if (written_at_ > now.clock(writer_)) race = "data race: two threads write the same cell";
    for (unsigned t = 0; t < muster_model::most_threads; ++t)
      if (read_at_[t] > now.clock(t)) race = "data race: a cell is written while another thread reads it";
    if (race != nullptr) e.fail(race);
    writer_ = e.current();
    written_at_ = now.clock(writer_);
    return value_;
  }
  const T& read_ref() const {
    engine& e = engine::running();
    if (life_ != alive) e.fail("a cell is used after its end");
    e.plain_access();
    muster_model::view& now = e.known().now;
    if (written_at_ > now.clock(writer_)) e.fail("data race: a cell is read while another thread writes it");
    read_at_[e.current()] = now.clock(e.current());
    return value_;
  }

 private:
  static constexpr std::uint64_t alive = 0x6c69766520636c6c;

  void begin() {
    if (!engine::is_running()) return;
    engine& e = engine::running();
    writer_ = e.current();
    written_at_ = e.known().now.clock(writer_);
  }

  T value_;
  std::uint64_t life_ = alive;  // the heap overwrites it
  unsigned writer_ = 0;
  std::uint32_t written_at_ = 0;
  mutable std::array<std::uint32_t, muster_model::most_threads> read_at_{};
};

inline std::uint64_t new_object_id() { return engine::running().new_object_id(); }
inline void* cached_part(std::uint64_t identity) { return engine::running().cached_part(identity); }
inline void cache_part(std::uint64_t identity, void* part) { engine::running().cache_part(identity, part); }
using native::copy_of_library;
using native::last_work;
using native::thread_tenure;
inline unsigned thread_index() { return engine::running().current(); }
inline thread_tenure own_tenure() { return {thread_index(), 0}; }
/// The threads of a program keep their numbers to its end, and do nothing when they end.
inline bool lasts(const thread_tenure&) { return true; }
inline void before_thread_end(const std::shared_ptr<last_work>&) {}
/// Numbers last as long as the execution, and none is reused.
template <class T>
struct lasting {
  static T& take() { return engine::running().keep_to_the_end<T>(); }
  static void give_back(T&) {}
};
inline detail::siblings*& own_siblings() {
  return engine::is_running() ? engine::running().siblings() : native::own_siblings();
}
inline const void*& innermost() { return engine::running().innermost(); }
using native::at_thread_end;
/// The per-thread data of a thread of the program: one object of each type.
template <class T>
T& own() {
  return engine::is_running() ? engine::running().own<T>() : native::own<T>();
}
/// No thread forks.
inline unsigned fork_generation() noexcept { return 0; }
inline void switch_fiber() noexcept {}

/// A hint within a bounded loop: nothing.
inline void relax() {}
/// Blocks until one of the values that the thread has read changes: the same reads would return the same values.
inline void yield(where site = where::current()) { engine::running().spin(site); }
inline void nap(where site = where::current()) { engine::running().spin(site); }

inline bool asymmetric_fences(futex_scope = futex_scope::process) { return muster_model::settings().asymmetric_fences; }
inline void light_fence() {}
inline void full_fence(where site = where::current()) { engine::running().fence(std::memory_order_seq_cst, site); }
inline void heavy_fence(futex_scope = futex_scope::process, where site = where::current()) {
  engine::running().heavy_fence(site);
}
inline bool try_heavy_fence(futex_scope = futex_scope::process, where site = where::current()) {
  engine::running().heavy_fence(site);
  return true;
}

inline futex_reason reason_of(engine::woken how) {
  switch (how) {
    case engine::woken::by_wake: return futex_reason::woken;
    case engine::woken::by_time: return futex_reason::timed_out;
    case engine::woken::not_asleep: return futex_reason::changed;
  }
  return futex_reason::woken;
}

inline futex_reason futex_wait(const atomic<std::uint32_t>& word, std::uint32_t expected, std::uint32_t bits,
                               deadline until, futex_scope, where site = where::current()) {
  const engine::futex one{word.location(), expected, bits};
  return reason_of(engine::running().futex_wait({&one, 1}, until != no_deadline, site));
}

inline futex_reason futex_wait_any(const futex_words& words, deadline until, where site = where::current()) {
  std::array<engine::futex, engine::most_futexes> all{};
  for (unsigned i = 0; i < words.count(); ++i)
    all.at(i) = {static_cast<const atomic<std::uint32_t>*>(words[i].at)->location(), words[i].value,
                 words.count() == 1 ? words[i].bits : ~0U};
  return reason_of(engine::running().futex_wait({all.data(), words.count()}, until != no_deadline, site));
}

inline int futex_wake(const atomic<std::uint32_t>& word, int count, std::uint32_t bits, futex_scope,
                      where site = where::current()) {
  return static_cast<int>(engine::running().futex_wake(word.location(), static_cast<unsigned>(count), bits, site));
}

}  // namespace muster::inline MUSTER_ABI::model
