// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// dynamic-graph: inserts edges into a graph and deletes some, in kernels, one lane for each vertex; after each batch it
// searches the graph from vertex 0, and compares the distances with the processor's. On a GPU when nvcc compiles it
// (./dev gpu), otherwise on the emulation of one.
//
//   dynamic-graph [--vertices N] [--changes N] [--batches N] [--memory MIB]
//
// Exit status: 0 both find the same; 1 they do not, or there was no memory on the device; 2 the usage.
#include "command_line.hpp"
#include "graph.hpp"

#include "muster_simt/launch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

namespace {

using muster_simt::device_array;
using namespace dynamic_graph;
using lists = std::vector<std::vector<std::uint32_t>>;

constexpr unsigned block_threads = 256;

struct settings {
  std::uint32_t vertices = 2000;
  std::uint32_t changes = 8000;
  std::uint32_t batches = 6;
  std::uint32_t mebibytes = 32;
};

/// Changes by chance, in the order of their vertices. Few vertices have most of the edges. A third are deletions, and
/// most of these of edges that are there. Applies them to `graph`, too.
std::vector<change> next_batch(const settings& s, lists& graph, std::mt19937& dice) {
  std::vector<change> all;
  const auto below = [&](std::size_t end) { return static_cast<std::uint32_t>(dice() % end); };
  for (std::uint32_t i = 0; i < s.changes; ++i) {
    const std::uint32_t from = below(2) == 0 ? below(s.vertices / 50 + 1) : below(s.vertices);
    all.push_back({from, below(s.vertices), below(3) != 0});
  }
  std::sort(all.begin(), all.end(), [](const change& a, const change& b) { return a.from < b.from; });
  for (change& one : all) {
    auto& edges = graph[one.from];
    if (one.inserted) {
      edges.push_back(one.to);
      continue;
    }
    if (!edges.empty() && below(8) != 0) one.to = edges[below(edges.size())];
    const auto found = std::find(edges.begin(), edges.end(), one.to);
    if (found == edges.end()) continue;
    *found = edges.back();
    edges.pop_back();
  }
  return all;
}

std::vector<std::uint32_t> distances_here(const lists& graph) {
  std::vector<std::uint32_t> distances(graph.size(), never), next{0};
  distances[0] = 0;
  for (std::size_t i = 0; i < next.size(); ++i)
    for (const std::uint32_t to : graph[next[i]])
      if (distances[to] == never) {
        distances[to] = distances[next[i]] + 1;
        next.push_back(to);
      }
  return distances;
}

/// The graph on the device.
class device_graph {
 public:
  device_graph(std::uint32_t vertices, std::size_t bytes)
      : memory_(bytes), all_(vertices), first_(vertices + std::size_t{1}), distances_(vertices), counters_(2) {}

  /// Returns how many changes found no memory.
  std::uint32_t change(const std::vector<dynamic_graph::change>& changes) {
    device_array<dynamic_graph::change> there(changes.size() + 1);
    std::copy(changes.begin(), changes.end(), there.begin());
    std::uint32_t at = 0;
    for (std::uint32_t v = 0; v <= vertices(); ++v) {
      while (at < changes.size() && changes[at].from < v) ++at;
      first_[v] = at;
    }
    counters_[0].store(0, std::memory_order_relaxed);
    muster_simt::launch(blocks(), {block_threads}, apply, memory_.ref(), all_.get(), vertices(),
                        batch{there.get(), first_.get()}, counters_.get());
    return counters_[0].load(std::memory_order_relaxed);
  }
  bool has_distances(const std::vector<std::uint32_t>& expected) {
    for (auto& one : distances_) one.store(never, std::memory_order_relaxed);
    distances_[0].store(0, std::memory_order_relaxed);
    for (std::uint32_t distance = 0;; ++distance) {
      counters_[1].store(0, std::memory_order_relaxed);
      muster_simt::launch(blocks(), {block_threads}, reach, all_.get(), vertices(), distance, distances_.get(),
                          counters_.get() + 1);
      if (counters_[1].load(std::memory_order_relaxed) == 0) break;
    }
    return std::equal(expected.begin(), expected.end(), distances_.begin(),
                      [](std::uint32_t a, const auto& b) { return a == b.load(std::memory_order_relaxed); });
  }
  void clear() {
    muster_simt::launch(blocks(), {block_threads}, dynamic_graph::clear, memory_.ref(), all_.get(), vertices());
  }
  mg::heap_stats stats() const { return memory_.stats(); }

 private:
  std::uint32_t vertices() const { return static_cast<std::uint32_t>(all_.size()); }
  mg::index3 blocks() const { return {(vertices() + block_threads - 1) / block_threads}; }

  mg::heap memory_;
  device_array<vertex> all_;
  device_array<std::uint32_t> first_;
  device_array<mg::atomic<std::uint32_t>> distances_;
  device_array<mg::atomic<std::uint32_t>> counters_;
};

int run(const settings& s) {
  lists here(s.vertices);
  device_graph there(s.vertices, std::size_t{s.mebibytes} << 20U);
  std::mt19937 dice(1);
  bool right = true;
  for (std::uint32_t i = 1; i <= s.batches; ++i) {
    const std::vector<change> changes = next_batch(s, here, dice);
    const auto start = std::chrono::steady_clock::now();
    const std::uint32_t lost = there.change(changes);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (lost != 0) {
      std::fprintf(stderr, "dynamic-graph: the device had no memory for %u changes; --memory gives it more\n", lost);
      return 1;
    }
    const std::vector<std::uint32_t> distances = distances_here(here);
    const bool same = there.has_distances(distances);
    right = right && same;
    std::size_t edges = 0;
    for (const auto& of_vertex : here) edges += of_vertex.size();
    const mg::heap_stats now = there.stats();
    std::printf("batch %u: %zu changes in %.3f s, %zu edges; %zu vertices reached, %s; %.1f KiB in %llu arrays\n", i,
                changes.size(), took.count(), edges,
                static_cast<std::size_t>(
                    std::count_if(distances.begin(), distances.end(), [](std::uint32_t d) { return d != never; })),
                same ? "as on the processor" : "THE PROCESSOR FINDS OTHERS",
                static_cast<double>(now.object_bytes) / 1024, static_cast<unsigned long long>(now.objects));
  }
  there.clear();
  const mg::heap_stats end = there.stats();
  if (end.objects + end.freed_twice + end.freed_invalid != 0) {
    std::fprintf(stderr, "dynamic-graph: %llu arrays are left\n", static_cast<unsigned long long>(end.objects));
    return 1;
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("Changes a graph in kernels, and compares a search in it with the processor's.",
                              "dynamic-graph");
  settings s;
  line.add("--vertices", s.vertices, "of the graph").in(1, 100'000'000).shows_default();
  line.add("--changes", s.changes, "of a batch: edges inserted and deleted").in(0, 1'000'000'000).shows_default();
  line.add("--batches", s.batches, "after each, the graph is searched").in(1, 10'000).shows_default();
  line.add("--memory", s.mebibytes, "for the edges, in MiB").in(1, 100'000).shows_default();
  if (const auto status = line.parse(argc, argv, 2)) return *status;
  try {
    return run(s);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dynamic-graph: %s\n", e.what());
    return 1;
  }
}
