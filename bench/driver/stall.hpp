// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stall.hpp: how long pushes take while a consumer sleeps in the middle of taking an item.
//
// Items are pushed on a fixed schedule. The latency of a push is counted from its scheduled time, so that pushes
// delayed by a stalled one count as late too. The consumer sleeps while it moves a marked item out of the queue: after
// it has claimed the item and before it releases the slot.
#pragma once

#include "driver/quantiles.hpp"
#include "driver/stream.hpp"

#include <thread>
#include <vector>

namespace muster::bench {

/// An item. If it is marked, its first move out of the queue, by a thread that allows it, sleeps.
class sluggish {
 public:
  sluggish() = default;
  explicit sluggish(item value, std::uint64_t sleep_ns = 0) noexcept : value_(value), sleep_ns_(sleep_ns) {}
  sluggish(sluggish&& from) noexcept : value_(from.value_), sleep_ns_(from.leave()) {}
  sluggish& operator=(sluggish&& from) noexcept {
    value_ = from.value_;
    sleep_ns_ = from.leave();
    return *this;
  }
  ~sluggish() = default;

  item value() const { return value_; }

  /// Moves by this thread sleep on marked items (consumers) or not (producers).
  static void sleeps_in_this_thread(bool yes) noexcept { sleeps_ = yes; }

 private:
  std::uint64_t leave() noexcept {
    if (!sleeps_ || sleep_ns_ == 0) return sleep_ns_;
    std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns_));
    return 0;
  }

  inline static thread_local bool sleeps_ = false;
  item value_ = 0;
  std::uint64_t sleep_ns_ = 0;
};

inline bool is_poison(const sluggish& s) { return is_poison(s.value()); }

/// Calls push(item, sleep) at each scheduled time, and records how much later each call returned, in nanoseconds.
template <class Push>
void push_on_schedule(const stall_spec& spec, std::vector<std::uint64_t>& late, Push push) {
  using clock = std::chrono::steady_clock;
  const clock::time_point begin = clock::now();
  for (std::uint64_t n = 0; n < spec.items; ++n) {
    const clock::time_point due = begin + std::chrono::nanoseconds(n * spec.period_ns);
    while (clock::now() < due) muster::pause();
    const bool mark = spec.sleep_every != 0 && n % spec.sleep_every == spec.sleep_every - 1;
    push(make_item(0, n + 1), mark ? spec.sleep_ns : 0);
    late[n] = static_cast<std::uint64_t>(std::chrono::nanoseconds(clock::now() - due).count());
  }
}

template <class Q>
outcome run_stall(const stall_spec& spec) {
  const auto consumers = static_cast<unsigned>(spec.pus.size() - 1);
  end_flag over{false};
  std::vector<consumer_check> consumer_checks(consumers, consumer_check(1));
  std::vector<std::uint64_t> late(spec.items);

  reset_peak_memory();
  const auto queue = std::make_unique<Q>(spec.capacity, 1, consumers);
  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    if (index == 0) {
      decltype(auto) to = producer_of(*queue, 0);
      line.arrive_and_wait();
      push_on_schedule(spec, late, [&to](item value, std::uint64_t sleep_ns) { to.push(sluggish(value, sleep_ns)); });
      finish<sluggish>(*queue, to, consumers, over);
    } else {
      decltype(auto) from = consumer_of(*queue, index - 1);
      consumer_check own(1);
      sluggish::sleeps_in_this_thread(true);
      line.arrive_and_wait();
      take_one::all<Q, sluggish>(from, over, [&own](const sluggish& s) { own.add(s.value()); });
      consumer_checks[index - 1] = own;
    }
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  const verdict checked = judge(consumer_checks, {spec.items}, spec.demand_order);
  result.error = checked.error;
  result.out_of_order = checked.out_of_order;
  result.detail = quantiles(late);
  return result;
}

}  // namespace muster::bench
