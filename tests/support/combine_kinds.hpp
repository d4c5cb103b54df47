// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine_kinds.hpp: the combining objects, for tests that are the same for all, and the ways to have many requests
// announced before one of them is executed.
#pragma once

#include <gtest/gtest.h>
#include <muster/combine/cc_synch.hpp>
#include <muster/combine/flat_combining.hpp>
#include <muster/combine/osci.hpp>
#include <muster/combine/osci_shared.hpp>
#include <muster/fiber.hpp>

#include "scale.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace muster_test {

template <template <class, class> class Object, class Wait = muster::wait::spin_then_park>
struct kind {
  template <class State>
  using of = Object<State, Wait>;
};
struct osci : kind<muster::osci> {
  static constexpr const char* name = "osci";
};
struct osci_shared : kind<muster::osci_shared> {
  static constexpr const char* name = "osci_shared";
  static constexpr bool takes_any_number_of_threads = true;
};
struct cc_synch : kind<muster::cc_synch> {
  static constexpr const char* name = "cc_synch";
};
struct flat_combining : kind<muster::flat_combining> {
  static constexpr const char* name = "flat_combining";
};
using combining_kinds = testing::Types<osci, osci_shared, cc_synch, flat_combining>;

// Those whose waits differ, with waits that sleep at once, and with waits that never sleep.
struct parking_cc_synch : kind<muster::cc_synch, muster::wait::park> {
  static constexpr const char* name = "parking_cc_synch";
};
struct parking_flat_combining : kind<muster::flat_combining, muster::wait::park> {
  static constexpr const char* name = "parking_flat_combining";
};
struct spinning_cc_synch : kind<muster::cc_synch, muster::wait::spin> {
  static constexpr const char* name = "spinning_cc_synch";
};
struct spinning_flat_combining : kind<muster::flat_combining, muster::wait::spin> {
  static constexpr const char* name = "spinning_flat_combining";
};
using otherwise_waiting_kinds =
    kinds_to_test<testing::Types<parking_cc_synch, parking_flat_combining, spinning_cc_synch, spinning_flat_combining>,
                  testing::Types<parking_cc_synch, parking_flat_combining>>;

struct kind_names {
  template <class Kind>
  static std::string GetName(int) {
    return Kind::name;
  }
};

/// Calls body(i) for i below n, each on a fiber of this thread, so that all have announced their requests while another
/// request is being executed, and its executor executes them in the same round. That request ends by calling `last`.
/// (Functions of a fixed type, because there would be a hundred instances otherwise.)
template <class Object>
void in_one_round(
    Object& object, unsigned n, const std::function<void(unsigned)>& body, const std::function<void()>& last = [] {}) {
  unsigned arrived = 0;
  muster::fiber first([&] {
    object.apply([&](auto&) {
      for (unsigned more = 3; arrived != n || --more != 0;) muster::this_fiber::yield();
      last();
    });
  });
  std::vector<muster::fiber> others;
  for (unsigned i = 0; i < n; ++i)
    others.emplace_back([&, i] {
      ++arrived;
      body(i);
    });
  for (muster::fiber& f : others) f.join();
  first.join();
}

/// The same with threads; it is likely, but not certain, that all have announced their requests, and sleep if they do
/// so while they wait.
template <class Object>
void in_one_round_of_threads(
    Object& object, unsigned n, const std::function<void(unsigned)>& body, const std::function<void()>& last = [] {}) {
  std::atomic<unsigned> arrived{0};
  std::vector<std::jthread> all;
  all.emplace_back([&] {
    object.apply([&](auto&) {
      while (arrived.load() != n) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      last();
    });
  });
  for (unsigned i = 0; i < n; ++i)
    all.emplace_back([&, i] {
      arrived.fetch_add(1);
      body(i);
    });
}

}  // namespace muster_test
