// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_pairs.hpp: pairs of push and pop on one queue or stack by many fibers, as in Figure 5 of "Lock Oscillation".
//
// A structure takes part through an adapter:
//   S(const team_spec&)
//   S::handle(S&, unsigned carrier, unsigned fiber)   push(item); bool pop(item&): or these are its own
// Each fiber pushes an item and then pops one, with local work after each, on a structure that begins empty, or with
// spec.prefilled items. So there is always an item to pop. A structure may still report that it is empty while a push
// is in progress; then the pop is retried. The check: the popped and the remaining items, summed and mixed, are the
// pushed ones. A push and a pop count as two operations.
#pragma once

#include "driver/local_work.hpp"
#include "driver/stream.hpp"
#include "driver/team.hpp"
#include "sim/workloads/item.hpp"

#include <muster/base/arch.hpp>  // isolation_size

#include <memory>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

/// Items that the fibers of one carrier have pushed and popped.
struct alignas(isolation_size) traffic {
  std::uint64_t sum = 0;  // pushed minus popped; likewise below
  std::uint64_t mixed = 0;

  void pushed(item value) noexcept {
    sum += value;
    mixed += consumer_check::fold(value ^ value >> 7U);
  }
  void popped(item value) noexcept {
    sum -= value;
    mixed -= consumer_check::fold(value ^ value >> 7U);
  }
};

inline std::string judge_traffic(const std::vector<traffic>& all) {
  traffic total;
  for (const traffic& one : all) {
    total.sum += one.sum;
    total.mixed += one.mixed;
  }
  return total.sum == 0 && total.mixed == 0 ? "" : "what was popped is not what was pushed";
}

template <class Handle>
void push_and_pop(Handle& mine, const team_spec& spec, std::uint64_t pairs, unsigned number, traffic& to,
                  const start_gate& gate) {
  local_work work(spec.least_work, spec.work, number);
  traffic own;
  gate.wait();
  for (std::uint64_t n = 1; n <= pairs; ++n) {
    const item pushed = make_item(number, n);
    mine.push(pushed);
    own.pushed(pushed);
    work();
    item popped = 0;
    while (!mine.pop(popped)) team_turn::turn();
    own.popped(popped);
    work();
  }
  to.sum += own.sum;
  to.mixed += own.mixed;
}

inline constexpr unsigned filler = 1U << 15U;  // the producer of the prefilled items, different from every fiber's

template <class Handle>
void fill(Handle& mine, std::uint64_t items, traffic& seen) {
  for (std::uint64_t n = 1; n <= items; ++n) {
    mine.push(make_item(filler, n));
    seen.pushed(make_item(filler, n));
  }
}

template <class Handle>
void drain(Handle& mine, std::uint64_t items, traffic& seen) {
  for (item popped = 0; items != 0; --items) {
    if (!mine.pop(popped)) return;  // the check will fail
    seen.popped(popped);
  }
}

/// Rounds the number of operations to pairs.
inline team_spec in_pairs(team_spec spec) {
  spec.items /= 2;
  return spec;
}

template <class Structure>
outcome run_pairs(const team_spec& spec) {
  const team_spec pairs = in_pairs(spec);
  std::vector<traffic> seen(spec.carriers);
  reset_peak_memory();
  const auto structure = std::make_unique<Structure>(spec);
  // Used by one thread, before and after the others.
  const team_spec alone{.items = 1, .pus = {spec.pus.empty() ? -1 : spec.pus.front()}};
  const auto by_one = [&](auto&& what) {
    if (spec.prefilled == 0) return;
    run_team_crew(alone, [&](unsigned carrier, unsigned fiber, const start_gate& gate) {
      decltype(auto) mine = handle_of(*structure, carrier, fiber);
      gate.wait();
      what(mine, spec.prefilled, seen[0]);
    });
  };
  by_one([](auto& mine, std::uint64_t items, traffic& to) { fill(mine, items, to); });
  outcome result = run_team_crew(pairs, [&](unsigned carrier, unsigned fiber, const start_gate& gate) {
    decltype(auto) mine = handle_of(*structure, carrier, fiber);
    push_and_pop(mine, pairs, share_of(pairs, carrier, fiber), carrier * spec.fibers + fiber, seen[carrier], gate);
  });
  result.peak_memory = peak_memory();
  result.items = 2 * pairs.items;
  by_one([](auto& mine, std::uint64_t items, traffic& from) { drain(mine, items, from); });
  result.error = judge_traffic(seen);
  return result;
}

/// A queue of driver/stream.hpp as a structure: each handle is a producer and a consumer.
template <class Queue>
class both_ends {
 public:
  explicit both_ends(const team_spec& spec) : queue_(4096 + 2 * spec.prefilled, spec.carriers, spec.carriers) {}

  class handle {
   public:
    handle(both_ends& q, unsigned carrier, unsigned)
        : to_(producer_of(q.queue_, carrier)), from_(consumer_of(q.queue_, carrier)) {}
    void push(item value) { to_.push(value); }
    bool pop(item& value) {
      if constexpr (Queue::ends_by == ending::poisoned) return value = from_.pop(), true;
      else if constexpr (Queue::ends_by == ending::closed) return from_.pop(value);
      else return from_.try_pop(value);
    }

   private:
    decltype(producer_of(std::declval<Queue&>(), 0)) to_;
    decltype(consumer_of(std::declval<Queue&>(), 0)) from_;
  };

 private:
  Queue queue_;
};

/// Every carrier has its own structure, of class Own with push(item) and bool pop(item&), and no fibers.
template <class Own>
outcome run_ideal_pairs(const team_spec& spec) {
  team_spec pairs = in_pairs(spec);
  pairs.fibers = 1;
  std::vector<traffic> seen(spec.carriers);
  outcome result = run_team_crew(pairs, [&](unsigned carrier, unsigned, const start_gate& gate) {
    Own mine;
    fill(mine, spec.prefilled, seen[carrier]);
    push_and_pop(mine, pairs, share_of(pairs, carrier, 0), carrier, seen[carrier], gate);
    drain(mine, spec.prefilled, seen[carrier]);
  });
  result.peak_memory = peak_memory();
  result.items = 2 * pairs.items;
  result.error = judge_traffic(seen);
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
