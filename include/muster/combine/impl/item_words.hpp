// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// item_words.hpp: how an item travels in eight bytes: as it is, or as the address of a box that holds it.
//
// A box belongs to whoever has its word. Boxes are used again by the thread that has emptied them.
#pragma once

#include <muster/base/slot.hpp>               // slot
#include <muster/base/sync.hpp>               // sync::cell
#include <muster/combine/impl/node_pool.hpp>  // node_pool

#include <bit>          // std::bit_cast
#include <cstdint>      // std::uint64_t
#include <cstring>      // std::memcpy
#include <memory>       // std::unique_ptr
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI::detail {

template <class T>
class item_words {
  struct box {
    sync::cell<slot<T>> item;
  };

 public:
  using word = std::uint64_t;
  static constexpr bool in_place = std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(word);

  explicit item_words(unsigned threads) : boxes_(threads) {}

  /// As long as this lives, so does the object. Made before an operation begins, and destroyed after it.
  auto in_use() {
    if constexpr (in_place) {
      return nothing_to_keep();
    } else {
      return stay(boxes_.own_part());
    }
  }
  /// For the destructor: returns when no thread is in the middle of an operation.
  void await_idle() const noexcept {
    if constexpr (!in_place) boxes_.await_idle();
  }

  /// Makes T(args...) and calls send(word). When that throws, the item ends here.
  template <class Send, class... Args>
  MUSTER_HOT void send(Send send, Args&&... args) {
    if constexpr (in_place) {
      slot<T> item;
      item.construct(std::forward<Args>(args)...);
      word bits = 0;
      if constexpr (!std::is_empty_v<T>)
        std::memcpy(&bits, static_cast<const void*>(std::addressof(item.value)), sizeof(T));
      send(bits);
    } else {
      std::unique_ptr<box> made = boxes_.take();
      made->item.ref().construct(std::forward<Args>(args)...);
      try {
        send(std::bit_cast<word>(made.get()));
      } catch (...) {
        made->item.ref().destroy();
        throw;
      }
      static_cast<void>(made.release());
    }
  }

  /// The item of a word that nobody else has. However its move ends, the box is empty then.
  MUSTER_HOT T receive(word bits) {
    if constexpr (in_place) {
      slot<T> item;
      std::memcpy(static_cast<void*>(std::addressof(item.value)), &bits, sizeof(T));
      return item.value;
    } else {
      struct opened {
        item_words& words;
        std::unique_ptr<box> from;
        ~opened() {
          from->item.ref().destroy();
          words.boxes_.give_back(std::move(from));
        }
      };
      const opened last{*this, std::unique_ptr<box>(std::bit_cast<box*>(bits))};
      return std::move(last.from->item.ref().value);
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
