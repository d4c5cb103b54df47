// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_stack.hpp: unbounded LIFO stack for any number of threads, none of which can stop the others.
//
// Order      linearizable LIFO.
// Progress   wait-free, as psim, but for the allocation of memory: of `psim_options::chain` nodes when there are none
//            that are free, and of a box for an item that needs one. Looking for free nodes takes a step for each of
//            `threads`, once for a chain.
// Killed     as stopped: nobody waits. An item that has been announced is pushed; one that was being popped is gone.
// Memory     that of psim, and nodes of 32 bytes, which are used again and freed with the stack: as many as there have
//            been items at a time, for each thread those that one execution of all that is announced takes, and three
//            chains. (A thread that is about to take others' free nodes hides them for a moment; whoever finds none
//            then makes a chain.)
// Errors     push throws what T's constructor throws, std::bad_alloc, also when the thread that has executed it has
//            found no memory for a node, and std::length_error when more threads come than configured; then the stack
//            is as it was. A T whose move throws in pop reaches the caller of pop, and that item is gone.
//            std::invalid_argument from the constructor.
// Use it     where a thread may be stopped at any point and the others must go on. Else combining_stack needs less
//            memory.
// Items      that are trivially copyable and of eight bytes at most lie in the nodes; others in boxes of their own.
// Source     SimStack (Fatourou and Kallimanis, SPAA 2011) and PSimStack-x (OPODIS 2017). Changed: nodes are used
//            again, and nobody looks at the head for each of them (detail/psim_nodes.hpp). Operations are not sorted; a
//            pop that follows a push of the same execution takes its item, and the node stays with whoever executes.
#pragma once

#include <muster/combine/detail/psim_nodes.hpp>  // psim_store
#include <muster/combine/options.hpp>            // combine_options
#include <muster/combine/psim.hpp>               // psim

#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint64_t
#include <optional>  // what pop returns
#include <utility>   // std::forward

namespace muster::inline MUSTER_ABI {

template <class T>
class psim_stack {
 public:
  using value_type = T;

  explicit psim_stack(const combine_options& options = {}, const psim_options& more = {})
      : nodes_(options.threads, more.chain), top_(options, more) {}
  /// Destroys the items left. Waits for operations that have had their effect and have not returned yet.
  ~psim_stack();
  psim_stack(const psim_stack&) = delete;
  psim_stack& operator=(const psim_stack&) = delete;

  /// Puts an item on top. Wait-free.
  void push(T item) { emplace(std::move(item)); }
  template <class... Args>
  void emplace(Args&&... args);
  /// Takes the item on top, if there is one. Wait-free.
  std::optional<T> pop();

  /// Asserts the invariants. Only while no thread is inside an operation.
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
    // (1) release: pairs with (2). Who finds the address of a node in another, at any time, finds a node there.
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

/// Only while no thread is inside an operation.
template <class T>
template <class Visit>
void psim_stack<T>::for_each(Visit visit) const {
  const std::optional<top> now = top_.try_load();  // there, as nobody changes it
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
