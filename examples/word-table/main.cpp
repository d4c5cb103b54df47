// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// word-table: counts the words of a file in a kernel, one lane for each word, and compares the counts with those of the
// processor. On a GPU when nvcc compiles it (./dev gpu), otherwise on the emulation of one.
//
//   word-table FILE [--top N]
//
// Exit status: 0 both are the same; 1 they are not, or there was no memory on the device; 2 the usage, or the file.
#include "command_line.hpp"
#include "table.hpp"

#include "muster_simt/launch.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using muster_simt::device_array;
using namespace word_table;
using counts = std::map<std::string, std::uint32_t, std::less<>>;

constexpr std::size_t most_bytes = std::size_t{1} << 30U;
constexpr unsigned block_threads = 256;

std::vector<word> words_of(std::string_view text) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::vector<word> found;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    while (i < text.size() && in_word(text[i])) ++i;
    if (i != begin) found.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(i - begin)});
    if (i == begin) ++i;
  }
  return found;
}

counts count_here(std::string_view text, const std::vector<word>& words) {
  counts all;
  for (const word& w : words) ++all[std::string(text.substr(w.begin, w.size))];
  return all;
}

muster::gpu::index3 blocks_for(std::size_t threads) {
  return {static_cast<unsigned>((threads + block_threads - 1) / block_threads)};
}

/// Throws std::runtime_error if the device does not have enough memory.
counts count_there(std::string_view text, const std::vector<word>& words) {
  device_array<char> there(text.size() + 1);
  std::copy(text.begin(), text.end(), there.begin());
  device_array<word> all(words.size() + 1);
  std::copy(words.begin(), words.end(), all.begin());
  const auto buckets = static_cast<std::uint32_t>(std::max<std::size_t>(words.size() / 4, 16));
  device_array<muster::gpu::atomic<std::uint64_t>> heads(buckets);
  device_array<muster::gpu::atomic<std::uint32_t>> counters(2);
  device_array<counted_word> out(words.size() + 1);
  const table t{there.get(), all.get(), static_cast<std::uint32_t>(words.size()), buckets, heads.get()};

  muster::gpu::xmcInit();
  if (!words.empty()) muster_simt::launch(blocks_for(words.size()), {block_threads}, insert_words, t, counters.get());
  muster_simt::launch(blocks_for(buckets), {block_threads}, take_apart, t, out.get(), counters.get() + 1);
  if (counters[0].load(std::memory_order_relaxed) != 0) throw std::runtime_error("the device had no memory for a word");
  counts found;
  for (std::uint32_t i = 0; i < counters[1].load(std::memory_order_relaxed); ++i) {
    const word& w = words[out[i].number];
    found[std::string(text.substr(w.begin, w.size))] += out[i].count;
  }
  return found;
}

int run(const std::string& path, std::size_t top) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "word-table: %s cannot be read\n", path.c_str());
    return 2;
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad() || text.size() > most_bytes) {
    std::fprintf(stderr, "word-table: %s cannot be read, or has more than a gibibyte\n", path.c_str());
    return 2;
  }
  const std::vector<word> words = words_of(text);
  const auto start = std::chrono::steady_clock::now();
  const counts there = count_there(text, words);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const bool right = there == count_here(text, words);

  std::vector<std::pair<std::uint32_t, std::string>> often;
  for (const auto& [text_of, count] : there) often.emplace_back(count, text_of);
  std::sort(often.begin(), often.end(), std::greater<>());
  for (std::size_t i = 0; i < std::min(top, often.size()); ++i)
    std::printf("%8u %s\n", often[i].first, often[i].second.c_str());
  std::printf("%zu words, %zu different; %.3f s; %s\n", words.size(), there.size(), took.count(),
              right ? "the processor counts the same" : "THE PROCESSOR COUNTS DIFFERENTLY");
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("Counts the words of a file in a kernel, and compares with what the processor counts.",
                              "word-table");
  std::string path;
  std::size_t top = 5;
  line.add("FILE", path, "what is read").required();
  line.add("--top", top, "how many words are printed").in(0, 1'000'000'000).shows_default();
  if (const auto status = line.parse(argc, argv, 2)) return *status;
  try {
    return run(path, top);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "word-table: %s\n", e.what());
    return 1;
  }
}
