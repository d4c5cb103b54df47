// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Forks in libraries that a program loads, each for itself, and in the program, on one stack.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "stolen.hpp"

namespace {

using muster_test::fork_stolen;
using muster_test::workers;

/// A library that is loaded, and whose names nobody else sees.
class plugin {
 public:
  explicit plugin(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  ~plugin() { dlclose(handle_); }
  plugin(const plugin&) = delete;
  plugin& operator=(const plugin&) = delete;

  template <class F>
  F* function(const char* name) const {
    F* const found = reinterpret_cast<F*>(dlsym(handle_, name));
    if (found == nullptr) throw std::runtime_error(dlerror());
    return found;
  }

 private:
  void* const handle_;
};
using leaves_of = long(int depth, long (*next)(int), int argument);

/// Whether the program's workers are the library's too.
bool has_same_workers(const plugin& one) {
  return workers().run([&] { return one.function<int()>("plugin_knows_worker")() != 0; });
}
/// Lets a library's second halves be stolen, unless it has workers of its own, which do not find what is on one stack
/// with other libraries' forks.
void steal_in(const plugin& one) { one.function<void(int)>("plugin_set_stolen")(has_same_workers(one) ? 1 : 0); }

TEST(libraries, fork_on_one_stack) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  steal_in(first);
  steal_in(second);
  auto* const leaves = first.function<leaves_of>("plugin_leaves");
  static leaves_of* others = nullptr;
  others = second.function<leaves_of>("plugin_leaves");
  EXPECT_NE(leaves, others) << "it is one library";
  for (int depth = 0; depth < 5; ++depth) {
    const long found = workers().run([&] {
      const auto [a, b] =
          fork_stolen([&] { return leaves(depth, [](int more) { return others(more, nullptr, 0); }, depth + 1); },
                      [] { return 1L; });
      return a + b;
    });
    EXPECT_EQ(found, depth + (depth + 2) + 1);
  }
}

TEST(libraries, throw_through_each_other) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  steal_in(first);
  steal_in(second);
  auto* const leaves = first.function<leaves_of>("plugin_leaves");
  auto* const throws = second.function<long(int)>("plugin_throws");
  for (int number = 0; number < 3; ++number) {
    std::string what;
    try {
      workers().run(
          [&] { return fork_stolen([&] { return leaves(number, throws, number); }, [] { return 0; }).first; });
    } catch (const std::range_error& thrown) {
      what = thrown.what();
    }
    EXPECT_EQ(what, std::to_string(number));
  }
}

TEST(libraries, have_pools_of_their_own) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second}) {
    EXPECT_EQ(one->function<int()>("plugin_by_frames")() != 0, muster::pool::no_barrier() == nullptr);
    one->function<void(int)>("plugin_set_stolen")(1);
    EXPECT_EQ(one->function<long(int)>("plugin_pool_leaves")(4), 5);
    EXPECT_EQ(workers().run([&] { return one->function<long(int)>("plugin_pool_leaves")(4); }), 5);
  }
}

// The program's workers find the program's forks between those of a library that has workers of its own, and no others.
TEST(libraries, leave_each_other_their_forks) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second}) {
    if (has_same_workers(*one)) continue;  // then they are of the library's pool while they are in it
    auto* const calls = one->function<long(int, long (*)())>("plugin_pool_calls");
    const auto stolen = [] { return fork_stolen([] { return 100L; }, [] { return 200L; }).second; };
    const auto [a, b] = workers().run([&] { return fork_stolen([&] { return calls(6, stolen); }, [] { return 7L; }); });
    EXPECT_EQ(a, 6 * 201);
    EXPECT_EQ(b, 7);
  }
}

// Whoever forks offers the forks above as well, by the barrier of his library. They return to it when that is closed.
TEST(libraries, may_be_closed_with_forks_of_others_above) {
  if (muster::pool::no_barrier() != nullptr) GTEST_SKIP() << muster::pool::no_barrier();
  const std::string copy = testing::TempDir() + "fork_plugin_copy_" + std::to_string(getpid()) + ".so";
  std::filesystem::copy_file(FORK_PLUGIN_FIRST, copy, std::filesystem::copy_options::overwrite_existing);
  const plugin first(FORK_PLUGIN_FIRST);
  first.function<void(int)>("plugin_set_stolen")(0);
  for (int round = 0; round < 5; ++round) {
    static std::optional<plugin> another;
    static std::atomic<bool> others_may_steal;
    another.emplace(copy.c_str());
    another->function<void(int)>("plugin_set_stolen")(0);
    others_may_steal = false;
    // Nobody has asked for the forks above until now: who is asked is the other library, in one of its forks.
    const auto use_another = [](int depth) {
      others_may_steal = true;
      auto* const leaves = another->function<leaves_of>("plugin_leaves");
      long found = 0;
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
      while (std::chrono::steady_clock::now() < end) found = leaves(depth, nullptr, 0);
      another.reset();
      return found;
    };
    using alone = long(int, long (*)(int), int, const std::atomic<bool>*);
    EXPECT_EQ(first.function<alone>("plugin_pool_leaves_alone")(4, use_another, 3, &others_may_steal), 4 + (3 + 1));
  }
  std::filesystem::remove(copy);
}

// The program's idle workers interrupt a thread that waits for a thief of another library.
TEST(libraries, interrupt_each_other) {
  const plugin first(FORK_PLUGIN_FIRST), second(FORK_PLUGIN_SECOND);
  for (const plugin* one : {&first, &second})
    EXPECT_EQ(workers().run([&] { return one->function<long(int)>("plugin_pool_waits")(60); }), 60);
}

}  // namespace
