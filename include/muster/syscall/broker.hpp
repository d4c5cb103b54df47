// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// broker.hpp: the threads that make the system calls of a sandbox's inside, as far as its policy allows them.
//
// Order      calls begin in the order of their requests; with several threads they may overlap.
// Progress   one thread per inside serves the next request as soon as the last is done. A call that waits for the
//            network occupies a thread: give a sandbox more of them if it is to compute meanwhile.
// Hostile    A request is copied once and judged by the copy. The broker has no address through which it could read
//            anything twice: a ring returns copies, slots are only written, and data goes to the kernel. Nothing that
//            it decides by is writable by the inside: claims, the client's files, sizes, counters. No loop depends on a
//            word of the inside, no wait for it exceeds a second, and none waits for room. The broker reports how much
//            processor time its threads have used, which counts against the policy's limit.
// Idle       threads without requests sleep and check once a second. A request wakes one of them.
// Cost       a request: one compare-exchange to claim it, O(rules) comparisons for a path, the kernel's calls, and a
//            full fence for the answer; a futex call if the inside sleeps.
// Source     Arnautov, Felber, Fetzer and Trach, "FFQ", IPDPS 2017, sections I and V-F: calls travel through a queue to
//            threads that may make them. The protection of the broker is ours.
#pragma once

#include <muster/base/arch.hpp>                     // cycles, isolation_size
#include <muster/base/detail/exception.hpp>         // capture_exception
#include <muster/base/detail/time.hpp>              // the time to sleep
#include <muster/syscall/detail/allowed_calls.hpp>  // allowed_calls
#include <muster/syscall/detail/arena.hpp>          // arena_map
#include <muster/syscall/detail/refusal_log.hpp>    // refusal_log

#include <pthread.h>  // pthread_getcpuclockid
#include <sched.h>    // sched_getcpu

#include <array>       // counters
#include <csignal>     // pthread_sigmask
#include <cstdint>     // std::uint64_t
#include <ctime>       // processor time
#include <functional>  // std::function
#include <memory>      // std::unique_ptr
#include <new>         // std::bad_alloc
#include <optional>    // a request
#include <thread>      // the threads
#include <utility>     // std::move
#include <vector>      // threads

namespace muster::inline MUSTER_ABI {

/// The calls of an inside so far, and their cost.
struct sandbox_usage {
  /// The calls of one kind.
  struct of_call {
    const char* name = "";     ///< as in docs/contracts/syscall.md
    std::uint64_t calls = 0;   ///< how many
    std::uint64_t cycles = 0;  ///< of the processor's counter, within the broker
  };
  std::uint64_t calls = 0;       ///< of all kinds
  std::uint64_t refusals = 0;    ///< calls that the policy does not allow
  std::uint64_t bytes_in = 0;    ///< returned to the inside
  std::uint64_t bytes_out = 0;   ///< written by the inside
  std::vector<of_call> by_call;  ///< the calls that were made
};

namespace detail {

/// The processor on which the caller runs, plus one; 0 if the system does not tell.
inline std::uint32_t processor_now() noexcept { return static_cast<std::uint32_t>(::sched_getcpu() + 1); }

/// While this exists, threads created by its thread receive no signals except their own faults: signals are for the
/// program's own threads.
class without_signals {
 public:
  without_signals() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) ::sigdelset(&all, fault);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~without_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  without_signals(const without_signals&) = delete;
  without_signals& operator=(const without_signals&) = delete;

 private:
  sigset_t before_{};
};

class broker {
 public:
  struct options {
    unsigned threads = 1;
    bool lend_standard_streams = false;
    refusal_log::listener on_refusal;
    std::function<void()> kill;  // ends the inside; for policies that demand it
  };

  /// The inside prepares the ring before serve() is called.
  broker(const policy& rules, const arena_map& at, options how)
      : decode_({at.data(), at.plan().data_bytes()}, at.plan().calls),
        carry_out_(rules, {at.data(), at.plan().data_bytes()}, how.lend_standard_streams),
        requests_(at.cells(), at.plan().cells()),
        answers_(at.slots(), at.plan().calls),
        to_broker_(at.head().to_broker),
        to_inside_(at.head().to_inside),
        kills_(rules.on_refusal() == policy::refusal::kill),
        log_(std::move(how.on_refusal)),
        kill_(std::move(how.kill)),
        counters_(std::make_unique<counters[]>(how.threads)),
        many_(how.threads) {}
  broker(const broker&) = delete;
  broker& operator=(const broker&) = delete;
  ~broker() {
    if (!threads_.empty()) stop();  // in a child of fork(2), interrupt() would reach the program's broker
  }

  /// Begins to serve. Throws std::system_error if no thread can be created.
  void start() {
    const without_signals here;
    threads_.reserve(many_);
    for (unsigned i = 0; i < many_; ++i) threads_.emplace_back([this, i] { serve(counters_[i]); });
  }
  /// Returns when calls in flight have finished or been interrupted. The inside gets no more answers.
  void stop() noexcept {
    // Relaxed: the threads check at least once a second.
    over_.store(true, std::memory_order_relaxed);
    carry_out_.interrupt();
    to_broker_.wake();
    for (std::thread& one : threads_) one.join();
    threads_.clear();
  }

  /// Answers the next request on the caller's thread; returns false if there is none. For tests, instead of start().
  bool serve_next() {
    const auto request = requests_.try_pop();
    if (request) answer_one(*request, counters_[0], cycles());
    return request.has_value();
  }

  /// For a child of fork(2), which has none of the threads.
  void abandon() noexcept {
    for (std::thread& one : threads_) one.detach();
    threads_.clear();
  }

  /// The processor time that the threads have used so far, also within calls that have not ended. May be called by any
  /// thread until stop() is.
  std::chrono::nanoseconds processor_time() const noexcept {
    std::chrono::nanoseconds all{0};
    for (unsigned i = 0; i < many_; ++i) {
      // (1) acquire: pairs with (2).
      const clockid_t clock = counters_[i].clock.load(std::memory_order_acquire);
      timespec used{};
      if (clock != no_clock && ::clock_gettime(clock, &used) == 0)
        all += std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
    }
    return all;
  }

  /// May be called at any time. A call is counted before its caller has the answer.
  sandbox_usage usage() const {
    sandbox_usage sum;
    std::array<sandbox_usage::of_call, sandbox_calls> all{};
    for (unsigned i = 0; i < many_; ++i) {
      const counters& one = counters_[i];
      for (std::uint32_t c = 0; c < sandbox_calls; ++c) {
        all[c].calls += one.calls[c].load(std::memory_order_relaxed);
        all[c].cycles += one.cycles[c].load(std::memory_order_relaxed);
      }
      sum.refusals += one.refusals.load(std::memory_order_relaxed);
      sum.bytes_in += one.bytes_in.load(std::memory_order_relaxed);
      sum.bytes_out += one.bytes_out.load(std::memory_order_relaxed);
    }
    for (std::uint32_t c = 0; c < sandbox_calls; ++c) {
      if (all[c].calls == 0 || c == static_cast<std::uint32_t>(sandbox_call::refused)) continue;
      all[c].name = name_of(static_cast<sandbox_call>(c));
      sum.calls += all[c].calls;
      sum.by_call.push_back(all[c]);
    }
    return sum;
  }

 private:
  static constexpr clockid_t no_clock = 0;  // the machine's

  // Each written by one thread.
  struct alignas(isolation_size) counters {
    using count = sync::atomic<std::uint64_t>;
    std::array<count, sandbox_calls> calls{}, cycles{};
    count refusals{0}, bytes_in{0}, bytes_out{0};
    sync::atomic<clockid_t> clock{no_clock};  // of the thread's processor time
    static void add(count& to, std::uint64_t more) noexcept {
      to.store(to.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
  };

  void serve(counters& own) {
    clockid_t clock = no_clock;
    if (::pthread_getcpuclockid(::pthread_self(), &clock) == 0) {
      // (2) release: pairs with (1). The clock is that of a thread that runs.
      own.clock.store(clock, std::memory_order_release);
    }
    std::uint64_t now = cycles();
    for (;;) {
      if (over_.load(std::memory_order_relaxed)) return;
      if (const auto request = requests_.try_pop()) {
        if (many_ > 1 && requests_.may_have_one()) to_broker_.wake_next();
        now = answer_one(*request, own, now);
        continue;
      }
      to_broker_.await(
          to_inside_, processor_now(), spins_,
          [this] { return requests_.may_have_one() || over_.load(std::memory_order_relaxed); },
          deadline_clock::now() + std::chrono::seconds(1));
      now = cycles();
    }
  }

  std::uint64_t answer_one(const guarded_consumers<request_words>::numbered& request, counters& own,
                           std::uint64_t since) {
    const decoded_call call = decoded(request.words);
    std::int64_t result = -call.error;
    if (call.error == 0) result = carried_out(call);
    const bool has_slot = answers_.has(call.slot);
    const bool is_refused = result == allowed_calls::not_allowed || !has_slot;
    if (is_refused) result = -EPERM;
    if (is_refused) [[unlikely]]
      counters::add(own.refusals, 1);
    const std::uint64_t now = cycles();
    const auto kind = static_cast<std::size_t>(call.what);
    if (call.error == 0) {
      counters::add(own.calls[kind], 1);
      counters::add(own.cycles[kind], now - since);
    }
    if (result > 0 && call.data.size != 0 && call.what != sandbox_call::poll) {
      const bool writes = call.what == sandbox_call::write || call.what == sandbox_call::pwrite;
      counters::add(writes ? own.bytes_out : own.bytes_in, static_cast<std::uint64_t>(result));
    }
    if (has_slot) {
      answers_.give(call.slot, request.number, result);
      to_inside_.ring();
    }
    if (is_refused) [[unlikely]]
      refused(call);
    return now;
  }

  decoded_call decoded(const raw_request& words) const noexcept try {
    return decode_(words);
  } catch (const std::bad_alloc&) {
    decoded_call none;
    none.slot = static_cast<std::uint32_t>(words[0] >> 32U);
    none.error = ENOMEM;
    return none;
  }
  std::int64_t carried_out(const decoded_call& call) noexcept try {
    return carry_out_(call);
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  MUSTER_COLD void refused(const decoded_call& call) noexcept {
    if (kills_ && kill_) kill_();
    try {
      log_.add(call);
    } catch (...) {  // no memory, or the listener's own: a log must not end the program
      static_cast<void>(capture_exception());
    }
  }

  const decoder decode_;
  allowed_calls carry_out_;
  guarded_consumers<request_words> requests_;
  const guarded_answers answers_;
  doorbell &to_broker_, &to_inside_;
  const bool kills_;
  refusal_log log_;
  const std::function<void()> kill_;
  const std::unique_ptr<counters[]> counters_;
  const unsigned many_;
  spin_extension spins_;  // of all its threads
  sync::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

}  // namespace detail
}  // namespace muster::inline MUSTER_ABI
