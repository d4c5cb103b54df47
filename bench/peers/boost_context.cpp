// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Boost.Context: boost::context::fiber, switched round robin by hand.
#include "driver/switches.hpp"
#include "driver/thread_group.hpp"

#include <boost/context/fiber.hpp>

#include <utility>

namespace muster::bench {
namespace {

/// Each fiber switches directly to the next. The resumed fiber gets the one that switched to it: the one before it in
/// the ring, or, the first time, the thread.
class ring {
 public:
  ring(unsigned fibers, turn_taking& turns) : all_(fibers), turns_(turns) {
    for (unsigned f = 0; f < fibers; ++f) {
      all_[f] = boost::context::fiber([this, f](boost::context::fiber&& from) {
        if (f == 0) {
          thread_ = std::move(from);
          turns_.begin();
        } else {
          all_[f - 1] = std::move(from);
        }
        const unsigned before = f == 0 ? size() - 1 : f - 1;
        const unsigned next = f + 1 == size() ? 0 : f + 1;
        for (std::uint64_t n = turns_.laps(); n != 0; --n) {
          turns_.take(f);
          if (n != 1) all_[before] = std::move(all_[next]).resume();
        }
        return f + 1 == size() ? std::move(thread_) : std::move(all_[next]);  // the last lap ends fiber by fiber
      });
    }
  }
  void run() { static_cast<void>(std::move(all_[0]).resume()); }

 private:
  unsigned size() const { return static_cast<unsigned>(all_.size()); }

  std::vector<boost::context::fiber> all_;
  boost::context::fiber thread_;
  turn_taking& turns_;
};

outcome run_ring(const team_spec& spec) {
  turn_taking turns(spec);
  outcome measured;
  outcome result = run_crew(spec.pus, [&](unsigned, start_line& line) {
    ring fibers(spec.fibers, turns);
    line.arrive_and_wait();
    fibers.run();
    turns.end(measured);
  });
  measured.cpu_seconds = result.cpu_seconds;
  measured.peak_memory = peak_memory();
  return measured;
}

}  // namespace

void add_boost_context(catalogue& to) {
  to.all.push_back({.name = "boost::context::fiber",
                    .family = "Boost.Context",
                    .role = "peer",
                    .note = "round robin by hand, no scheduler",
                    .topics = fiber_switch,
                    .fibers = 1024,
                    .team = run_ring});
}

}  // namespace muster::bench
