// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork_settings.hpp: the pools in which everything that forks is tried: of one worker, of several, of more than there
// are processors, each also with every fork published, so that thieves find something everywhere.
#pragma once

#include <gtest/gtest.h>
#include <muster/fork/fork2.hpp>
#include <muster/fork/pool.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <stop_token>
#include <string>
#include <thread>

namespace muster_test {

/// Enough for what the tests steal. Valgrind needs a second to note each stack of the usual 256 MiB.
inline constexpr std::size_t small_stack = std::size_t{16} << 20U;

struct fork_setting {
  unsigned workers;
  bool publish_always;
};

inline constexpr std::array fork_settings = {fork_setting{1, false}, fork_setting{1, true},  fork_setting{2, false},
                                             fork_setting{2, true},  fork_setting{5, false}, fork_setting{5, true}};

inline std::string name_of(const ::testing::TestParamInfo<fork_setting>& one) {
  return std::to_string(one.param.workers) + (one.param.publish_always ? "_published" : "");
}

class in_pools : public ::testing::TestWithParam<fork_setting> {
 protected:
  muster::pool workers_{
      {.workers = GetParam().workers, .stack_bytes = small_stack, .publish_always = GetParam().publish_always}};
};

/// Forks on every level.
inline long fib(long n) {
  if (n < 2) return n;
  const auto [a, b] = muster::fork2(fib, n - 1, [=] { return fib(n - 2); });
  return a + b;
}

/// Counts calls, and requests a stop in the n-th. Later calls wait for that request, because the system may suspend the
/// n-th call before it for any time.
class stop_at_call {
 public:
  explicit stop_at_call(unsigned n) noexcept : n_(n) {}

  [[nodiscard]] std::stop_token token() const noexcept { return stop_.get_token(); }
  [[nodiscard]] unsigned calls() const noexcept { return calls_; }

  void operator()() {
    const unsigned call = ++calls_;
    if (call == n_) stop_.request_stop();
    while (call > n_ && !stop_.stop_requested()) std::this_thread::yield();
  }

 private:
  const unsigned n_;
  std::stop_source stop_;
  std::atomic<unsigned> calls_{0};
};

}  // namespace muster_test
