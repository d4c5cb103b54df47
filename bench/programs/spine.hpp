// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// spine.hpp: a chain of nested forks of a given depth. Once all exist, another worker steals some of them. The second
// halves do nothing; the function at the bottom forks until enough is stolen.
#pragma once

#include "programs/program.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>

namespace muster::bench {

template <class S>
class spine {
 public:
  static constexpr program_sizes size{4, 1'000, 1'000};  // forks
  static constexpr bool repeats = false;
  static constexpr bool coarse = false;
  static constexpr unsigned enough = 8;

  explicit spine(std::uint64_t depth) : depth_(depth) {}

  void run(S) {
    stolen_ = 0;
    executed_ = 0;
    other_is_busy_ = all_are_there_ = false;
    owner_ = std::this_thread::get_id();
    S::fork2([this] { return begin(); }, [this] { return keep_other_busy(); });
  }

  std::uint64_t digest() const { return executed_; }
  std::string error() const { return executed_ == depth_ ? "" : "a fork is lost"; }
  std::uint64_t items() const { return depth_; }
  void tell(std::map<std::string, double>& to) const { to["seconds per theft"] = seconds_ / enough; }

 private:
  using clock = std::chrono::steady_clock;

  /// Waits until ready(), or returns false after some time: a serial run steals nothing.
  template <class Ready>
  static bool wait(Ready ready) {
    using namespace std::chrono_literals;
    for (const auto end = clock::now() + 5ms; !ready();)
      if (clock::now() > end) return false;
    return true;
  }
  bool is_stolen() const { return std::this_thread::get_id() != owner_; }

  int begin() {
    wait([this] { return other_is_busy_.load(); });
    return descend(depth_);
  }
  int keep_other_busy() {
    if (!is_stolen()) return 0;
    other_is_busy_ = true;
    wait([this] { return all_are_there_.load(); });
    return 0;
  }
  int descend(std::uint64_t left) {
    if (left == 0) return bottom();
    const auto [a, b] = S::fork2([this, left] { return descend(left - 1); }, [this] { return second(); });
    return a + b;
  }
  int second() {
    S::leaf();
    if (is_stolen()) ++stolen_;
    ++executed_;
    return 1;
  }
  int bottom() {
    const auto since = clock::now();
    all_are_there_ = true;
    wait([this] {
      S::fork2([] { return 0; }, [] { return 0; });
      return stolen_.load() >= enough;
    });
    seconds_ = std::chrono::duration<double>(clock::now() - since).count();
    return 0;
  }

  const std::uint64_t depth_;
  std::thread::id owner_;
  std::atomic<bool> other_is_busy_{false}, all_are_there_{false};
  std::atomic<unsigned> stolen_{0};
  std::atomic<std::uint64_t> executed_{0};
  double seconds_ = 0;
};

}  // namespace muster::bench
