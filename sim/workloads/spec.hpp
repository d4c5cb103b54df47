// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spec.hpp: the parameters of a program that runs on real threads or on simulated ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace muster_simulation {
struct machine;
}

namespace muster::bench {

/// A program on the threads of a simulated machine, or of this one, to validate the simulation.
struct sim_spec {
  std::size_t capacity = 4096;
  unsigned producers = 1;   // of programs that have them; the other threads are consumers
  unsigned fibers = 1;      // of each thread, in programs that have them; 1: none
  unsigned least_work = 0;  // nanoseconds between two operations
  unsigned most_work = 0;
  std::uint64_t items = 0;
  std::uint64_t seed = 1;
  std::vector<unsigned> threads{};                              // hardware threads
  std::shared_ptr<const muster_simulation::machine> machine{};  // null: this one
};

/// The number of items of this thread.
inline std::uint64_t model_share(const sim_spec& spec, unsigned index, std::size_t among) {
  return spec.items / among + (index < spec.items % among ? 1 : 0);
}

/// The handle of a thread or a fiber; or the object itself, if it has no handles.
template <class Shared, class... Index>
decltype(auto) handle_of(Shared& all, Index... index) {
  if constexpr (requires { typename Shared::handle; }) return typename Shared::handle(all, index...);
  else return (all);
}

}  // namespace muster::bench
