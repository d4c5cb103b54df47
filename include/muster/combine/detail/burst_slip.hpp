// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// burst_slip.hpp: a thread that must wait for an object stays away from it for a moment, so that the others use it in
// bursts.
//
// Why        when threads do little but use an object, it moves to another processor with each operation, and that
//            takes longer than ten operations. While one of two threads stays away, the other executes its operations
//            one after another in its own cache. At its next wait it stays away in turn.
// Learns     from bursts: operations of a thread with none of another thread in between. A thread stays away while its
//            own bursts are long, and those of another thread are, too. So a thread that uses the object all the time
//            does not make way for one that needs it now and then. Otherwise it tries, less and less often.
// Bound      an absence is about a microsecond, up to three where a pause is long. It ends at once if the thread is to
//            serve others.
// Source     temporal slipping (Giacomoni, Moseley, Vachharajani, "FastForward", PPoPP 2008), here for combining.
#pragma once

#include <muster/base/detail/native.hpp>     // native::atomic
#include <muster/base/detail/utilities.hpp>  // std::min

#include <cstdint>  // std::uintptr_t
#include <utility>  // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// One for each object.
class burst_slip {
 public:
  static constexpr unsigned absence = 64;      // pauses
  static constexpr std::uint32_t enough = 8;   // operations of a long burst: an absence has paid for itself
  static constexpr std::uint32_t trials = 4;   // absences on suspicion
  static constexpr std::uint32_t trust = 16;   // absences after another thread had a long burst
  static constexpr std::uint32_t rest = 8192;  // waits between two trials, at most

  /// The memory of a thread about an object.
  class habits {
   public:
    /// A number of the thread that another thread is unlikely to have.
    MUSTER_HOT std::uint32_t number() const noexcept {
      return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(this) >> 4U);
    }
    /// Call for an operation after which the thread had the one before, too. In a long burst it stores nothing.
    MUSTER_HOT void continue_burst() noexcept {
      if (burst_ != enough) ++burst_;
    }
    /// Call for an operation after one of another thread.
    MUSTER_HOT void end_burst() noexcept {
      if (burst_ > longest_) longest_ = burst_;
      burst_ = 0;
    }

   private:
    friend burst_slip;

    std::uint32_t burst_ = 0;            // at most `enough`
    std::uint32_t longest_ = 0;          // since the thread waited
    std::uint32_t left_ = trials;        // absences until it gives up
    std::uint32_t until_trial_ = 32;     // waits
    std::uint32_t between_trials_ = 32;  // waits
  };

  /// Call when the caller's operation must wait. Returns true if it should stay away first.
  bool should_stay_away(habits& mine) noexcept {
    mine.end_burst();
    if (std::exchange(mine.longest_, 0U) >= enough) {
      // Relaxed: a hint, which the model checker need not see.
      const void* const other = last_.load(std::memory_order_relaxed);
      if (other != &mine) {
        last_.store(&mine, std::memory_order_relaxed);
        if (other != nullptr) mine.left_ = trust;
      }
      if (mine.left_ == 0) return false;
    } else if (mine.left_ <= trials) {
      if (--mine.until_trial_ != 0) return false;
      mine.between_trials_ = std::min(2 * mine.between_trials_, rest);
      mine.until_trial_ = mine.between_trials_;
      mine.left_ = trials;
    }
    --mine.left_;
    return true;
  }

 private:
  native::atomic<const void*> last_{nullptr};  // the last thread that had a long burst, by its habits
};

}  // namespace muster::inline MUSTER_ABI::detail
