// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork.cpp: programs that fork and join (programs/), beside other libraries' and plain calls; what a fork and a theft
// cost; and the figures of the paper on return barriers.
#include "driver/fork_run.hpp"
#include "programs/all.hpp"
#include "programs/urgent.hpp"
#include "table/points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {
namespace {

const axis by_program{"program", "", "category", ""};
const axis time_in_ms{"time", "ms", "", "lower"};

/// The contenders of a topic that have workers.
std::vector<const contender*> those_with_workers(const setting& s, topic about) {
  std::vector<const contender*> found = s.contenders.about(about);
  std::erase_if(found, [](const contender* c) { return c->name == plain_calls; });
  return found;
}

// ------------------------------------------------------------------------------------------------------------ programs

/// The time above the plain calls, per fork. In both programs there is a fork for two calls.
void add_cost_of_a_fork(std::vector<result>& results) {
  result r = results.front().derived_chart("-fork", "A fork and its join, above the calls",
                                           {"time per fork", "ns", "", "lower"});
  if (!compare_with_plain_calls(r, [](double with, double without) { return 2 * (with - without); })) return;
  results.push_back(std::move(r));
}

/// The cost of a fork to one worker, without thefts.
study overhead(const setting& s) {
  study made = chart(
      "1 worker; fib(25), in the full profile also fib(42) without peers, and the sums over balanced trees of nodes "
      "that lie in the order of the visit; one fork for two calls; all executions in one run of the pool",
      by_program, {"time per call", "ns", "", "lower"}, nanoseconds_per_item, add_cost_of_a_fork);
  for (const contender* c : s.contenders.about(fork_calls)) {
    const std::size_t line = made.add_line(*c);
    const auto add = [&](const char* x, const char* program, std::uint64_t size) {
      add_fork_point(made, s, *c, line, x, {.program = program, .size = size, .one_run = true}).fixed_items = 0;
    };
    add("fib", "fib", 25);
    add("tree of 1,000", "tree", 1000);
    add("tree of 1,000,000", "tree", 1000000);
    // Peers take a minute for a run, and show nothing new.
    if (s.full() && (c->name == plain_calls || c->family == "muster")) add("fib(42)", "fib", 42);
  }
  return made;
}

study all_programs(const setting& s) {
  study made = chart(
      fmt::format(
          "{}; jacobi: leaves of 256 cells, jacobi fine: of 2; heat: leaves of 10 lines; lud: blocks of 16 x 16; "
          "cholesky: tiles of 32 x 32; matmul: leaves of 32 x 32; cilksort: leaves of 2048 numbers; uts: a loop over "
          "children, for oneTBB and OpenMP a task for each",
          s.full() ? "fib(35), integrate to 2000, 13 queens, skynet of 1,000,000 leaves, tree of 1,000,000 nodes, uts "
                     "T1 and T3, matrices of 1024 x 1024, 10,000,000 numbers, jacobi: 100 steps on 1024 x 1024, fine: "
                     "on 512 x 512, heat: 200 steps on 4096 x 1024"
                   : "small sizes of all programs"),
      by_program, time_in_ms, milliseconds,
      add_speed_up("Fork/join programs: speed-up over the program without forks"));
  add_fork_lines(made, s, fork_programs, fork_program_names);
  return made;
}

study all_algorithms(const setting& s) {
  study made =
      chart(fmt::format("{}; the loop's turns become longer and longer",
                        s.full() ? "10,000,000 numbers, 1,000,000 texts, sums over 40,000,000 numbers, 100,000 turns"
                                 : "1,000,000 numbers, 100,000 texts, sums over 4,000,000 numbers, 20,000 turns"),
            {"algorithm", "", "category", ""}, time_in_ms, milliseconds);
  add_fork_lines(made, s, fork_algorithms, fork_algorithm_names);
  return made;
}

/// Each sum is a run of the pool of its own, so this shows the cost of a pool to short tasks.
study small_trees(const setting& s) {
  study made = chart(
      "balanced trees; a fork at each node with two children; warm: one sum after another, cold: 3 ms after the last",
      {"nodes", "", "log2", ""}, {"time per node", "ns", "", "lower"}, nanoseconds_per_item);
  for (const contender* c : s.contenders.about(fork_programs))
    for (const unsigned workers : worker_counts(*c, s.place))
      for (const bool cold : {false, true}) {
        const std::size_t line = add_line_as(made, *c, with_workers(*c, workers) + (cold ? ", cold" : ", warm"));
        for (const unsigned nodes : points_of(s, {10, 100, 1000, 10000, 100000}, {10, 1000, 100000}))
          add_fork_point(made, s, *c, line, nodes,
                         {.program = "tree", .size = nodes, .workers = workers, .pause = cold ? 3e-3 : 0})
              .fixed_items = cold ? nodes * (s.full() ? 100U : 10U) : 0;
      }
  return made;
}

study locks_over_joins(const setting& s) {
  study made = chart(
      "every other part of a loop forks and joins while it holds a mutex; it is a deadlock when a thread wants the "
      "mutex that it holds itself, or gets it not within 0.3 s (a part takes less than a millisecond)",
      {"workers", "", "category", ""}, {"parts before a deadlock", "of 1000", "", "higher"},
      detail_value("before a deadlock"));
  for (const contender* c : those_with_workers(s, fork_programs)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned workers : {2U, 4U})
      add_fork_point(made, s, *c, line, std::to_string(workers),
                     {.program = "locked", .size = fork_size("locked", s.work.kind), .workers = workers});
  }
  return made;
}

study urgent_joins(const setting& s) {
  study made = chart(
      "a chain of forks of 2 and 4 ms, each joined before the next, beside twice as many pieces of 10 ms; all sleep, "
      "so workers may outnumber processors; the latest join of a run, after both halves have ended",
      {"workers", "", "category", ""}, {"latest join", "ms", "", "lower"},
      [](const outcome& o) { return 1e3 * o.detail_value("latest join"); },
      [](std::vector<result>& results) {
        // The whole time, above that in which all workers always have a piece.
        add_changed(results, "-time", "All pieces, with the ones that no join waits for",
                    {"time over that of the pieces", "", "", "lower"},
                    [](const series&, point& p) { p.samples = p.detail_values("over ideal"); });
        add_constant(results.back(), "always a piece for each", 1, "the pieces, divided by the workers");
        add_constant(results.front(), "one piece", 1e3 * urgent_times::piece, "of the others");
      });
  for (const contender* c : those_with_workers(s, fork_programs)) {
    const std::size_t line = made.add_line(*c);
    for (const unsigned workers : {3U, 4U}) {
      const std::uint64_t size = fork_size("urgent", s.work.kind);
      configuration& one = add_fork_point(made, s, *c, line, std::to_string(workers),
                                          {.program = "urgent", .size = size, .workers = workers});
      one.run = [run = one.run, ideal = urgent_times::ideal(size, workers)](std::uint64_t items) {
        outcome o = run(items);
        o.detail["over ideal"] = o.seconds / ideal;
        return o;
      };
    }
  }
  return made;
}

/// The most that a program has resident, in a process of its own.
study memory(const setting& s) {
  study made = chart(
      "peak of the whole process, with the program that measures; each run in a process of its own", by_program,
      {"peak memory", "MiB", "", "lower"},
      [](const outcome& o) { return static_cast<double>(o.peak_memory) * 0x1p-20; },
      [](std::vector<result>& results) {
        // Above the memory of the process before the run.
        add_changed(results, "-growth", "Memory that a fork/join program adds to its process",
                    {"memory added", "MiB", "", "lower"}, [](const series&, point& p) {
                      const std::vector<double> at_start = p.detail_values("resident at the start");
                      for (std::size_t i = 0; i < at_start.size(); ++i) p.samples[i] -= at_start[i] * 0x1p-20;
                    });
      });
  add_fork_lines(made, s, fork_programs, std::array{"uts T3", "fib", "skynet"});
  return made;
}

study idle_pools(const setting& s) {
  const double seconds = s.full() ? 1.0 : 0.05;
  study made = chart(
      fmt::format("{} workers; {} s, from 0.1 s after a sum over a tree on; after a run: when it has ended; within a "
                  "run: the thread that has called sleeps, and the other workers have no work",
                  s.place.units(), seconds),
      {"when", "", "category", ""}, {"processor time per second", "µs", "", "lower"}, detail_value("idle"));
  for (const contender* c : s.contenders.about(fork_programs)) {
    const std::size_t line = made.add_line(*c);
    for (const auto& [x, when] :
         {std::pair{"after a run", idleness::outside}, std::pair{"within a run", idleness::inside}})
      add_fork_point(
          made, s, *c, line, x,
          {.program = "tree", .size = 100000, .workers = s.place.units(), .idle = when, .idle_seconds = seconds});
  }
  return made;
}

// -------------------------------------------------------------------------------------------------------------- thefts

study by_depth(const setting& s) {
  study made = chart(
      "one worker is as many forks deep as x says, and forks on; another comes, and steals eight, and more on the way "
      "back; the owner's cycles in answering and at its joins; the thief's from finding an offer "
      "to where it begins",
      {"depth", "forks", "log2", ""}, {"the owner's cycles per theft", "cycles", "log2", "lower"},
      detail_value("cycles per theft"), [](std::vector<result>& results) {
        add_changed(results, "-time", "Time per theft, by the depth of the stack",
                    {"time per theft", "us", "log2", "lower"}, [](const series&, point& p) {
                      p.samples = p.detail_values("seconds per theft");
                      for (double& sample : p.samples) sample *= 1e6;
                    });
        add_charts({{"-thief",
                     "Cost of a theft for the thief, by the depth of the owner's stack",
                     {"the thief's cycles per theft", "cycles", "log2", "lower"},
                     "thief's cycles per theft"}})(results);
      });
  for (const contender* c : those_with_workers(s, fork_policies)) {
    const std::size_t line = made.add_line(*c);
    for (const std::uint64_t depth : {10U, 100U, 1'000U, 10'000U})
      add_fork_point(made, s, *c, line, depth, {.program = "spine", .size = depth, .workers = 2});
  }
  return made;
}

/// The runs of four figures: measured once when several of them are asked for.
study policies(const setting& s, axis y, std::function<double(const outcome&)> value,
               std::function<void(std::vector<result>&)> finish) {
  study made = chart(
      "jacobi: leaves of 256 cells, jacobi fine: of 2; lud: blocks of 16 x 16; heat: leaves of 10 lines; stop: the "
      "owner offers one fork and stops until it is taken; barrier: all at once; half: the older half; watermark: the "
      "same without replaced return addresses",
      by_program, std::move(y), std::move(value), std::move(finish));
  add_fork_lines(made, s, fork_policies, std::array{"jacobi", "jacobi fine", "lud", "heat"});
  for (configuration& one : made.configurations) {
    const std::string program = one.x.get<std::string>();
    const std::uint64_t forks = serial_forks(program, fork_size(program, s.work.kind));
    one.run = [run = one.run, forks](std::uint64_t items) {
      outcome o = run(items);
      o.detail["thefts per fork"] = o.detail_value("thefts") / static_cast<double>(forks);
      return o;
    };
  }
  made.same_runs = "fork policies";
  return made;
}

/// Removes lines without a second worker, which have no thefts.
void without_single_workers(std::vector<result>& results) {
  std::erase_if(results.front().lines,
                [](const series& line) { return line.name == plain_calls || line.name.ends_with(" 1 worker"); });
}

/// Models the loss of more workers: each steals as often as the second does, one answer serves as many thieves as it
/// offers forks, and the work stays the same.
void add_model(std::vector<result>& results) {
  result r = results.front().derived_chart(
      "-model", "Cycles lost by thefts on larger machines: a model from what two workers lose", results.front().y);
  r.setting =
      "jacobi fine; a model, not measured but at 2: each worker steals as the second does, an answer serves as "
      "many as it offers forks";
  r.x = {"workers", "", "log2", ""};
  std::erase_if(r.lines, [](const series& line) { return !line.name.ends_with(", 2 workers"); });
  for (series& line : r.lines) {
    const point* const measured = line.at("jacobi fine");
    if (measured == nullptr || measured->samples.empty()) continue;
    const double lost = median(measured->samples);
    const double answers = median(measured->detail_values("answers"));
    const double offered = median(measured->detail_values("offered")) / std::max(1.0, answers);
    line.name = line.name.substr(0, line.name.find(','));
    line.points.clear();
    for (unsigned workers = 2; workers <= 64; workers *= 2) {
      const double thieves = workers - 1;
      line.points.push_back({});
      line.points.back().x = workers;
      // The useful work is constant, so its share of the cycles falls with more workers.
      const double many_lost = lost * thieves / std::max(1.0, std::min(offered, thieves));
      line.points.back().samples = {100 * many_lost / (100 - lost + many_lost)};
    }
  }
  results.push_back(std::move(r));
}

study cycles_lost(const setting& s) {
  const axis y{"cycles lost by owners", "%", "", "lower"};
  const auto part = [&y](const char* name) {
    axis of = y;
    of.name = fmt::format("cycles {}", name);
    return of;
  };
  const auto parts =
      add_charts({{"-publishing", "Cycles lost by thefts: publishing", part("publishing"), "publishing"},
                  {"-barrier", "Cycles lost by thefts: at the barrier", part("at the barrier"), "at the barrier"},
                  {"-waiting", "Cycles lost by thefts: waiting", part("waiting"), "waiting"}});
  return policies(
      s, y, [](const outcome& o) { return o.detail_value("publishing") + o.detail_value("at the barrier"); },
      [parts](std::vector<result>& results) {
        without_single_workers(results);
        parts(results);
        add_model(results);
      });
}

study speed_up(const setting& s) {
  return policies(s, time_in_ms, milliseconds, add_speed_up("Speed-up over plain calls, by how much is offered"));
}

study steal_ratio(const setting& s) {
  return policies(s, {"thefts per fork", "", "", "lower"}, detail_value("thefts per fork"), without_single_workers);
}

study steal_rate(const setting& s) {
  return policies(
      s, {"thefts per second", "1/s", "", "lower"},
      [](const outcome& o) { return o.detail_value("thefts") / o.seconds; }, without_single_workers);
}

// -------------------------------------------------------------------------------------------------------------- graphs

study graphs(const setting& s, graph_shape shape, const char* what, const char* width,
             const std::vector<unsigned>& widths, const char* building) {
  const axis time{"time per task", "ns", "", "lower"};
  study made = chart(std::string(what) +
                         ", and does no more than check that; built once, executed again and again; workers: threads "
                         "that execute tasks, and Taskflow's caller sleeps beside them",
                     {width, "tasks", "log2", ""}, time, nanoseconds_per_item,
                     add_charts({{"-building", building, time, "building"}}));
  for (const contender& c : s.contenders.all)
    if (c.graph != nullptr)
      for (const unsigned workers : worker_counts(c, s.place)) {
        const std::size_t line = add_line_as(made, c, with_workers(c, workers));
        for (const unsigned n : widths)
          add_point(made, c, line, n,
                    graph_spec{.shape = shape, .width = n, .workers = workers, .pus = s.place.assign(workers, 0)});
      }
  return made;
}

study task_graphs(const setting& s) {
  return graphs(s, graph_shape::square, "width x width tasks; each follows those above it and to its left", "width",
                points_of(s, {64, 128, 256, 512, 1024}, {64, 256}), "Graphs of tasks: building");
}

study task_fans(const setting& s) {
  return graphs(s, graph_shape::fan,
                "width x width tasks; each follows the first task, and the last follows all of them", "width",
                points_of(s, {64, 128, 256, 512, 1024}, {64, 256}), "Fans of tasks: building");
}

study level_graphs(const setting& s) {
  return graphs(s, graph_shape::levels,
                "64 levels of so many tasks; each precedes one to four random ones of the next level",
                "width of a level", points_of(s, {16, 64, 256, 1024, 4096}, {64, 1024}), "Random graphs: building");
}

// --------------------------------------------------------------------------------------------------------------- tasks

study all_tasks(const setting& s) {
  study made = chart(
      "functions that do no more than count; submit and get: one after another; in flight: 10,000 submitted, then "
      "their "
      "results; group: 10,000 tasks from one thread; tree: 10,000 tasks of a group, each of which runs two; pipeline: "
      "1,000 items through a serial, a parallel and a serial stage, at most four for each worker under way; workers: "
      "threads that execute functions, and the callers of Taskflow and BS::thread_pool sleep beside them",
      {"load", "", "category", ""}, {"time per function", "ns", "", "lower"}, nanoseconds_per_item);
  constexpr std::array<std::pair<task_load, const char*>, 5> loads{{{task_load::one, "submit and get"},
                                                                    {task_load::in_flight, "in flight"},
                                                                    {task_load::group, "group"},
                                                                    {task_load::tree, "tree"},
                                                                    {task_load::pipeline, "pipeline"}}};
  for (const contender& c : s.contenders.all)
    if (c.tasks != nullptr)
      for (const unsigned workers : worker_counts(c, s.place)) {
        const std::size_t line = add_line_as(made, c, with_workers(c, workers));
        for (const auto& [what, x] : loads)
          if (std::find(c.task_loads.begin(), c.task_loads.end(), what) != c.task_loads.end())
            add_point(made, c, line, x, task_spec{.what = what, .workers = workers, .pus = s.place.assign(workers, 0)});
      }
  return made;
}

study task_tails(const setting& s) {
  const unsigned workers = 4 * s.place.units();
  study made = chart(fmt::format("a function that does no more than count is submitted, and its result awaited, again "
                                 "and again; {} workers on {} hardware threads",
                                 workers, s.place.units()),
                     by_quantile, {"time until the result", "ns", "log2", "lower"}, detail_value("p99.9"),
                     [](std::vector<result>& results) { show_quantiles(results.front()); });
  for (const contender& c : s.contenders.all)
    if (c.tasks != nullptr)
      add_point(made, c, made.add_line(c), "p99.9",
                task_spec{.workers = workers, .latency = true, .pus = s.place.assign(workers, 0)});
  return made;
}

// ---------------------------------------------------------------------------------------------------- more algorithms

using named_algorithm = std::pair<algorithm_load, const char*>;

/// The contenders that fit, with all loads.
study algorithms_on_numbers(const setting& s, const char* what, const std::vector<named_algorithm>& loads,
                            const std::function<bool(const contender&)>& fits) {
  const unsigned size = s.full() ? 10'000'000 : 1'000'000;
  study made = chart(fmt::format("{} numbers of 32 bits; {}", size, what), {"algorithm", "", "category", ""},
                     {"time per number", "ns", "", "lower"}, nanoseconds_per_item);
  for (const contender& c : s.contenders.all)
    if (c.algorithm != nullptr && fits(c))
      for (const unsigned workers : worker_counts(c, s.place)) {
        const std::size_t line = add_line_as(made, c, with_workers(c, workers));
        for (const auto& [load, x] : loads)
          add_point(made, c, line, x,
                    algorithm_spec{.what = load, .size = size, .workers = workers, .pus = s.place.assign(workers, 0)});
      }
  return made;
}

bool takes_part(const contender& c, algorithm_load in) {
  return std::find(c.algorithm_loads.begin(), c.algorithm_loads.end(), in) != c.algorithm_loads.end();
}

study range_algorithms(const setting& s) {
  return algorithms_on_numbers(s, "find: the last one; unique: runs of 2 on average",
                               {{algorithm_load::find, "find_if"},
                                {algorithm_load::extremes, "minmax_element"},
                                {algorithm_load::select, "copy_if"},
                                {algorithm_load::unique, "unique"},
                                {algorithm_load::partition, "partition"},
                                {algorithm_load::merge, "merge"}},
                               [](const contender& c) { return takes_part(c, algorithm_load::find); });
}

study parlay_algorithms(const setting& s) {
  for (const left_out& gone : s.contenders.missing)
    if (gone.family == "parlaylib")
      return chart(fmt::format("NOT HERE: {} ({})", gone.family, gone.reason), {"algorithm", "", "category", ""},
                   {"time per number", "ns", "", "lower"}, nanoseconds_per_item);
  return algorithms_on_numbers(s, "of 24 random bits; histogram: 256 buckets",
                               {{algorithm_load::sort, "sort"},
                                {algorithm_load::integer_sort, "integer_sort"},
                                {algorithm_load::scan, "scan"},
                                {algorithm_load::select, "filter"},
                                {algorithm_load::histogram, "histogram"}},
                               [](const contender& c) { return takes_part(c, algorithm_load::integer_sort); });
}

// --------------------------------------------------------------------------------------------------------- short loops

study short_loops(const setting& s) {
  study made = chart(
      "for: numbers[i] = numbers[i] * 0.5 + n; sum: of numbers[i] + n; so many turns, more or less by a tenth; one "
      "loop after another in one run of the pool",
      {"loop", "", "category", ""}, {"time per loop", "ns", "", "lower"}, nanoseconds_per_item);
  for (const contender& c : s.contenders.all)
    if (c.loops != nullptr)
      for (const unsigned workers : worker_counts(c, s.place)) {
        if (!s.full() && workers == 1 && c.role == "peer") continue;
        const std::size_t line = add_line_as(made, c, with_workers(c, workers));
        for (const auto& [what, name] : {std::pair{loop_load::each, "for"}, {loop_load::sum, "sum"}})
          for (const unsigned turns : {10U, 100U, 1000U, 10'000U}) {
            if (!s.full() && (turns > 1000 || (turns == 100 && what == loop_load::sum))) continue;
            configuration& point = add_point(
                made, c, line, fmt::format("{} {}", name, turns),
                loop_spec{.what = what, .turns = turns, .workers = workers, .pus = s.place.assign(workers, 0)});
            point.maybe_slow = true;
          }
      }
  return made;
}

// ------------------------------------------------------------------------------------------------------------- sorting

study sorting(const setting& s) {
  constexpr unsigned main_size = 100'000;
  study made = chart(
      "nearly sorted: one swap for each 2,000 elements; few values: 16; sawtooth: ten runs; int: 32 bits; string: 18 "
      "characters; record: 64 bytes, compared by 8; std::sort and std::stable_sort are serial",
      {"input", "", "category", ""}, {"time per element", "ns", "", "lower"}, nanoseconds_per_item);
  constexpr std::array<std::pair<sequence_shape, const char*>, 8> shapes{
      {{sequence_shape::random, "random"},
       {sequence_shape::sorted, "sorted"},
       {sequence_shape::reversed, "reversed"},
       {sequence_shape::organ_pipe, "organ pipe"},
       {sequence_shape::equal, "all equal"},
       {sequence_shape::few_values, "few values"},
       {sequence_shape::nearly_sorted, "nearly sorted"},
       {sequence_shape::sawtooth, "sawtooth"}}};
  constexpr std::array<std::pair<sorted_type, const char*>, 4> types{{{sorted_type::whole_number, "int"},
                                                                      {sorted_type::real_number, "double"},
                                                                      {sorted_type::text, "string"},
                                                                      {sorted_type::record, "record"}}};
  for (const contender& c : s.contenders.all) {
    if (c.sort == nullptr) continue;
    const bool serial = c.family == "std";
    for (const unsigned workers : serial ? std::vector<unsigned>{1} : worker_counts(c, s.place)) {
      if (!s.full() && workers == 1 && c.role == "peer") continue;
      const std::size_t line = add_line_as(made, c, serial ? c.name : with_workers(c, workers));
      for (const auto& [type, type_name] : types)
        for (const unsigned size : {1000U, 10'000U, main_size, 1'000'000U}) {
          const bool is_main = type == sorted_type::whole_number && size == main_size;
          if (!is_main && (!s.full() || c.sorts_stably)) continue;
          for (const auto& [shape, name] : shapes)
            add_point(
                made, c, line, fmt::format("{}, {} {}", name, size, type_name),
                sort_spec{
                    .shape = shape, .type = type, .size = size, .workers = workers, .pus = s.place.assign(workers, 0)})
                .fixed_items = std::max(size, 4 * main_size);
        }
    }
  }
  return made;
}

}  // namespace

std::vector<experiment> fork_rows() {
  const std::string paper = "Kumar, Blackburn, Grove, VEE 2014, ";
  return {
      {"fork/overhead", "fork", "", "A call that can be stolen", overhead},
      {"fork/peers", "fork", "", "Fork/join programs", all_programs},
      {"fork/algorithms", "fork", "", "Sorting, scanning, summing, looping", all_algorithms},
      {"fork/small", "fork", "", "Small trees, warm and cold", small_trees},
      {"fork/waiting", "fork", "", "Locks held over a join", locks_over_joins},
      {"fork/urgent", "fork", "", "Joins beside longer work", urgent_joins},
      {"fork/theft-cost", "fork", "", "Cost of a theft for the owner, by the depth of the stack", by_depth},
      {"fork/memory", "fork", "", "Peak memory of fork/join programs", memory},
      {"fork/idle", "fork", "", "A pool without work", idle_pools},
      {"fork/fig4-cycles-lost", "fork", paper + "figures 2 and 4", "Cycles lost by thefts", cycles_lost},
      {"fork/fig5-speed-up", "fork", paper + "figure 5", "Time, by how much is offered", speed_up},
      {"fork/fig6-steal-ratio", "fork", paper + "figure 6", "Thefts per fork", steal_ratio},
      {"fork/fig7-steal-rate", "fork", paper + "figure 7", "Thefts per second", steal_rate},
      {"fork/task-graph", "fork", "", "Graphs of tasks", task_graphs},
      {"fork/task-fan", "fork", "", "Fans of tasks", task_fans},
      {"fork/tasks", "fork", "", "Submitted functions, groups, pipelines", all_tasks},
      {"fork/range-algorithms", "fork", "", "Searching, selecting, merging", range_algorithms},
      {"fork/level-graph", "fork", "", "Random graphs of tasks", level_graphs},
      {"fork/parlaylib", "fork", "", "parlaylib's algorithms, on two schedulers", parlay_algorithms},
      {"fork/tails", "fork", "", "Latencies of submitted functions with four workers per hardware thread", task_tails},
      {"fork/loops", "fork", "", "Short loops", short_loops},
      {"fork/sort", "fork", "", "Sorting what has a pattern", sorting},
  };
}

}  // namespace muster::bench
