// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// System calls through the library's queues, within a process.
#include "driver/calls.hpp"

#include <muster/queue/spmc.hpp>
#include <muster/queue/spsc.hpp>
#include <muster/syscall/broker.hpp>
#include <muster/syscall/inside.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

/// A submission queue and a response queue of each carrier's own.
class two_queues {
 public:
  static constexpr bool shares_replies = false;

  explicit two_queues(const call_spec& spec) {
    for (unsigned i = 0; i < spec.carriers; ++i)
      all_.push_back({std::make_unique<spmc_queue<call_request>>(spec.fibers, queue_options{.threads = 8}),
                      std::make_unique<spsc_queue<call_reply>>(spec.fibers, queue_options{.threads = 8})});
  }

  class caller {
   public:
    caller(two_queues& all, unsigned carrier) : down_(*all.all_[carrier].down), up_(*all.all_[carrier].up) {}
    MUSTER_HOT void push(const call_request& r) { down_.push(r); }
    MUSTER_HOT bool try_pop(call_reply& r) { return take(up_.try_pop(), r); }

   private:
    spmc_queue<call_request>& down_;
    spsc_queue<call_reply>& up_;
  };
  class executor {
   public:
    executor(two_queues& all, unsigned number) : down_(*all.all_[number].down), up_(*all.all_[number].up) {}
    MUSTER_HOT bool try_pop(call_request& r) { return take(down_.try_pop(), r); }
    MUSTER_HOT void push(const call_reply& r) { up_.push(r); }

   private:
    spmc_queue<call_request>& down_;
    spsc_queue<call_reply>& up_;
  };

 private:
  template <class T>
  MUSTER_HOT static bool take(queue_result<T>&& got, T& to) {
    if (!got) return false;
    to = *got;
    return true;
  }

  struct queues {
    std::unique_ptr<spmc_queue<call_request>> down;
    std::unique_ptr<spsc_queue<call_reply>> up;
  };
  std::vector<queues> all_;
};

/// The sandbox's way, without its wall: one carrier.
outcome run_guarded(const call_spec& spec) {
  reset_peak_memory();
  const muster::policy rules{};
  const detail::arena_plan plan{spec.fibers, 1, 4096, 4096};
  const mapping arena = detail::make_arena(plan);
  const detail::arena_map at(plan, arena.start());
  const bool asymmetric = asymmetric_fences(futex_scope::shared);
  detail::broker broker(rules, at, asymmetric, detail::broker::options{.on_refusal = {}, .kill = {}});
  inside in(at, asymmetric);
  share_units({spec.pus.back()});
  broker.start();
  const std::int64_t right = ::getppid();
  std::vector<std::uint64_t> wrong(spec.fibers);
  outcome result = run_crew({spec.pus.front()}, [&](unsigned, start_line& line) {
    const auto work = [&](unsigned fiber) {
      for (std::uint64_t n = calls_of(spec, fiber); n != 0; --n)
        if (in.getppid() != right) ++wrong[fiber];
    };
    run_callers(spec.fibers, line, work);
  });
  broker.stop();
  add_latency(result, spec);
  const std::uint64_t made = broker.usage().calls;
  if (made != spec.items) result.error = std::to_string(made) + " calls were made of " + std::to_string(spec.items);
  if (std::any_of(wrong.begin(), wrong.end(), [](std::uint64_t n) { return n != 0; }))
    result.error = "a call returned what getppid() does not";
  return result;
}

}  // namespace

void add_calls(catalogue& to) {
  contender c;
  c.name = "spmc_queue + spsc_queue";
  c.family = "muster";
  c.role = "ours";
  c.note = "submissions and responses; each carrier has its own";
  c.call = run_calls<two_queues>;
  to.all.push_back(c);

  c.name = "guarded ring + slots";
  c.note = "what a sandbox has: the broker's side believes nothing, and sleeps when idle";
  c.call = run_guarded;
  to.all.push_back(c);
}

}  // namespace muster::bench
