// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Other papers' queues and stacks, used by fibers in pairs of push and pop, as contenders.
#include "baselines/clh_stack.hpp"
#include "baselines/htm_ring.hpp"
#include "baselines/lcrq.hpp"
#include "baselines/lprq.hpp"
#include "baselines/ms_queue.hpp"
#include "baselines/osci_paper_structures.hpp"
#include "baselines/scq.hpp"
#include "baselines/treiber_stack.hpp"
#include "baselines/wcq.hpp"
#include "baselines/wf_queue.hpp"
#include "driver/shared_pairs.hpp"
#include "driver/stream.hpp"

#include <deque>
#include <mutex>

namespace muster::bench {
namespace {

/// For structures with a handle for each fiber, made from `Arguments...`.
template <class Structure, auto... Arguments>
class with_handles {
 public:
  explicit with_handles(const team_spec&) : structure_(Arguments...) {}

  class handle {
   public:
    handle(with_handles& s, unsigned, unsigned) : mine_(s.structure_) {}
    void push(item value) { mine_.push(value); }
    bool pop(item& value) { return mine_.pop(value); }

   private:
    typename Structure::handle mine_;
  };

 private:
  Structure structure_;
};

/// The same for streams. A push that does not wait is repeated as those of peers are.
template <class Structure, auto... Arguments>
class streamed {
 public:
  static constexpr ending ends_by = ending::drained;
  streamed(std::size_t, unsigned, unsigned) : structure_(Arguments...) {}

  class producer {
   public:
    producer(streamed& s, unsigned) : mine_(s.structure_) {}
    MUSTER_HOT void push(item value) {
      if constexpr (requires { mine_.try_push(value); }) until([&] { return mine_.try_push(value); });
      else mine_.push(value);
    }
    MUSTER_HOT bool try_pop(item& value) { return mine_.pop(value); }

   private:
    typename Structure::handle mine_;
  };
  using consumer = producer;

 private:
  Structure structure_;
};

/// For those of osci_paper_structures.hpp, which know who comes.
template <class Structure>
class printed {
 public:
  explicit printed(const team_spec& spec) : structure_(spec.carriers, spec.fibers) {}

  class handle : public Structure::handle {
   public:
    handle(printed& s, unsigned carrier, unsigned fiber) : Structure::handle(s.structure_, carrier, fiber) {}
  };

 private:
  Structure structure_;
};

class sequential_queue {
 public:
  void push(item value) { items_.push_back(value); }
  bool pop(item& value) {
    if (items_.empty()) return false;
    value = items_.front();
    items_.pop_front();
    return true;
  }

 private:
  std::deque<item> items_;
};

class sequential_stack {
 public:
  void push(item value) { items_.push_back(value); }
  bool pop(item& value) {
    if (items_.empty()) return false;
    value = items_.back();
    items_.pop_back();
    return true;
  }

 private:
  std::vector<item> items_;
};

template <class Sequential>
class locked {
 public:
  explicit locked(const team_spec&) {}
  void push(item value) {
    const std::lock_guard lock(mutex_);
    items_.push(value);
  }
  bool pop(item& value) {
    const std::lock_guard lock(mutex_);
    return items_.pop(value);
  }

 private:
  alignas(isolation_size) std::mutex mutex_;
  Sequential items_;
};

contender one(std::string name, unsigned topics, std::string role, std::string note) {
  return {.name = std::move(name),
          .family = role == "paper"  ? "osci paper"
                    : role == "peer" ? "std"
                                     : "baseline",
          .role = std::move(role),
          .note = std::move(note),
          .topics = topics};
}

template <class Structure>
void add(catalogue& to, contender c, unsigned fibers = 1) {
  c.fibers = fibers;
  c.team = run_pairs<Structure>;
  to.all.push_back(std::move(c));
}

template <std::size_t RingSize>
void add_lcrq(catalogue& to, const std::string& size) {
  const unsigned topics = RingSize == 1024 ? queue_by_fibers | queue_pairs : queue_by_fibers;
  contender c = one("LCRQ, rings of " + size, topics, "baseline", "Morrison and Afek");
  if constexpr (lcrq<item>::available) {
    add<with_handles<lcrq<item, team_turn>, RingSize>>(to, c);
  } else {
    to.missing.push_back({c.name, "", "left out: it needs cmpxchg16b, which only x86-64 has"});
  }
}

/// Those of recent years. `Queue<Pause, Counters>`.
template <template <class, class> class Queue, class CountersOfStream, class CountersOfTeam, unsigned Size>
void add_recent(catalogue& to, contender c) {
  using stream_queue = Queue<cpu_turn, CountersOfStream>;
  if constexpr (stream_queue::available) {
    c.stream = run_stream<streamed<stream_queue, Size>>;
    add<with_handles<Queue<team_turn, CountersOfTeam>, Size>>(to, c);
  } else {
    to.missing.push_back({c.name, "", "left out: it needs cmpxchg16b, which only x86-64 has"});
  }
}
template <class Pause, class>
using scq_of_items = scq<item, Pause>;
template <class Pause, class>
using wcq_of_items = wcq<item, Pause>;
template <class Pause, class Counters>
using lprq_of_items = lprq<item, Pause, line_size, Counters>;
template <class Pause, class Counters>
using lcrq_of_items = lcrq<item, Pause, line_size, Counters>;

void add_all_recent(catalogue& to) {
  using by_words = single_words;
  using stream_funnels = funnels<6, patience>;
  using team_funnels = funnels<6, turns<team_turn>>;
  const auto with = [](std::string name, std::string note) {
    return one(std::move(name), many_to_many | queue_pairs, "baseline", std::move(note));
  };
  add_recent<scq_of_items, by_words, by_words, 4096>(to, with("SCQ", "Nikolaev, 2019; bounded, capacity 4096"));
  add_recent<wcq_of_items, by_words, by_words, 4096>(
      to, with("wCQ", "Nikolaev and Ravindran, 2022: SCQ, wait-free; bounded, capacity 4096"));
  add_recent<lprq_of_items, by_words, by_words, 1024>(
      to, with("LPRQ", "Romanov and Koval, 2023; unbounded, rings of 2^10: LCRQ without a double-word operation"));
  add_recent<lcrq_of_items, stream_funnels, team_funnels, 1024>(
      to, with("LCRQ over funnels", "rings of 2^10; tickets by Aggregating Funnels, Roh and others, 2025"));
}

void add_htm_ring(catalogue& to) {
  const contender c = one("HTM ring", queue_pairs, "baseline", "capacity 4096; a hardware transaction per operation");
  if (rtm::available()) {
    add<with_handles<htm_ring<item, team_turn>, 4096>>(to, c);
  } else {
    to.missing.push_back({c.name, "", std::string("left out: ") + rtm::why_not()});
  }
}

}  // namespace

void add_shared_structures(catalogue& to) {
  add<printed<osci_paper_queue<item, team_turn>>>(
      to, one("OsciQueue as printed", queue_by_fibers, "paper", "two objects of Osci as printed"), 64);
  add<with_handles<ms_queue<item, team_turn>>>(
      to, one("Michael-Scott queue", queue_by_fibers | queue_pairs, "baseline", "lock-free"));
  add<with_handles<wf_queue<item, team_turn>>>(
      to, one("WF-10", queue_pairs, "baseline", "Yang and Mellor-Crummey's wfqueue, wait-free"));
  add_lcrq<64>(to, "2^6");
  add_lcrq<1024>(to, "2^10");
  add_lcrq<16384>(to, "2^14");
  add_all_recent(to);
  add_htm_ring(to);
  add<locked<sequential_queue>>(to, one("std::mutex, std::deque", queue_by_fibers | queue_pairs, "peer", ""));

  add<printed<osci_paper_stack<item, team_turn>>>(
      to, one("OsciStack as printed", stack_by_fibers, "paper", "an object of Osci as printed"), 64);
  add<with_handles<treiber_stack<item, team_turn>>>(to, one("Treiber stack", stack_by_fibers, "baseline", "lock-free"));
  add<with_handles<clh_stack<item, team_turn>>>(
      to, one("CLH stack", stack_by_fibers, "baseline", "a list under a CLH lock, with elimination"));
  add<locked<sequential_stack>>(to, one("std::mutex, std::vector", stack_by_fibers, "peer", ""));

  const std::string note = "every carrier a structure of its own: one thread alone, times the processors";
  contender c = one("ideal", queue_by_fibers | queue_pairs, "limit", note);
  c.team = run_ideal_pairs<sequential_queue>;
  to.all.push_back(c);
  c = one("ideal", stack_by_fibers, "limit", note);
  c.team = run_ideal_pairs<sequential_stack>;
  to.all.push_back(c);
}

}  // namespace muster::bench
