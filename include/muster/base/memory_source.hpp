// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// memory_source.hpp: where an object takes the memory for its arrays: from operator new, an allocator or a
// std::pmr::memory_resource. The object's type does not depend on it.
//
// Memory     each array has a copy of the allocator in front of it, and is released through that.
// Cost       one call of the allocator for each array, and one to release it; O(1) besides.
// Alignment  is made here, so the allocator may ignore that of over-aligned types.
// Errors     those of the allocator; std::bad_array_new_length.
#pragma once

#include <muster/base/config.hpp>            // MUSTER_ABI
#include <muster/base/detail/utilities.hpp>  // std::allocator_traits

#include <cstddef>      // std::size_t
#include <cstdint>      // std::uintptr_t
#include <new>          // std::bad_array_new_length
#include <type_traits>  // std::is_pointer_v
#include <utility>      // std::move

namespace muster::inline MUSTER_ABI {

/// Refers to a source of memory for as long as a constructor needs it.
class memory_source {
 public:
  /// operator new.
  memory_source() = default;
  /// An allocator, whatever its value_type. It is copied if memory is taken from it.
  template <class Allocator>
    requires requires(Allocator a, typename Allocator::value_type*) { a.allocate(std::size_t{1}); }
  memory_source(const Allocator& from) noexcept : from_(std::addressof(from)), allocate_(&allocate_from<Allocator>) {}
  /// A std::pmr::memory_resource, or an object with the same functions. It must outlive the memory.
  template <class Resource>
    requires requires(Resource r, void* p) { r.deallocate(p, 1, 1); }
  memory_source(Resource* const& from) noexcept : from_(&from), allocate_(&allocate_from<Resource*>) {}

  /// A function that returns an array to where it came from.
  using release_function = void (*)(void* array);
  /// Returns memory. `release` returns it; if that is null, operator delete does, with the alignment.
  void* allocate(std::size_t bytes, std::size_t alignment, release_function& release) const {
    if (allocate_ == nullptr) return ::operator new(bytes, std::align_val_t{alignment});
    return allocate_(from_, bytes, alignment, release);
  }

 private:
  template <class Allocator>
  struct of_bytes {
    using type = typename std::allocator_traits<Allocator>::template rebind_alloc<unsigned char>;
  };
  template <class Resource>
  struct of_bytes<Resource*> {
    struct type {
      using value_type = unsigned char;
      value_type* allocate(std::size_t n) { return static_cast<value_type*>(from->allocate(n, 1)); }
      void deallocate(value_type* first, std::size_t n) { from->deallocate(first, n, 1); }
      Resource* from;
    };
  };

  /// Before each array.
  template <class Allocator>
  struct header {
    Allocator from;
    typename std::allocator_traits<Allocator>::pointer block;
    std::size_t size;

    static void release(void* array) {
      auto* const own = static_cast<header*>(array) - 1;
      header last(std::move(*own));
      std::destroy_at(own);
      std::allocator_traits<Allocator>::deallocate(last.from, last.block, last.size);
    }
  };

  template <class From>
  static void* allocate_from(const void* from, std::size_t bytes, std::size_t alignment, release_function& release) {
    using allocator = typename of_bytes<From>::type;
    using own = header<allocator>;
    const std::size_t unit = std::max(alignment, alignof(own));
    const std::size_t size = sizeof(own) + unit - 1 + bytes;
    if (size < bytes) MUSTER_THROW(std::bad_array_new_length());
    allocator one{*static_cast<const From*>(from)};
    const auto block = std::allocator_traits<allocator>::allocate(one, size);
    unsigned char* const first = std::to_address(block) + sizeof(own);
    unsigned char* const array = first + (unit - reinterpret_cast<std::uintptr_t>(first) % unit) % unit;
    ::new (static_cast<void*>(array - sizeof(own))) own{std::move(one), block, size};
    release = &own::release;
    return array;
  }

  const void* from_ = nullptr;
  void* (*allocate_)(const void*, std::size_t, std::size_t, release_function&) = nullptr;
};

}  // namespace muster::inline MUSTER_ABI
