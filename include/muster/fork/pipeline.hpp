// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pipeline.hpp: stages that a stream of items passes, several items at a time.
//
// Order      a serial stage gets the items one at a time, in the order in which the first stage has returned them; a
//            parallel stage gets any number at a time.
// Bound      at most pipeline_options::in_flight items are between the first stage and the end of the last.
// Threads    a run executes stages on the calling thread and on idle workers of the pool. No thread waits for the turn
//            of an item: the item waits, and the thread that ends the turn before it gives it to the pool. One thread
//            at a time may run a pipeline; a second run meanwhile is an error.
// Exceptions run() rethrows the exception of the earliest item, so it is the one of a loop that does the same. Items
//            before it pass all stages. Later items are destroyed, and the first stage is not called any more.
// Stopping   once a stop is requested, the first stage is not called any more; the items under way pass all stages.
// Waiting    run() executes stages of the pipeline, and parts of stages that others execute. So stages may fork, and
//            run graphs and other pipelines, in a pool of one worker too.
// Memory     allocated by the constructor: a place for each item in flight, and a pointer for each at serial stages. A
//            run allocates nothing, except the first of a thread in a pool.
// Cost       O(1) for each item and stage. A parallel stage has no read-modify-write, a serial one has at most two
//            exchanges; the first stage takes a lock twice. An item that another thread may take costs three turns of
//            locks and a full fence, and a futex call if a worker must be woken. Construction: O(in_flight) for each
//            serial stage.
// Source     the tokens of oneTBB's parallel_pipeline, after "Structured Parallel Programming" (McCool, Robison,
//            Reinders, 2012), chapter 9; our turns need no lock.
#pragma once

#include <muster/base/detail/exception.hpp>      // capture_exception
#include <muster/base/detail/shared_object.hpp>  // pin_once
#include <muster/fork/detail/call.hpp>           // invoke
#include <muster/fork/detail/injector.hpp>       // injected
#include <muster/fork/detail/joint_tasks.hpp>    // joint_tasks
#include <muster/fork/detail/one_run.hpp>        // one_run
#include <muster/fork/detail/parking.hpp>        // spin_lock
#include <muster/fork/detail/scheduler.hpp>      // worker
#include <muster/fork/detail/serial_gate.hpp>    // serial_gate
#include <muster/fork/pool.hpp>                  // broken_promise, pool

#include <algorithm>    // std::max
#include <array>        // stages by number
#include <concepts>     // std::invocable
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <exception>    // std::exception_ptr
#include <memory>       // std::destroy_at, gates
#include <mutex>        // std::lock_guard
#include <new>          // std::launder
#include <optional>     // tokens
#include <stdexcept>    // std::invalid_argument
#include <stop_token>   // std::stop_token
#include <tuple>        // stages
#include <type_traits>  // std::decay_t
#include <utility>      // std::forward

namespace muster::inline MUSTER_ABI {

/// Options of a pipeline.
struct pipeline_options {
  std::size_t in_flight = 0;  ///< items under way at a time; 0: four for each worker of the pool
};

namespace detail {

template <class F, bool Serial>
struct pipeline_stage {
  using function_type = F;
  static constexpr bool is_serial = Serial;
  F function;
};

template <class T>
constexpr bool is_pipeline_stage = false;
template <class F, bool Serial>
constexpr bool is_pipeline_stage<pipeline_stage<F, Serial>> = true;

/// The items that stage number `Index` gets.
template <std::size_t Index, class Stages>
struct stage_input {
  using function = typename std::tuple_element_t<Index - 1, Stages>::function_type;
  using before = typename stage_input<Index - 1, Stages>::type;
  static_assert(std::invocable<function&, before>,
                "a stage of the pipeline cannot be called with what the stage before returns");
  using result = std::invoke_result_t<function&, before>;
  static_assert(!std::is_void_v<result>,
                "a stage of the pipeline returns nothing, and another stage follows: return the item for it");
  using type = std::decay_t<result>;
};
template <class Stages>
struct stage_input<1, Stages> {
  using function = typename std::tuple_element_t<0, Stages>::function_type;
  static_assert(std::invocable<function&>, "the first stage of a pipeline takes a function without arguments");
  using result = std::invoke_result_t<function&>;
  static_assert(!std::is_pointer_v<result> && std::constructible_from<bool, result&>,
                "the first stage of a pipeline returns a std::optional, which is empty at the end of the stream");
  using type = std::decay_t<decltype(*std::declval<result&>())>;
};

/// The size and alignment of the place of an item, which holds the inputs of all stages in turn.
template <class Stages, class Sequence>
struct stage_inputs;
template <class Stages, std::size_t... Index>
struct stage_inputs<Stages, std::index_sequence<Index...>> {
  static constexpr std::size_t size = std::max({sizeof(typename stage_input<Index + 1, Stages>::type)...});
  static constexpr std::size_t alignment = std::max({alignof(typename stage_input<Index + 1, Stages>::type)...});
};

}  // namespace detail

/// A stage that gets one item at a time, in their order.
template <class F>
detail::pipeline_stage<std::decay_t<F>, true> serial(F&& function) {
  return {std::forward<F>(function)};
}
/// A stage that gets several items at a time.
template <class F>
detail::pipeline_stage<std::decay_t<F>, false> parallel(F&& function) {
  return {std::forward<F>(function)};
}

/// The first stage is serial; it takes nothing, and returns a std::optional that is empty at the end of the stream.
/// Each other stage takes what the stage before has returned, as an rvalue. The last one's results are dropped.
template <class... Stages>
class [[nodiscard]] pipeline {
  static_assert((detail::is_pipeline_stage<Stages> && ...),
                "the stages of a pipeline are muster::serial(function) and muster::parallel(function)");
  static_assert(sizeof...(Stages) >= 2, "a pipeline has at least two stages");
  using stages = std::tuple<Stages...>;
  static constexpr std::size_t many = sizeof...(Stages);
  template <std::size_t Index>
  using input = typename detail::stage_input<Index, stages>::type;
  using room = detail::stage_inputs<stages, std::make_index_sequence<many - 1>>;
  static_assert(std::tuple_element_t<0, stages>::is_serial,
                "the first stage of a pipeline is serial: it decides the order of the items");

 public:
  /// The pool must outlive the runs. Throws std::bad_alloc.
  explicit pipeline(pool& in, Stages... all) : pipeline(in, pipeline_options(), std::move(all)...) {}
  pipeline(pool& in, const pipeline_options& options, Stages... all)
      : pool_(in),
        most_(options.in_flight == 0 ? std::size_t{4} * in.workers() : options.in_flight),
        stages_(std::move(all)...),
        tokens_(new token_slot[most_]) {
    // Threads of the pool may still be in this code when the pipeline has ended.
    pin_once<pipeline>(&run_token);
    make_gates(std::make_index_sequence<many>());
    for (std::size_t i = 0; i < most_; ++i) release(tokens_[i].emplace(*this));
  }
  /// The pipeline must not be running.
  ~pipeline() {
    MUSTER_CHECK(!runs_.is_running(), "pipeline::~pipeline: the pipeline is running: end it when run() has returned");
  }
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;

  /// The most items under way at a time.
  std::size_t in_flight() const noexcept { return most_; }

  /// Calls the first stage until the stream ends, and passes its items through the others. Returns when all have left
  /// the last stage. May be called again.
  void run(std::stop_token stop = {}) {
    pool_.core_.refuse_in_child();
    const detail::one_run::scope here(
        runs_, "pipeline::run: the pipeline is running already; wait until that run has ended, or use a second one");
    pool_.run([&] {
      stop_ = std::move(stop);
      failed_.store(none, std::memory_order_relaxed);
      ended_ = false;
      taken_ = true;
      token& first = *std::exchange(free_, free_->next);
      first.has_turn = true;
      tasks_.count.begin();
      detail::worker::current()->execute_injected(first);
      tasks_.await(pool_.core_);
      stop_ = {};
    });
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  /// Then a thread of the pool looks for other work as well.
  static constexpr unsigned most_tokens_of_a_call = 64;

  /// The place of an item under way.
  struct token final : detail::injected {
    explicit token(pipeline& in) noexcept : injected(&run_token, &drop_token, &in) {}
    template <std::size_t Index>
    input<Index>& item() noexcept {
      return *std::launder(reinterpret_cast<input<Index>*>(bytes));
    }
    std::uint64_t number = 0;  // of the item
    std::size_t stage = 0;     // that comes next
    bool has_turn = false;     // of that stage, if it is serial
    bool has_item = false;     // for that stage; false if it was destroyed because of an exception
    token* next = nullptr;     // in a list of free tokens, or of tokens that the thread executes later
    alignas(room::alignment) std::byte bytes[room::size];
  };
  /// A token cannot be moved, and an array of them needs a default constructor.
  class token_slot {
   public:
    token& emplace(pipeline& in) { return one_.emplace(in); }

   private:
    std::optional<token> one_;
  };
  using gate = detail::serial_gate<token>;

  template <std::size_t... Index>
  void make_gates(std::index_sequence<Index...>) {
    (make_gate<Index>(), ...);
  }
  template <std::size_t Index>
  void make_gate() {
    if constexpr (Index != 0 && std::tuple_element_t<Index, stages>::is_serial) gates_[Index].reset(new gate(most_));
  }

  /// A step of a token: the next stage. Returns false if the token waits or is free: then the caller must not touch it.
  /// `later`: tokens that the caller executes afterwards.
  template <std::size_t Index>
  static bool step(pipeline& here, token& one, token*& later) noexcept {
    if constexpr (Index == 0) return here.call_first(one, later);
    else return here.template call<Index>(one, later);
  }
  bool call_first(token& one, token*& later) noexcept {
    if (!std::exchange(one.has_turn, false)) {
      const std::lock_guard lock(lock_);
      if (taken_ || ended_) return release(one), false;
      taken_ = true;
    }
    make_item(one);
    token* other = nullptr;
    {
      const std::lock_guard lock(lock_);
      if (!one.has_item) {
        ended_ = true;
        return release(one), false;
      }
      other = free_;
      taken_ = other != nullptr;
      if (taken_) free_ = other->next;
    }
    if (other != nullptr) give(*other, later);
    one.stage = 1;
    return true;
  }
  /// By the thread that has the turn of the first stage.
  void make_item(token& one) noexcept {
    if (stop_.stop_requested() || failed_.load(std::memory_order_relaxed) != none) return;
    try {
      auto made = std::get<0>(stages_).function();
      if (!made) return;
      ::new (static_cast<void*>(one.bytes)) input<1>(*std::move(made));
      one.has_item = true;
      one.number = items_++;
    } catch (...) {
      note(items_, detail::capture_exception());
    }
  }
  template <std::size_t Index>
  bool call(token& one, token*& later) noexcept {
    constexpr bool is_serial = std::tuple_element_t<Index, stages>::is_serial;
    if constexpr (is_serial)
      if (!std::exchange(one.has_turn, false) && !gates_[Index]->enter(one, one.number)) return false;
    if (one.has_item) call_with_item<Index>(one);
    if constexpr (is_serial)
      if (token* const next = gates_[Index]->leave(one.number); next != nullptr) give(*next, later);
    one.stage = (Index + 1) % many;
    return true;
  }
  template <std::size_t Index>
  void call_with_item(token& one) noexcept {
    auto& function = std::get<Index>(stages_).function;
    input<Index>& item = one.template item<Index>();
    one.has_item = false;
    // Its own number: its pool has ended.
    if (one.number >= failed_.load(std::memory_order_relaxed)) return std::destroy_at(std::addressof(item));
    /// Destroys the item when the function has ended, and before the next is made in its place.
    struct ending {
      input<Index>& item;
      ~ending() { std::destroy_at(std::addressof(item)); }
    };
    try {
      if constexpr (Index + 1 == many) {
        static_assert(std::invocable<decltype(function), input<Index>>,
                      "the last stage of the pipeline cannot be called with what the stage before returns");
        const ending last{item};
        static_cast<void>(detail::invoke(function, std::move(item)));
      } else {
        input<Index + 1> made = [&]() -> input<Index + 1> {
          const ending last{item};
          return detail::invoke(function, std::move(item));
        }();
        ::new (static_cast<void*>(one.bytes)) input<Index + 1>(std::move(made));
        one.has_item = true;
      }
    } catch (...) {
      note(one.number, detail::capture_exception());
    }
  }

  /// Gives a token its turn: to another thread, or, if the pool is ending, to the caller.
  void give(token& one, token*& later) noexcept {
    one.has_turn = true;
    if (tasks_.share(pool_.core_, one)) return;
    tasks_.count.end(nullptr);  // the caller's own task has not ended
    one.next = std::exchange(later, &one);
  }
  /// Under the lock, but for the constructor.
  void release(token& one) noexcept { one.next = std::exchange(free_, &one); }

  /// Keeps the exception of the earliest item.
  void note(std::uint64_t number, std::exception_ptr error) noexcept {
    const std::lock_guard lock(lock_);
    if (failed_.load(std::memory_order_relaxed) <= number) return;
    failed_.store(number, std::memory_order_relaxed);
    std::swap(error_, error);
  }

  static void run_token(detail::injected& of) noexcept {
    auto& one = static_cast<token&>(of);
    pipeline_of(one).execute(one, most_tokens_of_a_call);
  }
  static void drop_token(detail::injected& of) noexcept {
    auto& one = static_cast<token&>(of);
    pipeline& here = pipeline_of(one);
    // This thread is not in the pool: this item and all later ones are destroyed, and the first stage is not called.
    here.note(one.stage == 0 ? here.items_ : one.number, std::make_exception_ptr(broken_promise()));
    here.execute(one, 1);
  }
  /// Executes the token, and tokens that it leaves to this thread; then others that no thread has begun, `most` in all.
  void execute(token& first, unsigned most) noexcept {
    static constexpr auto steps = []<std::size_t... Index>(std::index_sequence<Index...>) {
      return std::array{&step<Index>...};
    }(std::make_index_sequence<many>());
    token* later = nullptr;
    unsigned tasks = 0;
    for (token* one = &first; one != nullptr;) {
      while (steps[one->stage](*this, *one, later)) {
      }
      one = later;
      if (one != nullptr) later = one->next;
      else if (++tasks != most) one = static_cast<token*>(tasks_.take_another(pool_.core_));
    }
    tasks_.count.end(nullptr, tasks);
  }
  static pipeline& pipeline_of(const detail::injected& one) noexcept {
    return *const_cast<pipeline*>(static_cast<const pipeline*>(one.of()));
  }

  pool& pool_;
  const std::size_t most_;
  stages stages_;
  std::array<std::unique_ptr<gate>, many> gates_;  // of the serial stages, but for the first
  const std::unique_ptr<token_slot[]> tokens_;

  detail::one_run runs_;
  std::stop_token stop_;                      // of the run
  detail::joint_tasks tasks_{this};           // tokens that threads execute
  std::uint64_t items_ = 0;                   // of all runs; of the thread that has the turn of the first stage
  sync::atomic<std::uint64_t> failed_{none};  // the earliest item with an exception; changed under the lock
  detail::spin_lock lock_;
  token* free_ = nullptr;  // tokens without items; under the lock, as everything below
  bool taken_ = false;     // a thread has the turn of the first stage
  bool ended_ = false;     // the first stage is not called any more in this run
  std::exception_ptr error_;
};

template <class... Stages>
pipeline(pool&, Stages...) -> pipeline<Stages...>;
template <class... Stages>
pipeline(pool&, pipeline_options, Stages...) -> pipeline<Stages...>;

}  // namespace muster::inline MUSTER_ABI
