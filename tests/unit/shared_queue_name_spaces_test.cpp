// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A process whose id has another meaning for a queue's users may not join them: they would take it for another process,
// and recover its ports while it lives, or never.
#include <gtest/gtest.h>
#include <muster/queue/shared.hpp>

#include <linux/sched.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

// The first process of a namespace has made the queue, and so has its child in the next namespace the same number.
TEST(shared_queue_name_spaces, the_number_of_the_maker_does_not_let_a_child_in) {
  const int seen = child_returns([&] {
    if (::unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return not_allowed;
    return child_returns([&] {
      if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("proc", "/proc", "proc", 0, nullptr) != 0)
        return not_allowed;
      queue shared = queue::create_anonymous(4);
      if (!shared.try_producer() || ::unshare(CLONE_NEWPID) != 0) return wrong;
      const pid_t maker = ::getpid();
      return child_returns([&] {
        if (::getpid() != maker) return wrong;
        return refuses("/proc belongs to another PID namespace", [&] { shared.try_consumer(); }) ? right : wrong;
      });
    });
  });
  if (seen == not_allowed) GTEST_SKIP() << "this process may not create namespaces";
  EXPECT_EQ(seen, right);
}

/// fork() that gives the child a number; negative where it is in use, or this process may not.
pid_t fork_as(pid_t number) {
  clone_args how{};
  how.exit_signal = SIGCHLD;
  how.set_tid = reinterpret_cast<std::uintptr_t>(&number);
  how.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
}

// The maker of the queue has ended, and a later process has its number.
TEST(shared_queue_process, with_the_number_of_a_dead_maker_is_not_taken_for_it) {
  const int seen = child_returns([] {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // this process will be the parent of the maker's child
    int ends[2];
    if (::pipe(ends) != 0) return wrong;
    const pid_t maker = ::fork();
    if (maker == 0) {
      const pid_t number = ::getpid();
      queue shared = queue::create_anonymous(4);
      if (::fork() != 0) ::_exit(right);
      char reaped = 0;
      if (::read(ends[0], &reaped, 1) != 1) ::_exit(wrong);
      ::usleep(30'000);  // start times are in ticks of 10 ms
      const pid_t later = fork_as(number);
      if (later == 0) {
        const auto port = shared.try_consumer();
        const auto all = shared.info().participants;
        ::_exit(port && all.size() == 1 && all[0].process == number && all[0].alive && shared.recover() == 0 ? right
                                                                                                             : wrong);
      }
      int ended = wrong;
      if (later > 0) ::waitpid(later, &ended, 0);
      ::_exit(later < 0 ? not_allowed : WEXITSTATUS(ended));
    }
    ::waitpid(maker, nullptr, 0);
    if (::write(ends[1], "r", 1) != 1) return wrong;
    int ended = wrong;
    ::wait(&ended);
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : wrong;
  });
  if (seen == not_allowed) GTEST_SKIP() << "this process may not choose the number of another";
  EXPECT_EQ(seen, right);
}

}  // namespace
