// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Fibers of several threads that push to an unbounded queue or stack of numbers and pop from it.
#pragma once

#include <muster/fiber.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "history.hpp"

namespace muster_test {

struct structure_storm {
  unsigned carriers = 1;
  unsigned fibers = 1;         ///< of each carrier
  std::size_t operations = 0;  ///< of each fiber

  /// The history of fibers that push and pop by chance.
  template <class Clock, class Object>
  [[nodiscard]] std::vector<event> play(Object& object, unsigned seed) const {
    recording<Clock> record(carriers * fibers, operations);
    muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
      const std::size_t self = carrier * fibers + fiber;
      thread_log<Clock>& log = record.log(self);
      std::minstd_rand dice(static_cast<unsigned>(self) + seed + 1);
      for (std::size_t n = 0; n < operations; ++n) {
        if (dice() % 100 < 50) {
          const std::uint64_t value = self * operations + n + 1;
          log.invoke(op::push, value);
          object.push(value);
          log.respond(result::success);
        } else {
          log.invoke(op::pop);
          if (const std::optional<std::uint64_t> value = object.pop()) {
            log.respond(result::success, *value);
          } else {
            log.respond(result::empty);
          }
        }
        if (dice() % 4 == 0) muster::this_fiber::yield();
      }
    });
    return record.history();
  }

  /// Describes the items that were lost or came out twice, of distinct items of which each is pushed once, with a pop
  /// after each push; empty if there are none.
  template <class Object>
  [[nodiscard]] std::string count(Object& object) const {
    std::vector<std::vector<std::uint64_t>> popped(carriers * fibers);
    muster::run_team({.carriers = carriers, .fibers = fibers}, [&](unsigned carrier, unsigned fiber) {
      const std::size_t self = carrier * fibers + fiber;
      for (std::size_t n = 0; n < operations; ++n) {
        object.push(self * operations + n);
        if (const auto value = object.pop()) popped[self].push_back(*value);
      }
    });
    std::vector<unsigned> seen(carriers * fibers * operations);
    for (const auto& by_one : popped)
      for (const std::uint64_t value : by_one) ++seen.at(value);
    while (const auto value = object.pop()) ++seen.at(*value);
    for (std::size_t value = 0; value < seen.size(); ++value)
      if (seen[value] != 1) return "item " + std::to_string(value) + " came " + std::to_string(seen[value]) + " times";
    return {};
  }
};

}  // namespace muster_test
