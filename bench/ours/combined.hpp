// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combined.hpp: adapts the library's combining objects, and the techniques that they are compared with, to
// driver/concurrent_object.hpp. One adapter serves all of them.
#pragma once

#include "baselines/combining/clh.hpp"
#include "baselines/combining/dsm_synch.hpp"
#include "baselines/combining/h_synch.hpp"
#include "baselines/combining/mcs.hpp"
#include "baselines/combining/oyama.hpp"
#include "baselines/combining/retry.hpp"
#include "driver/concurrent_object.hpp"

#include <muster/combine/cc_synch.hpp>
#include <muster/combine/flat_combining.hpp>
#include <muster/combine/osci.hpp>
#include <muster/combine/osci_shared.hpp>
#include <muster/combine/psim.hpp>

#include <algorithm>
#include <type_traits>

namespace muster::bench::inline MUSTER_ABI {

inline combine_options options_for(const team_spec& spec) {
  combine_options options;
  options.threads = std::max(64U, spec.carriers + 2);
  return options;
}

/// The options of an algorithm; specialized if it has options of its own.
template <template <class...> class Algorithm>
struct options_of {
  static combine_options options(const team_spec& spec) { return options_for(spec); }
};
/// One cluster per carrier, as in the paper: its fibers combine among themselves, the combiners take a lock.
template <>
struct options_of<h_synch> {
  static h_synch_options options(const team_spec& spec) {
    h_synch_options options{options_for(spec)};
    options.clusters = spec.carriers;
    return options;
  }
};

template <template <class...> class Algorithm>
class combined {
 public:
  explicit combined(const team_spec& spec) : object_(options_of<Algorithm>::options(spec), 1.0F) {}
  float multiply() { return object_.apply(fetch_and_multiply{}); }

 private:
  Algorithm<float> object_;
};

}  // namespace muster::bench::inline MUSTER_ABI
