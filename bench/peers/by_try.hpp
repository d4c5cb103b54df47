// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// by_try.hpp: adapts a peer whose operations do not wait. The driver waits outside.
#pragma once

#include "driver/shared_pairs.hpp"
#include "driver/stream.hpp"

namespace muster::bench {

/// Push(queue, T&) and Pop(queue, T&) return false if they have done nothing.
template <class T, class Queue, auto Push, auto Pop>
class by_try {
 public:
  static constexpr ending ends_by = ending::drained;

  by_try(std::size_t capacity, unsigned, unsigned) : queue_(static_cast<unsigned>(capacity)) {}
  /// Without handles, it is a structure of driver/shared_pairs.hpp as well.
  explicit by_try(const team_spec&) : queue_(4096) {}

  MUSTER_HOT void push(T value) {
    until([&] { return Push(queue_, value); });
  }
  MUSTER_HOT bool try_push(T value) { return Push(queue_, value); }
  MUSTER_HOT bool try_pop(T& value) { return Pop(queue_, value); }
  MUSTER_HOT bool pop(T& value) { return Pop(queue_, value); }

 protected:
  Queue queue_;
};

}  // namespace muster::bench
