// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// detail/watch_access.hpp: how others than its own operations wait for a queue.
//
// A queue has a private class pop_watch, made for each wait after a try_pop has found nothing. Its ready() returns true
// when a try_pop would find an item or the end, or when another watch is needed. It becomes true only by an event of
// events() under key() or listen_bits(). before_sleep() comes before the announcement to events(). `sleeps` promises
// that before_sleep() is called before the waiter relies on ready().
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <utility>  // std::declval

namespace muster::inline MUSTER_ABI::detail {

/// push_watch is the same for a producer, after a try_push has found no room.
struct watch_access {
  template <class Queue>
  static typename Queue::pop_watch watch(Queue& queue, bool sleeps) {
    return typename Queue::pop_watch(queue, sleeps);
  }
  template <class Queue>
  static auto& events(Queue& queue) noexcept {
    return Queue::pop_watch::events_of(queue);
  }
  template <class Queue>
  static typename Queue::push_watch push_watch(Queue& queue) {
    return typename Queue::push_watch(queue);
  }
  template <class Queue>
  static auto& push_events(Queue& queue) noexcept {
    return Queue::push_watch::events_of(queue);
  }
};
template <class Queue>
using watch_of = decltype(watch_access::watch(std::declval<Queue&>(), true));

template <class Queue>
using push_watch_of = decltype(watch_access::push_watch(std::declval<Queue&>()));

/// A queue of one process, or a handle of its consumers.
template <class Queue>
concept watchable = requires { typename watch_of<Queue>; };
template <class Queue>
concept push_watchable = requires { typename push_watch_of<Queue>; };

}  // namespace muster::inline MUSTER_ABI::detail
