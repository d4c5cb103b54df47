// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counted.hpp: item types that count their lives, refuse to be copied, or throw on demand.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace muster_test {

/// Counts objects alive; a test ends with none. Each holds a value; a moved-from object holds 0.
class counted {
 public:
  explicit counted(std::uint64_t value = 0) : value_(value) { alive_.fetch_add(1); }
  counted(counted&& other) noexcept : value_(std::exchange(other.value_, 0)) { alive_.fetch_add(1); }
  counted(const counted& other) : value_(other.value_) { alive_.fetch_add(1); }
  counted& operator=(counted&& other) noexcept {
    value_ = std::exchange(other.value_, 0);
    return *this;
  }
  counted& operator=(const counted&) = default;
  ~counted() { alive_.fetch_sub(1); }

  std::uint64_t value() const { return value_; }
  static std::int64_t alive() { return alive_.load(); }

 private:
  std::uint64_t value_;
  static inline std::atomic<std::int64_t> alive_{0};
};

/// Thrown by an item; carries the value of the item.
struct refusal : std::runtime_error {
  explicit refusal(std::uint64_t v) : std::runtime_error("the item refuses"), value(v) {}
  std::uint64_t value;
};

/// Throws from the operation that is chosen when the item is made.
class touchy : public counted {
 public:
  enum class when { not_at_all, copied, moved };
  explicit touchy(std::uint64_t v = 0, when w = when::not_at_all) : counted(v), when_(w) {}
  touchy(const touchy& other) : counted(other), when_(other.when_) {
    if (when_ == when::copied) throw refusal(value());
  }
  touchy(touchy&& other) : counted(static_cast<const counted&>(other)), when_(other.when_) {
    if (when_ == when::moved) throw refusal(value());
  }
  touchy& operator=(const touchy&) = default;
  touchy& operator=(touchy&& other) {
    if (other.when_ == when::moved) throw refusal(other.value());
    counted::operator=(static_cast<const counted&>(other));
    when_ = other.when_;
    return *this;
  }

 private:
  when when_;
};

}  // namespace muster_test
