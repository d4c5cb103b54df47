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

#include <muster/base/arch.hpp>                  // isolation_size
#include <muster/base/sync.hpp>                  // sync::atomic, sync::cell
#include <muster/combine/detail/per_thread.hpp>  // per_thread
#include <muster/combine/detail/words.hpp>       // as_word, value_in
#include <muster/combine/options.hpp>            // combine_options
#include <muster/fiber/fiber.hpp>                // this_fiber

#include <algorithm>    // std::copy, std::max
#include <array>        // words of a state
#include <bit>          // std::bit_width, std::countr_zero
#include <concepts>     // std::copyable
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <cstring>      // std::memcpy
#include <functional>   // std::invoke
#include <memory>       // std::unique_ptr
#include <new>          // std::align_val_t
#include <optional>     // what try_load returns
#include <stdexcept>    // std::invalid_argument
#include <string>       // messages
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::exchange

namespace muster::inline MUSTER_ABI {

/// The workspace of those who need none.
struct no_workspace {};

namespace detail {

/// How an operation is called: with the state, and with the workspace if it takes one.
template <class F, class State, class Workspace>
struct psim_call {
  static constexpr bool takes_workspace = false;
  static constexpr bool is_nothrow = std::is_nothrow_invocable_v<const F&, State&>;
  using result = std::invoke_result<const F&, State&>;
};
template <class F, class State, class Workspace>
  requires(!std::same_as<Workspace, no_workspace> && std::is_invocable_v<const F&, State&, Workspace&>)
struct psim_call<F, State, Workspace> {
  static constexpr bool takes_workspace = true;
  static constexpr bool is_nothrow = std::is_nothrow_invocable_v<const F&, State&, Workspace&>;
  using result = std::invoke_result<const F&, State&, Workspace&>;
};
template <class F, class State, class Workspace>
using psim_answer = typename psim_call<std::decay_t<F>, State, Workspace>::result::type;

/// An array that shares no cache line with anything else. Its atomics are zero; its cells are not touched.
template <class T>
class isolated_array {
 public:
  isolated_array() = default;
  explicit isolated_array(std::size_t n) : size_(n), first_(static_cast<T*>(::operator new(bytes(n), alignment))) {
    std::uninitialized_default_construct_n(first_, n);
  }
  ~isolated_array() {
    std::destroy_n(first_, size_);
    ::operator delete(first_, alignment);
  }
  isolated_array(const isolated_array&) = delete;
  isolated_array& operator=(const isolated_array&) = delete;

  T* get() const noexcept { return first_; }
  T& operator[](std::size_t i) const noexcept { return first_[i]; }

 private:
  static constexpr std::align_val_t alignment{isolation_size};
  static std::size_t bytes(std::size_t n) { return (n * sizeof(T) / isolation_size + 1) * isolation_size; }

  const std::size_t size_ = 0;
  T* const first_ = nullptr;
};

}  // namespace detail

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
  psim(const combine_options& options, const psim_options& more, Args&&... args)
      : threads_(checked_threads(options)),
        batch_(options.batch),
        options_(more),
        row_(std::max(2 * batch_, state_words)),
        record_words_(words_for(threads_)),
        index_bits_(static_cast<unsigned>(std::bit_width(2 * threads_))),
        groups_(threads_),
        places_(std::make_unique<sync::cell<places>[]>(threads_ + 1)),
        first_(record_words_),
        toggles_((threads_ + 63) / 64),
        head_(2 * std::uint64_t{threads_}) {
    image words;
    put_state(State(std::forward<Args>(args)...), words.data());
    for (unsigned i = 0; i < state_words; ++i) first_[i].store(words[i], std::memory_order_relaxed);
    places_[threads_].ref().records[0] = first_.get();
  }
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
  MUSTER_HOT detail::psim_answer<F, State, Workspace> apply(F&& function) {
    using operation = std::decay_t<F>;
    using result = detail::psim_answer<F, State, Workspace>;
    static_assert(
        std::is_trivially_copyable_v<operation> && sizeof(operation) <= sizeof(std::uint64_t),
        "psim::apply: the operation travels in eight bytes that are copied, so it may be a function pointer, or a "
        "lambda with captures of eight bytes at most, by value, that are trivially copyable");
    static_assert(
        detail::psim_call<operation, State, Workspace>::is_nothrow,
        "psim::apply: the operation is executed by several threads on copies of the state, where nobody could "
        "catch what it throws: declare it noexcept, and not mutable, and give it a result that says what failed");
    static_assert(
        psim_result<result>,
        "psim::apply: the result is copied in sixteen bytes, so it must be trivially copyable, no reference, and of "
        "16 bytes at most: return less, or an index into a table, or use osci, which returns anything");
    constexpr bool has_two_words = detail::words_of<result> == 2;
    group& me = own_group();
    const operation f(std::forward<F>(function));
    pending mine;
    mine.has_two_words = has_two_words;

    if (options_.yield_after_announcing && this_fiber::has_siblings()) {
      record_request(me, me.count, f);
      me.recorded[me.count++] = &mine;
      // Whoever comes first after all have had their turn announces for all. Nobody waits for one in particular.
      if (me.count != batch_) this_fiber::yield();
      if (!mine.done) finish_recorded(me);
    } else {
      const bool done = options_.alone_first && attempt_alone(me, [&](State& state) noexcept {
                          if constexpr (std::is_void_v<result>) {
                            call(f, state, me.workspace);
                          } else {
                            const auto words = detail::as_words(call(f, state, me.workspace));
                            std::copy(words.begin(), words.end(), mine.result.begin());
                          }
                        });
      if (!done) {
        const detail::stay here(me);
        record_request(me, 0, f);
        const results there = announce(me, 1);
        if constexpr (!std::is_void_v<result>) mine.result[0] = there.first->get();
        if constexpr (has_two_words) mine.result[1] = there.second->get();
      }
    }
    if constexpr (!std::is_void_v<result>) return detail::value_in<result>(mine.result.data());
  }

  /// A copy of the state as it is at one moment. Writes nothing unless others change the state all the time. Wait-free:
  /// one attempt more than apply.
  State load() {
    group& me = own_group();
    const detail::stay here(me);
    for (unsigned looks = 0; looks < 2; ++looks)
      if (sight s; look(me, s)) return state_in(me.copy.get());

    if (me.count != 0) finish_recorded(me);
    me.announced[0].run.store({&run_load}, std::memory_order_release);  // (8)
    const results there = announce(me, 1);
    image words;
    for (unsigned i = 0; i < state_words; ++i) words[i] = there.first[i].get();
    return state_in(words.data());
  }

  /// The same, or nothing: then the state has changed since the call. Writes nothing. Wait-free: as many steps as the
  /// state has words, and 2.
  std::optional<State> try_load() const noexcept {
    // (12) acquire: pairs with (2). Who fails knows at least what those knew who have changed the state.
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const word* const from = record(head);
    image words;
    for (unsigned i = 0; i < state_words; ++i) words[i] = from[i].load(std::memory_order_acquire);  // (5)
    if (head_.load(std::memory_order_acquire) != head) return std::nullopt;                         // (12)
    return state_in(words.data());
  }

  /// The calling thread's. Throws as apply.
  Workspace& workspace() { return own_group().workspace; }

  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const {
    const word* const current = record(head_.load(std::memory_order_relaxed));
    groups_.for_each([&](const group& g) {
      MUSTER_CHECK(g.count == 0 && !g.executing.load(std::memory_order_relaxed),
                   "psim: destroyed or checked while a thread is inside an operation");
      const bool toggle = (toggles_[g.index / 64].load(std::memory_order_relaxed) & bit_of(g.index)) != 0;
      const bool executed = (current[bits_at(g.index)].load(std::memory_order_relaxed) & bit_of(g.index)) != 0;
      MUSTER_CHECK(toggle == g.toggle && executed == toggle,
                   "psim: destroyed or checked while an operation is announced that has not been executed");
      MUSTER_CHECK(g.index < extent_.load(std::memory_order_relaxed), "psim: a thread has come that is not counted");
    });
  }

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
    group(unsigned number, const psim& in)
        : index(number),
          records{detail::isolated_array<word>(in.record_words_), detail::isolated_array<word>(in.record_words_)},
          announced(in.batch_),
          results(std::size_t{in.threads_} * in.row_),
          copy(std::make_unique<std::uint64_t[]>(in.record_words_)),
          gathered(std::make_unique<request[]>(in.batch_)),
          recorded(std::make_unique<pending*[]>(in.batch_)) {}
    bool idle() const noexcept {
      // (13) acquire: pairs with (14).
      return thread_part::idle() && !executing.load(std::memory_order_acquire);
    }

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
  /// Around what calls users' functions: it notices those that do what they must not. And what has begun goes on after
  /// it has had its effect: until then, the object stays.
  struct execution {
    explicit execution(group& me) noexcept : of(me) {
      refuse_within(of);
      // Relaxed: whoever has its effect after the operation knows what came before the operation had its own.
      of.executing.store(true, std::memory_order_relaxed);
    }
    ~execution() {
      // (14) release: pairs with (13). The destructor comes after all that the attempt has done. Nothing of the object
      // is touched after it, unless the caller stays.
      of.executing.store(false, std::memory_order_release);
    }
    execution(const execution&) = delete;
    execution& operator=(const execution&) = delete;
    group& of;
  };

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
  static State state_in(const std::uint64_t* words) noexcept { return detail::value_in<State>(words); }
  static void put_state(const State& state, std::uint64_t* words) noexcept {
    if constexpr (sizeof(State) <= sizeof(std::uint64_t)) {
      words[0] = detail::as_word(state);  // in one store, as it is read in one load
    } else {
      words[state_words - 1] = 0;
      std::memcpy(words, &state, sizeof(State));
    }
  }
  static unsigned name_in(std::uint64_t word_of_names, unsigned q) noexcept {
    return static_cast<unsigned>(word_of_names >> name_shift(q) & 0xffff);
  }
  word* record(std::uint64_t head) const noexcept {
    const std::uint64_t index = head & ((std::uint64_t{1} << index_bits_) - 1);
    return places_[index / 2].get().records[index % 2];
  }

  results row(unsigned by, unsigned of) const noexcept {
    result_cell* const first = places_[by].get().results + std::size_t{of} * row_;
    return {first, first + batch_};
  }

  static unsigned checked_threads(const combine_options& options) {
    if (options.threads > most_threads)
      throw std::invalid_argument("psim names threads in 16 bits: combine_options::threads is " +
                                  std::to_string(options.threads) + "; ask for 65536 at most");
    if (options.batch == 0) throw std::invalid_argument("combine_options::batch is 0; ask for 1 at least");
    return options.threads;
  }

  group& own_group() {
    group& own = groups_.own([this](unsigned index) {
      auto made = std::make_unique<group>(index, *this);
      places_[made->index].ref() = {
          {made->records[0].get(), made->records[1].get()}, made->announced.get(), made->results.get()};
      unsigned extent = extent_.load(std::memory_order_relaxed);
      // (9) seq_cst: pairs with (10). It comes before our first toggle (3), so who finds that must find this. Only the
      // greatest of all threads counts, so the loop ends.
      while (extent <= made->index && !extent_.compare_exchange_weak(extent, made->index + 1, std::memory_order_seq_cst,
                                                                     std::memory_order_relaxed)) {
      }
      return made.release();
    });
    refuse_within(own);
    return own;
  }
  static void refuse_within(const group& own) noexcept {
    MUSTER_CHECK(!own.executing.load(std::memory_order_relaxed),
                 "psim: used from within one of its own operations, or by a fiber to which one has yielded; operations "
                 "must be functions of the State& and of what they bring along");
  }

  // ---------------------------------------------------------------------------------------------------- requests

  template <class F>
  MUSTER_HOT void record_request(group& me, unsigned place, const F& f) noexcept {
    spot& at = me.announced[place];
    // (8) release: pairs with (7). Whoever meets a request of this batch when looking for one of the last knows what we
    // know: that the head has moved.
    at.run.store({&run_all<F>}, std::memory_order_release);
    at.argument.store(detail::as_word(f), std::memory_order_release);  // (8)
  }

  template <class F>
  static auto call(const F& f, State& state, Workspace& workspace) noexcept {
    if constexpr (detail::psim_call<F, State, Workspace>::takes_workspace) {
      return std::invoke(f, state, workspace);
    } else {
      return std::invoke(f, state);
    }
  }

  template <class F>
  static void run_all(State& state, worker workspace, const request* first, std::size_t count, results to) noexcept {
    using result = detail::psim_answer<F, State, Workspace>;
    State now = state;  // what nobody has a pointer to can stay in registers
    for (std::size_t i = 0; i < count; ++i) {
      const F f = detail::value_in<F>(&first[i].argument);
      if constexpr (std::is_void_v<result>) {
        call(f, now, workspace);
      } else {
        const auto words = detail::as_words(call(f, now, workspace));
        to.first[i].ref() = words[0];
        if constexpr (words.size() == 2) to.second[i].ref() = words[1];
      }
    }
    state = now;
  }

  /// The request of load(). It is alone in its batch, and its result takes the whole row.
  static void run_load(State& state, worker, const request*, std::size_t, results to) noexcept {
    image words;
    put_state(state, words.data());
    for (unsigned i = 0; i < state_words; ++i) to.first[i].ref() = words[i];
  }

  /// Neighbours of the same kind are run in one loop, where the compiler sees the callable.
  static void run_gathered(State& state, worker workspace, const request* first, std::size_t count,
                           results to) noexcept {
    for (std::size_t begin = 0, end = 0; begin != count; begin = end) {
      const runner run = first[begin].run;
      do {
        ++end;
      } while (end != count && first[end].run == run);
      run.run(state, workspace, first + begin, end - begin, {to.first + begin, to.second + begin});
    }
  }

  /// Announces and executes what this thread's fibers have recorded.
  void finish_recorded(group& me) noexcept {
    const detail::stay here(me);
    const unsigned count = std::exchange(me.count, 0U);
    const results own = row(me.index, me.index);  // ours, and we read no results now
    const auto run_here = [&](State& state) noexcept {
      request* const gathered = me.gathered.get();
      for (unsigned i = 0; i < count; ++i)
        gathered[i] = {me.announced[i].run.load(std::memory_order_relaxed),
                       me.announced[i].argument.load(std::memory_order_relaxed)};
      run_gathered(state, me.workspace, gathered, count, own);
    };
    const bool done = options_.alone_first && attempt_alone(me, run_here);
    const results there = done ? own : announce(me, count);
    for (unsigned i = 0; i < count; ++i) {
      pending& p = *me.recorded[i];
      p.result[0] = there.first[i].get();
      if (p.has_two_words) p.result[1] = there.second[i].get();
      p.done = true;
    }
  }

  // ---------------------------------------------------------------------------------------------------- attempts

  // An attempt looks at the head, copies the current record, executes on the copy what is announced and not executed,
  // and makes the copy the current record with a compare-exchange. It fails if another has done so since.
  //
  // Case (1): an announced batch has been executed when two attempts of its owner have failed. Each saw the head move.
  //   The second started from a head that was put there after the first had started, so after the toggle; whoever
  //   replaced that one had looked at it before, and at the toggles after that. So it has seen ours, has executed the
  //   batch, and every record from then on says so. "After" runs through two variables here (we toggle, and then find
  //   an old head; another finds the new head, and then looks at the toggles), as in Dekker's algorithm. Hence these
  //   are seq_cst: (3, 1, 4). Our look at the head precedes the other's in their single order, as it finds an older
  //   value. The loads are plain ones on x86-64.
  // Case (2): what a failed attempt has read may be a mixture, as the owner of the record is filling it again, or the
  //   owner of the requests is recording others. Each does so only after it has seen a newer head, and stores with
  //   release (6, 8); whoever reads such a word acquires that knowledge (5, 7), so the look at the head that follows
  //   does not find the old one. No copy is used and no request called before that look. Acquire on each word, and not
  //   one fence for all: it costs nothing on x86-64, thread sanitizer understands it, and a path like this shall have
  //   no fences.
  // Case (3): after two failed attempts the owner must know where its results are, and cannot count on finding any
  //   record at rest. It need not: from the record that executed the batch on, each has the same name in our 16 bits,
  //   until we announce again. The record that the head names may be filled anew while we read it, but by an attempt
  //   that has started at that head or later, so with the same name in it.
  // Case (4): results are plain data. A thread fills its row for q only when it has found, at a current head, that q
  //   has announced a batch that is not executed. Then q has read what it wanted from the last one, perhaps from this
  //   very row, and will read this row next only if the attempt succeeds.

  /// The start of an attempt. Returns false when it would be in vain.
  MUSTER_HOT bool look(group& me, sight& s) const noexcept {
    // (1) seq_cst: pairs with (2), and in case (1) with itself. The record is there as it was when the head came to
    // name it, or newer.
    s.head = head_.load(std::memory_order_seq_cst);
    // (10) seq_cst: pairs with (9).
    s.extent = extent_.load(std::memory_order_seq_cst);
    if (s.head == me.copied.get()) return true;  // words beyond those that we have copied are zero, here and there
    const unsigned used = words_for(s.extent);
    const word* const from = record(s.head);
    std::uint64_t* const copy = me.copy.get();
    // (5) acquire: pairs with (6). See case (2).
    for (unsigned i = 0; i < used; ++i) copy[i] = from[i].load(std::memory_order_acquire);
    const bool is_whole = is_current(s.head);
    me.copied.ref() = is_whole ? s.head : 0;
    return is_whole;
  }

  /// Whether no other record has become the current one. Then what has been read since look() was true.
  MUSTER_HOT bool is_current(std::uint64_t head) const noexcept {
    // Relaxed: (5) and (7) come before. See case (2).
    return head_.load(std::memory_order_relaxed) == head;
  }

  /// Executes on `state` what is announced and not executed. Returns false when that would be in vain.
  MUSTER_HOT bool execute_announced(group& me, const sight& s, State& state) noexcept {
    for (unsigned first = 0; first < s.extent; first += 64) {
      const unsigned here = s.extent - first;
      // Threads beyond the extent have come later; they are for those who look later.
      const std::uint64_t counted = here < 64 ? (std::uint64_t{1} << here) - 1 : ~std::uint64_t{0};
      // (4) seq_cst: pairs with (3). See case (1). And what the thread has announced is there.
      const std::uint64_t toggles = toggles_[first / 64].load(std::memory_order_seq_cst);
      std::uint64_t& executed = me.copy[bits_at(first)];
      for (std::uint64_t left = (toggles ^ executed) & counted; left != 0; left &= left - 1) {
        const unsigned of = first + static_cast<unsigned>(std::countr_zero(left));
        if (!execute_batch(me, s, state, of)) return false;
        executed ^= bit_of(of);
      }
    }
    return true;
  }

  MUSTER_COLD bool execute_batch(group& me, const sight& s, State& state, unsigned of) noexcept {
    const spot* const announced = places_[of].get().announced;
    request* const gathered = me.gathered.get();
    unsigned count = 0;
    for (; count < batch_; ++count) {
      // (7) acquire: pairs with (8). See case (2).
      gathered[count].run = announced[count].run.load(std::memory_order_acquire);
      if (gathered[count].run == runner{}) break;
      gathered[count].argument = announced[count].argument.load(std::memory_order_acquire);  // (7)
    }
    if (!is_current(s.head)) return false;

    run_gathered(state, me.workspace, gathered, count, row(me.index, of));  // see case (4)
    std::uint64_t& names = me.copy[name_at(of)];
    names ^= std::uint64_t{name_in(names, of) ^ me.index} << name_shift(of);
    return true;
  }

  /// Executes what is announced, then own(state), and makes that the current record. Returns false when it had no
  /// effect, as others were faster.
  template <class Own>
  MUSTER_HOT bool attempt(group& me, const sight& s, Own own) noexcept {
    std::uint64_t* const copy = me.copy.get();
    State state = state_in(copy);
    if (!execute_announced(me, s, state)) {
      if constexpr (works) me.workspace.abort();
      return false;
    }
    own(state);
    put_state(state, copy);
    word* const to = me.records[me.filling].get();
    const unsigned used = words_for(s.extent);
    // (6) release: pairs with (5). Whoever meets a word of this record when reading the one that was here before knows
    // what we know: that the head has moved.
    for (unsigned i = 0; i < used; ++i) to[i].store(copy[i], std::memory_order_release);
    const std::uint64_t head = ((s.head >> index_bits_) + 1) << index_bits_ | (2 * me.index + me.filling);
    std::uint64_t seen = s.head;
    // (2) release: pairs with (1, 11, 12). The record is complete, and so are the results that it names.
    if (!head_.compare_exchange_strong(seen, head, std::memory_order_release, std::memory_order_relaxed)) {
      if constexpr (works) me.workspace.abort();
      return false;
    }
    if constexpr (works) me.workspace.commit();
    me.copied.ref() = head;
    me.filling ^= 1;
    return true;
  }

  /// Executes own(state) without announcing it. Returns false when it had no effect.
  template <class Own>
  MUSTER_HOT bool attempt_alone(group& me, Own own) noexcept {
    if (me.crowded != 0) {
      --me.crowded;
      return false;
    }
    const execution now(me);
    sight s;
    if (look(me, s) && attempt(me, s, own)) [[likely]]
      return true;
    me.crowded = vain;
    return false;
  }

  /// Announces the first `count` of the recorded requests. Returns their results, which stay until the next time.
  MUSTER_COLD results announce(group& me, unsigned count) noexcept {
    const execution now(me);
    if (count < batch_) me.announced[count].run.store({}, std::memory_order_release);  // (8)
    const std::uint64_t bit = bit_of(me.index);
    me.toggle = !me.toggle;
    // (3) seq_cst: pairs with (4). See case (1). It flips our bit and no other: an addition without a carry,
    // as x86-64 has no exclusive or that is one instruction and returns what was there.
    toggles_[me.index / 64].fetch_add(me.toggle ? bit : ~bit + 1, std::memory_order_seq_cst);
    for (unsigned attempts = 0; attempts < 2; ++attempts) {
      sight s;
      if (!look(me, s)) continue;
      const bool executed = (me.copy[bits_at(me.index)] & bit) != 0;
      if (executed == me.toggle || attempt(me, s, [](State&) noexcept {}))
        return row(name_in(me.copy[name_at(me.index)], me.index), me.index);
    }
    // (11) acquire: pairs with (2). See cases (1) and (3).
    const word* const current = record(head_.load(std::memory_order_acquire));
    const std::uint64_t names = current[name_at(me.index)].load(std::memory_order_relaxed);
    return row(name_in(names, me.index), me.index);
  }

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
