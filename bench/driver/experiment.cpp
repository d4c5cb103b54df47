// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/experiment.hpp"

#include <algorithm>
#include <numeric>

namespace muster::bench {
namespace {

/// Levenshtein's distance, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

const std::vector<experiment>& experiments() {
  static const std::vector<experiment> all{
      queue_one_to_one(),
      queue_fan_out(),
      queue_many_to_many(),
      queue_oversubscribed(),
      queue_slow_consumer(),
      queue_shared(),
      ffq_fig2_layout(),
      ffq_fig3_queue_size(),
      ffq_fig4_affinity_counters(),
      ffq_fig6_affinity_throughput(),
      ffq_fig6_producers(),
      ffq_fig8_comparison(),
      ffq_fig4_simulated(),
      ffq_fig8_simulated(),
      osci_fig1_ideal(),
      osci_fig3_techniques(),
      osci_fig4a_one_thread(),
      osci_fig4_local_work(),
      osci_table2_user_threads(),
      osci_fig2_fibers(),
      osci_table3_latency(),
      osci_table4_misses(),
      osci_fig5a_queues(),
      osci_fig5a_prefilled(),
      osci_fig5b_stacks(),
      osci_fig2_simulated(),
      osci_fig3_simulated(),
      osci_table4_simulated(),
      combine_uncontended(),
      combine_async(),
      fiber_switch_cost(),
      fork_overhead(),
      fork_peers(),
      fork_algorithms_peers(),
      fork_small(),
      fork_waiting(),
      fork_urgent(),
      fork_theft_cost(),
      fork_memory(),
      fork_idle(),
      fork_fig4_cycles_lost(),
      fork_fig5_speed_up(),
      fork_fig6_steal_ratio(),
      fork_fig7_steal_rate(),
      xmalloc_fig2_throughput(),
      xmalloc_fig5_coalescing(),
      xmalloc_fig6_buffers(),
      xmalloc_filled_heap(),
      simulate_validation(),
  };
  return all;
}

const experiment* find_experiment(std::string_view id) {
  const auto& all = experiments();
  const auto found = std::find_if(all.begin(), all.end(), [id](const experiment& e) { return e.id == id; });
  return found == all.end() ? nullptr : &*found;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(),
                           [word](const auto& a, const auto& b) { return distance(word, a) < distance(word, b); });
}

}  // namespace muster::bench
