// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// notify_fd.hpp: a file descriptor that becomes readable when a queue has an item (notify_fd), or room
// (notify_room_fd), for event loops (poll, epoll, io_uring).
//
// Protocol   take items until there are none, then arm(). If that returns false, there is an item or the end by now:
//            take again. If it returns true, the next item or close() makes the descriptor readable until the next
//            arm(). Works with level-triggered and edge-triggered polling. For room, push until try_push returns full,
//            then arm(). If try_push returns busy, arm() returns false. Then push again later, after a timer: no event
//            announces that a stopped consumer has freed a cell.
// Cost       one signal for each arm(), however many items. Other pushes pay nothing; but after a signal, up to fifteen
//            pushes into an spmc_queue each make a system call that finds no sleeper. arm() executes a heavy fence
//            (microseconds), so take all items before, or push all there is room for.
// Others     any number of descriptors, threads and fibers may wait for one queue: an item signals all armed
//            descriptors, even if a thread takes it first, so there may be none left when the event loop looks. The
//            same is true of room.
// Progress   a push or pop that signals makes a system call. It waits for no other thread.
// Threads    any thread may poll the descriptor. One at a time may arm() it, and only a thread that may pop, or push.
// Lifetime   it must end before its queue. Remove it from all pollers before.
// fork(2)    a child process shares the descriptor. It must not arm() it, but may destroy it.
// Errors     the constructor throws std::system_error.
// Use it     to serve a queue beside sockets and timers. A thread that serves only queues: pop() or select().
#pragma once

#include <muster/base/detail/brief_wait.hpp>     // brief_wait
#include <muster/base/detail/event_fd.hpp>       // event_fd
#include <muster/base/detail/listeners.hpp>      // listener
#include <muster/base/sync.hpp>                  // sync::atomic
#include <muster/queue/detail/watch_access.hpp>  // watch_of

namespace muster::inline MUSTER_ABI {

namespace detail {

/// The events that a notifier waits for.
struct of_items {
  template <class Queue>
  static auto watch(Queue& queue) {
    return watch_access::watch(queue, true);
  }
  template <class Queue>
  static auto& events(Queue& queue) noexcept {
    return watch_access::events(queue);
  }
};
struct of_room {
  template <class Queue>
  static auto watch(Queue& queue) {
    return watch_access::push_watch(queue);
  }
  template <class Queue>
  static auto& events(Queue& queue) noexcept {
    return watch_access::push_events(queue);
  }
};

/// Signals an object once for each arm(). Signal is event_fd but in tests.
template <class Queue, class Signal, class Events = of_items>
class notifier final : private listener {
  static_assert(decltype(Events::watch(std::declval<Queue&>()))::policy::parks,
                "notify_fd: operations of a queue with wait::spin signal nothing; choose another policy");

 public:
  explicit notifier(Queue& queue) : listener(kind::watcher), queue_(queue) {}
  ~notifier() { settle(); }

  bool arm() {
    if (settle()) signal_.clear();
    auto watch = Events::watch(queue_);
    watch.before_sleep();
    armed_ = watch.events().listen(*this, watch.listen_bits(), [&watch] { return watch.ready(); });
    return armed_;
  }
  const Signal& signal() const noexcept { return signal_; }

 private:
  void notify() noexcept override {
    signal_.signal();
    // (1) release: pairs with (2). This thread no longer accesses the object.
    done_.store(true, std::memory_order_release);
  }

  /// Disarms, and waits for a thread that is just signalling. Returns true if it has been signalled.
  bool settle() noexcept {
    if (!std::exchange(armed_, false)) return false;
    // (2) acquire: pairs with (1).
    if (!done_.load(std::memory_order_acquire)) {
      if (Events::events(queue_).stop_listening(*this)) return false;
      for (brief_wait wait; !done_.load(std::memory_order_acquire);) wait.pause();  // (2)
    }
    done_.store(false, std::memory_order_relaxed);
    return true;
  }

  Queue& queue_;
  Signal signal_;
  bool armed_ = false;              // it is listed, or has been notified since
  sync::atomic<bool> done_{false};  // and has been signalled
};

}  // namespace detail

/// The file descriptor of one event loop for one queue, or for one handle of its consumers.
template <detail::watchable Queue>
class notify_fd {
 public:
  /// For this queue, which must outlive the object. Throws std::system_error if there is no descriptor.
  explicit notify_fd(Queue& queue) : items_(queue) {}
  notify_fd(const notify_fd&) = delete;
  notify_fd& operator=(const notify_fd&) = delete;

  /// The descriptor; readable when signalled. Do not read it or close it: arm() and the destructor do.
  int fd() const noexcept { return items_.signal().number(); }
  /// Call when try_pop has found nothing. Returns true if the next item, or the end, will make the descriptor readable;
  /// false if there is something to pop now.
  [[nodiscard]] bool arm() { return items_.arm(); }

 private:
  detail::notifier<Queue, detail::event_fd> items_;
};

/// The same for a producer: the file descriptor of one event loop that pushes into a queue, or by one handle.
template <detail::push_watchable Queue>
class notify_room_fd {
 public:
  /// For this queue, which must outlive the object. Throws std::system_error if there is no descriptor.
  explicit notify_room_fd(Queue& queue) : room_(queue) {}
  notify_room_fd(const notify_room_fd&) = delete;
  notify_room_fd& operator=(const notify_room_fd&) = delete;

  /// As of notify_fd.
  int fd() const noexcept { return room_.signal().number(); }
  /// Call when try_push has returned full. Returns true if the next room, or the end, will make the descriptor
  /// readable; false if there is room now, or the queue is closed.
  [[nodiscard]] bool arm() { return room_.arm(); }

 private:
  detail::notifier<Queue, detail::event_fd, detail::of_room> room_;
};

}  // namespace muster::inline MUSTER_ABI
