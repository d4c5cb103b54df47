// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// contender.hpp: one line of a chart: a queue, used in one way, with everything an experiment must know about it.
//
// Each peer's adapter is a source file of its own that adds its contenders to the catalogue; a peer that is not
// installed is not compiled, and the catalogue names it as missing.
#pragma once

#include "driver/outcome.hpp"
#include "sim/workloads/spec.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench {

/// Items from producers to consumers, as fast as possible.
struct stream_spec {
  std::size_t capacity = 4096;
  unsigned producers = 1;
  unsigned consumers = 1;
  std::uint64_t items = 0;  // in total, split evenly
  bool demand_order = true;
  std::vector<int> pus;  // producers first
};

/// The same; each push and each pop is timed (tails.hpp).
struct tail_spec : stream_spec {};

/// Operations that never wait, by threads that each push and pop (tries.hpp).
enum class fullness { empty, half, full };
struct try_spec {
  fullness state = fullness::empty;
  std::uint64_t items = 0;  // operations in total, split evenly
  std::vector<int> pus;
};

/// Messages of one size from a process to another (messages.hpp).
struct message_spec {
  std::size_t size = 8;  // bytes, a multiple of 8
  std::uint64_t items = 0;
  std::vector<int> pus;  // the producer, the consumer
};

/// Requests of each producer to consumers of its own through one queue, answers back through one queue per consumer.
struct exchange_spec {
  std::size_t capacity = 4096;
  unsigned producers = 1;
  unsigned consumers = 1;  // of each producer
  std::uint64_t items = 0;
  bool events = false;   // reads the processor's counters, where that is allowed
  std::vector<int> pus;  // producers first
};

/// One client that keeps requests in flight, and servers that answer them.
struct round_trip_spec {
  unsigned in_flight = 1;
  unsigned servers = 1;
  std::uint64_t items = 0;
  std::vector<int> pus;  // the client first
};

/// The same; the client waits for a file descriptor.
struct event_loop_spec : round_trip_spec {};
/// The same; each side is a process.
struct process_trip_spec : round_trip_spec {};

/// Paced items to two consumers, one of which now and then sleeps in the middle of taking one.
struct stall_spec {
  std::size_t capacity = 64;
  std::uint64_t items = 0;
  std::uint64_t period_ns = 4000;  // between two pushes
  std::uint64_t sleep_ns = 1000000;
  std::uint64_t sleep_every = 0;  // items between two sleeps; 0: no consumer sleeps
  bool demand_order = true;
  std::vector<int> pus;  // the producer, then two consumers
};

/// Fibers of several kernel threads that share one object, each with work of its own between two operations.
struct team_spec {
  unsigned carriers = 1;
  unsigned fibers = 1;          // of each carrier; 1: no fibers, the thread itself works
  unsigned work = 0;            // maximum of dummy iterations between two operations (driver/local_work.hpp)
  unsigned least_work = 1;      // their minimum
  std::uint64_t items = 0;      // operations in total, split evenly
  std::uint64_t prefilled = 0;  // items in a queue or a stack at the start
  bool latency = false;         // times some of the operations
  bool events = false;          // reads the processor's counters, where that is allowed
  std::vector<int> pus{};       // of the carriers
};

/// Threads without fibers that use one object for a fixed time (driver/shares.hpp).
struct share_spec {
  unsigned work = 0;  // maximum of dummy iterations between two operations
  unsigned milliseconds = 0;
  std::uint64_t items = 0;  // not used: as many as there is time for
  std::vector<int> pus{};   // of the threads
};

/// Fibers that one thread makes: that have never been before, or again after each has ended, or as many as there can
/// be (creations.hpp).
enum class creation { first, again, at_once };
struct create_spec {
  creation what = creation::first;
  std::uint64_t items = 0;
  std::vector<int> pus{};
};

/// When processor time without work is measured: not at all, after a run, or in the middle of one, while it sleeps.
enum class idleness { unmeasured, outside, inside };

/// A program that forks and joins (programs/), executed by a number of workers.
struct fork_spec {
  std::string program{};
  std::uint64_t size = 0;  // as the program understands it
  unsigned workers = 1;
  std::uint64_t items = 1;  // calls or nodes in total: determines how often the program is executed, at least once
  bool one_run = false;     // all executions in one run of the pool, not each in a run of its own
  double pause = 0;         // seconds between two executions, in which this thread works alone
  idleness idle = idleness::unmeasured;
  double idle_seconds = 0;
  std::vector<int> pus{};  // that the workers share
};

/// A graph of tasks, executed by a number of workers, see graph_run.hpp.
enum class graph_shape { square, fan, levels };
struct graph_spec {
  graph_shape shape = graph_shape::square;
  unsigned width = 64;  // of the square; a fan has as many tasks in the middle; of a level
  unsigned workers = 1;
  std::uint64_t items = 0;  // tasks in total: determines how often the graph is executed, at least once
  std::vector<int> pus{};   // that the workers share
};

/// Functions that are given to a pool one by one, see task_run.hpp.
enum class task_load { one, in_flight, group, tree, pipeline };
struct task_spec {
  task_load what = task_load::one;
  unsigned workers = 1;
  std::uint64_t items = 0;  // functions in total: determines how often the load is repeated, at least once
  bool latency = false;     // times each repetition
  std::vector<int> pus{};   // that the workers share
};

/// An algorithm on a range of numbers, see algorithm_run.hpp.
enum class algorithm_load { find, extremes, select, unique, partition, merge, sort, integer_sort, scan, histogram };

struct algorithm_spec {
  algorithm_load what = algorithm_load::find;
  unsigned size = 0;
  unsigned workers = 1;
  std::uint64_t items = 0;  // numbers in total: determines how often it is repeated, at least once
  std::vector<int> pus{};   // that the workers share
};

/// Short loops, one after another, see loop_run.hpp.
enum class loop_load { each, sum };
struct loop_spec {
  loop_load what = loop_load::each;
  unsigned turns = 10;  // of a loop, more or less
  unsigned workers = 1;
  std::uint64_t items = 0;  // loops
  std::vector<int> pus{};   // that the workers share
};

/// Sorting, see sort_run.hpp.
enum class sequence_shape { random, sorted, reversed, organ_pipe, equal, few_values, nearly_sorted, sawtooth };
enum class sorted_type { whole_number, real_number, text, record };
struct sort_spec {
  sequence_shape shape = sequence_shape::random;
  sorted_type type = sorted_type::whole_number;
  unsigned size = 0;
  unsigned workers = 1;
  std::uint64_t items = 0;  // elements in total: determines how often it is repeated, at least once
  std::vector<int> pus{};   // that the workers share
};

/// A kernel in which lanes of each warp allocate, write and free.
struct heap_spec {
  unsigned active = 32;      // lanes of each warp
  std::uint64_t items = 0;   // threads
  std::uint64_t filled = 0;  // objects of 1 KiB that exist before
  std::uint64_t seed = 1;
};

/// Kernels in which all lanes allocate objects of a size and keep them, and others that free them.
struct heap_size_spec {
  std::uint64_t bytes = 64;  // of an object
  std::uint64_t items = 0;   // objects
  std::uint64_t seed = 1;
};

/// The loads of heap_cases.hpp.
enum class heap_load : unsigned { spread = 1, full = 2, work = 4, graph_build = 8, graph_insert = 16, graph_hubs = 32 };
struct heap_case_spec {
  heap_load what = heap_load::spread;
  std::uint64_t bytes = 64;  // of an object; of the largest one, if they differ
  std::uint64_t items = 0;   // objects; threads that fill the heap at once; vertices
  std::uint64_t seed = 1;
};

/// System calls that other threads make for their callers. A caller sends a request, waits for the result, and repeats.
struct call_spec {
  unsigned carriers = 1;      // threads with callers; each has another thread that makes its calls
  unsigned fibers = 1;        // callers of each carrier; 1: the thread itself
  std::uint64_t items = 0;    // calls in total, split evenly
  std::vector<int> pus = {};  // carriers first, then the threads that make the calls
};

/// The same with calls that read a page of a file.
struct read_spec : call_spec {
  static constexpr std::size_t bytes = 4096;   // of a call
  static constexpr std::uint64_t pages = 256;  // of the file, which is in memory
};

/// Something starts, returns a result, and ends: a process, or a job in an existing process.
struct start_spec {
  std::uint64_t items = 0;    // times, one after another
  std::vector<int> pus = {};  // of the new process and of its parent; empty: not pinned
};

/// One client of a broker, and the load that runs beside it.
struct crowd_spec {
  enum class other { none, busy, flood };  // nothing; threads that compute; a client that makes calls endlessly
  other beside = other::none;
  std::uint64_t items = 0;           // calls of the client
  std::vector<int> pus = {};         // of the client and its broker
  std::vector<int> pus_beside = {};  // of the load
};

/// The experiments that a contender takes part in.
enum topic : std::uint64_t {
  one_to_one = 1U << 0U,
  fan_out = 1U << 1U,
  many_to_many = 1U << 2U,
  oversubscribed = 1U << 3U,
  exchange = 1U << 4U,
  slow_consumer = 1U << 5U,
  concurrent_object = 1U << 6U,
  queue_by_fibers = 1U << 7U,
  stack_by_fibers = 1U << 8U,
  fiber_switch = 1U << 9U,
  without_waiting = 1U << 10U,
  counted = 1U << 11U,
  fork_programs = 1U << 12U,  // all programs that fork and join
  fork_calls = 1U << 13U,     // programs that do nothing but fork
  fork_algorithms = 1U << 14U,
  fork_policies = 1U << 15U,  // how a thread shares its forks; counted
  heap_layers = 1U << 16U,
  heap_coalescing = 1U << 17U,
  heap_fifos = 1U << 18U,
  queue_layouts = 1U << 19U,
  between_processes = 1U << 20U,  // one producer, one consumer
  from_one_process = 1U << 21U,   // one producer, several consumers
  between_many = 1U << 22U,
  queue_pairs = 1U << 23U,    // by any number of threads
  pairs_alone = 1U << 24U,    // by one thread, because they have one producer
  sim_predicted = 1U << 25U,  // on a simulated machine, which is not timed
  sim_measured = 1U << 26U,   // the same programs on this machine
  model_figure8 = 1U << 27U,
  model_figure4 = 1U << 28U,
  sim_objects = 1U << 29U,  // one object that all fibers use
  sim_alike = 1U << 30U,    // such an object, simulated or measured, for comparison
  model_figure7 = 1U << 31U,
  counting = std::uint64_t{1} << 32U,  // a number that all threads add to
  sim_counting = std::uint64_t{1} << 33U,
  by_turns = std::uint64_t{1} << 34U,  // an object that threads use for a fixed time
  fiber_create = std::uint64_t{1} << 35U,
};

using topic_set = std::uint64_t;

/// Most are plain functions: there are many contenders, and this is quick to copy and to compile.
template <class Spec>
using runner = outcome (*)(const Spec&);

struct contender {
  std::string name{};
  std::string family{};  // the library it comes from
  std::string role{};    // ours, paper, baseline, peer or limit
  std::string note{};
  topic_set topics = 0;
  bool order = true;       // each consumer sees each producer's items in order: a run that breaks this has failed.
                           // If false, items out of order are counted and shown.
  bool strict = true;      // one order over all producers; where that matters, a peer without it is a baseline
  std::string no_stall{};  // why it cannot take part in slow_consumer; empty if it can
  runner<stream_spec> stream = nullptr;
  runner<stream_spec> between = nullptr;  // instead: parcels from process to process (between.hpp)
  runner<tail_spec> tails = nullptr;
  runner<try_spec> tries = nullptr;
  runner<message_spec> messages = nullptr;
  runner<exchange_spec> exchange = nullptr;
  runner<round_trip_spec> round_trips = nullptr;
  runner<round_trip_spec> to_event_loop = nullptr;
  runner<round_trip_spec> trips_between = nullptr;
  bool to_servers = false;  // round trips with several servers, too
  runner<stall_spec> stall = nullptr;
  unsigned fibers = 1;  // of each carrier: its best number, for experiments that do not vary it
  runner<team_spec> team = nullptr;
  runner<share_spec> shares = nullptr;
  runner<create_spec> create = nullptr;
  std::uint64_t most_created = ~std::uint64_t{0};  // that it is asked for at once
  std::function<outcome(const fork_spec&)> fork{};
  runner<graph_spec> graph = nullptr;
  runner<algorithm_spec> algorithm = nullptr;
  std::vector<algorithm_load> algorithm_loads{algorithm_load::find,      algorithm_load::extremes,
                                              algorithm_load::select,    algorithm_load::unique,
                                              algorithm_load::partition, algorithm_load::merge};  // it takes part in
  runner<task_spec> tasks = nullptr;
  std::vector<task_load> task_loads{task_load::one, task_load::in_flight, task_load::group, task_load::tree,
                                    task_load::pipeline};  // that it takes part in
  runner<loop_spec> loops = nullptr;
  runner<sort_spec> sort = nullptr;
  bool sorts_stably = false;
  runner<heap_spec> heap = nullptr;
  runner<heap_size_spec> heap_sizes = nullptr;
  runner<heap_case_spec> heap_case = nullptr;
  unsigned heap_loads = ~0U;  // which of the cases make sense for it
  std::function<outcome(const sim_spec&)> model{};
  unsigned least_threads = 1;                // of a simulation in which it takes part
  runner<call_spec> call = nullptr;          // within one process
  runner<call_spec> call_between = nullptr;  // instead: from a process to another
  runner<read_spec> read = nullptr;
  runner<start_spec> start = nullptr;
  runner<crowd_spec> crowd = nullptr;
  bool on_device = false;  // a heap that is timed on a GPU; others are counted on the emulation of one

  // Dispatch on the kind of workload.
  outcome run(const stream_spec& s) const { return between ? between(s) : stream(s); }
  outcome run(const tail_spec& s) const { return tails(s); }
  outcome run(const try_spec& s) const { return tries(s); }
  outcome run(const message_spec& s) const { return messages(s); }
  outcome run(const exchange_spec& s) const { return exchange(s); }
  outcome run(const round_trip_spec& s) const { return round_trips(s); }
  outcome run(const event_loop_spec& s) const { return to_event_loop(s); }
  outcome run(const process_trip_spec& s) const { return trips_between(s); }
  outcome run(const stall_spec& s) const { return stall(s); }
  outcome run(const team_spec& s) const { return team(s); }
  outcome run(const share_spec& s) const { return shares(s); }
  outcome run(const create_spec& s) const { return create(s); }
  outcome run(const fork_spec& s) const { return fork(s); }
  outcome run(const graph_spec& s) const { return graph(s); }
  outcome run(const algorithm_spec& s) const { return algorithm(s); }
  outcome run(const task_spec& s) const { return tasks(s); }
  outcome run(const loop_spec& s) const { return loops(s); }
  outcome run(const sort_spec& s) const { return sort(s); }
  outcome run(const heap_spec& s) const { return heap(s); }
  outcome run(const heap_size_spec& s) const { return heap_sizes(s); }
  outcome run(const heap_case_spec& s) const { return heap_case(s); }
  outcome run(const sim_spec& s) const { return model(s); }
  outcome run(const call_spec& s) const { return call_between ? call_between(s) : call(s); }
  outcome run(const read_spec& s) const { return read(s); }
  outcome run(const start_spec& s) const { return start(s); }
  outcome run(const crowd_spec& s) const { return crowd(s); }
};

struct left_out {
  std::string family;
  std::string package;  // the Debian package, empty if none would help
  std::string reason;
};

struct catalogue {
  std::vector<contender> all;
  std::vector<left_out> missing;

  /// Adds rows of a family. A row that names a family or a role of its own keeps it.
  void add(const char* family, const char* role, std::vector<contender> rows);
  void add(contender row) { all.push_back(std::move(row)); }
  std::vector<const contender*> about(topic t) const {
    std::vector<const contender*> found;
    for (const contender& c : all) {
      if ((c.topics & t) != 0) found.push_back(&c);
    }
    return found;
  }
};

/// Every contender of this build. Defined in a file that the build writes, from the list of installed peers.
catalogue make_catalogue();

/// Family and Debian package of each peer compiled in, for the versions in the result file.
std::vector<left_out> compiled_peers();

/// Keeps the contenders whose name or family is among `wanted`, ignoring case; all if it is empty. Throws
/// std::invalid_argument for an unknown name; the message names a peer that is known but not installed.
void keep_only(catalogue& contenders, const std::vector<std::string>& wanted);

}  // namespace muster::bench
