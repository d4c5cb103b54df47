// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// libcds: its flat-combining queue and stack, the Michael-Scott queue, and the Treiber stack with elimination, the last
// two with hazard pointers.
#include "driver/shared_pairs.hpp"

#include <cds/container/fcqueue.h>
#include <cds/container/fcstack.h>
#include <cds/container/msqueue.h>
#include <cds/container/treiber_stack.h>
#include <cds/gc/hp.h>
#include <cds/init.h>

namespace muster::bench {
namespace {

/// Initializes the library, once in a process, before any other use.
class libcds {
 public:
  static void begin() { static const libcds one; }

 private:
  struct initialized {
    initialized() { cds::Initialize(); }
    ~initialized() { cds::Terminate(); }
    initialized(const initialized&) = delete;
    initialized& operator=(const initialized&) = delete;
  };
  initialized first_;
  cds::gc::HP hazard_pointers_;
};

/// And in each thread, while it uses the library.
class attached {
 public:
  attached() {
    libcds::begin();
    cds::threading::Manager::attachThread();
  }
  ~attached() { cds::threading::Manager::detachThread(); }
  attached(const attached&) = delete;
  attached& operator=(const attached&) = delete;
};

struct eliminating : cds::container::treiber_stack::make_traits<cds::opt::enable_elimination<true>>::type {};

using michael_scott_queue = cds::container::MSQueue<cds::gc::HP, item>;
using combining_queue_of_cds = cds::container::FCQueue<item>;
using treiber_stack_of_cds = cds::container::TreiberStack<cds::gc::HP, item, eliminating>;
using combining_stack_of_cds = cds::container::FCStack<item>;

template <class Structure>
class used_in_pairs {
 public:
  explicit used_in_pairs(const team_spec&) {}

  class handle {
   public:
    handle(used_in_pairs& s, unsigned, unsigned) : structure_(s.structure_) {}
    void push(item value) { structure_.push(value); }
    bool pop(item& value) { return structure_.pop(value); }

   private:
    const attached thread_;
    Structure& structure_;
  };

 private:
  const attached thread_;
  Structure structure_;
};

template <class Structure>
void add(catalogue& to, unsigned topics, const char* name, const char* note) {
  to.all.push_back({.name = name,
                    .family = "libcds",
                    .role = "peer",
                    .note = note,
                    .topics = topics,
                    .team = run_pairs<used_in_pairs<Structure>>});
}

}  // namespace

void add_libcds(catalogue& to) {
  add<combining_queue_of_cds>(to, queue_by_fibers | queue_pairs, "cds::container::FCQueue", "flat combining");
  add<michael_scott_queue>(to, queue_by_fibers | queue_pairs, "cds::container::MSQueue", "lock-free; hazard pointers");
  add<combining_stack_of_cds>(to, stack_by_fibers, "cds::container::FCStack", "flat combining");
  add<treiber_stack_of_cds>(to, stack_by_fibers, "cds::container::TreiberStack",
                            "lock-free, with elimination; hazard pointers");
}

}  // namespace muster::bench
