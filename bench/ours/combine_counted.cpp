// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's combining objects again, compiled over atomics that count their read-modify-writes, and with a state
// that records which carrier executes the operations.
#include "ours/combined.hpp"

#include <atomic>

namespace muster::bench {
namespace {

/// The number of the carrier that executes an operation, from 1.
thread_local unsigned this_carrier = 0;

/// Each change of the executing carrier begins a new row.
struct watched {
  explicit watched(float first) : value(first) {}
  float value;
  unsigned last = 0;
  std::uint64_t rows = 0;
};

struct watched_multiply {
  float operator()(watched& state) const noexcept {
    if (state.last != this_carrier) {
      state.last = this_carrier;
      ++state.rows;
    }
    return fetch_and_multiply{}(state.value);
  }
};

template <template <class...> class Algorithm>
class counting {
 public:
  explicit counting(const team_spec& spec) : object_(options_of<Algorithm>::options(spec), 1.0F), items_(spec.items) {}

  class handle {
   public:
    handle(counting& o, unsigned carrier, unsigned) : all_(o) {
      this_carrier = carrier + 1;
      sync::read_modify_writes = 0;
    }
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle() { all_.total_.fetch_add(std::exchange(sync::read_modify_writes, 0), std::memory_order_relaxed); }
    float multiply() { return all_.object_.apply(watched_multiply{}); }

   private:
    counting& all_;
  };

  void add_to(outcome& result) {
    const auto operations = static_cast<double>(items_);
    const std::uint64_t rows = object_.apply([](watched& state) noexcept { return state.rows; });
    result.detail["degree"] = operations / static_cast<double>(rows);
    result.detail["read-modify-writes"] = static_cast<double>(total_.load(std::memory_order_relaxed)) / operations;
  }

 private:
  Algorithm<watched> object_;
  const std::uint64_t items_;
  std::atomic<std::uint64_t> total_{0};
};

template <template <class...> class Algorithm>
void add(catalogue& to, std::string name, std::string role, unsigned fibers) {
  to.all.push_back({.name = std::move(name),
                    .family = "muster",
                    .role = std::move(role),
                    .topics = counted,
                    .fibers = fibers,
                    .team = run_object<counting<Algorithm>>});
}

}  // namespace

void add_combine_counted(catalogue& to) {
  add<osci>(to, "osci", "ours", 64);
  add<osci_shared>(to, "osci_shared", "ours", 1);
  add<psim>(to, "psim", "ours", 64);
  add<cc_synch>(to, "cc_synch", "baseline", 8);
  add<dsm_synch>(to, "dsm_synch", "baseline", 8);
  add<h_synch>(to, "h_synch", "baseline", 32);
  add<flat_combining>(to, "flat_combining", "baseline", 32);
  add<oyama>(to, "oyama", "baseline", 16);
  add<clh>(to, "clh", "baseline", 4);
  add<mcs>(to, "mcs", "baseline", 4);
}

}  // namespace muster::bench
