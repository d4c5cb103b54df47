// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combining_queue.hpp: unbounded FIFO queue for any number of threads, built on any combining object.
//
// Order      linearizable FIFO.
// Progress   that of the combining object, of which there are two: pushes and pops do not wait for each other.
// Memory     a node for each item; each thread keeps up to 1024 nodes for reuse.
// Errors     push throws what T's constructor throws, std::bad_alloc, and what the object's apply throws; then the
//            queue is as it was. A T whose move may throw, or that is large, is kept behind a pointer.
// Use it     where many fibers push and pop (combining_queue<T, osci> is the paper's OsciQueue). Between threads
//            without fibers, mpmc_queue is faster, bounded, and can be waited for.
// Source     the two-lock queue of Michael and Scott, PODC 1996, with a combining object in place of each lock
//            (Fatourou and Kallimanis, PPoPP 2012 and OPODIS 2017). Nodes are made before and freed after, by the
//            callers; an item is moved once while its node is in the queue, so that the node that a pop returns is its
//            own.
#pragma once

#include <muster/base/slot.hpp>               // slot
#include <muster/combine/impl/node_pool.hpp>  // node_pool
#include <muster/combine/options.hpp>         // combine_options
#include <muster/combine/osci.hpp>            // the default

#include <memory>       // std::unique_ptr
#include <optional>     // what pop returns
#include <type_traits>  // std::is_nothrow_move_constructible_v
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI {

template <class T, template <class...> class Combining = osci>
class combining_queue {
 public:
  using value_type = T;

  explicit combining_queue(const combine_options& options = {});
  /// Destroys the items left. No thread may be inside an operation.
  ~combining_queue();
  combining_queue(const combining_queue&) = delete;
  combining_queue& operator=(const combining_queue&) = delete;

  /// Puts an item at the end.
  MUSTER_HOT void push(T item) { emplace(std::move(item)); }
  template <class... Args>
  MUSTER_HOT void emplace(Args&&... args);
  /// Takes the first item, if there is one.
  MUSTER_HOT std::optional<T> pop();

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  static constexpr bool in_place = std::is_nothrow_move_constructible_v<T> && sizeof(T) <= 64;
  using stored = std::conditional_t<in_place, T, std::unique_ptr<T>>;

  struct node {
    // Null in the last node. A pop may look at the last node while a push links the next.
    sync::atomic<node*> next{nullptr};
    sync::cell<slot<stored>> item;  // there in all nodes of the queue but the first
  };

  struct push_end {
    node* last;
    struct link;
    void execute(batch<push_end, link, void> all) noexcept;
  };
  struct pop_end {
    node* first;
    struct unlink;
  };

  detail::node_pool<node> pool_;
  Combining<push_end> pushes_;
  Combining<pop_end> pops_;
};

template <class T, template <class...> class Combining>
struct combining_queue<T, Combining>::push_end::link {
  node* added;
  void operator()(push_end& end) const noexcept {
    // (1) release: pairs with (2). A pop that finds the node sees its item.
    end.last->next.store(added, std::memory_order_release);
    end.last = added;
  }
};

/// All at once: the nodes are strung together where nobody looks, and hung in by one store.
template <class T, template <class...> class Combining>
void combining_queue<T, Combining>::push_end::execute(batch<push_end, link, void> all) noexcept {
  node* const first = all[0].function().added;
  node* end = first;
  for (std::size_t i = 1; i < all.size(); ++i) {
    node* const next = all[i].function().added;
    // Relaxed: (3) makes them visible.
    end->next.store(next, std::memory_order_relaxed);
    end = next;
  }
  // (3) release: pairs with (2).
  last->next.store(first, std::memory_order_release);
  last = end;
}

template <class T, template <class...> class Combining>
struct combining_queue<T, Combining>::pop_end::unlink {
  node* operator()(pop_end& end) const noexcept {
    node* const old = end.first;
    // (2) acquire: pairs with (1, 3).
    node* const next = old->next.load(std::memory_order_acquire);
    if (next == nullptr) return nullptr;
    // The next node stays in the queue, and another pop may free it; so its item leaves with the old one.
    old->item.ref().construct(std::move(next->item.ref().value));
    next->item.ref().destroy();
    end.first = next;
    return old;
  }
};

template <class T, template <class...> class Combining>
combining_queue<T, Combining>::combining_queue(const combine_options& options)
    : pool_(options.threads), pushes_(options), pops_(options) {
  node* const first = std::make_unique<node>().release();
  pushes_.apply([first](push_end& end) noexcept { end.last = first; });
  pops_.apply([first](pop_end& end) noexcept { end.first = first; });
}

template <class T, template <class...> class Combining>
combining_queue<T, Combining>::~combining_queue() {
  while (pop()) {
  }
  delete pops_.apply([](pop_end& end) noexcept { return end.first; });
}

template <class T, template <class...> class Combining>
void combining_queue<T, Combining>::check() const {
  pushes_.check();
  pops_.check();
}

template <class T, template <class...> class Combining>
template <class... Args>
void combining_queue<T, Combining>::emplace(Args&&... args) {
  std::unique_ptr<node> made = pool_.take();
  made->next.store(nullptr, std::memory_order_relaxed);
  if constexpr (in_place) {
    made->item.ref().construct(std::forward<Args>(args)...);
  } else {
    made->item.ref().construct(std::make_unique<T>(std::forward<Args>(args)...));
  }
  try {
    pushes_.apply(typename push_end::link{made.get()});
  } catch (...) {
    made->item.ref().destroy();
    throw;
  }
  static_cast<void>(made.release());
}

template <class T, template <class...> class Combining>
std::optional<T> combining_queue<T, Combining>::pop() {
  std::unique_ptr<node> old(pops_.apply(typename pop_end::unlink{}));
  if (old == nullptr) return std::nullopt;
  stored& there = old->item.ref().value;
  std::optional<T> item;
  if constexpr (in_place) {
    item.emplace(std::move(there));
  } else {
    item.emplace(std::move(*there));
  }
  old->item.ref().destroy();
  pool_.give_back(std::move(old));
  return item;
}

}  // namespace muster::inline MUSTER_ABI
