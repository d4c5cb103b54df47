// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A queue that is wrong on purpose must be caught, in each of the ways in which a queue can be wrong; a right one not.
#include "baselines/mutex_ring.hpp"
#include "driver/between.hpp"
#include "driver/machine.hpp"
#include "driver/outcome.hpp"
#include "driver/placement.hpp"
#include "driver/request.hpp"
#include "driver/result.hpp"
#include "driver/tails.hpp"
#include "driver/tries.hpp"
#include "faulty_fork.hpp"
#include "faulty_graph.hpp"
#include "faulty_queue.hpp"
#include "table/experiment.hpp"

#include <gtest/gtest.h>

#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using namespace muster::bench;

template <fault Fault>
std::string error_of(bool demand_order = true) {
  const stream_spec spec{.items = faulty<Fault>::total, .demand_order = demand_order, .pus = {-1, -1}};
  return run_stream<faulty<Fault>>(spec).error;
}

TEST(check, accepts_a_correct_queue) {
  EXPECT_EQ(error_of<fault::none>(), "");
  const stream_spec crowd{.producers = 3, .consumers = 3, .items = 10000, .pus = std::vector<int>(6, -1)};
  EXPECT_EQ(run_stream<mutex_ring<item>>(crowd).error, "");
}

TEST(check, catches_a_lost_item) { EXPECT_EQ(error_of<fault::drops>(), "1 of 5000 items were lost"); }

TEST(check, catches_a_duplicate) {
  EXPECT_EQ(error_of<fault::duplicates>(), "1 of 5000 items were delivered more than once");
}

TEST(check, catches_a_changed_item) {
  EXPECT_EQ(error_of<fault::corrupts>(false), "5000 items arrived but they are not the ones sent (checksum differs)");
}

TEST(check, catches_changes_that_balance_in_the_sum) {
  EXPECT_EQ(error_of<fault::balances>(false), "5000 items arrived but they are not the ones sent (checksum differs)");
}

TEST(check, catches_a_wrong_order_where_order_is_promised) {
  EXPECT_EQ(error_of<fault::reorders>(), "1 items reached a consumer before an older item of the same producer");
  EXPECT_EQ(error_of<fault::reorders>(false), "");
}

TEST(check, catches_an_item_that_was_not_sent) {
  consumer_check r(1);
  r.add(make_item(7, 1));
  EXPECT_EQ(judge({r}, {0}, true).error, "1 values arrived that were not sent");
}

template <fault Fault>
std::string error_of_tries(fullness state) {
  const std::vector<int> pus(2, -1);
  return run_tries<faulty<Fault>>({.state = state, .items = 2 * faulty<Fault>::total, .pus = pus}).error;
}

TEST(check, catches_what_is_wrong_without_waiting) {
  EXPECT_EQ(error_of_tries<fault::none>(fullness::empty), "");
  EXPECT_EQ(error_of_tries<fault::none>(fullness::half), "");
  for (const std::string& error :
       {error_of_tries<fault::drops>(fullness::half), error_of_tries<fault::duplicates>(fullness::half),
        error_of_tries<fault::corrupts>(fullness::half), error_of_tries<fault::balances>(fullness::half)})
    EXPECT_EQ(error, "what was popped is not what was pushed");
  EXPECT_EQ(error_of_tries<fault::none>(fullness::full), "a push into a full queue succeeded");
}

TEST(check, times_each_push_and_each_pop) {
  tail_spec spec;
  spec.items = 3000;
  spec.pus = {-1, -1};
  const outcome found = run_tails<mutex_ring<item>>(spec);
  EXPECT_EQ(found.error, "");
  for (const std::string side : {"push ", "pop "}) {
    EXPECT_GT(found.detail_value(side + "p50"), 0) << side;
    EXPECT_LE(found.detail_value(side + "p50"), found.detail_value(side + "p99")) << side;
    EXPECT_LE(found.detail_value(side + "p99.9"), found.detail_value(side + "max")) << side;
  }
  spec.items = faulty<fault::drops>::total;
  EXPECT_EQ(run_tails<faulty<fault::drops>>(spec).error, "1 of 5000 items were lost");
}

/// A pipe that changes the content of a parcel, or its number.
template <bool Content, bool Number>
class faulty_pipe {
 public:
  faulty_pipe(std::size_t, unsigned, unsigned) {
    if (::pipe(ends_) != 0) throw std::runtime_error("no pipe");
  }
  void forget() {
    for (const int end : ends_) ::close(end);
  }
  struct producer {
    explicit producer(faulty_pipe& c) : end(c.ends_[1]) {}
    void push(parcel p) const {
      if (Content && p.number == 50) ++p.content[6];
      if (Number && p.number == 50) ++p.number, ++p.content[6];
      if (::write(end, &p, sizeof p) != sizeof p) throw std::runtime_error("a write failed");
    }
    void leave(bool) const { push({poison, {}}); }
    int end;
  };
  struct consumer {
    explicit consumer(faulty_pipe& c) : end(c.ends_[0]) {}
    bool pop(parcel& p) const { return ::read(end, &p, sizeof p) == sizeof p && !is_poison(p.number); }
    int end;
  };

 private:
  int ends_[2]{};
};

TEST(check, catches_a_changed_request_of_another_process) {
  const round_trip_spec spec{.in_flight = 4, .items = 100, .pus = {-1, -1}};
  EXPECT_EQ((run_trips_between<faulty_pipe<false, false>>(spec).error), "");
  EXPECT_NE((run_trips_between<faulty_pipe<true, false>>(spec).error).find("requests: "), std::string::npos);
  EXPECT_NE((run_trips_between<faulty_pipe<false, true>>(spec).error).find("requests: "), std::string::npos);
}

template <fork_fault Fault>
std::string fork_error(const char* program) {
  faulty_fork<Fault>::template style<counts_leaves>::forks = {};
  faulty_fork<Fault>::template style<ignores_leaves>::forks = {};
  faulty_fork<Fault>::template style<counts_leaves_if_told>::forks = {};
  fork_spec spec;
  spec.program = program;
  with_fork_program<program_set::forks>(program, [&]<template <class> class Program>() {
    spec.size = Program<serial_style<ignores_leaves>>::size.check;
  });
  return run_fork<faulty_fork<Fault>::template style>(spec).error;
}

TEST(fork_check, accepts_correct_programs) {
  for (const char* program : fork_program_names) EXPECT_EQ(fork_error<fork_fault::none>(program), "") << program;
}

TEST(fork_check, catches_a_leaf_that_is_lost) {
  for (const char* program : {"fib", "tree", "integrate", "matmul", "cilksort", "jacobi", "heat", "lud"})
    EXPECT_NE(fork_error<fork_fault::loses>(program).find("not executed"), std::string::npos) << program;
}

TEST(fork_check, catches_a_leaf_that_is_executed_twice) {
  for (const char* program : {"fib", "tree", "integrate", "matmul", "cilksort", "jacobi", "heat", "lud"})
    EXPECT_NE(fork_error<fork_fault::repeats>(program).find("too much"), std::string::npos) << program;
}

TEST(fork_check, catches_a_leaf_that_is_lost_when_leaves_are_not_counted) {
  for (const char* program : {"fib", "tree", "integrate", "matmul", "jacobi", "heat", "lud"}) {
    const std::string error = fork_error<fork_fault::late_loss>(program);
    EXPECT_NE(error, "") << program;
    EXPECT_EQ(error.find("leaves"), std::string::npos) << program;
  }
}

TEST(fork_check, knows_the_published_trees) {
  for (const char* program : {"uts T1", "uts T3"}) {
    with_fork_program<program_set::forks>(program, [&]<template <class> class Program>() {
      using program_type = Program<serial_style<ignores_leaves>>;
      program_type full(program_type::size.full);
      full.run({});
      EXPECT_EQ(full.error(), "");
    });
  }
}

/// Of three runs of a graph.
template <graph_fault Fault>
std::string graph_error(graph_shape shape) {
  return run_graph<faulty_graph<Fault>>({.shape = shape, .width = 8}).error;
}

constexpr graph_shape graph_shapes[] = {graph_shape::square, graph_shape::fan, graph_shape::levels};

TEST(graph_check, accepts_an_order_of_the_nodes) {
  for (const graph_shape shape : graph_shapes) EXPECT_EQ(graph_error<graph_fault::none>(shape), "") << int(shape);
}

TEST(graph_check, catches_a_node_that_is_lost) {
  for (const graph_shape shape : graph_shapes)
    EXPECT_EQ(graph_error<graph_fault::loses>(shape), "a node was executed 2 times in 3 runs") << int(shape);
}

TEST(graph_check, catches_a_node_that_is_executed_twice) {
  for (const graph_shape shape : graph_shapes) EXPECT_NE(graph_error<graph_fault::repeats>(shape), "") << int(shape);
}

TEST(graph_check, catches_a_node_that_is_executed_before_one_that_it_follows) {
  for (const graph_shape shape : graph_shapes)
    EXPECT_NE(graph_error<graph_fault::swaps>(shape).find("before one that they follow"), std::string::npos)
        << int(shape);
}

TEST(isolation, reports_crashes_exceptions_and_hangs) {
  EXPECT_NE(run_isolated(
                []() -> outcome {
                  std::raise(SIGKILL);
                  return {};
                },
                10)
                .error.find("signal 9"),
            std::string::npos);
  EXPECT_NE(run_isolated([]() -> outcome { throw std::runtime_error("no room"); }, 10).error.find("no room"),
            std::string::npos);
  EXPECT_NE(run_isolated(
                []() -> outcome {
                  for (;;) pause();
                },
                0.2)
                .error.find("did not finish"),
            std::string::npos);
  EXPECT_NE(run_isolated([]() -> outcome { std::_Exit(4); }, 10).error.find("status 4"), std::string::npos);
  const outcome fine = run_isolated([] { return outcome{.seconds = 2.5, .items = 7, .detail = {{"p50", 3}}}; }, 10);
  EXPECT_EQ(fine.error, "");
  EXPECT_EQ(fine.items, 7u);
  EXPECT_EQ(fine.detail.at("p50"), 3);
}

TEST(cpu_list, is_read_exactly) {
  EXPECT_EQ(parse_cpu_list("3,0-2,2"), (std::vector<int>{0, 1, 2, 3}));
  for (const char* wrong : {"", "a", "1-", "-1", "3-1", "1,,2", "1;2"})
    EXPECT_THROW(parse_cpu_list(wrong), std::invalid_argument) << wrong;
}

/// A directory with a program `nvidia-smi` of our own, which is the first on the PATH.
class stand_in {
 public:
  stand_in() {
    std::filesystem::create_directories(directory_);
    setenv("PATH", (directory_.string() + ":" + path_).c_str(), 1);
  }
  ~stand_in() {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(directory_);
  }
  void does(const std::string& text) const {
    const auto file = directory_ / "nvidia-smi";
    std::ofstream(file) << "#!/bin/sh\n" << text;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

 private:
  const std::string path_ = std::getenv("PATH");
  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("muster-bench-check-" + std::to_string(getpid()));
};

TEST(line_of_a_command, is_none_of_one_that_fails) {
  const stand_in program;
  program.does("echo NVIDIA H200\nfor i in $(seq 20000); do echo NVIDIA H100; done\n");
  EXPECT_EQ(line_of("timeout 20 nvidia-smi --query-gpu=name"), "NVIDIA H200");
  program.does("echo NVIDIA-SMI has failed\nexit 9\n");
  EXPECT_EQ(line_of("timeout 20 nvidia-smi --query-gpu=name"), "");
  EXPECT_EQ(line_of("muster-no-such-program"), "");
}

TEST(package_version, is_of_one_package) {
  EXPECT_EQ(package_version(""), "") << "not those of all";
  EXPECT_EQ(package_version("muster-no-such-package"), "");
}

TEST(nearest_name, has_the_fewest_changes) {
  EXPECT_EQ(nearest("queue/fanout", {"queue/one-to-one", "queue/fan-out", "ffq/fig3"}), "queue/fan-out");
}

TEST(result_file, always_holds_a_whole_document) {
  const auto path = std::filesystem::temp_directory_path() / "muster-bench-check-test.json";
  std::filesystem::remove(path);
  {
    result_file file(path);
    EXPECT_FALSE(std::filesystem::exists(path));
    for (const int version : {1, 2}) {
      file.write({{"version", version}, {"samples", {1.5, 2.5}}, {"empty", nlohmann::json::array()}});
      std::ifstream in(path);
      EXPECT_EQ(nlohmann::json::parse(in)["version"], version);
    }
  }
  std::filesystem::remove(path);
  EXPECT_THROW(result_file("/nonexistent/dir/file.json"), std::runtime_error);
}

TEST(result_file, has_an_array_of_numbers_on_one_line) {
  EXPECT_EQ(text_of({{"points", {{{"samples", {1.5, 2.5}}}}}, {"text", "a"}}),
            "{\n \"points\": [\n  {\n   \"samples\": [1.5,2.5]\n  }\n ],\n \"text\": \"a\"\n}\n");
}

}  // namespace
