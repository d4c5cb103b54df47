// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// cc_synch.hpp: a combining object (detail/combining_object.hpp has the contract). Requests form a list, and one of the
// threads serves them.
//
// Progress   blocking. A thread that stops while it executes operations blocks all others; elsewhere it blocks at most
//            the threads behind it in the list.
// Fairness   first come, first served: an operation waits for all announced before it.
// Memory     two line pairs per node.
// Cost       apply: O(1) besides the operation, and one exchange by each caller, contended or not; the combiner adds
//            loads and stores. Waking and waiting: see base/wait.hpp.
// Use it     for a small object that many threads share, without fibers; with fibers osci is faster. Uncontended, an
//            operation costs one exchange.
// Source     Fatourou and Kallimanis, "Revisiting the Combining Synchronization Technique", PPoPP 2012, CC-Synch.
//            Changed: the combiner returns the result of its own operation directly to its caller.
#pragma once

#include <muster/base/wait.hpp>                        // wait::spin_then_park
#include <muster/combine/detail/combining_object.hpp>  // combining_object
#include <muster/combine/detail/request_list.hpp>      // request_list

#include <utility>  // std::forward

namespace muster::inline MUSTER_ABI {

namespace detail {

template <class State, class Wait>
class cc_synch_technique {
  using list = request_list<State, Wait>;

 public:
  using node = typename list::node;
  using group = typename thread_nodes<node>::group;
  struct turn {
    node* own;
    node* spare;  // the last node of the list, with no request announced in it
  };

  template <class... Args>
  explicit cc_synch_technique(unsigned help, Args&&... args)
      : list_(help, false, &first_, std::forward<Args>(args)...) {}

  MUSTER_HOT turn announce(group& mine) {
    node* const spare = mine.take();
    node* const own = list_.announce(spare, mine.habits);
    if (list_.look(own) != list::yours) [[unlikely]]
      return {own, spare};
    mine.give_back(own);
    return {nullptr, spare};
  }
  MUSTER_COLD bool served(turn now, group& mine) {
    if (list_.served(now.own, now.spare, mine.habits)) return true;
    mine.give_back(now.own);
    return false;
  }
  template <class Call>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, const turn& now, thread_part& mine) {
    return list_.run_and_serve(call, now.spare, mine);
  }

  static request<State>& request_in(node& own) noexcept { return own.in_node[0].write_ref(); }
  MUSTER_HOT void refuse_nested() const { list_.refuse_nested(); }
  bool is_executing() const noexcept { return list_.is_executing(); }
  void await_free() const noexcept { list_.await_free(); }
  bool quiescent() const noexcept { return list_.quiescent(); }

 private:
  node first_{0, list::yours};
  list list_;
};

}  // namespace detail

template <class State, class Wait = wait::spin_then_park>
class cc_synch : public detail::combining_object<State, detail::cc_synch_technique<State, Wait>> {
 public:
  using detail::combining_object<State, detail::cc_synch_technique<State, Wait>>::combining_object;
};

}  // namespace muster::inline MUSTER_ABI
