// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// engine.hpp: what the workers of a pool need of an engine, which keeps the forks of one worker; and the engine that
// the program is compiled with, see base/config.hpp.
//
// There are two. watermark.hpp pushes a record for each fork. barrier/engine.hpp finds forks on the stack when a thief
// requests work, and pushes them where it cannot. Both offer tasks through a steal_list, and everything that thieves
// and waiting workers do with tasks once they are offered is there. An engine has the rest: when its owner has forks to
// offer, and how they come into the list.
#pragma once

#include <muster/base/config.hpp>             // MUSTER_BARRIER
#include <muster/fork/detail/steal_list.hpp>  // steal_list
#include <muster/fork/detail/task.hpp>        // task
#include <muster/fork/detail/watermark.hpp>   // watermark_engine

#if defined(MUSTER_BARRIER)
#include <muster/fork/detail/barrier/engine.hpp>  // barrier_engine
#include <muster/fork/detail/barrier/stack.hpp>   // machine_stack
#endif

#include <concepts>  // std::same_as
#include <cstdint>   // std::uint64_t

namespace muster::inline MUSTER_ABI::detail {

/// The forks of one worker. All but may_have_more() and publish_for_owner() are called by the owner, that
/// worker's thread.
template <class E>
concept worker_engine =
    requires(E engine, const E seen, idle_workers& asleep, const engine_options& how, const void* frame, bool begins,
             task& async, task::runner run, const scope_node& scope) {
      { E(asleep, how) } noexcept;
      // The list through which it offers.
      { engine.tasks() } noexcept -> std::same_as<steal_list&>;
      { seen.tasks() } noexcept -> std::same_as<const steal_list&>;

      // Null, or the reason why forks cannot be found on the stack in this process.
      { E::unavailable_reason() } noexcept -> std::same_as<const char*>;
      // True if this engine finds them there. Otherwise they are pushed, and pushed() is where.
      { seen.uses_stack_scan() } noexcept -> std::same_as<bool>;
      { engine.pushed() } noexcept -> std::same_as<watermark_engine&>;
      // The word for native::worker_binding::poll_word, which the frames of forks read.
      { seen.poll_word() } noexcept -> std::same_as<const void*>;
      // How deep the owner is now, for steal_list::enter(). Its later forks are deeper.
      { seen.depth() } noexcept -> std::same_as<std::uint64_t>;

      // From now on the owner's forks are below this frame.
      { engine.begin(frame) } noexcept;
      // The owner is a thread of the pool.
      { engine.begin_thread() } noexcept;
      // The owner begins, or ends, to execute something that may fork.
      { engine.set_running(begins) } noexcept;
      // The owner is in another pool, until resume().
      { engine.suspend() } noexcept;
      { engine.resume() } noexcept;
      // Offers an async.
      { engine.offer(async, run, scope) } noexcept;
      // Offers all forks, before the owner sleeps.
      { engine.publish_all() } noexcept;

      // For thieves: true if the owner may have forks that it has not offered.
      { seen.may_have_more() } noexcept -> std::same_as<bool>;
      // For thieves: offers them. Returns false if there may be others.
      { engine.publish_for_owner() } noexcept -> std::same_as<bool>;
    };

#if defined(MUSTER_BARRIER)
using selected_engine = barrier_engine<machine_stack>;
#else
using selected_engine = watermark_engine;
#endif

static_assert(worker_engine<watermark_engine> && worker_engine<selected_engine>);

}  // namespace muster::inline MUSTER_ABI::detail
