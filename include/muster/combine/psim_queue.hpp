// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim_queue.hpp: an unbounded FIFO queue for any number of threads, none of which can block the others.
//
// Order      linearizable FIFO.
// Progress   wait-free, as psim, except for memory allocation: of `psim_options::chain` nodes when no node is free, and
//            of a box for an item that needs one. A search for free nodes takes a step for each of `threads`, once per
//            chain. Pushes and pops touch different memory while there are items.
// Killed     as stopped: no thread waits. An announced item is pushed; an item that was being popped is lost.
// Memory     that of two psim, and nodes of 32 bytes, reused and freed with the queue. There are as many as the most
//            items at a time, plus per thread those of one execution of all announced pushes, and three chains. (A
//            thread that takes others' free nodes hides them for a moment; a thread that finds none then allocates a
//            chain.)
// Cost       push, pop: O(1), and one apply of psim (psim.hpp); a push has one compare-exchange more, which links the
//            item. At most one allocation for every `chain` pushes, after each thread's first; and one for each boxed
//            item.
// Errors     push throws exceptions from T's constructor, and std::bad_alloc, also if the executing thread found no
//            memory for a node. It throws std::length_error if more threads come than configured. The queue is then
//            unchanged. If moving T throws in pop, the exception reaches the caller and the item is lost. The
//            constructor throws std::invalid_argument.
// Use it     where a thread may stop at any point without blocking the others. Otherwise combining_queue needs less
//            memory; mpmc_queue is bounded and supports waiting.
// Items      are stored in the nodes if they are trivially copyable and at most eight bytes; others are boxed.
// Source     SimQueue (Fatourou and Kallimanis, SPAA 2011) and PSimQueue-x (OPODIS 2017). Changed: nodes are reused
//            (detail/psim_nodes.hpp), so the last node holds a number that never recurs instead of null. Pops ignore
//            the state of pushes, because a push does not return before its item is linked.
//
// Executions of pushes chain nodes in private; one of them takes effect. Its list is then to be linked behind the
// previous last node, and the state names both. The executing thread links it. That thread may stop, so the next one to
// execute also links it first, and so do the owners of the items before they return. Pops find items through the links
// alone.
#pragma once

#include <muster/combine/detail/psim_nodes.hpp>  // psim_store
#include <muster/combine/options.hpp>            // combine_options
#include <muster/combine/psim.hpp>               // psim

#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint64_t
#include <memory>    // std::unique_ptr
#include <optional>  // the result of pop
#include <utility>   // std::forward

namespace muster::inline MUSTER_ABI {

template <class T>
class psim_queue {
 public:
  using value_type = T;

  /// An empty queue. Throws std::invalid_argument, as the constructor of psim.
  explicit psim_queue(const combine_options& options = {}, const psim_options& more = {})
      : nodes_(detail::checked_psim_threads(options), more.chain),
        pushes_(options, more, first_.get()),
        pops_(options, more, first_.get()) {
    first_->link.store(first_end, std::memory_order_relaxed);
  }
  /// Destroys the remaining items. Waits for operations that have taken effect but not yet returned.
  ~psim_queue();
  psim_queue(const psim_queue&) = delete;
  psim_queue& operator=(const psim_queue&) = delete;

  /// Appends an item. Wait-free.
  void push(T item) { emplace(std::move(item)); }
  /// Appends an item that is constructed from `args`. Wait-free.
  template <class... Args>
  void emplace(Args&&... args);
  /// Removes and returns the first item, if any. Wait-free.
  std::optional<T> pop();

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const;

 private:
  using as_item = detail::psim_item<T>;
  using node = detail::psim_node;

  // A node's link is another node, or odd in the last node. Each execution that takes effect has its own number, so a
  // reused node is not mistaken for its former self. The number wraps around after 2^63 executions.
  static constexpr std::uint64_t first_end = 1;
  static bool is_end(std::uint64_t link) noexcept { return link % 2 != 0; }

  /// The result of an execution: a list of new nodes, and the place to link it.
  struct push_end {
    explicit push_end(node* only) noexcept : last(only) {}
    node* last;                     // of the list, and of the queue
    std::uint64_t end = first_end;  // its link
    node* list = nullptr;           // null: nothing has been added yet
    node* before = nullptr;         // the previous last node; its link is `end` - 2 until the list is linked
    void link() const noexcept;
  };
  struct pop_end {
    explicit pop_end(node* only) noexcept : first(only) {}
    node* first;  // its item has been popped
  };

  /// Used by executions of pushes; the executing thread links the list.
  struct workspace : detail::psim_taking {
    push_end now{nullptr};  // the state after the last push, if any
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

/// Does nothing if another thread has already linked the list.
template <class T>
void psim_queue<T>::push_end::link() const noexcept {
  std::uint64_t expected = end - 2;
  // Relaxed: if it is already linked, nothing remains to do.
  if (list == nullptr || before->link.load(std::memory_order_relaxed) != expected) return;
  // (1) release: pairs with (3). A thread that sees the list sees the items.
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
    // (2) release: pairs with (3). Any thread that ever reads a node's address in another node sees a constructed node.
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
  MUSTER_CHECK(now && now->end == end,
               "psim_queue: items are not linked, or a thread is inside an operation; join its users first");
  nodes_.check(items);  // the node without an item makes up for first_, which no thread made
}

/// Returns the last link. Call only while no thread is inside an operation.
template <class T>
template <class Visit>
std::uint64_t psim_queue<T>::for_each(Visit visit) const {
  const std::optional<pop_end> now = pops_.try_load();  // present, as no thread changes it
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
  // First, as in pop(): each thread that uses the queue takes its place here before any other, so it gets places
  // everywhere.
  detail::psim_store& nodes = nodes_.own();
  workspace& own = pushes_.workspace();
  own.nodes = &nodes;
  const detail::stay here(*own.nodes);
  const std::uint64_t commits = own.commits;
  const bool done = pushes_.apply(pushing{word});
  // If this thread has had an execution with effect since, it was this push's or a later one. Otherwise another thread
  // executed the push. If the state changes during the look, the changing thread has already linked the item.
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
  detail::psim_store& own = nodes_.own();  // nothing can fail once the item is taken
  const detail::stay here(own);
  const detail::psim_popped popped = pops_.apply(popping{});
  if (popped.node == detail::psim_popped::nothing) return std::nullopt;
  own.give(detail::node_of(popped.node));
  return as_item::take(popped.item);
}

}  // namespace muster::inline MUSTER_ABI
