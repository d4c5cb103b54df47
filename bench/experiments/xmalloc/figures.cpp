// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The figures of XMalloc's paper, by the lanes of each warp that allocate: fig2-throughput, fig5-coalescing,
// fig6-buffers, and the heap that was filled before. On a GPU, in time, as the paper has them. Without one, on its
// emulation, in what is counted.
#include "driver/team_points.hpp"

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

constexpr const char* paper = "xmalloc, ";

bool on_device(const setting& s) {
  const auto all = s.contenders.about(heap_layers);
  return std::any_of(all.begin(), all.end(), [](const contender* c) { return c->on_device; });
}

/// What the driver says it is.
std::string name_of_gpu() {
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  }
  return "a GPU";
}

study by_lanes(const setting& s, topic about, std::uint64_t filled) {
  study made;
  result& r = made.head;
  const bool timed = on_device(s);
  const bool full = s.work.kind == profile::full;
  const std::uint64_t threads = timed ? 1U << 20U : full ? 1U << 16U : 1U << 12U;
  r.x = {"lanes of each warp that allocate", "", "log2", ""};
  r.setting = fmt::format(
      "{} threads in blocks of 256, which allocate 4 bytes, write, and free, on {}", threads,
      timed ? name_of_gpu() : "the emulation of a GPU: what is counted is what kernels do, whatever executes them");
  if (filled != 0) r.setting += fmt::format("; {} objects of 1 KiB are there before", filled);
  for (const contender* c : s.contenders.about(about)) {
    if (c->on_device != timed) continue;
    const std::size_t line = made.add_line(*c);
    for (unsigned active = 1; active <= 32; active *= 2) {
      configuration one;
      one.line = line;
      one.x = active;
      one.fixed_items = threads;
      one.run = [c, active, filled](std::uint64_t items) {
        heap_spec spec;
        spec.active = active;
        spec.items = items;
        spec.filled = filled;
        return c->heap(spec);
      };
      made.configurations.push_back(std::move(one));
    }
  }
  if (timed) {
    r.y = {"time per object", "ns", "log2", "lower"};
    made.value = [](const outcome& o) { return o.seconds * 1e9 / static_cast<double>(o.items); };
  }
  return made;
}

/// Another chart of what has been counted.
void add_count(std::vector<result>& results, const char* suffix, const char* title, const char* what) {
  result r = results.front().also(suffix, results.front().title + ": " + title, {what, "", "log2", "lower"});
  for (series& line : r.lines)
    for (point& p : line.points) p.samples = p.told(what);
  results.push_back(std::move(r));
}
void count_atomics(std::vector<result>& results) { add_count(results, "-atomics", "what changes memory", "atomics"); }

study throughput(const setting& s, std::uint64_t filled) {
  study made = by_lanes(s, heap_layers, filled);
  result& r = made.head;
  if (on_device(s)) return made;
  r.y = {"memory operations per request", "", "log2", "lower"};
  made.value = [](const outcome& o) { return o.told("memory operations"); };
  made.finish = count_atomics;
  return made;
}
study empty_heap(const setting& s) { return throughput(s, 0); }
study filled_heap(const setting& s) {
  const bool full = s.work.kind == profile::full;
  return throughput(s, on_device(s) ? 1U << 17U : full ? 1U << 14U : 1U << 11U);
}

study coalescing(const setting& s) {
  study made = by_lanes(s, heap_coalescing, 0);
  result& r = made.head;
  if (on_device(s)) return made;
  r.y = {"calls of the base per request", "", "log2", "lower"};
  made.value = [](const outcome& o) { return o.told("base calls"); };
  made.finish = [](std::vector<result>& results) {
    add_count(results, "-allocation", "what an allocation changes", "atomics per allocation");
    count_atomics(results);
  };
  return made;
}

study buffers(const setting& s) {
  study made = by_lanes(s, heap_fifos, 0);
  result& r = made.head;
  if (on_device(s)) return made;
  r.y = {"calls of the base per block", "", "", "lower"};
  made.value = [](const outcome& o) { return o.told("base calls") * static_cast<double>(o.items) / o.told("blocks"); };
  made.finish = count_atomics;
  return made;
}

}  // namespace

experiment xmalloc_fig2_throughput() {
  return {"xmalloc/fig2-throughput", "gpu", std::string(paper) + "figure 2", "What an allocation needs", empty_heap};
}
experiment xmalloc_fig5_coalescing() {
  return {"xmalloc/fig5-coalescing", "gpu", std::string(paper) + "figure 5", "Lanes that ask together", coalescing};
}
experiment xmalloc_fig6_buffers() {
  return {"xmalloc/fig6-buffers", "gpu", std::string(paper) + "figure 6", "Blocks that are kept", buffers};
}
experiment xmalloc_filled_heap() {
  return {"xmalloc/filled-heap", "gpu", std::string(paper) + "section 5",
          "What an allocation needs, with a quarter of the heap in use", filled_heap};
}

}  // namespace muster::bench
