// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Fetch&Multiply by the techniques of the "Lock Oscillation" experiments as published, by a mutex, by a spin lock, and
// without sharing.
#include "baselines/cc_synch_paper.hpp"
#include "baselines/flat_combining_paper.hpp"
#include "baselines/osci_paper.hpp"
#include "baselines/psim_paper.hpp"
#include "driver/concurrent_object.hpp"
#include "driver/shares.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace muster::bench {
namespace {

/// The paper's operations take and return 64-bit numbers.
struct printed_multiply {
  std::int64_t operator()(float& state, std::int64_t) const noexcept {
    return std::bit_cast<std::int32_t>(fetch_and_multiply{}(state));
  }
};

/// As in the authors' program, a thread with a processor of its own pauses 64 times between two looks.
struct authors_turn {
  static void turn() noexcept {
    if (this_fiber::has_siblings() || team_turn::crowded) return team_turn::turn();
    for (unsigned i = 0; i < 64; ++i) pause();
  }
};

template <class Object>
class printed {
 public:
  explicit printed(const team_spec& spec) : object_(spec.carriers, spec.fibers, 1.0F) {}

  class handle {
   public:
    handle(printed& o, unsigned carrier, unsigned fiber) : mine_(o.object_, carrier, fiber) {}
    float multiply() { return std::bit_cast<float>(static_cast<std::int32_t>(mine_.apply(0))); }

   private:
    typename Object::handle mine_;
  };

 private:
  Object object_;
};

using printed_osci = osci_paper<float, printed_multiply, team_turn>;
using printed_cc_synch = cc_synch_paper<float, printed_multiply, authors_turn>;
using printed_psim = psim_paper<float, printed_multiply, authors_turn>;
struct printed_flat_combining : flat_combining_paper<float, printed_multiply, authors_turn> {
  printed_flat_combining(unsigned cores, unsigned fibers, float first)
      : flat_combining_paper(cores, fibers, cleaning{}, first) {}
};

/// PSim's records have a word for each fiber, and there are two of them for each: with 2048 fibers, 70 MB.
outcome run_printed_psim(const team_spec& spec) {
  team_spec fewer = spec;
  fewer.fibers = std::clamp(2048 / spec.carriers, 1U, spec.fibers);
  return run_object<printed<printed_psim>>(fewer);
}

class locked {
 public:
  explicit locked(const team_spec&) {}
  float multiply() {
    const std::lock_guard lock(mutex_);
    return fetch_and_multiply{}(value_);
  }

 private:
  alignas(isolation_size) std::mutex mutex_;
  float value_ = 1;
};

/// Test and set: the least that a lock can do, an exchange and a store.
class spinning {
 public:
  explicit spinning(const team_spec&) {}
  float multiply() {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      while (taken_.load(std::memory_order_relaxed)) team_turn::turn();
    }
    const float old = fetch_and_multiply{}(value_);
    taken_.store(false, std::memory_order_release);
    return old;
  }

 private:
  alignas(isolation_size) std::atomic<bool> taken_{false};
  float value_ = 1;
};

}  // namespace

void add_concurrent_objects(catalogue& to) {
  to.add("baseline", "baseline",
         {{.name = "Osci as printed",
           .family = "osci paper",
           .role = "paper",
           .note = "Algorithm 1, unfilled places corrected; our fibers",
           .topics = concurrent_object,
           .fibers = 64,
           .team = run_object<printed<printed_osci>>},
          {.name = "CC-Synch as published",
           .family = "osci paper",
           .note = "PPoPP 2012; our fibers",
           .topics = concurrent_object | by_turns,
           .fibers = 8,
           .team = run_object<printed<printed_cc_synch>>,
           .shares = run_shares<printed<printed_cc_synch>>},
          {.name = "flat combining as published",
           .family = "osci paper",
           .note = "SPAA 2010; our fibers",
           .topics = concurrent_object,
           .fibers = 32,
           .team = run_object<printed<printed_flat_combining>>},
          {.name = "PSim-x as published",
           .family = "osci paper",
           .note = "SPAA 2011; our fibers, at most 2048",
           .topics = concurrent_object,
           .fibers = 64,
           .team = run_printed_psim},
          {.name = "std::mutex",
           .family = "std",
           .role = "peer",
           .topics = concurrent_object | by_turns,
           .team = run_object<locked>,
           .shares = run_shares<locked>},
          {.name = "spin lock",
           .note = "test and set: one exchange and one store",
           .topics = concurrent_object | by_turns,
           .team = run_object<spinning>,
           .shares = run_shares<spinning>},
          {.name = "ideal",
           .role = "limit",
           .note = "every carrier an object of its own: one thread alone, times the processors",
           .topics = concurrent_object,
           .team = run_ideal_object}});
}

}  // namespace muster::bench
