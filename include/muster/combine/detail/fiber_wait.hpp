// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fiber_wait.hpp: how the owner of a request waits, on threads with and without fibers.
//
// If other fibers can run, the first unsuccessful looks yield to them. After that, the fiber waits like any thread
// (base/wait.hpp).
//
// The word that threads sleep on outlives the object, because a thread that signals an event may thereby have ended the
// object. The next object that gets the event_mask has its own sleepers; a late wake is spurious for them.
#pragma once

#include <muster/base/inside.hpp>    // inside
#include <muster/base/sync.hpp>      // sync::lasting
#include <muster/base/wait.hpp>      // event_mask
#include <muster/fiber/carrier.hpp>  // carrier
#include <muster/fiber/fiber.hpp>    // this_fiber

#include <cstdint>    // std::uint32_t
#include <stdexcept>  // std::logic_error

namespace muster::inline MUSTER_ABI::detail {

/// A fiber that waits for an object inside an operation of another. Each thread has a list of them.
class nested_wait {
 public:
  explicit nested_wait(const void* object) noexcept : object_(object), outer_(sync::innermost()) {
    carrier& here = carrier::own();
    next_ = first(here);
    if (next_ != nullptr) next_->before_ = this;
    here.nested = this;
  }
  ~nested_wait() {
    if (next_ != nullptr) next_->before_ = before_;
    if (before_ != nullptr) {
      before_->next_ = next_;
    } else {
      carrier::own().nested = next_;
    }
  }
  nested_wait(const nested_wait&) = delete;
  nested_wait& operator=(const nested_wait&) = delete;

  /// Returns true if waiting for `object` would close a ring: a fiber inside one of its operations waits for another
  /// operation to end, and so on, until one waits for the caller's.
  static bool closes_ring(const void* object) noexcept {
    // Each waits for one object, so there is a single path, no longer than the list.
    const nested_wait* const all = first(carrier::own());
    for (const nested_wait* turn = all; turn != nullptr; turn = turn->next_) {
      const nested_wait* holder = all;
      while (holder != nullptr && !inside::has(holder->outer_, object)) holder = holder->next_;
      if (holder == nullptr) return false;
      object = holder->object_;
      if (inside::is_in(object)) return true;
    }
    return false;
  }

 private:
  static nested_wait* first(const carrier& of) noexcept { return static_cast<nested_wait*>(of.nested); }

  const void* const object_;
  const void* const outer_;  // the fiber's chain
  nested_wait* next_ = nullptr;
  nested_wait* before_ = nullptr;
};

/// Its address identifies the object in chains of operations (base/inside.hpp).
template <class Wait>
class waiting {
 public:
  /// Events that a thread may wait for. They outlive the object.
  class events {
   public:
    explicit events(event_mask& mask) noexcept : mask_(mask) {}
    /// Call after the store that makes ready() true for the threads that wait with this key.
    MUSTER_HOT void happened(std::uint32_t key) const noexcept {
      if constexpr (Wait::parks)
        if (mask_.after_event(event_mask::bit(key)) != 0) [[unlikely]]
          mask_.wake(key);
    }

   private:
    event_mask& mask_;
  };

  /// Throws std::bad_alloc.
  waiting() : mask_(sync::lasting<event_mask>::take()) {}
  ~waiting() { sync::lasting<event_mask>::give_back(mask_); }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  /// Call before the store that lets other threads end the object.
  MUSTER_HOT events lasting_events() const noexcept { return events(mask_); }
  /// For use where the object cannot end before this has returned.
  MUSTER_HOT void happened(std::uint32_t key) noexcept { lasting_events().happened(key); }

  /// Call before announcing a request. Throws std::logic_error if it would wait for the caller, and so forever.
  MUSTER_HOT void refuse_nested() const {
    if (sync::innermost() != nullptr) [[unlikely]]
      refuse_known();
  }
  /// Keep the result while an operation of the object is executed.
  inside executing() const noexcept { return inside(this); }
  /// Returns true if the caller is inside an operation of the object.
  bool is_executing() const noexcept { return inside::is_in(this); }

  /// Lets other fibers run while an operation has begun but is not announced.
  MUSTER_HOT void yield() const noexcept {
    if (sync::innermost() != nullptr) [[unlikely]] {
      yield_nested();
    } else {
      this_fiber::yield();
    }
  }
  /// Waits until ready() is true.
  template <class Ready>
  MUSTER_HOT void await(std::uint32_t key, Ready ready) {
    await(key, ready, *this);
  }
  /// The same, with `object` in place of this object.
  template <class Ready>
  MUSTER_HOT void await(std::uint32_t key, Ready ready, const waiting& object) {
    if (ready()) return;
    if (sync::innermost() != nullptr) [[unlikely]] {
      await_nested(key, ready, object);
    } else {
      await_unready(key, ready);
    }
  }

 private:
  MUSTER_COLD void yield_nested() const noexcept {
    const nested_wait here(this);
    this_fiber::yield();
  }
  template <class Ready>
  MUSTER_COLD void await_nested(std::uint32_t key, Ready& ready, const waiting& object) {
    const nested_wait here(&object);
    await_unready(key, ready);
  }
  template <class Ready>
  MUSTER_HOT void await_unready(std::uint32_t key, Ready& ready) {
    for (unsigned looks = 0; looks < 8 && this_fiber::has_siblings(); ++looks) {
      this_fiber::yield();
      if (ready()) return;
    }
    mask_.template await<Wait>(key, ready, no_deadline);
  }

  MUSTER_COLD void refuse_known() const {
    if (is_executing())
      throw std::logic_error(
          "apply: called within an operation of the same object, or by a fiber that such an operation joins, so it "
          "would wait for itself; use the State& that the operation receives");
    if (nested_wait::closes_ring(this))
      throw std::logic_error(
          "apply: operations of this thread's fibers on several objects would wait for each other in a cycle; nest "
          "operations in the same order everywhere");
  }

  event_mask& mask_;
};

}  // namespace muster::inline MUSTER_ABI::detail
