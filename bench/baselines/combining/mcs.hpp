// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mcs.hpp: an object behind the lock of Mellor-Crummey and Scott (mcs_queue.hpp; locked_object.hpp has the contract).
//
// Cost       alone, an exchange and a compare-exchange.
#pragma once

#include "locked_object.hpp"
#include "mcs_queue.hpp"

#include <muster/base/arch.hpp>  // line_size
#include <muster/base/sync.hpp>  // sync::atomic
#include <muster/base/wait.hpp>  // wait::park

#include <cstdint>  // std::uint32_t

namespace muster::bench::inline MUSTER_ABI {

template <class Wait>
class mcs_entry {
  enum : std::uint32_t {
    waiting_for_turn,
    yours,  // its owner has the object
  };

 public:
  struct alignas(2 * line_size) node {
    explicit node(std::uint32_t key_in) : key(key_in) {}
    sync::atomic<node*> next{nullptr};
    sync::atomic<std::uint32_t> state{yours};
    const std::uint32_t key;  // of the owner, who waits
  };
  using group = typename detail::thread_nodes<node>::group;

  MUSTER_HOT node* enter(group& mine, detail::waiting<Wait>& waiting) {
    node* const own = mine.take();
    own->state.store(waiting_for_turn, std::memory_order_relaxed);
    node* const before = queue_.append(own);
    if (before != nullptr) [[unlikely]]
      await_turn(own, before, waiting);
    return own;
  }
  void leave(node* own, group& mine, detail::waiting<Wait>& waiting) {
    mine.give_back(own);
    if (queue_.try_end(own)) return;
    mine.take_again();
    node* const next = queue_.behind(own, waiting);
    mine.give_back(own);
    const std::uint32_t key = next->key;
    const auto events = waiting.lasting_events();
    // (1) release: pairs with (2). The next has the object as we leave it, and may end it.
    next->state.store(yours, std::memory_order_release);
    events.notify(key);
  }
  bool is_free() const noexcept { return queue_.is_empty(); }

 private:
  MUSTER_COLD void await_turn(node* own, node* before, detail::waiting<Wait>& waiting) {
    queue_.link(before, own, waiting);
    // (2) acquire: pairs with (1).
    waiting.await(own->key, [&] { return own->state.load(std::memory_order_acquire) == yours; });
  }

  mcs_queue<node, Wait> queue_;
};

template <class State, class Wait = wait::spin_then_park>
using mcs = locked_object<State, Wait, mcs_entry>;

}  // namespace muster::bench::inline MUSTER_ABI
