// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci.hpp: an object that many threads use, one operation at a time. Requests of a thread's fibers travel together.
//
// Order      linearizable: all operations on the object happen one after another, each between its call and its return.
// Progress   blocking. A thread that is stopped while it executes operations stops all others; one that is stopped
//            elsewhere stops at most those whose turn comes after its own.
// Killed     as stopped.
// Fairness   first come, first served, by batches: an operation waits for those that were announced before it.
// Operations run on the thread that serves, which may be another than the caller's: they see its thread-local data.
//            What they throw reaches the caller, and nobody else. They may not apply to the same object.
// Memory     for each thread: a few batches of `batch` requests of 16 bytes, made at its first operations; 20 bytes
//            more for each request when the state eliminates (batch.hpp).
// Errors     std::invalid_argument and std::bad_alloc from the constructor; from apply what the operation throws,
//            std::logic_error when it is called from within an operation of the same object, std::length_error when
//            more threads come than configured, std::bad_alloc at the first operations of a thread.
// Use it     for a small object that every thread needs all the time. With one fiber per thread it is cc_synch. When
//            operations are long or threads few, a mutex is as good.
// Source     Fatourou and Kallimanis, "Lock Oscillation", OPODIS 2017, in three ways changed. The fibers of a thread
//            need no compare-exchange among themselves, so recording a request is a plain store. Requests lie side by
//            side without flags of their own; one word per batch says that all are done. The list is CC-Synch's
//            (request_list.hpp). bench/baselines has it as printed.
#pragma once

#include <muster/combine/impl/per_thread.hpp>    // per_thread
#include <muster/combine/impl/request_list.hpp>  // request_list
#include <muster/combine/options.hpp>            // combine_options

#include <cstdint>  // std::uint32_t
#include <memory>   // std::unique_ptr
#include <span>     // apply_batch
#include <utility>  // std::forward
#include <vector>   // what a thread owns

namespace muster::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class osci {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit osci(const combine_options& options = {}, Args&&... args);
  /// Runs what has been posted and not served. Waits for operations that have had their effect and have not returned
  /// yet; others may not have begun.
  ~osci();
  osci(const osci&) = delete;
  osci& operator=(const osci&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function);

  /// Executes all `functions` in their order, writes their results from `results` on, if they have any, and returns
  /// the end of these. They travel together: others' operations come between them only after every `batch`. When some
  /// throw, all are executed, and the first exception is rethrown.
  template <class F, class OutputIt>
  OutputIt apply_batch(std::span<F> functions, OutputIt results);

  // The calls below return before the operation has been executed: many requests of a thread without fibers travel
  // together. They need combine_options::detached, and throw std::logic_error without it. Callables and results must be
  // of up to eight bytes that can be copied as bytes.

  template <class R>
  class ticket;
  /// Records a request. It begins to travel when a batch is full, at flush(), and at the latest with the next apply()
  /// or get() of this thread.
  template <class F>
  ticket<std::invoke_result_t<F&, State&>> submit(F function);
  /// The same for a function whose result nobody needs, and which may not throw. It begins to travel at the latest when
  /// the thread ends.
  template <class F>
  void post(F function);
  /// Sends off what this thread has submitted and posted.
  void flush();

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  using list = detail::request_list<State, Wait>;
  using node = typename list::node;
  using row = typename list::row;

  /// Requests of one thread that travel together. Touched by that thread only, but for the requests while they travel.
  struct fat {
    std::unique_ptr<row[]> requests;
    row* rows = nullptr;  // where they are while they travel: here, in `kept`, or in the node
    // If the state eliminates: those that are left, and for each request its place among them, or departing::answered.
    std::unique_ptr<row[]> kept;
    std::unique_ptr<std::uint32_t[]> places;
    node* own = nullptr;  // a spare until it is published, then the node it was announced in, which is the next spare
    unsigned count = 0;
    unsigned posted = 0;    // of these: results that nobody will fetch
    unsigned tickets = 0;   // of these: for tickets that have not fetched their results
    unsigned readers = 0;   // since it is published: calls of apply() that have not fetched their results
    bool directed = false;  // a fiber will publish it
    bool published = false;
    bool eliminated = false;  // some requests have answered each other
    bool taken = false;       // the role has been ours, or cannot be: nobody waited when it was published
    fat* next = nullptr;
  };
  struct last_flush;
  struct group : detail::thread_part {
    fat* open = nullptr;    // requests are being recorded in it
    fat* recent = nullptr;  // the last one published, while somebody waits for it
    fat* free = nullptr;
    fat* unread = nullptr;  // published, and nobody will fetch results
    node* spare = nullptr;  // for a request that travels alone
    std::vector<std::unique_ptr<fat>> fats;
    std::vector<std::unique_ptr<node>> nodes;  // made here; they travel through the hands of all
    std::shared_ptr<last_flush> at_end;        // made when the first request is detached
    bool ends_with_flush = false;              // the thread knows of it
  };
  struct reading {
    group& in;
    fat& from;
    ~reading();
  };
  struct applying;

  group& own_group();
  node* make_node(group& g);
  fat* make_fat(group& g);
  MUSTER_COLD fat* find_fat(group& g);
  MUSTER_HOT fat* take_fat(group& g);
  static void give_back(group& g, fat* b) noexcept;
  fat& open_fat(group& g);

  template <class Call>
  MUSTER_HOT typename Call::result apply_alone(group& g, Call& call);
  template <class Call>
  MUSTER_HOT typename Call::result apply_with_others(group& g, Call& call);
  template <class Call>
  MUSTER_HOT typename Call::result apply_and_direct(group& g, Call& call);
  MUSTER_COLD std::pair<fat*, unsigned> direct(group& g, detail::request<State> first);
  void look_after(fat& b, group& g) noexcept;
  MUSTER_COLD void await_published(fat& b) noexcept;
  template <class Call>
  fat& record_detached(group& g, Call& call);
  MUSTER_COLD void flush_at_thread_end(group& g);
  static void flush_open(osci& object, group& g) noexcept;
  /// Returns false when the requests have answered each other.
  bool publish(group& g, fat& b) noexcept;
  MUSTER_COLD std::uint32_t eliminate(fat& b) noexcept
    requires detail::eliminating<State>;
  /// Where the result of a request is.
  static row& result_row(const fat& b, unsigned place) noexcept;
  void publish_and_leave(group& g, fat& b) noexcept;
  MUSTER_HOT void await(fat& b) noexcept;
  bool is_ours(const fat& b, std::uint32_t state) const noexcept { return state == list::yours && !b.taken; }
  void take_role(fat& b) noexcept;

  const unsigned batch_;
  const bool detached_;
  sync::atomic<std::uint32_t> next_key_{1};
  detail::per_thread<group> groups_;
  node first_{0, list::yours};
  list list_;
};

/// The result of a submitted request, which may not have been executed yet. Belongs to the thread that has submitted
/// it, and must not outlive the object. Its destructor waits, and drops the result. To destroy it on another thread, or
/// ask there whether it is ready, ends the program with a message.
template <class State, class Wait>
template <class R>
class osci<State, Wait>::ticket {
 public:
  ticket(ticket&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)),
        group_(other.group_),
        in_(other.in_),
        place_(other.place_),
        fetch_(other.fetch_) {}
  ticket& operator=(ticket&& other) noexcept {
    ticket(std::move(other)).swap(*this);
    return *this;
  }
  ~ticket();

  bool valid() const noexcept { return object_ != nullptr; }
  /// Whether get() would not wait. Does not send anything off.
  bool ready() const noexcept {
    check_thread();
    return in_->published && object_->list_.look(in_->own) == list::done;
  }
  /// Waits for the result, once. Throws what the function has thrown, and std::logic_error on another thread: then
  /// nothing has happened.
  R get();

 private:
  friend osci;
  using fetch = R (*)(detail::request<State>&);
  ticket(osci& object, group* g, fat* in, fetch f) noexcept
      : object_(&object), group_(g), in_(in), place_(in->count - 1), fetch_(f) {}
  void swap(ticket& other) noexcept;
  void check_thread() const noexcept {
    MUSTER_CHECK(object_->groups_.is_own(*group_),
                 "osci: a ticket is used or destroyed on another thread than the one that has submitted the request");
  }
  osci& await() noexcept;

  osci* object_;
  group* group_;
  fat* in_;
  unsigned place_;
  fetch fetch_;
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/combine/impl/osci.hpp>           // definitions
#include <muster/combine/impl/osci_detached.hpp>  // submit, post, tickets
