// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The trace that MUSTER_TRACE names: valid JSON whatever the program does; the slices of a worker are nested or apart;
// each theft has one, with an arrow from the victim; a full buffer and a file that cannot be written are said.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fork_settings.hpp"
#include "scale.hpp"

namespace {

using json = nlohmann::json;
using muster::pool;
using muster_test::fib;
using muster_test::small_stack;

std::string text_of(const std::filesystem::path& file) {
  std::error_code none;
  const auto size = std::filesystem::file_size(file, none);
  std::string text(none ? 0 : size, '\0');
  std::ifstream(file).read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

/// A program that is traced: a child process, so that it opens the file anew.
class traces : public ::testing::Test {
 protected:
  traces() { std::filesystem::create_directories(place_); }
  ~traces() override { std::filesystem::remove_all(place_); }

  std::string path(const std::string& name) const { return place_ / name; }
  /// Returns what the function returns. It ends by exit().
  std::string run(const std::string& trace, const std::function<std::string()>& program) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("MUSTER_TRACE", trace.c_str(), 1);
      static_cast<void>(std::freopen(path("errors").c_str(), "w", stderr));
      std::ofstream(path("result")) << program();
      std::exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << ' ' << errors();
    child_ = child;
    return text_of(path("result"));
  }
  std::string errors() const { return text_of(path("errors")); }

  pid_t child_ = 0;

 private:
  const std::filesystem::path place_ =
      std::filesystem::temp_directory_path() / ("muster-trace-" + std::to_string(::getpid()));
};

struct slice {
  std::int64_t begin, end;
  std::string name;
  std::int64_t from;  // the victim; or -1
};
struct trace {
  std::map<std::int64_t, std::vector<slice>> slices;  // of each track
  std::map<std::int64_t, std::string> names, pools;
  std::map<std::string, std::size_t> many;

  explicit trace(const std::string& file) {
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> arrows;  // from a track, at a time
    std::size_t ends = 0;
    const json all = json::parse(text_of(file));
    for (const json& one : all) {
      const std::string kind = one.at("ph");
      const std::int64_t track = one.at("tid");
      const auto time = [&](const char* of) { return std::llround(one.at(of).get<double>() * 1000); };
      if (kind == "M") {
        (one.at("name") == "process_name" ? pools : names)[track] = one.at("args").at("name");
      } else if (kind == "X") {
        const std::int64_t begin = time("ts");
        const std::string name = one.at("name");
        slices[track].push_back(
            {begin, begin + time("dur"), name, one.contains("args") ? one["args"].at("from").get<std::int64_t>() : -1});
        ++many[name];
      } else if (kind == "s") {
        EXPECT_TRUE(arrows.insert({one.at("id"), {track, time("ts")}}).second) << one;
      } else {
        EXPECT_EQ(kind, "f") << one;
        ++ends;
        const auto [victim, since] = arrows.at(one.at("id"));
        EXPECT_EQ(time("ts"), since) << one;
        const bool ends_at_a_theft = std::ranges::any_of(
            slices[track], [&](const slice& each) { return each.begin == since && victim % 10'000 == each.from; });
        EXPECT_TRUE(ends_at_a_theft) << one;
      }
    }
    EXPECT_EQ(ends, arrows.size());
    EXPECT_EQ(ends, many["stolen fork"] + many["stolen async"]);
    for (auto& [track, those] : slices) {
      EXPECT_TRUE(names.contains(track)) << track;
      expect_nested(those);
    }
  }

  static void expect_nested(std::vector<slice>& all) {
    std::ranges::sort(
        all, [](const slice& a, const slice& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
    std::vector<const slice*> around;
    for (const slice& one : all) {
      while (!around.empty() && around.back()->end <= one.begin && one.end > around.back()->end) around.pop_back();
      if (!around.empty()) {
        EXPECT_LE(one.end, around.back()->end) << one.name << " in " << around.back()->name;
      }
      around.push_back(&one);
    }
  }
};

TEST_F(traces, have_all_that_workers_do) {
  const std::string thefts = run(path("trace.json"), [] {
    std::uint64_t stolen = 0;
    for (const unsigned workers : {1U, 2U, 4U}) {
      pool one({.workers = workers, .stack_bytes = small_stack, .publish_always = true, .name = "a \"pool\""});
      one.run([] { fib(16); });
      if (workers > 1) {  // one theft at least
        std::atomic<bool> stolen_half{false};
        const auto wait = [&] {
          while (!stolen_half) std::this_thread::yield();
        };
        one.run([&] { muster::fork2(wait, [&] { stolen_half = true; }); });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the others sleep
      one.run([] {
        muster::finish([](muster::async_scope& scope) {
          for (int i = 0; i < 100; ++i) scope.async([] { fib(5); });
        });
        muster::parallel_for(0, 1000, [](int) {});
      });
      one.submit([] { return fib(10); }).get();
      muster::task_group group(one);
      for (int i = 0; i < 100; ++i) group.run([] { fib(5); });
      group.wait();
      one.run_on_all([](unsigned) {});
      pool inner({.workers = 2, .stack_bytes = small_stack});
      one.run([&] { inner.run([&] { one.run([] { fib(10); }); }); });
      stolen += one.statistics().thefts;
    }
    return std::to_string(stolen);
  });
  EXPECT_EQ(errors(), "");
  trace all(path("trace.json"));
  EXPECT_EQ(all.many["stolen fork"] + all.many["stolen async"], std::stoul(thefts));
  EXPECT_GE(all.many["run"], 3 * 6U);
  EXPECT_GE(all.many["task"], 3 * 101U);
  EXPECT_GE(all.many["run_on_all"], 1 + 2 + 4U);
  EXPECT_GE(all.many["sleep"], 1U);
  std::set<std::string> names;
  for (const auto& [track, name] : all.names) names.insert(name);
  for (const auto& [track, name] : all.pools) names.insert(name);
  for (const char* const name : {"pool 1: a \"pool\"", "a \"pool\"-0", "a \"pool\"-1", "pool 2", "worker-0"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(traces, have_the_names_of_the_nodes_of_graphs) {
  run(path("trace.json"), [] {
    pool one({.workers = 3, .stack_bytes = small_stack});
    muster::task_graph graph;
    const auto first = graph.add("first", [] { fib(5); });
    const auto both = graph.add("with \"quotes\"", [] { fib(5); }, muster::after(first));
    graph.add([] { fib(5); }, muster::after(first));  // without a name: no slice
    graph.add("first", [] {}, muster::after(both));   // the same name
    for (int i = 0; i < 10; ++i) graph.run(one);
    first.name("renamed");
    for (int i = 0; i < 5; ++i) graph.run(one);
    pool part = one.part(2);
    graph.add("added later", [] { throw 1; });
    for (int i = 0; i < 3; ++i) try {
        graph.run(part);
      } catch (int) {
      }
    return "";
  });
  EXPECT_EQ(errors(), "");
  trace all(path("trace.json"));
  EXPECT_EQ(all.many["first"], 10 + 10 + 5 + 3U);
  EXPECT_EQ(all.many["with \"quotes\""], 10 + 5 + 3U);
  EXPECT_EQ(all.many["renamed"], 5 + 3U);
  EXPECT_EQ(all.many["added later"], 3U);
  EXPECT_EQ(all.many["node 2"], 0U);
  EXPECT_EQ(all.pools.size(), 2U);
}

TEST_F(traces, have_at_exit_what_pools_that_never_end_have_done) {
  run(path("trace-%p.json"), [] {
    fib(20);
    auto* const other = new pool({.workers = 2, .stack_bytes = small_stack});
    for (int i = 0; i < 10; ++i) other->run([] { fib(10); });
    static_cast<void>(pool::shared().submit([] {  // it runs at exit
      for (;;) fib(10);
    }));
    return "";
  });
  trace all(path("trace-" + std::to_string(child_) + ".json"));
  EXPECT_GE(all.many["run"], 11U);
}

TEST_F(traces, say_what_is_missing) {
  constexpr std::size_t many = 150'000, most = std::size_t{1} << 18U;
  run(path("full.json"), [] {
    std::atomic<bool> ended{false};
    pool one({.workers = 1, .stack_bytes = small_stack});
    const auto task = one.submit([&] {  // on the only thread
      muster::task_group group(one);
      for (std::size_t i = 0; i < many; ++i) {
        group.run([] {});
        group.wait();
      }
      ended = true;
    });
    while (!ended) std::this_thread::yield();
    return "";
  });
  std::ifstream lines(path("full.json"));
  std::size_t slices = 0, lost = 0;
  double longest = 0, first = 1e9, last = 0;  // microseconds
  for (std::string line; std::getline(lines, line);) {
    double begin = 0, length = 0;
    std::array<char, 12> name{};
    unsigned long left_out = 0;
    if (std::sscanf(line.c_str(), R"({"ph":"X","name":"%11[a-z]","cat":"fork","pid":%*u,"tid":%*u,"ts":%lf,"dur":%lf)",
                    name.data(), &begin, &length) == 3) {
      ++slices;
      if (name[0] == 's') continue;  // the thread sleeps afterwards
      longest = std::max(longest, length);
      first = std::min(first, begin);
      last = std::max(last, begin + length);
    } else if (std::sscanf(line.c_str(), R"({"ph":"i","name":"%lu slices are left out)", &left_out) == 1) {
      lost += left_out;
    }
  }
  EXPECT_NEAR(longest, last - first, 0.01);  // the outer task was open when the buffer was full
  EXPECT_GE(slices, most - 4096);
  EXPECT_LE(slices, most);
  EXPECT_GE(slices + lost, 2 * many + 1);  // tasks and joins
}

TEST_F(traces, that_cannot_be_written_are_said_and_nothing_else_changes) {
  const auto program = [] {
    pool one({.workers = 2, .stack_bytes = small_stack});
    pool other({.workers = 1, .stack_bytes = small_stack});
    return std::to_string(one.run([] { return fib(10); }));
  };
  EXPECT_EQ(run(path("none/trace.json"), program), "55");
  EXPECT_EQ(errors(), "muster: cannot write the trace that MUSTER_TRACE names, '" + path("none/trace.json") +
                          "': No such file or directory\n");
  EXPECT_EQ(run("/dev/full", program), "55");
  EXPECT_EQ(errors(), "muster: cannot write the trace that MUSTER_TRACE names, '/dev/full': No space left on device\n");
  EXPECT_EQ(run("", program), "55");
  EXPECT_EQ(errors(), "");
}

TEST_F(traces, belong_to_one_process) {
  std::ofstream(path("trace.json")) << std::string(1000, 'x');
  run(path("trace.json"), [&] {
    pool one({.workers = 2, .stack_bytes = small_stack});
    one.run([] { fib(10); });
    // A child makes a pool, in which nothing is traced; another program is refused.
    const pid_t child = ::fork();
    if (child == 0) {
      long result = 0;
      {
        pool own({.workers = 1, .stack_bytes = small_stack});
        for (int i = 0; i < 100; ++i) own.run([&] { result = fib(10); });
      }
      const int status = result == 55 ? 0 : 1;
      if (muster_test::sanitized) ::_exit(status);  // what the parent's threads own would be reported as leaked
      std::exit(status);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return std::to_string(status);
  });
  EXPECT_EQ(text_of(path("result")), "0");
  trace all(path("trace.json"));
  EXPECT_EQ(all.many["run"], 1U);

  const pid_t first = ::fork();
  if (first == 0) {
    ::setenv("MUSTER_TRACE", path("trace.json").c_str(), 1);
    pool one({.workers = 1, .stack_bytes = small_stack});
    one.run([&] {
      std::ofstream(path("begun")) << "";
      while (!std::filesystem::exists(path("end"))) std::this_thread::yield();
    });
    std::exit(0);
  }
  while (!std::filesystem::exists(path("begun"))) std::this_thread::yield();
  run(path("trace.json"), [] {
    pool one({.workers = 1, .stack_bytes = small_stack});
    return std::to_string(one.run([] { return fib(10); }));
  });
  EXPECT_NE(errors().find("another process writes it; %p in the name"), std::string::npos) << errors();
  std::ofstream(path("end")) << "";
  int status = 0;
  ASSERT_EQ(::waitpid(first, &status, 0), first);
  EXPECT_EQ(status, 0);
  trace again(path("trace.json"));
  EXPECT_EQ(again.many["run"], 1U);
}

}  // namespace
