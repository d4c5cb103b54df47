// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// item.hpp: the 8-byte values that travel through a measured queue, and the check that none was lost.
//
// An item is its producer's number in the bits from 36 up and the producer's count, from 1, below. It is never 0
// (several peers reserve 0) and below 2^47 (one peer stores pointers with a mark in the upper bits).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::bench {

using item = std::uint64_t;

inline constexpr unsigned producer_shift = 36;
inline constexpr unsigned most_producers = 254;

/// Tells a consumer to stop, in queues that cannot be closed. No producer has this number.
inline constexpr item poison = (item{255} << producer_shift) | 0xfff;

constexpr item make_item(unsigned producer, std::uint64_t sequence) {
  return (item{producer} << producer_shift) | sequence;
}

constexpr bool is_poison(item value) { return value == poison; }

/// Counts of one consumer, in numbers that a process can leave to another.
struct tally {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;           // of the values: notices what was lost or invented
  std::uint64_t folded = 0;        // exclusive or of mixed values: notices losses that a sum would balance
  std::uint64_t foreign = 0;       // values whose producer does not exist
  std::uint64_t out_of_order = 0;  // values not above the last one of the same producer
};

/// Makes the tally. Cheap enough to run inside the timed part: two sums, one comparison.
class alignas(128) consumer_check {
 public:
  explicit consumer_check(unsigned producers) : last_(producers, 0), one_producer_(producers == 1) {}

  const tally& seen() const { return seen_; }

  // Always inlined: a call would cost some contenders, and not others, a tenth of their throughput.
  [[gnu::always_inline]] void add(item value) {
    ++seen_.count;
    seen_.sum += value;
    seen_.folded ^= fold(value);
    // A locked instruction waits for all that comes before it, so what depends on the item is kept short.
    if (one_producer_) [[likely]] {
      if (value >> producer_shift != 0) [[unlikely]] {
        ++seen_.foreign;
        return;
      }
      note(value, last_of_one_);
      return;
    }
    const std::size_t producer = value >> producer_shift;
    if (producer >= last_.size()) [[unlikely]] {
      ++seen_.foreign;
      return;
    }
    note(value, last_[producer]);
  }

  static constexpr std::uint64_t fold(item value) { return value * 0x9e3779b97f4a7c15u; }

 private:
  [[gnu::always_inline]] void note(item value, item& last) {
    if (value <= last) [[unlikely]]
      ++seen_.out_of_order;
    last = value;
  }

  tally seen_;
  item last_of_one_ = 0;
  std::vector<item> last_;  // the last value of each producer
  bool one_producer_;
};

/// The result of all consumer_checks of one run. `error` is empty when the run was right.
struct verdict {
  std::string error;
  std::uint64_t out_of_order = 0;
};

/// Compares the consumer_checks with what was sent: `sent[p]` items, counted from 1, by producer p. Order within one
/// producer and one consumer counts as an error only when `demand_order`; it is reported either way.
verdict judge(const std::vector<tally>& seen, const std::vector<std::uint64_t>& sent, bool demand_order);
verdict judge(const std::vector<consumer_check>& consumer_checks, const std::vector<std::uint64_t>& sent,
              bool demand_order);

}  // namespace muster::bench
