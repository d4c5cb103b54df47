// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stream.hpp: items from n producers to m consumers through one queue, checked and timed.
//
// A queue takes part through an adapter:
//   Q(std::size_t capacity, unsigned producers, unsigned consumers)
//   Q::producer(Q&, unsigned index)   push(T) waits; push_n(const T*, std::size_t) where it has one
//   Q::consumer(Q&, unsigned index)   try_pop(T&), and `Q::ends_by`, how its consumers learn of the end:
//     ending::closed    Q::close(), after which pop(T&) returns false once the queue is empty
//     ending::poisoned   T pop() waits; one poison item per consumer is pushed behind the last item. FIFO only
//     ending::drained    a flag is set; a try_pop that fails after the flag was seen means the end
//   and pop_n(T*, std::size_t), or try_pop_n for ending::drained, and consume(f), if it has them.
// If all threads use the queue alike, it has these operations itself, and no handles.
// An adapter's operations are always inlined: an additional call would cost some contenders half their throughput. The
// compiler decides on inlining further calls, as in programs.
#pragma once

#include "driver/contender.hpp"
#include "driver/thread_group.hpp"
#include "sim/workloads/item.hpp"
#include "sim/workloads/wait.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

namespace muster::bench {

enum class ending { closed, poisoned, drained };

/// The handle of a producer, or the queue if it has none.
template <class Q>
decltype(auto) producer_of(Q& queue, unsigned index) {
  if constexpr (requires { typename Q::producer; }) return typename Q::producer(queue, index);
  else return (queue);
}
template <class Q>
decltype(auto) consumer_of(Q& queue, unsigned index) {
  if constexpr (requires { typename Q::consumer; }) return typename Q::consumer(queue, index);
  else return (queue);
}

/// Set once all producers have finished; only queues with ending::drained, and try_pop loops, read it.
using end_flag = std::atomic<bool>;

/// Takes items by try_pop until the end. Right for every queue in which a failed try_pop after the last push
/// means that all items are taken, or are being taken by a consumer that will look again.
template <class T, class Consumer, class Use>
void take_by_try_pop(Consumer& from, const end_flag& over, Use use) {
  patience p;
  for (;;) {
    const bool last_look = over.load(std::memory_order_acquire);
    T value{};
    if (from.try_pop(value)) {
      use(value);
      p.reset();
    } else if (last_look) {
      return;
    } else {
      p.wait();
    }
  }
}

/// Takes items one at a time, waiting in the queue's best way.
struct take_one {
  template <class Q, class T, class Consumer, class Use>
  static void all(Consumer& from, const end_flag& over, Use use) {
    if constexpr (Q::ends_by == ending::closed) {
      for (T value{}; from.pop(value);) use(value);
    } else if constexpr (Q::ends_by == ending::poisoned) {
      for (;;) {
        T value = from.pop();
        if (is_poison(value)) return;
        use(value);
      }
    } else {
      take_by_try_pop<T>(from, over, use);
    }
  }
};

/// Takes items one at a time by try_pop, even if the queue has other operations.
struct take_if_there {
  template <class Q, class T, class Consumer, class Use>
  static void all(Consumer& from, const end_flag& over, Use use) {
    static_assert(Q::ends_by != ending::poisoned, "a poison item would be taken for an item");
    take_by_try_pop<T>(from, over, use);
  }
};

/// Takes up to eight items at a time.
struct take_eight {
  template <class Q, class T, class Consumer, class Use>
  static void all(Consumer& from, const end_flag& over, Use use) {
    std::array<T, 8> batch{};
    if constexpr (Q::ends_by == ending::closed) {
      while (const std::size_t n = from.pop_n(batch.data(), batch.size())) std::for_each_n(batch.begin(), n, use);
    } else {
      patience p;
      for (;;) {
        const bool last_look = over.load(std::memory_order_acquire);
        const std::size_t n = from.try_pop_n(batch.data(), batch.size());
        std::for_each_n(batch.begin(), n, use);
        if (n != 0) {
          p.reset();
        } else if (last_look) {
          return;
        } else {
          p.wait();
        }
      }
    }
  }
};

/// Uses each item in its place, for queues that call a function with it.
struct take_in_place {
  template <class Q, class T, class Consumer, class Use>
  static void all(Consumer& from, const end_flag&, Use use) {
    static_assert(Q::ends_by == ending::closed, "only a close ends this loop");
    while (from.consume(use)) {
    }
  }
};

struct give_one {
  template <class Producer>
  static void all(Producer& to, unsigned number, std::uint64_t items) {
    for (std::uint64_t n = 1; n <= items; ++n) to.push(make_item(number, n));
  }
};

struct give_eight {
  template <class Producer>
  static void all(Producer& to, unsigned number, std::uint64_t items) {
    std::array<item, 8> batch{};
    for (std::uint64_t n = 1; n <= items;) {
      std::size_t filled = 0;
      while (filled < batch.size() && n <= items) batch[filled++] = make_item(number, n++);
      to.push_n(batch.data(), filled);
    }
  }
};

/// Signals the end to the consumers. Called by the last producer, through its own handle.
template <class T, class Q, class Producer>
void finish(Q& queue, Producer& last, unsigned consumers, end_flag& over) {
  over.store(true, std::memory_order_release);
  if constexpr (Q::ends_by == ending::closed) queue.close();
  if constexpr (Q::ends_by == ending::poisoned) {
    for (unsigned i = 0; i < consumers; ++i) last.push(T{poison});
  }
}

template <class Q, class Take = take_one, class Give = give_one>
outcome run_stream(const stream_spec& spec) {
  std::vector<std::uint64_t> shares(spec.producers, spec.items / spec.producers);
  shares.front() += spec.items % spec.producers;
  std::vector<consumer_check> consumer_checks(spec.consumers, consumer_check(spec.producers));
  end_flag over{false};
  std::atomic<unsigned> busy{spec.producers};

  reset_peak_memory();
  const auto queue = std::make_unique<Q>(spec.capacity, spec.producers, spec.consumers);
  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    if (index < spec.producers) {
      decltype(auto) to = producer_of(*queue, index);
      line.arrive_and_wait();
      Give::all(to, index, shares[index]);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) finish<item>(*queue, to, spec.consumers, over);
    } else {
      decltype(auto) from = consumer_of(*queue, index - spec.producers);
      consumer_check own(spec.producers);  // on this thread's stack: neighbours' consumer_checks share no line with it
      line.arrive_and_wait();
      Take::template all<Q, item>(from, over, [&own](item value) { own.add(value); });
      consumer_checks[index - spec.producers] = own;
    }
  });
  result.peak_memory = peak_memory();
  result.items = spec.items;
  const verdict checked = judge(consumer_checks, shares, spec.demand_order);
  result.error = checked.error;
  result.out_of_order = checked.out_of_order;
  return result;
}

}  // namespace muster::bench
