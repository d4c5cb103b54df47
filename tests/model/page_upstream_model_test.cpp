// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The GPU's upstream of pages under the checker, where a lane is a thread. The owner of a block writes to all of it, so
// two owners at a time, or a new one before the old one has finished, are a data race.
#include <gtest/gtest.h>
#include <muster/gpu/page_upstream.hpp>

#include "expect_right.hpp"
#include "mutant_search.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace muster_model_test;
using muster::gpu::page_upstream;

constexpr unsigned most_pages = 2;
constexpr std::size_t grain = 1024;  // what is written to at once

/// Scripts: a number allocates that many bytes, F frees the oldest of the thread's own blocks, and S one that is there
/// from the beginning. Each thread frees the rest at its end; then all pages must be free.
class paged {
 public:
  paged(unsigned pages, std::size_t shared, const std::string& text) : pages_(pages), shared_(shared) {
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, '|');) {
      std::istringstream words(part);
      scripts_.emplace_back();
      for (std::string word; words >> word;)
        scripts_.back().push_back(word == "F" ? free_oldest : word == "S" ? free_shared : std::stoul(word));
    }
  }

  void operator()() const {
    run now(pages_, shared_);
    std::vector<unsigned> threads;
    for (const script& s : scripts_) threads.push_back(mm::spawn([&now, &s] { now.thread(s); }));
    for (const unsigned t : threads) mm::join(t);
    now.check();
  }

 private:
  using script = std::vector<std::size_t>;
  static constexpr std::size_t free_oldest = 0, free_shared = 1;

  class run {
   public:
    run(unsigned pages, std::size_t shared)
        : upstream_(*page_upstream::make(region(), bytes_for(pages))), shared_(second(shared)) {}
    ~run() { upstream_.~page_upstream(); }
    run(const run&) = delete;
    run& operator=(const run&) = delete;

    void thread(const script& s) {
      std::deque<std::pair<void*, std::size_t>> mine;
      const auto free_one = [&] {
        const auto [block, bytes] = mine.front();
        mine.pop_front();
        write(block, bytes);
        upstream_.deallocate(block);
      };
      for (const std::size_t bytes : s) {
        if (bytes == free_oldest) {
          if (!mine.empty()) free_one();
          continue;
        }
        if (bytes == free_shared) {
          upstream_.deallocate(shared_);
          continue;
        }
        void* const block = upstream_.allocate(bytes);
        if (block == nullptr) continue;
        write(block, bytes);
        mine.emplace_back(block, bytes);
      }
      while (!mine.empty()) free_one();
    }
    void check() {
      mm::engine& e = mm::engine::running();
      if (upstream_.free_pages() != upstream_.pages()) e.fail("a page is lost");
      if (upstream_.freed_invalid() != 0) e.fail("a block is not known");
      if (upstream_.freed_twice() != (shared_ == nullptr ? 0 : 1))
        e.fail("it is not noticed right what is freed twice");
      for (const std::size_t bytes : {2 * grain, page_upstream::page_size}) {
        void* const block = upstream_.allocate(bytes);
        if (block == nullptr) e.fail("there is no memory in an empty heap");
        upstream_.deallocate(block);
      }
    }

   private:
    /// The second block of a page: what others allocate later, of smaller sizes, begins before it.
    void* second(std::size_t bytes) {
      void* const one = upstream_.allocate(bytes);
      void* const other = upstream_.allocate(bytes);
      if (other == nullptr) return one;
      upstream_.deallocate(one);
      return other;
    }
    static std::size_t bytes_for(unsigned pages) { return page_upstream::page_size * (pages + 1); }
    static void* region() {
      alignas(page_upstream::page_size) static unsigned char all[page_upstream::page_size * (most_pages + 2)];
      return all;
    }
    void write(void* block, std::size_t bytes) {
      const std::size_t first = (reinterpret_cast<std::uintptr_t>(block) - upstream_.origin()) / grain;
      for (std::size_t i = 0; i < (bytes + grain - 1) / grain; ++i) ++contents_.at(first + i).write_ref();
    }

    page_upstream& upstream_;
    void* const shared_;
    std::array<muster::sync::cell<unsigned>, most_pages * page_upstream::page_size / grain> contents_{};
  };

  unsigned pages_;
  std::size_t shared_;
  std::vector<script> scripts_;
};

struct row {
  unsigned pages;
  const char* text;
  search_bounds within;
  std::size_t shared = 0;
};

const std::vector<row> table = {
    {1, "2048 | 2048", {2, 1}},
    {1, "2048 F 1024 | 1024", {2, 1}},
    {2, "8192 | 2048", {2, 1}},
    {1, "4096 | 2048 | 1024", {1, 1}},
    {2, "S | S", {-1, -1}, 8192},
    {1, "S 1024 | S 1024 1024", {2, 1}, 2048},
    {1, "S 1024 | S 1024 1024 F", {-1, -1, 20'000}, 2048},
    {2, "S | S", {-1, -1}, 1024},
    {2, "2048 2048 F 2048 | 2048 F 1024", {-1, -1, 20'000}},
    {1, "2048 F 1024 F | 2048 F 1024 F | 1024 F 2048 F", {-1, -1, 20'000}},
    {2, "8192 F 2048 | 2048 F 4096 | 1024 F", {-1, -1, 20'000}},
    {2, "4096 F 4096 F | 2048 1024 F F | 8192 F", {-1, -1, 20'000}},
};

class page_upstream_model : public ::testing::TestWithParam<std::size_t> {};

TEST_P(page_upstream_model, has_no_execution_that_breaks_a_promise) {
  const row& r = table[GetParam()];
  expect_right(r.within, r.text, paged(r.pages, r.shared, r.text));
}

INSTANTIATE_TEST_SUITE_P(programs, page_upstream_model, ::testing::Range(std::size_t{0}, table.size()));

TEST(page_upstream_mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const row& r : table) search.programs.push_back({r.text, true, paged(r.pages, r.shared, r.text), {}});
  search.survivors = {
      {"page_upstream::take_cell: load repeated", true, "of the hint; or an older use, which is looked at again"},
      {"page_upstream::take_cell: store skipped", true, "a hint: the next one looks from farther away"},
      {"page_upstream::take_run: load repeated", true, "of a hint"},
      {"page_upstream::take_run_between: store skipped", true, "a hint, as above"},
  };
  const char* const hard = "S 1024 | S 1024 1024";
  search.needles = {{"page_upstream::free_cell: compare_exchange failure acquire -> relaxed",
                     {hard, true, paged(1, 2048, hard), {}}}};
  search.files = {"gpu/page_upstream"};
  search.prefix = "page_upstream::";
  search.executions = 4096;
  search.run();
}

}  // namespace
