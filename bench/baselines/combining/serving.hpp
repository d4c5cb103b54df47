// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// serving.hpp: the common part of dsm_synch, h_synch and oyama, which are techniques of combining_object
// (muster/combine/detail/combining_object.hpp).
#pragma once

#include <muster/base/arch.hpp>                        // isolation_size
#include <muster/base/detail/reentrancy.hpp>           // reentrancy_scope
#include <muster/base/sync.hpp>                        // sync::cell
#include <muster/combine/detail/combining_object.hpp>  // combining_object
#include <muster/combine/detail/fiber_wait.hpp>        // waiting
#include <muster/combine/detail/request.hpp>           // request, run_requests
#include <muster/combine/options.hpp>                  // combine_options

#include <utility>  // std::forward

namespace muster::bench::inline MUSTER_ABI {

/// Technique::serve(turn, group) is for the combiner, when its own request has been run: runs those of others, and
/// hands the role on.
template <class Technique, class State, class Wait>
class serving {
 public:
  template <class... Args>
  explicit serving(unsigned help, Args&&... args) : help_(help), state_(std::forward<Args>(args)...) {}

  template <class Call, class Turn, class Group>
  MUSTER_HOT typename Call::result run_and_serve(Call& call, Turn now, Group& mine) {
    struct serves_at_end {
      Technique& in;
      Turn now;
      Group& mine;
      ~serves_at_end() { in.serve(now, mine); }
    };
    const serves_at_end last{static_cast<Technique&>(*this), now, mine};
    const detail::reentrancy_scope here = waiting_.executing();
    return call.run_here(state_.write_ref());
  }

  template <class Node>
  static detail::request<State>& request_in(Node& own) noexcept {
    return own.request.write_ref();
  }
  MUSTER_HOT void refuse_nested() const { waiting_.refuse_nested(); }
  bool is_executing() const noexcept { return waiting_.is_executing(); }

 protected:
  template <class Node>
  void run_request(Node* at) {
    detail::run_requests(state_.write_ref(), &at->request, &at->request + 1);
  }

  const unsigned help_;
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // the combiner's
};

}  // namespace muster::bench::inline MUSTER_ABI
