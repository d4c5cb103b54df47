// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_region.hpp: memory that a process shares with the children it forks afterwards, at the same addresses. Objects
// in it may allocate: this file replaces operator new and delete, so one source file of a program includes it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace muster_test {

/// At most one at a time. Nothing is destroyed or given back before its end.
class shared_region {
 public:
  static constexpr std::size_t size = 1 << 20;

  shared_region()
      : base_(static_cast<char*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    current() = this;
  }
  ~shared_region() {
    current() = nullptr;
    ::munmap(base_, size);
  }
  shared_region(const shared_region&) = delete;
  shared_region& operator=(const shared_region&) = delete;

  /// A T, and whatever its constructor allocates.
  template <class T, class... Args>
  T& make(Args&&... args) {
    taking_ = true;
    T* const made = new T(std::forward<Args>(args)...);
    taking_ = false;
    return *made;
  }

  static shared_region*& current() {
    static shared_region* one = nullptr;
    return one;
  }
  /// Null: use another allocator.
  static void* allocate(std::size_t bytes, std::size_t alignment) {
    shared_region* const r = current();
    if (r == nullptr || !r->taking_) return nullptr;
    r->used_ = (r->used_ + alignment - 1) / alignment * alignment;
    if (bytes > size - r->used_) throw std::bad_alloc();
    return r->base_ + std::exchange(r->used_, r->used_ + bytes);
  }
  static bool owns(const void* p) {
    const shared_region* const r = current();
    return r != nullptr && reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(r->base_) < size;
  }

 private:
  char* base_;
  std::size_t used_ = 0;
  bool taking_ = false;
};

namespace detail {

inline void* allocate(std::size_t bytes, std::size_t alignment) {
  if (void* const shared = shared_region::allocate(bytes, alignment)) return shared;
  alignment = alignment < alignof(std::max_align_t) ? alignof(std::max_align_t) : alignment;
  void* const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
inline void release(void* block) noexcept {
  if (!shared_region::owns(block)) std::free(block);
}

}  // namespace detail
}  // namespace muster_test

// Every form that is not here calls one of these.
void* operator new(std::size_t bytes) { return muster_test::detail::allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return muster_test::detail::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept { muster_test::detail::release(block); }
void operator delete(void* block, std::size_t) noexcept { muster_test::detail::release(block); }
void operator delete(void* block, std::align_val_t) noexcept { muster_test::detail::release(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { muster_test::detail::release(block); }
