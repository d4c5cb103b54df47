// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// task_graph.hpp: functions, and for each the functions that must end before it begins. A pool executes them in an
// order that respects this, any number of times.
//
// Order      a node begins when all its predecessors have ended, and sees their effects. Nothing else is promised.
// Threads    one thread at a time may change the graph or run it; a second run meanwhile is an error. A run executes
//            nodes on the calling thread and on idle workers of the pool.
// Cycles     are reported by the first run after a change, with the names of the nodes. Source: Kahn, "Topological
//            sorting of large networks" (CACM 1962).
// Exceptions the nodes that follow a node that has thrown, directly or not, are skipped; all others are executed. Then
//            run() rethrows one exception, that of the failed node that was added first, so that every run with the
//            same failures throws the same one. The others are lost.
// Stopping   once a stop is requested, no further node begins.
// Waiting    run() executes nodes that are ready, and parts of nodes that others execute. So a node may run another
//            graph, even in a pool of one worker. The caller of run() may hold a mutex if no node takes it.
// Depth      a chain of nodes may have any length: execution does not recurse.
// Memory     136 bytes for a node whose function has at most 16 bytes, and 16 for each edge, until the graph ends, plus
//            names and the spare capacity of vectors. A run allocates nothing, except the first run after a change, and
//            a thread's first run in a pool.
// Cost       a run: O(nodes + edges), with at most one read-modify-write for each edge while no node fails (see the
//            experiment fork/task-graph). The first after a change also checks for cycles, in as many steps. If a node
//            makes one other node ready, the same thread executes that node next, unless it is a worker that helps and
//            has executed its share (detail/restraint.hpp). If it makes several ready, all but the first are offered to
//            idle workers together, under a lock.
#pragma once

#include <muster/base/detail/exception.hpp>      // capture_exception
#include <muster/base/detail/shared_object.hpp>  // pin_once
#include <muster/fork/detail/call.hpp>           // call_as
#include <muster/fork/detail/graph_node.hpp>     // graph_node
#include <muster/fork/detail/joint_tasks.hpp>    // joint_tasks
#include <muster/fork/detail/one_run.hpp>        // one_run
#include <muster/fork/detail/parking.hpp>        // spin_lock
#include <muster/fork/detail/scheduler.hpp>      // worker
#include <muster/fork/pool.hpp>                  // broken_promise, pool

#include <algorithm>    // std::max, std::min
#include <array>        // the size of a node
#include <concepts>     // std::invocable
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint32_t
#include <exception>    // std::exception_ptr
#include <map>          // names
#include <mutex>        // std::lock_guard
#include <new>          // std::align_val_t
#include <stdexcept>    // std::logic_error
#include <stop_token>   // std::stop_token
#include <string>       // names
#include <tuple>        // predecessors
#include <type_traits>  // std::decay_t
#include <utility>      // std::forward
#include <vector>       // nodes

namespace muster::inline MUSTER_ABI {

class task_graph;

/// A node of a graph: a handle that can be copied, and is valid as long as the graph exists.
class task_node {
 public:
  task_node() noexcept = default;
  friend bool operator==(task_node, task_node) noexcept = default;

  /// Names it, for messages and pictures.
  inline const task_node& name(std::string text) const;
  /// Its name; "node 3" if it has none and three nodes were added before it.
  inline std::string name() const;
  /// From now on, this node ends before the others begin. Each is a node or a range of nodes.
  template <class... Nodes>
  const task_node& precede(const Nodes&... others) const;
  /// From now on, this node begins after the others have ended.
  template <class... Nodes>
  const task_node& succeed(const Nodes&... others) const;

 private:
  friend class task_graph;
  task_node(task_graph& of, std::uint32_t at) noexcept : graph_(&of), index_(at) {}
  inline task_graph& graph() const;

  task_graph* graph_ = nullptr;
  std::uint32_t index_ = 0;
};

namespace detail {

/// The arguments of after().
template <class... Nodes>
struct predecessors {
  std::tuple<const Nodes&...> all;
};
template <class Function, class Nodes>
void for_each_node(Function&& f, const Nodes& nodes) {
  if constexpr (std::is_same_v<Nodes, task_node>) f(nodes);
  else
    for (const task_node& each : nodes) f(each);
}

}  // namespace detail

/// For task_graph::add: the nodes that must end before the new node begins. Each argument is a node or a range of
/// nodes.
template <class... Nodes>
detail::predecessors<Nodes...> after(const Nodes&... nodes) noexcept {
  return {std::tie(nodes...)};
}

class task_graph {
 public:
  /// A node of a graph.
  using node = task_node;

  task_graph() = default;
  /// The graph must not be running.
  ~task_graph() {
    MUSTER_CHECK(!runs_.is_running(), "task_graph::~task_graph: the graph is running: end it when run() has returned");
    for (detail::graph_node* const one : nodes_) static_cast<stored_node*>(one)->actions.destroy(*one);
  }
  task_graph(const task_graph&) = delete;
  task_graph& operator=(const task_graph&) = delete;

  /// Adds a node that calls function(), or function(context&) if it takes one, when the nodes in `before` have ended.
  template <class F, class... Before>
  task_node add(F&& function, const detail::predecessors<Before...>& before = {}) {
    using stored = std::decay_t<F>;
    constexpr bool fits = std::invocable<stored&> || std::invocable<stored&, context&>;
    static_assert(
        fits,
        "task_graph::add takes a function of no arguments, or of a muster::context: bind its arguments in a lambda");
    if constexpr (fits) {
      refuse_while_running("add");
      const std::size_t edges = edges_.size();
      const auto from = [&](const task_node& each) { connect(each.index_, next_index()); };
      std::apply([&](const auto&... each) { connect_all(from, each...); }, before.all);
      try {
        return emplace<function_node<stored>>(std::forward<F>(function));
      } catch (...) {
        edges_.resize(edges);
        throw;
      }
    }
  }
  /// The same with a name, for messages and pictures.
  template <class F, class... Before>
  task_node add(std::string name, F&& function, const detail::predecessors<Before...>& before = {}) {
    refuse_while_running("add");
    const auto named = names_.insert_or_assign(next_index(), std::move(name)).first;
    renamed_ = true;
    try {
      return add(std::forward<F>(function), before);
    } catch (...) {
      names_.erase(named);
      throw;
    }
  }

  /// The number of nodes.
  std::size_t size() const noexcept { return nodes_.size(); }
  /// Returns true if there is no node.
  bool empty() const noexcept { return nodes_.empty(); }

  /// Executes all nodes in the pool, and returns when they have ended. May be called again. Throws std::logic_error if
  /// there is a cycle, or if the graph is running already.
  void run(pool& in, std::stop_token stop = {}) {
    in.core_.refuse_in_child();
    const detail::one_run::scope here(
        runs_, "task_graph::run: the graph is running already; wait until that run has ended, or use a second graph");
    if (changed_) prepare();
    if (nodes_.empty()) return;
    in.run([&] {
      pool_ = &in.core_;
      runner_ = detail::worker::current();
      if (runner_->trace != nullptr) [[unlikely]]
        name_slices(*runner_->trace);
      stop_ = std::move(stop);
      tasks_.count.begin();
      share_roots();
      runner_->execute_injected(*roots_[0]);
      tasks_.await(*pool_);
      stop_ = {};
    });
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  /// The graph as text for Graphviz: `dot -Tsvg` makes a picture of it.
  std::string dot() const {
    std::string text = "digraph {\n";
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      text += "  n" + std::to_string(i) + " [label=\"";
      for (const char c : name_of(i)) {
        if (c == '"' || c == '\\') text += '\\';
        text += c;
      }
      text += "\"]\n";
    }
    for (const edge& each : edges_)
      text += "  n" + std::to_string(each.from) + " -> n" + std::to_string(each.to) + '\n';
    return text + "}\n";
  }

 private:
  friend class task_node;
  friend class detail::graph_node;

  struct edge {
    std::uint32_t from, to;
  };

  /// A node that stores a function. Only its `actions` know the type of the function.
  class stored_node : public detail::graph_node {
   public:
    struct functions {
      void (*call)(stored_node&, detail::worker&);
      void (*destroy)(graph_node&) noexcept;
    };
    stored_node(task_graph& of, std::uint32_t at, const functions& how) noexcept
        : graph_node(at, &run_node, &drop_node, &of), actions(how) {
      // Threads of the pool may still be in this code when the graph has ended.
      pin_once<stored_node>(&run_node);
    }
    const functions& actions;
  };
  template <class F>
  class function_node final : public stored_node {
   public:
    template <class G>
    function_node(task_graph& of, std::uint32_t at, G&& function)
        : stored_node(of, at, functions_of_it), function_(std::forward<G>(function)) {}

   private:
    static void call(stored_node& one, detail::worker& self) {
      static_cast<void>(detail::call_as(self, static_cast<function_node&>(one).function_));
    }
    static void destroy(detail::graph_node& one) noexcept { static_cast<function_node&>(one).~function_node(); }
    static constexpr functions functions_of_it{&call, &destroy};

    F function_;
  };
  static_assert(sizeof(function_node<std::array<void*, 2>>) == 128);  // one more pointer is in nodes_

  /// A block of aligned memory, from which nodes are taken one after another.
  class block {
   public:
    static constexpr std::size_t alignment = 64;
    explicit block(std::size_t bytes)
        : at_(static_cast<char*>(::operator new(bytes, std::align_val_t(alignment)))), left_(bytes) {}
    block(block&& other) noexcept
        : at_(std::exchange(other.at_, nullptr)), used_(other.used_), left_(std::exchange(other.left_, 0)) {}
    block& operator=(block&&) = delete;
    ~block() {
      if (at_ != nullptr) ::operator delete(at_, std::align_val_t(alignment));
    }
    std::size_t left() const noexcept { return left_; }
    void* next() const noexcept { return at_ + used_; }
    void take(std::size_t bytes) noexcept {
      used_ += bytes;
      left_ -= bytes;
    }

   private:
    char* at_;
    std::size_t used_ = 0, left_;
  };

  std::uint32_t next_index() const noexcept { return static_cast<std::uint32_t>(nodes_.size()); }
  /// Makes a node at the end. If its constructor throws, nothing has changed.
  template <class Node, class F>
  task_node emplace(F&& function) {
    static_assert(alignof(Node) <= block::alignment, "the alignment of the function is more than 64 bytes");
    if (nodes_.size() == detail::graph_node::most)
      throw std::length_error("task_graph::add: the graph has 2147483647 nodes, the most that it can have");
    constexpr std::size_t bytes = (sizeof(Node) + block::alignment - 1) / block::alignment * block::alignment;
    if (blocks_.empty() || blocks_.back().left() < bytes) {
      constexpr std::size_t smallest = std::size_t{4} << 10U;  // the ninth and later ones have 1 MiB
      blocks_.emplace_back(std::max(bytes, smallest << std::min<std::size_t>(blocks_.size(), 8)));
    }
    const std::uint32_t index = next_index();
    nodes_.push_back(nullptr);
    try {
      nodes_.back() = ::new (blocks_.back().next()) Node(*this, index, std::forward<F>(function));
    } catch (...) {
      nodes_.pop_back();
      throw;
    }
    blocks_.back().take(bytes);
    changed_ = true;
    return {*this, index};
  }
  /// Throws std::invalid_argument if one of `nodes` is a node of another graph, and std::logic_error if it is a node of
  /// none.
  template <class Nodes>
  void check_nodes(const Nodes& nodes) const {
    detail::for_each_node(
        [this](const task_node& each) {
          if (&each.graph() != this)
            throw std::invalid_argument("task_graph: '" + each.name() +
                                        "' is a node of another graph; an edge connects nodes of the same");
        },
        nodes);
  }
  void connect(std::uint32_t from, std::uint32_t to) {
    if (edges_.size() == detail::graph_node::most)
      throw std::length_error("task_graph: the graph has 2147483647 edges, the most that it can have");
    edges_.push_back({from, to});
    changed_ = true;
  }
  /// Calls connect(node) for each of the nodes. If a call throws, no edge is added.
  template <class Connect, class... Nodes>
  void connect_all(const Connect& connect, const Nodes&... nodes) {
    const std::uint32_t before = next_index();
    (check_nodes(nodes), ...);
    if (next_index() != before)
      throw std::logic_error("task_graph: a range of nodes adds nodes while it is read; put them into a vector first");
    const std::size_t edges = edges_.size();
    try {
      (detail::for_each_node(connect, nodes), ...);
    } catch (...) {
      edges_.resize(edges);
      throw;
    }
  }

  void refuse_while_running(const char* caller) const {
    if (runs_.is_running())
      throw std::logic_error(std::string("task_graph::") + caller +
                             ": the graph is running; change it when run() has returned");
  }
  std::string name_of(std::uint32_t index) const {
    const auto found = names_.find(index);
    return found != names_.end() ? found->second : "node " + std::to_string(index);
  }

  /// Connects the nodes as the edges say, and finds cycles.
  void prepare() {
    const std::uint32_t many = next_index();
    std::vector<std::size_t> first(nodes_.size() + 1);  // of the edges from a node, in successors_
    std::vector<std::uint32_t> predecessors(many);
    for (const edge& each : edges_) {
      ++first[each.from + 1];
      ++predecessors[each.to];
    }
    for (std::size_t i = 0; i < many; ++i) first[i + 1] += first[i];
    std::vector<detail::graph_node*> successors(edges_.size());
    {
      std::vector<std::size_t> next(first.begin(), first.end() - 1);
      for (const edge& each : edges_) successors[next[each.from]++] = nodes_[each.to];
    }

    // Kahn: removes nodes without predecessors until there is none.
    std::vector<std::uint32_t> left = predecessors, taken;
    taken.reserve(many);
    for (std::uint32_t i = 0; i < many; ++i)
      if (left[i] == 0) taken.push_back(i);
    const std::size_t roots = taken.size();
    for (std::size_t i = 0; i < taken.size(); ++i)
      for (std::size_t k = first[taken[i]]; k < first[taken[i] + 1]; ++k)
        if (--left[successors[k]->index] == 0) taken.push_back(successors[k]->index);
    if (taken.size() != many) throw std::logic_error(message_of_cycle(left));

    std::vector<detail::graph_node*> ready;
    ready.reserve(roots);
    for (std::size_t i = 0; i < roots; ++i) ready.push_back(nodes_[taken[i]]);
    for (std::uint32_t i = 0; i < many; ++i)
      nodes_[i]->connect(successors.data() + first[i], static_cast<std::uint32_t>(first[i + 1] - first[i]),
                         predecessors[i]);
    successors_ = std::move(successors);
    roots_ = std::move(ready);
    changed_ = false;
  }
  /// `left`: for each node, how many of its predecessors are in a cycle or after one.
  std::string message_of_cycle(const std::vector<std::uint32_t>& left) const {
    // Each remaining node has a remaining predecessor. So a walk backwards from any of them comes to some node a second
    // time: that node is in a cycle.
    std::vector<std::uint32_t> before(left.size());
    std::uint32_t at = 0;
    for (const edge& each : edges_)
      if (left[each.from] != 0 && left[each.to] != 0) before[each.to] = at = each.from;
    std::vector<bool> seen(left.size());
    for (; !seen[at]; at = before[at]) seen[at] = true;
    std::vector<std::uint32_t> cycle{at};
    for (std::uint32_t i = before[at]; i != at; i = before[i]) cycle.push_back(i);
    std::string text = "task_graph::run: there is a cycle: '" + name_of(at) + '\'';
    constexpr std::size_t most = 20;
    for (std::size_t i = cycle.size(); i-- != 0;) {
      if (cycle.size() > most && i == cycle.size() - most / 2) {
        text += ", then " + std::to_string(cycle.size() - most) + " others";
        i = most / 2;
      }
      text += ", then '" + name_of(cycle[i]) + '\'';
    }
    return text + "; leave one of these edges out";
  }

  // --- A run. graph_node::execute() needs call(), chain(), share() and at().
  bool call(detail::graph_node& ready, bool follows) noexcept {
    if (stop_.stop_requested()) return false;
    auto& one = static_cast<stored_node&>(ready);
    detail::worker& self = *detail::worker::current();
    if (follows) self.count_node();  // the others are counted as they are given and taken
    try {
      if (is_traced_) [[unlikely]]
        call_traced(one, self);
      else one.actions.call(one, self);
      return true;
    } catch (...) {
      note(one, detail::capture_exception());
      return false;
    }
  }
  /// Calls the function of a node. If the node has a name, the call is a slice of the trace.
  MUSTER_COLD void call_traced(stored_node& one, detail::worker& self) {
    const auto found = slices_.find(one.index);
    const detail::traced slice(found != slices_.end() ? self.trace : nullptr, detail::slice_kind::node,
                               found != slices_.end() ? found->second : 0);
    one.actions.call(one, self);
  }
  MUSTER_COLD void name_slices(detail::trace_track& in) {
    if (is_traced_ && !renamed_) return;
    slices_.clear();
    for (const auto& [index, name] : names_) slices_.emplace(index, in.number_of(name));
    is_traced_ = true;
    renamed_ = false;
  }
  detail::injected_chain chain() noexcept { return tasks_.chain(); }
  bool share(detail::injected_chain& those) noexcept {
    if (tasks_.share(*pool_, those)) return true;
    those.for_each([this](detail::injected& each) {
      note(static_cast<stored_node&>(each), std::make_exception_ptr(broken_promise()));
    });
    tasks_.count.end(nullptr, those.size());  // the caller's own task has not ended
    return false;
  }
  detail::graph_node& at(std::uint32_t index) const noexcept { return *nodes_[index]; }
  /// Shares all roots but the first, which the caller executes.
  void share_roots() noexcept {
    detail::injected_chain others = chain();
    for (std::size_t i = 1; i < roots_.size(); ++i) others.append(*roots_[i]);
    if (others.size() == 0 || share(others)) return;
    others.for_each(
        [this](detail::injected& each) { detail::graph_node::execute(static_cast<stored_node&>(each), true, *this); });
  }

  /// Keeps `error`, unless there is one of a node that was added earlier.
  void note(const detail::graph_node& one, std::exception_ptr error) noexcept {
    const std::lock_guard lock(error_lock_);
    if (error_ != nullptr && error_of_ < one.index) return;
    std::swap(error_, error);
    error_of_ = one.index;
  }

  static void run_node(detail::injected& of) noexcept { execute(static_cast<stored_node&>(of), false); }
  static void drop_node(detail::injected& of) noexcept {
    auto& one = static_cast<stored_node&>(of);
    graph_of(one).note(one, std::make_exception_ptr(broken_promise()));
    execute(one, true);
  }
  /// Executes the node and the nodes that it makes ready; then other nodes that no thread has begun, until it has
  /// executed `most` nodes or most_tasks tasks.
  static void execute(stored_node& first, bool skip) noexcept {
    task_graph& graph = graph_of(first);
    detail::worker* const self = skip ? nullptr : detail::worker::current();
    const bool helps = self != nullptr && self != graph.runner_;
    constexpr unsigned most_tasks = 64;  // then a thread of the pool looks for other work as well
    const std::uint64_t most = helps ? self->most_further() + 1 : ~std::uint64_t{0};
    unsigned tasks = 0;
    std::uint64_t nodes = 0;
    for (detail::injected* one = &first; one != nullptr;) {
      ++tasks;
      nodes += detail::graph_node::execute(static_cast<stored_node&>(*one), skip, graph, most - nodes);
      one = !skip && nodes < most && tasks < most_tasks ? graph.tasks_.take_another(*graph.pool_) : nullptr;
    }
    if (helps) self->count_further(static_cast<unsigned>(nodes - 1));
    graph.tasks_.count.end(nullptr, tasks);
  }
  static task_graph& graph_of(const detail::injected& one) noexcept {
    return *const_cast<task_graph*>(static_cast<const task_graph*>(one.of()));
  }

  std::vector<block> blocks_;
  std::vector<detail::graph_node*> nodes_;  // in the order in which they were added
  std::vector<edge> edges_;
  std::map<std::uint32_t, std::string> names_;
  bool renamed_ = false;  // since name_slices(), which writes the next two if the program is traced
  bool is_traced_ = false;
  std::map<std::uint32_t, std::uint32_t> slices_;  // numbers of the names in the trace
  bool changed_ = false;                           // since prepare(), which writes the next two
  std::vector<detail::graph_node*> successors_, roots_;

  detail::one_run runs_;
  detail::pool_core* pool_ = nullptr;  // of the run
  detail::worker* runner_ = nullptr;   // that of the thread that has called run()
  std::stop_token stop_;               // of the run
  // Ready nodes given to threads. Each counts until everything that its thread executes in the same call has ended.
  detail::joint_tasks tasks_{this};
  detail::spin_lock error_lock_;
  std::exception_ptr error_;  // guarded by error_lock_, as the next
  std::uint32_t error_of_ = 0;
};

inline task_graph& task_node::graph() const {
  if (graph_ == nullptr)
    throw std::logic_error("task_node: the node is of no graph; task_graph::add returns one that is");
  return *graph_;
}
inline const task_node& task_node::name(std::string text) const {
  graph().refuse_while_running("name");
  graph_->names_.insert_or_assign(index_, std::move(text));
  graph_->renamed_ = true;
  return *this;
}
inline std::string task_node::name() const { return graph().name_of(index_); }
template <class... Nodes>
const task_node& task_node::precede(const Nodes&... others) const {
  graph().refuse_while_running("precede");
  graph_->connect_all([this](const task_node& each) { graph_->connect(index_, each.index_); }, others...);
  return *this;
}
template <class... Nodes>
const task_node& task_node::succeed(const Nodes&... others) const {
  graph().refuse_while_running("succeed");
  graph_->connect_all([this](const task_node& each) { graph_->connect(each.index_, index_); }, others...);
  return *this;
}

}  // namespace muster::inline MUSTER_ABI
