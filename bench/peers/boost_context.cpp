// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Boost.Context: boost::context::fiber, switched round robin by hand; and made, on stacks of three kinds.
#include "driver/creations.hpp"
#include "driver/switches.hpp"
#include "driver/thread_group.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

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

template <class Stacks>
class made_contexts {
 public:
  explicit made_contexts(std::uint64_t most) : all_(most) {}
  void add() {
    all_[made_] = boost::context::fiber(std::allocator_arg, Stacks(stacks_), [this](boost::context::fiber&& from) {
      ++ran_;
      return std::move(from);
    });
    ++made_;
  }
  void end() {
    for (; made_ != 0; --made_) all_[made_ - 1] = std::move(all_[made_ - 1]).resume();
  }
  std::uint64_t ran() const { return ran_; }

  static constexpr bool guards_are_mappings = std::is_same_v<Stacks, boost::context::protected_fixedsize_stack>;

 private:
  std::uint64_t ran_ = 0;
  std::size_t made_ = 0;
  Stacks stacks_{bytes_of_stack};
  std::vector<boost::context::fiber> all_;
};

}  // namespace

void add_boost_context(catalogue& to) {
  to.all.push_back({.name = "boost::context::fiber",
                    .family = "Boost.Context",
                    .role = "peer",
                    .note = "round robin by hand, no scheduler",
                    .topics = fiber_switch,
                    .fibers = 1024,
                    .team = run_ring});
  to.add("Boost.Context", "peer",
         {{.name = "boost::context::fiber, guarded",
           .note = "protected_fixedsize_stack",
           .topics = fiber_create,
           .create = run_creations<made_contexts<boost::context::protected_fixedsize_stack>>},
          {.name = "boost::context::fiber, by malloc",
           .note = "fixedsize_stack, its default; no guards",
           .topics = fiber_create,
           .create = run_creations<made_contexts<boost::context::fixedsize_stack>>},
          {.name = "boost::context::fiber, pooled",
           .note = "pooled_fixedsize_stack; no guards",
           .topics = fiber_create,
           .create = run_creations<made_contexts<boost::context::pooled_fixedsize_stack>>}});
}

}  // namespace muster::bench
