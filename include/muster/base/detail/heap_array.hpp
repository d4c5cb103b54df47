// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heap_array.hpp: an array whose size is fixed when it is made. Its elements need not be movable. The first one has the
// given alignment.
//
// Errors     those of the source of memory, and what a constructor of T throws; the elements before it are destroyed.
#pragma once

#include <muster/base/config.hpp>            // MUSTER_ABI
#include <muster/base/detail/utilities.hpp>  // std::construct_at
#include <muster/base/memory_source.hpp>     // memory_source

#include <cstddef>  // std::size_t
#include <new>      // std::align_val_t

namespace muster::inline MUSTER_ABI::detail {

template <class T, std::size_t Alignment = alignof(T)>
class heap_array {
 public:
  /// Constructs each element from `args`; without any, elements of trivial types have no value.
  template <class... Args>
  heap_array(const memory_source& memory, std::size_t size, const Args&... args) : first_(allocate(memory, size)) {
    MUSTER_TRY {
      for (; size_ != size; ++size_) {
        if constexpr (sizeof...(Args) == 0) ::new (static_cast<void*>(first_ + size_)) T;
        else std::construct_at(first_ + size_, args...);
      }
    }
    MUSTER_CATCH_ALL {
      clear();
      MUSTER_RETHROW;
    }
  }
  ~heap_array() { clear(); }
  heap_array(const heap_array&) = delete;
  heap_array& operator=(const heap_array&) = delete;

  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t i) const noexcept { return first_[i]; }
  T* begin() const noexcept { return first_; }
  T* end() const noexcept { return first_ + size_; }

 private:
  T* allocate(const memory_source& memory, std::size_t size) {
    if (size > ~std::size_t{0} / sizeof(T)) MUSTER_THROW(std::bad_array_new_length());
    return static_cast<T*>(memory.allocate(size * sizeof(T), Alignment, release_));
  }
  void clear() noexcept {
    while (size_ != 0) std::destroy_at(first_ + --size_);
    if (release_ != nullptr) release_(first_);
    else ::operator delete(first_, std::align_val_t{Alignment});
  }

  memory_source::release_function release_ = nullptr;
  T* const first_;
  std::size_t size_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
