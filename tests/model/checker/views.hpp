// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// views.hpp: the memory of the model: what each thread knows, and what an atomic operation may read and write.
//
// Semantics  C++20 atomics by views. Each location has its stores in modification order; each store carries a stamp and
//            the view that it releases; each thread has a view: the oldest store of each location that it may still
//            read, and how much of every thread's past happens before its present. Reading with acquire joins the
//            store's view; fences work through two pending views per thread; sequentially consistent operations share
//            one more view. Only read-modify-writes continue a release sequence (C++20).
// Beyond     a store may be put between older ones that its thread has not seen (2+2W), and a failed compare-exchange
//            may read an old value.
// Not here   load buffering: a load never reads a store that is executed later.
// Source     Kang, Hur, Lahav, Vafeiadis, Dreyer, "A Promising Semantics for Relaxed-Memory Concurrency", POPL 2017,
//            without promises; sequentially consistent operations after WG21 P0668.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace muster_model {

using order = std::memory_order;

inline constexpr unsigned most_threads = 8;
inline constexpr unsigned most_locations = 128;

constexpr bool acquires(order o) { return o != order::relaxed && o != order::release; }
constexpr bool releases(order o) { return o == order::release || o == order::acq_rel || o == order::seq_cst; }
/// The order of a failing compare-exchange when only one order is given.
constexpr order failing(order o) {
  return o == order::acq_rel ? order::acquire : o == order::release ? order::relaxed : o;
}

/// One number per location and one per thread; a join is the greater of each.
class view {
 public:
  std::uint32_t& stamp(unsigned location) { return at_[most_threads + location]; }
  std::uint32_t stamp(unsigned location) const { return at_[most_threads + location]; }
  std::uint32_t& clock(unsigned thread) { return at_[thread]; }
  std::uint32_t clock(unsigned thread) const { return at_[thread]; }
  void join(const view& other) { join_from(0, other); }
  /// The stamps only: to have to see the same stores is less than to happen after them.
  void join_stamps(const view& other) { join_from(most_threads, other); }

 private:
  void join_from(unsigned first, const view& other) {
    for (unsigned i = first; i < at_.size(); ++i) at_[i] = std::max(at_[i], other.at_[i]);
  }
  std::array<std::uint32_t, most_threads + most_locations> at_{};
};

struct store_event {
  std::uint64_t value = 0;
  std::uint32_t stamp = 0;
  std::uint32_t event = 0;  // the number of the step that made it, for traces
  bool followed = false;    // a read-modify-write has read it: nothing can come between the two
  view released;
};

struct location {
  std::vector<store_event> stores;  // in modification order, that is, by stamp
  bool alive = false;
};

/// The stores that one thread knows.
struct knowledge {
  view now;       // what its operations go by
  view acquired;  // what an acquire fence would add
  view released;  // what its relaxed stores release: its view at the last release fence
};

class memory {
 public:
  void reset() { used_ = 0, sequential_ = {}; }

  /// A new location whose first store is made by the thread that has `known`. Throws nothing; see full().
  unsigned add(std::uint64_t value, const knowledge& known, std::uint32_t event) {
    if (used_ == locations_.size()) locations_.emplace_back();
    location& made = locations_[used_];
    made.stores.clear();
    made.stores.push_back({value, 0, event, false, known.now});
    made.alive = true;
    return used_++;
  }
  bool full() const { return used_ == most_locations; }
  void end(unsigned l) { locations_[l].alive = false; }
  bool alive(unsigned l) const { return l < used_ && locations_[l].alive; }
  const std::vector<store_event>& stores(unsigned l) const { return locations_[l].stores; }

  /// The oldest store that an operation of the order may read; the newest is stores(l).size() − 1.
  std::size_t oldest(const knowledge& known, unsigned l, order o) const {
    std::uint32_t least = known.now.stamp(l);
    if (o == order::seq_cst) least = std::max(least, sequential_.stamp(l));
    const auto& all = locations_[l].stores;
    std::size_t i = all.size() - 1;
    while (all[i].stamp > least) --i;
    return i;
  }

  /// Returns true if a store may be put directly behind number i: there is a free stamp, and no read-modify-write.
  bool can_insert_after(unsigned l, std::size_t i) const {
    const auto& all = locations_[l].stores;
    return i + 1 == all.size() || (!all[i].followed && all[i + 1].stamp - all[i].stamp > 1);
  }

  std::uint64_t read(knowledge& known, unsigned l, std::size_t i, order o) {
    const store_event& from = locations_[l].stores[i];
    known.now.stamp(l) = std::max(known.now.stamp(l), from.stamp);
    if (acquires(o)) {
      known.now.join(from.released);
    } else {
      known.acquired.join(from.released);
    }
    if (o == order::seq_cst) sequential_.stamp(l) = std::max(sequential_.stamp(l), from.stamp);
    return from.value;
  }

  /// Puts a store behind number i. `chain`: the store continues the release sequence of number i.
  void write(knowledge& known, unsigned l, std::size_t i, std::uint64_t value, order o, bool chain,
             std::uint32_t event) {
    auto& all = locations_[l].stores;
    store_event made{value, 0, event, false, releases(o) ? known.now : known.released};
    made.stamp = i + 1 == all.size() ? all[i].stamp + stamp_step : all[i].stamp + (all[i + 1].stamp - all[i].stamp) / 2;
    known.now.stamp(l) = made.stamp;
    made.released.stamp(l) = std::max(made.released.stamp(l), made.stamp);
    if (chain) {
      all[i].followed = true;
      made.released.join(all[i].released);
    }
    if (o == order::seq_cst) sequential_.stamp(l) = std::max(sequential_.stamp(l), made.stamp);
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, made);
  }

  void fence(knowledge& known, order o) {
    if (acquires(o)) known.now.join(known.acquired);
    if (o == order::seq_cst) {
      known.now.join_stamps(sequential_);
      sequential_.join_stamps(known.now);
    }
    if (releases(o)) known.released = known.now;
  }

 private:
  static constexpr std::uint32_t stamp_step = 1 << 10;

  std::vector<location> locations_;
  unsigned used_ = 0;
  view sequential_;  // what sequentially consistent operations and fences have seen
};

}  // namespace muster_model
