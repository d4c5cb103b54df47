// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// clh.hpp: an object behind the lock of Craig and of Magnusson, Landin and Hagersten (clh_lock.hpp; locked_object.hpp
// has the contract).
//
// Cost       alone, one exchange. Under contention the object moves to another core with each operation.
#pragma once

#include "clh_lock.hpp"
#include "locked_object.hpp"

#include <muster/base/wait.hpp>  // wait::park

namespace muster::bench::inline MUSTER_ABI {

template <class Wait>
class clh_entry {
 public:
  using node = clh_node;
  using group = typename detail::thread_nodes<node>::group;

  MUSTER_HOT node* enter(group& mine, detail::waiting<Wait>& waiting) {
    node* const own = mine.take();
    node* const before = lock_.enter(own);
    if (!clh_lock::has_left(before)) [[unlikely]]
      await_turn(before, waiting);
    mine.give_back(before);
    return own;
  }
  MUSTER_HOT void leave(node* own, group&, detail::waiting<Wait>& waiting) noexcept {
    const std::uint32_t key = own->key;
    const auto events = waiting.lasting_events();
    clh_lock::leave(own);
    events.notify(key);
  }
  bool is_free() const noexcept { return lock_.is_free(); }

 private:
  MUSTER_COLD static void await_turn(const node* before, detail::waiting<Wait>& waiting) {
    waiting.await(before->key, [&] { return clh_lock::has_left(before); });
  }

  node first_{0};
  clh_lock lock_{&first_};
};

template <class State, class Wait = wait::spin_then_park>
using clh = locked_object<State, Wait, clh_entry>;

}  // namespace muster::bench::inline MUSTER_ABI
