// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// team.hpp: runs one function on several threads with several fibers each. While a fiber waits for a team, the other
// fibers of its thread run.
//
// Cost       creates and joins `carriers` threads, and on each `fibers` fibers. No thread is kept for the next call.
#pragma once

#include <muster/base/detail/eventcount.hpp>  // eventcount
#include <muster/base/detail/exception.hpp>   // capture_exception
#include <muster/base/detail/scope_exit.hpp>  // scope_exit
#include <muster/base/parallelism.hpp>        // available_parallelism, pin_this_thread
#include <muster/base/sync.hpp>               // sync::atomic
#include <muster/base/wait.hpp>               // wait::park
#include <muster/fiber/fiber.hpp>             // fiber

#include <exception>  // std::exception_ptr
#include <mutex>      // the first exception
#include <stdexcept>  // std::invalid_argument
#include <string>     // messages
#include <thread>     // the carriers
#include <vector>     // threads and fibers

namespace muster::inline MUSTER_ABI {

/// Options of run_team.
struct team_options {
  unsigned carriers = available_parallelism();  // kernel threads; the caller is not one of them
  unsigned fibers = 16;                         // of each
  bool pin = false;                             // carrier i runs on the i-th processor that this process may use
  /// The stack of each fiber.
  stack_options stack = {};
};

/// Calls body(carrier, fiber) on every fiber of every carrier, and returns when all calls have ended. Throws
/// std::invalid_argument for no carriers or no fibers, std::system_error if threads or stacks cannot be created, and
/// otherwise the first exception of a call; the other calls run to their ends.
template <class Body>
void run_team(const team_options& options, Body&& body) {
  if (options.carriers == 0 || options.fibers == 0)
    throw std::invalid_argument("run_team: carriers is " + std::to_string(options.carriers) + " and fibers is " +
                                std::to_string(options.fibers) + "; both must be at least 1");
  std::mutex mutex;
  std::exception_ptr first;
  const auto guarded = [&](auto&& what) {
    try {
      what();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = detail::capture_exception();
    }
  };
  const auto carry = [&](unsigned carrier) {
    if (options.pin) pin_this_thread(carrier);
    std::vector<fiber> fibers;
    fibers.reserve(options.fibers);
    for (unsigned f = 0; f < options.fibers; ++f)
      fibers.emplace_back(options.stack, [&, f] { guarded([&] { body(carrier, f); }); });
  };
  {
    sync::atomic<unsigned> left{options.carriers};
    eventcount ended;
    std::vector<std::jthread> threads;
    threads.reserve(options.carriers);
    // The fibers of the calling thread run until only joins remain, even if not all threads could be started.
    const detail::scope_exit all_ended([&]() noexcept {
      left.fetch_sub(options.carriers - static_cast<unsigned>(threads.size()), std::memory_order_relaxed);
      ended.await<wait::park>(0, [&left] { return left.load(std::memory_order_relaxed) == 0; }, no_deadline);
    });
    for (unsigned c = 0; c < options.carriers; ++c)
      threads.emplace_back([&, c] {
        guarded([&] { carry(c); });
        left.fetch_sub(1, std::memory_order_relaxed);  // the join makes the thread's effects visible
        if (ended.waiters_after_event() != 0) ended.wake_all();
      });
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace muster::inline MUSTER_ABI
