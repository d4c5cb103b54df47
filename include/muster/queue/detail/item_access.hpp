// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/item_access.hpp: how items leave their cells, and how bulk operations hold the iterators that they are given.
#pragma once

#include <muster/base/arch.hpp>     // leave_modified, line_size
#include <muster/base/finally.hpp>  // finally
#include <muster/base/slot.hpp>     // slot
#include <muster/base/sync.hpp>     // sync::cell
#include <muster/queue/status.hpp>  // queue_result

#include <cstdint>      // std::uint64_t
#include <iterator>     // std::iter_reference_t, std::forward_iterator
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::move

namespace muster::inline MUSTER_ABI::detail {

/// Destroys what is left of an item that has been moved out. When that has read all of its lines, and there may be some
/// in which its consumer writes nothing else (beside it are two words at most), they are left modified.
template <class T>
void vacate(slot<T>& place) noexcept {
  place.destroy();
  if constexpr (std::is_trivially_copyable_v<T> && sizeof(T) > line_size - 2 * sizeof(std::uint64_t))
    leave_modified(&place, sizeof(place));
}

/// Moves the item out of its cell and destroys what is left; then `release()` gives the cell back, in any case.
template <class T, class Release>
queue_result<T> take(sync::cell<slot<T>>& item, Release release) {
  slot<T>& place = item.ref();
  const finally emptied([&] {
    detail::vacate(place);
    release();
  });
  return queue_result<T>(std::in_place, std::move(place.value));
}

/// The same into an output iterator.
template <class T, class OutputIt, class Release>
void take_to(sync::cell<slot<T>>& item, OutputIt& out, Release release) {
  slot<T>& place = item.ref();
  const finally emptied([&] {
    detail::vacate(place);
    release();
  });
  *out = std::move(place.value);
  ++out;
}

/// Whether an iterator can go over its range again. One of a single pass loses what it is moved past, and may wait,
/// when it is moved on, for whoever pops the item before.
template <class It>
inline constexpr bool passes_again = std::forward_iterator<It>;
template <class It>
inline constexpr bool passes_again<std::move_iterator<It>> = passes_again<It>;  // though its items are gone then

/// Whether take_to can never throw, so that several items may be claimed at once without risk to those not yet taken.
template <class T, class OutputIt>
inline constexpr bool takes_without_throwing =
    noexcept(*std::declval<OutputIt&>() = std::declval<T&&>()) && noexcept(++std::declval<OutputIt&>());

/// An iterator for a loop: our own, so that it can be in a register. Where moving it may throw, the caller's: whoever
/// has claimed items, or has been woken for one, must not leave without them.
template <class It>
inline constexpr bool moves_without_throwing =
    std::is_nothrow_move_constructible_v<It> && std::is_nothrow_move_assignable_v<It>;
template <class It>
std::conditional_t<moves_without_throwing<It>, It, It&> in_hand(It& it) noexcept {
  if constexpr (moves_without_throwing<It>) return std::move(it);
  else return it;
}
template <class It>
void hand_back(It& ours, It& it) noexcept {
  if constexpr (moves_without_throwing<It>) it = std::move(ours);
}

}  // namespace muster::inline MUSTER_ABI::detail
