// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// boxed_items.hpp: how an item travels in eight bytes: by value, or as the address of a box that holds it.
//
// A box belongs to the operation that has its word. The thread that empties a box reuses it.
#pragma once

#include <muster/base/detail/manual_lifetime.hpp>  // manual_lifetime
#include <muster/base/sync.hpp>                    // sync::cell
#include <muster/combine/detail/per_thread.hpp>    // per_thread
#include <muster/combine/detail/words.hpp>         // as_word, value_in

#include <bit>          // std::bit_cast
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <memory>       // std::unique_ptr
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::forward
#include <vector>       // the boxes that a thread keeps

namespace muster::inline MUSTER_ABI::detail {

/// Nodes that the threads of an object take and give back, each with its own store. A thread that gives back more than
/// it takes frees nodes beyond `most_kept`; the rest are freed with the object.
template <class Node>
class node_pool {
 public:
  explicit node_pool(unsigned threads) : stores_(threads) {}

  /// Throws std::bad_alloc, and std::length_error if there are more threads than configured.
  std::unique_ptr<Node> take() {
    std::vector<std::unique_ptr<Node>>& own = own_store().all;
    if (own.empty()) return std::make_unique<Node>();
    std::unique_ptr<Node> node = std::move(own.back());
    own.pop_back();
    return node;
  }
  void give_back(std::unique_ptr<Node> node) {
    std::vector<std::unique_ptr<Node>>& own = own_store().all;
    if (own.size() < most_kept) own.push_back(std::move(node));
  }
  /// The calling thread's part, for a stay() that lasts as long as the thread uses nodes.
  thread_part& own_part() { return own_store(); }
  /// For the destructor: waits until no thread is inside an operation.
  void await_idle() const noexcept { stores_.await_idle(); }

 private:
  struct store : thread_part {
    std::vector<std::unique_ptr<Node>> all;
  };
  static constexpr std::size_t most_kept = 1024;

  store& own_store() {
    return stores_.own([](unsigned) {
      auto made = std::make_unique<store>();
      made->all.reserve(most_kept);
      return made.release();
    });
  }

  per_thread<store> stores_;
};

template <class T>
class item_words {
  struct box {
    sync::cell<manual_lifetime<T>> item;
  };

 public:
  using word = std::uint64_t;
  static constexpr bool in_place = std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(word);

  explicit item_words(unsigned threads) : boxes_(threads) {}

  /// Keeps the object alive while it exists. Created before an operation begins and destroyed after it.
  auto in_use() {
    if constexpr (in_place) {
      return nothing_to_keep();
    } else {
      return stay(boxes_.own_part());
    }
  }
  /// For the destructor: waits until no thread is inside an operation.
  void await_idle() const noexcept {
    if constexpr (!in_place) boxes_.await_idle();
  }

  /// Constructs T(args...) and calls send(word). If that throws, the item is destroyed.
  template <class Send, class... Args>
  MUSTER_HOT void send(Send send, Args&&... args) {
    if constexpr (in_place) {
      manual_lifetime<T> item;
      item.construct(std::forward<Args>(args)...);
      send(as_word(item.value));
    } else {
      std::unique_ptr<box> made = boxes_.take();
      made->item.write_ref().construct(std::forward<Args>(args)...);
      try {
        send(std::bit_cast<word>(made.get()));
      } catch (...) {
        made->item.write_ref().destroy();
        throw;
      }
      static_cast<void>(made.release());
    }
  }

  /// Destroys the item of a word that the caller owns. No thread uses the boxes any more.
  static void drop(word bits) noexcept
    requires(!in_place)
  {
    const std::unique_ptr<box> last(std::bit_cast<box*>(bits));
    last->item.write_ref().destroy();
  }
  /// Returns the item of a word that the caller owns. Empties the box even if the item's move throws.
  MUSTER_HOT T receive(word bits) {
    if constexpr (in_place) {
      return value_in<T>(&bits);
    } else {
      struct opened {
        item_words& words;
        std::unique_ptr<box> from;
        ~opened() {
          from->item.write_ref().destroy();
          words.boxes_.give_back(std::move(from));
        }
      };
      const opened last{*this, std::unique_ptr<box>(std::bit_cast<box*>(bits))};
      return std::move(last.from->item.write_ref().value);
    }
  }

 private:
  struct nothing_to_keep {};
  struct no_boxes {
    explicit no_boxes(unsigned) {}
  };
  [[no_unique_address]] std::conditional_t<in_place, no_boxes, node_pool<box>> boxes_;
};

}  // namespace muster::inline MUSTER_ABI::detail
