// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine_table.cpp: makes the programs of the library's objects.
#include "combine_table.hpp"

#include "combine_programs.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster_model_test {
std::function<void()> make_program(const combine_row& r) {
  using muster::wait::park;
  const std::string object = r.object;
  muster::combine_options options{.threads = mm::most_threads, .batch = 3, .help = r.help};
  options.detached = object == "osci detached";
  options.groups = object == "osci_shared 2" ? 2 : 1;
  if (object.starts_with("osci_shared")) return combine_program<muster::osci_shared<numbers, park>>(options, r.text);
  if (object == "cc_synch") return combine_program<muster::cc_synch<numbers, park>>(options, r.text);
  if (object == "flat_combining") return combine_program<muster::flat_combining<numbers, park>>(options, r.text);
  return combine_program<muster::osci<numbers, park>>(options, r.text);
}

}  // namespace muster_model_test
