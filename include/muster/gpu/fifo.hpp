// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fifo.hpp: a lock-free FIFO of 32-bit numbers with few memory operations: XMalloc's buffer of free blocks.
//
// Producers  any number of lanes of one device; consumers likewise. The host, while no kernel uses it.
// Capacity   a power of two, up to that of the type, or 0. The newest message is stored apart from the others, in the
//            tail itself.
// Cost       an empty pop: two loads. Otherwise, uncontended: pop two or three memory operations and one on the head;
//            push three or four and one on the tail.
// Progress   lock-free: some lane's change of head or tail succeeds. try_push may find a FIFO full that has just been
//            popped from; it never overfills it.
// Orders     writes made before a push are visible after the pop of its number.
// Numbering  messages are numbered modulo 2^32. A lane that is stopped between two operations while 2^32 messages pass
//            through the FIFO mistakes an old state for the new one.
// Source     Huang, Rodrigues, Jones, Buck, Hwu, "Scalable SIMD-parallel memory allocation for many-core machines"
//            (J. Supercomputing, 2011), Figures 7 to 9, with two corrections. The test for "full" is >=, not ==, or one
//            stale read of the head overfills the FIFO: a message is lost and another delivered twice. The head is
//            read before the tail, or an empty FIFO may appear to hold -1 messages.
#pragma once

#include <muster/gpu/simt.cuh>  // atomic

#include <atomic>   // std::memory_order
#include <cstdint>  // std::uint32_t

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

template <unsigned Most>
class fifo {
  static_assert(Most != 0 && (Most & (Most - 1)) == 0, "fifo: Most must be a power of two");

 public:
  /// An empty FIFO for one message, to be started for more.
  MUSTER_GPU fifo() { start(1); }
  fifo(const fifo&) = delete;
  fifo& operator=(const fifo&) = delete;

  /// Makes it an empty FIFO for `wanted` messages, rounded up to a power of two, or for `Most` if that is less; for
  /// none, it is always full. The first message will have the number `first`. No lane may use it meanwhile.
  MUSTER_GPU void start(unsigned wanted, std::uint32_t first = 0) {
    capacity_ = wanted == 0 ? 0 : 1;
    while (capacity_ < wanted && capacity_ < Most) capacity_ *= 2;
    head_.store(first, std::memory_order_relaxed);
    tail_.store(message(first - 1, 0), std::memory_order_relaxed);
    // As if so many messages had been pushed and popped.
    for (std::uint32_t number = first - capacity_; number != first; ++number)
      slot_of(number).store(message(number, 0), std::memory_order_relaxed);
  }
  /// The most messages that it holds.
  MUSTER_GPU unsigned capacity() const { return capacity_; }

  /// Returns false if the FIFO was full at some time during the call.
  MUSTER_GPU bool try_push(std::uint32_t payload) {
    for (;;) {
      // (1) acquire: pairs with (3). If there is room, the previous message in the slot has been stored and read, so
      // this push cannot find an older one there. The tail is read after the head.
      const std::uint32_t head = head_.load(std::memory_order_acquire);
      std::uint64_t tail = tail_.load(std::memory_order_relaxed);
      if (number_of(tail) - head + 1 >= capacity_) return false;
      // Move the message that was the newest to its slot, unless another lane has done so.
      atomic<std::uint64_t>& slot = slot_of(number_of(tail));
      std::uint64_t old = slot.load(std::memory_order_relaxed);
      if (number_of(old) + capacity_ == number_of(tail))
        slot.compare_exchange_strong(old, tail, std::memory_order_relaxed, std::memory_order_relaxed);
      // (2) release: pairs with (4). A lane that reads this tail or a later one finds the message before it in its
      // slot, and sees the block behind the number as the pushing lane left it.
      if (tail_.compare_exchange_strong(tail, message(number_of(tail) + 1, payload), std::memory_order_release,
                                        std::memory_order_relaxed))
        return true;
    }
  }

  /// Returns false if the FIFO is empty, and leaves `payload` unchanged.
  MUSTER_GPU bool try_pop(std::uint32_t& payload) {
    for (;;) {
      // (1)
      const std::uint32_t head = head_.load(std::memory_order_acquire);
      // (4) acquire: pairs with (2). Every message older than the tail is in its slot.
      const std::uint64_t tail = tail_.load(std::memory_order_acquire);
      if (number_of(tail) + 1 == head) return false;
      const std::uint64_t first = number_of(tail) == head ? tail : slot_of(head).load(std::memory_order_relaxed);
      std::uint32_t expected = head;
      // (3) release: pairs with (1). The message has been read before its slot is free.
      if (number_of(first) == head &&
          head_.compare_exchange_strong(expected, head + 1, std::memory_order_release, std::memory_order_relaxed)) {
        payload = static_cast<std::uint32_t>(first);
        return true;
      }
    }
  }

  /// Calls f(payload) for each message, the oldest first. No lane may push or pop meanwhile.
  template <class F>
  void each(F f) const {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (std::uint32_t n = head_.load(std::memory_order_relaxed); n != number_of(tail) + 1; ++n)
      f(static_cast<std::uint32_t>(n == number_of(tail) ? tail : slot_of(n).load(std::memory_order_relaxed)));
  }

 private:
  MUSTER_GPU atomic<std::uint64_t>& slot_of(std::uint32_t number) { return messages_[number & (capacity_ - 1)]; }
  MUSTER_GPU const atomic<std::uint64_t>& slot_of(std::uint32_t number) const {
    return messages_[number & (capacity_ - 1)];
  }
  static MUSTER_GPU std::uint64_t message(std::uint32_t number, std::uint32_t payload) {
    return std::uint64_t{number} << 32U | payload;
  }
  static MUSTER_GPU std::uint32_t number_of(std::uint64_t message) {
    return static_cast<std::uint32_t>(message >> 32U);
  }

  // On different lines: consumers change the head, producers the tail. The capacity never changes while lanes use it.
  alignas(32) atomic<std::uint32_t> head_;  // the number of the oldest message
  unsigned capacity_ = 0;
  alignas(32) atomic<std::uint64_t> tail_;  // the newest message
  // The messages from `head_` up to the newest, which is excluded; message n is at n % capacity_.
  alignas(32) atomic<std::uint64_t> messages_[Most];
};

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
