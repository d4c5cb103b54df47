// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Death in sandboxes: of the inside, of the process that holds the broker, and of the zygote, each before its n-th
// atomic operation, from its birth on. The outside gets a value or the reason why there is none, nothing is left
// behind, and another sandbox runs its jobs. The n grow by a twentieth, in the nightly cases by one. And an inside
// that is stopped and continued in each of its states: the outside ends it, or has its results later.
#include <gtest/gtest.h>
#include <muster/syscall/sandbox.hpp>

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using muster::inside;
using muster::policy;
using muster::sandbox;
using muster::sandbox_end;
using muster::zygote;
using muster::zygote_options;
using reason = sandbox_end::reason;
using window = std::span<std::byte>;

/// Which process dies, counted in forks from the test, and before which of its operations. Behind a wall it dies by a
/// fault, as it cannot send signals.
struct doom {
  static inline unsigned generation = 0;
  static inline unsigned of = ~0U;
  static inline std::uint64_t at = 0;
  static inline bool by_fault = false;
  static inline bool stops = false;  // instead, at once

  static void in_child() {
    muster_chaos::die_at(0);  // not where its parent does
    if (++generation != of) return;
    if (stops) {
      ::raise(SIGSTOP);
      return;
    }
    muster_chaos::fate().by_fault = by_fault;
    muster_chaos::die_at(at);
  }
};

std::size_t entries(const char* directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), fs::directory_iterator{}));
}
std::size_t arenas() {
  std::ifstream maps("/proc/self/maps");
  std::size_t all = 0;
  for (std::string line; std::getline(maps, line);) all += line.find("/memfd:") != line.npos;
  return all;
}

/// The resources of this process, but for its children.
struct ledger {
  std::size_t files = entries("/proc/self/fd"), threads = entries("/proc/self/task"), memory = arenas();
  bool operator==(const ledger&) const = default;
};

/// A process's state by one letter, and its parent.
struct process_state {
  char letter = '?';
  int parent = 0;
  explicit process_state(const fs::path& directory) {
    std::ifstream file(directory / "stat");
    std::string line;
    std::getline(file, line);
    if (const std::size_t end = line.rfind(')'); end != line.npos)
      std::sscanf(line.c_str() + end + 1, " %c %d", &letter, &parent);
  }
};
std::vector<int> children(int of = ::getpid()) {
  std::vector<int> all;
  for (const auto& one : fs::directory_iterator("/proc"))
    if (process_state(one.path()).parent == of) all.push_back(std::stoi(one.path().filename()));
  return all;
}
/// Another program, such as tools/pause.py, may continue a process that a test has stopped.
bool is_stopped(int process) { return process_state("/proc/" + std::to_string(process)).letter == 'T'; }
void stop(int process) {
  ::kill(process, SIGSTOP);
  while (!is_stopped(process)) std::this_thread::yield();
}

class sandbox_death_test : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { ::pthread_atfork(nullptr, nullptr, doom::in_child); }
  sandbox_death_test() {
    std::string made = (fs::temp_directory_path() / "death-XXXXXX").string();
    root_ = ::mkdtemp(made.data());
    file_ = (root_ / "file").string();
    std::ofstream(file_) << "fourteen bytes";
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // whose parent dies is this process's child then
  }
  ~sandbox_death_test() override {
    doom::of = ~0U;
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    fs::remove_all(root_);
  }

  policy rules() const { return policy().read(root_.string()).memory(1U << 20U); }
  static muster::sandbox_options small() {
    muster::sandbox_options made;
    made.jobs = 2;
    made.calls = 4;
    made.window_bytes = 4096;
    made.stack_bytes = std::size_t{64} << 10U;
    made.name_spaces = false;
    return made;
  }
  /// Two jobs at once, with calls. Returns whether all has come out right; expects a clear end otherwise.
  bool work(zygote* by) const {
    try {
      std::optional<sandbox> box;
      if (by != nullptr) box.emplace(*by, rules(), small());
      else box.emplace(rules(), small());
      struct name {
        char at[64] = {};
      } path;
      file_.copy(path.at, sizeof path.at - 1);
      auto reads = box->submit([path](inside& in, window w) {
        const std::int64_t file = in.open(path.at);
        const std::int64_t size = in.read(file, w);
        return in.close(file) == 0 ? size : -1;
      });
      auto computes = box->submit([](inside& in) { return in.getppid() > 0 ? 42 : 0; });
      const auto size = reads.get();
      const auto number = computes.get();
      if (size) {
        EXPECT_EQ(size.value(), 14);
      } else {
        expect_clear(size.end());
      }
      if (number) {
        EXPECT_EQ(number.value(), 42);
      } else {
        expect_clear(number.end());
      }
      const sandbox_end how = box->stop();
      EXPECT_NE(how.why, reason::running);
      return size && number;
    } catch (const std::system_error& error) {
      EXPECT_NE(error.code().value(), 0) << error.what();
    } catch (const muster::sandbox_error& error) {
      expect_clear(error.end());
    }
    return false;
  }
  /// Makes sandboxes that are alike until the zygote has a spare, and returns its process.
  int await_spare(zygote& early) const {
    for (;;) {
      work(&early);
      work(&early);
      // It has no other children now. A spare is forked within milliseconds, unless the zygote had to wait.
      for (int i = 0; i < 50; ++i) {
        if (const std::vector<int> all = children(early.process()); !all.empty() && is_asleep(all.front()))
          return all.front();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  static bool is_asleep(int process) { return process_state("/proc/" + std::to_string(process)).letter == 'S'; }
  static void expect_clear(const sandbox_end& how) {
    EXPECT_TRUE(how.why == reason::by_signal || how.why == reason::unknown) << how.text();
  }

  /// Calls once(n) for growing n until it returns true.
  static std::uint64_t for_each(bool every, const std::function<bool(std::uint64_t)>& once) {
    std::uint64_t n = 1;
    while (!once(n) && !HasFailure()) n += every ? 1 : 1 + n / 20;
    return n;
  }
  void inside_dies(bool every, bool by_zygote) {
    sandbox other(rules(), small());
    work(nullptr);
    const ledger before;
    doom::by_fault = true;
    const std::uint64_t last = for_each(every, [&](std::uint64_t n) {
      doom::at = n;
      doom::of = by_zygote ? 2 : 1;
      std::optional<zygote> early;
      if (by_zygote) early.emplace();
      const bool survived = work(by_zygote ? &*early : nullptr);
      early.reset();
      EXPECT_EQ(ledger(), before) << "after a death at " << n;
      EXPECT_EQ(other.run([n](inside&) { return n; }).value(), n);
      return survived;
    });
    EXPECT_GT(last, 100U);
    RecordProperty("operations", std::to_string(last));
  }
  void outside_dies(bool every, bool by_zygote) {
    doom::of = 1;
    doom::by_fault = false;
    const ledger before;
    const std::uint64_t last = for_each(every, [&](std::uint64_t n) {
      doom::at = n;
      const pid_t child = ::fork();
      if (child == 0) {
        doom::of = ~0U;
        std::optional<zygote> early;
        if (by_zygote) early.emplace();
        const bool right = work(by_zygote ? &*early : nullptr);
        early.reset();
        ::_exit(right ? 0 : 1);
      }
      // The child, and then what it has left behind. That ends by itself, or this does not.
      bool survived = false;
      int status = 0;
      for (pid_t one = 0; (one = ::waitpid(-1, &status, 0)) > 0;) {
        if (one == child) survived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
        EXPECT_TRUE(one != child || survived || WIFSIGNALED(status)) << "the outside has failed at " << n;
      }
      EXPECT_EQ(ledger(), before) << "after a death at " << n;
      return survived;
    });
    EXPECT_GT(last, 100U);
    RecordProperty("operations", std::to_string(last));
  }

  fs::path root_;
  std::string file_;
};

TEST_F(sandbox_death_test, of_the_inside) { inside_dies(false, false); }
TEST_F(sandbox_death_test, of_the_inside_of_a_zygote) { inside_dies(false, true); }
TEST_F(sandbox_death_test, of_the_inside_nightly) { inside_dies(true, false); }
TEST_F(sandbox_death_test, of_the_outside) { outside_dies(false, false); }
TEST_F(sandbox_death_test, of_the_outside_nightly) { outside_dies(true, false); }
TEST_F(sandbox_death_test, of_the_outside_with_a_zygote) { outside_dies(false, true); }

// The zygote makes no atomic operations worth a count: it is killed at any time, while sandboxes are made and run.
TEST_F(sandbox_death_test, of_the_zygote) {
  sandbox other(rules(), small());
  const ledger before;
  for (unsigned i = 0; i < 30; ++i) {
    {
      zygote early;
      const int process = early.process();
      std::thread kills([&] {
        std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
        ::kill(process, SIGKILL);
      });
      while (work(&early)) continue;
      EXPECT_FALSE(work(&early)) << "its zygote has ended";
      kills.join();
    }
    EXPECT_EQ(ledger(), before);
    EXPECT_EQ(other.run([i](inside&) { return i; }).value(), i);
    // Its insides are this process's children now, and end: killed, or when they see that their parent has gone.
    for (const int one : children()) {
      int status = 0;
      if (one == other.process()) continue;
      EXPECT_EQ(::waitpid(one, &status, 0), one);
      EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 1) << status;
    }
  }
}

// ------------------------------------------------------------------------------------------------------- SIGSTOP

TEST_F(sandbox_death_test, not_of_an_inside_that_is_stopped_while_it_runs) {
  sandbox box(rules(), small());
  sandbox other(rules(), small());
  auto job = box.submit([](inside&, window w) {
    auto* const flag = reinterpret_cast<std::atomic<int>*>(w.data());
    for (flag[0] = 1; flag[1] == 0;) {
    }
    return 17;
  });
  auto* const flag = reinterpret_cast<std::atomic<int>*>(job.window().data());
  while (flag[0] == 0) std::this_thread::yield();
  stop(box.process());
  flag[1] = 1;
  EXPECT_EQ(other.run([](inside&) { return 5; }).value(), 5);
  ::kill(box.process(), SIGCONT);
  EXPECT_EQ(job.get().value(), 17);
}

TEST_F(sandbox_death_test, not_of_an_inside_that_is_stopped_while_it_sleeps) {
  sandbox box(rules(), small());
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that it sleeps, most of the time
    stop(box.process());
    auto job = box.submit([i](inside& in) { return in.getppid() > 0 ? i : -1; });
    ::kill(box.process(), SIGCONT);
    EXPECT_EQ(job.get().value(), i);
  }
}

// The kernel resumes a wait that has a limit by restart_syscall, which the wall must let pass.
TEST_F(sandbox_death_test, not_of_an_inside_that_is_stopped_in_a_timed_wait) {
  sandbox box(rules(), small());
  auto job = box.submit([](inside&, window w) {
    reinterpret_cast<std::atomic<int>*>(w.data())[0] = 1;
    const timespec time{0, 50'000'000};
    return ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  });
  auto* const flag = reinterpret_cast<std::atomic<int>*>(job.window().data());
  while (flag[0] == 0) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) {
    stop(box.process());
    ::kill(box.process(), SIGCONT);
  }
  EXPECT_EQ(job.get().value(), 0);
}

TEST_F(sandbox_death_test, not_of_an_inside_that_is_stopped_in_a_call) {
  int words[2];
  ASSERT_EQ(::pipe(words), 0);
  const int before = ::dup(0);
  ::dup2(words[0], 0);
  {
    muster::sandbox_options options = small();
    options.standard_streams = true;
    sandbox box(rules(), options);
    auto job = box.submit([](inside& in, window w) { return in.read(0, w); });
    while (box.usage().calls == 0 && !job.done()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (process_state("/proc/" + std::to_string(box.process())).letter == 'S') break;  // it waits for its call
    }
    stop(box.process());
    EXPECT_EQ(::write(words[1], "seven", 5), 5);
    while (box.usage().calls == 0) std::this_thread::yield();  // answered, while the caller is stopped
    ::kill(box.process(), SIGCONT);
    EXPECT_EQ(job.get().value(), 5);
  }
  ::dup2(before, 0);
  for (const int file : {words[0], words[1], before}) ::close(file);
}

TEST_F(sandbox_death_test, not_of_an_inside_that_is_stopped_at_its_start) {
  doom::stops = true;
  doom::of = 1;
  std::atomic<bool> over{false};
  std::thread continues([&] {
    while (!over)
      for (const int one : children())
        if (process_state("/proc/" + std::to_string(one)).letter == 'T') ::kill(one, SIGCONT);
  });
  EXPECT_TRUE(work(nullptr));
  over = true;
  continues.join();
  doom::stops = false;
}

TEST_F(sandbox_death_test, of_an_inside_that_is_stopped_by_the_end_of_its_sandbox) {
  work(nullptr);
  zygote early;
  const ledger before;
  for (const bool by_zygote : {false, true}) {
    {
      std::optional<sandbox> box;
      if (by_zygote) box.emplace(early, rules(), small());
      else box.emplace(rules(), small());
      auto job = box->submit([](inside& in) {
        for (;;) in.getppid();
      });
      while (box->usage().calls < 10) std::this_thread::yield();
      stop(box->process());
      EXPECT_EQ(box->stop().why, reason::stopped);
      EXPECT_EQ(job.get().end().why, reason::stopped);
    }
    EXPECT_EQ(ledger(), before);
  }
}

// --------------------------------------------------------------------------------------------- SIGSTOP of a zygote

zygote_options impatient() { return {.patience = std::chrono::milliseconds(10), .prepared = 0}; }

/// A zygote that has been continued kills the insides that are not wanted any more, and reaps all.
void await_no_children(const zygote& of) {
  while (!children(of.process()).empty()) std::this_thread::yield();
}

TEST_F(sandbox_death_test, not_of_the_outside_when_its_zygote_is_stopped_before_a_sandbox) {
  work(nullptr);
  zygote early(impatient());
  while (!work(&early)) {
  }
  const ledger before;
  stop(early.process());
  for (int i = 0; i < 400; ++i) {  // more than its socket has room for
    try {
      const sandbox box(early, rules(), small());
      ASSERT_FALSE(is_stopped(early.process())) << "made by a zygote that is stopped";
      stop(early.process());
    } catch (const std::system_error& error) {
      ASSERT_EQ(error.code().value(), ETIMEDOUT) << error.what();
      ASSERT_NE(std::string(error.what()).find("its zygote does not answer"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(ledger(), before);
  ::kill(early.process(), SIGCONT);
  while (!work(&early)) {
  }
  await_no_children(early);
  EXPECT_EQ(ledger(), before);
}

TEST_F(sandbox_death_test, not_of_the_outside_when_its_zygote_is_stopped_at_its_start) {
  work(nullptr);
  const ledger before;
  doom::stops = true;
  doom::of = 1;
  {
    zygote early(impatient());
    EXPECT_FALSE(work(&early));
  }
  doom::stops = false;
  EXPECT_EQ(ledger(), before);
  EXPECT_TRUE(children().empty());
}

TEST_F(sandbox_death_test, not_of_the_outside_when_its_zygote_is_stopped_while_sandboxes_run) {
  work(nullptr);
  std::optional<zygote> early;
  early.emplace(zygote_options{.patience = std::chrono::milliseconds(100), .prepared = 0});
  const ledger before;
  for (const bool lasts : {true, false}) {
    std::optional<sandbox> runs, ends;
    while (!runs || !ends) try {
        if (!runs) runs.emplace(*early, rules(), small());
        ends.emplace(*early, rules(), small());
      } catch (const std::system_error& error) {
        ASSERT_EQ(error.code().value(), ETIMEDOUT) << error.what();
      }
    stop(early->process());
    EXPECT_EQ(runs->run([](inside& in) { return in.getppid() > 0 ? 42 : 0; }).value(), 42);
    const auto ended = ends->run([](inside&) { std::_Exit(3); });
    const reason why = ends->stop().why;
    if (is_stopped(early->process())) {
      EXPECT_EQ(ended.end().why, reason::unknown) << "which only its zygote could tell";
      EXPECT_EQ(why, reason::unknown);
    }
    auto job = runs->submit([](inside& in) {
      for (;;) in.getppid();
    });
    EXPECT_EQ(runs->stop().why, reason::stopped);
    EXPECT_EQ(job.get().end().why, reason::stopped);
    if (lasts) {
      ::kill(early->process(), SIGCONT);
      await_no_children(*early);
    } else {
      early.reset();
    }
  }
  for (const int one : children()) {  // which the zygote did not live to reap
    int status = 0;
    EXPECT_EQ(::waitpid(one, &status, 0), one);
  }
  EXPECT_EQ(entries("/proc/self/fd") + 2, before.files) << "the socket and the descriptor of the zygote are closed";
}

TEST_F(sandbox_death_test, not_of_the_outside_when_its_zygote_is_stopped_at_any_time) {
  work(nullptr);
  zygote early(impatient());
  const ledger before;
  unsigned right = 0;
  for (unsigned i = 0; i < 60; ++i) {
    std::thread stops([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(30 * i));
      ::kill(early.process(), SIGSTOP);
    });
    right += work(&early) ? 1 : 0;
    stops.join();
    ::kill(early.process(), SIGCONT);
  }
  while (!work(&early)) {
  }
  await_no_children(early);
  EXPECT_EQ(ledger(), before);
  RecordProperty("right", std::to_string(right));
}

// ------------------------------------------------------------------------------------------- spares of a zygote

TEST_F(sandbox_death_test, of_a_spare) {
  zygote early;
  const int first = await_spare(early);
  ::kill(first, SIGKILL);
  const ledger before;
  const int second = await_spare(early);
  EXPECT_NE(second, first);
  EXPECT_EQ(ledger(), before);
  {
    const sandbox box(early, rules(), small());
    EXPECT_EQ(box.process(), second);
  }
  // While it is ordered, and while it becomes an inside.
  for (unsigned i = 0; i < 40; ++i) {
    const int spare = await_spare(early);
    std::thread kills([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(10 * i));
      ::kill(spare, SIGKILL);
    });
    work(&early);
    kills.join();
    EXPECT_EQ(ledger(), before);
  }
}

TEST_F(sandbox_death_test, not_of_the_outside_when_a_spare_is_stopped) {
  work(nullptr);
  zygote early({.patience = std::chrono::milliseconds(100)});
  const int spare = await_spare(early);
  const ledger before;
  stop(spare);
  try {
    const sandbox box(early, rules(), small());
    EXPECT_FALSE(is_stopped(spare)) << "made of a process that is stopped";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ETIMEDOUT) << error.what();
  }
  while (!work(&early)) {
  }
  await_spare(early);
  EXPECT_EQ(ledger(), before);
}

// Where the process that has the broker is killed, or its zygote is, nothing is left of the zygote's spares.
TEST_F(sandbox_death_test, of_the_outside_and_of_the_zygote_of_a_spare) {
  for (const bool of_zygote : {false, true}) {
    const pid_t child = ::fork();
    if (child == 0) {
      zygote early({.prepared = 3});
      await_spare(early);
      while (children(early.process()).size() < 3) std::this_thread::yield();
      ::kill(of_zygote ? early.process() : ::getpid(), SIGKILL);
      ::_exit(0);
    }
    int status = 0;
    unsigned ended = 0;
    while (::waitpid(-1, &status, 0) > 0) ++ended;  // itself, and what was left behind: all of it ends
    EXPECT_GE(ended, 2U);
  }
  // One that ends in order leaves none to be reaped by others.
  {
    zygote early({.prepared = 3});
    await_spare(early);
  }
  EXPECT_TRUE(children().empty());
}

TEST_F(sandbox_death_test, not_of_the_outside_when_a_zygote_with_spares_is_stopped_at_any_time) {
  work(nullptr);
  zygote early({.patience = std::chrono::milliseconds(10), .prepared = 2});
  const ledger before;
  for (unsigned i = 0; i < 40; ++i) {
    await_spare(early);
    std::thread stops([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * i));
      ::kill(early.process(), SIGSTOP);
    });
    work(&early);
    stops.join();
    ::kill(early.process(), SIGCONT);
  }
  EXPECT_EQ(ledger(), before);
}

}  // namespace
