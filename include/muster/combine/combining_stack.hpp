// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combining_stack.hpp: an unbounded LIFO stack for any number of threads, built on any combining object.
//
// Order      linearizable LIFO.
// Progress   that of the combining object.
// Memory     eight bytes per item, in blocks of four kilobytes; one empty block is kept. Items that are larger or not
//            trivially copyable are boxed; each thread keeps up to 1024 boxes for reuse.
// Cost       push, pop: one apply each, which moves a word: O(1); elimination takes one step for each request of a
//            batch. One allocation for a block of 510 items, unless the spare one is there, and one for a boxed item,
//            unless the thread keeps a box.
// Errors     push throws exceptions from T's constructor, std::bad_alloc, and exceptions from the object's apply; the
//            stack is then unchanged. If moving T throws in pop, the exception reaches the caller and the item is lost.
// Use it     where many fibers push and pop (combining_stack<T, osci> is the paper's OsciStack): for free lists, and
//            for work best done while it is in the cache.
// Source     Fatourou and Kallimanis, PPoPP 2012 and OPODIS 2017. Changed: items travel with the requests and are
//            adjacent, so no thread follows links and only the combiner touches the stack. Pushes and pops that travel
//            together answer each other before they reach it (elimination: Hendler, Shavit, Yerushalmi, SPAA 2004).
#pragma once

#include <muster/combine/batch.hpp>               // outgoing_batch
#include <muster/combine/detail/boxed_items.hpp>  // item_words
#include <muster/combine/options.hpp>             // combine_options
#include <muster/combine/osci.hpp>                // the default

#include <cstdint>   // std::uint64_t
#include <memory>    // std::unique_ptr
#include <optional>  // the result of pop
#include <span>      // notes
#include <utility>   // std::exchange

namespace muster::inline MUSTER_ABI {

template <class T, template <class...> class Combining = osci>
class combining_stack {
 public:
  using value_type = T;

  /// An empty stack on a combining object with these options. Throws what its constructor throws.
  explicit combining_stack(const combine_options& options = {}) : words_(options.threads), top_(options) {}
  /// Destroys the remaining items. Waits for operations that have taken effect but not yet returned.
  ~combining_stack() { words_.await_idle(); }
  combining_stack(const combining_stack&) = delete;
  combining_stack& operator=(const combining_stack&) = delete;

  /// Puts an item on top.
  MUSTER_HOT void push(T item) { emplace(std::move(item)); }
  /// Puts an item on top that is constructed from `args`.
  template <class... Args>
  MUSTER_HOT void emplace(Args&&... args);
  /// Removes and returns the item on top, if any.
  MUSTER_HOT std::optional<T> pop();

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const { top_.check(); }

 private:
  using word = std::uint64_t;

  /// Blocks of words, the topmost first. Its end destroys the remaining items.
  struct top {
    static constexpr unsigned in_block = 510;
    struct block {
      std::unique_ptr<block> below;
      word words[in_block];
    };

    std::unique_ptr<block> last;
    std::unique_ptr<block> spare;
    unsigned used = in_block;  // words of `last`

    top() = default;
    ~top();
    top(const top&) = delete;
    top& operator=(const top&) = delete;
    MUSTER_COLD void add_block();
    MUSTER_COLD bool drop_block() noexcept;

    struct pushing;
    struct popping;
    static void eliminate(outgoing_batch<top> all, std::span<std::uint32_t> notes) noexcept;
  };

  [[no_unique_address]] detail::item_words<T> words_;
  Combining<top> top_;
};

template <class T, template <class...> class Combining>
combining_stack<T, Combining>::top::~top() {
  while (last != nullptr) {
    if constexpr (!detail::item_words<T>::in_place) {
      while (used != 0) detail::item_words<T>::drop(last->words[--used]);
      used = in_block;
    }
    last = std::move(last->below);  // iteratively, not by recursion
  }
}

template <class T, template <class...> class Combining>
void combining_stack<T, Combining>::top::add_block() {
  std::unique_ptr<block> added = spare != nullptr ? std::move(spare) : std::make_unique_for_overwrite<block>();
  added->below = std::exchange(last, nullptr);
  last = std::move(added);
  used = 0;
}

/// Returns false if the stack is empty.
template <class T, template <class...> class Combining>
bool combining_stack<T, Combining>::top::drop_block() noexcept {
  if (last == nullptr || last->below == nullptr) return false;
  spare = std::exchange(last, std::move(last->below));
  used = in_block;
  return true;
}

template <class T, template <class...> class Combining>
struct combining_stack<T, Combining>::top::pushing {
  word item;
  void operator()(top& stack) const {
    if (stack.used == in_block) [[unlikely]]
      stack.add_block();
    stack.last->words[stack.used++] = item;
  }
};

template <class T, template <class...> class Combining>
struct combining_stack<T, Combining>::top::popping {
  std::optional<word> operator()(top& stack) const noexcept {
    if (stack.used == 0 || stack.last == nullptr) [[unlikely]]
      if (!stack.drop_block()) return std::nullopt;
    return stack.last->words[--stack.used];
  }
};

/// A pop gets the item of the last push before it that no other pop has taken.
template <class T, template <class...> class Combining>
void combining_stack<T, Combining>::top::eliminate(outgoing_batch<top> all, std::span<std::uint32_t> notes) noexcept {
  constexpr std::uint32_t none = all.eliminated - 1;
  std::uint32_t last = none;  // the last push not yet matched; its note names the one before it
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].template is<pushing>()) {
      notes[i] = std::exchange(last, i);
    } else if (last == none || !all[i].template is<popping>()) {
      notes[i] = last = none;
    } else {
      const std::uint32_t met = std::exchange(last, notes[last]);
      all[i].template result<popping>(all[met].template function<pushing>().item);
      notes[i] = notes[met] = all.eliminated;
    }
  }
}

template <class T, template <class...> class Combining>
template <class... Args>
void combining_stack<T, Combining>::emplace(Args&&... args) {
  [[maybe_unused]] const auto used = words_.in_use();
  words_.send([this](word item) { top_.apply(typename top::pushing{item}); }, std::forward<Args>(args)...);
}

template <class T, template <class...> class Combining>
std::optional<T> combining_stack<T, Combining>::pop() {
  [[maybe_unused]] const auto used = words_.in_use();
  const std::optional<word> item = top_.apply(typename top::popping{});
  if (!item) return std::nullopt;
  return std::optional<T>(words_.receive(*item));
}

}  // namespace muster::inline MUSTER_ABI
