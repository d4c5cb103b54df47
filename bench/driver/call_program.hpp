// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// call_program.hpp: system calls through queues, as in section V-F of the FFQ paper. Threads that make no calls send
// requests to threads that do, and get the results back. A caller has one call in flight, so no push waits for room.
// While a fiber waits, the others of its carrier run. The same code serves real and simulated threads.
//
// Channel(const call_spec&)                      shares_replies: a carrier may get the replies of others
// Channel::caller(Channel&, unsigned carrier)    push(call_request), bool try_pop(call_reply&); end(): once, after the
//                                                last reply
// Channel::executor(Channel&, unsigned number)   bool pop(call_request&): waits, and returns false when all its callers
//                                                have ended; push(call_reply)
#pragma once

#include "driver/contender.hpp"
#include "sim/workloads/wait.hpp"

#include <muster/base/arch.hpp>    // isolation_size
#include <muster/base/sync.hpp>    // sync::atomic
#include <muster/fiber/fiber.hpp>  // fiber

#include <sys/syscall.h>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

struct call_request {
  std::uint32_t call = SYS_getppid;
  std::uint32_t caller = 0;
  std::array<std::uint64_t, 5>
      arguments{};  // most calls have up to five; here the first is the caller's number of this call
};
struct call_reply {
  std::uint32_t caller = 0;
  std::uint32_t number = 0;
  std::int64_t result = 0;
};

/// The number of calls that this caller makes.
inline std::uint64_t calls_of(const call_spec& spec, unsigned caller) {
  const std::uint64_t all = std::uint64_t{spec.carriers} * spec.fibers;
  return spec.items / all + (caller < spec.items % all ? 1 : 0);
}

/// Calls start(), which waits for other threads, and then work(fiber) on each fiber of this thread, or on the thread
/// itself if it has no fibers.
template <class Start, class Work>
void run_callers(unsigned many, const Start& start, const Work& work) {
  if (many == 1) {
    start();
    return work(0U);
  }
  bool open = false;
  std::vector<fiber> fibers;
  fibers.reserve(many);
  for (unsigned f = 0; f < many; ++f) {
    fibers.emplace_back([&open, &work, f] {
      while (!open) this_fiber::yield();
      work(f);
    });
  }
  this_fiber::yield();  // each fiber runs once, up to its own wait
  start();
  open = true;
  fibers.clear();  // joins
}

/// The callers of one carrier, and the replies that have arrived for them.
class call_desk {
 public:
  /// `shared`: other carriers deliver too.
  call_desk(unsigned carrier, unsigned callers, bool shared)
      : first_(carrier * callers), shared_(shared), slots_(callers), callers_(callers) {}

  /// Makes call `number` of a caller and returns its result. Calls `deliver(reply)` for each reply.
  template <class From, class Deliver>
  std::int64_t call(From& ends, unsigned fiber, std::uint32_t number, const Deliver& deliver) {
    slot& own = slots_[fiber];
    add(1);
    ends.push(call_request{.caller = first_ + fiber, .arguments = {number}});
    while (own.number.load(std::memory_order_acquire) != number) {
      if (waiting_.load(std::memory_order_relaxed) != callers_) {
        this_fiber::yield();  // another fiber may have its reply
        continue;
      }
      until([&] {
        for (call_reply r; ends.try_pop(r);) deliver(r);
        return waiting_.load(std::memory_order_relaxed) != callers_;
      });
    }
    return own.result;
  }
  /// Called by any carrier.
  void deliver(const call_reply& r) {
    slot& of = slots_[r.caller - first_];
    of.result = r.result;
    of.number.store(r.number, std::memory_order_release);
    add(-1U);
  }
  /// Called by a caller that makes no more calls.
  void leave() { --callers_; }

 private:
  struct alignas(isolation_size) slot {
    sync::atomic<std::uint32_t> number{0};
    std::int64_t result = 0;
  };

  void add(unsigned more) {
    if (shared_) waiting_.fetch_add(more, std::memory_order_relaxed);
    else waiting_.store(waiting_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  const unsigned first_;  // the number of the first caller
  const bool shared_;
  std::vector<slot> slots_;
  unsigned callers_;                                           // that have not left
  alignas(isolation_size) sync::atomic<unsigned> waiting_{0};  // of these, the ones without a reply
};

/// run(body) calls body(index, start, execute) on each thread, carriers first, and returns their time as an outcome.
/// start() waits for the other threads; execute(request) makes the call, which must return `right`.
template <class Channel, class Run>
auto exchange_calls(const call_spec& spec, std::int64_t right, const Run& run) {
  const auto channel = std::make_unique<Channel>(spec);
  std::vector<std::unique_ptr<call_desk>> desks;
  const bool shared = Channel::shares_replies && spec.carriers > 1;
  for (unsigned i = 0; i < spec.carriers; ++i) desks.push_back(std::make_unique<call_desk>(i, spec.fibers, shared));
  std::vector<std::uint64_t> wrong(spec.carriers), executed(spec.carriers);
  const auto deliver = [&](const call_reply& r) { desks[r.caller / spec.fibers]->deliver(r); };

  auto result = run([&](unsigned index, const auto& start, const auto& execute) {
    if (index >= spec.carriers) {
      typename Channel::executor own(*channel, index - spec.carriers);
      std::uint64_t done = 0;
      start();
      for (call_request r; own.pop(r); ++done)
        own.push({r.caller, static_cast<std::uint32_t>(r.arguments[0]), execute(r)});
      executed[index - spec.carriers] = done;
      return;
    }
    typename Channel::caller ends(*channel, index);
    call_desk& desk = *desks[index];
    run_callers(spec.fibers, start, [&](unsigned fiber) {
      const auto calls = static_cast<std::uint32_t>(calls_of(spec, index * spec.fibers + fiber));
      for (std::uint32_t n = 1; n <= calls; ++n)
        if (desk.call(ends, fiber, n, deliver) != right) ++wrong[index];
      desk.leave();
    });
    ends.end();
  });

  std::uint64_t all_wrong = 0, all_executed = 0;
  for (unsigned i = 0; i < spec.carriers; ++i) all_wrong += wrong[i], all_executed += executed[i];
  if (all_wrong != 0) result.error = std::to_string(all_wrong) + " calls did not return what they should";
  if (all_executed != spec.items)
    result.error = std::to_string(all_executed) + " calls were made, " + std::to_string(spec.items) + " asked for";
  result.items = spec.items;
  // The time that one caller waits for each of its calls.
  result.detail["latency"] =
      result.seconds * 1e9 * static_cast<double>(spec.carriers * spec.fibers) / static_cast<double>(spec.items);
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
