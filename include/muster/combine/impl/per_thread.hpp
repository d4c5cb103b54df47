// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// per_thread.hpp: one T for each kernel thread that uses an object, made when the thread first comes.
//
// It belongs to the thread's number (base/thread.hpp) and not to the thread: when a thread ends, the next one with its
// number goes on with it. So threads come and go, and nothing of the object is freed under those who still look.
#pragma once

#include <muster/base/sync.hpp>  // sync::cell, sync::kept_part_of

#include <cstdint>    // std::uint64_t
#include <memory>     // std::unique_ptr
#include <stdexcept>  // std::length_error
#include <string>     // messages

namespace muster::inline MUSTER_ABI::detail {

/// A pointer for each thread number: the part of per_thread that does not depend on T, compiled once.
class thread_places {
 public:
  using destroyer = void (*)(void*) noexcept;

  /// Throws std::invalid_argument for no threads.
  thread_places(unsigned threads, destroyer destroy) : threads_(threads), destroy_(destroy) {
    if (threads == 0) throw std::invalid_argument("combine_options::threads is 0; ask for 1 at least");
    all_ = std::make_unique<sync::cell<void*>[]>(threads);
  }
  ~thread_places() { for_each(destroy_); }
  thread_places(const thread_places&) = delete;
  thread_places& operator=(const thread_places&) = delete;

  /// Returns the place of the calling thread. Throws std::length_error if there are more threads than configured.
  MUSTER_COLD sync::cell<void*>& own() {
    const unsigned index = sync::thread_index();
    if (index >= threads_)
      throw std::length_error("a thread with number " + std::to_string(index) + " uses an object for " +
                              std::to_string(threads_) + " threads: raise combine_options::threads");
    return all_[index];
  }

  template <class Visit>
  void for_each(Visit visit) const {
    for (unsigned i = 0; i < threads_; ++i)
      if (void* const there = all_[i].get(); there != nullptr) visit(there);
  }

 private:
  const unsigned threads_;
  const destroyer destroy_;
  std::unique_ptr<sync::cell<void*>[]> all_;
};

template <class T>
class per_thread {
 public:
  /// Throws std::invalid_argument for no threads.
  explicit per_thread(unsigned threads) : places_(threads, [](void* own) noexcept { delete static_cast<T*>(own); }) {}

  /// The calling thread's. make() returns a new T, which is deleted with the object; called at the thread's first call.
  /// Throws std::length_error when there are more threads than configured, and what make() throws.
  template <class Make>
  MUSTER_HOT T& own(Make make) {
    // What the thread has kept is read straight away, and not at the end of a chain of loads.
    if (void* const kept = sync::kept_part_of(identity_); kept != nullptr) [[likely]]
      return *static_cast<T*>(kept);
    return find(make);
  }

  /// Only while no thread uses the object.
  template <class Visit>
  void for_each(Visit visit) const {
    places_.for_each([&visit](void* own) { visit(*static_cast<T*>(own)); });
  }

 private:
  template <class Make>
  MUSTER_COLD T& find(Make& make) {
    sync::cell<void*>& place = places_.own();
    if (place.get() == nullptr) place.ref() = make();
    void* const there = place.get();
    sync::keep_part_of(identity_, there);
    return *static_cast<T*>(there);
  }

  const std::uint64_t identity_ = sync::new_identity();
  thread_places places_;
};

}  // namespace muster::inline MUSTER_ABI::detail
