// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine_baseline_table.cpp: makes the programs of the techniques that the benchmark compares with.
#include "../../bench/baselines/combining/clh.hpp"
#include "../../bench/baselines/combining/dsm_synch.hpp"
#include "../../bench/baselines/combining/ffwd.hpp"
#include "../../bench/baselines/combining/h_synch.hpp"
#include "../../bench/baselines/combining/mcs.hpp"
#include "../../bench/baselines/combining/oyama.hpp"
#include "combine_programs.hpp"
#include "combine_table.hpp"

#include <functional>
#include <string>

namespace muster_model_test {
namespace {

template <class State, class Wait>
struct two_clusters : muster::bench::h_synch<State, Wait> {
  explicit two_clusters(const muster::combine_options& options)
      : muster::bench::h_synch<State, Wait>(muster::bench::h_synch_options{options, 2}) {}
};

/// Its server is a thread of the program.
template <class State, class Wait>
struct ffwd : muster::bench::ffwd_object<State, Wait> {
  explicit ffwd(const muster::combine_options& options)
      : muster::bench::ffwd_object<State, Wait>(options), server_(mm::spawn([this] { this->serve(); })) {}
  ~ffwd() {
    this->stop();
    mm::join(server_);
  }

 private:
  const unsigned server_;
};

}  // namespace

std::function<void()> make_baseline_program(const combine_row& r) {
  using muster::wait::park;
  const std::string object = r.object;
  const muster::combine_options options{.threads = mm::most_threads, .batch = 3, .help = r.help};
  if (object == "dsm_synch") return combine_program<muster::bench::dsm_synch<numbers, park>>(options, r.text);
  if (object == "h_synch") return combine_program<two_clusters<numbers, park>>(options, r.text);
  if (object == "oyama") return combine_program<muster::bench::oyama<numbers, park>>(options, r.text);
  if (object == "ffwd") return combine_program<ffwd<numbers, park>>(options, r.text);
  if (object == "clh") return combine_program<muster::bench::clh<numbers, park>>(options, r.text);
  return combine_program<muster::bench::mcs<numbers, park>>(options, r.text);
}

}  // namespace muster_model_test
