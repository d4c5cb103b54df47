// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Objects that fibers of simulated threads share: each operation has its effect once, the same run gives the same
// counts, and a wrong object is detected.
#include "driver/outcome.hpp"
#include "simulated/objects.hpp"
#include "unit/sim/small_machine.hpp"

#include <gtest/gtest.h>

namespace muster::bench {

void add_simulated(catalogue& to);

}  // namespace muster::bench

namespace {

using namespace muster::bench;

sim_spec on_the_small_machine(unsigned fibers) {
  muster_simulation::machine m = muster_simulation::small_machine();
  m.l1 = 32 << 10U;
  m.l2 = 64 << 10U;
  m.l3 = 128 << 10U;
  sim_spec spec;
  spec.machine = std::make_shared<muster_simulation::machine>(m);
  spec.fibers = fibers;
  spec.most_work = 100;
  spec.items = 2'000;
  spec.threads = {0, 1, 2, 3};
  return spec;
}

/// In a process of its own, as in the experiments: what a process has allocated before decides what shares a line with
/// what.
outcome executed(const contender& c, unsigned fibers) {
  return run_isolated([&] { return c.model(on_the_small_machine(fibers)); }, 60);
}

double detail_value(const std::string& name, unsigned fibers, const char* what) {
  catalogue all;
  add_simulated(all);
  for (const contender* c : all.about(sim_objects)) {
    if (c->name != name) continue;
    const outcome o = executed(*c, fibers);
    EXPECT_EQ(o.error, "");
    return o.detail_value(what);
  }
  ADD_FAILURE() << "there is no " << name;
  return 0;
}

TEST(simulated_objects, execute_each_operation_once) {
  catalogue all;
  add_simulated(all);
  unsigned objects = 0;
  for (const contender* c : all.about(sim_objects)) {
    for (const unsigned fibers : {1U, 7U}) {
      const outcome o = executed(*c, fibers);
      EXPECT_EQ(o.error, "") << c->name;
      EXPECT_GT(o.seconds, 2'000 / 4 * 50e-9) << c->name << ": the work alone takes longer";
    }
    ++objects;
  }
  EXPECT_EQ(objects, 11U);
}

TEST(simulated_objects, give_the_same_counts_again) {
  const double degree = detail_value("osci", 16, "degree");
  const double transfers = detail_value("osci", 16, "line transfers");
  EXPECT_EQ(detail_value("osci", 16, "degree"), degree);
  EXPECT_EQ(detail_value("osci", 16, "line transfers"), transfers);
}

TEST(simulated_objects, move_fewer_lines_when_fibers_travel_together) {
  for (const char* name : {"osci", "Osci as printed", "psim"})
    EXPECT_LT(2 * detail_value(name, 32, "line transfers"), detail_value(name, 1, "line transfers")) << name;
}

/// One thread, which is this one.
struct alone {
  struct hand {
    void start() const {}
    void delay() const {}
  };
  explicit alone(const sim_spec&) {}
  template <class Body>
  outcome run(Body body) {
    hand own;
    body(0, own);
    return {};
  }
};

/// Its operation number `At` has no effect, or it has its effect twice.
template <unsigned At, bool Lost>
class wrong_object {
 public:
  explicit wrong_object(const sim_spec&) {}
  std::uint32_t rows() const { return 1; }
  class handle {
   public:
    handle(wrong_object& o, unsigned, unsigned) : object_(o) {}
    float multiply() {
      const float before = object_.value_;
      if (++object_.count_ != At || !Lost) object_.value_ *= 1.000001F;
      if (object_.count_ == At && !Lost) object_.value_ *= 1.000001F;
      return before;
    }

   private:
    wrong_object& object_;
  };

 private:
  float value_ = 1;
  unsigned count_ = 0;
};

TEST(simulated_objects, that_are_wrong_are_caught) {
  sim_spec spec;
  spec.items = 1'000;
  spec.fibers = 4;
  spec.threads = {0};
  EXPECT_EQ((sim_multiply<alone, wrong_object<0, true>>(spec).error), "");
  EXPECT_NE((sim_multiply<alone, wrong_object<500, true>>(spec).error), "") << "a result that two operations have";
  EXPECT_NE((sim_multiply<alone, wrong_object<500, false>>(spec).error), "") << "an operation that took effect twice";
}

}  // namespace
