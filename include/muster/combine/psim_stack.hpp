// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_stack.hpp: an unbounded LIFO stack for any number of threads, none of which can block the others.
//
// Order      linearizable LIFO.
// Progress   wait-free, as psim, except for memory allocation: of `psim_options::chain` nodes when no node is free, and
//            of a box for an item that needs one. A search for free nodes takes a step for each of `threads`, once per
//            chain.
// Killed     as stopped: no thread waits. An announced item is pushed; an item that was being popped is lost.
// Memory     that of psim, and nodes of 32 bytes, reused and freed with the stack. There are as many as the most items
//            at a time, plus per thread those of one execution of all announced pushes, and three chains. (A thread
//            that takes others' free nodes hides them for a moment; a thread that finds none then allocates a chain.)
// Cost       push, pop: O(1), and one apply of psim (psim.hpp). At most one allocation for every `chain` pushes, after
//            each thread's first; and one for each boxed item.
// Errors     push throws exceptions from T's constructor, and std::bad_alloc, also if the executing thread found no
//            memory for a node. It throws std::length_error if more threads come than configured. The stack is then
//            unchanged. If moving T throws in pop, the exception reaches the caller and the item is lost. The
//            constructor throws std::invalid_argument.
// Use it     where a thread may stop at any point without blocking the others. Otherwise combining_stack needs less
//            memory.
// Items      are stored in the nodes if they are trivially copyable and at most eight bytes; others are boxed.
// Source     SimStack (Fatourou and Kallimanis, SPAA 2011) and PSimStack-x (OPODIS 2017). Changed: nodes are reused
//            without reading the head for each (detail/psim_nodes.hpp). Operations are not sorted; a pop that follows a
//            push of the same execution takes its item, and the executing thread keeps the node.
#pragma once

#include <muster/combine/detail/psim_nodes.hpp>  // psim_store
#include <muster/combine/options.hpp>            // combine_options
#include <muster/combine/psim.hpp>               // psim

#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint64_t
#include <optional>  // the result of pop
#include <utility>   // std::forward

namespace muster::inline MUSTER_ABI {

template <class T>
class psim_stack {
 public:
  using value_type = T;

  /// An empty stack. Throws std::invalid_argument, as the constructor of psim.
  explicit psim_stack(const combine_options& options = {}, const psim_options& more = {})
      : nodes_(detail::checked_psim_threads(options), more.chain), top_(options, more) {}
  /// Destroys the remaining items. Waits for operations that have taken effect but not yet returned.
  ~psim_stack();
  psim_stack(const psim_stack&) = delete;
  psim_stack& operator=(const psim_stack&) = delete;

  /// Puts an item on top. Wait-free.
  void push(T item) { emplace(std::move(item)); }
  /// Puts an item on top that is constructed from `args`. Wait-free.
  template <class... Args>
  void emplace(Args&&... args);
  /// Removes and returns the item on top, if any. Wait-free.
  std::optional<T> pop();

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const;

 private:
  using as_item = detail::psim_item<T>;
  using node = detail::psim_node;
  using workspace = detail::psim_taking;

  struct top {
    node* first = nullptr;
  };
  struct pushing;
  struct popping;

  detail::psim_store& own_nodes();
  template <class Visit>
  void for_each(Visit visit) const;

  detail::psim_nodes nodes_;
  psim<top, workspace> top_;
};

template <class T>
struct psim_stack<T>::pushing {
  std::uint64_t item;
  /// Returns false if there is no memory.
  bool operator()(top& stack, workspace& mine) const noexcept {
    node* const added = mine.nodes->take();
    if (added == nullptr) return false;
    added->item.store(item, std::memory_order_relaxed);
    // (1) release: pairs with (2). Any thread that ever reads a node's address in another node sees a constructed node.
    added->link.store(detail::word_of(stack.first), std::memory_order_release);
    stack.first = added;
    return true;
  }
};

template <class T>
struct psim_stack<T>::popping {
  detail::psim_popped operator()(top& stack, workspace& mine) const noexcept {
    node* const old = stack.first;
    if (old == nullptr) return {0, detail::psim_popped::nothing};
    const std::uint64_t item = old->item.load(std::memory_order_relaxed);
    // (2) acquire: pairs with (1).
    stack.first = detail::node_of(old->link.load(std::memory_order_acquire));
    if (old != mine.nodes->last_taken()) return {item, detail::word_of(old)};
    mine.nodes->put_back();
    return {item, detail::psim_popped::no_node};
  }
};

template <class T>
psim_stack<T>::~psim_stack() {
  nodes_.await_idle();
  if constexpr (!as_item::in_place) for_each([](std::uint64_t word) { as_item::drop(word); });
}

template <class T>
void psim_stack<T>::check() const {
  top_.check();
  std::size_t items = 0;
  for_each([&](std::uint64_t) { ++items; });
  nodes_.check(items);
}

/// Call only while no thread is inside an operation.
template <class T>
template <class Visit>
void psim_stack<T>::for_each(Visit visit) const {
  const std::optional<top> now = top_.try_load();  // present, as no thread changes it
  const node* at = now ? now->first : nullptr;
  while (at != nullptr) {
    const std::uint64_t word = at->item.load(std::memory_order_relaxed);
    at = detail::node_of(at->link.load(std::memory_order_relaxed));
    visit(word);
  }
}

template <class T>
detail::psim_store& psim_stack<T>::own_nodes() {
  detail::psim_store& own = nodes_.own();
  top_.workspace().nodes = &own;
  return own;
}

template <class T>
template <class... Args>
void psim_stack<T>::emplace(Args&&... args) {
  const detail::stay here(own_nodes());
  as_item::push([this](std::uint64_t word) { return top_.apply(pushing{word}); }, std::forward<Args>(args)...);
}

template <class T>
std::optional<T> psim_stack<T>::pop() {
  detail::psim_store& own = own_nodes();
  const detail::stay here(own);
  const detail::psim_popped popped = top_.apply(popping{});
  if (popped.node == detail::psim_popped::nothing) return std::nullopt;
  if (popped.node != detail::psim_popped::no_node) own.give(detail::node_of(popped.node));
  return as_item::take(popped.item);
}

}  // namespace muster::inline MUSTER_ABI
