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
#include <utility>    // std::forward

namespace muster::inline MUSTER_ABI::detail {

template <class T>
class per_thread {
 public:
  /// Throws std::invalid_argument for no threads.
  explicit per_thread(unsigned threads) : threads_(threads) {
    if (threads == 0) throw std::invalid_argument("combine_options::threads is 0; ask for 1 at least");
    all_ = std::make_unique<sync::cell<std::unique_ptr<T>>[]>(threads);
  }

  /// The calling thread's. make() returns a std::unique_ptr<T>; called at the thread's first call. Throws
  /// std::length_error when there are more threads than configured, and what make() throws.
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
    for (unsigned i = 0; i < threads_; ++i)
      if (T* const there = all_[i].get().get(); there != nullptr) visit(*there);
  }

 private:
  template <class Make>
  MUSTER_COLD T& find(Make& make) {
    const unsigned index = sync::thread_index();
    if (index >= threads_)
      throw std::length_error("a thread with number " + std::to_string(index) + " uses an object for " +
                              std::to_string(threads_) + " threads: raise combine_options::threads");
    if (all_[index].get() == nullptr) all_[index].ref() = make();
    T* const there = all_[index].get().get();
    sync::keep_part_of(identity_, there);
    return *there;
  }

  const std::uint64_t identity_ = sync::new_identity();
  const unsigned threads_;
  std::unique_ptr<sync::cell<std::unique_ptr<T>>[]> all_;
};

}  // namespace muster::inline MUSTER_ABI::detail
