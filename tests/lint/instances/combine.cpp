// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine.cpp: the combining objects and fibers for clang-tidy, as a whole, see queue.cpp.
#include <muster/combine.hpp>
#include <muster/fiber.hpp>

#include <string>

template class muster::osci<std::string>;
template class muster::osci_shared<std::string>;
template class muster::basic_counter<>;
template class muster::cc_synch<std::string>;
template class muster::flat_combining<std::string>;
template class muster::psim<double>;
template class muster::psim_queue<std::string>;
template class muster::psim_stack<int>;
template class muster::combining_queue<std::string>;
template class muster::combining_stack<std::string>;

/// Small and large callables, with and without results, through every face.
void apply_all() {
  const std::string name = "a name";
  const auto large = [name](std::string& all) { return all += name; };
  const auto small = [](std::string& all) noexcept { all.clear(); };
  const auto use = [&](auto& object) {
    object.apply(large);
    object.apply(small);
  };
  muster::osci<std::string> osci({.detached = true});
  muster::osci_shared<std::string> shared;
  muster::cc_synch<std::string> cc;
  muster::flat_combining<std::string> flat;
  use(osci);
  use(shared);
  use(cc);
  use(flat);
  osci.post(small);
  osci.submit([](std::string& all) { return all.size(); }).get();
  muster::fiber([&] { use(osci); }).join();
  muster::run_team({.carriers = 1, .fibers = 2}, [&](unsigned, unsigned) { use(shared); });
}
