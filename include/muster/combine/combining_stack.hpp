// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combining_stack.hpp: unbounded LIFO stack for any number of threads, built on any combining object.
//
// Order      linearizable LIFO.
// Progress   that of the combining object.
// Memory     a node for each item; each thread keeps up to 1024 nodes for reuse.
// Errors     push throws what T's constructor throws, std::bad_alloc, and what the object's apply throws; then the
//            stack is as it was. A T whose move throws in pop reaches the caller of pop, and that item is gone.
// Use it     where many fibers push and pop (combining_stack<T, osci> is the paper's OsciStack): for free lists, for
//            work that is best done while it is in the cache.
// Source     Fatourou and Kallimanis, PPoPP 2012 and OPODIS 2017. Nodes are made before and freed after, by the
//            callers. Pushes and pops that travel together answer each other before they meet the stack (elimination:
//            Hendler, Shavit, Yerushalmi, SPAA 2004).
#pragma once

#include <muster/base/slot.hpp>               // slot
#include <muster/combine/batch.hpp>           // batch
#include <muster/combine/impl/node_pool.hpp>  // node_pool
#include <muster/combine/options.hpp>         // combine_options
#include <muster/combine/osci.hpp>            // the default

#include <cstdint>   // std::uint32_t
#include <memory>    // std::unique_ptr
#include <optional>  // what pop returns
#include <span>      // notes
#include <utility>   // std::forward

namespace muster::inline MUSTER_ABI {

template <class T, template <class...> class Combining = osci>
class combining_stack {
 public:
  using value_type = T;

  explicit combining_stack(const combine_options& options = {}) : pool_(options.threads), top_(options) {}
  /// Destroys the items left. No thread may be inside an operation.
  ~combining_stack() {
    while (pop()) {
    }
  }
  combining_stack(const combining_stack&) = delete;
  combining_stack& operator=(const combining_stack&) = delete;

  /// Puts an item on top.
  MUSTER_HOT void push(T item) { emplace(std::move(item)); }
  template <class... Args>
  MUSTER_HOT void emplace(Args&&... args);
  /// Takes the item on top, if there is one.
  MUSTER_HOT std::optional<T> pop();

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const { top_.check(); }

 private:
  struct node {
    node* below = nullptr;
    sync::cell<slot<T>> item;
  };
  struct top {
    node* first = nullptr;
    struct change;
    using eliminates = change;
    static void eliminate(batch<top, change, node*> all, std::span<std::uint32_t> notes) noexcept;
  };

  detail::node_pool<node> pool_;
  Combining<top> top_;
};

/// A push and a pop are of one kind, so that a batch of both is one loop.
template <class T, template <class...> class Combining>
struct combining_stack<T, Combining>::top::change {
  node* pushed;  // null: a pop
  /// What a pop has taken, null when there was nothing.
  node* operator()(top& stack) const noexcept {
    node* const old = stack.first;
    if (pushed != nullptr) {
      pushed->below = old;
      stack.first = pushed;
      return nullptr;
    }
    if (old != nullptr) stack.first = old->below;
    return old;
  }
};

/// A pop gets what the last push before it, that no other has got, has brought.
template <class T, template <class...> class Combining>
void combining_stack<T, Combining>::top::eliminate(batch<top, change, node*> all,
                                                   std::span<std::uint32_t> notes) noexcept {
  constexpr std::uint32_t none = all.answered - 1;
  std::uint32_t last = none;  // the last push that is left; its note says which was before it
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].function().pushed != nullptr) {
      notes[i] = std::exchange(last, i);
    } else if (last == none) {
      notes[i] = none;
    } else {
      const std::uint32_t met = std::exchange(last, notes[last]);
      all[i].result(all[met].function().pushed);
      all[met].result(static_cast<node*>(nullptr));
      notes[i] = notes[met] = all.answered;
    }
  }
}

template <class T, template <class...> class Combining>
template <class... Args>
void combining_stack<T, Combining>::emplace(Args&&... args) {
  std::unique_ptr<node> made = pool_.take();
  made->item.ref().construct(std::forward<Args>(args)...);
  try {
    top_.apply(typename top::change{made.get()});
  } catch (...) {
    made->item.ref().destroy();
    throw;
  }
  static_cast<void>(made.release());
}

template <class T, template <class...> class Combining>
std::optional<T> combining_stack<T, Combining>::pop() {
  std::unique_ptr<node> taken(top_.apply(typename top::change{nullptr}));
  if (taken == nullptr) return std::nullopt;
  // However the move ends, the item is destroyed and the node kept.
  struct ended {
    combining_stack& stack;
    std::unique_ptr<node>& taken;
    ~ended() {
      taken->item.ref().destroy();
      stack.pool_.give_back(std::move(taken));
    }
  };
  const ended last{*this, taken};
  return std::optional<T>(std::move(taken->item.ref().value));
}

}  // namespace muster::inline MUSTER_ABI
