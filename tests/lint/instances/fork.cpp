// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork.cpp: fork/join for clang-tidy, see queue.cpp; read with each engine.
#include <muster/fork.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

template class muster::detail::schedule_operation<muster::detail::no_stop>;
template class muster::detail::schedule_operation<std::stop_token>;

namespace {
struct receiver {
  void set_value() && noexcept {}
  void set_stopped() && noexcept {}
};
}  // namespace
template class muster::pool_scheduler<muster::member_names>;
template class muster::pool_scheduler<muster::member_names>::operation<receiver>;

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
    muster::parallel_for(0, numbers.size(), 2, [&](std::size_t i) { numbers[i] = 1; });
    muster::parallel_for_each(numbers, [](double& number) { number *= 2; });
    muster::parallel_transform(numbers, numbers.begin(), std::negate<>());
    const auto positive = [](double number) { return number > 0; };
    if (muster::parallel_any_of(numbers, positive)) muster::parallel_copy_if(numbers, numbers.begin(), positive);
    numbers.erase(muster::parallel_unique(numbers), numbers.end());
    muster::parallel_partition(numbers, positive);
    muster::parallel_stable_sort(numbers);
    std::vector<double> twice(2 * numbers.size());
    muster::parallel_merge(numbers, numbers, twice.begin());
    static_cast<void>(muster::parallel_minmax_element(numbers));
    static_cast<void>(muster::parallel_histogram(numbers, 2, positive));
    return one.size() + sizeof(both);
  });
  muster::pool part = two.part(1);
  muster::loop_progress progress(10, [](std::size_t) {});
  part.run([&] { muster::parallel_for(0, 100, [](int) {}, {.progress = &progress}); });
  auto operation = part.scheduler().schedule().connect(receiver());
  operation.start();
  muster::per_worker<std::vector<int>> buffers(two);
  two.run([&] { buffers.local().push_back(1); });
  buffers.for_each([](std::vector<int>& each) { each.clear(); });
  static_cast<void>(buffers.combine([](std::vector<int> all, const std::vector<int>&) { return all; }));
  buffers.clear();
  two.run_on_all([&](unsigned) { buffers.local().clear(); });
  muster::task_group group(two);
  group.run([&] { numbers.back() = 3; });
  group.run([](muster::context&) {});
  group.wait();
  muster::task_graph graph;
  const auto first = graph.add("first", [&] { numbers.front() = 4; });
  const auto rest = graph.add([](muster::context&) {}, muster::after(first, std::vector{first}));
  first.name("renamed").precede(rest);
  graph.run(two);
  static_cast<void>(graph.dot());
  int left = 10;
  muster::pipeline line(two, {.in_flight = 3},
                        muster::serial([&] { return left-- == 0 ? std::optional<int>() : std::optional(left); }),
                        muster::parallel([](int n) { return std::to_string(n); }),
                        muster::serial([&](const std::string& text) { numbers.push_back(std::stod(text)); }));
  line.run();
  std::vector<muster::future<std::string>> texts;
  texts.push_back(two.submit([] { return 1; }).then([](int n) { return std::to_string(n); }));
  muster::when_all(two.submit([] {}), muster::when_all(std::move(texts))).then([](auto) {}).wait();
  return muster::parallel_reduce(0, 100, 0.0, std::plus<>(),
                                 [&](int i) { return numbers[static_cast<std::size_t>(i)]; }) +
         muster::parallel_reduce(numbers.begin(), numbers.end(), 0.0, std::plus<>(), {.fixed = true});
}
