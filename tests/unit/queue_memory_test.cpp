// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Queues whose memory comes from an allocator of the program.

#include <gtest/gtest.h>
#include <muster/fiber.hpp>  // the macros of counting_allocator.hpp
#include <muster/queue.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "counted.hpp"
#include "counting_allocator.hpp"

using muster::queue_status;
using namespace muster_test;

namespace {

/// Memory that is counted; refuses all requests after `left` more. Uses no operator new itself.
struct ledger {
  struct block {
    void* first;
    std::size_t bytes;
  };
  std::array<block, 400> blocks{};
  std::size_t requests = 0;
  std::size_t open = 0;
  std::size_t left = ~std::size_t{0};

  void* allocate(std::size_t bytes) {
    if (left-- == 0) throw std::runtime_error("no more");
    ++requests;
    // As badly aligned as a block of bytes may be.
    void* const first = static_cast<char*>(std::malloc(bytes + 1)) + 1;
    blocks[open++] = {first, bytes};
    return first;
  }
  void deallocate(void* first, std::size_t bytes) {
    block* const found = std::find_if(blocks.begin(), blocks.begin() + open, [&](block b) { return b.first == first; });
    ASSERT_TRUE(found != blocks.begin() + open && found->bytes == bytes);
    *found = blocks[--open];
    std::free(static_cast<char*>(first) - 1);
  }
};

/// A pointer of its own kind.
template <class T>
struct marked {
  using element_type = T;
  using difference_type = std::ptrdiff_t;
  T* at;
  T* operator->() const { return at; }
};

/// An allocator with a state and its own pointers, and without a default constructor.
template <class T>
struct counting {
  using pointer = marked<T>;
  using value_type = T;
  explicit counting(ledger& l) : all(&l) {}
  template <class U>
  counting(const counting<U>& other) : all(other.all) {}
  pointer allocate(std::size_t n) { return {static_cast<T*>(all->allocate(n * sizeof(T)))}; }
  void deallocate(pointer first, std::size_t n) { all->deallocate(first.at, n * sizeof(T)); }
  bool operator==(const counting&) const = default;
  ledger* all;
};

/// The least that an allocator must have.
template <class T>
struct small {
  using value_type = T;
  explicit small(ledger& l) : all(&l) {}
  template <class U>
  small(const small<U>& other) : all(other.all) {}
  T* allocate(std::size_t n) { return static_cast<T*>(all->allocate(n * sizeof(T))); }
  void deallocate(T* first, std::size_t n) { all->deallocate(first, n * sizeof(T)); }
  ledger* all;
};

class resource : public std::pmr::memory_resource {
 public:
  explicit resource(ledger& l) : all_(&l) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t) override { return all_->allocate(bytes); }
  void do_deallocate(void* first, std::size_t bytes, std::size_t) override { all_->deallocate(first, bytes); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
  ledger* all_;
};

struct alignas(256) wide {
  explicit wide(std::uint64_t v) : value(v) {}
  std::uint64_t value;
};

template <class T>
std::uint64_t value_of(const T& item) {
  if constexpr (requires { item.value(); }) return item.value();
  else return item.value;
}

/// Uses a queue of each shape, made by make(type, options).
template <class T, class Make>
void use_all(Make make) {
  const auto use = [](auto& push, auto& pop) {
    for (std::uint64_t i = 1; i <= 100; ++i) {
      ASSERT_EQ(push.emplace(i), queue_status::success);
      ASSERT_EQ(push.emplace(i + 1), queue_status::success);
      ASSERT_EQ(pop.consume([&](T& item) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&item) % alignof(T), 0U);
        EXPECT_EQ(value_of(item), i);
      }),
                queue_status::success);
      ASSERT_EQ(value_of(*pop.pop()), i + 1);
    }
    ASSERT_EQ(push.emplace(std::uint64_t{1}), queue_status::success);  // is destroyed with the queue
  };
  {
    auto q = make.template operator()<muster::spsc_queue<T>>(muster::queue_options{});
    use(*q, *q);
  }
  {
    auto q = make.template operator()<muster::spmc_queue<T, muster::layout::aligned>>(muster::queue_options{});
    use(*q, *q);
  }
  {
    auto q = make.template operator()<muster::mpmc_queue<T, muster::layout::rotated>>(muster::queue_options{});
    use(*q, *q);
  }
  {
    auto q = make.template operator()<muster::lanes<T>>(muster::lanes_options{.producers = 70});
    auto lane = q->producer();
    auto consumer = q->consumer();
    use(lane, consumer);
  }
}

/// Makes queues in place with memory from `from`.
template <class From>
auto with(const From& from) {
  return [&from]<class Queue, class Options>(Options options) {
    struct in_place {
      in_place(const Options& o, const From& f) : queue(7, o, f) {}
      Queue* operator->() { return &queue; }
      Queue& operator*() { return queue; }
      Queue queue;
    };
    return in_place(options, from);
  };
}

TEST(queue_memory, comes_from_an_allocator_alone) {
  ledger all;
  const auto use = [&](const auto& from) {
    for (const bool wide_items : {false, true}) {
      const std::size_t requests = all.requests, calls = allocations;
      if (wide_items) use_all<wide>(with(from));
      else use_all<counted>(with(from));
      EXPECT_EQ(allocations, calls);
      EXPECT_EQ(all.open, 0U) << "something has not been given back";
      EXPECT_EQ(all.requests - requests, 1U + 2 + 3 + (3 + 2 * 70)) << "the arrays of the queues and of each lane";
    }
  };
  resource its(all);
  use(counting<int>(all));
  use(small<char>(all));
  use(std::pmr::polymorphic_allocator<>(&its));
  use(&its);
  use(static_cast<std::pmr::memory_resource*>(&its));
  EXPECT_EQ(counted::alive(), 0);
}

TEST(queue_memory, leaks_nothing_when_an_allocator_throws) {
  ledger all;
  const counting<int> from(all);
  std::size_t thrown = 0;
  const auto make = [&]<class Queue>(std::type_identity<Queue>) {
    for (bool done = false; !done;) {
      all.left = thrown;
      try {
        const Queue queue(7, {}, from);
        done = true;
      } catch (const std::runtime_error&) {
        ++thrown;
      }
      EXPECT_EQ(all.open, 0U);
    }
    return std::exchange(thrown, 0);
  };
  EXPECT_EQ(make(std::type_identity<muster::spsc_queue<counted>>()), 1U);
  EXPECT_EQ(make(std::type_identity<muster::spmc_queue<counted>>()), 2U);
  EXPECT_EQ(make(std::type_identity<muster::mpmc_queue<counted>>()), 3U);
  EXPECT_EQ(make(std::type_identity<muster::lanes<counted>>()), 2U * 16 + 3);
}

TEST(queue_memory, may_be_a_buffer) {
  alignas(64) std::array<std::byte, 20'000> buffer;
  std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size(), std::pmr::null_memory_resource());
  const std::size_t calls = allocations;
  muster::mpmc_queue<std::uint64_t> queue(100, {}, &memory);
  ASSERT_EQ(queue.push(7U), queue_status::success);
  EXPECT_EQ(*queue.pop(), 7U);
  EXPECT_EQ(allocations, calls);
  EXPECT_THROW((muster::mpmc_queue<std::uint64_t>(10'000, {}, &memory)), std::bad_alloc);
}

TEST(queue_memory, keeps_a_copy_of_its_allocator) {
  ledger all;
  {
    const auto queue = std::make_unique<muster::lanes<counted>>(3, muster::lanes_options{}, small<int>(all));
    ASSERT_EQ(queue->producer().emplace(std::uint64_t{1}), queue_status::success);
    EXPECT_NE(all.open, 0U);
  }
  EXPECT_EQ(all.open, 0U);
  EXPECT_EQ(counted::alive(), 0);
}

}  // namespace
