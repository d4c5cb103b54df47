// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sync_side.hpp: the names that every side of muster/base/sync.hpp must have, as concepts.
#pragma once

#include <muster/base/sync.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace muster::inline MUSTER_ABI::seams {

template <class Atomic, class T>
concept atomic_of =
    std::default_initializable<Atomic> && std::constructible_from<Atomic, T> && !std::is_copy_constructible_v<Atomic> &&
    !std::is_copy_assignable_v<Atomic> && requires(Atomic a, const Atomic c, T expected, T value, std::memory_order o) {
      { c.load(o) } -> std::same_as<T>;
      { a.store(value, o) } -> std::same_as<void>;
      { a.exchange(value, o) } -> std::same_as<T>;
      { a.compare_exchange_strong(expected, value, o) } -> std::same_as<bool>;
      { a.compare_exchange_strong(expected, value, o, o) } -> std::same_as<bool>;
      { a.compare_exchange_weak(expected, value, o) } -> std::same_as<bool>;
      { a.compare_exchange_weak(expected, value, o, o) } -> std::same_as<bool>;
    };

template <class Atomic, class T>
concept integral_atomic_of = atomic_of<Atomic, T> && requires(Atomic a, T value, std::memory_order o) {
  { a.fetch_add(value, o) } -> std::same_as<T>;
  { a.fetch_sub(value, o) } -> std::same_as<T>;
  { a.fetch_or(value, o) } -> std::same_as<T>;
  { a.fetch_and(value, o) } -> std::same_as<T>;
  { a.fetch_xor(value, o) } -> std::same_as<T>;
};

/// write_ref() counts as a write for the checker and for the simulation, read_ref() as a read.
template <class Cell, class T>
concept cell_of =
    std::default_initializable<Cell> && std::constructible_from<Cell, T> && requires(Cell c, const Cell k) {
      { c.write_ref() } -> std::same_as<T&>;
      { k.read_ref() } -> std::same_as<const T&>;
    };

/// Functions of the calling thread. `Word` is the side's atomic of a futex.
template <class Word>
concept waits_and_fences = requires(const Word& word, const futex_words& words, deadline until, futex_scope scope) {
  sync::relax();
  sync::yield();
  sync::nap();
  sync::light_fence();
  sync::full_fence();
  sync::heavy_fence(scope);
  { sync::try_heavy_fence(scope) } -> std::same_as<bool>;
  { sync::asymmetric_fences(scope) } -> std::same_as<bool>;
  { sync::futex_wait(word, 0U, ~0U, until, scope) } -> std::same_as<futex_reason>;
  { sync::futex_wait_any(words, until) } -> std::same_as<futex_reason>;
  { sync::futex_wake(word, 1, ~0U, scope) } -> std::same_as<int>;
  sync::switch_fiber();
};

/// A check at the end of a thread.
struct always {
  static bool passes(bool) noexcept { return true; }
};

/// Data of a thread. `T` is a type of which each thread has one.
template <class T>
concept keeps_for_threads = requires(const sync::thread_tenure& tenure, const std::shared_ptr<sync::last_work>& work,
                                     std::uint64_t identity, void* part, T& one) {
  { sync::thread_index() } -> std::same_as<unsigned>;
  { sync::own_tenure() } -> std::same_as<sync::thread_tenure>;
  { sync::copy_of_library() } -> std::same_as<const void*>;
  { sync::fork_generation() } -> std::same_as<unsigned>;
  { sync::lasts(tenure) } -> std::same_as<bool>;
  sync::before_thread_end(work);
  { sync::innermost() } -> std::same_as<const void*&>;
  { sync::own_siblings() } -> std::same_as<detail::siblings*&>;
  { sync::template own<T>() } -> std::same_as<T&>;
  { sync::template at_thread_end<always>() } -> std::same_as<const void*>;
  { sync::new_object_id() } -> std::same_as<std::uint64_t>;
  { sync::cached_part(identity) } -> std::same_as<void*>;
  sync::cache_part(identity, part);
  { sync::lasting<T>::take() } -> std::same_as<T&>;
  sync::lasting<T>::give_back(one);
};

struct two_words {
  std::uint64_t first = 0;
  void* second = nullptr;
};

static_assert(integral_atomic_of<sync::atomic<std::uint8_t>, std::uint8_t>);
static_assert(integral_atomic_of<sync::atomic<std::uint32_t>, std::uint32_t>);
static_assert(integral_atomic_of<sync::atomic<std::uint64_t>, std::uint64_t>);
static_assert(atomic_of<sync::atomic<bool>, bool> && atomic_of<sync::atomic<void*>, void*>);
static_assert(cell_of<sync::cell<int>, int> && cell_of<sync::cell<two_words>, two_words>);
static_assert(waits_and_fences<sync::atomic<std::uint32_t>> && keeps_for_threads<two_words>);

}  // namespace muster::inline MUSTER_ABI::seams
