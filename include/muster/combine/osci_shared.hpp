// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci_shared.hpp: osci for threads without fibers: the requests of a group of kernel threads travel together.
//
// Order      linearizable, as osci.
// Progress   blocking. A thread that stops while it executes operations or records a request blocks the others.
// Killed     as stopped.
// Operations as osci's: they run on the serving thread, an exception reaches only its caller, and they may not apply to
//            the same object.
// Memory     per group: a few batches of up to `batch` requests of 16 bytes, allocated when first needed.
// Cost       apply: O(1) besides the operation; unless threads meet at the door, three read-modify-writes in the memory
//            of the group, and at most four for each batch, one of them on a word of all groups. Waking and waiting:
//            see base/wait.hpp.
// Errors     as osci's, except that any number of threads may come.
// Use it     where fibers of several threads share batches. Without fibers cc_synch does the same at less cost; with
//            them osci avoids read-modify-writes among the fibers of a thread.
// Source     Fatourou and Kallimanis, "Lock Oscillation", OPODIS 2017, in the form for preemptive threads: a door that
//            one thread of the group passes at a time. Changed: the door belongs to the group, not the batch, so
//            finding, opening and recording in the open batch take one passage instead of two. No thread yields its
//            processor to fill its batch; that took seven times as long as a mutex.
#pragma once

#include <muster/base/detail/brief_wait.hpp>       // brief_wait
#include <muster/base/parallelism.hpp>             // available_parallelism
#include <muster/base/wait.hpp>                    // wait::spin_then_park
#include <muster/combine/detail/request_list.hpp>  // request_list
#include <muster/combine/options.hpp>              // combine_options

#include <algorithm>  // std::min
#include <cstdint>    // std::uint32_t
#include <memory>     // std::unique_ptr
#include <new>        // std::nothrow
#include <stdexcept>  // std::invalid_argument
#include <utility>    // std::forward
#include <vector>     // the groups

namespace muster::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class osci_shared {
 public:
  /// The type of the object.
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit osci_shared(const combine_options& options = {}, Args&&... args)
      : batch_(options.batch),
        groups_(options.groups != 0 ? options.groups : available_parallelism()),
        list_(options.help, false, &first_, std::forward<Args>(args)...) {
    if (options.batch == 0) throw std::invalid_argument("combine_options::batch is 0; it must be at least 1");
    if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; it must be at least 1");
  }
  /// Waits for operations that have taken effect but not yet returned; no other operation may have begun.
  ~osci_shared() {
    await_idle();
    check();
  }
  osci_shared(const osci_shared&) = delete;
  osci_shared& operator=(const osci_shared&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  std::invoke_result_t<F&, State&> apply(F&& function) {
    list_.refuse_nested();
    detail::call<State, F> call(function);
    group& g = groups_[sync::thread_index() % groups_.size()];
    batch_buffer* b = nullptr;
    unsigned place = 0;
    {
      const passage here(*this, g);
      b = &open_batch(g);
      place = b->count.write_ref()++;
      b->readers.fetch_add(1, std::memory_order_relaxed);
      call.record(b->requests[place].write_ref());
      if (place + 1 == b->room && !b->make_room(batch_)) g.open.write_ref() = nullptr;
    }
    const reading last{*this, g, *b};
    if (place == 0) {  // this thread directs the batch
      // Lets sibling fibers record their requests. For kernel threads waiting for this processor, as in the paper, it
      // does not pay: the kernel switch takes longer than executing their requests.
      list_.yield();
      publish(g, *b);
    }
    await(*b);
    return call.take_result(b->rows[place].write_ref());
  }

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const {
    bool empty = list_.quiescent();
    for (const group& g : groups_) {
      std::size_t free = 0;
      for (const batch_buffer* b = g.free.read_ref(); b != nullptr; b = b->next.read_ref()) ++free;
      empty &= g.open.read_ref() == nullptr && free == g.buffers.size();
    }
    MUSTER_CHECK(empty,
                 "osci_shared: destroyed or checked while a thread is inside an operation; join its users first");
  }

 private:
  friend detail::object_end;
  using list = detail::request_list<State, Wait>;
  using node = typename list::node;
  using row = typename list::row;

  /// Requests of one group that travel together.
  struct alignas(line_size) batch_buffer {
    batch_buffer(unsigned room_in, node* first, std::uint32_t key_in)
        : room(room_in), requests(std::make_unique<row[]>(room_in)), spare(first), key(key_in) {}
    /// Call behind the door, with `room` requests. Returns false if there can be no more.
    MUSTER_COLD bool make_room(unsigned most) noexcept {
      if (room >= most) return false;
      const unsigned more = std::min(4 * room, most);
      std::unique_ptr<row[]> larger(new (std::nothrow) row[more]);
      if (larger == nullptr) return false;
      for (unsigned i = 0; i < room; ++i) larger[i].write_ref() = requests[i].read_ref();
      requests = std::move(larger);
      room = more;
      return true;
    }

    unsigned room;                            // under the door
    std::unique_ptr<row[]> requests;          // under the door until publication
    row* rows = nullptr;                      // the requests while they travel; set before `announced`
    node* spare;                              // before publication, and after the batch is served
    const std::uint32_t key;                  // of the threads that wait for publication
    sync::cell<unsigned> count{0U};           // under the door
    sync::cell<batch_buffer*> next{nullptr};  // under the door
    sync::atomic<node*> announced{nullptr};   // not null: published in this node
    sync::atomic<unsigned> readers{0};        // threads that have recorded and not fetched
  };

  struct alignas(isolation_size) group {
    // 1: a thread is inside. It guards the open batch, the free ones, and the lists of all.
    sync::atomic<std::uint32_t> door{0};
    sync::cell<batch_buffer*> open{nullptr};
    sync::cell<batch_buffer*> free{nullptr};
    sync::atomic<std::uint32_t> in_use{0};  // batches that are not free; changed under the door
    std::vector<std::unique_ptr<batch_buffer>> buffers;
    std::vector<std::unique_ptr<node>> nodes;
  };
  struct reading {
    osci_shared& object;
    group& in;
    batch_buffer& from;
    ~reading() { object.leave(in, from); }
  };
  struct passage {
    osci_shared& object;
    group& through;
    passage(osci_shared& o, group& g) : object(o), through(g) { o.pass_door(g); }
    ~passage() {
      // (2) release: pairs with (1). The next thread sees the guarded data as this one leaves it.
      through.door.store(0, std::memory_order_release);
    }
  };

  void await_free() const noexcept { list_.await_free(); }
  // The last step of an operation is to return its batch, or before that to count itself out of it.
  void await_idle() noexcept {
    MUSTER_CHECK(!list_.is_executing(), "osci_shared: destroyed by one of its own operations; destroy it elsewhere");
    for (group& g : groups_) {
      // Relaxed: only a thread behind the door changes it.
      for (detail::brief_wait wait; g.in_use.load(std::memory_order_relaxed) != 0; wait.pause())
        this_fiber::yield();         // it may be a fiber of this thread
      const passage here(*this, g);  // they have left, and all their writes are visible
    }
  }

  void pass_door(group& g) noexcept {
    // (1) acquire: pairs with (2).
    for (detail::brief_wait wait; g.door.exchange(1, std::memory_order_acquire) != 0;) do
        wait.pause();  // the thread inside records a request and needs the processor
      while (g.door.load(std::memory_order_relaxed) != 0);
  }

  // Call behind the door.
  batch_buffer& open_batch(group& g) {
    if (g.open.read_ref() != nullptr) return *g.open.read_ref();
    batch_buffer* b = g.free.read_ref();
    if (b != nullptr) {
      g.free.write_ref() = b->next.read_ref();
    } else {
      const auto new_key = [this] { return next_key_.fetch_add(1, std::memory_order_relaxed); };
      g.nodes.push_back(std::make_unique<node>(new_key()));
      g.buffers.push_back(
          std::make_unique<batch_buffer>(std::min(batch_, least_room), g.nodes.back().get(), new_key()));
      b = g.buffers.back().get();
    }
    b->count.write_ref() = 0;
    g.in_use.store(g.in_use.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // Relaxed: threads that record in it pass the door.
    b->announced.store(nullptr, std::memory_order_relaxed);
    g.open.write_ref() = b;
    return *b;
  }

  void publish(group& g, batch_buffer& b) noexcept {
    unsigned count = 0;
    {
      const passage here(*this, g);
      if (g.open.read_ref() == &b) g.open.write_ref() = nullptr;
      count = b.count.read_ref();
    }
    node* const own = list_.announce(b.spare);
    b.rows = b.requests.get();
    if (count <= list::few) {
      for (unsigned i = 0; i < count; ++i) own->in_node[i].write_ref() = b.requests[i].read_ref();
      b.rows = own->in_node;
    }
    own->held.write_ref() = {b.rows, count, 0};
    list_.link(own, std::exchange(b.spare, own));
    // (3) release: pairs with (4). The batch's other threads see the node and the location of their requests.
    b.announced.store(own, std::memory_order_release);
    list_.notify(b.key);
  }

  void await(batch_buffer& b) noexcept {
    node* own = nullptr;
    list_.await(b.key, [&] {
      // (4) acquire: pairs with (3).
      own = b.announced.load(std::memory_order_acquire);
      return own != nullptr;
    });
    for (;;) {
      std::uint32_t state = 0;
      list_.await(own, [&] {
        state = list_.look(own);
        return state == list::done || state == list::yours;
      });
      if (state == list::done) return;
      if (list_.take_role(own)) return list_.serve(own);
    }
  }

  void leave(group& g, batch_buffer& b) noexcept {
    // (5) acq_rel: pairs with (5). The last to leave comes after all others have fetched their results.
    if (b.readers.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const passage here(*this, g);
    b.next.write_ref() = g.free.read_ref();
    g.free.write_ref() = &b;
    g.in_use.store(g.in_use.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }

  static constexpr unsigned least_room = 4;

  const unsigned batch_;
  sync::atomic<std::uint32_t> next_key_{1};
  std::vector<group> groups_;
  node first_{0, list::yours};
  list list_;
};

}  // namespace muster::inline MUSTER_ABI
