// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// engine.hpp: runs one execution of a program whose threads are fibers. Before each operation that another thread can
// observe, the scheduler decides which thread runs; it also decides where the memory model leaves a choice.
//
// The program    uses model::atomic, model::cell and the rest of sync.hpp, spawn(), join() and require(). It must be
//                deterministic but for these: no clocks, no addresses as values, no other threads.
// Failures       end the execution at once; fibers are abandoned without unwinding. So the heap (heap.hpp) frees the
//                program's memory, and objects on the fibers' stacks are not destroyed.
#pragma once

#include "checker/heap.hpp"
#include "checker/mutation.hpp"
#include "checker/scheduler.hpp"
#include "checker/views.hpp"

#include <muster/base/detail/thread_state.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster_model {

using where = std::source_location;

/// One step of the last execution, for traces.
struct step {
  std::uint64_t number = 0;
  unsigned thread = 0;
  const char* what = "";
  int location = -1;
  std::uint64_t value = 0;    // read, or written
  std::uint64_t written = 0;  // by a read-modify-write
  int read_from = -1;         // the step that made the value; 0: the start
  bool stale = false;         // there was a newer store
  order ordering = order::relaxed;
  where site;
};

class engine {
 public:
  engine();
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// The engine whose program is running. There is at most one.
  static engine& running();
  static bool is_running();

  /// Runs the program once. Returns an empty string, or what went wrong.
  std::string execute(scheduler& decisions, const std::function<void()>& program);

  void trace_steps(bool on) { tracing_ = on; }
  const std::vector<step>& trace() const { return trace_; }
  std::uint64_t steps() const { return steps_; }
  /// The most steps that each thread needed between begin_operation() and end_operation(), in all executions so far.
  const std::array<std::uint64_t, most_threads>& longest_operations() const { return longest_operations_; }

  /// One operation of the program is not what it says. Null: none.
  void mutate(const mutation* m);
  void collect_sites(std::vector<operation_site>* into) { sites_ = into; }

  // ------------------------------------------------------------------------------------------------ for the program
  unsigned spawn(std::function<void()> body);
  bool join(unsigned thread);  // false: the thread has stopped forever
  /// Returns true if a thread has stopped forever. All that it did then happens before the return.
  bool has_stopped(unsigned thread);
  [[noreturn]] void fail(const std::string& why);
  /// Of a cell. A thread that does nothing else for long is taken to be caught in a loop.
  void plain_access() {
    if (++plain_accesses_ > 100'000) fail("a loop that never ends, in which no atomic operation stands");
    may_be_stopped();
  }
  unsigned current() const { return current_; }
  const void*& innermost() { return threads_[current_].innermost; }
  muster::detail::siblings*& siblings() { return threads_[current_].siblings; }
  template <class T>
  T& own() {
    std::vector<std::pair<const void*, std::shared_ptr<void>>>& all = threads_[current_].own;
    for (const auto& [type, one] : all)
      if (type == &type_of<T>) return *static_cast<T*>(one.get());
    const heap::untracked aside;
    return *static_cast<T*>(all.emplace_back(&type_of<T>, std::make_shared<T>()).second.get());
  }
  std::uint64_t new_object_id() { return ++identities_; }
  /// A T that is never destroyed; its memory is given back when the next execution begins.
  template <class T>
  T& keep_to_the_end() {
    const heap::untracked aside;
    const std::shared_ptr<void> memory(::operator new(sizeof(T)), [](void* p) { ::operator delete(p); });
    kept_to_the_end_.push_back(memory);
    return *new (memory.get()) T;
  }
  void* cached_part(std::uint64_t identity) const {
    const auto& [kept, part] = threads_[current_].kept[identity % kept_parts];
    return kept == identity ? part : nullptr;
  }
  void cache_part(std::uint64_t identity, void* part) {
    threads_[current_].kept[identity % kept_parts] = {identity, part};
  }
  knowledge& known() { return threads_[current_].known; }
  /// Interrupts a thread as a signal does, at its next step or one of the 16 after it: the thread calls `handler` and
  /// then continues. A thread that waits, or begins to, calls it at once; a sleeping one after it is woken. Has no
  /// effect while an earlier interrupt is pending. The caller's operations do not happen before the handler. Only in a
  /// search with a bound on preemptions; one without would miss executions.
  void interrupt(unsigned thread, const std::function<void()>& handler);
  /// The calling thread may be stopped here too, between two operations.
  void may_be_stopped() {
    if (threads_[current_].handler) is_stopped();
  }
  void begin_operation();
  void end_operation();
  bool abandoned() const { return abandoned_; }
  /// Returns true if an operation of this execution has not read the newest store.
  bool was_stale() const { return was_stale_; }

  // ------------------------------------------------------------------------------------------------- for the seam
  unsigned add_location(std::uint64_t value);
  void end_location(unsigned l);
  std::uint64_t load(unsigned l, order o, const where& site);
  void store(unsigned l, std::uint64_t value, order o, const where& site);
  std::uint64_t modify(unsigned l, order o, const where& site, const char* what,
                       const std::function<std::uint64_t(std::uint64_t)>& change);
  bool compare_exchange(unsigned l, std::uint64_t& expected, std::uint64_t desired, order success, order failure,
                        bool weak, const where& site);
  void fence(order o, const where& site);
  void heavy_fence(const where& site);
  void spin(const where& site);  // the same reads again would give the same answer: wait until they would not
  enum class woken { by_wake, by_time, not_asleep };
  struct futex {
    unsigned location;
    std::uint64_t expected;
    std::uint32_t bits;
  };
  /// As the kernel does: lets itself be woken by one after the other, looking at its value, and then sleeps.
  woken futex_wait(std::span<const futex> words, bool timed, const where& site);
  static constexpr std::size_t most_futexes = 8;
  unsigned futex_wake(unsigned l, unsigned most, std::uint32_t bits, const where& site);

  void run_thread();  // for the fibers only

  /// The limit of steps of one execution; a program that needs more is taken to be caught in a loop.
  void limit_steps(std::uint64_t most) { most_steps_ = most; }
  /// One thread may stop forever before any of its operations; −1: none.
  void freeze(int thread) { freezable_ = thread; }

 private:
  /// The last value that a waiting thread has read of a location. Two looks are equal if their values are.
  struct looked {
    unsigned location;
    std::uint64_t value;
    std::uint32_t stamp;
    bool operator==(const looked& other) const { return location == other.location && value == other.value; }
  };
  static constexpr std::size_t kept_parts = 4;
  template <class T>
  static inline char type_of = 0;
  struct fiber {
    knowledge known;
    const void* innermost = nullptr;
    muster::detail::siblings* siblings = nullptr;
    std::array<std::pair<std::uint64_t, void*>, kept_parts> kept{};  // parts of objects, by their identities
    std::vector<std::pair<const void*, std::shared_ptr<void>>> own;  // with the address of type_of<T>
    std::function<void()> body;
    void* context = nullptr;
    pending next;    // the operation it is about to execute
    int joins = -1;  // waits for this thread to end
    bool sleeps = false;
    std::array<futex, most_futexes> futexes{};
    unsigned can_wake = 0;  // the number of futexes in use
    bool timed = false;
    bool done = false;
    bool frozen = false;
    bool spinning = false;                  // until another thread writes a location that it has read
    std::vector<looked> reads, last_reads;  // since the last spin()
    bool reads_differ = false;              // of one location
    std::function<void()> handler;          // of a signal
    unsigned handler_in = 0;                // steps until it is called
    bool in_handler = false;
    std::uint64_t operation_steps = 0;
    std::vector<std::pair<unsigned, std::uint64_t>> last_values;  // for mutations: what this operation has loaded
  };
  class stacks;

  bool can_run(const fiber& t) const;
  thread_set runnable_threads() const;
  [[noreturn]] void leave();
  void schedule();
  void point(pending next);
  bool is_stopped();
  [[noreturn]] void stuck();
  void remember_read(unsigned l, std::size_t index);
  void wake_spinners(unsigned l, std::uint64_t before, std::uint64_t now);
  void check_location(unsigned l);
  order begin(pending::kind kind, unsigned l, order o, const where& site, const char* what);
  bool is_mutated(const where& site, mutation::kind what) const;
  order weakened(order o, const where& site, mutation::kind what = mutation::kind::weaker) const;
  void collect(const where& site, const char* what, order o, order failure = order::relaxed, bool rereads = false);
  std::uint64_t* last_value(unsigned l);
  void record(const char* what, unsigned l, const where& site, order o, std::uint64_t value, std::uint64_t written,
              int from, bool stale);
  void took_stale();
  std::size_t pick_store(unsigned l, std::size_t oldest, bool for_change);

  scheduler* decisions_ = nullptr;
  memory memory_;
  std::vector<fiber> threads_;
  unsigned current_ = 0;
  void* outside_ = nullptr;
  std::unique_ptr<stacks> stacks_;
  std::string failure_;
  std::uint64_t steps_ = 0;
  std::uint64_t identities_ = 0;
  std::vector<std::shared_ptr<void>> kept_to_the_end_;
  std::uint64_t plain_accesses_ = 0;  // since the last step
  std::uint64_t most_steps_ = 5000;
  std::array<std::uint64_t, most_threads> longest_operations_{};
  static constexpr unsigned most_timeouts = 2;  // that happen while others could run
  unsigned timeouts_left_ = most_timeouts;
  static constexpr unsigned most_spurious = 1;  // failures of weak compare-exchanges for nothing
  unsigned spurious_left_ = most_spurious;
  bool abandoned_ = false;
  bool was_stale_ = false;
  int freezable_ = -1;
  bool tracing_ = false;
  std::vector<step> trace_;
  const mutation* mutation_ = nullptr;
  std::vector<operation_site>* sites_ = nullptr;
};

/// The features of the modelled machine.
struct machine {
  bool asymmetric_fences = true;
};
inline machine& settings() {
  static machine one;
  return one;
}

/// In a program: starts a thread, waits for its end (below), and ends the execution with a failure.
template <class Body>
unsigned spawn(Body&& body) {
  const heap::untracked aside;
  return engine::running().spawn(std::function<void()>(std::forward<Body>(body)));
}
/// Returns false if the thread has stopped forever.
inline bool join(unsigned thread) { return engine::running().join(thread); }
/// Runs each body in a thread of its own, and waits for all of them.
template <class... Bodies>
void parallel(Bodies... bodies) {
  const unsigned threads[] = {spawn(bodies)...};
  for (const unsigned t : threads) join(t);
}
inline void require(bool condition, const char* what) {
  if (!condition) engine::running().fail(what);
}

}  // namespace muster_model
