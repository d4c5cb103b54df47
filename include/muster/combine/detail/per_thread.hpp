// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// per_thread.hpp: one T for each kernel thread that uses an object, made when the thread first comes.
//
// It belongs to the thread's number (base/thread.hpp) and not to the thread: when a thread ends, the next one with its
// number goes on with it. When there are as many as the object may have, a thread takes over that of any thread that
// has ended. So threads come and go, and nothing of the object is freed under those who still look.
//
// The object's end: an operation may have its effect before it returns, and who learns of it may destroy the object. So
// the last thing that an operation does with the object is what lets others have theirs; or else it counts itself in
// its thread's part, before it lets them, and the destructor waits until nobody is counted. Most operations that meet
// nobody do the former, which costs nothing.
#pragma once

#include <muster/base/brief_wait.hpp>  // brief_wait
#include <muster/base/sync.hpp>        // sync::cell, sync::own_tenure
#include <muster/fiber/fiber.hpp>      // this_fiber

#include <atomic>     // std::memory_order
#include <cstdint>    // std::uint64_t
#include <memory>     // std::unique_ptr
#include <stdexcept>  // std::length_error
#include <string>     // messages
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// Every part begins with this. Counted by its own thread only.
class thread_part {
 public:
  MUSTER_HOT void enter() noexcept {
    // Relaxed: whoever has its effect after the operation knows what came before the operation had its own.
    inside_.store(inside_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  MUSTER_HOT void leave() noexcept {
    // (1) release: pairs with (2). The destructor comes after all that the operation has done. Nothing of the object is
    // touched after this.
    inside_.store(inside_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }
  bool idle() const noexcept {
    // (2) acquire: pairs with (1).
    return inside_.load(std::memory_order_acquire) == 0;
  }

 private:
  sync::atomic<std::uint32_t> inside_{0};  // operations
};

/// In the middle of an operation. Destroyed after everything else that uses the object.
class stay {
 public:
  explicit stay(thread_part& own) noexcept : own_(own) { own_.enter(); }
  ~stay() { own_.leave(); }
  stay(const stay&) = delete;
  stay& operator=(const stay&) = delete;

 private:
  thread_part& own_;
};

/// The part of per_thread that does not depend on T, compiled once.
class thread_places {
 public:
  using destroyer = void (*)(thread_part*) noexcept;

  /// The part of one thread, and whose it is.
  struct place {
    place(std::uint64_t owner_in, unsigned index_in) noexcept : owner(owner_in), index(index_in) {}
    sync::atomic<std::uint64_t> owner;  // a tenure
    const unsigned index;               // counted from 0, in the order in which they were made
    sync::cell<thread_part*> part{nullptr};
    place* next = nullptr;  // the one made before; set before it is linked
  };

  /// Throws std::invalid_argument for no threads.
  thread_places(unsigned threads, destroyer destroy) : threads_(threads), destroy_(destroy) {
    if (threads == 0) throw std::invalid_argument("combine_options::threads is 0; ask for 1 at least");
  }
  ~thread_places() {
    // Relaxed: every thread that has come is known to whoever may destroy the object.
    for (place* at = last_.load(std::memory_order_relaxed); at != nullptr;) {
      if (thread_part* const part = at->part.get(); part != nullptr) destroy_(part);
      delete std::exchange(at, at->next);
    }
    for (block* at = blocks_.load(std::memory_order_relaxed); at != nullptr;)
      delete std::exchange(at, at->next.load(std::memory_order_relaxed));
  }
  thread_places(const thread_places&) = delete;
  thread_places& operator=(const thread_places&) = delete;

  /// Returns the place of the calling thread. Throws std::length_error if there are more threads than configured.
  MUSTER_COLD place& own() {
    if (place* const there = find(); there != nullptr) return *there;
    const sync::thread_tenure tenure = sync::own_tenure();
    place& found = make_or_take_over(word_of(tenure));
    place_of_number(tenure.number).ref() = &found;
    return found;
  }

  /// Null: the calling thread has none, and neither had one before it with its number.
  MUSTER_COLD place* find() {
    const sync::thread_tenure tenure = sync::own_tenure();
    place* const there = place_of_number(tenure.number).get();
    if (there == nullptr) return nullptr;
    const std::uint64_t me = word_of(tenure);
    // Relaxed: what an earlier thread with this number has done is visible to those that come after it. Another may
    // have taken the place over in the meantime.
    std::uint64_t owner = there->owner.load(std::memory_order_relaxed);
    if (owner == me) return there;
    if (number_of(owner) != tenure.number ||
        !there->owner.compare_exchange_strong(owner, me, std::memory_order_relaxed, std::memory_order_relaxed))
      return nullptr;
    return there;
  }

  /// Only for those who know of all that have come.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const place* at = last_.load(std::memory_order_relaxed); at != nullptr; at = at->next)
      if (thread_part* const part = at->part.get(); part != nullptr) visit(part);
  }

 private:
  /// For the threads with numbers from somewhere on, written by each for itself. The next block has twice as many.
  struct block {
    explicit block(std::uint32_t size_in) : size(size_in), places(std::make_unique<sync::cell<place*>[]>(size_in)) {}
    const std::uint32_t size;
    const std::unique_ptr<sync::cell<place*>[]> places;
    sync::atomic<block*> next{nullptr};
  };
  static constexpr std::uint32_t first_block = 8;

  static std::uint64_t word_of(const sync::thread_tenure& t) noexcept {
    return std::uint64_t{t.turn} << 32U | t.number;
  }
  static std::uint32_t number_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
  static sync::thread_tenure tenure_of(std::uint64_t word) noexcept {
    return {number_of(word), static_cast<std::uint32_t>(word >> 32U)};
  }

  sync::cell<place*>& place_of_number(std::uint32_t number) {
    sync::atomic<block*>* at = &blocks_;
    for (std::uint32_t size = first_block;; size *= 2) {
      // (5) acquire: pairs with (6).
      block* there = at->load(std::memory_order_acquire);
      if (there == nullptr) {
        auto made = std::make_unique<block>(size);
        // (6) release, or acquire when another was faster: pairs with (5, 6). The block is found empty.
        if (at->compare_exchange_strong(there, made.get(), std::memory_order_release, std::memory_order_acquire))
          there = made.release();
      }
      if (number < size) return there->places[number];
      number -= size;
      at = &there->next;
    }
  }

  place& make_or_take_over(std::uint64_t me) {
    unsigned made = made_.load(std::memory_order_relaxed);
    while (made < threads_) {
      auto added = std::make_unique<place>(me, made);
      if (!made_.compare_exchange_strong(made, made + 1, std::memory_order_relaxed, std::memory_order_relaxed))
        continue;
      added->next = last_.load(std::memory_order_relaxed);
      // (3) release: pairs with (4). With a place, all that is in it is found, and, as each of these continues those
      // before, all places made earlier.
      while (!last_.compare_exchange_weak(added->next, added.get(), std::memory_order_release,
                                          std::memory_order_relaxed)) {
      }
      return *added.release();
    }
    // (4) acquire: pairs with (3).
    for (place* at = last_.load(std::memory_order_acquire); at != nullptr; at = at->next) {
      std::uint64_t owner = at->owner.load(std::memory_order_relaxed);
      // Of two that find that a thread has ended, the compare-exchange chooses one.
      if (!sync::lasts(tenure_of(owner)) &&
          at->owner.compare_exchange_strong(owner, me, std::memory_order_relaxed, std::memory_order_relaxed))
        return *at;
    }
    throw std::length_error("more than " + std::to_string(threads_) +
                            " threads at once use an object for so many: raise combine_options::threads");
  }

  const unsigned threads_;
  const destroyer destroy_;
  sync::atomic<unsigned> made_{0};        // places
  sync::atomic<place*> last_{nullptr};    // the first of a list
  sync::atomic<block*> blocks_{nullptr};  // where each thread finds its place
};

/// T is derived from thread_part.
template <class T>
class per_thread {
 public:
  /// Throws std::invalid_argument for no threads.
  explicit per_thread(unsigned threads)
      : places_(threads, [](thread_part* own) noexcept { delete static_cast<T*>(own); }) {}

  /// The calling thread's. make(index) returns a new T, which is deleted with the object; called at the thread's first
  /// call. `index` is less than `threads`, and no other T of the object has it. Throws std::length_error if there are
  /// more threads than configured, and what make() throws.
  template <class Make>
  MUSTER_HOT T& own(Make make) {
    // What the thread has kept is read straight away, and not at the end of a chain of loads.
    if (void* const kept = sync::kept_part_of(identity_); kept != nullptr) [[likely]]
      return *static_cast<T*>(kept);
    return find(make);
  }

  /// Whether it is the calling thread's.
  bool is_own(const T& part) {
    if (sync::kept_part_of(identity_) == &part) return true;
    thread_places::place* const place = places_.find();
    return place != nullptr && place->part.get() == &part;
  }

  /// Only while no thread uses the object.
  template <class Visit>
  void for_each(Visit visit) const {
    places_.for_each([&visit](thread_part* own) { visit(*static_cast<T*>(own)); });
  }

  /// For the destructor: returns when no thread is in the middle of an operation.
  void await_idle() const noexcept {
    for_each([](const T& part) {
      for (brief_wait wait; !part.idle(); wait.pause()) this_fiber::yield();  // it may be a fiber of this thread
    });
  }

 private:
  template <class Make>
  MUSTER_COLD T& find(Make& make) {
    thread_places::place& place = places_.own();
    if (place.part.get() == nullptr) place.part.ref() = make(place.index);
    T* const there = static_cast<T*>(place.part.get());
    sync::keep_part_of(identity_, there);
    return *there;
  }

  const std::uint64_t identity_ = sync::new_identity();
  thread_places places_;
};

}  // namespace muster::inline MUSTER_ABI::detail
