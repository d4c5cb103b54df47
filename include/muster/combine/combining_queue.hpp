// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combining_queue.hpp: an unbounded FIFO queue for any number of threads, built on any combining object.
//
// Order      linearizable FIFO.
// Progress   that of the combining object. There are two of them, so pushes and pops do not wait for each other.
// Memory     eight bytes per item, in segments of four kilobytes; one empty segment is kept. Items that are larger or
//            not trivially copyable are boxed; each thread keeps up to 1024 boxes for reuse.
// Cost       push, pop: one apply each, which moves a word: O(1). One allocation for a segment of 480 items, unless the
//            spare one is there, and one for a boxed item, unless the thread keeps a box.
// Errors     push throws exceptions from T's constructor, std::bad_alloc, and exceptions from the object's apply; the
//            queue is then unchanged. If moving T throws in pop, the exception reaches the caller and the item is lost.
// Use it     where many fibers push and pop (combining_queue<T, osci> is the paper's OsciQueue). For threads without
//            fibers, mpmc_queue is faster, bounded, and supports waiting.
// Source     the two-lock queue of Michael and Scott, PODC 1996, with a combining object in place of each lock
//            (Fatourou and Kallimanis, PPoPP 2012 and OPODIS 2017). Changed: items travel with the requests and are
//            adjacent in segments. Eight of them move from combiner to combiner at once, and only combiners touch them.
#pragma once

#include <muster/base/arch.hpp>                   // isolation_size
#include <muster/base/sync.hpp>                   // sync::atomic, sync::cell
#include <muster/combine/detail/boxed_items.hpp>  // item_words
#include <muster/combine/options.hpp>             // combine_options
#include <muster/combine/osci.hpp>                // the default

#include <cstddef>   // std::size_t
#include <cstdint>   // std::uint64_t
#include <memory>    // std::unique_ptr
#include <optional>  // the result of pop
#include <utility>   // std::exchange

namespace muster::inline MUSTER_ABI {

/// `Segment`: items per segment.
template <class T, template <class...> class Combining = osci, std::size_t Segment = 480>
class combining_queue {
 public:
  using value_type = T;

  /// An empty queue on two combining objects with these options. Throws what their constructors throw.
  explicit combining_queue(const combine_options& options = {}) : combining_queue(options, nullptr) {}
  /// Destroys the remaining items. Waits for operations that have taken effect but not yet returned.
  ~combining_queue();
  combining_queue(const combining_queue&) = delete;
  combining_queue& operator=(const combining_queue&) = delete;

  /// Appends an item.
  MUSTER_HOT void push(T item) { emplace(std::move(item)); }
  /// Appends an item that is constructed from `args`.
  template <class... Args>
  MUSTER_HOT void emplace(Args&&... args);
  /// Removes and returns the first item, if any.
  MUSTER_HOT std::optional<T> pop();

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const;

 private:
  using word = std::uint64_t;

  struct segment {
    // Written by the pushing combiner, read by the popping one.
    alignas(isolation_size) sync::atomic<std::size_t> filled{0};  // only grows, except before the segment is reused
    sync::atomic<segment*> next{nullptr};                         // set when the segment is full
    alignas(isolation_size) sync::cell<word> words[Segment];      // the first `filled` are items or were
  };
  /// An emptied segment, for the next that is needed.
  struct spare_segment {
    sync::atomic<segment*> kept{nullptr};
    ~spare_segment() { delete kept.load(std::memory_order_relaxed); }
  };

  struct push_end {
    segment* last;
    std::size_t used = 0;  // words of `last` in use
    spare_segment* spare;
    push_end(segment* first, spare_segment* kept) noexcept : last(first), spare(kept) {}
    struct pushing;
    MUSTER_COLD void add_segment();
  };
  /// Owns all segments. Its end destroys the remaining items, when the pushing end is no more.
  struct pop_end {
    segment* first;
    std::size_t taken = 0;   // of `first`
    std::size_t filled = 0;  // a lower bound
    spare_segment* spare;
    /// Makes the first segment, and stores its address in `made`.
    pop_end(segment*& made, spare_segment* kept) : first(new segment), spare(kept) { made = first; }
    ~pop_end();
    pop_end(const pop_end&) = delete;
    pop_end& operator=(const pop_end&) = delete;
    struct popping;
    MUSTER_COLD bool look() noexcept;
  };

  // The states are constructed in place, and no operation is applied: the constructing thread may never be a user.
  combining_queue(const combine_options& options, segment* first)
      : words_(options.threads), pops_(options, first, &spare_), pushes_(options, first, &spare_) {}

  [[no_unique_address]] detail::item_words<T> words_;
  alignas(isolation_size) spare_segment spare_;
  Combining<pop_end> pops_;
  Combining<push_end> pushes_;  // ends first
};

template <class T, template <class...> class Combining, std::size_t Segment>
void combining_queue<T, Combining, Segment>::push_end::add_segment() {
  // (5) acquire: pairs with (6). The popping combiner that emptied it has read all of it.
  std::unique_ptr<segment> added(spare->kept.exchange(nullptr, std::memory_order_acquire));
  if (added == nullptr) added = std::make_unique<segment>();
  // Relaxed: (3) makes them visible.
  added->filled.store(0, std::memory_order_relaxed);
  added->next.store(nullptr, std::memory_order_relaxed);
  // (3) release: pairs with (4).
  last->next.store(added.get(), std::memory_order_release);
  last = added.release();
  used = 0;
}

template <class T, template <class...> class Combining, std::size_t Segment>
struct combining_queue<T, Combining, Segment>::push_end::pushing {
  word item;
  void operator()(push_end& end) const {
    if (end.used == Segment) [[unlikely]]
      end.add_segment();
    end.last->words[end.used].write_ref() = item;
    // (1) release: pairs with (2). A pop that sees the count sees the items.
    end.last->filled.store(++end.used, std::memory_order_release);
  }
};

/// Returns false if there is no item.
template <class T, template <class...> class Combining, std::size_t Segment>
bool combining_queue<T, Combining, Segment>::pop_end::look() noexcept {
  if (taken == Segment) {
    // (4) acquire: pairs with (3). The next segment is empty, or holds only items added since.
    segment* const next = first->next.load(std::memory_order_acquire);
    if (next == nullptr) return false;
    // (6) release: pairs with (5). A spare that is already there was stored by this end.
    delete spare->kept.exchange(std::exchange(first, next), std::memory_order_release);
    taken = 0;
  }
  // (2) acquire: pairs with (1).
  filled = first->filled.load(std::memory_order_acquire);
  return taken != filled;
}

template <class T, template <class...> class Combining, std::size_t Segment>
struct combining_queue<T, Combining, Segment>::pop_end::popping {
  std::optional<word> operator()(pop_end& end) const noexcept {
    if (end.taken == end.filled && !end.look()) return std::nullopt;
    return end.first->words[end.taken++].read_ref();
  }
};

template <class T, template <class...> class Combining, std::size_t Segment>
combining_queue<T, Combining, Segment>::pop_end::~pop_end() {
  while (first != nullptr) {
    if constexpr (!detail::item_words<T>::in_place) {
      // Relaxed: all pushes have ended.
      const std::size_t end = first->filled.load(std::memory_order_relaxed);
      for (; taken != end; ++taken) detail::item_words<T>::drop(first->words[taken].read_ref());
      taken = 0;
    }
    delete std::exchange(first, first->next.load(std::memory_order_relaxed));
  }
}

template <class T, template <class...> class Combining, std::size_t Segment>
combining_queue<T, Combining, Segment>::~combining_queue() {
  words_.await_idle();
  detail::object_end::await_free(pushes_);  // a popped item does not imply that its push has left the other end
}

template <class T, template <class...> class Combining, std::size_t Segment>
void combining_queue<T, Combining, Segment>::check() const {
  pushes_.check();
  pops_.check();
}

template <class T, template <class...> class Combining, std::size_t Segment>
template <class... Args>
void combining_queue<T, Combining, Segment>::emplace(Args&&... args) {
  [[maybe_unused]] const auto used = words_.in_use();
  words_.send([this](word item) { pushes_.apply(typename push_end::pushing{item}); }, std::forward<Args>(args)...);
}

template <class T, template <class...> class Combining, std::size_t Segment>
std::optional<T> combining_queue<T, Combining, Segment>::pop() {
  [[maybe_unused]] const auto used = words_.in_use();
  const std::optional<word> item = pops_.apply(typename pop_end::popping{});
  if (!item) return std::nullopt;
  return std::optional<T>(words_.receive(*item));
}

}  // namespace muster::inline MUSTER_ABI
