// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// double_word.hpp: two atomic words that lie side by side and change together. x86-64, by cmpxchg16b. A thread
// sanitizer does not see that as a synchronization.
#pragma once

#include <muster/base/sync.hpp>  // sync::atomic

#include <cstdint>
#include <type_traits>

namespace muster::bench::inline MUSTER_ABI {

#if defined(__x86_64__)
inline constexpr bool double_words = true;
#else
inline constexpr bool double_words = false;
#endif

/// Changes the first two words of `both` from <old_first, old_second> to <new_first, new_second> if no other thread
/// has changed them. `both` is aligned to 16 bytes. Always fails where double_words is false.
template <class Both, class Word>
bool exchange_both([[maybe_unused]] Both& both, [[maybe_unused]] Word old_first, [[maybe_unused]] Word old_second,
                   [[maybe_unused]] std::type_identity_t<Word> new_first,
                   [[maybe_unused]] std::type_identity_t<Word> new_second) noexcept {
  static_assert(sizeof(Word) == 8 && alignof(Both) >= 16, "cmpxchg16b wants two words of eight bytes, aligned");
#if defined(MUSTER_SIMULATION)
  return sync::exchange_both(both, old_first, old_second, new_first, new_second);
#elif defined(__x86_64__)
  bool done = false;
  asm volatile("lock cmpxchg16b %1"
               : "=@ccz"(done), "+m"(both), "+a"(old_first), "+d"(old_second)
               : "b"(new_first), "c"(new_second)
               : "memory");
  return done;
#else
  return false;
#endif
}

}  // namespace muster::bench::inline MUSTER_ABI
