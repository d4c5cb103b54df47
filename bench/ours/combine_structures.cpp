// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's queues and stacks, used by fibers in pairs of push and pop, as contenders. combining_queue and
// combining_stack do not use psim and retry: they change nodes in place, which operations on copies must not do. psim
// has psim_queue and psim_stack instead.
#include "driver/shared_pairs.hpp"
#include "ours/combined.hpp"

#include <muster/combine/combining_queue.hpp>
#include <muster/combine/combining_stack.hpp>
#include <muster/combine/psim_queue.hpp>
#include <muster/combine/psim_stack.hpp>

namespace muster::bench {
namespace {

template <class Structure>
class shared {
 public:
  explicit shared(const team_spec& spec) : structure_(options_for(spec)) {}
  void push(item value) { structure_.push(value); }
  bool pop(item& value) {
    const std::optional<item> found = structure_.pop();
    if (found) value = *found;
    return found.has_value();
  }

 private:
  Structure structure_;
};

/// As in the paper's first version: a fiber does not let its siblings announce first.
template <class Structure>
class without_yield : public Structure {
 public:
  explicit without_yield(const combine_options& options)
      : Structure(options, psim_options{.yield_after_announcing = false}) {}
};

template <class Structure>
void add(catalogue& to, unsigned topics, std::string name, std::string role, unsigned fibers, std::string note) {
  to.all.push_back({.name = std::move(name),
                    .family = "muster",
                    .role = std::move(role),
                    .note = std::move(note),
                    .topics = topics,
                    .fibers = fibers,
                    .team = run_pairs<Structure>});
}

template <template <class...> class Algorithm>
void add_both(catalogue& to, const std::string& name, const std::string& role, unsigned fibers,
              const std::string& paper_name, unsigned also = 0) {
  add<shared<combining_queue<item, Algorithm>>>(to, queue_by_fibers | also, "combining_queue<" + name + ">", role,
                                                fibers, paper_name.empty() ? "" : paper_name + "Queue");
  add<shared<combining_stack<item, Algorithm>>>(to, stack_by_fibers, "combining_stack<" + name + ">", role, fibers,
                                                paper_name.empty() ? "" : paper_name + "Stack");
}

template <template <class> class Structure>
void add_wait_free(catalogue& to, unsigned topics, const std::string& name, const std::string& paper_name) {
  add<shared<Structure<item>>>(to, topics, name, "ours", 64, "the paper's P" + paper_name + "-x; wait-free");
  add<shared<without_yield<Structure<item>>>>(to, topics, name + ", no yield", "baseline", 1,
                                              "the paper's " + paper_name + "; wait-free");
}

}  // namespace

void add_combine_structures(catalogue& to) {
  add_both<osci>(to, "osci", "ours", 64, "the paper's Osci");
  add_both<cc_synch>(to, "cc_synch", "baseline", 8, "the paper's CC-", queue_pairs);
  add_both<dsm_synch>(to, "dsm_synch", "baseline", 8, "");
  add_both<flat_combining>(to, "flat_combining", "baseline", 32, "");
  add_wait_free<psim_queue>(to, queue_by_fibers, "psim_queue", "SimQueue");
  add_wait_free<psim_stack>(to, stack_by_fibers, "psim_stack", "SimStack");
}

}  // namespace muster::bench
