// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lcrq.hpp: LCRQ, the list of concurrent ring queues of Morrison and Afek, "Fast Concurrent Queues for x86 Processors",
// PPoPP 2013. Unbounded, strict FIFO, of 64-bit values other than ~0. ring_list.hpp has the list and what is changed.
//
// Faithful to  the paper's CRQ: value, safe bit and index of a cell change together by a double-word compare-and-swap;
//              a dequeuer that comes first turns the cell's index to its own lap or marks it unsafe.
// Memory       a line per cell by default.
// Needs        x86-64. Elsewhere `available` is false and the constructor throws std::runtime_error. A thread sanitizer
//              does not see the double-word operation as a synchronization; nothing in here depends on that, but
//              memory that a value points to would need an order of its own in such a build.
#pragma once

#include "double_word.hpp"
#include "ring_list.hpp"

#include <muster/base/arch.hpp>  // line_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <cstddef>
#include <cstdint>

namespace muster::bench::inline MUSTER_ABI {

// value: the item, or empty. place: see cell_place; with an item in the cell, its ticket.
template <std::size_t Align>
class alignas(Align) crq_cell {
  static_assert(Align >= 16, "the double-word operation needs 16-byte alignment");
  using word = std::uint64_t;

 public:
  static constexpr bool available = double_words;
  static constexpr word empty = ~word{0};
  static constexpr word greatest = empty - 1;

  void fill(word ticket, word value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    place_.store(ticket, std::memory_order_relaxed);
  }
  template <class Early>
  bool put(word ticket, word value, word, Early still_early) noexcept {
    const word held = value_.load();
    const cell_place place(place_.load());
    // An unsafe cell may be used only while the dequeuer of our ticket is still to come.
    return held == empty && place.ticket() < ticket && (place.safe() || still_early()) &&
           exchange_both(*this, empty, place.whole, value, ticket);
  }
  template <class Waits>
  cell_state take(word ticket, word& out, Waits waits) noexcept {
    // The two reads are not one. Where it matters, the exchange below finds out.
    const word held = value_.load();
    const cell_place place(place_.load());
    if (place.ticket() > ticket) return cell_state::passed;  // a later dequeuer of this cell was faster
    bool done = false;
    if (held != empty && place.ticket() == ticket) {
      if (!exchange_both(*this, held, place.whole, empty, place.whole)) return cell_state::changed;
      out = held;
      return cell_state::taken;
    } else if (held != empty) {
      // An item of an earlier lap. Its dequeuer will take it; our enqueuer must not put another here after that.
      done = exchange_both(*this, held, place.whole, held, place.whole | cell_place::unsafe_bit);
    } else if (waits()) {
      return cell_state::early;
    } else {
      done = exchange_both(*this, empty, place.whole, empty, place.after(ticket));
    }
    return done ? cell_state::passed : cell_state::changed;
  }

 private:
  alignas(16) sync::atomic<word> value_{empty};
  sync::atomic<word> place_{0};
};

template <class T = std::uint64_t, class Pause = cpu_turn, std::size_t CellAlign = line_size,
          class Counters = single_words>
using lcrq = ring_list<crq_cell<CellAlign>, T, Pause, Counters>;

}  // namespace muster::bench::inline MUSTER_ABI
