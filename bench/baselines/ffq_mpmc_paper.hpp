// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffq_mpmc_paper.hpp: FFQ^m as published: Algorithm 2 of the FFQ paper (see ffq_spmc_paper.hpp).
//
// Faithful to  the algorithm, step by step, with the authors' erratum: a producer reserves a cell with the negative of
//              its own rank, so that a fast and a slow producer cannot wait for each other, and a consumer skips when
//              gap >= rank and the magnitude of the cell's rank differs. rank and gap change together by cmpxchg16b.
// Differs      flow control as in ffq_spmc_paper.hpp, here with room for every producer that has looked and not yet
//              taken its rank. The stores that publish and free a cell are release. The two words are aligned to 16
//              bytes, so that a packed cell with eight bytes of data has 32, where the paper has 24. `Counters` may
//              take ranks by batches (funnel.hpp).
// Needs        x86-64.
#pragma once

#include "baselines/double_word.hpp"
#include "baselines/funnel.hpp"
#include "driver/stream.hpp"

#include <muster/base/arch.hpp>      // isolation_size, line_size
#include <muster/base/sync.hpp>      // sync::atomic, sync::cell
#include <muster/queue/options.hpp>  // layout

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

template <class T, class Layout = layout::aligned, class Counters = single_words>
class ffq_mpmc_paper {
  using user = typename Counters::user;

 public:
  static constexpr ending ends_by = ending::poisoned;

  ffq_mpmc_paper(std::size_t capacity, unsigned, unsigned)
      : size_(static_cast<std::int64_t>(std::bit_ceil(capacity))),
        cells_(std::make_unique<cell[]>(static_cast<std::size_t>(size_))),
        head_(counting_, static_cast<std::uint64_t>(size_)),
        tail_(counting_, static_cast<std::uint64_t>(size_)) {}

  class producer {
   public:
    producer(ffq_mpmc_paper& q, unsigned) : queue_(q), user_(q.counting_) {}
    MUSTER_HOT void push(T value) {
      // The copy of head makes the look cheap; the producers' shared tail must be read every time.
      if (unclaimed() >= queue_.size_ / 2) {
        until([this] {
          head_seen_ = static_cast<std::int64_t>(queue_.head_.load(std::memory_order_relaxed));
          return unclaimed() < queue_.size_ / 2;
        });
      }
      queue_.enqueue(std::move(value), user_);
    }

   private:
    std::int64_t unclaimed() const {
      return static_cast<std::int64_t>(queue_.tail_.load(std::memory_order_relaxed)) - head_seen_;
    }

    ffq_mpmc_paper& queue_;
    user user_;
    std::int64_t head_seen_ = queue_.size_;
  };

  class consumer {
   public:
    consumer(ffq_mpmc_paper& q, unsigned) : queue_(q), user_(q.counting_) {}
    MUSTER_HOT T pop() { return queue_.dequeue(user_); }

   private:
    ffq_mpmc_paper& queue_;
    user user_;
  };

 private:
  struct alignas(16) state {
    sync::atomic<std::int64_t> rank{0};
    sync::atomic<std::int64_t> gap{0};
  };
  struct alignas(Layout::own_line ? line_size : alignof(state)) cell {
    state now;
    sync::cell<T> data;
  };

  cell& at(std::int64_t rank) {
    const std::int64_t place = rank & (size_ - 1);
    if constexpr (!Layout::rotates) return cells_[static_cast<std::size_t>(place)];
    // The paper's randomization (IV-A): the bits of the place, rotated by four.
    const std::int64_t rotated = (place << 4U | place >> (bits_ > 4 ? bits_ - 4 : 0)) & (size_ - 1);
    return cells_[static_cast<std::size_t>(bits_ > 4 ? rotated : place)];
  }

  static std::int64_t next(typename Counters::counter& of, user& by) {
    return static_cast<std::int64_t>(of.fetch_add(by, 1));
  }

  void enqueue(T&& value, user& own) {
    for (;;) {
      const std::int64_t rank = next(tail_, own);
      cell& c = at(rank);
      for (std::int64_t gap = 0; (gap = c.now.gap.load()) < rank;) {
        const std::int64_t held = c.now.rank.load();
        if (held != 0) {
          exchange_both(c.now, held, gap, held, rank);
        } else if (exchange_both(c.now, std::int64_t{0}, gap, -rank, gap)) {
          c.data.write_ref() = std::move(value);
          c.now.rank.store(rank, std::memory_order_release);
          return;
        }
      }
    }
  }

  T dequeue(user& own) {
    std::int64_t rank = next(head_, own);
    patience p;
    for (;;) {
      cell& c = at(rank);
      if (c.now.rank.load() == rank) {
        T value = std::move(c.data.write_ref());
        c.now.rank.store(0, std::memory_order_release);
        return value;
      }
      if (c.now.gap.load() >= rank) {
        const std::int64_t held = c.now.rank.load();
        if (held != rank && held != -rank) {
          rank = next(head_, own);
          p.reset();
          continue;
        }
        if (held == rank) continue;
      }
      p.wait();
    }
  }

  const std::int64_t size_;
  const unsigned bits_ = static_cast<unsigned>(std::countr_zero(static_cast<std::uint64_t>(size_)));
  const std::unique_ptr<cell[]> cells_;
  typename Counters::group counting_;
  alignas(isolation_size) typename Counters::counter head_;
  alignas(isolation_size) typename Counters::counter tail_;
};

}  // namespace muster::bench::inline MUSTER_ABI
