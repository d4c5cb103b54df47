// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_nodes.hpp: the nodes of psim_stack and psim_queue. Each thread has a store of free nodes.
//
// An execution that may have no effect takes nodes and fills them; if it has none, they become free again. A node that
// a pop removed goes to the store of the pop's owner, the only thread that knows of it. So a thread that only pops
// accumulates nodes. It offers the surplus, `chain` at a time, and a thread without nodes takes offers before it
// allocates.
//
// No node is freed before the store, so a thread may read any node that it has ever found. At worst it reads later
// contents; the head has then moved, and its execution has no effect. (An execution with effect never reads them: their
// writer had seen a newer head, and of two compare-exchanges from one head one fails.) Hence a node's link is always a
// node, null, or odd.
#pragma once

#include <muster/base/sync.hpp>                  // sync::atomic, sync::cell
#include <muster/combine/detail/per_thread.hpp>  // per_thread
#include <muster/combine/detail/words.hpp>       // as_word

#include <algorithm>    // std::min
#include <bit>          // std::bit_cast
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <memory>       // std::unique_ptr
#include <new>          // std::bad_alloc
#include <optional>     // the result of pop
#include <stdexcept>    // std::invalid_argument
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::exchange
#include <vector>       // nodes made

namespace muster::inline MUSTER_ABI::detail {

/// link, item  written by the execution that has taken the node; read by all.
/// next        in a list that belongs to one thread, or is offered.
/// offer       in the first node of a chain that is offered: the next chain.
struct psim_node {
  sync::atomic<std::uint64_t> link{0};
  sync::atomic<std::uint64_t> item{0};
  sync::cell<psim_node*> next;
  sync::cell<psim_node*> offer;
};

static_assert(sizeof(psim_node*) == sizeof(std::uint64_t), "a node's address travels in a word");
inline std::uint64_t word_of(psim_node* node) noexcept { return std::bit_cast<std::uint64_t>(node); }
inline psim_node* node_of(std::uint64_t word) noexcept { return std::bit_cast<psim_node*>(word); }

/// Touched only by its thread, except for the chains that it offers.
class psim_store : public thread_part {
 public:
  /// Shared by the stores of an object.
  struct market {
    const unsigned threads;
    const unsigned chain;
    // One per thread. Only that thread adds chains; a thread that takes any takes all.
    const std::unique_ptr<sync::atomic<psim_node*>[]> offers;
  };

  psim_store(const market& at, unsigned thread) noexcept : market_(at), thread_(thread), found_at_(thread) {}

  /// In an execution: returns a node, or null if there is no memory.
  psim_node* take() noexcept;
  /// In an execution: returns the last node that it has taken, or null.
  psim_node* last_taken() const noexcept { return taken_; }
  /// In an execution: puts the last node back unused.
  void put_back() noexcept;
  void commit() noexcept;
  void abort() noexcept;

  /// Outside an execution: takes back a node that has left the object.
  void give(psim_node* node) noexcept;

  /// Nodes allocated, and nodes free or on offer. Call only while no thread uses the object.
  std::size_t made() const noexcept { return made_.size() * market_.chain; }
  std::size_t free() const noexcept;

 private:
  static std::size_t length(const psim_node* list) noexcept;
  void offer(psim_node* chain) noexcept;
  bool refill() noexcept;
  bool make() noexcept;

  const market& market_;
  const unsigned thread_;
  unsigned found_at_;                 // the thread whose offer was taken last
  psim_node* free_ = nullptr;         // a list
  std::size_t count_ = 0;             // a lower bound of the nodes in it or taken
  psim_node* reserve_ = nullptr;      // a chain, or null
  psim_node* taken_ = nullptr;        // a list: taken by the execution in progress
  psim_node* first_taken_ = nullptr;  // its end
  std::size_t taken_count_ = 0;
  std::vector<std::unique_ptr<psim_node[]>> made_;
};

inline psim_node* psim_store::take() noexcept {
  if (free_ == nullptr && !refill()) return nullptr;
  psim_node* const node = free_;
  free_ = node->next.read_ref();
  if (taken_ == nullptr) first_taken_ = node;
  node->next.write_ref() = std::exchange(taken_, node);
  ++taken_count_;
  return node;
}

inline void psim_store::put_back() noexcept {
  psim_node* const node = taken_;
  taken_ = node->next.read_ref();
  node->next.write_ref() = std::exchange(free_, node);
  --taken_count_;
}

inline void psim_store::commit() noexcept {
  count_ -= std::min(count_, taken_count_);
  taken_ = nullptr;
  taken_count_ = 0;
}

inline void psim_store::abort() noexcept {
  if (taken_ == nullptr) return;
  first_taken_->next.write_ref() = free_;
  free_ = std::exchange(taken_, nullptr);
  taken_count_ = 0;
}

// With one chain in reserve, a thread that alternates between taking and giving keeps its nodes.
inline void psim_store::give(psim_node* node) noexcept {
  if (count_ >= market_.chain) {
    if (reserve_ != nullptr) offer(reserve_);
    reserve_ = std::exchange(free_, nullptr);
    count_ = 0;
  }
  node->next.write_ref() = std::exchange(free_, node);
  ++count_;
}

inline void psim_store::offer(psim_node* chain) noexcept {
  sync::atomic<psim_node*>& own = market_.offers[thread_];
  psim_node* others = own.load(std::memory_order_relaxed);
  do {
    chain->offer.write_ref() = others;
    // (1) release: pairs with (2). The chain is complete. It fails at most once, when another thread has taken all.
  } while (!own.compare_exchange_strong(others, chain, std::memory_order_release, std::memory_order_relaxed));
}

/// Gets nodes when none is free. Looks at each thread's offers once.
MUSTER_COLD inline bool psim_store::refill() noexcept {
  if (reserve_ != nullptr) {
    free_ = std::exchange(reserve_, nullptr);
    count_ += market_.chain;
    return true;
  }
  sync::atomic<psim_node*>& own = market_.offers[thread_];
  for (unsigned i = 0; i <= market_.threads; ++i) {
    const unsigned at = i == 0 ? thread_ : (found_at_ + i - 1) % market_.threads;
    sync::atomic<psim_node*>& there = market_.offers[at];
    if (there.load(std::memory_order_relaxed) == nullptr) continue;
    // (2) acquire: pairs with (1, 3).
    psim_node* const chain = there.exchange(nullptr, std::memory_order_acquire);
    if (chain == nullptr) continue;
    found_at_ = at;
    // This thread needs one chain and offers the others. It offers nothing else, because it looked there first.
    // (3) release: pairs with (2). The chains are complete.
    if (psim_node* const others = chain->offer.read_ref(); others != nullptr)
      own.store(others, std::memory_order_release);
    free_ = chain;
    count_ += market_.chain;
    return true;
  }
  return make();
}

inline bool psim_store::make() noexcept {
  try {
    made_.push_back(std::make_unique<psim_node[]>(market_.chain));
  } catch (const std::bad_alloc&) {
    return false;
  }
  psim_node* const first = made_.back().get();
  for (unsigned i = 0; i < market_.chain; ++i)
    first[i].next.write_ref() = i + 1 == market_.chain ? nullptr : first + i + 1;
  free_ = first;
  count_ += market_.chain;
  return true;
}

inline std::size_t psim_store::length(const psim_node* list) noexcept {
  std::size_t n = 0;
  for (; list != nullptr; list = list->next.read_ref()) ++n;
  return n;
}

inline std::size_t psim_store::free() const noexcept {
  std::size_t n = length(free_) + length(reserve_);
  for (const psim_node* chain = market_.offers[thread_].load(std::memory_order_relaxed); chain != nullptr;
       chain = chain->offer.read_ref())
    n += length(chain);
  return n;
}

/// The stores of all threads.
class psim_nodes {
 public:
  /// Throws std::invalid_argument if `threads` or `chain` is 0.
  psim_nodes(unsigned threads, unsigned chain)
      : market_{threads, chain, std::make_unique<sync::atomic<psim_node*>[]>(threads)}, stores_(threads) {
    if (chain == 0) throw std::invalid_argument("psim_options::chain is 0; it must be at least 1");
  }
  /// The calling thread's store. Throws std::bad_alloc, and std::length_error if there are more threads than
  /// configured.
  psim_store& own() {
    return stores_.own([this](unsigned index) { return new psim_store(market_, index); });
  }
  /// For the destructor: waits until no thread is inside an operation.
  void await_idle() const noexcept { stores_.await_idle(); }

  /// Checks that every allocated node is free or one of `used`. Call only while no thread uses the object.
  void check(std::size_t used) const {
    std::size_t made = 0, free = 0;
    stores_.for_each([&](const psim_store& store) {
      made += store.made();
      free += store.free();
    });
    MUSTER_CHECK(made == free + used,
                 "psim_stack or psim_queue: nodes are lost, or a thread is inside an operation; join its users first");
  }

 private:
  const psim_store::market market_;
  per_thread<psim_store> stores_;
};

/// The workspace of executions that take nodes.
struct psim_taking {
  psim_store* nodes = nullptr;  // set before the thread's first execution
  void commit() noexcept { nodes->commit(); }
  void abort() noexcept { nodes->abort(); }
};

/// The result of a pop: an item, and the node that is now free.
struct psim_popped {
  static constexpr std::uint64_t nothing = 0, no_node = 1;
  std::uint64_t item;
  std::uint64_t node;  // `nothing`: no item; `no_node`: an item whose node was never in the object
};

/// How a T is stored in a word: by value, or as the address of a box owned by the holder of the word.
template <class T>
struct psim_item {
  static constexpr bool in_place = std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t);

  /// Stores T(args...) in a word and calls push(word), which returns false if there is no memory.
  template <class Push, class... Args>
  static void push(Push push, Args&&... args) {
    if constexpr (in_place) {
      if (!push(as_word(T(std::forward<Args>(args)...)))) throw std::bad_alloc();
    } else {
      auto box = std::make_unique<T>(std::forward<Args>(args)...);
      if (!push(std::bit_cast<std::uint64_t>(box.get()))) throw std::bad_alloc();
      static_cast<void>(box.release());
    }
  }
  static std::optional<T> take(std::uint64_t word) {
    if constexpr (in_place) {
      return value_in<T>(&word);
    } else {
      const std::unique_ptr<T> box(std::bit_cast<T*>(word));
      return std::optional<T>(std::move(*box));
    }
  }
  static void drop(std::uint64_t word) noexcept {
    if constexpr (!in_place) delete std::bit_cast<T*>(word);
  }
};

}  // namespace muster::inline MUSTER_ABI::detail
