// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// calls.hpp: system calls through queues, as in section V-F of the FFQ paper: threads that make none themselves send
// getppid() to threads that make it, and get the result back. A caller has one call under way, so that no push waits
// for room. A fiber that waits lets the others of its carrier run.
//
// Channel(const call_spec&)                      shares_replies: whether a carrier may get those of others
// Channel::caller(Channel&, unsigned carrier)    push(call_request), bool try_pop(call_reply&): also of other carriers
// Channel::executor(Channel&, unsigned number)   bool try_pop(call_request&), push(call_reply)
#pragma once

#include "driver/contender.hpp"
#include "driver/crew.hpp"

#include <muster/base/arch.hpp>    // isolation_size
#include <muster/fiber/fiber.hpp>  // fiber

#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

struct call_request {
  std::uint32_t call = SYS_getppid;
  std::uint32_t caller = 0;
  std::array<std::uint64_t, 5> arguments{};  // of most calls; here the first one is the caller's number of this call
};
struct call_reply {
  std::uint32_t caller = 0;
  std::uint32_t number = 0;
  std::int64_t result = 0;
};

/// How many of the calls are this caller's.
inline std::uint64_t calls_of(const call_spec& spec, unsigned caller) {
  const std::uint64_t all = std::uint64_t{spec.carriers} * spec.fibers;
  return spec.items / all + (caller < spec.items % all ? 1 : 0);
}

/// For finished runs: what one caller waits for one call, all the time.
inline void add_latency(outcome& to, const call_spec& spec) {
  to.items = spec.items;
  to.peak_memory = peak_memory();
  to.detail["latency"] =
      to.seconds * 1e9 * static_cast<double>(spec.carriers * spec.fibers) / static_cast<double>(spec.items);
}

/// Calls work(fiber) on each of the fibers of this thread, or on itself, from the start line on.
template <class Work>
void run_callers(unsigned many, start_line& line, const Work& work) {
  if (many == 1) {
    line.arrive_and_wait();
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
  this_fiber::yield();  // each has one turn, and stands here
  line.arrive_and_wait();
  open = true;
  fibers.clear();  // joins
}

/// The callers of one carrier, and what has arrived for each.
class call_desk {
 public:
  /// `shared`: other carriers deliver, too.
  call_desk(unsigned carrier, unsigned callers, bool shared)
      : first_(carrier * callers), shared_(shared), slots_(callers), callers_(callers) {}

  /// Makes the call number `number` of a caller; returns its result. `deliver(reply)` is called for what arrives.
  template <class From, class Deliver>
  std::int64_t call(From& ends, unsigned fiber, std::uint32_t number, const Deliver& deliver) {
    slot& own = slots_[fiber];
    add(1);
    ends.push(call_request{.caller = first_ + fiber, .arguments = {number}});
    while (own.number.load(std::memory_order_acquire) != number) {
      if (waiting_.load(std::memory_order_relaxed) != callers_) {
        this_fiber::yield();  // there are others who need not wait
        continue;
      }
      until([&] {
        for (call_reply r; ends.try_pop(r);) deliver(r);
        return waiting_.load(std::memory_order_relaxed) != callers_;
      });
    }
    return own.result;
  }
  /// By any carrier.
  void deliver(const call_reply& r) {
    slot& of = slots_[r.caller - first_];
    of.result = r.result;
    of.number.store(r.number, std::memory_order_release);
    add(-1U);
  }
  /// By a caller that makes no more calls.
  void leave() { --callers_; }

 private:
  struct alignas(isolation_size) slot {
    std::atomic<std::uint32_t> number{0};
    std::int64_t result = 0;
  };

  void add(unsigned more) {
    if (shared_) waiting_.fetch_add(more, std::memory_order_relaxed);
    else waiting_.store(waiting_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  const unsigned first_;  // the number of the first caller
  const bool shared_;
  std::vector<slot> slots_;
  unsigned callers_;                                          // that are left
  alignas(isolation_size) std::atomic<unsigned> waiting_{0};  // and have no reply
};

template <class Channel>
outcome run_calls(const call_spec& spec) {
  reset_peak_memory();
  Channel channel(spec);
  std::vector<std::unique_ptr<call_desk>> desks;
  const bool shared = Channel::shares_replies && spec.carriers > 1;
  for (unsigned i = 0; i < spec.carriers; ++i) desks.push_back(std::make_unique<call_desk>(i, spec.fibers, shared));
  std::vector<std::uint64_t> wrong(spec.carriers), executed(spec.carriers);
  std::atomic<unsigned> left{spec.carriers};
  const auto deliver = [&](const call_reply& r) { desks[r.caller / spec.fibers]->deliver(r); };
  const std::int64_t right = ::syscall(SYS_getppid);

  outcome result = run_crew(spec.pus, [&](unsigned index, start_line& line) {
    if (index >= spec.carriers) {
      typename Channel::executor own(channel, index - spec.carriers);
      std::uint64_t done = 0;
      line.arrive_and_wait();
      patience p;
      for (call_request r;;) {
        if (own.try_pop(r)) {
          own.push({r.caller, static_cast<std::uint32_t>(r.arguments[0]), ::syscall(r.call)});
          ++done;
          p.reset();
        } else if (left.load(std::memory_order_acquire) == 0) {
          break;
        } else {
          p.wait();
        }
      }
      executed[index - spec.carriers] = done;
      return;
    }
    typename Channel::caller ends(channel, index);
    call_desk& desk = *desks[index];
    const auto work = [&](unsigned fiber) {
      const auto calls = static_cast<std::uint32_t>(calls_of(spec, index * spec.fibers + fiber));
      for (std::uint32_t n = 1; n <= calls; ++n)
        if (desk.call(ends, fiber, n, deliver) != right) ++wrong[index];
      desk.leave();
    };
    run_callers(spec.fibers, line, work);
    left.fetch_sub(1, std::memory_order_acq_rel);
  });

  add_latency(result, spec);
  std::uint64_t all_wrong = 0, all_executed = 0;
  for (unsigned i = 0; i < spec.carriers; ++i) all_wrong += wrong[i], all_executed += executed[i];
  if (all_wrong != 0) result.error = std::to_string(all_wrong) + " calls returned what getppid() does not";
  if (all_executed != spec.items)
    result.error = std::to_string(all_executed) + " calls were made, " + std::to_string(spec.items) + " asked for";
  return result;
}

}  // namespace muster::bench::inline MUSTER_ABI
