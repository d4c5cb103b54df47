// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// instances.cpp: what clang-tidy reads. It looks into a template only where the template is used, so every class of
// the library is instantiated here as a whole, for a small and for an owning item type and for each way to wait.
#include <muster/combine.hpp>
#include <muster/fiber.hpp>
#include <muster/fork.hpp>
#include <muster/queue.hpp>
#include <muster/queue/shared.hpp>
#include <muster/version.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

template class muster::spsc_queue<std::uint64_t>;
template class muster::spmc_queue<std::uint64_t>;
template class muster::mpmc_queue<std::uint64_t>;
template class muster::lanes<std::uint64_t>;

template class muster::spsc_queue<std::string, muster::layout::packed, muster::wait::park>;
template class muster::spmc_queue<std::string, muster::layout::aligned, muster::wait::spin>;
template class muster::mpmc_queue<std::string, muster::layout::rotated, muster::wait::spin_then_park>;
template class muster::lanes<std::string, muster::layout::aligned, muster::wait::park>;

template class muster::shared_queue<std::uint64_t, muster::shape::spsc>;
template class muster::shared_queue<std::uint64_t, muster::shape::spmc, muster::wait::park>;
template class muster::shared_queue<std::uint64_t, muster::shape::mpmc, muster::wait::spin>;
template class muster::shared_queue<std::uint64_t, muster::shape::lanes>;

template class muster::osci<std::string>;
template class muster::osci_shared<std::string>;
template class muster::cc_synch<std::string>;
template class muster::dsm_synch<std::string>;
template class muster::h_synch<std::string>;
template class muster::flat_combining<std::string>;
template class muster::oyama<std::string>;
template class muster::clh<std::string>;
template class muster::mcs<std::string>;
template class muster::retry<double>;
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
  muster::dsm_synch<std::string> dsm;
  muster::h_synch<std::string> h;
  muster::flat_combining<std::string> flat;
  muster::oyama<std::string> oyama;
  muster::clh<std::string> clh;
  muster::mcs<std::string> mcs;
  use(osci);
  use(shared);
  use(cc);
  use(dsm);
  use(h);
  use(flat);
  use(oyama);
  use(clh);
  use(mcs);
  osci.post(small);
  osci.submit([](std::string& all) { return all.size(); }).get();
  muster::fiber([&] { use(osci); }).join();
  muster::run_team({.carriers = 1, .fibers = 2}, [&](unsigned, unsigned) { use(shared); });
}

/// Everything that forks.
double fork_all() {
  muster::pool two({.workers = 2});
  std::vector<double> numbers(100, 1.0);
  two.run([&](muster::context here) {
    here.fork2([](muster::context) {}, [] { return std::string(); });
    const auto [one, both] =
        muster::fork2([](int a, const std::string& b) { return b + std::to_string(a); }, 1, "b", [] {});
    muster::parallel_invoke([] {}, [] { return 2; }, [] { return std::make_unique<int>(3); });
    muster::finish([&](auto& scope) { scope.async([&] { numbers.front() = 2; }); });
    muster::parallel_for(numbers, [](double& number) { number *= 2; }, {.grain = 10});
    muster::parallel_scan(numbers.begin(), numbers.end(), numbers.begin());
    muster::parallel_exclusive_scan(numbers.begin(), numbers.end(), numbers.begin(), 0.0);
    muster::parallel_sort(numbers, std::greater<>());
    return one.size() + sizeof(both);
  });
  return muster::parallel_reduce(0, 100, 0.0, std::plus<>(),
                                 [&](int i) { return numbers[static_cast<std::size_t>(i)]; }) +
         muster::parallel_reduce(numbers.begin(), numbers.end(), 0.0, std::plus<>(), {.fixed = true});
}
