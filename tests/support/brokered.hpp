// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// brokered.hpp: a broker and its client in one process, without a wall, so sanitizers can check both.
#pragma once

#include <muster/syscall/broker.hpp>
#include <muster/syscall/inside.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster_test {

class brokered {
 public:
  struct sizes {
    unsigned calls = 8;
    std::size_t copy_bytes = 16384;
    std::size_t window_bytes = 65536;
    unsigned threads = 1;
  };

  explicit brokered(muster::policy rules) : brokered(std::move(rules), sizes{}) {}
  brokered(muster::policy rules, sizes s)
      : rules_(std::move(rules)),
        plan_{s.calls, 1, s.copy_bytes, s.window_bytes},
        arena_(muster::detail::make_arena(plan_)),
        at(plan_, arena_.start()),
        broker_(std::in_place, rules_, at,
                muster::detail::broker::options{s.threads, false,
                                                [this](const muster::sandbox_refusal& one) {
                                                  const std::lock_guard lock(mutex_);
                                                  refusals_.push_back(one);
                                                },
                                                [this] { ++kills_; }}),
        in(at) {
    broker_->start();
  }

  std::span<std::byte> window() const { return {at.data() + plan_.window_of(0), plan_.window_bytes}; }
  std::string text(std::size_t bytes) const { return {reinterpret_cast<const char*>(window().data()), bytes}; }
  std::vector<muster::sandbox_refusal> refusals() {
    const std::lock_guard lock(mutex_);
    return refusals_;
  }
  unsigned kills() const { return kills_; }
  std::chrono::nanoseconds processor_time() const { return broker_->processor_time(); }
  muster::sandbox_usage usage() const { return broker_->usage(); }
  void stop() { broker_->stop(); }

 private:
  const muster::policy rules_;
  const muster::detail::arena_plan plan_;
  const muster::mapped_region arena_;
  std::mutex mutex_;
  std::vector<muster::sandbox_refusal> refusals_;
  std::atomic<unsigned> kills_{0};

 public:
  const muster::detail::arena_map at;

 private:
  std::optional<muster::detail::broker> broker_;

 public:
  muster::inside in;
};

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace muster_test
