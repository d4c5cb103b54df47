// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/item_access.hpp: moves items out of cells, lends them in their cells, and holds the iterators of bulk
// operations.
#pragma once

#include <muster/base/arch.hpp>                    // leave_modified, line_size
#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/detail/scope_exit.hpp>       // scope_exit
#include <muster/base/sync.hpp>                    // sync::cell
#include <muster/queue/status.hpp>                 // queue_result

#include <cstdint>      // std::uint64_t
#include <iterator>     // std::iter_reference_t, std::forward_iterator
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::move

namespace muster::inline MUSTER_ABI::detail {

/// Destroys an item that has been moved out. If the move has read all lines of the item, and the consumer might write
/// nothing else in some of them (beside the item are at most two words), leaves those lines modified.
template <class T>
void vacate(manual_lifetime<T>& place) noexcept {
  place.destroy();
  if constexpr (std::is_trivially_copyable_v<T> && sizeof(T) > line_size - 2 * sizeof(std::uint64_t))
    leave_modified(&place, sizeof(place));
}

/// Moves the item out of its cell and destroys the remains; then `release()` frees the cell, even after an exception.
template <class T, class Release>
queue_result<T> take(sync::cell<manual_lifetime<T>>& item, Release release) {
  manual_lifetime<T>& place = item.write_ref();
  const scope_exit emptied([&] {
    detail::vacate(place);
    release();
  });
  return queue_result<T>(std::in_place, std::move(place.value));
}

/// As take, into an output iterator.
template <class T, class OutputIt, class Release>
void take_to(sync::cell<manual_lifetime<T>>& item, OutputIt& out, Release release) {
  manual_lifetime<T>& place = item.write_ref();
  const scope_exit emptied([&] {
    detail::vacate(place);
    release();
  });
  *out = std::move(place.value);
  ++out;
}

/// Calls `use` with the item in its cell, then destroys the item; then `release()` frees the cell. Both also after an
/// exception.
template <class T, class Use, class Release>
void use_in_place(sync::cell<manual_lifetime<T>>& item, Use& use, Release release) {
  static_assert(requires(T& one) { use(one); }, "consume takes a function that can be called with an item, T&");
  manual_lifetime<T>& place = item.write_ref();
  const scope_exit emptied([&] {
    place.destroy();
    release();
  });
  static_cast<void>(use(place.value));
}

/// True if an iterator is multi-pass. A single-pass iterator loses the items it has passed, and its increment may wait
/// for the consumer that pops the previous item.
template <class It>
inline constexpr bool is_multipass = std::forward_iterator<It>;
template <class It>
inline constexpr bool is_multipass<std::move_iterator<It>> =
    is_multipass<It>;  // although its items have been moved from

/// True if take_to never throws, so that claiming several items at once cannot lose those not yet taken.
template <class T, class OutputIt>
inline constexpr bool takes_without_throwing =
    noexcept(*std::declval<OutputIt&>() = std::declval<T&&>()) && noexcept(++std::declval<OutputIt&>());

/// An iterator for a loop: a local copy that can be in a register, or the caller's if moving it may throw. A consumer
/// that has claimed items, or has been woken for one, must not leave without them.
template <class It>
inline constexpr bool moves_without_throwing =
    std::is_nothrow_move_constructible_v<It> && std::is_nothrow_move_assignable_v<It>;
template <class It>
std::conditional_t<moves_without_throwing<It>, It, It&> local_copy(It& it) noexcept {
  if constexpr (moves_without_throwing<It>) return std::move(it);
  else return it;
}
template <class It>
void store_back(It& ours, It& it) noexcept {
  if constexpr (moves_without_throwing<It>) it = std::move(ours);
}

}  // namespace muster::inline MUSTER_ABI::detail
