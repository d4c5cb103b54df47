// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci.hpp: an object that many threads use, one operation at a time. The requests that the fibers of one thread make
// are announced, and served, as one batch.
//
// Order      linearizable: operations on the object happen one after another, each between its call and its return.
// Progress   blocking. A thread that stops while it executes operations blocks all others. If it stops anywhere else,
//            it blocks at most the operations that were announced after its own.
// Killed     as stopped.
// Fairness   first come, first served, by batches: an operation waits for all announced before it.
// Operations run on the combining thread, often not the caller's, and see that thread's thread-local data. An
//            exception reaches only the caller of its operation. An operation must not call apply on the same object.
// Memory     per thread: a few batches of `batch` requests of 16 bytes, allocated in its first operations; 20 bytes
//            more per request if the state eliminates (batch.hpp).
// Cost       apply: O(1) besides the operation, and one exchange for each batch; so one for each operation of a thread
//            without other fibers. Recording, serving and fetching a request are loads and stores. apply_batch: one
//            exchange for each batch, and one allocation in all. With `detached`, a compare-exchange more for handing
//            the role on, and for leaving a batch that is full or flushed. Waking and waiting: see base/wait.hpp.
// Errors     the constructor throws std::invalid_argument and std::bad_alloc. apply throws exceptions from the
//            operation, and std::logic_error if called from an operation of the same object. It also throws
//            std::length_error if more threads use the object than configured, and may throw std::bad_alloc in a
//            thread's first operations.
// Use it     for a small object that every thread needs all the time. With one fiber per thread it works as cc_synch
//            does. When operations are long or threads few, a mutex is as good.
// Source     Fatourou and Kallimanis, "Lock Oscillation", OPODIS 2017, with three changes. The fibers of a thread need
//            no compare-exchange among themselves, so recording a request is a plain store. Requests are adjacent and
//            have no flags; one word per batch marks all of them done. The list is CC-Synch's (request_list.hpp).
//            bench/baselines has the algorithm as printed.
#pragma once

#include <muster/base/wait.hpp>                    // wait::spin_then_park
#include <muster/combine/detail/burst_slip.hpp>    // burst_slip
#include <muster/combine/detail/per_thread.hpp>    // per_thread
#include <muster/combine/detail/request_list.hpp>  // request_list
#include <muster/combine/options.hpp>              // combine_options

#include <algorithm>  // std::find
#include <cstdint>    // std::uint32_t
#include <exception>  // std::exception_ptr
#include <memory>     // std::unique_ptr
#include <mutex>      // the end of a thread, and of the object
#include <optional>   // the calls of a batch
#include <span>       // apply_batch
#include <stdexcept>  // std::invalid_argument, std::logic_error
#include <utility>    // std::forward
#include <vector>     // owned by a thread

namespace muster::inline MUSTER_ABI {

template <class State, class Wait = wait::spin_then_park>
class osci {
 public:
  /// The type of the object.
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit osci(const combine_options& options = {}, Args&&... args)
      : batch_(options.batch),
        detached_(options.detached),
        groups_(options.threads),
        list_(options.help, options.detached, &first_, std::forward<Args>(args)...) {
    if (options.batch == 0) throw std::invalid_argument("combine_options::batch is 0; it must be at least 1");
    if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; it must be at least 1");
  }
  /// Runs the posted requests that have not been served. Waits for operations that have taken effect but not yet
  /// returned; no other operation may have begun.
  ~osci() {
    // This check comes first: if the destroying operation is executed in last_flush at a thread's end, end() would wait
    // for the lock of that last_flush, and so for itself.
    MUSTER_CHECK(!list_.is_executing(), "osci: destroyed by one of its own operations; destroy it elsewhere");
    groups_.for_each([](const group& g) {
      if (g.at_end != nullptr) g.at_end->end();
    });
    groups_.await_idle();
    groups_.for_each([this](group& g) {
      if (g.open != nullptr && g.open->count == g.open->posted) publish_and_leave(g, *g.open);
    });
    check();
  }
  osci(const osci&) = delete;
  osci& operator=(const osci&) = delete;

  /// Executes function(state) as if under a lock, here or on another thread, and returns its result.
  template <class F>
  MUSTER_HOT std::invoke_result_t<F&, State&> apply(F&& function) {
    list_.refuse_nested();
    detail::call<State, F> call(function);
    group& g = own_group();
    if (g.open != nullptr && g.open->directed) return apply_with_others(g, call);
    if (g.open == nullptr && !this_fiber::has_siblings()) return apply_alone(g, call);
    return apply_and_direct(g, call);
  }

  /// Executes all `functions` in order, after the requests that the caller has posted and submitted. Writes their
  /// results, if any, to `results`, and returns the end of the output. They form batches of at most `batch`; operations
  /// of other threads run only between two batches. If some of them throw, all are still executed, and the first
  /// exception is rethrown. If std::bad_alloc is thrown for lack of memory, none has been executed.
  template <class F, class OutputIt>
  OutputIt apply_batch(std::span<F> functions, OutputIt results) {
    using call = detail::call<State, std::conditional_t<std::is_invocable_v<const F&, State&>, const F&, F&>>;
    list_.refuse_nested();
    group& g = own_group();
    const detail::stay here(g);
    // Memory is allocated only here and for the first batch; each later batch reuses the buffer of the one before. So
    // no std::bad_alloc is thrown between two batches.
    std::vector<std::optional<call>> calls(std::min<std::size_t>(functions.size(), batch_));
    if (g.open != nullptr && g.open->posted + g.open->tickets != 0) publish_and_leave(g, *g.open);
    std::exception_ptr first;
    while (!functions.empty()) {
      const std::size_t many = std::min<std::size_t>(functions.size(), batch_);
      batch_buffer& b = *take_buffer(g);
      b.count = static_cast<unsigned>(many);
      b.posted = b.count - 1;  // the results are fetched together
      b.tickets = 1;           // not a reader: `here` keeps the object
      b.published = b.taken = false;
      for (std::size_t i = 0; i < many; ++i) calls[i].emplace(functions[i]).record(b.requests[i].write_ref());
      publish(g, b);
      await(b);
      const reading last{g, b};
      for (unsigned i = 0; i < b.count; ++i) {
        try {
          if constexpr (std::is_void_v<typename call::result>) {
            calls[i]->take_result(result_row(b, i).write_ref());
          } else {
            *results++ = calls[i]->take_result(result_row(b, i).write_ref());
          }
        } catch (...) {
          if (first == nullptr) first = std::current_exception();
        }
      }
      functions = functions.subspan(many);
    }
    if (first != nullptr) std::rethrow_exception(first);
    return results;
  }

  // The calls below return before the operation is executed, so many requests of a thread without fibers travel
  // together. They require combine_options::detached and throw std::logic_error without it. Callables and results must
  // be trivially copyable and at most eight bytes.

  template <class R>
  class ticket;
  /// Records a request. It is announced when a batch is full, at flush(), and at the latest with this thread's next
  /// apply() or get().
  template <class F>
  ticket<std::invoke_result_t<F&, State&>> submit(F function) {
    using call = detail::call<State, F&&>;
    call one(function);
    group& g = own_group();
    const detail::stay here(g);
    batch_buffer& b = record_detached(g, one);
    ++b.tickets;
    ticket<typename call::result> made(*this, &g, &b, &call::fetch_small);
    if (b.count == batch_) publish_and_leave(g, b);
    return made;
  }

  /// Like submit(), for a noexcept function whose result is not needed. It is announced at the latest when the thread
  /// ends.
  template <class F>
  void post(F function) {
    using call = detail::call<State, F&&>;
    static_assert(!call::throws, "osci::post: the function's exception would be lost; make it noexcept");
    call one(function);
    group& g = own_group();
    const detail::stay here(g);
    batch_buffer& b = record_detached(g, one);
    ++b.posted;
    if (b.count == batch_) publish_and_leave(g, b);
  }

  /// Announces the requests that this thread has submitted and posted.
  void flush() {
    group& g = own_group();
    const detail::stay here(g);
    if (g.open != nullptr && !g.open->directed) publish_and_leave(g, *g.open);
  }

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const {
    MUSTER_CHECK(list_.quiescent(),
                 "osci: destroyed or checked while a thread is inside an operation; join its users first");
    groups_.for_each([](const group& g) {
      std::size_t at_rest = g.open != nullptr ? 1 : 0;
      for (const batch_buffer* b : {g.free, g.unread})
        for (; b != nullptr; b = b->next) ++at_rest;
      MUSTER_CHECK(at_rest == g.buffers.size(), "osci: a batch is lost; this is a bug in muster");
      MUSTER_CHECK(g.recent == nullptr && (g.open == nullptr || g.open->count == g.open->posted),
                   "osci: destroyed or checked while a ticket is open; get() it first");
    });
  }

 private:
  friend detail::object_end;
  using list = detail::request_list<State, Wait>;
  using node = typename list::node;
  using row = typename list::row;

  /// Requests of one thread that travel together. Only that thread touches it, except for the requests while they
  /// travel.
  struct batch_buffer {
    std::unique_ptr<row[]> requests;
    row* rows = nullptr;  // the requests while they travel: here, in `kept`, or in the node
    // If the state eliminates: the remaining requests, and for each request its index among them or
    // outgoing_batch::eliminated.
    std::unique_ptr<row[]> kept;
    std::unique_ptr<std::uint32_t[]> places;
    node* own = nullptr;  // a spare until published, then the node of the announcement, which is the next spare
    unsigned count = 0;
    unsigned posted = 0;    // of `count`: results that no call will take
    unsigned tickets = 0;   // of `count`: for tickets that have not fetched their results
    unsigned readers = 0;   // since publication: calls of apply() that have not fetched their results
    bool directed = false;  // a fiber will publish it
    bool published = false;
    bool eliminated = false;  // some requests have eliminated each other
    bool taken = false;       // a fiber is the combiner, or none can be: none waited at publication
    batch_buffer* next = nullptr;
  };
  struct group;
  /// Announces a thread's requests when it ends, unless the object has already been destroyed.
  struct last_flush final : sync::last_work {
    last_flush(osci& object, group& g) noexcept : of(&object), in(g) {}
    void at_thread_end() noexcept override {
      const std::lock_guard lock(mutex);
      if (of == nullptr) return;
      in.ends_with_flush = false;
      const detail::stay here(in);
      if (in.open != nullptr && !in.open->directed) of->publish_and_leave(in, *in.open, true);
    }
    void end() noexcept {
      const std::lock_guard lock(mutex);
      of = nullptr;
    }

   private:
    std::mutex mutex;
    osci* of;
    group& in;
  };
  struct group : detail::thread_part {
    batch_buffer* open = nullptr;    // requests are being recorded in it
    batch_buffer* recent = nullptr;  // the last one published, while a fiber waits for it
    batch_buffer* free = nullptr;
    batch_buffer* unread = nullptr;  // published, with no results left to take
    node* spare = nullptr;           // for a request without a batch
    detail::burst_slip::habits habits;
    std::vector<std::unique_ptr<batch_buffer>> buffers;
    std::vector<std::unique_ptr<node>> nodes;  // made here; nodes move between threads
    std::shared_ptr<last_flush> at_end;        // made with the first detached request
    bool ends_with_flush = false;              // registered to run when the thread ends
  };
  struct reading {
    group& in;
    batch_buffer& from;
    ~reading() {
      if (--from.tickets == 0 && from.readers == 0) give_back(in, &from);
    }
  };
  /// Ends a call of apply() that recorded its request in a batch. The batch counts as an operation in progress from
  /// before its announcement until the last of these ends, so the object outlives it.
  struct applying {
    group& in;
    batch_buffer& from;
    MUSTER_HOT ~applying() {
      if (--from.readers != 0) return;
      if (from.tickets == 0) give_back(in, &from);
      in.leave();
    }
  };

  void await_free() const noexcept { list_.await_free(); }

  // -------------------------------------------------------------------------------------------------------- memory

  group& own_group() {
    return groups_.own([this](unsigned) {
      auto made = std::make_unique<group>();
      made->spare = make_node(*made);
      return made.release();
    });
  }

  node* make_node(group& g) {
    g.nodes.push_back(std::make_unique<node>(next_key_.fetch_add(1, std::memory_order_relaxed)));
    return g.nodes.back().get();
  }

  batch_buffer* make_buffer(group& g) {
    auto made = std::make_unique<batch_buffer>();
    made->requests = std::make_unique<row[]>(batch_);
    if constexpr (detail::eliminating<State>) {
      made->kept = std::make_unique<row[]>(batch_);
      made->places = std::make_unique<std::uint32_t[]>(batch_);
    }
    made->own = make_node(g);
    g.buffers.push_back(std::move(made));
    return g.buffers.back().get();
  }

  // Called if no batch is free: returns a served one that has no results left to take, or a new one.
  MUSTER_COLD batch_buffer* find_buffer(group& g) {
    for (batch_buffer** at = &g.unread; *at != nullptr; at = &(*at)->next) {
      batch_buffer* const b = *at;
      if (list_.look(b->own) != list::done) continue;
      *at = b->next;
      return b;
    }
    return make_buffer(g);
  }

  MUSTER_HOT batch_buffer* take_buffer(group& g) {
    batch_buffer* const b = g.free;
    if (b == nullptr) [[unlikely]]
      return find_buffer(g);
    g.free = b->next;
    return b;
  }

  static void give_back(group& g, batch_buffer* b) noexcept {
    if (g.recent == b) g.recent = nullptr;
    b->next = g.free;
    g.free = b;
  }

  batch_buffer& open_batch(group& g) {
    if (g.open == nullptr) {
      batch_buffer* const b = take_buffer(g);
      b->count = b->posted = b->tickets = 0;
      b->directed = b->published = b->taken = false;
      list_.prepare(b->own);  // fibers that record here look at it before it is announced
      g.open = b;
    }
    return *g.open;
  }

  // --------------------------------------------------------------------------------------------------------- apply

  // No other fiber of this thread can add a request.
  template <class Call>
  MUSTER_HOT typename Call::result apply_alone(group& g, Call& call) {
    node* const spare = g.spare;
    node* const own = g.spare = list_.announce(spare, g.habits);
    if (list_.look(own) != list::yours) [[unlikely]] {
      const detail::stay here(g);
      call.record(own->in_node[0].write_ref());
      if (list_.served(own, spare, g.habits)) return call.take_result(own->in_node[0].write_ref());
    }
    return list_.run_and_serve(call, spare, g);
  }

  // The usual case with many fibers: another fiber publishes the batch, and it has been served when this fiber runs
  // next.
  template <class Call>
  MUSTER_HOT typename Call::result apply_with_others(group& g, Call& call) {
    if (g.recent != nullptr) look_after(*g.recent, g);
    // look_after() may have executed operations that wait, and meanwhile another fiber may have published the open
    // batch.
    if (g.open == nullptr || !g.open->directed) [[unlikely]]
      return apply_and_direct(g, call);
    batch_buffer& b = *g.open;
    const unsigned place = b.count++;
    call.record(b.requests[place].write_ref());
    if (b.count == batch_) [[unlikely]]
      publish(g, b);
    list_.yield();
    if (list_.look(b.own) != list::done) [[unlikely]]
      await_published(b);
    const applying last{g, b};
    return call.take_result(result_row(b, place).write_ref());
  }

  template <class Call>
  MUSTER_HOT typename Call::result apply_and_direct(group& g, Call& call) {
    detail::request<State> request;
    call.record(request);
    const auto [batch, place] = direct(g, request);
    const applying last{g, *batch};
    return call.take_result(result_row(*batch, place).write_ref());
  }

  // Records a request, publishes the batch once the thread's other fibers have recorded theirs, and waits for it.
  // Returns the batch and the request's index in it.
  MUSTER_COLD std::pair<batch_buffer*, unsigned> direct(group& g, detail::request<State> first) {
    if (g.recent != nullptr) look_after(*g.recent, g);
    batch_buffer& b = open_batch(g);
    b.directed = true;
    const unsigned place = b.count++;
    b.requests[place].write_ref() = first;
    if (b.count < batch_) list_.yield();
    if (!b.published) publish(g, b);
    await(b);
    return {&b, place};
  }

  // The first fiber to get here becomes the combiner, even if it does not wait for this batch, because no request makes
  // progress until one does.
  void look_after(batch_buffer& b, group& g) noexcept {
    const std::uint32_t state = list_.look(b.own);
    if (is_ours(b, state)) [[unlikely]]
      take_role(b);
    else if (state == list::done) g.recent = nullptr;
  }

  MUSTER_COLD void await_published(batch_buffer& b) noexcept {
    while (!b.published) list_.yield();  // until its directing fiber has a turn
    await(b);
  }

  MUSTER_HOT void await(batch_buffer& b) noexcept {
    for (;;) {
      const std::uint32_t state = list_.look(b.own);
      if (state == list::done) return;
      if (is_ours(b, state)) return take_role(b);
      // When this wait returns, another fiber of the batch may already have become the combiner.
      list_.await(b.own, [&] {
        const std::uint32_t now = list_.look(b.own);
        return now == list::done || is_ours(b, now);
      });
    }
  }

  bool is_ours(const batch_buffer& b, std::uint32_t state) const noexcept { return state == list::yours && !b.taken; }
  void take_role(batch_buffer& b) noexcept {
    b.taken = true;
    list_.serve(b.own);
  }

  // ------------------------------------------------------------------------------------------------------- publish

  /// Returns false if all requests have eliminated each other.
  bool publish(group& g, batch_buffer& b) noexcept {
    if (g.open == &b) g.open = nullptr;
    b.readers = b.count - b.posted - b.tickets;
    if (b.readers != 0) g.enter();
    b.published = true;
    b.rows = b.requests.get();
    unsigned many = b.count;
    if constexpr (detail::eliminating<State>) {
      many = eliminate(b);
      if (many == 0) {
        list_.serve_unannounced(b.own);
        return false;
      }
    }
    g.recent = &b;
    node* const spare = b.own;
    node* const own = list_.announce(spare);
    b.own = own;
    if (many <= list::few) {
      for (unsigned i = 0; i < many; ++i) own->in_node[i].write_ref() = b.rows[i].read_ref();
      b.rows = own->in_node;
    }
    own->held.write_ref() = {b.rows, many, 0};
    list_.link(own, spare);
    return true;
  }

  /// Returns how many requests remain unanswered; they are then at b.rows.
  MUSTER_COLD std::uint32_t eliminate(batch_buffer& b) noexcept
    requires detail::eliminating<State>
  {
    using all = outgoing_batch<State>;
    static_assert(
        noexcept(State::eliminate(all(nullptr, 0), std::span<std::uint32_t>())),
        "State::eliminate(outgoing_batch, notes) must be noexcept: after an exception, the eliminated requests are "
        "unknown");
    b.eliminated = false;
    if (b.count < 2) return b.count;
    const std::span places(b.places.get(), b.count);
    State::eliminate(all(b.requests.get(), b.count), places);
    if (std::find(places.begin(), places.end(), all::eliminated) == places.end()) return b.count;
    b.eliminated = true;
    std::uint32_t kept = 0;
    for (unsigned i = 0; i < b.count; ++i) {
      if (places[i] == all::eliminated) continue;
      b.kept[kept].write_ref() = b.requests[i].read_ref();
      places[i] = kept++;
    }
    b.rows = b.kept.get();
    return kept;
  }

  /// The request that holds the result.
  static row& result_row(const batch_buffer& b, unsigned place) noexcept {
    if constexpr (detail::eliminating<State>)
      if (b.eliminated) {
        const std::uint32_t to = b.places[place];
        return to == outgoing_batch<State>::eliminated ? b.requests[place] : b.rows[to];
      }
    return b.rows[place];
  }

  // ------------------------------------------------------------------------------------------------------ detached

  template <class Call>
  batch_buffer& record_detached(group& g, Call& call) {
    static_assert(
        Call::is_small,
        "osci::submit, osci::post: callable and result must be trivially copyable and have at most eight bytes each; "
        "keep larger data in a record of your own, and capture a pointer to it");
    if (!detached_)
      throw std::logic_error(
          "osci::submit, osci::post: combine_options::detached is false; set it when the object is created");
    list_.refuse_nested();
    if (!g.ends_with_flush) [[unlikely]]
      flush_at_thread_end(g);
    batch_buffer& b = open_batch(g);
    call.record(b.requests[b.count++].write_ref());
    return b;
  }

  void publish_and_leave(group& g, batch_buffer& b, bool at_thread_end = false) noexcept {
    const bool is_announced = publish(g, b);
    if (b.directed) return;
    // This comes before serving: if serving executes operations that wait, other fibers may finish the batch.
    if (b.readers == 0 && b.tickets == 0) {
      b.next = g.unread;
      g.unread = &b;
    }
    if (!is_announced) return;
    g.recent = nullptr;
    b.taken = true;
    node* const own = b.own;
    if (list_.leave(own)) return;
    if (at_thread_end) {
      list_.serve_alone(own);
    } else {
      list_.serve(own);
    }
  }

  MUSTER_COLD void flush_at_thread_end(group& g) {
    if (g.at_end == nullptr) g.at_end = std::make_shared<last_flush>(*this, g);
    sync::before_thread_end(g.at_end);
    g.ends_with_flush = true;
  }

  const unsigned batch_;
  const bool detached_;
  sync::atomic<std::uint32_t> next_key_{1};
  detail::per_thread<group> groups_;
  node first_{0, list::yours};
  list list_;
};

/// The result of a submitted request, possibly not yet executed. It belongs to the submitting thread and must not
/// outlive the object. The destructor waits and discards the result. The program ends with a message if ready() is
/// called or the ticket is destroyed on another thread, and if the ticket is destroyed where get() would throw
/// std::logic_error.
template <class State, class Wait>
template <class R>
class osci<State, Wait>::ticket {
 public:
  ticket(ticket&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)),
        group_(other.group_),
        in_(other.in_),
        place_(other.place_),
        take_result_(other.take_result_) {}
  ticket& operator=(ticket&& other) noexcept {
    ticket(std::move(other)).swap(*this);
    return *this;
  }
  ~ticket() {
    if (!valid()) return;
    check_thread();
    MUSTER_CHECK(
        ready() || !object_->list_.is_refused(),
        "osci::ticket: destroyed within an operation of its object, for which its own waits; get() it earlier");
    try {
      static_cast<void>(get());
    } catch (...) {
      return;  // its result was never asked for
    }
  }

  /// Returns true if it has a request whose result has not been taken.
  bool valid() const noexcept { return object_ != nullptr; }
  /// Returns true if get() would not wait. Does not announce anything.
  bool ready() const noexcept {
    check_thread();
    return in_->published && object_->list_.look(in_->own) == list::done;
  }
  /// Waits for the result; call once. Throws the function's exception. Throws std::logic_error, without any effect, on
  /// another thread, and within an operation of the same object unless ready().
  R get() {
    MUSTER_CHECK(valid(), "osci::ticket::get: the ticket has been used or moved from; test valid() first");
    if (!object_->groups_.is_own(*group_))
      throw std::logic_error("osci::ticket::get: called on another thread than submit(); pass on the result instead");
    if (sync::innermost() != nullptr && !ready()) [[unlikely]]
      object_->list_.refuse_nested();
    const detail::stay here(*group_);
    await();
    const reading last{*group_, *in_};
    return take_result_(osci::result_row(*in_, place_).write_ref());
  }

 private:
  friend osci;
  using take_result = R (*)(detail::request<State>&);
  ticket(osci& object, group* g, batch_buffer* in, take_result f) noexcept
      : object_(&object), group_(g), in_(in), place_(in->count - 1), take_result_(f) {}
  void swap(ticket& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(group_, other.group_);
    std::swap(in_, other.in_);
    std::swap(place_, other.place_);
    std::swap(take_result_, other.take_result_);
  }
  void check_thread() const noexcept {
    MUSTER_CHECK(object_->groups_.is_own(*group_),
                 "osci::ticket: used or destroyed on another thread than submit(); pass on the result instead");
  }
  osci& await() noexcept {
    osci& object = *std::exchange(object_, nullptr);
    if (!in_->published && !in_->directed) object.publish(*group_, *in_);
    while (!in_->published) object.list_.yield();
    object.await(*in_);
    return object;
  }

  osci* object_;
  group* group_;
  batch_buffer* in_;
  unsigned place_;
  take_result take_result_;
};

}  // namespace muster::inline MUSTER_ABI
