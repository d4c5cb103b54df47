// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// word-table: counts the words of a file in kernels, one lane for each word, and compares the counts with those of the
// processor. The file passes through the device in parts; the table of words stays there, from kernel to kernel. On a
// GPU when nvcc compiles it (./dev gpu), otherwise on the emulation of one.
//
//   word-table FILE [--top N] [--part KIB] [--memory MIB]
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

struct settings {
  std::string path{};
  std::size_t top = 5;
  std::uint32_t part = 256;   // KiB of text that are on the device at once
  std::uint32_t memory = 64;  // MiB for the table
};

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

counts count_here(std::string_view text) {
  counts all;
  for (const word& w : words_of(text)) ++all[std::string(text.substr(w.begin, w.size))];
  return all;
}
/// The longest beginning of a text that is not longer than wanted and does not end within a word; or that word.
std::size_t part_of(std::string_view text, std::size_t wanted) {
  const auto in_word = [&](std::size_t i) { return std::isalnum(static_cast<unsigned char>(text[i])) != 0; };
  if (text.size() <= wanted) return text.size();
  std::size_t end = wanted;
  while (end != 0 && in_word(end - 1) && in_word(end)) --end;
  if (end != 0) return end;
  for (end = wanted; end < text.size() && in_word(end);) ++end;
  return end;
}

muster::gpu::index3 blocks_for(std::size_t threads) {
  return {static_cast<unsigned>((threads + block_threads - 1) / block_threads)};
}

/// The table on the device.
class device_table {
 public:
  explicit device_table(std::size_t bytes) : memory_(bytes), heads_(1U << 14U), counters_(5) {}

  /// Throws std::runtime_error if the device does not have enough memory.
  void insert(std::string_view part) {
    const std::vector<word> words = words_of(part);
    if (words.empty()) return;
    device_array<char> text(part.size());
    std::copy(part.begin(), part.end(), text.begin());
    device_array<word> there(words.size());
    std::copy(words.begin(), words.end(), there.begin());
    muster_simt::launch(blocks_for(words.size()), {block_threads}, insert_words, memory_.ref(), chains(), text.get(),
                        there.get(), static_cast<std::uint32_t>(words.size()), counters_.get());
    if (counter(0) != 0) throw std::runtime_error("the device had no memory for a word; --memory gives it more");
  }
  muster::gpu::heap_stats stats() const { return memory_.stats(); }

  /// Takes all words out.
  counts take() {
    const muster::gpu::index3 blocks = blocks_for(heads_.size());
    auto* const c = counters_.get();
    muster_simt::launch(blocks, {block_threads}, measure, chains(), c + 1, c + 2);
    device_array<counted_word> out(counter(1) + std::size_t{1});
    device_array<char> text(counter(2) + std::size_t{1});
    muster_simt::launch(blocks, {block_threads}, take_apart, memory_.ref(), chains(), out.get(), text.get(), c + 3,
                        c + 4);
    counts found;
    for (std::uint32_t i = 0; i < counter(3); ++i)
      found[std::string(text.get() + out[i].begin, out[i].size)] += out[i].count;
    return found;
  }

 private:
  table chains() const { return {heads_.get(), static_cast<std::uint32_t>(heads_.size())}; }
  std::uint32_t counter(std::size_t which) const { return counters_[which].load(std::memory_order_relaxed); }

  muster::gpu::heap memory_;
  device_array<muster::gpu::atomic<std::uint64_t>> heads_;
  device_array<muster::gpu::atomic<std::uint32_t>> counters_;
};

int run(const settings& s) {
  std::ifstream file(s.path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "word-table: %s cannot be read\n", s.path.c_str());
    return 2;
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad() || text.size() > most_bytes) {
    std::fprintf(stderr, "word-table: %s cannot be read, or has more than a gibibyte\n", s.path.c_str());
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  device_table table(std::size_t{s.memory} << 20U);
  std::size_t parts = 0;
  for (std::string_view left = text; !left.empty(); ++parts) {
    const std::size_t size = part_of(left, std::size_t{s.part} << 10U);
    table.insert(left.substr(0, size));
    left.remove_prefix(size);
  }
  const muster::gpu::heap_stats full = table.stats();
  const counts there = table.take();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const muster::gpu::heap_stats empty = table.stats();
  const bool right = there == count_here(text);

  std::vector<std::pair<std::uint32_t, std::string>> often;
  std::uint64_t words = 0;
  for (const auto& [text_of, count] : there) {
    often.emplace_back(count, text_of);
    words += count;
  }
  std::sort(often.begin(), often.end(), std::greater<>());
  for (std::size_t i = 0; i < std::min(s.top, often.size()); ++i)
    std::printf("%8u %s\n", often[i].first, often[i].second.c_str());
  std::printf("%llu words, %zu different, %.1f KiB on the device; %zu parts, %.3f s; %s\n",
              static_cast<unsigned long long>(words), there.size(), static_cast<double>(full.object_bytes) / 1024,
              parts, took.count(), right ? "the processor counts the same" : "THE PROCESSOR COUNTS DIFFERENTLY");
  if (full.objects != there.size() || empty.objects + empty.freed_twice + empty.freed_invalid != 0) {
    std::fprintf(stderr, "word-table: %llu nodes for %zu words, and %llu are left\n",
                 static_cast<unsigned long long>(full.objects), there.size(),
                 static_cast<unsigned long long>(empty.objects));
    return 1;
  }
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("Counts the words of a file in a kernel, and compares with what the processor counts.",
                              "word-table");
  settings s;
  line.add("FILE", s.path, "what is read").required();
  line.add("--top", s.top, "how many words are printed").in(0, 1'000'000'000).shows_default();
  line.add("--part", s.part, "the text on the device at once, in KiB").in(1, 1'000'000).shows_default();
  line.add("--memory", s.memory, "for the table, in MiB").in(1, 100'000).shows_default();
  if (const auto status = line.parse(argc, argv, 2)) return *status;
  try {
    return run(s);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "word-table: %s\n", e.what());
    return 1;
  }
}
