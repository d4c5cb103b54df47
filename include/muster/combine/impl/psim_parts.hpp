// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_parts.hpp: what psim is made of and says nothing about it: how an operation is called, how values travel as
// words, and arrays that are apart from each other.
#pragma once

#include <muster/base/arch.hpp>    // isolation_size
#include <muster/base/config.hpp>  // MUSTER_ABI

#include <array>        // words
#include <bit>          // std::bit_cast
#include <concepts>     // std::same_as
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <cstring>      // std::memcpy
#include <functional>   // std::invoke
#include <memory>       // std::destroy_n
#include <new>          // std::align_val_t
#include <type_traits>  // std::is_nothrow_invocable_v

namespace muster::inline MUSTER_ABI {

/// The workspace of those who need none.
struct no_workspace {};

namespace detail {

/// How an operation is called: with the state, and with the workspace if it takes one.
template <class F, class State, class Workspace>
struct psim_call {
  static constexpr bool takes_workspace = false;
  static constexpr bool is_nothrow = std::is_nothrow_invocable_v<const F&, State&>;
  using result = std::invoke_result<const F&, State&>;
};
template <class F, class State, class Workspace>
  requires(!std::same_as<Workspace, no_workspace> && std::is_invocable_v<const F&, State&, Workspace&>)
struct psim_call<F, State, Workspace> {
  static constexpr bool takes_workspace = true;
  static constexpr bool is_nothrow = std::is_nothrow_invocable_v<const F&, State&, Workspace&>;
  using result = std::invoke_result<const F&, State&, Workspace&>;
};
template <class F, class State, class Workspace>
using psim_answer = typename psim_call<std::decay_t<F>, State, Workspace>::result::type;

/// An array that shares no cache line with anything else. Its atomics are zero; its cells are not touched.
template <class T>
class isolated_array {
 public:
  isolated_array() = default;
  explicit isolated_array(std::size_t n) : size_(n), first_(static_cast<T*>(::operator new(bytes(n), alignment))) {
    std::uninitialized_default_construct_n(first_, n);
  }
  ~isolated_array() {
    std::destroy_n(first_, size_);
    ::operator delete(first_, alignment);
  }
  isolated_array(const isolated_array&) = delete;
  isolated_array& operator=(const isolated_array&) = delete;

  T* get() const noexcept { return first_; }
  T& operator[](std::size_t i) const noexcept { return first_[i]; }

 private:
  static constexpr std::align_val_t alignment{isolation_size};
  static std::size_t bytes(std::size_t n) { return (n * sizeof(T) / isolation_size + 1) * isolation_size; }

  const std::size_t size_ = 0;
  T* const first_ = nullptr;
};

/// A value whose bytes lie at `words`.
template <class T>
T value_in(const std::uint64_t* words) noexcept {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), words, sizeof(T));
  return std::bit_cast<T>(bytes);
}

template <class T>
std::uint64_t as_word(const T& value) noexcept {
  std::uint64_t bits = 0;
  if constexpr (!std::is_empty_v<T>) std::memcpy(&bits, static_cast<const void*>(std::addressof(value)), sizeof(T));
  return bits;
}

/// Of a result.
template <class T>
inline constexpr std::size_t words_of = (sizeof(T) + 7) / 8;
template <>
inline constexpr std::size_t words_of<void> = 0;

template <class T>
std::array<std::uint64_t, words_of<T>> as_words(const T& value) noexcept {
  std::array<std::uint64_t, words_of<T>> words{};
  if constexpr (!std::is_empty_v<T>)
    std::memcpy(words.data(), static_cast<const void*>(std::addressof(value)), sizeof(T));
  return words;
}

}  // namespace detail

}  // namespace muster::inline MUSTER_ABI
