// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lprq.hpp: LPRQ, the list of portable ring queues of Romanov and Koval, "The State-of-the-Art LCRQ Concurrent Queue
// Algorithm Does NOT Require CAS2", PPoPP 2023. Unbounded, strict FIFO, of 64-bit values up to `lprq::greatest`.
// ring_list.hpp has the list.
//
// Faithful to  the paper's PRQ: value and epoch of a cell are two words that change one after the other. An enqueuer
//              locks the cell with a token of its own in place of the value, moves the epoch, and puts its item in
//              place of the token. Each step fails if another thread has been there. Any thread may remove a token.
// Differs      the epoch is the ticket (ring_list.hpp). A token is the address of the enqueuer's handle with the top
//              eight bits set, where the paper's is of a thread.
// Memory       a line per cell by default.
// Order        sequentially consistent.
#pragma once

#include "ring_list.hpp"

#include <muster/base/arch.hpp>  // line_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <cstddef>
#include <cstdint>

namespace muster::bench::inline MUSTER_ABI {

// value: an item; a token, for the time in which its enqueuer is at work; or empty. place: see cell_place; it only
// grows but for the bit. An item's place was written before it, while no other item could come in, so an item that is
// in the cell before and after a look at the place belongs to that ticket.
template <std::size_t Align>
class alignas(Align) prq_cell {
  using word = std::uint64_t;

 public:
  static constexpr bool available = true;
  static constexpr word empty = ~word{0};
  static constexpr word greatest = (word{0xff} << 56) - 1;  // tokens are above

  void fill(word ticket, word value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    place_.store(ticket, std::memory_order_relaxed);
  }
  template <class Early>
  bool put(word ticket, word value, word owner, Early still_early) noexcept {
    const word token = owner | (greatest + 1);
    word place = place_.load();
    word held = value_.load();
    // An unsafe cell may be used only while the dequeuer of our ticket is still to come.
    if (held <= greatest || cell_place(place).ticket() >= ticket || !(cell_place(place).safe() || still_early()))
      return false;
    if (!value_.compare_exchange_strong(held, token)) return false;
    held = token;
    if (place_.compare_exchange_strong(place, ticket)) return value_.compare_exchange_strong(held, value);
    value_.compare_exchange_strong(held, empty);
    return false;
  }
  template <class Waits>
  cell_state take(word ticket, word& out, Waits waits) noexcept {
    word seen = place_.load();
    word held = value_.load();
    if (place_.load() != seen) return cell_state::changed;
    const cell_place place(seen);
    if (place.ticket() > ticket) return cell_state::passed;  // a later enqueuer or dequeuer of this cell was faster
    if (held <= greatest && place.ticket() == ticket) {
      value_.store(empty);
      out = held;
      return cell_state::taken;
    }
    word after = place.after(ticket);
    if (held <= greatest) {
      // An item of an earlier lap. Its dequeuer will take it; our enqueuer must not put another here after that.
      after = place.whole | cell_place::unsafe_bit;
    } else {
      if (waits()) return cell_state::early;
      if (held != empty && !value_.compare_exchange_strong(held, empty)) return cell_state::changed;
    }
    return place_.compare_exchange_strong(seen, after) ? cell_state::passed : cell_state::changed;
  }

 private:
  sync::atomic<word> value_{empty};
  sync::atomic<word> place_{0};
};

template <class T = std::uint64_t, class Pause = cpu_turn, std::size_t CellAlign = line_size,
          class Counters = single_words>
using lprq = ring_list<prq_cell<CellAlign>, T, Pause, Counters>;

}  // namespace muster::bench::inline MUSTER_ABI
