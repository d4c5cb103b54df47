// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// psim.hpp: a small object that many threads use, one operation at a time. No thread can block the others.
//
// Order      linearizable: operations on the object happen one after another, each between its call and its return.
// Progress   wait-free: an operation ends after at most three attempts, whatever other threads do. An attempt copies a
//            record of w words, writes one, and executes each thread's announced batch once. Here w is the number of
//            words of the state, plus 17 for every 64 threads that have used the object. An attempt takes at most 2 w +
//            threads (2 batch + 2) + 4 atomic operations. Threads do not wait for each other, but a fiber waits for one
//            turn of its siblings. In the paper's words, the object tolerates failures of cores.
// Killed     as stopped: no thread waits. Announced operations still take effect, once.
// Operations run on copies of the state: possibly several times, on several threads at once, and even after their owner
//            has received the result. One execution takes effect. So an operation must depend only on the state and on
//            the eight bytes that it captures, and must not point to anything that ends before the object. It must not
//            throw, yield, block, or apply to the same object. A result must not point into the state.
// Workspace  An operation that needs more than the state, such as a node, uses psim<State, Workspace>. It is called as
//            f(state, workspace), with the workspace of the executing thread. After each execution, psim calls the
//            workspace's commit() if the execution took effect, else abort(). See psim_stack.hpp.
// Memory     per thread that uses it: three copies of a record, and 32 bytes for each of `batch` requests; and 16 bytes
//            for each of `threads` times `batch` results, of which only touched pages cost memory.
// Cost       apply: one compare-exchange and O(w) loads and stores, if no other thread is faster. Otherwise a fetch-add
//            to announce the operation, and two attempts at most; see Progress. load: O(w) loads, no stores to shared
//            data. No system calls and no allocation after a thread's first operation.
// Errors     the constructor throws std::invalid_argument and std::bad_alloc. apply and load throw std::length_error if
//            more threads come than configured, and std::bad_alloc in a thread's first operation. An operation that
//            applies to the same object, or yields, ends the program with a message.
// Use it     where a thread may stop at any point without blocking the others, or to change a state of several words
//            atomically. If threads do not stop, osci is as fast and takes any state and any operation.
// Source     Fatourou and Kallimanis, "A highly-efficient wait-free universal construction", SPAA 2011 (PSim), and
//            "Lock Oscillation", OPODIS 2017 (PSim-x), with five changes. A thread announces a batch: its fibers record
//            requests with plain stores, and one of them toggles the thread's bit for all. So there is a bit per
//            thread, not per fiber. A record is small: instead of results, it holds their location, in 16 bits per
//            thread. A request contains its function, which is called only after the request is known to be consistent.
//            Without contention nothing is announced, which saves one of two read-modify-writes. Records and requests
//            are read as C++ demands. There is one class, since PSim-x is PSim with one more yield:
//            psim_options::yield_after_announcing.
#pragma once

#include <muster/base/arch.hpp>                  // isolation_size
#include <muster/base/sync.hpp>                  // sync::atomic, sync::cell
#include <muster/combine/detail/per_thread.hpp>  // per_thread
#include <muster/combine/detail/words.hpp>       // as_word, value_in
#include <muster/combine/options.hpp>            // combine_options
#include <muster/fiber/this_fiber.hpp>           // this_fiber

#include <algorithm>    // std::copy, std::max
#include <array>        // words of a state
#include <bit>          // std::countl_zero, std::countr_zero
#include <concepts>     // std::copyable
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <cstring>      // std::memcpy
#include <functional>   // std::invoke
#include <memory>       // std::unique_ptr
#include <new>          // std::align_val_t
#include <optional>     // the result of try_load
#include <stdexcept>    // std::invalid_argument
#include <string>       // messages
#include <type_traits>  // std::is_trivially_copyable_v
#include <utility>      // std::exchange

namespace muster::inline MUSTER_ABI {

/// The workspace of operations that need none.
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
/// Returns options.threads. Throws std::invalid_argument.
inline unsigned checked_psim_threads(const combine_options& options) {
  constexpr unsigned most_threads = 1U << 16;
  if (options.threads > most_threads)
    throw std::invalid_argument("psim: combine_options::threads is " + std::to_string(options.threads) +
                                "; it must be at most 65536");
  if (options.batch == 0) throw std::invalid_argument("combine_options::batch is 0; it must be at least 1");
  return options.threads;
}

template <class F, class State, class Workspace>
using psim_answer = typename psim_call<std::decay_t<F>, State, Workspace>::result::type;

/// An array that shares no cache line with other data. Its atomics are zero; its cells are uninitialized.
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

/// Options of psim, besides combine_options.
struct psim_options {
  /// PSim-x: a fiber lets its siblings record their operations before it announces the batch. Off: each fiber announces
  /// alone.
  bool yield_after_announcing = true;
  /// Operations are first tried without announcing them, as long as such tries succeed. Off: as in the paper.
  bool alone_first = true;
  /// psim_stack and psim_queue: nodes that a thread allocates, or takes from others, at once.
  unsigned chain = 256;
};

/// The most bytes of a state: each attempt copies it.
inline constexpr std::size_t psim_largest_state = 256;

/// The types that psim accepts as a state: copyable as bytes, and at most psim_largest_state bytes.
template <class State>
concept psim_state = std::copyable<State> && std::is_trivially_copyable_v<State> && sizeof(State) <= psim_largest_state;

/// A workspace: one per thread, never shared. commit() ends an execution that took effect; abort() ends any other.
template <class Workspace>
concept psim_workspace =
    std::same_as<Workspace, no_workspace> || (std::default_initializable<Workspace> && requires(Workspace& own) {
      { own.commit() } noexcept;
      { own.abort() } noexcept;
    });

/// The results that an operation may have: nothing, or a value of at most 16 bytes that is copyable as bytes.
template <class Result>
concept psim_result = std::is_void_v<Result> || (!std::is_reference_v<Result> && std::is_trivially_copyable_v<Result> &&
                                                 sizeof(Result) <= 2 * sizeof(std::uint64_t));

/// The operations that psim<State, Workspace>::apply accepts.
template <class F, class State, class Workspace = no_workspace>
concept psim_operation =
    std::is_trivially_copyable_v<std::decay_t<F>> && sizeof(std::decay_t<F>) <= sizeof(std::uint64_t) &&
    detail::psim_call<std::decay_t<F>, State, Workspace>::is_nothrow &&
    psim_result<detail::psim_answer<F, State, Workspace>>;

template <class State, class Workspace = no_workspace>
class psim {
  static_assert(std::is_trivially_copyable_v<State> && std::copyable<State>,
                "psim<State>: State must be trivially copyable, because several threads copy it as bytes at once; keep "
                "what it owns elsewhere and indices in it, or use osci, which takes any state");
  static_assert(sizeof(State) <= psim_largest_state,
                "psim<State>: State must have at most 256 bytes, because each operation copies it; keep the larger "
                "part elsewhere and indices in it, or use osci, which copies nothing");
  static_assert(
      psim_workspace<Workspace>,
      "psim<State, Workspace>: Workspace must be default-constructible, and have noexcept commit() and abort(), one of "
      "which ends each execution");

 public:
  /// The type of the object.
  using state_type = State;
  /// The type of each thread's workspace.
  using workspace_type = Workspace;

  /// Constructs the state from `args`. Throws std::invalid_argument for no threads, no batch, or over 65536 threads.
  template <class... Args>
    requires std::constructible_from<State, Args...>
  explicit psim(const combine_options& options = {}, Args&&... args)
      : psim(options, psim_options{}, std::forward<Args>(args)...) {}
  template <class... Args>
    requires std::constructible_from<State, Args...>
  psim(const combine_options& options, const psim_options& more, Args&&... args)
      : threads_(detail::checked_psim_threads(options)),
        batch_(options.batch),
        options_(more),
        row_(std::max(2 * batch_, state_words)),
        record_words_(words_for(threads_)),
        index_bits_(64U - static_cast<unsigned>(std::countl_zero(2 * std::uint64_t{threads_}))),
        groups_(threads_),
        places_(std::make_unique<sync::cell<places>[]>(threads_ + 1)),
        first_(record_words_),
        toggles_((threads_ + 63) / 64),
        head_(2 * std::uint64_t{threads_}) {
    image words;
    put_state(State(std::forward<Args>(args)...), words.data());
    for (unsigned i = 0; i < state_words; ++i) first_[i].store(words[i], std::memory_order_relaxed);
    places_[threads_].write_ref().records[0] = first_.get();
  }
  /// Waits for operations that have taken effect but not yet returned; no other operation may have begun.
  ~psim() {
    groups_.await_idle();
    check();
  }
  psim(const psim&) = delete;
  psim& operator=(const psim&) = delete;

  /// Executes function(state) atomically, here or on another thread, and returns its result. The function must be a
  /// psim_operation. Wait-free.
  template <class F>
  MUSTER_HOT detail::psim_answer<F, State, Workspace> apply(F&& function) {
    using operation = std::decay_t<F>;
    using result = detail::psim_answer<F, State, Workspace>;
    static_assert(
        std::is_trivially_copyable_v<operation> && sizeof(operation) <= sizeof(std::uint64_t),
        "psim::apply: the operation must be trivially copyable and have at most eight bytes: pass a function pointer, "
        "or a lambda that captures at most eight bytes, by value");
    static_assert(
        detail::psim_call<operation, State, Workspace>::is_nothrow,
        "psim::apply: several threads execute the operation on copies of the state, so it cannot throw to its caller: "
        "declare it noexcept, and not mutable, and return a result that says what failed");
    static_assert(psim_result<result>,
                  "psim::apply: the result must be trivially copyable, have at most 16 bytes and be no reference: "
                  "return less, or an index into a table, or use osci, which returns anything");
    constexpr bool has_two_words = detail::words_of<result> == 2;
    group& me = own_group();
    const operation f(std::forward<F>(function));
    pending mine;
    mine.has_two_words = has_two_words;

    if (options_.yield_after_announcing && this_fiber::has_siblings()) {
      record_request(me, me.count, f);
      me.recorded[me.count++] = &mine;
      // After all siblings have had a turn, the first fiber to run announces for all; no particular fiber is awaited.
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
        if constexpr (!std::is_void_v<result>) mine.result[0] = there.first->read_ref();
        if constexpr (has_two_words) mine.result[1] = there.second->read_ref();
      }
    }
    if constexpr (!std::is_void_v<result>) return detail::value_in<result>(mine.result.data());
  }

  /// Returns a consistent copy of the state. Writes no shared data unless other threads keep changing the state.
  /// Wait-free: one attempt more than apply, and three more if fibers of this thread have recorded requests.
  State load() {
    group& me = own_group();
    const detail::stay here(me);
    for (unsigned looks = 0; looks < 2; ++looks)
      if (sight s; look(me, s)) return state_in(me.copy.get());

    if (me.count != 0) finish_recorded(me);
    me.announced[0].run.store({&run_load}, std::memory_order_release);  // (8)
    const results there = announce(me, 1);
    image words;
    for (unsigned i = 0; i < state_words; ++i) words[i] = there.first[i].read_ref();
    return state_in(words.data());
  }

  /// Like load(), but returns nothing if the state changed during the call. Writes nothing. Wait-free: the words of the
  /// state plus 2 steps.
  std::optional<State> try_load() const noexcept {
    // (12) acquire: pairs with (2). On failure the caller sees everything that the changing threads had seen.
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const word* const from = record(head);
    image words;
    for (unsigned i = 0; i < state_words; ++i) words[i] = from[i].load(std::memory_order_acquire);  // (5)
    if (head_.load(std::memory_order_acquire) != head) return std::nullopt;                         // (12)
    return state_in(words.data());
  }

  /// The calling thread's workspace. Throws like apply.
  Workspace& workspace() { return own_group().workspace; }

  /// Checks the invariants. Call only while no thread is inside an operation.
  void check() const {
    const word* const current = record(head_.load(std::memory_order_relaxed));
    groups_.for_each([&](const group& g) {
      MUSTER_CHECK(g.count == 0 && !g.executing.load(std::memory_order_relaxed),
                   "psim: destroyed or checked while a thread is inside an operation; join its users first");
      const bool toggle = (toggles_[g.index / 64].load(std::memory_order_relaxed) & bit_of(g.index)) != 0;
      const bool executed = (current[bits_at(g.index)].load(std::memory_order_relaxed) & bit_of(g.index)) != 0;
      MUSTER_CHECK(toggle == g.toggle && executed == toggle,
                   "psim: destroyed or checked before an announced operation has been executed; join its users first");
      MUSTER_CHECK(g.index < extent_.load(std::memory_order_relaxed),
                   "psim: a thread is not counted; this is a bug in muster");
    });
  }

 private:
  struct request;
  using word = sync::atomic<std::uint64_t>;
  using result_cell = sync::cell<std::uint64_t>;
  static constexpr bool works = !std::same_as<Workspace, no_workspace>;
  using worker = std::conditional_t<works, Workspace&, Workspace>;  // an empty argument costs nothing
  /// Where a batch's results are. Results of up to eight bytes are adjacent; the second halves of larger ones are
  /// separate.
  struct results {
    result_cell* first;
    result_cell* second;
  };
  /// Executes requests with the same callable type in order, and stores their results in a row.
  struct runner {
    void (*run)(State&, worker, const request* first, std::size_t count, results) noexcept;
    bool operator==(const runner&) const = default;
  };
  struct request {
    runner run;
    std::uint64_t argument;  // the callable
  };

  /// One of a thread's announced requests. The owner writes it between announcements. Any thread may read it at any
  /// time, but trusts it only if the head has not moved since. A null runner ends a batch that is not full.
  struct spot {
    sync::atomic<runner> run;
    word argument;
  };

  /// The parts of a thread's data by which other threads find its records, requests and results. Set once, before its
  /// first operation.
  /// records  of `record_words_` words. One is, or was, the current one; the other is the thread's to fill.
  /// results  of this thread's executions: a row of `row_` cells for each thread. The thread of the row reads it if the
  ///          record names this thread, and until it announces its next batch.
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

  /// The data of one thread. Others read only what `places` names; the destructor also reads `executing`.
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
    // The head that named the record in `copy`, or 0. A failed attempt leaves other data in `copy`, but then the head
    // has moved, so no later head equals this one.
    sync::cell<std::uint64_t> copied{0U};
    const std::unique_ptr<request[]> gathered;   // one batch, to be executed
    const std::unique_ptr<pending*[]> recorded;  // the owners of the requests in `announced`, while the batch is open
    unsigned count = 0;                          // of `recorded`
    unsigned filling = 0;                        // the record to fill next
    unsigned crowded = 0;                        // operations left until one is tried alone again
    bool toggle = false;                         // this thread's bit of `toggles_`
    sync::atomic<bool> executing{false};         // callables are running; also read by the destructor
    [[no_unique_address]] Workspace workspace{};
  };

  /// The starting point of an attempt.
  struct sight {
    std::uint64_t head;
    unsigned extent;  // threads
  };
  /// Surrounds calls of users' functions and detects forbidden nested use. An attempt continues after it has taken
  /// effect; until it ends, the object must not be destroyed.
  struct execution {
    explicit execution(group& me) noexcept : of(me) {
      refuse_within(of);
      // Relaxed: an operation that takes effect later sees everything from before this one took effect.
      of.executing.store(true, std::memory_order_relaxed);
    }
    ~execution() {
      // (14) release: pairs with (13). The destructor comes after everything the attempt did. After this, the object is
      // not accessed, unless the caller holds a `stay`.
      of.executing.store(false, std::memory_order_release);
    }
    execution(const execution&) = delete;
    execution& operator=(const execution&) = delete;
    group& of;
  };

  // A record: the words of the state, and then for each 64 threads one word of bits and 16 words of four names each. A
  // bit equals its bit in `toggles_` once the thread's last announced batch has been executed. A name is the thread
  // that executed that batch and has its results.
  static constexpr unsigned state_words = (sizeof(State) + 7) / 8;
  static constexpr unsigned block_words = 17;
  static constexpr unsigned vain = 64;  // operations not tried alone after one that failed
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
      words[0] = detail::as_word(state);  // one store, as one load reads it
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
    return places_[index / 2].read_ref().records[index % 2];
  }

  results row(unsigned by, unsigned of) const noexcept {
    result_cell* const first = places_[by].read_ref().results + std::size_t{of} * row_;
    return {first, first + batch_};
  }

  group& own_group() {
    group& own = groups_.own([this](unsigned index) {
      auto made = std::make_unique<group>(index, *this);
      places_[made->index].write_ref() = {
          {made->records[0].get(), made->records[1].get()}, made->announced.get(), made->results.get()};
      unsigned extent = extent_.load(std::memory_order_relaxed);
      // (9) seq_cst: pairs with (10). It precedes this thread's first toggle (3), so a thread that sees the toggle sees
      // this. Only the greatest index counts, so the loop ends.
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
                 "may use only the State& and their captures");
  }

  // ---------------------------------------------------------------------------------------------------- requests

  template <class F>
  MUSTER_HOT void record_request(group& me, unsigned place, const F& f) noexcept {
    spot& at = me.announced[place];
    // (8) release: pairs with (7). A thread that reads a request of this batch while looking for the previous one then
    // knows, as the writer does, that the head has moved.
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
    State now = state;  // without pointers to it, it can stay in registers
    for (std::size_t i = 0; i < count; ++i) {
      const F f = detail::value_in<F>(&first[i].argument);
      if constexpr (std::is_void_v<result>) {
        call(f, now, workspace);
      } else {
        const auto words = detail::as_words(call(f, now, workspace));
        to.first[i].write_ref() = words[0];
        if constexpr (words.size() == 2) to.second[i].write_ref() = words[1];
      }
    }
    state = now;
  }

  /// The request of load(). It is alone in its batch, and its result takes the whole row.
  static void run_load(State& state, worker, const request*, std::size_t, results to) noexcept {
    image words;
    put_state(state, words.data());
    for (unsigned i = 0; i < state_words; ++i) to.first[i].write_ref() = words[i];
  }

  /// Runs adjacent requests with the same runner in one loop, in which the compiler knows the callable.
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

  /// Announces and executes the requests that this thread's fibers have recorded.
  void finish_recorded(group& me) noexcept {
    const detail::stay here(me);
    const unsigned count = std::exchange(me.count, 0U);
    const results own = row(me.index, me.index);  // this thread's row; it reads no results now
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
      p.result[0] = there.first[i].read_ref();
      if (p.has_two_words) p.result[1] = there.second[i].read_ref();
      p.done = true;
    }
  }

  // ---------------------------------------------------------------------------------------------------- attempts

  // An attempt reads the head, copies the current record, executes announced batches on the copy, and makes the copy
  // current with a compare-exchange. It fails if another thread has changed the head since.
  //
  // Case (1): an announced batch has been executed when two attempts of its owner have failed. Both attempts saw the
  //   head move. The second started from a head that was installed after the first had started, hence after the toggle.
  //   The thread that replaced that head had read it, and then the toggles. So it saw the owner's toggle and executed
  //   the batch, and every later record says so. "After" spans two variables here, as in Dekker's algorithm: the owner
  //   toggles and then reads an old head; the other reads the new head and then the toggles. Hence these operations are
  //   seq_cst: (3, 1, 4). The owner's read of the head precedes the other thread's in the single total order of these
  //   operations, because it returns an older value. The loads are plain on x86-64.
  // Case (2): a failed attempt may have read a mixture: the owner of the record may be refilling it, or the owner of
  //   the requests recording new ones. Each does so only after it has seen a newer head, and stores with release (6,
  //   8). A reader of such a word acquires that knowledge (5, 7), so its next read of the head does not return the old
  //   one. No copy is used and no request called before that read. Each word is read with acquire, and there is no
  //   fence. That costs nothing on x86-64, is understood by the thread sanitizer, and keeps fences off this path.
  // Case (3): after two failed attempts the owner must find its results, although it may never read a whole record
  //   before it changes. It need not: every record, from the one that executed the batch until the owner's next
  //   announcement, holds the same name in the owner's 16 bits. The record that the head names may be refilled during
  //   the read. But the refilling attempt started at that head or later, so it writes the same name.
  // Case (4): results are plain data. A thread fills its row for q only after seeing, at a current head, that q has
  //   announced a batch not yet executed. By then q has read its previous results, perhaps from this very row, and
  //   reads this row next only if the attempt succeeds.

  /// Starts an attempt. Returns false if the attempt could not succeed.
  MUSTER_HOT bool look(group& me, sight& s) const noexcept {
    // (1) seq_cst: pairs with (2), and in case (1) with itself. The record is as it was when the head came to name it,
    // or newer.
    s.head = head_.load(std::memory_order_seq_cst);
    // (10) seq_cst: pairs with (9).
    s.extent = extent_.load(std::memory_order_seq_cst);
    if (s.head == me.copied.read_ref()) return true;  // words beyond those copied are zero in copy and record
    const unsigned used = words_for(s.extent);
    const word* const from = record(s.head);
    std::uint64_t* const copy = me.copy.get();
    // (5) acquire: pairs with (6). See case (2).
    for (unsigned i = 0; i < used; ++i) copy[i] = from[i].load(std::memory_order_acquire);
    const bool is_whole = is_current(s.head);
    me.copied.write_ref() = is_whole ? s.head : 0;
    return is_whole;
  }

  /// Returns true if the current record has not changed. If so, everything read since look() was consistent.
  MUSTER_HOT bool is_current(std::uint64_t head) const noexcept {
    // Relaxed: (5) and (7) come before. See case (2).
    return head_.load(std::memory_order_relaxed) == head;
  }

  /// Executes announced batches on `state`. Returns false if the attempt can no longer succeed.
  MUSTER_HOT bool execute_announced(group& me, const sight& s, State& state) noexcept {
    for (unsigned first = 0; first < s.extent; first += 64) {
      const unsigned here = s.extent - first;
      // Threads beyond the extent came later; later attempts see them.
      const std::uint64_t counted = here < 64 ? (std::uint64_t{1} << here) - 1 : ~std::uint64_t{0};
      // (4) seq_cst: pairs with (3). See case (1). The thread's announced requests are visible.
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
    const spot* const announced = places_[of].read_ref().announced;
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

  /// Executes announced batches, then own(state), and makes the new state the current record. Returns false, without
  /// effect, if another thread was faster.
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
    // (6) release: pairs with (5). A thread that reads a word of this record while reading the previous one then knows,
    // as the writer does, that the head has moved.
    for (unsigned i = 0; i < used; ++i) to[i].store(copy[i], std::memory_order_release);
    const std::uint64_t head = ((s.head >> index_bits_) + 1) << index_bits_ | (2 * me.index + me.filling);
    std::uint64_t seen = s.head;
    // (2) release: pairs with (1, 11, 12). The record and the results that it names are complete.
    if (!head_.compare_exchange_strong(seen, head, std::memory_order_release, std::memory_order_relaxed)) {
      if constexpr (works) me.workspace.abort();
      return false;
    }
    if constexpr (works) me.workspace.commit();
    me.copied.write_ref() = head;
    me.filling ^= 1;
    return true;
  }

  /// Executes own(state) without announcing it. Returns false if it had no effect.
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

  /// Announces the first `count` recorded requests. Returns their results, which stay until the next announcement.
  MUSTER_COLD results announce(group& me, unsigned count) noexcept {
    const execution now(me);
    if (count < batch_) me.announced[count].run.store({}, std::memory_order_release);  // (8)
    const std::uint64_t bit = bit_of(me.index);
    me.toggle = !me.toggle;
    // (3) seq_cst: pairs with (4). See case (1). It flips this thread's bit and no other. As in the paper, an addition
    // that has no carry does that.
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
  const unsigned record_words_;  // with all threads
  const unsigned index_bits_;
  detail::per_thread<group> groups_;
  std::unique_ptr<sync::cell<places>[]> places_;  // of each thread, and of the first record
  detail::isolated_array<word> first_;            // holds the initial state
  detail::isolated_array<word> toggles_;          // a bit per thread, flipped by the thread for each batch

  // The current record: its index in the low bits, above it a count of records so far. A thread refills a record only
  // after another of its records has been current, so an unchanged word means an unchanged record. The count wraps
  // around. With 64 threads it has 56 bits. At 50 million batches a second, the rate at which a line moves between
  // cores, it wraps around after 45 years; with 1024 threads, after 3 years. To be misled, a thread would have to stop
  // in the middle of an attempt for exactly that many batches.
  alignas(isolation_size) word head_;
  // Every thread that has used the object has an index below this. It never falls.
  alignas(isolation_size) sync::atomic<unsigned> extent_{0};
};

}  // namespace muster::inline MUSTER_ABI
