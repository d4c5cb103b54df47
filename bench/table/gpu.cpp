// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// gpu.cpp: the figures of XMalloc's paper, by the lanes of each warp that allocate. On a GPU, in time, as the paper has
// them. Without one, on its emulation, in what is counted.
#include "table/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

bool on_device(const setting& s) {
  const auto all = s.contenders.about(heap_layers);
  return std::any_of(all.begin(), all.end(), [](const contender* c) { return c->on_device; });
}

/// The model of the first GPU, according to the driver.
std::string name_of_gpu() {
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  }
  return "a GPU";
}

/// Adds the charts of counts: these, and that of atomics.
std::function<void(std::vector<result>&)> add_counts(std::vector<other_chart> more = {}) {
  more.push_back({"-atomics", "what changes memory", {"atomics", "", "log2", "lower"}, "atomics"});
  return [more](std::vector<result>& results) {
    for (const other_chart& one : more)
      results.push_back(results.front().also(one.suffix, results.front().title + ": " + one.title, one.y, one.what));
  };
}

/// Measures time on a GPU; elsewhere `counted` has the y axis, the value and the derived charts.
study by_lanes(const setting& s, topic about, std::uint64_t filled, study counted) {
  const bool timed = on_device(s);
  const std::uint64_t threads = timed ? 1U << 20U : s.full() ? 1U << 16U : 1U << 12U;
  study made =
      timed ? chart({}, {}, {"time per object", "ns", "log2", "lower"}, nanoseconds_per_item) : std::move(counted);
  result& r = made.head;
  r.x = {"lanes of each warp that allocate", "", "log2", ""};
  r.setting = fmt::format(
      "{} threads in blocks of 256, which allocate 4 bytes, write, and free, on {}", threads,
      timed ? name_of_gpu() : "the emulation of a GPU: what is counted is what kernels do, whatever executes them");
  if (filled != 0) r.setting += fmt::format("; {} objects of 1 KiB are there before", filled);
  for (const contender* c : s.contenders.about(about)) {
    if (c->on_device != timed) continue;
    const std::size_t line = made.add_line(*c);
    for (unsigned active = 1; active <= 32; active *= 2) {
      configuration& one = add_point(made, *c, line, active, heap_spec{.active = active, .filled = filled});
      one.fixed_items = threads;
      one.once = !timed;  // the emulation does the same each time
    }
  }
  return made;
}

study allocations(const setting& s, std::uint64_t filled) {
  return by_lanes(
      s, heap_layers, filled,
      chart({}, {}, {"memory operations per request", "", "log2", "lower"}, told("memory operations"), add_counts()));
}
study empty_heap(const setting& s) { return allocations(s, 0); }
study filled_heap(const setting& s) {
  return allocations(s, on_device(s) ? 1U << 17U : s.full() ? 1U << 14U : 1U << 11U);
}

study coalescing(const setting& s) {
  return by_lanes(s, heap_coalescing, 0,
                  chart({}, {}, {"calls of the base per request", "", "log2", "lower"}, told("base calls"),
                        add_counts({{"-allocation",
                                     "what an allocation changes",
                                     {"atomics per allocation", "", "log2", "lower"},
                                     "atomics per allocation"}})));
}

study buffers(const setting& s) {
  return by_lanes(
      s, heap_fifos, 0,
      chart(
          {}, {}, {"calls of the base per block", "", "", "lower"},
          [](const outcome& o) { return o.told("base calls") * static_cast<double>(o.items) / o.told("blocks"); },
          add_counts()));
}

}  // namespace

std::vector<experiment> gpu_rows() {
  const std::string paper = "xmalloc, ";
  return {
      {"xmalloc/fig2-throughput", "gpu", paper + "figure 2", "What an allocation needs", empty_heap},
      {"xmalloc/fig5-coalescing", "gpu", paper + "figure 5", "Lanes that ask together", coalescing},
      {"xmalloc/fig6-buffers", "gpu", paper + "figure 6", "Blocks that are kept", buffers},
      {"xmalloc/filled-heap", "gpu", paper + "section 5", "What an allocation needs, with a quarter of the heap in use",
       filled_heap},
  };
}

}  // namespace muster::bench
