// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// experiment.hpp: the experiments by name.
#pragma once

#include "driver/study.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

/// What an experiment may know when it prepares a study for this machine.
struct setting {
  const catalogue& contenders;
  const placement& place;
  effort work;
  std::string machine{};  // the file of the machine to simulate; empty: the experiment's own choice
};

struct experiment {
  std::string id;
  std::string part;
  std::string source;
  std::string title;
  study (*prepare)(const setting&);
};

/// All experiments, in the order in which a reader should meet them.
const std::vector<experiment>& experiments();

/// The one of that id; a null pointer when there is none.
const experiment* find_experiment(std::string_view id);

/// The candidate that takes the fewest changes of letters to become `word`.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// One for each file in bench/experiments.
experiment queue_one_to_one();
experiment queue_fan_out();
experiment queue_many_to_many();
experiment queue_oversubscribed();
experiment queue_slow_consumer();
experiment queue_shared();
experiment ffq_fig2_layout();
experiment ffq_fig3_queue_size();
experiment ffq_fig4_affinity_counters();
experiment ffq_fig6_affinity_throughput();
experiment ffq_fig6_producers();
experiment ffq_fig8_comparison();
experiment ffq_fig4_simulated();
experiment ffq_fig8_simulated();
experiment osci_table2_user_threads();
experiment osci_fig2_fibers();
experiment osci_fig3_techniques();
experiment osci_fig4_local_work();
experiment osci_table3_latency();
experiment osci_table4_misses();
experiment osci_fig1_ideal();
experiment osci_fig2_simulated();
experiment osci_fig3_simulated();
experiment osci_table4_simulated();
experiment osci_fig4a_one_thread();
experiment osci_fig5a_queues();
experiment osci_fig5a_prefilled();
experiment osci_fig5b_stacks();
experiment combine_uncontended();
experiment combine_async();
experiment fiber_switch_cost();
experiment fork_overhead();
experiment fork_peers();
experiment fork_algorithms_peers();
experiment fork_small();
experiment fork_waiting();
experiment fork_urgent();
experiment fork_theft_cost();
experiment fork_memory();
experiment fork_idle();
experiment fork_fig4_cycles_lost();
experiment fork_fig5_speed_up();
experiment fork_fig6_steal_ratio();
experiment fork_fig7_steal_rate();
experiment xmalloc_fig2_throughput();
experiment xmalloc_fig5_coalescing();
experiment xmalloc_fig6_buffers();
experiment xmalloc_filled_heap();
experiment simulate_validation();

}  // namespace muster::bench
