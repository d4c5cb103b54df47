// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// algorithms.hpp: algorithms that libraries offer: sorting, prefix sums, a sum, a loop without a grain. A style S for
// these programs offers sort(v), scan(from, to), sum(v) and each(n, f).
#pragma once

#include "programs/program.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace muster::bench {

template <class S>
class sort_numbers {
 public:
  static constexpr program_sizes size{20000, 1000000, 10000000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit sort_numbers(std::uint64_t many) : values_(many) {
    scrambler random(7);
    for (std::uint64_t& value : values_) sum_ += value = random.next();
  }
  void run(S) { S::sort(values_); }
  std::uint64_t digest() const { return digest_of(values_); }
  std::string error() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t value : values_) sum += value;
    return std::is_sorted(values_.begin(), values_.end()) && sum == sum_ ? "" : "the numbers are not sorted";
  }
  std::uint64_t items() const { return values_.size(); }

 private:
  std::vector<std::uint64_t> values_;
  std::uint64_t sum_ = 0;
};

template <class S>
class sort_texts {
 public:
  static constexpr program_sizes size{5000, 100000, 1000000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit sort_texts(std::uint64_t many) : values_(many) {
    scrambler random(9);
    for (std::string& value : values_) {
      value = "key " + std::to_string(random.next() % (10 * many));
      length_ += value.size();
    }
  }
  void run(S) { S::sort(values_); }
  std::uint64_t digest() const {
    std::uint64_t sum = 0;
    for (const std::string& value : values_)
      for (const char c : value) sum = sum * 31 + static_cast<unsigned char>(c);
    return sum;
  }
  std::string error() const {
    std::uint64_t length = 0;
    for (const std::string& value : values_) length += value.size();
    return std::is_sorted(values_.begin(), values_.end()) && length == length_ ? "" : "the texts are not sorted";
  }
  std::uint64_t items() const { return values_.size(); }

 private:
  std::vector<std::string> values_;
  std::uint64_t length_ = 0;
};

template <class S>
class running_sums {
 public:
  static constexpr program_sizes size{20000, 4000000, 40000000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit running_sums(std::uint64_t many) : from_(many), to_(many) {
    for (std::uint64_t i = 0; i < many; ++i) from_[i] = i % 1000;
  }
  void run(S) { S::scan(from_, to_); }
  std::uint64_t digest() const { return digest_of(to_); }
  std::string error() const {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < from_.size(); ++i)
      if (to_[i] != (sum += from_[i])) return "a running sum is wrong";
    return "";
  }
  std::uint64_t items() const { return from_.size(); }

 private:
  std::vector<std::uint64_t> from_, to_;
};

template <class S>
class one_sum {
 public:
  static constexpr program_sizes size{20000, 4000000, 40000000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit one_sum(std::uint64_t many) : values_(many) {
    for (std::uint64_t i = 0; i < many; ++i) values_[i] = i;
  }
  void run(S) { sum_ = S::sum(values_); }
  std::uint64_t digest() const { return sum_; }
  std::string error() const { return sum_ == items() * (items() - 1) / 2 ? "" : "the sum is wrong"; }
  std::uint64_t items() const { return values_.size(); }

 private:
  std::vector<std::uint64_t> values_;
  std::uint64_t sum_ = 0;
};

/// A loop whose turns become longer and longer.
template <class S>
class uneven_loop {
 public:
  static constexpr program_sizes size{2000, 20000, 100000};
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit uneven_loop(std::uint64_t many) : values_(many) {}
  void run(S) {
    S::each(values_.size(), [this](std::size_t i) { values_[i] = steps(i); });
  }
  std::uint64_t digest() const { return digest_of(values_); }
  std::string error() const {
    for (std::uint64_t i = 0; i < values_.size(); i += 997)
      if (values_[i] != steps(i)) return "a turn is wrong";
    return "";
  }
  std::uint64_t items() const { return values_.size(); }

 private:
  static std::uint64_t steps(std::uint64_t i) {
    std::uint64_t x = i + 1;
    for (std::uint64_t k = 0; k < i / 16; ++k) x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
  }
  std::vector<std::uint64_t> values_;
};

}  // namespace muster::bench
