// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fiber_wait.hpp: how the owner of a request waits, on threads with and without fibers.
//
// If other fibers can run, the first unsuccessful looks yield to them. After that, the fiber waits like any thread
// (base/wait.hpp).
//
// The word that threads sleep on outlives the object, because a thread that signals an event may thereby have ended the
// object. The next object that gets the eventcount has its own sleepers; a late wake is spurious for them.
#pragma once

#include <muster/base/detail/eventcount.hpp>  // eventcount
#include <muster/base/detail/reentrancy.hpp>  // reentrancy_scope
#include <muster/base/sync.hpp>               // sync::lasting
#include <muster/fiber/this_fiber.hpp>        // carrier, this_fiber

#include <cstdint>    // std::uint32_t
#include <memory>     // std::addressof
#include <stdexcept>  // std::logic_error

namespace muster::inline MUSTER_ABI::detail {

/// Notes that the current fiber waits for an object, for as long as it exists.
class noted_wait : object_wait {
 public:
  explicit noted_wait(const void* awaited) noexcept : object_wait{awaited, nullptr} { carrier::own().add(*this); }
  template <class Ready>
  noted_wait(const void* awaited, Ready& ready) noexcept
      : object_wait{awaited,
                    [](object_wait& one) noexcept {
                      return (*static_cast<Ready*>(static_cast<noted_wait&>(one).ready_))();
                    }},
        ready_(std::addressof(ready)) {
    carrier::own().add(*this);
  }
  ~noted_wait() { carrier::own().remove(*this); }
  noted_wait(const noted_wait&) = delete;
  noted_wait& operator=(const noted_wait&) = delete;

 private:
  void* ready_ = nullptr;
};

/// Its address identifies the object in chains of operations (base/detail/reentrancy.hpp).
template <class Wait>
class waiting {
 public:
  /// Events that a thread may wait for. They outlive the object.
  class events {
   public:
    explicit events(eventcount& mask) noexcept : mask_(mask) {}
    /// Call after the store that makes ready() true for the threads that wait with this key.
    MUSTER_HOT void notify(std::uint32_t key) const noexcept {
      if constexpr (Wait::parks)
        if (mask_.waiters_after_event(eventcount::bit(key)) != 0) [[unlikely]]
          mask_.wake(key);
    }

   private:
    eventcount& mask_;
  };

  /// Throws std::bad_alloc.
  waiting() : mask_(sync::lasting<eventcount>::take()) {}
  ~waiting() { sync::lasting<eventcount>::give_back(mask_); }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  /// Call before the store that lets other threads end the object.
  MUSTER_HOT events lasting_events() const noexcept { return events(mask_); }
  /// For use where the object cannot end before this has returned.
  MUSTER_HOT void notify(std::uint32_t key) noexcept { lasting_events().notify(key); }

  /// Call before announcing a request. Throws std::logic_error if it would wait for the caller, and so forever.
  MUSTER_HOT void refuse_nested() const {
    if (sync::innermost() != nullptr) [[unlikely]]
      refuse_known();
  }
  /// Returns true if refuse_nested() would throw.
  bool is_refused() const noexcept { return sync::innermost() != nullptr && carrier::own().closes_ring(this); }
  /// Keep the result while an operation of the object is executed.
  reentrancy_scope executing() const noexcept { return reentrancy_scope(this); }
  /// Returns true if the caller is inside an operation of the object.
  bool is_executing() const noexcept { return reentrancy_scope::is_in(this); }

  /// Lets other fibers run while an operation has begun but is not announced.
  MUSTER_HOT void yield() const noexcept {
    if (sync::innermost() != nullptr) [[unlikely]] {
      yield_nested();
    } else {
      this_fiber::yield();
    }
  }
  /// Call between waits for a request that is recorded or announced: an operation may have joined this fiber since.
  template <class Ready>
  MUSTER_HOT void check_joined(Ready& ready) const {
    if (sync::innermost() != nullptr) [[unlikely]]
      MUSTER_CHECK(ready() || !is_refused(), carrier::joined_by_its_operation);
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
      await_unready(key, ready, object);
    }
  }

 private:
  MUSTER_COLD void yield_nested() const noexcept {
    const noted_wait here(this);
    this_fiber::yield();
  }
  template <class Ready>
  MUSTER_COLD void await_nested(std::uint32_t key, Ready& ready, const waiting& object) {
    const noted_wait here(&object, ready);
    for (unsigned looks = 0; looks < few_looks && this_fiber::has_siblings(); ++looks) {
      this_fiber::yield();
      if (ready()) return;
    }
    mask_.template await<Wait>(key, ready, no_deadline);
  }
  template <class Ready>
  MUSTER_COLD void await_unready(std::uint32_t key, Ready& ready, const waiting& object) {
    for (unsigned looks = 0; looks < few_looks && this_fiber::has_siblings(); ++looks) {
      this_fiber::yield();
      if (ready()) return;
      if (sync::innermost() != nullptr) [[unlikely]] {
        object.check_joined(ready);
        return await_nested(key, ready, object);
      }
    }
    if (this_fiber::has_siblings()) [[unlikely]]
      return await_noted(key, ready, object);
    mask_.template await<Wait>(key, ready, no_deadline);
  }
  /// An operation that joins this fiber meanwhile looks at the note.
  template <class Ready>
  MUSTER_COLD void await_noted(std::uint32_t key, Ready& ready, const waiting& object) {
    const noted_wait here(&object, ready);
    mask_.template await<Wait>(key, ready, no_deadline);
  }

  MUSTER_COLD void refuse_known() const {
    if (is_executing())
      throw std::logic_error(
          "apply, get: called within an operation of the same object, or by a fiber that such an operation joins, so "
          "it would wait for itself; use the State& that the operation receives");
    if (carrier::own().closes_ring(this))
      throw std::logic_error(
          "apply: operations of this thread's fibers on several objects would wait for each other in a cycle; nest "
          "operations in the same order everywhere");
  }

  static constexpr unsigned few_looks = 8;

  eventcount& mask_;
};

}  // namespace muster::inline MUSTER_ABI::detail
