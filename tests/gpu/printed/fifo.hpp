// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fifo.hpp: XMalloc's FIFO as Figures 8 and 9 of the paper print it, to show that the tests notice what is wrong with
// it. Under the checker every operation is sequentially consistent, so that nothing else is to blame. See
// muster/gpu/fifo.hpp.
#pragma once

#include <muster/gpu/simt.cuh>

#include <atomic>
#include <cstdint>

namespace printed {

namespace mg = muster::gpu;

/// TailFirst: what a compiler or a machine may make of the two loads that begin each operation.
template <unsigned Size, bool TailFirst>
class fifo {
 public:
  explicit fifo(std::uint32_t first = 0) : head_(first), tail_(message(first - 1, 0)) {
    for (std::uint32_t number = first - Size; number != first; ++number)
      messages_[number % Size].store(message(number, 0), order);
  }

  bool try_push(std::uint32_t payload) {
    for (;;) {
      std::uint32_t head = 0;
      std::uint64_t tail = 0;
      look(head, tail);
      if (number_of(tail) - head + 1 == Size) return false;
      auto& slot = messages_[number_of(tail) % Size];
      std::uint64_t old = slot.load(order);
      if (number_of(old) + Size == number_of(tail)) slot.compare_exchange_strong(old, tail, order, order);
      if (tail_.compare_exchange_strong(tail, message(number_of(tail) + 1, payload), order, order)) return true;
    }
  }

  bool try_pop(std::uint32_t& payload) {
    for (;;) {
      std::uint32_t head = 0;
      std::uint64_t tail = 0;
      look(head, tail);
      if (number_of(tail) - head + 1 == 0) return false;
      const std::uint64_t first = number_of(tail) == head ? tail : messages_[head % Size].load(order);
      std::uint32_t expected = head;
      if (!head_.compare_exchange_strong(expected, head + 1, order, order)) continue;
      payload = static_cast<std::uint32_t>(first);
      return true;
    }
  }

 private:
  static constexpr auto order = std::memory_order_seq_cst;

  static std::uint64_t message(std::uint32_t number, std::uint32_t payload) {
    return std::uint64_t{number} << 32U | payload;
  }
  static std::uint32_t number_of(std::uint64_t message) { return static_cast<std::uint32_t>(message >> 32U); }
  void look(std::uint32_t& head, std::uint64_t& tail) {
    if (TailFirst) tail = tail_.load(order);
    head = head_.load(order);
    if (!TailFirst) tail = tail_.load(order);
  }

  mg::atomic<std::uint32_t> head_;
  mg::atomic<std::uint64_t> tail_;
  mg::atomic<std::uint64_t> messages_[Size];
};

}  // namespace printed
