// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// contenders.hpp: what takes part in the simulations, and the same measured, from one text.
#pragma once

#include "baselines/ffq_mpmc_paper.hpp"
#include "baselines/ffq_spmc_paper.hpp"
#include "baselines/lcrq.hpp"
#include "baselines/lprq.hpp"
#include "baselines/ms_queue.hpp"
#include "baselines/scq.hpp"
#include "baselines/wcq.hpp"
#include "baselines/wf_queue.hpp"
#include "sim/workloads/queues.hpp"

#include <muster/combine/cc_synch.hpp>
#include <muster/combine/combining_queue.hpp>
#include <muster/queue/mpmc.hpp>
#include <muster/queue/spmc.hpp>
#include <muster/queue/spsc.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace muster::bench::inline MUSTER_ABI {

/// Queues of the library that can be waited for.
template <class Queue>
class modelled {
 public:
  explicit modelled(const sim_spec& spec)
      : queue_(spec.capacity, queue_options{.threads = std::max<std::size_t>(64, spec.threads.size())}) {}
  void push(item value) { queue_.push(value); }
  item pop() { return *queue_.pop(); }

 private:
  Queue queue_;
};

/// Queues of the papers, which are asked again while they are empty. `Arguments` for the constructor.
template <class Queue, auto... Arguments>
class modelled_with_handles {
 public:
  explicit modelled_with_handles(const sim_spec&) : queue_(Arguments...) {}

  class handle {
   public:
    handle(modelled_with_handles& q, unsigned) : mine_(q.queue_) {}
    void push(item value) { mine_.push(value); }
    item pop() {
      item value = 0;
      until([&] { return mine_.pop(value); });
      return value;
    }

   private:
    typename Queue::handle mine_;
  };

 private:
  Queue queue_;
};

/// As in the papers, which do not sleep.
template <class State>
using cc_synch_spinning = cc_synch<State, wait::spin>;

class modelled_cc_queue {
  using queue = combining_queue<item, cc_synch_spinning>;

 public:
  explicit modelled_cc_queue(const sim_spec& spec)
      : queue_({.threads = static_cast<unsigned>(std::max<std::size_t>(64, spec.threads.size()))}) {}
  void push(item value) { queue_.push(value); }
  item pop() {
    std::optional<item> value;
    until([&] { return (value = queue_.pop()).has_value(); });
    return *value;
  }

 private:
  queue queue_;
};

template <class Counters = single_words>
class modelled_ffq {
  using queue = ffq_mpmc_paper<item, layout::aligned, Counters>;

 public:
  explicit modelled_ffq(const sim_spec& spec) : queue_(spec.capacity, 0, 0) {}

  class handle {
   public:
    handle(modelled_ffq& q, unsigned number) : to_(q.queue_, number), from_(q.queue_, number) {}
    void push(item value) { to_.push(value); }
    item pop() { return from_.pop(); }

   private:
    typename queue::producer to_;
    typename queue::consumer from_;
  };

 private:
  queue queue_;
};

/// For sim_exchange.
template <class Queue>
class exchanged {
 public:
  explicit exchanged(const sim_spec& spec) : queue_(spec.capacity) {}
  void push(item value) { queue_.push(value); }
  std::optional<item> pop() { return as_optional(queue_.pop()); }
  std::optional<item> try_pop() { return as_optional(queue_.try_pop()); }
  void end() { queue_.close(); }

 private:
  static std::optional<item> as_optional(const queue_result<item>& got) {
    return got ? std::optional(*got) : std::nullopt;
  }

  Queue queue_;
};

/// FFQ^s, which the paper asks and answers through; `SharedHead` as there.
template <bool SharedHead>
class exchanged_ffq {
  using queue = ffq_spmc_paper<item, ffq_packed_cell, SharedHead>;

 public:
  explicit exchanged_ffq(const sim_spec& spec) : queue_(spec.capacity, 1, 1), to_(queue_, 0), from_(queue_, 0) {}
  void push(item value) { to_.push(value); }
  std::optional<item> pop() {
    const item value = from_.pop();
    return is_poison(value) ? std::nullopt : std::optional(value);
  }
  std::optional<item> try_pop() {
    item value = 0;
    return from_.try_pop(value) ? std::optional(value) : std::nullopt;
  }
  void end() { to_.push(poison); }

 private:
  queue queue_;
  typename queue::producer to_;
  typename queue::consumer from_;
};

inline contender modelled_contender(std::string name, std::string role, unsigned topics, std::string note,
                                    outcome (*run)(const sim_spec&)) {
  return {.name = std::move(name),
          .family = role == "ours"    ? "muster"
                    : role == "paper" ? "ffq paper"
                                      : "baseline",
          .role = std::move(role),
          .note = std::move(note),
          .topics = topics,
          .model = run};
}

/// Programs of two threads that are both measured and predicted.
template <class ThreadGroup>
void add_validated(catalogue& to, unsigned topics) {
  const auto add = [&](const char* name, const char* role, outcome (*run)(const sim_spec&)) {
    to.all.push_back(modelled_contender(name, role, topics, "", run));
  };
  add("fetch-add", "limit", sim_fetch_add<ThreadGroup, 1>);
  add("ping-pong", "limit", sim_ping_pong<ThreadGroup>);
  add("spsc_queue, stream", "ours", sim_stream<ThreadGroup, spsc_queue<item>>);
  add("spmc_queue, stream", "ours", sim_stream<ThreadGroup, spmc_queue<item>>);
  add("mpmc_queue, stream", "ours", sim_stream<ThreadGroup, mpmc_queue<item>>);
}

/// Those of Figure 8 of the FFQ paper.
template <class ThreadGroup>
void add_pairs(catalogue& to, unsigned topics) {
  const auto add = [&](const char* name, const char* role, const char* note, outcome (*run)(const sim_spec&)) {
    to.all.push_back(modelled_contender(name, role, topics, note, run));
  };
  add("mpmc_queue, pairs", "ours", "", sim_pairs<ThreadGroup, modelled<mpmc_queue<item>>>);
  add("mpmc_queue with a line for each cell, pairs", "ours", "layout::aligned, as FFQ^m has its cells",
      sim_pairs<ThreadGroup, modelled<mpmc_queue<item, layout::aligned>>>);
  if constexpr (double_words) {
    using by_funnels = lcrq<item, cpu_turn, line_size, funnels<>>;
    add("FFQ^m as printed, pairs", "paper", "Algorithm 2 with erratum", sim_pairs<ThreadGroup, modelled_ffq<>>);
    add("LCRQ, pairs", "baseline", "rings of 2^10", sim_pairs<ThreadGroup, modelled_with_handles<lcrq<item>, 1024U>>);
    add("wCQ, pairs", "baseline", "capacity 4096", sim_pairs<ThreadGroup, modelled_with_handles<wcq<item>, 4096U>>);
    add("FFQ^m over funnels, pairs", "baseline", "ranks by Aggregating Funnels",
        sim_pairs<ThreadGroup, modelled_ffq<funnels<>>>);
    add("LCRQ over funnels, pairs", "baseline", "rings of 2^10; tickets by Aggregating Funnels",
        sim_pairs<ThreadGroup, modelled_with_handles<by_funnels, 1024U>>);
  }
  add("LPRQ, pairs", "baseline", "rings of 2^10", sim_pairs<ThreadGroup, modelled_with_handles<lprq<item>, 1024U>>);
  add("SCQ, pairs", "baseline", "capacity 4096", sim_pairs<ThreadGroup, modelled_with_handles<scq<item>, 4096U>>);
  add("WF-10, pairs", "baseline", "Yang and Mellor-Crummey's wait-free queue",
      sim_pairs<ThreadGroup, modelled_with_handles<wf_queue<item>>>);
  add("Michael-Scott queue, pairs", "baseline", "hazard pointers, backoff",
      sim_pairs<ThreadGroup, modelled_with_handles<ms_queue<item>>>);
  add("CC-Queue, pairs", "baseline", "combining_queue over cc_synch, which spins",
      sim_pairs<ThreadGroup, modelled_cc_queue>);
  add("two fetch-adds", "limit",
      "no queue: one on each of two lines, with the same delays. Queues whose threads also wait elsewhere may be "
      "faster: they pass the lines on to nearer threads",
      sim_fetch_add<ThreadGroup, 2>);
}

/// The exchange of Figure 4 of the FFQ paper.
template <class ThreadGroup>
void add_exchanges(catalogue& to, unsigned topics) {
  to.all.push_back(modelled_contender("FFQ^s as printed, exchange", "paper", topics,
                                      "Algorithm 1 with erratum, both ways; flow control outside",
                                      sim_exchange<ThreadGroup, exchanged_ffq<true>, exchanged_ffq<false>>));
  to.all.push_back(
      modelled_contender("spmc_queue + spsc_queue, exchange", "ours", topics, "",
                         sim_exchange<ThreadGroup, exchanged<spmc_queue<item>>, exchanged<spsc_queue<item>>>));
}

}  // namespace muster::bench::inline MUSTER_ABI
