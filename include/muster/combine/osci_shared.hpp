// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci_shared.hpp: osci for threads without fibers: the requests of a group of kernel threads travel together.
//
// Order      linearizable, as osci.
// Progress   blocking. A thread that is stopped while it executes operations, or records a request, stops the others.
// Killed     as stopped.
// Operations as with osci: they run on the thread that serves; what they throw reaches the caller, and nobody else.
//            They may not apply to the same object.
// Memory     for each group: a few batches of `batch` requests of 16 bytes, made when they are first needed.
// Errors     as osci's, but that any number of threads may come.
// Use it     where fibers of several threads shall share batches. Without fibers cc_synch does the same for less, and
//            with them osci does, without read-modify-writes among those of a thread.
// Source     Fatourou and Kallimanis, "Lock Oscillation", OPODIS 2017, as it is meant for preemptive threads: a door
//            that one thread of the group passes at a time. Here the door is the group's and not the batch's, so that
//            finding the open batch, opening one and recording in it are one passage instead of two; and no thread
//            gives its processor away to fill its batch, which took seven times as long as a mutex when we did it.
#pragma once

#include <muster/base/brief_wait.hpp>            // brief_wait
#include <muster/base/parallelism.hpp>           // available_parallelism
#include <muster/combine/impl/request_list.hpp>  // request_list
#include <muster/combine/options.hpp>            // combine_options

#include <cstdint>    // std::uint32_t
#include <memory>     // std::unique_ptr
#include <stdexcept>  // std::invalid_argument
#include <utility>    // std::forward
#include <vector>     // the groups

namespace muster::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class osci_shared {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit osci_shared(const combine_options& options = {}, Args&&... args);
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~osci_shared() {
    await_idle();
    check();
  }
  osci_shared(const osci_shared&) = delete;
  osci_shared& operator=(const osci_shared&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  std::invoke_result_t<F&, State&> apply(F&& function);

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  using list = detail::request_list<State, Wait>;
  using node = typename list::node;
  using row = typename list::row;

  /// Requests of one group that travel together.
  struct alignas(line_size) fat {
    fat(unsigned batch, node* first, std::uint32_t key_in)
        : requests(std::make_unique<row[]>(batch)), spare(first), key(key_in) {}

    const std::unique_ptr<row[]> requests;
    row* rows = nullptr;                     // where they travel; set before `announced`
    node* spare;                             // before it is published, and after
    const std::uint32_t key;                 // of those who wait until it is published
    sync::cell<unsigned> count{0U};          // under the door
    sync::cell<fat*> next{nullptr};          // under the door
    sync::atomic<node*> announced{nullptr};  // not null: published in this node
    sync::atomic<unsigned> readers{0};       // threads that have recorded and not fetched
  };

  struct alignas(isolation_size) group {
    // 1: a thread is inside. What is behind it: the batch being recorded, those that are free, and all that there are.
    sync::atomic<std::uint32_t> door{0};
    sync::cell<fat*> open{nullptr};
    sync::cell<fat*> free{nullptr};
    sync::atomic<std::uint32_t> in_use{0};  // batches that are not free; changed under the door
    std::vector<std::unique_ptr<fat>> fats;
    std::vector<std::unique_ptr<node>> nodes;
  };
  struct reading {
    osci_shared& object;
    group& in;
    fat& from;
    ~reading() { object.leave(in, from); }
  };
  struct passage {
    osci_shared& object;
    group& through;
    passage(osci_shared& o, group& g) : object(o), through(g) { o.pass_door(g); }
    ~passage();
  };

  void await_idle() noexcept;
  void pass_door(group& g) noexcept;
  fat& open_fat(group& g);
  void publish(group& g, fat& b) noexcept;
  void await(fat& b) noexcept;
  void leave(group& g, fat& b) noexcept;

  const unsigned batch_;
  sync::atomic<std::uint32_t> next_key_{1};
  std::vector<group> groups_;
  node first_{0, list::yours};
  list list_;
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/combine/impl/osci_shared.hpp>  // definitions
