// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// gpu.cpp: the figures of XMalloc's paper, by the lanes of each warp that allocate. On a GPU, in time, as the paper has
// them. Without one, on its emulation, in what is counted.
#include "driver/machine.hpp"
#include "table/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

bool on_device(const setting& s) {
  const auto all = s.contenders.about(heap_layers);
  return std::any_of(all.begin(), all.end(), [](const contender* c) { return c->on_device; });
}

/// Adds the charts of counts: these, and that of atomics.
std::function<void(std::vector<result>&)> add_counts(std::vector<other_chart> more = {}) {
  more.push_back({"-atomics", "what changes memory", {"atomics", "", "log2", "lower"}, "atomics"});
  return [more](std::vector<result>& results) {
    for (const other_chart& one : more)
      results.push_back(
          results.front().derived_chart(one.suffix, results.front().title + ": " + one.title, one.y, one.what));
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
      timed ? describe_gpu() : "the emulation of a GPU: what is counted is what kernels do, whatever executes them");
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
  return by_lanes(s, heap_layers, filled,
                  chart({}, {}, {"memory operations per request", "", "log2", "lower"},
                        detail_value("memory operations"), add_counts()));
}
study empty_heap(const setting& s) { return allocations(s, 0); }
study filled_heap(const setting& s) {
  return allocations(s, on_device(s) ? 1U << 17U : s.full() ? 1U << 14U : 1U << 11U);
}

study coalescing(const setting& s) {
  return by_lanes(s, heap_coalescing, 0,
                  chart({}, {}, {"calls of the upstream allocator per request", "", "log2", "lower"},
                        detail_value("upstream calls"),
                        add_counts({{"-allocation",
                                     "what an allocation changes",
                                     {"atomics per allocation", "", "log2", "lower"},
                                     "atomics per allocation"}})));
}

study buffers(const setting& s) {
  return by_lanes(s, heap_fifos, 0,
                  chart(
                      {}, {}, {"calls of the upstream allocator per block", "", "", "lower"},
                      [](const outcome& o) {
                        return o.detail_value("upstream calls") * static_cast<double>(o.items) /
                               o.detail_value("blocks");
                      },
                      add_counts()));
}

/// The charts of frees and of new heaps; and the goals, which are times of 2^20 objects.
void add_timed_charts(std::vector<result>& results) {
  const auto each = [](double milliseconds) { return milliseconds * 1e6 / (1U << 20U); };
  const axis allocation{"time per allocation", "ns", "log2", "lower"};
  const axis free{"time per free", "ns", "log2", "lower"};
  results.push_back(results.front().derived_chart("-free", "Cost of a free, by size", free, "free"));
  results.push_back(
      results.front().derived_chart("-cold", "Cost of an allocation in a new heap, by size", allocation, "cold"));
  add_constant(results[0], "goal", each(0.05), "2^20 objects of 64 bytes in 0.03 ms, others in 0.05 ms");
  for (point& p : results[0].lines.back().points)
    if (p.x == 64) p.samples = {each(0.03)};
  add_constant(results[1], "goal", each(0.03), "2^20 objects in 0.03 ms");
  add_constant(results[2], "goal", each(0.1), "2^20 objects in 0.1 ms");
}

/// All lanes ask for objects of one size, which are freed later.
study by_size(const setting& s) {
  const auto takes_part = [](const contender& c) { return c.heap_sizes != nullptr; };
  const bool timed = std::any_of(s.contenders.all.begin(), s.contenders.all.end(),
                                 [&](const contender& c) { return takes_part(c) && c.on_device; });
  const axis time{"time per allocation", "ns", "log2", "lower"};
  const axis atomics{"atomics per allocation", "", "log2", "lower"};
  std::function<void(std::vector<result>&)> charts = add_timed_charts;
  if (!timed)
    charts = add_charts({{"-free", "Cost of a free, by size", {"atomics per free", "", "log2", "lower"}, "free"},
                         {"-memory",
                          "Memory operations of an allocation, by size",
                          {"memory operations per allocation", "", "log2", "lower"},
                          "memory operations"}});
  study made = chart({}, {}, timed ? time : atomics, timed ? nanoseconds_per_item : detail_value("atomics"), charts);
  result& r = made.head;
  r.x = {"bytes of an object", "B", "log2", ""};
  r.setting = fmt::format("all lanes allocate {}, keep them, and free them; {}",
                          timed ? "2^20 objects, or as many as have 512 MiB" : "4096 objects",
                          timed ? "in a heap of 2 GiB that has been used before, on " + describe_gpu()
                                : "on the emulation of a GPU, in a heap that has been used before");
  for (const contender& c : s.contenders.all) {
    if (!takes_part(c) || c.on_device != timed) continue;
    const std::size_t line = made.add_line(c);
    for (const unsigned bytes :
         points_of(s, {16, 32, 64, 128, 256, 512, 1024, 2048, 4096}, {16, 64, 256, 1024, 2048, 4096})) {
      configuration& one = add_point(made, c, line, bytes, heap_size_spec{.bytes = bytes});
      one.fixed_items = timed ? std::min<std::uint64_t>(1U << 20U, (std::uint64_t{512} << 20U) / bytes) : 4096;
      one.once = !timed;
    }
  }
  return made;
}

/// A chart of one of heap_cases.hpp's loads, with a line for each contender.
class case_chart {
 public:
  case_chart(const setting& s, heap_load about) {
    const auto takes_part = [&](const contender& c) {
      return c.heap_case != nullptr && (c.heap_loads & static_cast<unsigned>(about)) != 0;
    };
    timed_ = std::any_of(s.contenders.all.begin(), s.contenders.all.end(),
                         [&](const contender& c) { return takes_part(c) && c.on_device; });
    for (const contender& c : s.contenders.all)
      if (takes_part(c) && c.on_device == timed_) contenders_.push_back(&c);
  }
  bool timed() const { return timed_; }

  void begin(study made, const std::string& text) {
    made_ = std::move(made);
    made_.head.setting = fmt::format("{}, on {}", text, timed_ ? describe_gpu() : "the emulation of a GPU");
    for (const contender* c : contenders_) made_.add_line(*c);
  }
  /// Adds a point to each line.
  void add(const abscissa& x, std::uint64_t items, const heap_case_spec& spec) {
    for (std::size_t line = 0; line < contenders_.size(); ++line) {
      configuration& one = add_point(made_, *contenders_[line], line, x, spec);
      one.fixed_items = items;
      one.once = !timed_;
    }
  }
  study done() { return std::move(made_); }

 private:
  bool timed_ = false;
  std::vector<const contender*> contenders_;
  study made_;
};

const axis object_bytes{"bytes of an object", "B", "log2", ""};

study fragmentation(const setting& s) {
  case_chart all(s, heap_load::spread);
  const axis range{"range of addresses, by the bytes in use", "", "log2", "lower"};
  all.begin(chart({}, object_bytes, range, detail_value("range"),
                  add_charts({{"-later", "Spread of objects, after 8 rounds", range, "range later"}})),
            fmt::format("{} lanes allocate an object; 8 times, freed in between", all.timed() ? 100'000 : 4096));
  for (const unsigned bytes : points_of(s, {16, 32, 64, 128, 256, 512, 1024, 2048, 4096}, {16, 256, 4096}))
    all.add(bytes, all.timed() ? 100'000 : 4096, {.what = heap_load::spread, .bytes = bytes});
  return all.done();
}

study out_of_memory(const setting& s) {
  case_chart all(s, heap_load::full);
  const axis percent{"of the heap used", "%", "", "higher"}, again{"used again", "%", "", "higher"};
  const axis time{"time of a warp", "us", "log2", "lower"}, loads{"loads of a lane", "", "log2", "lower"};
  const bool timed = all.timed();
  const auto charts = add_charts(
      {{"-refill", "Memory of each second object that can be used again", again, "refilled"},
       {"-null", "Cost of a null when the heap is full", timed ? time : loads, timed ? "null in us" : "null"}});
  const auto finish = [charts, timed](std::vector<result>& results) {
    charts(results);
    add_constant(results[0], "goal", 97, "");
    add_constant(results[1], "goal", 95, "");
    add_constant(results[2], "goal", timed ? 10 : 64, "");
  };
  all.begin(chart({}, object_bytes, percent, detail_value("used"), finish),
            fmt::format("objects are allocated until a lane gets null, in a heap of {} MiB", timed ? 64 : 16));
  for (const unsigned bytes : points_of(s, {64, 256, 1024, 4096, 16384}, {256, 1024, 4096}))
    all.add(bytes, timed ? 16384 : 1024, {.what = heap_load::full, .bytes = bytes});
  return all.done();
}

/// The time of an item; or its operations, and which of them change memory.
study cost(const case_chart& of, const axis& x, const std::string& item) {
  const axis time{"time per " + item, "ns", "log2", "lower"};
  const axis operations{"memory operations per " + item, "", "log2", "lower"};
  std::function<void(std::vector<result>&)> charts;
  if (!of.timed()) charts = add_counts();
  return chart({}, x, of.timed() ? time : operations,
               of.timed() ? nanoseconds_per_item : detail_value("memory operations"), charts);
}

study work(const setting& s, unsigned most) {
  case_chart all(s, heap_load::work);
  all.begin(cost(all, {"threads", "", "log2", ""}, "object"),
            fmt::format("each thread allocates 4 to {} bytes and writes; a later kernel frees", most));
  // CUDA's malloc takes 40 us for some of the large ones.
  const unsigned last = !all.timed() ? 14 : most > 64 ? 16 : 20;
  for (const unsigned bits : points_of(s, {10, 12, 14, 16, 18, 20}, {10, 12}))
    if (bits <= last) all.add(1U << bits, 1U << bits, {.what = heap_load::work, .bytes = most});
  return all.done();
}
study small_work(const setting& s) { return work(s, 64); }
study mixed_work(const setting& s) { return work(s, 4096); }

study graph(const setting& s) {
  case_chart all(s, heap_load::graph_build);
  const std::uint64_t vertices = all.timed() ? 1U << 17U : 1U << 11U;
  all.begin(cost(all, {"what happens", "", "category", ""}, "edge"),
            fmt::format("each of {} threads has a vertex, whose list of edges doubles when it is full; 8 rounds of "
                        "insertion, at all vertices or at one in 64",
                        vertices));
  all.add("build", vertices, {.what = heap_load::graph_build, .bytes = 64});
  all.add("insert", vertices, {.what = heap_load::graph_insert, .bytes = 256});
  all.add("insert at hubs", vertices, {.what = heap_load::graph_hubs, .bytes = 256});
  return all.done();
}

}  // namespace

std::vector<experiment> gpu_rows() {
  const std::string paper = "xmalloc, ";
  return {
      {"xmalloc/fig2-throughput", "gpu", paper + "figure 2", "Cost of an allocation", empty_heap},
      {"xmalloc/fig5-coalescing", "gpu", paper + "figure 5", "Lanes that ask together", coalescing},
      {"xmalloc/fig6-buffers", "gpu", paper + "figure 6", "Blocks that are kept", buffers},
      {"xmalloc/filled-heap", "gpu", paper + "section 5", "Cost of an allocation, with a quarter of the heap in use",
       filled_heap},
      {"gpu/by-size", "gpu", "", "Cost of an allocation, by size", by_size},
      {"gpu/fragmentation", "gpu", "", "Spread of objects over the heap", fragmentation},
      {"gpu/out-of-memory", "gpu", "", "Memory that can be used before the first null", out_of_memory},
      {"gpu/work-generation", "gpu", "", "Objects of 4 to 64 bytes, by threads", small_work},
      {"gpu/work-generation-mixed", "gpu", "", "Objects of 4 to 4096 bytes, by threads", mixed_work},
      {"gpu/graph", "gpu", "", "Edges inserted into a graph", graph},
  };
}

}  // namespace muster::bench
