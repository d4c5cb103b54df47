// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// muster-bench: runs the library's experiments beside installed peers and writes what it measured.
//
// Exit status: 0 every run passed its own check · 1 one of ours failed it · 2 the command line is wrong, or the results
// cannot be written · 3 only a contender that is not ours failed.
#include "driver/calibrate.hpp"
#include "driver/contender.hpp"
#include "driver/local_work.hpp"
#include "driver/machine.hpp"
#include "driver/result.hpp"
#include "table/experiment.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <malloc.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace muster::bench;

struct arguments {
  std::vector<std::string> ids;
  bool all = false;
  bool dry = false;
  bool json_list = false;
  std::string kind = "quick";
  std::string json;
  std::string cpus;
  std::string placement = "spread";
  std::vector<std::string> only;
  std::uint64_t seed = 1;
  double seconds = 0;  // 0: as long as the profile takes
  std::string machine;
  std::string command;
};

int list(const arguments& given) {
  const catalogue contenders = make_catalogue();
  if (given.json_list) {
    nlohmann::json out{{"experiments", nlohmann::json::array()},
                       {"series", nlohmann::json::array()},
                       {"missing", nlohmann::json::array()}};
    for (const experiment& e : experiments()) {
      out["experiments"].push_back({{"id", e.id}, {"part", e.part}, {"source", e.source}, {"title", e.title}});
    }
    for (const contender& c : contenders.all) {
      out["series"].push_back(
          {{"name", c.name}, {"family", c.family}, {"role", c.role}, {"note", c.note}, {"strict_fifo", c.strict}});
    }
    for (const left_out& gone : contenders.missing)
      out["missing"].push_back({{"name", gone.family}, {"reason", gone.reason}});
    fmt::print("{}\n", out.dump(1));
    return 0;
  }
  fmt::print("experiments (muster-bench run ID)\n");
  for (const experiment& e : experiments())
    fmt::print("  {:<32}{}{}\n", e.id, e.title, e.source.empty() ? "" : " (" + e.source + ")");
  fmt::print("series (--only NAME)\n");
  for (const contender& c : contenders.all) fmt::print("  {:<34}{:<10}{}\n", c.name, c.role, c.note);
  for (const left_out& gone : contenders.missing) fmt::print("  {:<34}{}\n", gone.family, gone.reason);
  return 0;
}

std::vector<const experiment*> chosen_experiments(const arguments& given) {
  std::vector<const experiment*> chosen;
  std::vector<std::string> names;
  for (const experiment& e : experiments()) {
    names.push_back(e.id);
    if (given.all) chosen.push_back(&e);
  }
  if (given.all) return chosen;
  for (const std::string& id : given.ids) {
    const experiment* found = find_experiment(id);
    if (found == nullptr) {
      throw std::invalid_argument(
          fmt::format("there is no experiment '{}'; the nearest name is '{}'. `muster-bench list` shows all.", id,
                      nearest(id, names)));
    }
    chosen.push_back(found);
  }
  if (chosen.empty()) throw std::invalid_argument("name an experiment, or say --all; `muster-bench list` shows them");
  return chosen;
}

profile profile_of(const std::string& kind) {
  return kind == "smoke" ? profile::smoke : kind == "full" ? profile::full : profile::quick;
}

/// The time measured by all experiments of the quick profile together, whatever the number of configurations. Starting
/// a process for each run adds as much again, or more.
constexpr double quick_seconds = 75;

/// With --seconds, a run is not made shorter than this, and a point not measured less often.
constexpr double shortest_run = 0.01;
constexpr unsigned fewest_samples = 3;

/// The experiments that are run, ready to be measured, and those for which there is no time.
struct plan {
  effort work;
  std::vector<study> studies;
  std::size_t steps = 0;
  std::vector<std::string> left_out{};
};

plan prepare(const std::vector<const experiment*>& chosen, const catalogue& contenders, const placement& place,
             const arguments& given, const effort& work) {
  plan made{work, {}};
  for (const experiment* e : chosen) {
    study s = e->prepare({contenders, place, work, given.machine});
    s.head.experiment = e->id;
    s.head.part = e->part;
    s.head.source = e->source;
    s.head.title = e->title;
    made.steps += runs(s, work);
    made.studies.push_back(std::move(s));
  }
  return made;
}

/// Shorter runs, then fewer samples, then fewer experiments, until it fits into given.seconds.
plan prepare_within(std::vector<const experiment*> chosen, const catalogue& contenders, const placement& place,
                    const arguments& given, effort work) {
  std::vector<std::string> left_out;
  const double usual = work.seconds;
  for (;;) {
    plan made = prepare(chosen, contenders, place, given, work);
    const double each = given.seconds / static_cast<double>(std::max<std::size_t>(1, made.steps));
    if (each >= shortest_run) {
      work.seconds = std::min(usual, each);
      made = prepare(chosen, contenders, place, given, work);
      made.left_out = left_out;
      return made;
    }
    if (work.samples > fewest_samples) {
      work.samples = fewest_samples;
    } else if (chosen.size() > 1) {
      left_out.insert(left_out.begin(), chosen.back()->id);
      chosen.pop_back();
    } else {
      throw std::invalid_argument(fmt::format("--seconds {:g} is too short for {}: it needs at least {:.0f}",
                                              given.seconds, chosen.front()->id,
                                              std::ceil(shortest_run * static_cast<double>(made.steps))));
    }
  }
}

/// Prints every configuration of the experiments, in the order in which they were added. Two dry runs on a machine
/// differ only if the table does.
int show(const plan& todo) {
  nlohmann::json out = nlohmann::json::array();
  for (const study& s : todo.studies) {
    nlohmann::json one = to_json(s.head);
    for (const configuration& c : s.configurations) {
      const std::uint64_t least = c.fixed_items != 0 ? c.fixed_items : c.least_items;
      one["series"][c.line]["points"].push_back({{"x", c.x},
                                                 {"contender", c.contender},
                                                 {"spec", c.spec},
                                                 {c.fixed_items != 0 ? "items" : "least_items", least},
                                                 {"full_items", c.full_items},
                                                 {"once", c.once},
                                                 {"maybe_slow", c.maybe_slow}});
    }
    out.push_back(std::move(one));
  }
  fmt::print("{}", text_of(out));
  return 0;
}

/// Has report/judge.py say what the file shows.
void judge(const std::filesystem::path& file) {
  const auto quoted = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
    return "'" + text + "'";
  };
  fmt::print("\n");
  std::fflush(stdout);
  const std::string command = quoted(MUSTER_BENCH_PYTHON) + " -B " + quoted(MUSTER_BENCH_JUDGE) + " ";
  if (!std::filesystem::exists(MUSTER_BENCH_JUDGE) || std::system((command + quoted(file.string())).c_str()) != 0)
    fmt::print(stderr, "muster-bench: the results were not judged; report/judge.py FILE does that\n");
}

void add_left_out(nlohmann::json& to, const std::string& id, double seconds) {
  const std::string reason = fmt::format("--seconds {:g} left no time for it", seconds);
  to["left_out"].push_back({{"experiment", id}, {"reason", reason}});
  fmt::print(stderr, "muster-bench: {} was not run: {}\n", id, reason);
}

int run(const arguments& given) {
  const std::vector<const experiment*> chosen = chosen_experiments(given);
  if (given.dry) assumed_nanoseconds_per_iteration = 1;
  const placement place(policy_from(given.placement),
                        given.cpus.empty() ? std::vector<int>{} : parse_cpu_list(given.cpus));
  catalogue contenders = make_catalogue();
  keep_only(contenders, given.only);
  if (given.dry) return show(prepare(chosen, contenders, place, given, effort_of(profile_of(given.kind))));
  // Without --json the results are judged nevertheless.
  const bool temporary = given.json.empty();
  result_file file(temporary ? std::filesystem::temp_directory_path() / fmt::format("muster-bench-{}.json", getpid())
                             : std::filesystem::path(given.json));
  if (!place.pinned())
    fmt::print(stderr, "muster-bench: warning: threads are not pinned: {}. Results vary more.\n", place.why_not());

  const double load = load_average();
  if (load > 0.5 && given.kind != "smoke") {
    fmt::print(stderr,
               "muster-bench: warning: this machine has been busy in the last minute (load {:.1f}). Results vary more "
               "if the program that kept it busy, such as a compiler, still runs.\n",
               load);
  }

  effort work = effort_of(profile_of(given.kind));
  plan todo;
  if (given.seconds > 0) {
    todo = prepare_within(chosen, contenders, place, given, work);
  } else {
    todo = prepare(chosen, contenders, place, given, work);
    if (work.kind == profile::quick && todo.steps != 0) {
      work.seconds = std::min(work.seconds, quick_seconds / static_cast<double>(todo.steps));
      todo = prepare(chosen, contenders, place, given, work);
    }
  }
  work = todo.work;
  malloc_trim(0);  // what preparations have used: each run is a fork, whose time grows with the memory of this process
  if (todo.steps == 0 && !given.only.empty())
    throw std::invalid_argument("none of the series named by --only takes part in these experiments");

  const std::time_t now = std::time(nullptr);
  nlohmann::json out{{"schema", 2},
                     {"complete", false},
                     {"machine", describe_machine()},
                     {"build", describe_build(contenders)},
                     {"profile", given.kind},
                     {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
                     {"command", given.command},
                     {"seed", given.seed},
                     {"samples", work.samples},
                     {"seconds_per_run", work.seconds},
                     {"placement", std::string(to_string(place.chosen()))},
                     {"load_before", load},
                     {"pinned", place.pinned()},
                     {"units", place.units()},
                     {"missing", nlohmann::json::array()},
                     {"left_out", nlohmann::json::array()},
                     {"results", nlohmann::json::array()}};
  if (!place.pinned()) out["why_not_pinned"] = place.why_not();
  for (const left_out& gone : contenders.missing)
    out["missing"].push_back({{"name", gone.family}, {"reason", gone.reason}});
  for (const std::string& id : todo.left_out) add_left_out(out, id, given.seconds);

  std::mt19937_64 random(given.seed);
  shared_outcomes shared;
  bool ours_failed = false;
  std::vector<std::string> others_failed;
  const auto began = std::chrono::steady_clock::now();
  {
    progress shown(todo.steps);
    for (study& s : todo.studies) {
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
      if (given.seconds > 0 && taken.count() > given.seconds) {  // some runs take the time that they take
        shown.clear();
        add_left_out(out, s.head.experiment, given.seconds);
        continue;
      }
      const std::vector<result> results = measure(std::move(s), work, random, shown, shared);
      shown.clear();
      for (const result& r : results) {
        fmt::print("{}", table(r));
        std::fflush(stdout);
        out["results"].push_back(to_json(r));
      }
      file.write(out);
      for (const series& line : results.front().lines) {
        if (line.failed.empty()) continue;
        if (line.role == "ours") {
          ours_failed = true;
          fmt::print(stderr, "muster-bench: OUR {} failed its check in {}, {}\n", line.name, results.front().experiment,
                     line.failed);
        } else {
          others_failed.push_back(fmt::format("{} ({})", line.name, results.front().experiment));
        }
      }
    }
  }
  out["complete"] = true;
  file.write(out);
  for (const left_out& gone : contenders.missing) fmt::print("{}: {}\n", gone.family, gone.reason);
  if (work.kind != profile::smoke) judge(file.path());
  if (temporary) std::filesystem::remove(file.path());
  else fmt::print("\nwritten to {}\n", given.json);
  if (!others_failed.empty()) fmt::print("failed its check, shown as failed: {}\n", fmt::join(others_failed, ", "));
  if (ours_failed) return 1;
  return others_failed.empty() ? 0 : 3;
}

/// Writes what the simulations must know of this machine.
int write_machine(const arguments& given) {
  const placement place(policy::spread, given.cpus.empty() ? std::vector<int>{} : parse_cpu_list(given.cpus));
  std::ofstream out(given.machine, std::ios::app);  // what is there stays until there is something better
  if (!out) throw std::invalid_argument(fmt::format("cannot write the machine file {}", given.machine));
  const std::string text = muster_simulation::machine_text(calibrate(place));
  out.close();
  out.open(given.machine);
  out << text << std::flush;
  if (!out) throw std::runtime_error(fmt::format("cannot write the machine file {}", given.machine));
  fmt::print("{}written to {}\n", text, given.machine);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  arguments given;
  given.command = "muster-bench";
  for (int i = 1; i < argc; ++i) given.command += std::string(" ") + argv[i];

  CLI::App app("Measures muster beside installed peers, and checks every run.");
  app.require_subcommand(1);
  CLI::App* listing = app.add_subcommand("list", "name the experiments, the series and what is not installed");
  listing->add_flag("--json", given.json_list, "as JSON");
  CLI::App* running = app.add_subcommand("run", "run experiments");
  running->add_option("ID", given.ids, "experiments by name");
  running->add_flag("--all", given.all, "all of them");
  running
      ->add_option("--profile", given.kind,
                   "smoke: does it work; quick: about three minutes for all; full: for the record")
      ->check(CLI::IsMember({"smoke", "quick", "full"}))
      ->capture_default_str();
  running->add_flag("--dry-run", given.dry, "print every configuration as JSON and run none");
  running->add_option("--seconds", given.seconds, "measure for about so long; says which experiments it leaves out")
      ->check(CLI::Range(0.01, 1e6));
  running->add_option("--json", given.json, "write the results to this file, experiment by experiment");
  running->add_option("--cpus", given.cpus, "use these hardware threads, e.g. 0,2-5");
  running->add_option("--placement", given.placement, "spread, same-thread, sibling, same-l3, other or none")
      ->capture_default_str();
  running->add_option("--only", given.only, "only these series or libraries, separated by commas")->delimiter(',');
  running->add_option("--machine", given.machine, "simulate the machine of this file (sim/cache/machines)");
  running->add_option("--seed", given.seed, "for the order of runs")->capture_default_str();
  CLI::App* calibrating = app.add_subcommand("calibrate", "measure this machine for simulations, and write its file");
  calibrating->add_option("FILE", given.machine, "the file to write")->required();
  calibrating->add_option("--cpus", given.cpus, "use these hardware threads, e.g. 0,2-5");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    if (calibrating->parsed()) return write_machine(given);
    return listing->parsed() ? list(given) : run(given);
  } catch (const std::exception& e) {
    fmt::print(stderr, "muster-bench: {}\n", e.what());
    return 2;
  }
}
