// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Mistakes that must not compile, one for each MISTAKE, and whose first error says what is wrong (first_error.py).
#include <muster/combine.hpp>
#include <muster/fork.hpp>
#include <muster/queue.hpp>

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

struct point {
  int x, y;
};
struct fixed {
  explicit fixed(int n_in) : n(n_in) {}
  fixed(const fixed&) = delete;
  int n;
  std::string text;
};

int main() {
  std::vector<bool> bits(64);
  std::vector<int> ones(64, 1);
  std::vector<point> points(100);
  std::list<int> list;
  muster::pool one(1);
  static_cast<void>(points), static_cast<void>(ones), static_cast<void>(bits), static_cast<void>(list),
      static_cast<void>(one);
#if MISTAKE == 1  // says: parallel_invoke
  muster::fork2([] { return 1; }, [] { return 2; }, [] { return 3; });
#elif MISTAKE == 2   // says: functions of no arguments
  muster::fork2([](int n) { return n; }, [] { return 2; });
#elif MISTAKE == 3   // says: can be compared by <
  muster::parallel_sort(points);
#elif MISTAKE == 4   // says: elements with an address of their own
  muster::parallel_sort(bits);
#elif MISTAKE == 5   // says: bind its arguments in a lambda
  muster::finish([](muster::async_scope& scope) { scope.async([](int node) { return node; }); });
#elif MISTAKE == 6   // says: std::vector<bool> share memory
  muster::parallel_for(bits, [](std::vector<bool>::reference bit) { bit = true; });
#elif MISTAKE == 7   // says: std::vector<bool> share memory
  muster::parallel_scan(ones.begin(), ones.end(), bits.begin(), std::logical_or<>());
#elif MISTAKE == 8   // says: must be a function of a counter
  muster::parallel_for(0, 10, [] {});
#elif MISTAKE == 9   // says: make it noexcept
  muster::osci<int>({.detached = true}).post([](int& n) { ++n; });
#elif MISTAKE == 10  // says: trivially copyable
  muster::psim<std::vector<int>> object;
#elif MISTAKE == 11  // says: declare it noexcept
  muster::psim<int>().apply([](int& n) { return ++n; });
#elif MISTAKE == 66  // says: the operation's result must be movable or copyable
  muster::cc_synch<int>().apply([](int& n) { return fixed{n}; });
#elif MISTAKE == 12  // says: bind its arguments in a lambda
  muster::pool().submit([](int n) { return n; });
#elif MISTAKE == 15  // says: task_group::run takes a function of no arguments
  muster::task_group().run([](int n) { return n; });
#elif MISTAKE == 16  // says: task_graph::add takes a function of no arguments
  muster::task_graph().add([](int n) { return n; });
#elif MISTAKE == 65  // says: pool::schedule takes a std::stop_token, or nothing
  muster::pool().schedule(5);
#elif MISTAKE == 61  // says: the first stage of a pipeline is serial
  muster::pipeline(one, muster::parallel([] { return std::optional(1); }), muster::serial([](int) {}));
#elif MISTAKE == 62  // says: cannot be called with what the stage before returns
  muster::pipeline(one, muster::serial([] { return std::optional(1); }), muster::serial([](point) { return 1; }),
                   muster::serial([](int) {}));
#elif MISTAKE == 63  // says: are muster::serial(function) and muster::parallel(function)
  muster::pipeline(one, [] { return std::optional(1); }, [](int) {});
#elif MISTAKE == 64  // says: returns a std::optional
  muster::pipeline(one, muster::serial([] { return std::string(); }), muster::serial([](int) {}));
#elif MISTAKE == 13  // says: returns a reference: return a pointer
  muster::pool().submit([&]() -> int& { return ones[0]; }).wait();
#elif MISTAKE == 14  // says: then takes a function of the future's value
  muster::pool().submit([] { return 1; }).then([](const point&) {});
#elif MISTAKE == 30  // says: needs random access iterators
  muster::parallel_for_each(list, [](int&) {});
#elif MISTAKE == 17  // says: needs random access iterators
  muster::parallel_find_if(list.begin(), list.end(), [](int) { return true; });
#elif MISTAKE == 18  // says: std::vector<bool> share memory
  muster::parallel_transform(ones, bits.begin(), [](int one) { return one != 0; });
#elif MISTAKE == 19  // says: function of an element that returns a bool
  muster::parallel_any_of(ones, [](const point&) { return true; });
#elif MISTAKE == 20  // says: function of an element that returns a bool
  muster::parallel_partition(points, [](const std::list<int>&) { return true; }, &point::x);
#elif MISTAKE == 21  // says: must be comparable
  muster::parallel_min_element(points);
#elif MISTAKE == 22  // says: must be comparable
  muster::parallel_unique(points);
#elif MISTAKE == 23  // says: the new sum
  muster::parallel_reduce(ones, 0, [](int a) { return a; });
#elif MISTAKE == 24  // says: loop with a step
  muster::parallel_for(0, 100, 2, [](int, int) {});
#elif MISTAKE == 25  // says: returns the index of its bin
  muster::parallel_histogram(points, 10);
#elif MISTAKE == 26  // says: must be comparable
  muster::parallel_stable_sort(points);
#elif MISTAKE == 27  // says: needs random access iterators
  muster::parallel_stable_sort(list);
#elif MISTAKE == 28  // says: must be comparable
  muster::parallel_merge(ones, points, ones.begin());
#elif MISTAKE == 29  // says: std::vector<bool> share memory
  muster::parallel_merge(ones, ones, bits.begin());
#elif MISTAKE == 31  // says: needs random access iterators
  muster::parallel_for(list, [](int&) {});
#elif MISTAKE == 32  // says: must be an integer or an iterator
  muster::parallel_for(0.0, 1.0, [](double) {});
#elif MISTAKE == 33  // says: needs random access iterators
  muster::parallel_scan(list.begin(), list.end(), ones.begin());
#elif MISTAKE == 34  // says: pool::run takes a function of no arguments
  muster::pool().run([](int n) { return n; });
#elif MISTAKE == 35  // says: finish takes a function of a muster::async_scope
  muster::finish([] {});
#elif MISTAKE == 36  // says: fork2 takes two functions
  muster::fork2([] {});
#elif MISTAKE == 37  // says: parallel_scan: a function of the sum
  muster::parallel_scan(ones.begin(), ones.end(), ones.begin(), [](int) { return 1; });
#elif MISTAKE == 38  // says: the same type, or be integers
  muster::parallel_for(0, ones.end(), [](int) {});
#elif MISTAKE == 39  // says: const ones cannot be
  muster::parallel_sort(std::as_const(ones));
#elif MISTAKE == 40  // says: takes a range, or two counters
  muster::parallel_for(10, [](int) {});
#elif MISTAKE == 41  // says: returns an element of the output
  muster::parallel_transform(ones, ones.begin(), [](int) {});
#elif MISTAKE == 42  // says: or a std::back_inserter
  muster::parallel_copy_if(ones, ones, [](int) { return true; });
#elif MISTAKE == 43  // says: needs integers as counters
  muster::parallel_for(0, 10, 0.5, [](double) {});
#elif MISTAKE == 45  // says: another consumer could take the item while you look at it
  muster::mpmc_queue<int>(1).front();
#elif MISTAKE == 46  // says: another consumer could take the item while you look at it
  muster::lanes<int>(1).consumer().front();
#elif MISTAKE == 47  // says: consume takes a function that can be called with an item
  muster::mpmc_queue<point>(1).consume([](int) {});
#elif MISTAKE == 44  // says: run_on_all takes a function of a worker's index
  muster::pool().run_on_all([](const point&) {});
#endif
}
