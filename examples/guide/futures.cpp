// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: submitted functions and their futures, groups of tasks, objects of each worker.

#include "expect.hpp"

#include <muster/fork.hpp>

#include <atomic>
#include <functional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

std::string load(int number) {
  if (number == 13) throw std::runtime_error("page 13 is missing");
  return "page " + std::to_string(number);
}

// [group]
/// Adds up the files under a directory; each directory is a task.
struct directory {
  std::vector<directory> subdirectories;
  long bytes = 0;
};

void add_up(muster::task_group& group, const directory& here, std::atomic<long>& sum) {
  sum += here.bytes;
  for (const directory& each : here.subdirectories) group.run([&] { add_up(group, each, sum); });
}
// [/group]

}  // namespace

int main() {
  muster::pool pool(2);
  // [submit]
  muster::future<std::string> page = pool.submit([] { return load(1); });
  // … this thread continues …
  std::string text = page.get();  // waits for the result, or rethrows the exception
  // [/submit]
  expect(text == "page 1");

  // [then]
  auto length =
      pool.submit([] { return load(2); }).then([](std::string it) { return it + '!'; }).then([](const std::string& it) {
        return it.size();
      });
  auto repaired = pool.submit([] { return load(13); }).then([](muster::future<std::string> it) {
    try {
      return it.get();
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  });
  // [/then]
  expect(length.get() == 7);
  expect(repaired.get() == "page 13 is missing");

  // [all]
  auto both = muster::when_all(pool.submit([] { return load(3); }), pool.submit([] { return 4; }));
  auto [three, four] = both.get();

  std::vector<muster::future<std::string>> pages;
  for (int i = 0; i < 10; ++i) pages.push_back(pool.submit([i] { return load(i); }));
  std::vector<std::string> texts = muster::when_all(std::move(pages)).get();  // in this order
  // [/all]
  expect(three == "page 3" && four == 4);
  expect(texts.size() == 10 && texts[9] == "page 9");

  const directory root{.subdirectories = {{.subdirectories = {{.subdirectories = {}, .bytes = 4}}, .bytes = 2},
                                          {.subdirectories = {}, .bytes = 3}},
                       .bytes = 1};
  // [group-wait]
  std::stop_source stop;
  std::atomic<long> sum = 0;
  muster::task_group group(pool, stop.get_token());  // a requested stop drops the tasks that have not begun
  group.run([&] { add_up(group, root, sum); });
  group.wait();  // for all tasks, those included that tasks have run
  // [/group-wait]
  expect(sum == 10);

  // [per-worker]
  muster::per_worker<long> sums(pool);  // an element of each worker, made at its first use
  pool.run([&] { muster::parallel_for(1, 1001, [&](int i) { sums.local() += i; }); });
  long total = sums.combine(std::plus<>());
  // [/per-worker]
  expect(total == 500'500);

  // [all-workers]
  muster::per_worker<std::vector<char>> buffers(pool);
  pool.run_on_all([&](unsigned) { buffers.local().resize(1 << 16); });  // each on the thread that will use it
  // [/all-workers]
  pool.run([&] { expect(buffers.local().size() == 1 << 16); });
}
