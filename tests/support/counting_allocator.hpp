// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counting_allocator.hpp: operator new and delete of a test program, which count allocations, and fail on request. One
// source file of a program includes it. The sanitizers replace them themselves; then nothing is counted or fails.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <thread>

namespace muster_test {

/// Of all threads.
inline std::atomic<std::size_t> allocations{0};
inline std::atomic<std::size_t> deallocations{0};

/// Of this thread.
inline constexpr long for_ever = -1;
inline thread_local long allocations_left = for_ever;  // then they fail
inline thread_local std::size_t bytes_allocated = 0;

/// True if runs allocate nothing. A thread of a pool does when it begins, or executes something for the first time: so
/// there are several attempts, and each would fail if runs allocated.
template <class Run>
bool allocates_nothing(Run run) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::size_t before = allocations;
    for (int i = 0; i < 10; ++i) run();
    if (allocations == before) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

namespace detail {
[[maybe_unused]] inline void* allocate(std::size_t bytes, std::size_t alignment) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  bytes_allocated += bytes;
  ++allocations;
  const std::size_t room = (bytes + alignment) / alignment * alignment;  // a multiple, and not 0
  if (void* const there = std::aligned_alloc(alignment, room); there != nullptr) return there;
  throw std::bad_alloc();
}
[[maybe_unused]] inline void deallocate(void* there) noexcept {
  if (there != nullptr) ++deallocations;
  std::free(there);
}
}  // namespace detail

}  // namespace muster_test

#if !defined(MUSTER_ADDRESS_SANITIZER) && !defined(MUSTER_THREAD_SANITIZER)
// Not inline: the compiler would see malloc meet delete, and free meet new.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return muster_test::detail::allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return muster_test::detail::allocate(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* there) noexcept { muster_test::detail::deallocate(there); }
[[gnu::noinline]] void operator delete(void* there, std::size_t) noexcept { muster_test::detail::deallocate(there); }
[[gnu::noinline]] void operator delete(void* there, std::align_val_t) noexcept {
  muster_test::detail::deallocate(there);
}
[[gnu::noinline]] void operator delete(void* there, std::size_t, std::align_val_t) noexcept {
  muster_test::detail::deallocate(there);
}
#endif
