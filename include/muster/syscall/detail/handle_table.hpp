// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// handle_table.hpp: the open files of a broker's client, by numbers that only its broker understands.
//
// Order      linearizable. A number names one opening: after the file has been closed, the number is invalid, and an
//            opening in the same place gets another one.
// Progress   get, close and the end of a use are lock-free; open reads every place at most once. None waits.
// In use     a file is closed once its number has been closed and the last use has ended: a call in progress never sees
//            its descriptor reused for another file.
// Preempted  a thread stopped during a use keeps one file open, with no other effect.
// Memory     16 bytes for each of `most` places, allocated by the constructor.
// Errors     the constructor throws std::invalid_argument and std::bad_alloc.
// Source     ours.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_CHECK
#include <muster/base/sync.hpp>    // sync::atomic, sync::cell

#include <cstdint>    // std::uint64_t
#include <memory>     // std::unique_ptr
#include <optional>   // the result of open
#include <stdexcept>  // std::invalid_argument
#include <string>     // messages
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// `Close` is called with the descriptor of a file that is no longer used.
template <class Close>
class handle_table {
  struct place;

 public:
  static constexpr unsigned most_places = 1U << 12U;

  explicit handle_table(unsigned most, Close closes = {})
      : most_(most), close_(closes), places_(std::make_unique<place[]>(checked(most))) {}
  /// Closes all open files. Call only when no thread uses the table.
  ~handle_table() {
    for (unsigned i = 0; i < most_; ++i)
      if (phase_of(places_[i].state.load(std::memory_order_relaxed)) == open_now) close_(places_[i].file.read_ref());
  }
  handle_table(const handle_table&) = delete;
  handle_table& operator=(const handle_table&) = delete;

  /// A file that stays open while this exists; or none.
  class use {
   public:
    use() = default;
    use(use&& other) noexcept : of_(std::exchange(other.of_, nullptr)), at_(other.at_) {}
    use& operator=(use&&) = delete;
    ~use() {
      if (of_ != nullptr) of_->end_use(*at_);
    }
    explicit operator bool() const noexcept { return of_ != nullptr; }
    int file() const noexcept { return at_->file.read_ref(); }

   private:
    friend handle_table;
    use(handle_table& of, place& at) noexcept : of_(&of), at_(&at) {}
    handle_table* of_ = nullptr;
    place* at_ = nullptr;
  };

  /// Takes over the file and returns its number. Returns nothing if all places are taken; the caller then keeps the
  /// file.
  std::optional<std::uint32_t> open(int file) noexcept {
    for (unsigned i = 0; i < most_; ++i) {
      place& here = places_[i];
      std::uint64_t seen = here.state.load(std::memory_order_relaxed);
      if (phase_of(seen) != nobodys) continue;
      // (1) acquire: pairs with (5). The last use of the place has ended.
      if (!here.state.compare_exchange_strong(seen, state_of(turn_of(seen), opening, 0), std::memory_order_acquire,
                                              std::memory_order_relaxed))
        continue;
      here.file.write_ref() = file;
      // (2) release: pairs with (3). The file is visible with the open place. One use is the table's own.
      here.state.store(state_of(turn_of(seen), open_now, 1), std::memory_order_release);
      return number_of(i, turn_of(seen));
    }
    return std::nullopt;
  }
  /// Returns no file if the number is not that of an open file.
  use get(std::uint32_t number) noexcept {
    const unsigned i = number % most_places;
    if (i >= most_) return {};
    place& here = places_[i];
    std::uint64_t seen = here.state.load(std::memory_order_relaxed);
    do {
      if (phase_of(seen) != open_now || number_of(i, turn_of(seen)) != number) return {};
      // (3) acquire: pairs with (2).
    } while (!here.state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return {*this, here};
  }
  /// Returns false if the number is not that of an open file. The file is closed when its last use has ended.
  bool close(std::uint32_t number) noexcept {
    const unsigned i = number % most_places;
    if (i >= most_) return false;
    place& here = places_[i];
    std::uint64_t seen = here.state.load(std::memory_order_relaxed);
    do {
      if (phase_of(seen) != open_now || number_of(i, turn_of(seen)) != number) return false;
      // Relaxed: the table's own use continues, and its end is (4).
    } while (!here.state.compare_exchange_weak(seen, state_of(turn_of(seen), closing, uses_of(seen)),
                                               std::memory_order_relaxed, std::memory_order_relaxed));
    end_use(here);
    return true;
  }

 private:
  // A place's turn (24 bits), its phase (8 bits) and its uses (32 bits). Only an open place gains uses, and only a
  // closing one reaches none.
  enum phase : std::uint64_t { nobodys, opening, open_now, closing };
  static constexpr std::uint64_t turns = 1U << 19U;  // keeps a number a positive int

  struct place {
    sync::atomic<std::uint64_t> state{0};
    sync::cell<int> file{-1};  // owned by the opening thread, then read by the uses
  };

  static std::uint64_t turn_of(std::uint64_t state) noexcept { return state >> 40U; }
  // The numbers of turn 0 do not come again: 0, 1 and 2 are for standard streams, and code takes that for granted.
  static std::uint64_t turn_after(std::uint64_t turn) noexcept { return turn + 1 == turns ? 1 : turn + 1; }
  static phase phase_of(std::uint64_t state) noexcept { return static_cast<phase>(state >> 32U & 0xffU); }
  static std::uint64_t uses_of(std::uint64_t state) noexcept { return state & 0xffffffffU; }
  static std::uint64_t state_of(std::uint64_t turn, phase p, std::uint64_t uses) noexcept {
    return turn << 40U | p << 32U | uses;
  }
  static std::uint32_t number_of(unsigned place, std::uint64_t turn) noexcept {
    return static_cast<std::uint32_t>(turn) * most_places + place;
  }
  static unsigned checked(unsigned most) {
    if (most == 0 || most > most_places)
      throw std::invalid_argument("a broker keeps 1 to " + std::to_string(most_places) +
                                  " files open for a client, not " + std::to_string(most));
    return most;
  }

  void end_use(place& here) noexcept {
    // (4) acq_rel: pairs with (4). The end of the last use comes after all others.
    const std::uint64_t before = here.state.fetch_sub(1, std::memory_order_acq_rel);
    if (uses_of(before) != 1) return;
    MUSTER_CHECK(phase_of(before) == closing, "a file of a broker's client has lost its table's use");
    close_(here.file.read_ref());
    // (5) release: pairs with (1). The place is free, and its next file has another number.
    here.state.store(state_of(turn_after(turn_of(before)), nobodys, 0), std::memory_order_release);
  }

  const unsigned most_;
  const Close close_;
  const std::unique_ptr<place[]> places_;
};

}  // namespace muster::inline MUSTER_ABI::detail
