// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Guide: queues between processes, and recovery when one of them is killed.

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

// [shared-attach]
using sample_queue = muster::shared_queue<reading, muster::shape::lanes>;

/// In a process that has inherited the descriptor, or received it over a socket.
void send_samples(int descriptor, int sensor) {
  sample_queue queue = sample_queue::attach(descriptor);
  auto out = queue.producer();  // has a ring of its own
  for (int i = 0; i < 100; ++i) out.push({sensor, i});
}
// [/shared-attach]

long sum_of_samples() {
  // [shared-anonymous]
  sample_queue samples = sample_queue::create_anonymous(256, {.lanes = 2});  // room for 256 in each of two rings
  // A child of fork() inherits the descriptor.
  const int ended = in_a_process([&] {
    send_samples(samples.descriptor(), 7);
    return 0;
  });
  samples.close();
  auto in = samples.consumer();
  long sum = 0;
  while (auto sample = in.pop()) sum += sample->value;
  // [/shared-anonymous]
  expect(ended == 0);
  return sum;
}

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

  // [shared-inspect]
  const muster::shared_queue_info now = muster::inspect_shared_queue(path);
  std::printf("%zu of %zu items, %s\n", now.items, now.capacity, now.closed ? "closed" : "open");
  for (const muster::shared_queue_participant& one : now.participants)
    std::printf("process %d, %s, %s\n", one.process, one.produces ? "producer" : "consumer",
                one.alive ? "alive" : "dead");
  // [/shared-inspect]
  expect(now.items == readings - 1 && now.participants.size() == 1);
  expect(!now.participants[0].alive && now.participants[0].items == 1);

  // [shared-recover]
  std::vector<reading> unfinished;  // items that the dead had claimed, but their pop had not returned
  const std::size_t dead = queue.recover([&](const reading& r) { unfinished.push_back(r); });
  // [/shared-recover]
  expect(dead == 1 && unfinished.empty());

  queue.close();
  expect(in_a_process([&] { return sum_up(path) == long{readings} * (readings - 1) / 2 ? 0 : 1; }) == 0);
  std::filesystem::remove(path);

  expect(sum_of_samples() == 100 * 99 / 2);
}
