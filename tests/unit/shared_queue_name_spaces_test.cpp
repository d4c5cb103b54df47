// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A process whose id has another meaning for a queue's users may not join them: they would take it for another process,
// and recover its ports while it lives, or never.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <string>

namespace {

using queue = muster::shared_queue<int, muster::shape::mpmc>;

/// The exit status of work() in a child.
template <class Work>
int child_returns(Work work) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(work());
  int ended = 0;
  ::waitpid(pid, &ended, 0);
  return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
}
constexpr int right = 0, wrong = 1, not_allowed = 2;

/// Returns true if f() throws a shared_queue_error whose message contains `why`.
template <class F>
bool refuses(const char* why, F f) {
  try {
    f();
  } catch (const muster::shared_queue_error& e) {
    return std::string(e.what()).find(why) != std::string::npos;
  }
  return false;
}

// In a new PID namespace, with the old one's /proc.
TEST(shared_queue_name_spaces, must_be_the_same_for_all_that_join) {
  queue shared = queue::create_anonymous(4);
  const int seen = child_returns([&] {
    if (::unshare(CLONE_NEWPID) != 0) return not_allowed;
    // We are where we were; our children are not.
    if (!shared.try_producer()) return wrong;
    return child_returns([&] {
      constexpr const char* why = "/proc belongs to another PID namespace";
      const bool all = refuses(why, [&] { shared.try_producer(); }) && refuses(why, [&] { shared.consumer(); }) &&
                       refuses(why, [&] { shared.recover([](int) {}); }) &&
                       refuses(why, [&] { queue::attach(shared.descriptor()); }) &&
                       refuses(why, [&] { queue::create_anonymous(4); });
      if (!all) return wrong;
      // With a /proc of its own it may make queues, but not join those of others.
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("proc", "/proc", "proc", 0, nullptr) != 0)
        return not_allowed;
      queue own = queue::create_anonymous(4);
      const bool joins_own = own.producer().try_push(1) == muster::queue_status::success;
      return joins_own && refuses("another PID or time namespace", [&] { shared.try_consumer(); }) ? right : wrong;
    });
  });
  if (seen == not_allowed) GTEST_SKIP() << "this process may not create namespaces";
  EXPECT_EQ(seen, right);
  EXPECT_TRUE(shared.info().participants.empty());
}

}  // namespace
