// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Fetch&Multiply by Osci as printed, by a mutex, by a spin lock, and without sharing.
#include "baselines/osci_paper.hpp"
#include "driver/concurrent_object.hpp"

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

class printed {
 public:
  using object = osci_paper<float, printed_multiply, team_turn>;
  explicit printed(const team_spec& spec) : object_(spec.carriers, spec.fibers, 1.0F) {}

  class handle {
   public:
    handle(printed& o, unsigned carrier, unsigned fiber) : mine_(o.object_, carrier, fiber) {}
    float multiply() { return std::bit_cast<float>(static_cast<std::int32_t>(mine_.apply(0))); }

   private:
    object::handle mine_;
  };

 private:
  object object_;
};

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
  to.add(
      "baseline", "baseline",
      {{.name = "Osci as printed",
        .family = "osci paper",
        .role = "paper",
        .note = "Algorithm 1, unfilled places corrected; our fibers",
        .topics = concurrent_object,
        .fibers = 64,
        .team = run_object<printed>},
       {.name = "std::mutex", .family = "std", .role = "peer", .topics = concurrent_object, .team = run_object<locked>},
       {.name = "spin lock",
        .note = "test and set: one exchange and one store",
        .topics = concurrent_object,
        .team = run_object<spinning>},
       {.name = "ideal",
        .role = "limit",
        .note = "every carrier an object of its own: one thread alone, times the processors",
        .topics = concurrent_object,
        .team = run_ideal_object}});
}

}  // namespace muster::bench
