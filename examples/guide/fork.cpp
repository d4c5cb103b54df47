// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: fork/join.

#include "expect.hpp"

#include <muster/fork.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

namespace {

// [tree]
struct tree {
  long value = 0;
  std::unique_ptr<tree> left, right;
};

long sum(const tree* t) {
  if (t == nullptr) return 0;
  auto [left, right] = muster::fork2(sum, t->left.get(), [t] { return sum(t->right.get()); });
  return t->value + left + right;
}
// [/tree]

std::unique_ptr<tree> full(int depth) {
  if (depth == 0) return nullptr;
  auto made = std::make_unique<tree>();
  made->value = depth;
  made->left = full(depth - 1);
  made->right = full(depth - 1);
  return made;
}

void results() {
  // [results]
  auto [text, nothing] = muster::fork2([] { return std::string("any type"); }, [] {});  // nothing: std::monostate
  auto [a, b, c] =
      muster::parallel_invoke([] { return 1; }, [] { return 2.0; }, [] { return std::make_unique<int>(3); });
  // [/results]
  static_cast<void>(nothing);
  expect(text == "any type");
  expect(a + b + *c == 6.0);
}

void exceptions() {
  // [exceptions]
  std::string first;
  try {
    muster::fork2([] { throw std::runtime_error("left"); }, [] { throw std::runtime_error("right"); });
  } catch (const std::runtime_error& error) {
    first = error.what();  // "left", whichever was faster
  }
  // [/exceptions]
  expect(first == "left");
}

// [scope]
/// Visits an acyclic graph. Every visit starts the visits of its successors; only the end of the scope waits for them.
struct step {
  std::vector<step*> next;
  std::atomic<int> visits = 0;
};

void visit(muster::async_scope& scope, step& here) {
  ++here.visits;
  for (step* after : here.next) scope.async([&scope, after] { visit(scope, *after); });
}
// [/scope]

void scopes() {
  std::vector<step> steps(50);
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) steps[i].next.push_back(&steps[i + 1]);
  // [finish]
  muster::finish([&](muster::async_scope& scope) { visit(scope, steps.front()); });  // all visits have ended
  // [/finish]
  expect(std::all_of(steps.begin(), steps.end(), [](const step& one) { return one.visits == 1; }));
}

void locals_of_a_scope() {
  std::atomic<long> all{0};
  // [wait]
  muster::finish([&](muster::async_scope& scope) {
    for (int round = 0; round < 3; ++round) {
      const std::vector<long> numbers(100, round);
      for (const long& number : numbers) scope.async([&] { all += number; });
      scope.wait();  // before the numbers end
    }
  });
  // [/wait]
  expect(all == 300);
}

void loops() {
  std::vector<double> numbers(10'000);
  // [loops]
  muster::parallel_for(std::size_t{0}, numbers.size(), [&](std::size_t i) { numbers[i] = 1.0 / double(i + 1); });
  muster::parallel_for(numbers, [](double& number) { number *= 2; });

  double total = muster::parallel_reduce(numbers.begin(), numbers.end(), 0.0, std::plus<>());
  double squares =
      muster::parallel_reduce(numbers.begin(), numbers.end(), 0.0, std::plus<>(), [](double x) { return x * x; });
  double same_in_every_run =
      muster::parallel_reduce(numbers.begin(), numbers.end(), 0.0, std::plus<>(), {.fixed = true});

  muster::parallel_sort(numbers);
  muster::parallel_scan(numbers.begin(), numbers.end(), numbers.begin());  // running sums, in place
  // [/loops]
  expect(squares < total * total);
  expect(total > same_in_every_run - 1e-9 && total < same_in_every_run + 1e-9);
  expect(numbers.back() > total - 1e-6 && numbers.back() < total + 1e-6);
}

void algorithms() {
  std::vector<double> numbers(10'000);
  // [algorithms]
  struct order {
    int customer;
    double price;
  };
  std::vector<order> orders(1000);
  muster::parallel_for(0, orders.size(), [&](std::size_t i) {
    orders[i] = {static_cast<int>(i % 10), static_cast<double>(i * 37 % 1000)};
  });

  const auto [cheapest, dearest] = muster::parallel_minmax_element(orders, std::less<>(), &order::price);
  const double least = cheapest->price, largest = dearest->price;
  const bool is_free = muster::parallel_any_of(orders, [](double price) { return price <= 0; }, &order::price);
  const auto first_high =
      muster::parallel_find_if(orders, [](const order& one) { return one.price > 900; }) - orders.begin();
  const std::vector<std::size_t> orders_of = muster::parallel_histogram(orders, 10, &order::customer);

  std::vector<order> large;
  muster::parallel_copy_if(orders, std::back_inserter(large), [](const order& one) { return one.price >= 500; });
  muster::parallel_transform(orders, numbers.begin(), &order::price);
  muster::parallel_for(0, numbers.size(), 10, [&](std::size_t i) { numbers[i] = 0; });  // every tenth

  muster::parallel_stable_sort(orders, std::less<>(), &order::customer);  // each customer's stay in their order
  // [/algorithms]
  expect(least == 0 && largest == 999 && is_free);
  expect(first_high == 25 && large.size() == 500 && orders_of[3] == 100);
  expect(orders[99].customer == 0 && orders[99].price == 990 * 37 % 1000);
  expect(numbers[10] == 0 && numbers[11] == 11 * 37);
}

void stopping() {
  std::vector<int> haystack(100'000);
  haystack[77] = 1;
  // [stop]
  std::stop_source found;
  std::atomic<std::ptrdiff_t> where = -1;
  muster::parallel_for(haystack.begin(), haystack.end(),
                       [&](const int& straw) {
                         if (straw == 0) return;
                         where = &straw - haystack.data();
                         found.request_stop();  // no further piece of the loop begins
                       },
                       {.stop = found.get_token()});
  // [/stop]
  expect(where == 77);
}

void progress() {
  std::vector<double> numbers(100'000);
  std::size_t last = 0;
  // [progress]
  muster::loop_progress progress(10'000, [&](std::size_t done) {
    std::fprintf(stderr, "\r%3zu %%", 100 * done / numbers.size());
    last = done;  // one worker at a time is here
  });
  muster::parallel_for(std::size_t{0}, numbers.size(), [&](std::size_t i) { numbers[i] = std::sqrt(double(i)); },
                       {.progress = &progress});
  // [/progress]
  expect(last == numbers.size());
}

// [context]
long count(muster::context here, unsigned depth) {
  if (depth == 0) return 1;
  auto [a, b] = here.fork2([=](muster::context its) { return count(its, depth - 1); },
                           [=](muster::context its) { return count(its, depth - 1); });
  return a + b;
}
// [/context]

}  // namespace

int main() {
  muster::pool pool({.workers = 2});
  pool.run([] {
    const auto made = full(10);
    expect(sum(made.get()) == 2036);
    results();
    exceptions();
    scopes();
    locals_of_a_scope();
    loops();
    algorithms();
    stopping();
    progress();
  });
  // [run]
  long leaves = pool.run([](muster::context here) { return count(here, 12); });
  // [/run]
  expect(leaves == 4096);
  std::atomic<int> threads = 0;
  {
    // [options]
    muster::pool named({.workers = 3,
                        .name = "encoder",  // encoder-0, encoder-1
                        .pin = true,
                        .on_start = [&](unsigned index) { threads += index < 3 ? 1 : 0; },
                        .on_end = [&](unsigned) { --threads; }});
    // [/options]
    expect(named.run([](muster::context here) { return count(here, 10); }) == 1024);
  }
  expect(threads == 0);
  {
    std::vector<int> thumbnails(1000);
    // [part]
    muster::pool whole(4);
    muster::pool background = whole.part(2);  // at most two of the four
    auto done = background.submit([&] { muster::parallel_for(thumbnails, [](int& each) { ++each; }); });
    const long quick = whole.run([](muster::context here) { return count(here, 10); });  // at the same time
    done.get();
    // [/part]
    expect(quick == 1024 && std::all_of(thumbnails.begin(), thumbnails.end(), [](int each) { return each == 1; }));
  }
  // [substitutes]
  muster::pool patient({.workers = 4, .substitutes = 4});  // four work, even while four others sleep in joins
  // [/substitutes]
  expect(patient.run([](muster::context here) { return count(here, 12); }) == 4096);
}
