// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci_paper_structures.hpp: OsciQueue and OsciStack of "Lock Oscillation", OPODIS 2017, section 6, on Osci as printed.
//
// Faithful to  the paper: the queue is the two-lock queue of Michael and Scott, PODC 1996, with an Osci in the place of
//              each lock; the stack is a list with one Osci.
// Differs      the paper does not say where values and nodes go. Here a pop of the queue moves the value into the node
//              that it takes out, and the caller then owns it; nodes go into the next push of their owner.
//              The link between the two ends of the queue is an atomic, as both combiners may be at the same node.
// Memory       nodes of a line each.
#pragma once

#include "osci_paper.hpp"

#include <muster/base/arch.hpp>  // line_size

#include <atomic>
#include <cstdint>
#include <utility>

namespace muster::bench {

/// Of a queue or a stack. T must be default-constructible and movable by assignment.
template <class T>
struct alignas(line_size) osci_paper_node {
  T value{};
  std::atomic<osci_paper_node*> next{nullptr};

  static std::int64_t to_number(osci_paper_node* n) noexcept { return reinterpret_cast<std::intptr_t>(n); }
  static osci_paper_node* from_number(std::int64_t n) noexcept {
    return reinterpret_cast<osci_paper_node*>(static_cast<std::intptr_t>(n));
  }
  static void drop(osci_paper_node* list) noexcept {
    while (list != nullptr) delete std::exchange(list, list->next.load(std::memory_order_relaxed));
  }
};

/// Nodes that a fiber has popped and not pushed again.
template <class T>
class osci_paper_pool {
  using node = osci_paper_node<T>;

 public:
  osci_paper_pool() = default;
  osci_paper_pool(const osci_paper_pool&) = delete;
  osci_paper_pool& operator=(const osci_paper_pool&) = delete;
  ~osci_paper_pool() { node::drop(spare_); }

  node* take(T value) {
    node* const n = spare_ == nullptr ? new node : spare_;
    if (n == spare_) spare_ = n->next.load(std::memory_order_relaxed);
    n->value = std::move(value);
    n->next.store(nullptr, std::memory_order_relaxed);
    return n;
  }
  /// Moves the value out of `n`, if there is one, and keeps the node.
  bool give_back(node* n, T& value) noexcept {
    if (n == nullptr) return false;
    value = std::move(n->value);
    n->next.store(spare_, std::memory_order_relaxed);
    spare_ = n;
    return true;
  }

 private:
  node* spare_ = nullptr;
};

template <class T, class Pause = cpu_turn>
class osci_paper_queue {
  using node = osci_paper_node<T>;
  struct link {
    std::int64_t operator()(node*& last, std::int64_t added) const noexcept {
      node* const n = node::from_number(added);
      last->next.store(n, std::memory_order_release);
      last = n;
      return 0;
    }
  };
  struct unlink {
    std::int64_t operator()(node*& first, std::int64_t) const noexcept {
      node* const next = first->next.load(std::memory_order_acquire);
      if (next == nullptr) return 0;
      first->value = std::move(next->value);
      return node::to_number(std::exchange(first, next));
    }
  };
  using pushing = osci_paper<node*, link, Pause>;
  using popping = osci_paper<node*, unlink, Pause>;

 public:
  osci_paper_queue(unsigned cores, unsigned fibers) : osci_paper_queue(cores, fibers, new node) {}
  ~osci_paper_queue() { node::drop(pops_.state()); }

  class handle {
   public:
    handle(osci_paper_queue& q, unsigned core, unsigned place)
        : push_(q.pushes_, core, place), pop_(q.pops_, core, place) {}
    void push(T value) { push_.apply(node::to_number(pool_.take(std::move(value)))); }
    bool pop(T& value) { return pool_.give_back(node::from_number(pop_.apply(0)), value); }

   private:
    typename pushing::handle push_;
    typename popping::handle pop_;
    osci_paper_pool<T> pool_;
  };

 private:
  osci_paper_queue(unsigned cores, unsigned fibers, node* first)
      : pushes_(cores, fibers, first), pops_(cores, fibers, first) {}

  pushing pushes_;  // of the last node
  popping pops_;    // of the first, whose value is gone
};

template <class T, class Pause = cpu_turn>
class osci_paper_stack {
  using node = osci_paper_node<T>;
  /// The argument is the node to push, or 0: pop.
  struct change {
    std::int64_t operator()(node*& top, std::int64_t pushed) const noexcept {
      if (node* const n = node::from_number(pushed); n != nullptr) {
        n->next.store(top, std::memory_order_relaxed);
        top = n;
        return 0;
      }
      node* const taken = top;
      if (taken != nullptr) top = taken->next.load(std::memory_order_relaxed);
      return node::to_number(taken);
    }
  };
  using object = osci_paper<node*, change, Pause>;

 public:
  osci_paper_stack(unsigned cores, unsigned fibers) : top_(cores, fibers, nullptr) {}
  ~osci_paper_stack() { node::drop(top_.state()); }

  class handle {
   public:
    handle(osci_paper_stack& s, unsigned core, unsigned place) : top_(s.top_, core, place) {}
    void push(T value) { top_.apply(node::to_number(pool_.take(std::move(value)))); }
    bool pop(T& value) { return pool_.give_back(node::from_number(top_.apply(0)), value); }

   private:
    typename object::handle top_;
    osci_paper_pool<T> pool_;
  };

 private:
  object top_;
};

}  // namespace muster::bench
