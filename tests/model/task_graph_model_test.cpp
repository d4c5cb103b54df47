// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The nodes of a task graph under the checker, without the pool's workers: ready nodes are given to an injector, and
// taken by workers or by the thread that waits for the run. Each must be executed once, after its predecessors and with
// their effects; what follows a failed node must be skipped; and the next run must find the counts as the first did.
//
// Mutants     every operation on what threads share is changed, and some program notices.
#include <gtest/gtest.h>
#include <muster/fork/detail/graph_node.hpp>
#include <muster/fork/detail/group_count.hpp>
#include <muster/fork/detail/injector.hpp>

#include "checker/explore.hpp"
#include "named_programs.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace mm = muster_model;
namespace sync = muster::sync;
using muster::no_deadline;
using muster::detail::graph_node;
using muster::detail::group_count;
using muster::detail::injected;
using muster::detail::injected_chain;
using muster::detail::injected_group;
using muster::detail::injector;
using muster_model_test::named_program;

/// Edges between nodes 0, 1, ...; without edges into them, nodes are roots.
struct shape {
  unsigned nodes;
  std::vector<std::pair<unsigned, unsigned>> edges;
};
const shape diamond{4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}}};
const shape join{4, {{0, 3}, {1, 3}, {2, 3}}};
const shape twice{3, {{0, 2}, {0, 2}, {1, 2}}};

/// Runs a graph. The first thread executes the first root and waits; each 'w' is a worker, which executes what it
/// finds. An 'f' makes node 1 fail; a digit is the number of runs, which is 1 otherwise.
class game {
 public:
  game(const shape& of, const std::string& how)
      : all_(*new injector(reinterpret_cast<muster::detail::pool_core*>(this), 1)) {
    for (const char c : how) {
      workers_ += c == 'w' ? 1 : 0;
      fails_ = fails_ || c == 'f';
      if (c >= '0' && c <= '9') runs_ = static_cast<unsigned>(c - '0');
    }
    std::vector<std::uint32_t> predecessors(of.nodes);
    for (unsigned i = 0; i < of.nodes; ++i) nodes_.push_back(std::make_unique<node>(*this, i));
    for (const auto& [from, to] : of.edges) {
      nodes_[from]->successors.push_back(nodes_[to].get());
      nodes_[to]->before.push_back(from);
      ++predecessors[to];
    }
    for (unsigned i = 0; i < of.nodes; ++i) {
      const std::vector<graph_node*>& those = nodes_[i]->successors;
      nodes_[i]->connect(those.data(), static_cast<std::uint32_t>(those.size()), predecessors[i]);
      if (predecessors[i] == 0) roots_.push_back(i);
    }
  }

  void play() {
    std::vector<unsigned> threads;
    for (unsigned i = 0; i < workers_; ++i) {
      all_.refer();
      threads.push_back(mm::spawn([this] {
        work();
        all_.release();
      }));
    }
    for (run_ = 1; run_ <= runs_; ++run_) {
      count_.begin();
      injected_chain others = chain();
      for (std::size_t i = 1; i < roots_.size(); ++i) others.append(*nodes_[roots_[i]]);
      if (others.size() != 0) share(others);
      nodes_[roots_[0]]->run();
      while (!count_.is_over()) {
        injected* const one = all_.take_of(queued_);
        if (one != nullptr) one->run();
        else count_.sleep(no_deadline, [this] { return queued_.has_any(); });
      }
      for (const auto& one : nodes_)
        if (one->calls.read_ref() != (is_skipped(*one) ? 0 : run_))
          fail("executed " + std::to_string(one->calls.read_ref()) + " times");
    }
    over_.store(1, std::memory_order_relaxed);
    all_.release_by_pool();
    for (const unsigned t : threads) mm::join(t);
  }

  // For graph_node::execute().
  bool call(graph_node& one, bool) noexcept {
    auto& here = static_cast<node&>(one);
    const unsigned run = here.calls.write_ref() += 1;
    for (const unsigned p : here.before)
      if (nodes_[p]->calls.read_ref() != run) fail("before its predecessor");
    return !(fails_ && one.index == 1);
  }
  injected_chain chain() noexcept { return injected_chain(queued_); }
  bool share(injected_chain& those) noexcept {
    count_.begin(those.size());
    if (!all_.put(those)) fail("refused");
    sync::full_fence();
    count_.wake();
    return true;
  }
  graph_node& at(std::uint32_t index) const noexcept { return *nodes_[index]; }

 private:
  struct node : graph_node {
    node(game& of, std::uint32_t at)
        : graph_node(
              at,
              [](injected& one) noexcept {
                auto& here = static_cast<node&>(one);
                graph_node::execute(here, false, here.in);
                here.in.count_.end(nullptr);
              },
              [](injected&) noexcept {}, &of),
          in(of) {}
    game& in;
    std::vector<graph_node*> successors;
    std::vector<unsigned> before;
    sync::cell<unsigned> calls{0U};
  };

  static void fail(const std::string& what) { mm::engine::running().fail(what); }
  bool is_skipped(const node& one) const {
    if (!fails_) return false;
    for (const unsigned p : one.before)
      if (p == 1 || is_skipped(*nodes_[p])) return true;
    return false;
  }
  void work() {
    while (over_.load(std::memory_order_relaxed) == 0)
      if (injected* const one = all_.take()) one->run();
      else sync::yield();
  }

  unsigned workers_ = 0, runs_ = 1;
  bool fails_ = false;
  injector& all_;
  group_count count_;
  injected_group queued_;
  std::vector<std::unique_ptr<node>> nodes_;
  std::vector<unsigned> roots_;
  unsigned run_ = 0;
  sync::atomic<unsigned> over_{0};
};

named_program on(const char* name, const shape& of, const char* how) {
  return {name, [&of, how] { game(of, how).play(); }};
}
const std::vector<named_program> few = {on("diamond, alone", diamond, "2"), on("diamond", diamond, "w"),
                                        on("join", join, "w"), on("twice", twice, "w")};
const std::vector<named_program> more = {on("diamond", diamond, "w2"),         on("diamond, failing", diamond, "wf2"),
                                         on("diamond, two", diamond, "ww"),    on("join", join, "ww"),
                                         on("join, failing", join, "wwf"),     on("join, again", join, "w2"),
                                         on("twice, failing", twice, "wf2"),   on("twice, two", twice, "ww"),
                                         on("join, failing again", join, "f2")};

TEST(graphs, execute_each_node_once_after_its_predecessors) { muster_model_test::expect_all_right(few); }
TEST(graphs, execute_each_node_once_after_its_predecessors_by_chance) {
  muster_model_test::expect_right_by_chance(more);
}

TEST(mutants, are_noticed_or_explained) {
  muster_model_test::expect_mutants_noticed(
      more, {"detail/graph_node.hpp", "detail/injector.hpp"},
      {
          {"injector::count: store skipped #1", true, "of many_: no worker finds a node, and the waiting thread does"},
          {"injector::count: store skipped #2", true, "a hint; the programs of sleepers notice"},
          {"injector::count: load repeated #2", true, "a hint; the programs of sleepers notice"},
          {"injector::unlink: store skipped #2", true, "of queued_: no thread waits for one node alone"},
      });
}

}  // namespace
