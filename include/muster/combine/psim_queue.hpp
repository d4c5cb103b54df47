// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_queue.hpp: unbounded FIFO queue for any number of threads, none of which can stop the others.
//
// Order      linearizable FIFO.
// Progress   wait-free, as psim, but for the allocation of memory: of `psim_options::chain` nodes when there are none
//            that are free, and of a box for an item that needs one. Looking for free nodes takes a step for each of
//            `threads`, once for a chain. Pushes and pops do not touch the same memory while there are items.
// Killed     as stopped: nobody waits. An item that has been announced is pushed; one that was being popped is gone.
// Memory     that of two psim, and nodes of 32 bytes, which are used again and freed with the queue: as many as there
//            have been items at a time, for each thread those that one execution of all that is announced takes, and
//            three chains. (A thread that is about to take others' free nodes hides them for a moment; whoever finds
//            none then makes a chain.)
// Errors     push throws what T's constructor throws, std::bad_alloc, also when the thread that has executed it has
//            found no memory for a node, and std::length_error when more threads come than configured; then the queue
//            is as it was. A T whose move throws in pop reaches the caller of pop, and that item is gone.
//            std::invalid_argument from the constructor.
// Use it     where a thread may be stopped at any point and the others must go on. Else combining_queue needs less
//            memory; mpmc_queue is bounded and can be waited for.
// Items      that are trivially copyable and of eight bytes at most lie in the nodes; others in boxes of their own.
// Source     SimQueue (Fatourou and Kallimanis, SPAA 2011) and PSimQueue-x (OPODIS 2017). Changed: nodes are used again
//            (detail/psim_nodes.hpp), for which the last node holds a number that never comes again, and not null. Pops
//            need not look at what pushes do: a push does not return before its item is linked.
//
// Executions of pushes string nodes together where nobody looks; one of them has an effect. Then its list hangs behind
// what was the last node, or is about to: the state says what is to be linked to what. Whoever has executed links it,
// and so do, as that one may have been stopped, whoever executes next, before it does, and the owners of the items,
// before they return. Pops find items by the links alone.
#pragma once

#include <muster/combine/detail/psim_nodes.hpp>  // psim_store
#include <muster/combine/options.hpp>            // combine_options
#include <muster/combine/psim.hpp>               // psim

#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint64_t
#include <memory>    // std::unique_ptr
#include <optional>  // what pop returns
#include <utility>   // std::forward

namespace muster::inline MUSTER_ABI {

template <class T>
class psim_queue {
 public:
  using value_type = T;

  explicit psim_queue(const combine_options& options = {}, const psim_options& more = {})
      : nodes_(options.threads, more.chain), pushes_(options, more, first_.get()), pops_(options, more, first_.get()) {
    first_->link.store(first_end, std::memory_order_relaxed);
  }
  /// Destroys the items left. Waits for operations that have had their effect and have not returned yet.
  ~psim_queue();
  psim_queue(const psim_queue&) = delete;
  psim_queue& operator=(const psim_queue&) = delete;

  /// Puts an item at the end. Wait-free.
  void push(T item) { emplace(std::move(item)); }
  template <class... Args>
  void emplace(Args&&... args);
  /// Takes the first item, if there is one. Wait-free.
  std::optional<T> pop();

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  using as_item = detail::psim_item<T>;
  using node = detail::psim_node;

  // A node's link is another node, or odd: then this is the last one. Each execution that has an effect has a number of
  // its own, so that a node that is used again is not taken for what it was. It wraps around after 2^63 executions.
  static constexpr std::uint64_t first_end = 1;
  static bool is_end(std::uint64_t link) noexcept { return link % 2 != 0; }

  /// What an execution has added: a list of nodes, and where it belongs.
  struct push_end {
    explicit push_end(node* only) noexcept : last(only) {}
    node* last;                     // of the list, and of the queue
    std::uint64_t end = first_end;  // its link
    node* list = nullptr;           // null: nothing has been added ever
    node* before = nullptr;         // what was the last; its link is `end` - 2, as long as it has not got the list
    void link() const noexcept;
  };
  struct pop_end {
    explicit pop_end(node* only) noexcept : first(only) {}
    node* first;  // its item has been popped
  };

  /// What an execution of pushes uses, and who has executed links.
  struct workspace : detail::psim_taking {
    push_end now{nullptr};  // the state after the last push, if there has been one
    std::uint64_t commits = 0;
    void commit() noexcept;
    void abort() noexcept;
  };
  struct pushing;
  struct popping;

  bool push_word(std::uint64_t word);
  template <class Visit>
  std::uint64_t for_each(Visit visit) const;

  const std::unique_ptr<node> first_ = std::make_unique<node>();
  detail::psim_nodes nodes_;
  psim<push_end, workspace> pushes_;
  psim<pop_end> pops_;
};

/// Does nothing if somebody has done it.
template <class T>
void psim_queue<T>::push_end::link() const noexcept {
  std::uint64_t expected = end - 2;
  // Relaxed: who finds that it is done has nothing else to do.
  if (list == nullptr || before->link.load(std::memory_order_relaxed) != expected) return;
  // (1) release: pairs with (3). Who finds the list finds the items.
  before->link.compare_exchange_strong(expected, detail::word_of(list), std::memory_order_release,
                                       std::memory_order_relaxed);
}

template <class T>
struct psim_queue<T>::pushing {
  std::uint64_t item;
  /// Returns false if there is no memory.
  bool operator()(push_end& at, workspace& mine) const noexcept {
    const bool is_first = mine.now.last == nullptr;  // of this execution
    if (is_first) at.link();
    node* const added = mine.nodes->take();
    if (added == nullptr) return false;
    if (is_first) {
      at.before = at.last;
      at.list = added;
      at.end += 2;
    }
    added->item.store(item, std::memory_order_relaxed);
    added->link.store(at.end, std::memory_order_relaxed);
    // (2) release: pairs with (3). Who finds the address of a node in another, at any time, finds a node there.
    if (!is_first) at.last->link.store(detail::word_of(added), std::memory_order_release);
    at.last = added;
    mine.now = at;
    return true;
  }
};

template <class T>
void psim_queue<T>::workspace::commit() noexcept {
  nodes->commit();
  std::exchange(now, push_end(nullptr)).link();
  ++commits;
}

template <class T>
void psim_queue<T>::workspace::abort() noexcept {
  nodes->abort();
  now = push_end(nullptr);
}

template <class T>
struct psim_queue<T>::popping {
  detail::psim_popped operator()(pop_end& at) const noexcept {
    node* const old = at.first;
    // (3) acquire: pairs with (1, 2).
    const std::uint64_t link = old->link.load(std::memory_order_acquire);
    if (is_end(link)) return {0, detail::psim_popped::nothing};
    at.first = detail::node_of(link);
    return {at.first->item.load(std::memory_order_relaxed), detail::word_of(old)};
  }
};

template <class T>
psim_queue<T>::~psim_queue() {
  nodes_.await_idle();
  if constexpr (!as_item::in_place) for_each([](std::uint64_t word) { as_item::drop(word); });
}

template <class T>
void psim_queue<T>::check() const {
  pushes_.check();
  pops_.check();
  std::size_t items = 0;
  const std::uint64_t end = for_each([&](std::uint64_t) { ++items; });
  const std::optional<push_end> now = pushes_.try_load();
  MUSTER_CHECK(now && now->end == end, "psim_queue: items are not linked, or a thread is inside an operation");
  nodes_.check(items);  // and one that has no item, for the one that no thread has made
}

/// Returns the last link. Only while no thread is inside an operation.
template <class T>
template <class Visit>
std::uint64_t psim_queue<T>::for_each(Visit visit) const {
  const std::optional<pop_end> now = pops_.try_load();  // there, as nobody changes it
  std::uint64_t link = now ? now->first->link.load(std::memory_order_relaxed) : first_end;
  while (!is_end(link)) {
    const node* const at = detail::node_of(link);
    visit(at->item.load(std::memory_order_relaxed));
    link = at->link.load(std::memory_order_relaxed);
  }
  return link;
}

template <class T>
bool psim_queue<T>::push_word(std::uint64_t word) {
  // First of all, as in pop(): so those who have a place there are those who use the queue, and have places everywhere.
  detail::psim_store& nodes = nodes_.own();
  workspace& own = pushes_.workspace();
  own.nodes = &nodes;
  const detail::stay here(*own.nodes);
  const std::uint64_t commits = own.commits;
  const bool done = pushes_.apply(pushing{word});
  // If this thread has had an execution with an effect since, it was ours, or one after it. Otherwise somebody else has
  // executed our push. If the state changes while we look, whoever changes it has linked our item before.
  if (own.commits == commits)
    if (const std::optional<push_end> now = pushes_.try_load(); now) now->link();
  return done;
}

template <class T>
template <class... Args>
void psim_queue<T>::emplace(Args&&... args) {
  as_item::push([this](std::uint64_t word) { return push_word(word); }, std::forward<Args>(args)...);
}

template <class T>
std::optional<T> psim_queue<T>::pop() {
  detail::psim_store& own = nodes_.own();  // nothing can fail once the item is ours
  const detail::stay here(own);
  const detail::psim_popped popped = pops_.apply(popping{});
  if (popped.node == detail::psim_popped::nothing) return std::nullopt;
  own.give(detail::node_of(popped.node));
  return as_item::take(popped.item);
}

}  // namespace muster::inline MUSTER_ABI
