// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_paper.hpp: PSim and PSim-x as published: Fatourou and Kallimanis, "A highly-efficient wait-free universal
// construction", SPAA 2011, and "Lock Oscillation", OPODIS 2017. Requests and results are 64-bit numbers, and one
// function of the state and the argument serves them all.
//
// Faithful to  the papers: a bit for each fiber, toggled by fetch-and-add; records with the state, the toggles in it,
//              and a result for each fiber; two attempts to replace the record; PSim-x yields after announcing.
// Corrected    a record that is read may be written at the same time. Here its words are atomic, and a fiber believes
//              that its operation has been applied only after it has seen that the record is still the current one.
// Differs      two records for each fiber, as printed; the authors' program has four. There is no backoff.
#pragma once

#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// Operation: std::int64_t operator()(State&, std::int64_t argument), for a State of eight bytes.
template <class State, class Operation, class Pause = cpu_turn>
class psim_paper {
  using word = std::uint64_t;
  static constexpr unsigned bits = 64;
  static_assert(sizeof(State) <= sizeof(word));

  /// Its words: the state, the toggles that it contains, the results.
  struct alignas(isolation_size) record {
    std::unique_ptr<sync::atomic<word>[]> words;
  };

 public:
  /// For `fibers` fibers on each of `cores` threads.
  psim_paper(unsigned cores, unsigned fibers, const State& first)
      : fibers_(fibers),
        all_(cores * fibers),
        banks_((all_ + bits - 1) / bits),
        toggles_(std::make_unique<sync::atomic<word>[]>(banks_)),
        announced_(std::make_unique<sync::atomic<std::int64_t>[]>(all_)),
        records_(std::size_t{2} * all_ + 1),
        current_(word{2} * all_) {
    for (record& one : records_) one.words = std::make_unique<sync::atomic<word>[]>(1 + banks_ + all_);
    records_.back().words[0].store(packed(first), std::memory_order_relaxed);
  }
  psim_paper(const psim_paper&) = delete;
  psim_paper& operator=(const psim_paper&) = delete;

  /// The fiber with number `place` on `core`. One for each.
  class handle {
   public:
    handle(psim_paper& object, unsigned core, unsigned place)
        : object_(object),
          number_(core * object.fibers_ + place),
          copy_(1 + object.banks_ + object.all_),
          seen_(object.banks_) {}

    std::int64_t apply(std::int64_t argument) {
      const unsigned bank = number_ / bits;
      const word bit = word{1} << (number_ % bits);
      object_.announced_[number_].store(argument, std::memory_order_relaxed);
      toggle_ = !toggle_;
      // (1) seq_cst: pairs with (2) and (3). A thread that sees the bit sees the argument. If this fiber then reads a
      // current record, a thread that reads a later one sees the bit. The sum of the bank never carries.
      object_.toggles_[bank].fetch_add(toggle_ ? bit : word{0} - bit, std::memory_order_seq_cst);
      Pause::turn();
      for (unsigned attempt = 0; attempt < 2; ++attempt) {
        // (3) seq_cst: pairs with (1) and (4). The record is seen as its writer left it, or as a later one.
        word current = object_.current_.load(std::memory_order_seq_cst);
        const record& from = object_.record_of(current);
        // (5) acquire: pairs with (6). If a later writer has begun to use the record, the checks below notice.
        if (((from.words[1 + bank].load(std::memory_order_acquire) & bit) != 0) == toggle_) {
          if (object_.current_.load(std::memory_order_relaxed) == current) break;  // it has been applied
          continue;
        }
        for (std::size_t i = 0; i < copy_.size(); ++i) copy_[i] = from.words[i].load(std::memory_order_acquire);  // (5)
        // (2) seq_cst: pairs with (1).
        for (unsigned b = 0; b < object_.banks_; ++b) seen_[b] = object_.toggles_[b].load(std::memory_order_seq_cst);
        if (object_.current_.load(std::memory_order_relaxed) != current) continue;
        if (((copy_[1 + bank] & bit) != 0) == toggle_) break;
        serve();
        const std::size_t mine = std::size_t{2} * number_ + next_;
        // (6) release: pairs with (5). A reader of an old record then sees that it is no longer current.
        for (std::size_t i = 0; i < copy_.size(); ++i)
          object_.records_[mine].words[i].store(copy_[i], std::memory_order_release);
        // (4) release: pairs with (3, 7).
        if (object_.current_.compare_exchange_strong(current, after(current, mine), std::memory_order_release,
                                                     std::memory_order_relaxed)) {
          next_ = 1 - next_;
          return static_cast<std::int64_t>(copy_[1 + object_.banks_ + number_]);
        }
      }
      // The operation has been applied: if not seen, two others have succeeded, and the second began after it was
      // announced. From then on every record that is current, or is being written, has the same result for this fiber.
      // (7) acquire: pairs with (4).
      const word current = object_.current_.load(std::memory_order_acquire);
      return static_cast<std::int64_t>(
          object_.record_of(current).words[1 + object_.banks_ + number_].load(std::memory_order_relaxed));
    }

   private:
    /// Applies all announced requests that the copy does not contain.
    void serve() {
      State state = unpacked(copy_[0]);
      for (unsigned b = 0; b < object_.banks_; ++b) {
        for (word left = copy_[1 + b] ^ seen_[b]; left != 0; left &= left - 1) {
          const unsigned fiber = b * bits + static_cast<unsigned>(std::countr_zero(left));
          copy_[1 + object_.banks_ + fiber] =
              static_cast<word>(Operation{}(state, object_.announced_[fiber].load(std::memory_order_relaxed)));
        }
        copy_[1 + b] = seen_[b];
      }
      copy_[0] = packed(state);
    }

    psim_paper& object_;
    const unsigned number_;
    bool toggle_ = false;
    unsigned next_ = 0;  // of its two records: the one that is not current
    std::vector<word> copy_;
    std::vector<word> seen_;
  };

  /// Only while no thread uses the object.
  State state() const noexcept {
    return unpacked(record_of(current_.load(std::memory_order_relaxed)).words[0].load(std::memory_order_relaxed));
  }

 private:
  static constexpr word indices = word{1} << 24U;
  const record& record_of(word current) const noexcept { return records_[current % indices]; }
  /// A count of changes above the index, so that a record may be current again.
  static word after(word current, std::size_t index) noexcept { return (current / indices + 1) * indices + index; }
  static word packed(const State& state) noexcept {
    word all = 0;
    std::memcpy(&all, &state, sizeof state);
    return all;
  }
  static State unpacked(word all) noexcept {
    State state;
    std::memcpy(&state, &all, sizeof state);
    return state;
  }

  const unsigned fibers_;
  const unsigned all_;
  const unsigned banks_;
  const std::unique_ptr<sync::atomic<word>[]> toggles_;
  const std::unique_ptr<sync::atomic<std::int64_t>[]> announced_;
  std::vector<record> records_;
  alignas(isolation_size) sync::atomic<word> current_;
};

}  // namespace muster::bench::inline MUSTER_ABI
