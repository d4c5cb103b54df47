// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// word-count: counts the words of all files under a directory.
//
// One thread reads, several count, and a muster::spmc_queue is between them. With --queue compare it does the same
// work without a queue, with a mutex queue and with muster's, checks that the results are equal, and shows the times.
//
// Exit status: 0 all is well; 1 the counting failed, or the results differ; 2 wrong usage; 3 the result is complete
// except for files that could not be read.

#include "command_line.hpp"
#include "compare.hpp"
#include "count.hpp"
#include "mutex_queue.hpp"

#include <muster/base/parallelism.hpp>  // available_parallelism
#include <muster/queue.hpp>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

namespace {

using namespace word_count;

enum exit_status { all_is_well = 0, failed = 1, wrong_usage = 2, some_unreadable = 3 };

// Chunks. Enough to ride out a slow directory; 8 MiB of text at most, unless --chunk or a word is larger.
constexpr std::size_t queue_capacity = 256;

// [count]
outcome count_with_spmc(const job& work) {
  // The threads that may be inside at once: all counters, and the reader.
  muster::spmc_queue<chunk> queue(queue_capacity, {.threads = work.counters + 1});
  return count_through(queue, work);
}

outcome count_with_mutex(const job& work) {
  mutex_queue<chunk> queue(queue_capacity);
  return count_through(queue, work);
}
// [/count]

const std::vector<method> methods = {
    {"serial", count_serially}, {"mutex", count_with_mutex}, {"spmc", count_with_spmc}};

void print_result(const outcome& result, std::size_t top) {
  std::printf("%12s  word\n", "count");
  for (const auto& [word, count] : result.words.top(top)) {
    std::printf("%12llu  ", static_cast<unsigned long long>(count));
    std::fwrite(word.data(), 1, word.size(), stdout);
    std::printf("\n");
  }
  const reading_report& input = result.input;
  std::printf("\n%llu files, %llu bytes, %llu words, %zu distinct words\n",
              static_cast<unsigned long long>(input.files), static_cast<unsigned long long>(input.bytes),
              static_cast<unsigned long long>(result.words.words()), result.words.distinct());
  if (input.links + input.special != 0)
    std::printf("not read: %llu symbolic links; %llu FIFOs, sockets and devices\n",
                static_cast<unsigned long long>(input.links), static_cast<unsigned long long>(input.special));
}

/// Names what could not be read, on stderr.
void print_complaints(const reading_report& input) {
  if (input.unreadable == 0) return;
  std::fprintf(stderr, "word-count: %llu files or directories could not be read and are not, or not fully, counted:\n",
               static_cast<unsigned long long>(input.unreadable));
  for (const std::string& complaint : input.complaints) std::fprintf(stderr, "  %s\n", complaint.c_str());
  if (input.unreadable > input.complaints.size()) std::fprintf(stderr, "  and more\n");
}

int finish(const reading_report& input) {
  print_complaints(input);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::perror("word-count: the result could not be written");
    return failed;
  }
  return input.unreadable == 0 ? all_is_well : some_unreadable;
}

int compare(const job& work, std::size_t top, std::size_t repeats) {
  const comparison compared = compare_methods(methods, work, repeats);
  if (!compared.difference.empty()) {
    std::fprintf(stderr, "word-count: %s\n", compared.difference.c_str());
    return failed;
  }
  print_result(compared.reference, top);
  std::printf("\n1 reader, %zu counters, medians of %zu runs each; all results are equal\n\n", work.counters, repeats);
  print_times(compared.times);
  return finish(compared.reference.input);
}

int count_once(const method& how, const job& work, std::size_t top, std::size_t repeats) {
  outcome result;
  std::vector<outcome_times> runs;
  for (std::size_t i = 0; i != repeats; ++i) {
    result = outcome();  // Give the last run's memory back before the next one is timed.
    result = how.run(work);
    runs.push_back(times_of(result));
  }
  print_result(result, top);
  std::printf("\n");
  print_times({{how.name, runs}});
  return finish(result.input);
}

}  // namespace

int main(int argc, char** argv) {
  job work;
  work.directory = "/usr/include";
  work.counters = muster::available_parallelism();
  std::size_t top = 10;
  std::size_t repeats = 0;
  std::string queue = "spmc";

  examples::command_line line("Counts the words of all files under a directory: one thread reads, several count.",
                              "word-count");
  line.add("DIR", work.directory, "the directory; symbolic links in it are not followed").shows_default();
  line.add("--counters", work.counters, "threads that count").in(1, 1024).shows_default();
  line.add("--top", top, "how many of the most frequent words to print").in(0, 1'000'000'000).shows_default();
  line.add("--queue", queue, "what is between reader and counters; compare: measure all three")
      .among({"spmc", "mutex", "serial", "compare"})
      .shows_default();
  line.add("--repeat", repeats, "runs to take the median of (default: 1, or 5 to compare)").in(1, 1000);
  line.add("--chunk", work.chunk_size, "bytes that the reader hands out at once").in(1, 1 << 30).shows_default();
  if (const auto status = line.parse(argc, argv, wrong_usage)) return *status;

  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(work.directory, error);
  if (!std::filesystem::is_directory(status)) {
    std::fprintf(stderr, "word-count: %s: %s; give a directory\n", work.directory.c_str(),
                 error ? error.message().c_str() : "is not a directory");
    return wrong_usage;
  }

  try {
    if (queue == "compare") return compare(work, top, repeats == 0 ? 5 : repeats);
    for (const method& how : methods)
      if (how.name == queue) return count_once(how, work, top, repeats == 0 ? 1 : repeats);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "word-count: out of memory; try fewer --counters or a smaller directory\n");
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "word-count: %s\n", failure.what());
  }
  return failed;
}
