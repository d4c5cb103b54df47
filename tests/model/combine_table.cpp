// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine_table.cpp: makes the programs of combine_table.hpp.
#include "combine_table.hpp"

#include "combine_programs.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster_model_test {
namespace {

/// Two clusters, whatever the machine has.
template <class State, class Wait>
class two_clusters : public muster::h_synch<State, Wait> {
 public:
  explicit two_clusters(const muster::combine_options& options) : muster::h_synch<State, Wait>(with_two(options)) {}

 private:
  static muster::h_synch_options with_two(const muster::combine_options& options) {
    muster::h_synch_options all{options};
    all.clusters = 2;
    return all;
  }
};

}  // namespace

std::function<void()> make_program(const combine_row& r) {
  using muster::wait::park;
  const std::string object = r.object;
  muster::combine_options options{.threads = mm::most_threads, .batch = 3, .help = r.help};
  options.detached = object == "osci detached";
  options.groups = object == "osci_shared 2" ? 2 : 1;
  if (object.starts_with("osci_shared")) return combine_program<muster::osci_shared<numbers, park>>(options, r.text);
  if (object == "cc_synch") return combine_program<muster::cc_synch<numbers, park>>(options, r.text);
  if (object == "dsm_synch") return combine_program<muster::dsm_synch<numbers, park>>(options, r.text);
  if (object == "h_synch") return combine_program<two_clusters<numbers, park>>(options, r.text);
  if (object == "flat_combining") return combine_program<muster::flat_combining<numbers, park>>(options, r.text);
  if (object == "oyama") return combine_program<muster::oyama<numbers, park>>(options, r.text);
  if (object == "clh") return combine_program<muster::clh<numbers, park>>(options, r.text);
  if (object == "mcs") return combine_program<muster::mcs<numbers, park>>(options, r.text);
  return combine_program<muster::osci<numbers, park>>(options, r.text);
}

}  // namespace muster_model_test
