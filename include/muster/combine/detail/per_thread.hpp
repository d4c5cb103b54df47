// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// per_thread.hpp: one T for each kernel thread that uses an object, created at the thread's first use.
//
// A T belongs to the thread's number (base/detail/thread_state.hpp), not to the thread: the next thread with the same
// number reuses it. Once the object has its maximum number of Ts, a new thread takes over the T of any thread that has
// ended. So threads come and go, and nothing is freed while another thread may read it.
//
// The object's end: an operation may take effect before it returns, and a thread that sees the effect may destroy the
// object. So an operation's last access to the object is the one that lets others proceed. Otherwise it counts itself
// in its thread's part before it lets them, and the destructor waits until no operation is counted. Most uncontended
// operations do the former, which costs nothing.
#pragma once

#include <muster/base/detail/brief_wait.hpp>  // brief_wait
#include <muster/base/sync.hpp>               // sync::cell, sync::own_tenure
#include <muster/fiber/this_fiber.hpp>        // this_fiber

#include <atomic>     // std::memory_order
#include <cstdint>    // std::uint64_t
#include <memory>     // std::unique_ptr
#include <stdexcept>  // std::length_error
#include <string>     // messages
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI::detail {

/// Base of every part. Only its own thread changes the count.
class thread_part {
 public:
  MUSTER_HOT void enter() noexcept {
    // Relaxed: an operation that takes effect later sees everything from before this one took effect.
    inside_.store(inside_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  MUSTER_HOT void leave() noexcept {
    // (1) release: pairs with (2). The destructor comes after everything the operation did. Nothing of the object is
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

/// Marks an operation in progress. Destroyed after everything else that uses the object.
class stay {
 public:
  explicit stay(thread_part& own) noexcept : own_(own) { own_.enter(); }
  ~stay() { own_.leave(); }
  stay(const stay&) = delete;
  stay& operator=(const stay&) = delete;

 private:
  thread_part& own_;
};

/// For the destructors of structures built on any combining object.
struct object_end {
  /// Waits until no thread executes operations of the object. All that have begun must be known to have had their
  /// effect. An object of another library has only apply(), in which the caller counts as a user.
  template <class Object>
  static void await_free(Object& object) {
    if constexpr (requires { object.await_free(); }) {
      object.await_free();
    } else {
      object.apply([](auto&) noexcept {});
    }
  }
};

/// The part of per_thread that does not depend on T, compiled once.
class thread_places {
 public:
  using destroyer = void (*)(thread_part*) noexcept;

  /// The part of one thread, and its owner.
  struct place {
    place(std::uint64_t owner_in, unsigned index_in) noexcept : owner(owner_in), index(index_in) {}
    sync::atomic<std::uint64_t> owner;  // a tenure
    const unsigned index;               // counted from 0, in order of creation
    sync::cell<thread_part*> part{nullptr};
    place* next = nullptr;  // the one created before; set before it is linked
  };

  /// Throws std::invalid_argument if `threads` is 0.
  thread_places(unsigned threads, destroyer destroy) : threads_(threads), destroy_(destroy) {
    if (threads == 0) throw std::invalid_argument("combine_options::threads is 0; it must be at least 1");
  }
  ~thread_places() {
    // Relaxed: the thread that may destroy the object knows of every thread that has come.
    for (place* at = last_.load(std::memory_order_relaxed); at != nullptr;) {
      if (thread_part* const part = at->part.read_ref(); part != nullptr) destroy_(part);
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
    place_of_number(tenure.number).write_ref() = &found;
    return found;
  }

  /// Returns null if neither the calling thread nor an earlier one with its number has a place.
  MUSTER_COLD place* find() {
    MUSTER_CHECK(copy_ == sync::copy_of_library(),
                 "combine: a library with a copy of muster of its own, in which threads have other numbers, uses the "
                 "object; compile it without -fvisibility=hidden, or use the object where it was made");
    const sync::thread_tenure tenure = sync::own_tenure();
    place* const there = place_of_number(tenure.number).read_ref();
    if (there == nullptr) return nullptr;
    const std::uint64_t me = word_of(tenure);
    // Relaxed: a thread sees everything that earlier threads with its number did. Another thread may have taken the
    // place over in the meantime.
    std::uint64_t owner = there->owner.load(std::memory_order_relaxed);
    if (owner == me) return there;
    if (number_of(owner) != tenure.number ||
        !there->owner.compare_exchange_strong(owner, me, std::memory_order_relaxed, std::memory_order_relaxed))
      return nullptr;
    return there;
  }

  /// The caller must know of all threads that have come.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const place* at = last_.load(std::memory_order_relaxed); at != nullptr; at = at->next)
      if (thread_part* const part = at->part.read_ref(); part != nullptr) visit(part);
  }

 private:
  /// For a range of thread numbers; each thread writes its own entry. The next block has twice as many.
  struct block {
    explicit block(std::uint32_t size_in) : size(size_in), places(std::make_unique<sync::cell<place*>[]>(size_in)) {}
    const std::uint32_t size;
    const std::unique_ptr<sync::cell<place*>[]> places;
    sync::atomic<block*> next{nullptr};
  };
  static constexpr std::uint32_t first_block = 4;

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
        // (6) release, or acquire if another thread was faster: pairs with (5, 6). The block is seen empty.
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
      // (3) release: pairs with (4). A thread that sees a place sees its contents and, because each exchange continues
      // the release sequence, all places created earlier.
      while (!last_.compare_exchange_weak(added->next, added.get(), std::memory_order_release,
                                          std::memory_order_relaxed)) {
      }
      return *added.release();
    }
    // (4) acquire: pairs with (3).
    for (place* at = last_.load(std::memory_order_acquire); at != nullptr; at = at->next) {
      std::uint64_t owner = at->owner.load(std::memory_order_relaxed);
      // If two threads find that an owner has ended, the compare-exchange chooses one.
      if (!sync::lasts(tenure_of(owner)) &&
          at->owner.compare_exchange_strong(owner, me, std::memory_order_relaxed, std::memory_order_relaxed))
        return *at;
    }
    throw std::length_error("combine_options::threads is " + std::to_string(threads_) +
                            ", and more threads use the object at once; raise it");
  }

  const void* const copy_ = sync::copy_of_library();
  const unsigned threads_;
  const destroyer destroy_;
  sync::atomic<unsigned> made_{0};        // places
  sync::atomic<place*> last_{nullptr};    // the first of a list
  sync::atomic<block*> blocks_{nullptr};  // where each thread finds its place
};

/// T must derive from thread_part.
template <class T>
class per_thread {
 public:
  /// Throws std::invalid_argument if `threads` is 0.
  explicit per_thread(unsigned threads)
      : places_(threads, [](thread_part* own) noexcept { delete static_cast<T*>(own); }) {}

  /// The calling thread's T. At the thread's first call, make(index) returns a new T, which is deleted with the object.
  /// `index` is less than `threads` and unique in the object. Throws std::length_error if there are more threads than
  /// configured, and exceptions from make().
  template <class Make>
  MUSTER_HOT T& own(Make make) {
    // The thread's cached pointer is read directly, not at the end of a chain of loads.
    if (void* const kept = sync::cached_part(identity_); kept != nullptr) [[likely]]
      return *static_cast<T*>(kept);
    return find(make);
  }

  /// Returns true if it is the calling thread's.
  bool is_own(const T& part) {
    if (sync::cached_part(identity_) == &part) return true;
    thread_places::place* const place = places_.find();
    return place != nullptr && place->part.read_ref() == &part;
  }

  /// Call only while no thread uses the object.
  template <class Visit>
  void for_each(Visit visit) const {
    places_.for_each([&visit](thread_part* own) { visit(*static_cast<T*>(own)); });
  }

  /// For the destructor: waits until no thread is inside an operation.
  void await_idle() const noexcept {
    for_each([](const T& part) {
      for (brief_wait wait; !part.idle(); wait.pause()) this_fiber::yield();  // it may be a fiber of this thread
    });
  }

 private:
  template <class Make>
  MUSTER_COLD T& find(Make& make) {
    thread_places::place& place = places_.own();
    if (place.part.read_ref() == nullptr) place.part.write_ref() = make(place.index);
    T* const there = static_cast<T*>(place.part.read_ref());
    sync::cache_part(identity_, there);
    return *there;
  }

  const std::uint64_t identity_ = sync::new_object_id();
  thread_places places_;
};

}  // namespace muster::inline MUSTER_ABI::detail
