// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// select.hpp: pops from the first of several queues that has an item.
//
// Which      spsc_queue, spmc_queue, mpmc_queue, lanes and their consumer_handles, of any items, mixed. The caller must
//            be allowed to pop from each. A shared_queue cannot take part: its waits must look for dead processes.
// Order      FIFO in each queue; none between queues.
// Fairness   the search starts at a queue chosen at random, each time anew, so a queue that always has items keeps no
//            other one waiting.
// Progress   try_select is lock-free. select waits while it finds no item; it never holds a claim while it waits.
// Waiting    as the most patient of the queues' wait policies says: it sleeps if all of them do. The thread or fiber
//            sleeps for all queues at once (base/detail/wait_any.hpp). So a push into a queue with no sleeper still
//            costs one load, and after a select has slept for a queue, a push that finds sleepers wakes all of them.
// Closed     a queue that is closed and drained takes no part; when all are, the result is `closed`.
// Stopped    a thread stopped or killed inside holds an item only as in the queue's own try_pop.
// Memory     none; on the stack, two of the items.
// Cost       for k queues, at most k calls of try_pop for each attempt, and O(k) for each look of a wait. A sleep
//            announces itself by two read-modify-writes in each queue, and makes two system calls for all of them
//            (membarrier, futex_waitv).
// Errors     an exception of an item's move leaves select, and that item is lost.
// Use it     when one thread serves several kinds of requests. If all items have one type and no queue is preferred,
//            lanes is faster. Beside sockets or timers: see notify_fd in docs/guide/queue.md.
#pragma once

#include <muster/base/detail/siblings.hpp>       // waiter
#include <muster/base/detail/utilities.hpp>      // std::max
#include <muster/base/detail/wait_any.hpp>       // wait_any
#include <muster/base/sync.hpp>                  // sync::own
#include <muster/queue/detail/operations.hpp>    // gave_up
#include <muster/queue/detail/wait_limit.hpp>    // wait_limit
#include <muster/queue/detail/watch_access.hpp>  // watch_of
#include <muster/queue/status.hpp>               // queue_result

#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <optional>     // a queue that is not closed
#include <stop_token>   // cancellation
#include <tuple>        // the queues
#include <type_traits>  // std::true_type
#include <utility>      // std::move
#include <variant>      // the item

namespace muster::inline MUSTER_ABI {

/// The item, whose index() is that of its queue; or the reason why there is none.
template <class... Queues>
using select_result = queue_result<std::variant<typename Queues::value_type...>>;

namespace detail {

/// Where the thread's next search starts.
class select_start {
 public:
  constexpr select_start() = default;
  std::size_t next(std::size_t queues) noexcept {
    // xorshift: Marsaglia, "Xorshift RNGs", 2003. A counter would be unfair to two selects in turn.
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (state_ >> 32) * queues >> 32;
  }

 private:
  std::uint64_t state_ = 0x9E37'79B9'7F4A'7C15;
};

/// One call of select().
template <class... Queues>
class selection {
 public:
  using result = select_result<Queues...>;

  explicit selection(Queues&... queues) noexcept : queues_(queues...) {}

  /// Takes an item of the first queue that has one, in the order from a random queue on.
  result try_once() {
    why_ = queue_status::closed;
    return search(sync::own<select_start>().next(count), std::index_sequence_for<Queues...>{});
  }

  result within(const wait_limit& limit) {
    for (;;) {
      result found = try_once();
      if (found || found.status() == queue_status::closed) return found;
      if (limit.over() || !await(limit)) return found;
    }
  }

 private:
  static constexpr std::size_t count = sizeof...(Queues);
  static_assert(count != 0, "select: no queue is given; name at least one");
  static_assert(count <= futex_words::most, "select: at most 64 queues; use lanes for more");

  template <class... N>
  static constexpr unsigned most(N... numbers) noexcept {
    unsigned all = 0;
    ((all = std::max(all, numbers)), ...);
    return all;
  }
  /// The most patient of the queues' policies.
  struct policy {
    static constexpr bool parks = (watch_of<Queues>::policy::parks && ...);
    static constexpr bool adapts = (watch_of<Queues>::policy::adapts || ...);
    static constexpr unsigned pauses = most(watch_of<Queues>::policy::pauses...);
    static constexpr unsigned yields = most(watch_of<Queues>::policy::yields...);
  };

  /// Waits for all queues that are not closed.
  class any_waiter final : public waiter {
   public:
    any_waiter(selection& all, const wait_limit& limit) : waiter(policy{}, limit.until), limit_(limit) {
      open(all, std::index_sequence_for<Queues...>{});
    }
    /// Asks every queue: before a sleep, lanes must look at all of their lanes (lane_bitmap::clear_empty).
    bool ready() noexcept override {
      bool some = limit_.stopped();
      for_each([&some](auto& watch) { some |= watch.ready(); });
      return some;
    }
    void announce(futex_words& words) noexcept override {
      for_each([&](auto& watch) {
        watch.before_sleep();
        watch.events().announce(watch.key(), words);
      });
    }
    template <class Do>
    void for_each(Do one) {
      std::apply([&](auto&... each) { ((each ? one(*each) : void()), ...); }, watches_);
    }

   private:
    template <std::size_t... Index>
    void open(selection& all, std::index_sequence<Index...>) {
      ((all.closed_[Index] ? void()
                           : void(std::get<Index>(watches_).emplace(std::get<Index>(all.queues_), policy::parks))),
       ...);
    }

    const wait_limit& limit_;
    std::tuple<std::optional<watch_of<Queues>>...> watches_;
  };

  /// Returns false if the limit expired first.
  bool await(const wait_limit& limit) {
    any_waiter one(*this, limit);
    if (limit.stop == nullptr) return wait_any(one);
    const std::stop_callback wake(*limit.stop,
                                  [&one] { one.for_each([](auto& watch) { watch.events().wake_sleepers(); }); });
    return wait_any(one);
  }

  template <std::size_t... Index>
  result search(std::size_t at, std::index_sequence<Index...>) {
    static constexpr result (selection::* tries[])() = {&selection::template try_pop<Index>...};
    for (std::size_t left = count; left != 0; --left, at = at + 1 == count ? 0 : at + 1)
      if (result found = (this->*tries[at])()) return found;
    return why_;
  }
  template <std::size_t Index>
  result try_pop() {
    auto item = std::get<Index>(queues_).try_pop();
    if (item) return result(std::in_place, std::in_place_index<Index>, *std::move(item));
    closed_[Index] = item.status() == queue_status::closed;
    if (!closed_[Index] && why_ != queue_status::busy) why_ = item.status();
    return item.status();
  }

  const std::tuple<Queues&...> queues_;
  bool closed_[count] = {};  // in the last search
  queue_status why_ = queue_status::closed;
};

}  // namespace detail

/// Takes an item from one of the queues; waits while all are empty. Returns no value only when all are closed and
/// drained.
template <detail::watchable... Queues>
select_result<Queues...> select(Queues&... queues) {
  return detail::selection<Queues...>(queues...).within(wait_limit{});
}
/// As select, until a stop is requested. Returns the item, closed, or why it gave up: empty or busy.
template <detail::watchable... Queues>
select_result<Queues...> select(std::stop_token stop, Queues&... queues) {
  return detail::selection<Queues...>(queues...).within(wait_limit{no_deadline, &stop});
}
/// Takes an item if a queue has one now. Returns the item, closed, empty or busy.
template <detail::watchable... Queues>
select_result<Queues...> try_select(Queues&... queues) {
  return detail::selection<Queues...>(queues...).try_once();
}
/// As select, with a time limit. Returns the item, closed, or why it gave up: empty or busy.
template <class Rep, class Period, detail::watchable... Queues>
select_result<Queues...> select_for(std::chrono::duration<Rep, Period> time, Queues&... queues) {
  return detail::selection<Queues...>(queues...).within(wait_limit{detail::deadline_after(time)});
}
template <class Clock, class Duration, detail::watchable... Queues>
select_result<Queues...> select_until(std::chrono::time_point<Clock, Duration> when, Queues&... queues) {
  return detail::attempt_until(
      when, [&](deadline until) { return detail::selection<Queues...>(queues...).within(wait_limit{until}); },
      [](const auto& found) { return detail::gave_up(found.status()); });
}

}  // namespace muster::inline MUSTER_ABI
