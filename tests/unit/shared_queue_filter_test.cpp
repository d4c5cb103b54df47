// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The queue between processes behind a seccomp filter that hides other processes or forbids membarrier(2): which
// operations still work. Each case is a child process, because a filter cannot be removed.
#include <gtest/gtest.h>
#include <muster/fiber/fiber.hpp>
#include <muster/queue/shared.hpp>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using muster::liveness;
using muster::queue_status;
using muster::shared_queue;
namespace shape = muster::shape;

#if defined(SYS_open)
#define MUSTER_TEST_OPEN SYS_open, SYS_readlink, SYS_stat,
#else
#define MUSTER_TEST_OPEN
#endif
#if defined(SYS_newfstatat)
#define MUSTER_TEST_STAT SYS_newfstatat,
#else
#define MUSTER_TEST_STAT
#endif
const std::vector<long> files{MUSTER_TEST_OPEN MUSTER_TEST_STAT SYS_openat, SYS_readlinkat};
const std::vector<long> numbers{SYS_kill, SYS_getpgid};
#undef MUSTER_TEST_OPEN
#undef MUSTER_TEST_STAT

std::vector<long> both(std::vector<long> some, const std::vector<long>& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

/// From here on these calls fail with EPERM.
void forbid(const std::vector<long>& calls) {
  std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long call : calls) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    throw std::runtime_error("the kernel takes no filter");
}

/// Another process that executes `work`.
class child {
 public:
  explicit child(const std::function<bool()>& work) : number_(::fork()) {
    if (number_ != 0) return;
    bool right = false;
    try {
      right = work();
    } catch (const std::exception& e) {
      static_cast<void>(std::fprintf(stderr, "%s\n", e.what()));
    }
    ::_exit(right ? 0 : 1);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child() {
    if (number_ > 0) static_cast<void>(ends_well());
  }
  /// Waits for its end. Returns whether `work` has returned true.
  bool ends_well() {
    int ended = 0;
    ::waitpid(number_, &ended, 0);
    number_ = -1;
    return WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
  }

 private:
  pid_t number_;
};

/// The message of the shared_queue_error that `work` throws.
std::string complaint(const std::function<void()>& work) {
  try {
    work();
  } catch (const muster::shared_queue_error& e) {
    return e.what();
  }
  return "nothing was thrown";
}
bool says(const std::string& text, const char* what) {
  if (text.find(what) != std::string::npos) return true;
  static_cast<void>(std::fprintf(stderr, "it says: %s\n", text.c_str()));
  return false;
}

using word = muster::detail::shared_word;

/// A queue whose only producer has died in the middle of its first push.
class with_dead_producer {
 public:
  with_dead_producer() {
    child producer([&] {
      auto* const port = new auto(queue.producer());  // never closed
      return port != nullptr;
    });
    EXPECT_TRUE(producer.ends_well());
    const muster::mapped_region memory = muster::mapped_region::open_descriptor(queue.descriptor());
    muster::detail::shared_metadata facts;
    std::memcpy(&facts, memory.start(), sizeof facts);
    const muster::rank_t written = word::make(0, word::written, 1);
    std::memcpy(memory.start() + facts.cells_at, &written, sizeof written);
  }
  shared_queue<std::uint64_t, shape::mpmc> queue =
      shared_queue<std::uint64_t, shape::mpmc>::create_anonymous(4, {.ports = 3});
};

TEST(shared_queue_behind_a_filter, notices_a_death_by_what_it_may_still_ask) {
  for (const std::vector<long>& forbidden :
       {std::vector<long>{SYS_kill}, numbers, files, both(files, {SYS_kill}), both(files, {SYS_getpgid})}) {
    with_dead_producer dead;
    child consumer([&] {
      auto port = dead.queue.consumer();
      forbid(forbidden);
      while (port.try_pop().status() == queue_status::busy) {
      }
      return port.try_pop().status() == queue_status::empty;
    });
    EXPECT_TRUE(consumer.ends_well());
    EXPECT_EQ(dead.queue.info().deaths, 1U);
  }
}

TEST(shared_queue_behind_a_filter, continues_after_another_process_has_recovered_it) {
  with_dead_producer dead;
  auto answers = shared_queue<int, shape::spsc>::create_anonymous(4);
  child consumer([&] {
    auto queue = shared_queue<std::uint64_t, shape::mpmc>::attach(dead.queue.descriptor());
    auto port = queue.consumer();
    auto answer = answers.producer();
    forbid(both(numbers, files));
    // Longer than a consumer waits before it looks for the dead.
    if (port.pop_for(120ms).status() != queue_status::busy) return false;
    const auto info = queue.info();
    const bool unsure = info.participants.size() == 2 && info.participants[0].alive && info.participants[0].hidden &&
                        !info.participants[1].hidden;
    std::size_t given = 0;
    const std::string why = complaint([&] { queue.recover([&](std::uint64_t) { ++given; }); });
    answer.push(1);
    return unsure && given == 0 && says(why, "call recover() in another process") && *port.pop() == 77;
  });
  ASSERT_EQ(*answers.consumer().pop(), 1);
  EXPECT_EQ(dead.queue.recover([](std::uint64_t) { FAIL() << "its push was not finished"; }), 1U);
  EXPECT_EQ(dead.queue.producer().push(77), queue_status::success);
  EXPECT_TRUE(consumer.ends_well());
}

TEST(shared_queue_behind_a_filter, opens_ports_when_it_was_opened_before) {
  const auto queue = shared_queue<int, shape::spsc>::create_anonymous(4);
  child opener([&] {
    auto own = shared_queue<int, shape::spsc>::attach(queue.descriptor());
    forbid(both(both(numbers, files), {SYS_getpid}));
    auto in = own.producer();
    auto out = own.consumer();
    const auto info = own.info();
    return in.push(5) == queue_status::success && *out.pop() == 5 && info.participants.size() == 2 &&
           info.participants[0].process != ::getppid() &&
           says(complaint([&] { static_cast<void>(own.producer()); }),
                "this process may not see which of them are alive");
  });
  EXPECT_TRUE(opener.ends_well());
  EXPECT_TRUE(queue.info().participants.empty());
}

TEST(shared_queue_behind_a_filter, says_that_proc_cannot_be_read_and_nothing_else) {
  auto queue = shared_queue<int, shape::spsc>::create_anonymous(4);
  child born_before([&] {
    forbid(files);
    constexpr const char* why = "this process cannot read /proc";
    return says(complaint([&] { static_cast<void>(queue.producer()); }), why) &&
           says(complaint([&] { static_cast<void>(queue.try_consumer()); }), why) &&
           says(complaint([&] { queue.recover([](int) {}); }), why);
  });
  EXPECT_TRUE(born_before.ends_well());
  EXPECT_TRUE(queue.info().participants.empty());
}

TEST(shared_queue_behind_a_filter, is_refused_elsewhere_when_its_maker_could_not_read_proc) {
  const std::string name = ::testing::TempDir() + "muster-blind-" + std::to_string(::getpid());
  child maker([&] {
    std::vector<long> calls = files;
    std::erase(calls, SYS_openat);  // by which it makes the file, and would read the time of the machine's start
    forbid(calls);
    auto queue = shared_queue<int, shape::spsc>::create(name, 4);
    return queue.producer().push(3) == queue_status::success && *queue.consumer().pop() == 3;
  });
  EXPECT_TRUE(maker.ends_well());
  EXPECT_TRUE(says(complaint([&] { shared_queue<int, shape::spsc>::open(name); }),
                   "the process that created the queue could not read /proc"));
  ::unlink(name.c_str());
}

// The sleeper cannot make the fence that its wakers rely on.
template <class Wait>
bool pops_without_membarrier(bool by_fiber) {
  auto queue = shared_queue<int, shape::mpmc, Wait>::create_anonymous(1);
  auto answers = shared_queue<int, shape::mpmc, Wait>::create_anonymous(1);
  constexpr int rounds = 100;
  child other([&] {
    auto in = queue.consumer();
    auto out = answers.producer();
    forbid({SYS_membarrier});
    bool right = true;
    const auto serve = [&] {
      for (int i = 1; i <= rounds; ++i) {
        const auto item = in.pop();
        right = right && item && *item == i && out.push(-i) == queue_status::success;
      }
    };
    if (!by_fiber) return serve(), right;
    int turns = 0;
    muster::fiber one(serve);
    muster::fiber two([&] { turns = 1; });
    one.join();
    two.join();
    return right && turns == 1;
  });
  auto out = queue.producer();
  auto in = answers.consumer();
  for (int i = 1; i <= rounds; ++i)
    if (out.push(i) != queue_status::success || *in.pop() != -i) return false;
  return other.ends_well();
}

TEST(shared_queue_behind_a_filter, sleeps_without_membarrier) {
  EXPECT_TRUE(pops_without_membarrier<muster::wait::park>(false));
  EXPECT_TRUE(pops_without_membarrier<muster::wait::spin_then_park>(false));
  EXPECT_TRUE(pops_without_membarrier<muster::wait::park>(true));
}

TEST(shared_queue_behind_a_filter, leaves_the_end_of_close_to_another) {
  if (!muster::asymmetric_fences(muster::futex_scope::shared)) GTEST_SKIP() << "membarrier(2) is not available here";
  auto queue = shared_queue<int, shape::lanes>::create_anonymous(4);
  queue.producer().push(1);
  child closer([&] {
    auto in = queue.consumer();
    auto out = queue.producer();
    forbid({SYS_membarrier});
    return says(complaint([&] { queue.close(); }), "a filter forbids membarrier(2)") && queue.is_closed() &&
           out.try_push(2) == queue_status::closed && *in.try_pop() == 1 &&
           in.try_pop().status() == queue_status::busy && in.pop_for(10ms).status() == queue_status::busy;
  });
  EXPECT_TRUE(closer.ends_well());
  EXPECT_EQ(queue.consumer().pop().status(), queue_status::closed);
}

TEST(shared_queue_behind_a_filter, learns_of_the_end_that_another_has_found) {
  auto queue = shared_queue<int, shape::mpmc, muster::wait::park>::create_anonymous(4);
  child consumer([&] {
    auto in = queue.consumer();
    forbid({SYS_membarrier});
    return *in.pop() == 1 && in.pop().status() == queue_status::closed && (queue.close(), true);
  });
  queue.producer().push(1);
  queue.close();
  EXPECT_TRUE(consumer.ends_well());
}

TEST(shared_queue_behind_a_filter, needs_no_membarrier_when_it_was_made_without) {
  child maker([] {
    forbid({SYS_membarrier});
    auto queue = shared_queue<int, shape::spmc, muster::wait::park>::create_anonymous(2);
    child other([&] {
      auto in = queue.consumer();
      for (int i = 0; i < 100; ++i)
        if (*in.pop() != i) return false;
      return in.pop().status() == queue_status::closed;
    });
    {
      auto out = queue.producer();
      for (int i = 0; i < 100; ++i) out.push(i);
    }
    queue.close();
    return other.ends_well();
  });
  EXPECT_TRUE(maker.ends_well());
}

TEST(shared_queue_behind_a_filter, is_not_opened_where_its_sleepers_could_be_missed) {
  if (!muster::asymmetric_fences(muster::futex_scope::shared)) GTEST_SKIP() << "membarrier(2) is not available here";
  auto queue = shared_queue<int, shape::spsc>::create_anonymous(4);
  child late([&] {
    forbid({SYS_membarrier});
    return says(complaint([&] { shared_queue<int, shape::spsc>::attach(queue.descriptor()); }),
                "rely on membarrier(2), which is forbidden in this process");
  });
  EXPECT_TRUE(late.ends_well());
}

TEST(processes_behind_a_filter, are_alive_dead_or_unknown) {
  const muster::process_identity self = muster::this_process();
  const pid_t number = ::fork();
  if (number == 0) ::_exit(0);
  ::waitpid(number, nullptr, 0);
  const auto dead = static_cast<muster::process_identity>(number);
  const muster::process_identity earlier = self + (muster::process_identity{1} << 22);
  const auto seen = [&](const std::vector<long>& forbidden, liveness of_self, liveness of_dead, liveness of_earlier) {
    child asks([&] {
      const muster::process_identity own = muster::this_process();
      forbid(forbidden);
      return muster::liveness_of(own) == liveness::alive && muster::liveness_of(self) == of_self &&
             muster::liveness_of(dead) == of_dead && muster::liveness_of(earlier) == of_earlier && !muster::is_alive(0);
    });
    return asks.ends_well();
  };
  constexpr liveness alive = liveness::alive, gone = liveness::dead, unknown = liveness::unknown;
  EXPECT_TRUE(seen({SYS_kill}, alive, gone, gone));
  EXPECT_TRUE(seen({SYS_getpgid}, alive, gone, gone));
  EXPECT_TRUE(seen(numbers, alive, gone, gone));
  // Without /proc, the process that has the number is taken for it.
  EXPECT_TRUE(seen(files, alive, gone, alive));
  EXPECT_TRUE(seen(both(files, {SYS_kill}), alive, gone, alive));
  EXPECT_TRUE(seen(both(files, {SYS_getpgid}), alive, gone, alive));
  EXPECT_TRUE(seen(both(files, numbers), unknown, unknown, unknown));
}

}  // namespace
