// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// count.hpp: counts the words of a tree, on one thread or with a queue between one reader and several counters.
#pragma once

#include "pipeline.hpp"
#include "text.hpp"
#include "tree_reader.hpp"
#include "word_table.hpp"

#include <muster/base/arch.hpp>  // line_size

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

namespace word_count {

struct job {
  std::filesystem::path directory;
  std::size_t counters = 1;
  std::size_t chunk_size = 32 * 1024;
};

struct outcome {
  word_table words;
  reading_report input;
  double counting_seconds = 0;  // reading and counting, until the last counter has ended
  double merging_seconds = 0;   // making one table out of one per counter
  double cpu_seconds = 0;       // of all threads together, for both
  double seconds() const { return counting_seconds + merging_seconds; }
};

/// The counter of one thread. It has its own cache lines, because every word writes to it.
struct alignas(muster::line_size) counter {
  word_table words;
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;

  void operator()(chunk& piece) {
    for_each_word(piece.text(), [this](std::string_view word) { words.add(word); });
    bytes += piece.size();
    ++chunks;
  }
};

class stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  double cpu_seconds() const { return static_cast<double>(std::clock() - cpu_start_) / CLOCKS_PER_SEC; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::clock_t cpu_start_ = std::clock();
};

/// Merges the counters into one result. Throws std::logic_error if they did not get exactly the chunks that the reader
/// sent: then the queue is broken.
inline outcome merge(std::vector<counter> counters, reading_report input, const stopwatch& watch) {
  outcome result;
  result.counting_seconds = watch.seconds();
  counter& all = counters.front();
  for (std::size_t i = 1; i != counters.size(); ++i) {
    all.words.merge(counters[i].words);
    all.bytes += counters[i].bytes;
    all.chunks += counters[i].chunks;
  }
  result.merging_seconds = watch.seconds() - result.counting_seconds;
  result.cpu_seconds = watch.cpu_seconds();
  if (all.bytes != input.bytes || all.chunks != input.chunks)
    throw std::logic_error("the counters got other chunks than the reader sent; the queue lost or doubled some");
  result.words = std::move(all.words);
  result.input = std::move(input);
  return result;
}

/// Reads and counts in turn, on this thread.
inline outcome count_serially(const job& work) {
  const stopwatch watch;
  std::vector<counter> counters(1);
  const auto count = [&all = counters.front()](chunk&& piece) {
    all(piece);
    return true;
  };
  reading_report input = tree_reader(work.chunk_size, count).read(work.directory);
  return merge(std::move(counters), std::move(input), watch);
}

/// Reads on this thread and counts on `work.counters` others; `queue` is between them.
template <class Queue>
outcome count_through(Queue& queue, const job& work) {
  const stopwatch watch;
  std::vector<counter> counters(work.counters);
  reading_report input;
  run_pipeline(
      queue, work.counters, [&](auto push) { input = tree_reader(work.chunk_size, push).read(work.directory); },
      [&](std::size_t i, chunk& piece) { counters[i](piece); });
  return merge(std::move(counters), std::move(input), watch);
}

}  // namespace word_count
