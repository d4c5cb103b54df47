// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// handle_table.hpp: what a client of a broker has open, by numbers that mean something to its broker only.
//
// Order      linearizable. A number names one opening: when its file has been closed, the number is nobody's, and an
//            opening that gets the same place gets another one.
// Progress   get, close and the end of a use are lock-free; open looks at every place once. None waits.
// In use     a file is closed when it has been closed by its number and the last use has ended: a call that uses it
//            never sees its descriptor become another file's.
// Preempted  a thread stopped in the middle of a use keeps one file open, and nothing else.
// Memory     16 bytes for each of `most` places, allocated by the constructor.
// Errors     std::invalid_argument and std::bad_alloc from the constructor.
// Source     ours.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_CHECK
#include <muster/base/sync.hpp>    // sync::atomic, sync::cell

#include <cstdint>    // std::uint64_t
#include <memory>     // std::unique_ptr
#include <optional>   // what open returns
#include <stdexcept>  // std::invalid_argument
#include <string>     // messages
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// `Close` is called with the descriptor of a file that nobody uses any more.
template <class Close>
class handle_table {
  struct place;

 public:
  static constexpr unsigned most_places = 1U << 12U;

  explicit handle_table(unsigned most, Close close = {})
      : most_(most), close_(close), places_(std::make_unique<place[]>(checked(most))) {}
  /// Closes what is open. No thread uses the table any more.
  ~handle_table() {
    for (unsigned i = 0; i < most_; ++i)
      if (phase_of(places_[i].state.load(std::memory_order_relaxed)) == open_now) close_(places_[i].file.get());
  }
  handle_table(const handle_table&) = delete;
  handle_table& operator=(const handle_table&) = delete;

  /// A file that is not closed as long as this lives; or none.
  class use {
   public:
    use() = default;
    use(use&& other) noexcept : of_(std::exchange(other.of_, nullptr)), at_(other.at_) {}
    use& operator=(use&&) = delete;
    ~use() {
      if (of_ != nullptr) of_->end_use(*at_);
    }
    explicit operator bool() const noexcept { return of_ != nullptr; }
    int file() const noexcept { return at_->file.get(); }

   private:
    friend handle_table;
    use(handle_table& of, place& at) noexcept : of_(&of), at_(&at) {}
    handle_table* of_ = nullptr;
    place* at_ = nullptr;
  };

  /// A number for the file, which is the table's now; nothing when all places are taken: the file is the caller's then.
  std::optional<std::uint32_t> open(int file) noexcept {
    for (unsigned i = 0; i < most_; ++i) {
      place& here = places_[i];
      std::uint64_t seen = here.state.load(std::memory_order_relaxed);
      if (phase_of(seen) != nobodys) continue;
      // (1) acquire: pairs with (5). The last use of the place has ended.
      if (!here.state.compare_exchange_strong(seen, state_of(turn_of(seen), opening, 0), std::memory_order_acquire,
                                              std::memory_order_relaxed))
        continue;
      here.file.ref() = file;
      // (2) release: pairs with (3). With an open place its file is found. One use is the table's own.
      here.state.store(state_of(turn_of(seen), open_now, 1), std::memory_order_release);
      return number_of(i, turn_of(seen));
    }
    return std::nullopt;
  }
  /// None when the number is of no file that is open.
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
  /// Returns false when the number is of no file that is open. The file is closed when its last use has ended.
  bool close(std::uint32_t number) noexcept {
    const unsigned i = number % most_places;
    if (i >= most_) return false;
    place& here = places_[i];
    std::uint64_t seen = here.state.load(std::memory_order_relaxed);
    do {
      if (phase_of(seen) != open_now || number_of(i, turn_of(seen)) != number) return false;
      // Relaxed: the table's own use goes on, and its end is (4).
    } while (!here.state.compare_exchange_weak(seen, state_of(turn_of(seen), closing, uses_of(seen)),
                                               std::memory_order_relaxed, std::memory_order_relaxed));
    end_use(here);
    return true;
  }

 private:
  // A place's turn (24 bits), its phase (8 bits) and its uses (32 bits). Only an open place gets more uses, and only
  // one that is closing has none.
  enum phase : std::uint64_t { nobodys, opening, open_now, closing };
  static constexpr std::uint64_t turns = 1U << 19U;  // so that a number is a positive int

  struct place {
    sync::atomic<std::uint64_t> state{0};
    sync::cell<int> file{-1};  // of whoever opens, then of the uses
  };

  static std::uint64_t turn_of(std::uint64_t state) noexcept { return state >> 40U; }
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
    close_(here.file.get());
    // (5) release: pairs with (1). The place is free, and its next file has another number.
    here.state.store(state_of((turn_of(before) + 1) % turns, nobodys, 0), std::memory_order_release);
  }

  const unsigned most_;
  const Close close_;
  const std::unique_ptr<place[]> places_;
};

}  // namespace muster::inline MUSTER_ABI::detail
