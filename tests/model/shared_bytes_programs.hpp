// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_bytes_programs.hpp: programs for the checker in which messages are written and read in place, as shared_bytes
// does. A block of the arena is a cell here, so that the checker sees who writes and reads it.
#pragma once

#include <muster/queue/detail/byte_arena.hpp>

#include "shared_region.hpp"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster_model_test {

/// An arena of three blocks, and a ring for the places of its messages.
template <class Shape, bool Mortal>
class letters {
  using place = region<Shape, Mortal>;
  using rings_type = typename place::rings;
  using claimed = detail::claim_result<number>;
  static constexpr std::size_t unit = detail::byte_arena::unit;

 public:
  static constexpr std::size_t blocks = 3;

  explicit letters(std::size_t capacity = 3) : all_(capacity, 4, (muster::rank_t{1} << 52) - 2, 6) {}

  /// The only producer: in turn, several threads.
  class writer {
   public:
    explicit writer(letters& of, unsigned seat)
        : of_(of), seat_(seat), arena_(blocks * unit, 4), seen_(of.rings().view_of(0)) {
      of.rings().unfinished(
          0, [this](muster::rank_t rank, number item) { arena_.adopt(at_of(item), size_of(item), rank); });
      arena_.start();
    }
    /// Sends `value` in so many blocks; waits for room. Returns false if the queue is closed.
    bool push(number value, std::size_t many) {
      rings_type& rings = of_.rings();
      const auto use_of = [&](muster::rank_t rank) { return rings.use_of(0, rank); };
      const auto ready = [&] {
        return rings.is_closed() ||
               (rings.find_place(0, seen_) == queue_status::success && arena_.reserve(many * unit, use_of));
      };
      while (!ready()) rings.await_release({}, 0, ready);
      if (rings.is_closed()) return false;
      const std::size_t at = arena_.reserved();
      for (std::size_t i = 0; i != many; ++i) of_.bytes_[at / unit + i].write_ref() = value;
      const auto mine = rings.claim_place(0, seat_, seen_);
      if (mine.status() == queue_status::closed) return false;
      if (!mine) mm::engine::running().fail("a place that was found has gone");
      rings.publish(seat_, mine, item_of(at, many * unit));
      arena_.keep(many * unit, mine.rank());
      return true;
    }

   private:
    letters& of_;
    const unsigned seat_;
    detail::byte_arena arena_;
    typename rings_type::view seen_;
  };

  claimed peek(unsigned seat) {
    for (;;) {
      const claimed at = rings().claim_item(0, seat);
      if (at || at.status() == queue_status::closed) return at;
      rings().await_item({}, [this] { return rings().has_news(); });
    }
  }
  claimed try_peek(unsigned seat) { return rings().claim_item(0, seat); }
  /// The value, which all blocks of the message have.
  number read(const claimed& at) { return read(at.place().item.read_ref().value); }
  number read(number item) {
    const number value = bytes_[at_of(item) / unit].read_ref();
    for (std::size_t i = 1; i != size_of(item) / unit; ++i)
      if (bytes_[at_of(item) / unit + i].read_ref() != value) mm::engine::running().fail("a message is not whole");
    return value;
  }
  number pop(unsigned seat) {
    const claimed at = peek(seat);
    if (!at) return 0;
    const number value = read(at);
    rings().release(seat, at, 0);
    return value;
  }
  rings_type& rings() { return *all_.queue; }

  static void expect(number got, number wanted) {
    if (got != wanted) mm::engine::running().fail("another message than the next");
  }

 private:
  static number item_of(std::size_t at, std::size_t size) { return at << 32 | size; }
  static std::size_t at_of(number item) { return static_cast<std::size_t>(item >> 32); }
  static std::size_t size_of(number item) { return static_cast<std::size_t>(item & 0xffffffff); }

  place all_;
  std::array<muster::sync::cell<number>, blocks> bytes_;
};

struct letters_row {
  std::string name;
  int freeze;  // this thread may die
  std::function<void()> program;
};

inline std::vector<letters_row> letters_programs() {
  namespace shape = muster::shape;
  std::vector<letters_row> all;
  all.push_back({"bytes: messages of one block and two, spsc", -1, [] {
                   letters<shape::spsc, false> q;
                   mm::parallel(
                       [&] {
                         typename letters<shape::spsc, false>::writer out(q, 1);
                         for (number i = 1; i <= 4; ++i) out.push(i, 1 + i % 2);
                       },
                       [&] {
                         for (number i = 1; i <= 4; ++i) q.expect(q.pop(2), i);
                       });
                   q.rings().check();
                   const detail::shared_seat& seat = q.rings().seat(2);
                   q.expect(seat.items.load(std::memory_order_relaxed), 4);
                   q.expect(seat.last.load(std::memory_order_relaxed), detail::shared_word::step);
                 }});
  all.push_back({"bytes: one consumer holds a message while another passes, spmc", -1, [] {
                   letters<shape::spmc, false> q;
                   typename letters<shape::spmc, false>::writer out(q, 1);
                   out.push(1, 1);
                   mm::parallel(
                       [&] {
                         for (number i = 2; i <= 4; ++i) out.push(i, 1);
                       },
                       [&] {
                         const auto first = q.try_peek(2);
                         const number mine = first ? q.read(first) : 0;
                         const number next = q.pop(2);
                         if (mine != 0 && next <= mine) mm::engine::running().fail("out of order");
                         if (first) {
                           if (q.read(first) != mine)
                             mm::engine::running().fail("a message changes in its reader's hands");
                           q.rings().release(2, first, 0);
                         }
                       },
                       [&] {
                         if (const auto one = q.try_peek(3)) {
                           q.read(one);
                           q.rings().release(3, one, 0);
                         }
                       });
                 }});
  all.push_back({"bytes: one message is held for a lap, spsc", -1, [] {
                   using queue = letters<shape::spsc, false>;
                   queue q(2);
                   mm::parallel(
                       [&] {
                         typename queue::writer out(q, 1);
                         for (number i = 1; i <= 6; ++i) out.push(i, 1);
                       },
                       [&] {
                         const auto held = q.peek(2);
                         for (number i = 2; i <= 5; ++i) q.expect(q.pop(2), i);
                         q.expect(q.read(held), 1);
                         q.rings().release(2, held, 0);
                         q.expect(q.pop(2), 6);
                       });
                 }});
  all.push_back({"bytes: a producer follows another, spsc", -1, [] {
                   using queue = letters<shape::spsc, false>;
                   queue q;
                   auto& place = q.rings().ends(0).producer;
                   q.rings().own(place, 1, 1, detail::leave_items{});
                   const unsigned first = mm::spawn([&] {
                     typename queue::writer out(q, 1);
                     for (number i = 1; i <= 2; ++i) out.push(i, 1);
                     q.rings().release_seat(1);
                   });
                   const unsigned reader = mm::spawn([&] {
                     const auto held = q.peek(3);
                     q.expect(q.read(held), 1);
                     q.expect(q.pop(3), 2);
                     q.expect(q.read(held), 1);
                     q.rings().release(3, held, 0);
                     q.expect(q.pop(3), 3);
                     q.expect(q.pop(3), 4);
                   });
                   while (!q.rings().own(place, 2, 1, detail::leave_items{})) muster::sync::yield();
                   typename queue::writer out(q, 2);
                   for (number i = 3; i <= 4; ++i) out.push(i, 1);
                   mm::join(first);
                   mm::join(reader);
                 }});
  all.push_back({"bytes: a consumer that lives leaves its message to others, spmc", -1, [] {
                   using queue = letters<shape::spmc, true>;
                   queue q;
                   for (unsigned process = 1; process != 4; ++process) q.rings().acquire_seat(process, 1);
                   const unsigned producer = mm::spawn([&] {
                     typename queue::writer out(q, 1);
                     out.push(7, 2);
                   });
                   const unsigned reader = mm::spawn([&] {
                     q.expect(q.read(q.peek(3)), 7);
                     q.rings().abandon_seat(3);
                   });
                   number found = 0;
                   while (found == 0) {
                     static_cast<void>(q.rings().clear_up(3, 1, [&](number item) { found = q.read(item); }));
                     if (found == 0) muster::sync::yield();
                   }
                   q.expect(found, 7);
                   mm::join(producer);
                   mm::join(reader);
                 }});
  all.push_back({"bytes: closed while a producer waits for bytes, spsc", -1, [] {
                   using queue = letters<shape::spsc, false>;
                   queue q;
                   typename queue::writer out(q, 1);
                   out.push(1, 3);
                   bool sent = false;
                   mm::parallel([&] { sent = out.push(2, 2); }, [&] { q.rings().close(); });
                   q.expect(q.pop(2), 1);
                   q.expect(q.pop(2), sent ? 2 : 0);
                 }});
  all.push_back({"bytes: a consumer dies, spmc", 1, [] {
                   using queue = letters<shape::spmc, true>;
                   queue q;
                   for (unsigned seat = 1; seat != 4; ++seat) q.rings().acquire_seat(seat == 2 ? 2 : 1, 1);
                   typename queue::writer out(q, 1);
                   std::array<unsigned, 5> found{};
                   bool given = false;  // the dead may have released what it had not yet noted
                   number noted = 0;
                   out.push(1, 1);
                   out.push(2, 1);
                   const unsigned mortal = mm::spawn([&] {
                     if (const auto at = q.try_peek(2)) {
                       const number value = q.read(at);
                       given = true;
                       q.rings().release(2, at, 0);
                       noted = value;
                     }
                   });
                   const unsigned other = mm::spawn([&] {
                     if (const auto at = q.try_peek(3)) {
                       ++found[q.read(at)];
                       q.rings().release(3, at, 0);
                     }
                   });
                   const bool died = !mm::join(mortal);
                   mm::join(other);
                   if (!died && given) ++found[noted];
                   // Others still pass, also beside what the dead one holds.
                   for (number i = 3; i <= 4; ++i) {
                     out.push(i, 1);
                     for (auto at = q.try_peek(3); at; at = q.try_peek(3)) {
                       ++found[q.read(at)];
                       q.rings().release(3, at, 0);
                     }
                   }
                   if (died) q.rings().clear_up(2, 1, [&](number item) { ++found[q.read(item)]; });
                   unsigned lost = 0;
                   for (number i = 1; i <= 4; ++i) {
                     if (found[i] > 1) mm::engine::running().fail("a message comes twice");
                     lost += found[i] == 0;
                   }
                   if (lost > (died && given ? 1 : 0)) mm::engine::running().fail("a message is lost");
                   out.push(5, 3);
                   q.expect(q.pop(3), 5);
                 }});
  all.push_back({"bytes: the next consumer inherits, spsc", 1, [] {
                   using queue = letters<shape::spsc, true>;
                   queue q;
                   for (unsigned seat = 1; seat != 4; ++seat) q.rings().acquire_seat(seat == 2 ? 2 : 1, 1);
                   auto& place = q.rings().ends(0).consumer;
                   typename queue::writer out(q, 1);
                   for (number i = 1; i <= 3; ++i) out.push(i, 1);
                   bool ended = false;
                   const unsigned mortal = mm::spawn([&] {
                     q.rings().own(place, 2, 2, detail::hand_over{});
                     const auto first = q.peek(2);
                     const auto second = q.peek(2);
                     q.expect(q.read(second), 2);
                     q.rings().release(2, second, 0);
                     q.rings().release(2, first, 0);
                     q.rings().release_seat(2);
                     ended = true;
                   });
                   const bool died = !mm::join(mortal);
                   q.rings().own(place, 3, 1, detail::hand_over{});
                   number last = 0;
                   for (;;) {
                     auto at = q.rings().inherited_item();
                     if (at) q.rings().adopt(3, at);
                     else at = q.try_peek(3);
                     if (!at) break;
                     const number value = q.read(at);
                     if (value <= last) mm::engine::running().fail("an inherited message comes twice");
                     last = value;
                     // The first stays in its hands while it looks for the next.
                     if (value != 1) q.rings().release(3, at, 0);
                   }
                   if (last != 3 || (!died && !ended)) mm::engine::running().fail("a message is lost");
                 }});
  return all;
}

}  // namespace muster_model_test
