// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: a queue between processes, and what is left when one of them is killed.

#include "expect.hpp"

#include <muster/queue/shared.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace {

constexpr int readings = 10'000;

struct reading {
  int sensor;
  int value;
};

using reading_queue = muster::shared_queue<reading, muster::shape::mpmc>;

/// Runs `work` in a process of its own, and returns how that ended.
template <class Work>
int in_a_process(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// [shared-open]
/// In some other program: as long as both name the same item, shape and tag, open() succeeds.
long sum_up(const std::string& path) {
  reading_queue queue = reading_queue::open(path, "readings 1");
  auto in = queue.consumer();  // this thread's; closed at the end of the scope
  long sum = 0;
  while (auto r = in.pop()) sum += r->value;
  return sum;
}
// [/shared-open]

}  // namespace

int main() {
  std::string path = "/dev/shm/muster-guide-";
  path += std::to_string(getpid());

  // [shared-create]
  reading_queue queue = reading_queue::create(path, 1 << 14, {.tag = "readings 1"});
  {
    auto out = queue.producer();
    for (int i = 0; i < readings; ++i) out.push({i % 8, i});
  }
  // [/shared-create]

  const int killed = in_a_process([&] {
    auto in = queue.consumer();
    expect(in.pop().has_value());
    return raise(SIGKILL);  // with its port open
  });
  expect(WIFSIGNALED(killed));

  // [shared-recover]
  std::vector<reading> unfinished;  // what the dead had claimed and their pop had not returned
  const std::size_t dead = queue.recover([&](const reading& r) { unfinished.push_back(r); });
  // [/shared-recover]
  expect(dead == 1 && unfinished.empty());

  queue.close();
  expect(in_a_process([&] { return sum_up(path) == long{readings} * (readings - 1) / 2 ? 0 : 1; }) == 0);
  std::filesystem::remove(path);
}
