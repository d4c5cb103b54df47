// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Boost.Fiber: boost::this_fiber::yield under its round-robin scheduler, fibers made on stacks with guards, and its
// buffered channel.
#include "driver/creations.hpp"
#include "driver/round_trips.hpp"
#include "driver/switches.hpp"
#include "driver/thread_group.hpp"

#include <boost/fiber/buffered_channel.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <boost/fiber/protected_fixedsize_stack.hpp>

#include <memory>
#include <vector>

namespace muster::bench {
namespace {

outcome run_yields(const team_spec& spec) {
  turn_taking turns(spec);
  outcome measured;
  outcome result = run_crew(spec.pus, [&](unsigned, start_line& line) {
    std::vector<boost::fibers::fiber> all;
    for (unsigned f = 0; f < spec.fibers; ++f) {
      all.emplace_back([&turns, f] {
        if (f == 0) turns.begin();
        for (std::uint64_t n = turns.laps(); n != 0; --n) {
          turns.take(f);
          boost::this_fiber::yield();
        }
      });
    }
    line.arrive_and_wait();
    for (boost::fibers::fiber& one : all) one.join();
    turns.end(measured);
  });
  measured.cpu_seconds = result.cpu_seconds;
  measured.peak_memory = peak_memory();
  return measured;
}

/// A ring under a spin lock, whose fibers wait in lists, also where each thread has only one. It holds one item less.
class channel {
 public:
  static constexpr ending ends_by = ending::closed;
  channel(std::size_t capacity, unsigned, unsigned) : all_(capacity) {}
  void close() { all_.close(); }
  void push(item value) { all_.push(value); }
  bool pop(item& value) { return all_.pop(value) == boost::fibers::channel_op_status::success; }

 private:
  boost::fibers::buffered_channel<item> all_;
};
using fibers_client = fiber_client<boost::fibers::fiber>;
using fibers_server = fiber_server<boost::fibers::fiber>;

class made_boost_fibers {
 public:
  explicit made_boost_fibers(std::uint64_t most) : all_(most) {}
  void add() {
    all_[made_] = boost::fibers::fiber(std::allocator_arg, boost::fibers::protected_fixedsize_stack(bytes_of_stack),
                                       [this] { ++ran_; });
    ++made_;
  }
  void end() {
    for (; made_ != 0; --made_) all_[made_ - 1].join();
  }
  std::uint64_t ran() const { return ran_; }

  static constexpr bool guards_are_mappings = true;

 private:
  std::uint64_t ran_ = 0;
  std::size_t made_ = 0;
  std::vector<boost::fibers::fiber> all_;
};

}  // namespace

void add_boost_fiber(catalogue& to) {
  to.all.push_back({.name = "boost::fibers::fiber",
                    .family = "Boost.Fiber",
                    .role = "peer",
                    .note = "made on protected_fixedsize_stack, with guards",
                    .topics = fiber_switch | fiber_create,
                    .fibers = 1024,
                    .team = run_yields,
                    .create = run_creations<made_boost_fibers>});
  to.add("Boost.Fiber", "peer",
         {{.name = "boost::fibers::buffered_channel",
           .note = "push and pop, on threads",
           .round_trips = run_round_trips<channel>,
           .to_servers = true},
          {.name = "boost::fibers::buffered_channel, a fiber for each request",
           .round_trips = run_round_trips<channel, channel, fibers_client>,
           .to_servers = true},
          {.name = "boost::fibers::buffered_channel, fibers on both sides",
           .round_trips = run_round_trips<channel, channel, fibers_client, fibers_server>,
           .to_servers = true}});
}

}  // namespace muster::bench
