// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork/fig4-cycles-lost to fork/fig7-steal-rate: what thefts cost those from whom is stolen, and how many there are.
#include "driver/fork_run.hpp"
#include "experiments/fork/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace muster::bench {
namespace {

constexpr std::array programs{"jacobi", "jacobi fine", "lud", "heat"};
constexpr const char* paper = "Kumar, Blackburn, Grove, VEE 2014, ";

study policies(const setting& s) {
  study made;
  made.head.setting =
      "jacobi: leaves of 256 cells, jacobi fine: of 2; lud: blocks of 16 x 16; heat: leaves of 10 lines; stop: the "
      "owner offers one fork and stops until it is taken; barrier: all at once; half: the older half; watermark: the "
      "same without replaced return addresses";
  made.head.x = {"program", "", "category", ""};
  add_fork_lines(made, s, fork_policies, programs);
  return made;
}

/// Leaves out what cannot be measured: without another worker nothing is stolen.
void without_single_workers(std::vector<result>& results) {
  std::erase_if(results.front().lines,
                [](const series& line) { return line.name == plain_calls || line.name.ends_with(" 1 worker"); });
}

constexpr const char* one_percent = "1 % of all";

/// The parts of what is lost, from the same runs.
void add_parts(std::vector<result>& results) {
  without_single_workers(results);
  for (const char* const part : {"publishing", "at the barrier", "waiting"}) {
    const std::string suffix = fmt::format("-{}", part == std::string("at the barrier") ? "barrier" : part);
    axis y = results.front().y;
    y.name = fmt::format("cycles {}", part);
    results.push_back(results.front().also(suffix, fmt::format("Cycles lost by thefts: {}", part), y, part));
  }
}

/// What more workers would lose. Each steals as the second does, and one answer serves as many of them as forks are
/// offered in it; the work stays the same.
void add_model(std::vector<result>& results) {
  constexpr const char* program = "jacobi fine";
  result r = results.front().also(
      "-model", "Cycles lost by thefts on larger machines: a model from what two workers lose", results.front().y);
  r.setting =
      "jacobi fine; a model, not measured but at 2: each worker steals as the second does, an answer serves as "
      "many as it offers forks";
  r.x = {"workers", "", "log2", ""};
  std::erase_if(r.lines, [](const series& line) { return !line.name.ends_with(", 2 workers"); });
  for (series& line : r.lines) {
    const point* const measured = line.at(program);
    if (measured == nullptr || measured->samples.empty()) continue;
    const double lost = median(measured->samples);
    const double answers = median(measured->told("answers"));
    const double offered = median(measured->told("offered")) / std::max(1.0, answers);
    line.name = line.name.substr(0, line.name.find(','));
    line.points.clear();
    for (unsigned workers = 2; workers <= 64; workers *= 2) {
      const double thieves = workers - 1;
      line.points.push_back({});
      line.points.back().x = workers;
      // What is not lost is the same work, so of more workers' cycles it is a smaller share.
      const double many_lost = lost * thieves / std::max(1.0, std::min(offered, thieves));
      line.points.back().samples = {100 * many_lost / (100 - lost + many_lost)};
    }
  }
  results.push_back(std::move(r));
}

study cycles_lost(const setting& s) {
  study made = policies(s);
  result& r = made.head;
  r.y = {"cycles lost by owners", "%", "", "lower"};
  made.value = [](const outcome& o) { return o.told("publishing") + o.told("at the barrier"); };
  made.finish = [](std::vector<result>& results) {
    add_parts(results);
    add_model(results);
    add_constant(results.front(), one_percent, 1, "");
  };
  return made;
}

study speed_up(const setting& s) {
  study made = policies(s);
  result& r = made.head;
  r.y = {"time", "ms", "", "lower"};
  made.value = [](const outcome& o) { return o.seconds * 1e3; };
  made.finish = [](std::vector<result>& results) {
    add_speed_up(results, "Speed-up over plain calls, by how much is offered");
  };
  return made;
}

study steal_ratio(const setting& s) {
  study made = policies(s);
  made.head.y = {"thefts per fork", "", "", "lower"};
  for (configuration& one : made.configurations) {
    const std::string program = one.x.get<std::string>();
    const std::uint64_t forks = serial_forks(program, fork_size(program, s.work.kind));
    one.run = [run = one.run, forks](std::uint64_t items) {
      outcome o = run(items);
      o.detail["thefts per fork"] = o.told("thefts") / static_cast<double>(forks);
      return o;
    };
  }
  made.value = [](const outcome& o) { return o.told("thefts per fork"); };
  made.finish = without_single_workers;
  return made;
}

study steal_rate(const setting& s) {
  study made = policies(s);
  made.head.y = {"thefts per second", "1/s", "", "lower"};
  made.value = [](const outcome& o) { return o.told("thefts") / o.seconds; };
  made.finish = without_single_workers;
  return made;
}

}  // namespace

experiment fork_fig4_cycles_lost() {
  return {"fork/fig4-cycles-lost", "fork", std::string(paper) + "figures 2 and 4", "Cycles lost by thefts",
          cycles_lost};
}
experiment fork_fig5_speed_up() {
  return {"fork/fig5-speed-up", "fork", std::string(paper) + "figure 5", "Time, by how much is offered", speed_up};
}
experiment fork_fig6_steal_ratio() {
  return {"fork/fig6-steal-ratio", "fork", std::string(paper) + "figure 6", "Thefts per fork", steal_ratio};
}
experiment fork_fig7_steal_rate() {
  return {"fork/fig7-steal-rate", "fork", std::string(paper) + "figure 7", "Thefts per second", steal_rate};
}

}  // namespace muster::bench
