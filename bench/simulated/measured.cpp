// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The programs of simulated.cpp on this machine's own threads.
#include "driver/local_work.hpp"
#include "driver/thread_group.hpp"
#include "simulated/objects.hpp"

namespace muster::bench {
namespace {

class measured {
 public:
  explicit measured(const sim_spec& spec) : spec_(spec) {}

  class hand {
   public:
    hand(start_line& line, const sim_spec& spec, unsigned index) : line_(line), spec_(spec), dice_(index) {}
    void start() { line_.arrive_and_wait(); }
    void delay() {
      if (spec_.most_work == 0) return;
      const unsigned ns = spec_.least_work + dice_.below(spec_.most_work - spec_.least_work + 1);
      dice_.skip(static_cast<std::uint32_t>(ns / nanoseconds_per_iteration()));
    }

   private:
    start_line& line_;
    const sim_spec& spec_;
    dice dice_;
  };

  template <class Body>
  outcome run(Body body) {
    nanoseconds_per_iteration();  // before the clock starts
    const std::vector<int> pus(spec_.threads.begin(), spec_.threads.end());
    return run_crew(pus, [&](unsigned index, start_line& line) {
      hand own(line, spec_, index);
      body(index, own);
    });
  }

 private:
  const sim_spec& spec_;
};

}  // namespace

void add_measured(catalogue& to) {
  add_validated<measured>(to, sim_measured);
  add_pairs<measured>(to, sim_measured);
  add_alike<measured>(to, sim_measured);
}

}  // namespace muster::bench
