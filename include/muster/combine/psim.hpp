// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim.hpp: a small object that many threads use, one operation at a time, and that none can stop for the others.
//
// Order      linearizable: all operations on the object happen one after another, each between its call and its return.
// Progress   wait-free: an operation ends after three attempts at most, whatever other threads do. An attempt copies a
//            record of w words and writes one, and executes each thread's announced batch once. w is the words of the
//            state and 17 for each 64 threads that have come: 2 w + threads (2 batch + 2) + 4 steps on shared memory at
//            most. A fiber also waits for one turn of its siblings: it is threads that need not wait for each other (in
//            the paper's words, it tolerates failures of cores).
// Killed     as stopped: nobody waits. What the thread has announced has its effect, once, all the same.
// Operations are executed on copies of the state: several times, by several threads at once, and even after their owner
//            has its result. One execution has an effect. So they must be functions of the state and of the eight bytes
//            that they bring along, and may not point to anything that ends before the object does; they may not throw,
//            yield, block, or apply to the same object. A result must not point into the state.
// Workspace  An operation that needs more than the state, a node say, has it from psim<State, Workspace>: it is called
//            as f(state, workspace), with the workspace of the thread that executes it. That is told at the end of each
//            execution whether it has had an effect: commit() or abort(). See psim_stack.hpp.
// Memory     for each thread that comes: three copies of a record, and 32 bytes for each of `batch` requests; and 16
//            bytes for each of `threads` times `batch` results, of which those pages cost memory that are used.
// Errors     std::invalid_argument and std::bad_alloc from the constructor. From apply and load std::length_error when
//            more threads come than configured, std::bad_alloc at the first operation of a thread. An operation that
//            applies to the same object, or yields, ends the program with a message.
// Use it     where a thread may be stopped at any point and the others must go on, or to change a state of some words
//            at once. Where nobody is stopped osci is as fast, and takes any state and any operation.
// Source     Fatourou and Kallimanis, "A highly-efficient wait-free universal construction", SPAA 2011 (PSim), and
//            "Lock Oscillation", OPODIS 2017 (PSim-x). Changed in five ways. What is announced is a batch: a thread's
//            fibers record their requests with plain stores, and one of them toggles the thread's bit for all; so there
//            is a bit for each thread, not for each fiber. A record has no results but says where they are, in 16 bits
//            for each thread; so it is small. A request brings its function along, and is not called unless it is known
//            to be whole. Where nobody else is there nothing is announced, which saves one of two read-modify-writes.
//            Records and requests are read as C++ demands. It is one class, as PSim-x is PSim with one yield more:
//            psim_options::yield_after_announcing.
#pragma once

#include <muster/base/arch.hpp>                // isolation_size
#include <muster/base/sync.hpp>                // sync::atomic, sync::cell
#include <muster/combine/impl/per_thread.hpp>  // per_thread
#include <muster/combine/impl/psim_parts.hpp>  // isolated_array, value_in
#include <muster/combine/options.hpp>          // combine_options

#include <array>        // words of a state
#include <concepts>     // std::copyable
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <memory>       // std::unique_ptr
#include <optional>     // what try_load returns
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::exchange

namespace muster::inline MUSTER_ABI {

struct psim_options {
  /// PSim-x: a fiber lets its siblings record their operations before the batch is announced. Else each goes alone.
  bool yield_after_announcing = true;
  /// Whether operations are first tried without being announced, as long as that goes well. Off: as in the paper.
  bool alone_first = true;
  /// psim_stack and psim_queue: nodes that a thread makes at once, and takes from others at once.
  unsigned chain = 256;
};

/// The most bytes of a state: each attempt copies it.
inline constexpr std::size_t psim_largest_state = 256;

template <class State>
concept psim_state = std::copyable<State> && std::is_trivially_copyable_v<State> && sizeof(State) <= psim_largest_state;

/// A thread's own, and used by nobody else. commit() ends an execution that has had its effect, abort() any other.
template <class Workspace>
concept psim_workspace =
    std::same_as<Workspace, no_workspace> || (std::default_initializable<Workspace> && requires(Workspace& own) {
      { own.commit() } noexcept;
      { own.abort() } noexcept;
    });

template <class Result>
concept psim_result = std::is_void_v<Result> || (!std::is_reference_v<Result> && std::is_trivially_copyable_v<Result> &&
                                                 sizeof(Result) <= 2 * sizeof(std::uint64_t));

/// What psim<State, Workspace>::apply takes.
template <class F, class State, class Workspace = no_workspace>
concept psim_operation =
    std::is_trivially_copyable_v<std::decay_t<F>> && sizeof(std::decay_t<F>) <= sizeof(std::uint64_t) &&
    detail::psim_call<std::decay_t<F>, State, Workspace>::is_nothrow &&
    psim_result<detail::psim_answer<F, State, Workspace>>;

template <class State, class Workspace = no_workspace>
class psim {
  static_assert(std::is_trivially_copyable_v<State> && std::copyable<State>,
                "psim<State>: the state is copied as bytes by several threads at once, so it must be trivially "
                "copyable: keep what it owns elsewhere and numbers in the state, or use osci, which takes any state");
  static_assert(sizeof(State) <= psim_largest_state,
                "psim<State>: each operation copies the whole state, so it may have 256 bytes at most: keep the larger "
                "part elsewhere and numbers in the state, or use osci, which copies nothing");
  static_assert(
      psim_workspace<Workspace>,
      "psim<State, Workspace>: each thread makes a workspace without arguments, and tells it how an execution "
      "has ended: give it commit() and abort(), both noexcept");

 public:
  using state_type = State;
  using workspace_type = Workspace;

  /// Constructs the state from `args`. Throws std::invalid_argument for no threads, no batch, or over 65536 threads.
  template <class... Args>
    requires std::constructible_from<State, Args...>
  explicit psim(const combine_options& options = {}, Args&&... args)
      : psim(options, psim_options{}, std::forward<Args>(args)...) {}
  template <class... Args>
    requires std::constructible_from<State, Args...>
  psim(const combine_options& options, const psim_options& more, Args&&... args);
  /// Waits for operations that have had their effect and have not returned yet; others may not have begun.
  ~psim() {
    groups_.await_idle();
    check();
  }
  psim(const psim&) = delete;
  psim& operator=(const psim&) = delete;

  /// Executes function(state) with all of its effect at one moment, here or on another thread, and returns its result.
  /// It must be a psim_operation. Wait-free.
  template <class F>
  MUSTER_HOT detail::psim_answer<F, State, Workspace> apply(F&& function);

  /// A copy of the state as it is at one moment. Writes nothing unless others change the state all the time. Wait-free:
  /// one attempt more than apply.
  State load();

  /// The same, or nothing: then the state has changed since the call. Writes nothing. Wait-free: as many steps as the
  /// state has words, and 2.
  std::optional<State> try_load() const noexcept;

  /// The calling thread's. Throws as apply.
  Workspace& workspace() { return own_group().workspace; }

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const;

 private:
  struct request;
  using word = sync::atomic<std::uint64_t>;
  using result_cell = sync::cell<std::uint64_t>;
  static constexpr bool works = !std::same_as<Workspace, no_workspace>;
  using worker = std::conditional_t<works, Workspace&, Workspace>;  // an empty argument costs nothing
  /// Where a batch has its results. Those of up to eight bytes lie side by side; the second half of others elsewhere.
  struct results {
    result_cell* first;
    result_cell* second;
  };
  /// Executes requests of its kind one after another and puts their results into a row.
  struct runner {
    void (*run)(State&, worker, const request* first, std::size_t count, results) noexcept;
    bool operator==(const runner&) const = default;
  };
  struct request {
    runner run;
    std::uint64_t argument;  // the callable
  };

  /// One of a thread's announced requests. Written by that thread between two announcements; read by all at any time,
  /// and believed only if the head has not moved since before. A null runner ends a batch that is not full.
  struct spot {
    sync::atomic<runner> run;
    word argument;
  };

  /// What others must know of a thread to read its records, requests and results. Set once, before its first operation.
  /// records  of `record_words_` words. One is, or was, the current one; the other is the thread's to fill.
  /// results  of this thread's executions: a row of `row_` cells for each thread. That one reads it, if the record says
  ///          that the results are here, until it announces its next batch.
  struct places {
    word* records[2] = {};
    spot* announced = nullptr;
    result_cell* results = nullptr;
  };

  /// A fiber that has recorded its request.
  struct pending {
    std::array<std::uint64_t, 2> result{};
    bool has_two_words = false;
    bool done = false;
  };

  /// Touched by its thread only.
  struct group : detail::thread_part {
    group(unsigned number, const psim& in);
    bool idle() const noexcept;

    const unsigned index;
    const detail::isolated_array<word> records[2];
    const detail::isolated_array<spot> announced;
    const detail::isolated_array<result_cell> results;
    const std::unique_ptr<std::uint64_t[]> copy;  // of a record
    // The head that named it, or 0. An attempt that fails leaves other things in `copy`, but then the head has moved.
    sync::cell<std::uint64_t> copied{0U};
    const std::unique_ptr<request[]> gathered;   // one batch, to be executed
    const std::unique_ptr<pending*[]> recorded;  // whose requests are in `announced`, while the batch is open
    unsigned count = 0;                          // of these
    unsigned filling = 0;                        // the record that is ours to fill
    unsigned crowded = 0;                        // operations to go until one is tried alone again
    bool toggle = false;                         // our bit of `toggles_`
    sync::atomic<bool> executing{false};         // functions of users; read by the destructor as well
    [[no_unique_address]] Workspace workspace{};
  };

  /// What an attempt starts from.
  struct sight {
    std::uint64_t head;
    unsigned extent;  // threads
  };
  struct execution;

  // A record: the words of the state, and then for each 64 threads one word of bits, which are equal to those of
  // `toggles_` when the thread's last announced batch has been executed, and 16 words of four names each, which say
  // which thread has executed that batch, and has its results.
  static constexpr unsigned state_words = (sizeof(State) + 7) / 8;
  static constexpr unsigned block_words = 17;
  static constexpr unsigned most_threads = 1U << 16;
  static constexpr unsigned vain = 64;  // operations that are announced at once after one that should have been
  using image = std::array<std::uint64_t, state_words>;

  static unsigned bits_at(unsigned q) noexcept { return state_words + block_words * (q / 64); }
  static unsigned name_at(unsigned q) noexcept { return bits_at(q) + 1 + q % 64 / 4; }
  static std::uint64_t bit_of(unsigned q) noexcept { return std::uint64_t{1} << (q % 64); }
  static unsigned name_shift(unsigned q) noexcept { return q % 4 * 16; }
  static unsigned words_for(unsigned threads) noexcept {
    return bits_at(threads) + (threads % 64 == 0 ? 0 : 1 + (threads % 64 + 3) / 4);
  }
  static State state_in(const std::uint64_t* words) noexcept;
  static void put_state(const State& state, std::uint64_t* words) noexcept;
  static unsigned name_in(std::uint64_t word_of_names, unsigned q) noexcept {
    return static_cast<unsigned>(word_of_names >> name_shift(q) & 0xffff);
  }
  static unsigned checked_threads(const combine_options& options);

  word* record(std::uint64_t head) const noexcept;
  results row(unsigned by, unsigned of) const noexcept;

  group& own_group();
  static void refuse_within(const group& own) noexcept {
    MUSTER_CHECK(!own.executing.load(std::memory_order_relaxed),
                 "psim: used from within one of its own operations, or by a fiber to which one has yielded; operations "
                 "must be functions of the State& and of what they bring along");
  }
  template <class F>
  MUSTER_HOT void record_request(group& me, unsigned place, const F& f) noexcept;
  template <class F>
  static auto call(const F& f, State& state, Workspace& workspace) noexcept;
  template <class F>
  static void run_all(State& state, worker, const request* first, std::size_t count, results) noexcept;
  static void run_load(State& state, worker, const request* first, std::size_t count, results) noexcept;
  static void run_gathered(State& state, worker, const request* first, std::size_t count, results) noexcept;

  void finish_recorded(group& me) noexcept;
  template <class Own>
  MUSTER_HOT bool attempt_alone(group& me, Own own) noexcept;
  MUSTER_COLD results announce(group& me, unsigned count) noexcept;

  MUSTER_HOT bool look(group& me, sight& s) const noexcept;
  /// Whether no other record has become the current one. Then what has been read since look() was true.
  MUSTER_HOT bool is_current(std::uint64_t head) const noexcept;
  template <class Own>
  MUSTER_HOT bool attempt(group& me, const sight& s, Own own) noexcept;
  MUSTER_HOT bool execute_announced(group& me, const sight& s, State& state) noexcept;
  bool execute_batch(group& me, const sight& s, State& state, unsigned of) noexcept;

  const unsigned threads_;
  const unsigned batch_;
  const psim_options options_;
  const unsigned row_;           // both words of the results of one batch, or a state
  const unsigned record_words_;  // of all threads
  const unsigned index_bits_;
  detail::per_thread<group> groups_;
  std::unique_ptr<sync::cell<places>[]> places_;  // of each thread, and of the first record
  detail::isolated_array<word> first_;            // the record with the state that we have been given
  detail::isolated_array<word> toggles_;          // a bit for each thread, which the thread flips for each batch

  // Which record is the current one: its index in the low bits, and above it how many there have been. A record is not
  // filled again before another one of the same thread has been the current one, so a thread that finds this word
  // unchanged knows that nothing has changed. The number wraps around: with 64 threads it has 56 bits, which at 50
  // million batches a second, as fast as a line goes from core to core, last 45 years; with 1024 threads, 3 years. To
  // be misled, a thread would have to be stopped in the middle of an attempt for exactly so many, no other number.
  alignas(isolation_size) word head_;
  // The threads that have come are those with numbers below it. Never falls.
  alignas(isolation_size) sync::atomic<unsigned> extent_{0};
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/combine/impl/psim.hpp>  // definitions
