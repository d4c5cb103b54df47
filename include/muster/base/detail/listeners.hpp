// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// listeners.hpp: objects that an event notifies, where it would wake a thread: a file descriptor's, a coroutine's.
//
// Lists      an eventcount has two lists. An event notifies all watchers, and then the first of the takers, each of
//            which will consume one event. An event for all, such as an end, notifies all takers. A notified listener
//            is in no list.
// Progress   a maker of events never waits for the lists: if another thread is using them, that thread notifies on its
//            behalf. A listener that enters or leaves the lists waits for a thread that is using them.
// Killed     a thread that dies while it uses the lists leaves all listeners without further events.
#pragma once

#include <muster/base/detail/brief_wait.hpp>  // brief_wait
#include <muster/base/sync.hpp>               // sync::atomic

#include <cstdint>  // std::uint32_t
#include <utility>  // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// Is notified once, by the next event after it has been listed.
class listener {
 public:
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;
  /// Called by the maker of an event, or by another listener on its behalf. The caller does not access the listener
  /// afterwards, so this call may end its life.
  virtual void notify() noexcept = 0;

 protected:
  enum class kind : unsigned char { watcher, taker };
  explicit listener(kind which) noexcept : takes_(which == kind::taker) {}
  ~listener() = default;

 private:
  friend class listeners;
  sync::cell<listener*> next_{nullptr};
  const bool takes_;
};

/// The two lists, and the turn of the thread that uses them.
class listeners {
 public:
  /// As a number of events: notifies all listeners.
  static constexpr std::uint64_t all = std::uint64_t{1} << 32;

  /// Takes the turn; waits for it.
  void enter() noexcept {
    brief_wait turn;
    std::uint64_t none = 0;
    // (1) acquire: pairs with (3). This thread sees the lists as the last one left them.
    while (!users_.compare_exchange_strong(none, 1, std::memory_order_acquire, std::memory_order_relaxed)) {
      none = 0;
      turn.pause();
    }
  }
  /// Takes the turn for events; or returns false if another thread has it, which then serves these events.
  bool enter_for(std::uint64_t events) noexcept {
    // (2) acq_rel: pairs with (3). As (1); and what the event has made is visible to the listener that is notified for
    // it, which may have to look if there is more.
    return users_.fetch_add(events, std::memory_order_acq_rel) == 0;
  }

  /// Watchers, the latest first; and takers, the oldest first.
  class lists {
   public:
    bool empty() const noexcept { return watchers_ == nullptr && takers_ == nullptr; }
    void add(listener& one) noexcept {
      one.next_.write_ref() = nullptr;
      if (!one.takes_) {
        one.next_.write_ref() = std::exchange(watchers_, &one);
      } else {
        (last_ == nullptr ? takers_ : last_->next_.write_ref()) = &one;
        last_ = &one;
      }
    }
    /// Returns false if it is in neither.
    bool remove(listener& one) noexcept {
      listener* before = nullptr;
      for (listener* at = one.takes_ ? takers_ : watchers_; at != nullptr;
           before = std::exchange(at, at->next_.read_ref())) {
        if (at != &one) continue;
        listener*& link = before != nullptr ? before->next_.write_ref() : one.takes_ ? takers_ : watchers_;
        link = one.next_.read_ref();
        if (last_ == &one) last_ = before;
        return true;
      }
      return false;
    }
    /// Moves all watchers and one taker, for one event.
    void move_for_event(lists& to) noexcept {
      while (watchers_ != nullptr) to.add(next_of(watchers_));
      if (takers_ == nullptr) return;
      to.add(next_of(takers_));
      if (takers_ == nullptr) last_ = nullptr;
    }
    /// Notifies the watchers, which wait for nothing, and then the takers, whose notifications may run other code.
    void notify() noexcept {
      for (listener* chain : {watchers_, takers_})
        while (chain != nullptr) next_of(chain).notify();
    }

   private:
    static listener& next_of(listener*& chain) noexcept { return *std::exchange(chain, chain->next_.read_ref()); }

    listener* watchers_ = nullptr;
    listener* takers_ = nullptr;
    listener* last_ = nullptr;  // of the takers
  };

  // The following are for the thread that has the turn.

  lists& under_turn() noexcept { return lists_.write_ref(); }
  /// Ends the turn that was taken for `events`, after serving these and later ones. Returns the listeners to
  /// notify, without a turn. `when_empty()` is called if both lists are empty.
  template <class WhenEmpty>
  lists leave(std::uint64_t events, WhenEmpty when_empty) noexcept {
    lists called;
    std::uint64_t known = events == 0 ? 1 : events, served = known - events;
    do {
      for (; served != known && !lists_.read_ref().empty(); ++served) lists_.write_ref().move_for_event(called);
      served = known;
      if (lists_.read_ref().empty()) when_empty();
      // (3) release on success, acquire on failure: pairs with (1) and (2).
    } while (!users_.compare_exchange_strong(known, 0, std::memory_order_release, std::memory_order_acquire));
    return called;
  }

 private:
  // users_: 0 while no thread has the turn; else 1 and the events that came during the turn, or the events for which it
  // was taken and those.
  sync::atomic<std::uint64_t> users_{0};
  sync::cell<lists> lists_{lists{}};  // belongs to the thread that has the turn
};

}  // namespace muster::inline MUSTER_ABI::detail
