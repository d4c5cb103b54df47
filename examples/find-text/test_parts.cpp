// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the parts of find-text: that pieces add up wherever they are cut, that failures in a tree are kept, and that
// a wrong result is noticed. test_program.py tests the program as a user sees it.

#include "compare.hpp"
#include "files.hpp"
#include "search.hpp"
#include "sort.hpp"
#include "text.hpp"

#include <gtest/gtest.h>
#include <muster/fork.hpp>

#include <unistd.h>  // getpid

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace find_text;

/// By the definition of the problem, line by line.
std::uint64_t count_slowly(std::string_view text, std::string_view pattern) {
  std::uint64_t count = 0;
  for (const std::string_view line : lines_of(text)) count += line.find(pattern) != line.npos ? 1 : 0;
  return count;
}

/// Few different bytes, so that patterns occur often, and overlap, and lines of all lengths too.
std::string dense_text(std::mt19937& random, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i != size; ++i) text += "aaab\n\0\r"[random() % 7];
  return text;
}

matches piece_of(std::string_view text, std::size_t begin, std::size_t end, std::string_view pattern) {
  return find_matches(text.substr(begin, end - begin + pattern.size() - 1), end - begin, pattern);
}

/// The sum of so many pieces, with cuts and brackets anywhere.
matches sum_of_pieces(std::mt19937& random, std::string_view text, std::size_t begin, std::size_t end,
                      std::string_view pattern, unsigned depth) {
  if (depth == 0) return piece_of(text, begin, end, pattern);
  const std::size_t middle = begin + random() % (end - begin + 1);
  const matches left = sum_of_pieces(random, text, begin, middle, pattern, depth - 1);
  return left + sum_of_pieces(random, text, middle, end, pattern, depth - 1);
}

TEST(text, pieces_add_up_wherever_they_are_cut_and_bracketed) {
  std::mt19937 random(1);
  for (int round = 0; round != 2000; ++round) {
    const std::string text = dense_text(random, random() % 60);
    for (const std::string_view pattern : {"a", "b", "aa", "aab", "aaaa", "aaabaaab", "\r"}) {
      const matches whole = find_matches(text, text.size(), pattern);
      ASSERT_EQ(whole.lines, count_slowly(text, pattern)) << text;
      ASSERT_EQ(sum_of_pieces(random, text, 0, text.size(), pattern, 4), whole) << text;
      ASSERT_EQ(matches() + whole, whole);
      ASSERT_EQ(whole + matches(), whole);
    }
  }
}

TEST(text, a_match_that_crosses_a_cut_belongs_to_the_piece_where_it_begins) {
  const std::string_view text = "x\nabc\ny";
  EXPECT_EQ(find_matches(text.substr(0, 5), 3, "abc").lines, 1u);  // x, line end, a; and bc behind the piece
  EXPECT_EQ(find_matches(text.substr(3), 4, "abc").lines, 0u);
  EXPECT_EQ(find_matches(text.substr(0, 4), 2, "abc").lines, 0u);
}

TEST(text, lines_have_no_ends_and_the_last_needs_none) {
  EXPECT_EQ(lines_of(""), lines());
  EXPECT_EQ(lines_of("\n"), lines({""}));
  EXPECT_EQ(lines_of("a"), lines({"a"}));
  EXPECT_EQ(lines_of("a\n\nb\r\n"), lines({"a", "", "b\r"}));
  EXPECT_EQ(lines_of("\n\nc"), lines({"", "", "c"}));
}

/// A directory that is removed at the end of the test.
class scratch_directory {
 public:
  scratch_directory()
      : path_(std::filesystem::temp_directory_path() /
              ("find-text-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(path_);
  }
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& name = {}) const { return name.empty() ? path_ : path_ / name; }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream file(path_ / name, std::ios::binary);
    file << text;
    ASSERT_TRUE(file.flush()) << name;
  }

 private:
  std::filesystem::path path_;
};

TEST(search, any_piece_size_and_any_number_of_workers_finds_the_same) {
  const scratch_directory tree;
  std::mt19937 random(2);
  std::uint64_t lines = 0, bytes = 0;
  const auto add = [&](const std::string& name, const std::string& text) {
    tree.write(name, text);
    lines += count_slowly(text, "aab");
    bytes += text.size();
  };
  for (int i = 0; i != 60; ++i) add(std::to_string(i % 7) + "/" + std::to_string(i), dense_text(random, 300));
  add("a/long/way/down/large", dense_text(random, 20'000));
  add("one line", std::string(20'000, 'a') + 'b');
  add("empty", "");
  for (const bool always : {false, true})
    for (const unsigned workers : {1u, 2u, 5u}) {
      muster::pool pool({.workers = workers, .publish_always = always});
      for (const std::size_t piece_size : {1u, 2u, 3u, 7u, 100u, 4096u, 20'001u, 1u << 20u}) {
        const search_job work{.pattern = "aab", .directory = tree.path(), .piece_size = piece_size};
        const search_result expected = search<serially>(work);
        ASSERT_EQ(expected.lines, lines) << piece_size;
        ASSERT_EQ(expected.bytes, bytes);
        ASSERT_EQ(expected.files.size(), 63u);
        const search_result found = pool.run([&] { return search<in_parallel>(work); });
        ASSERT_EQ(found, expected) << piece_size << " " << workers;
      }
    }
}

TEST(search, a_file_that_grows_or_shrinks_is_searched_to_its_end) {
  const scratch_directory tree;
  const std::string text = "ab\nb\nxxab\nab";
  tree.write("file", text);
  const input_file file(tree.path("file"));
  for (std::size_t piece_size = 1; piece_size != 16; ++piece_size)
    for (std::uint64_t size = 0; size != 30; ++size) {  // that the file is said to have
      const search_job work{.pattern = "ab", .directory = {}, .piece_size = piece_size};
      ASSERT_EQ(matching_lines<serially>(file, size, work), 3u) << piece_size << " " << size;
      ASSERT_EQ(matching_lines<in_parallel>(file, size, work), 3u) << piece_size << " " << size;
    }
}

TEST(search, what_cannot_be_read_is_kept_beside_the_file) {
  const search_job work{.pattern = "x", .directory = {}};
  const auto error_of = [&](const std::string& path) {
    file_result here{.path = path};
    search_file<in_parallel>(work, here);
    return here.error;
  };
  const scratch_directory tree;
  std::filesystem::create_symlink("file", tree.path("link"));
  tree.write("file", "x");
  EXPECT_EQ(error_of(tree.path("file")), "");
  EXPECT_EQ(error_of(tree.path("link")), "Too many levels of symbolic links");  // put there meanwhile
  EXPECT_EQ(error_of(tree.path("gone")), "No such file or directory");          // since the listing
  EXPECT_EQ(error_of(tree.path()), "Invalid argument");
  EXPECT_EQ(error_of("/proc/self/mem"), "Input/output error");  // in a piece: nothing is at address 0

  directory_result gone{.path = tree.path("gone")};
  list(gone);
  EXPECT_EQ(gone.error, "No such file or directory");
}

TEST(search, complaints_leave_the_rest_as_it_is) {
  directory_result root{.path = "r",
                        .files = {{.path = "r/a", .lines = 2, .bytes = 9}, {.path = "r/b", .error = "bad"}}};
  root.directories.push_back({.path = "r/c", .files = {{.path = "r/c/d", .lines = 1, .bytes = 1}}, .error = "worse"});
  search_result all;
  collect(std::move(root), all);
  EXPECT_EQ(all.complaints, std::vector<std::string>({"r/b: bad", "r/c: worse"}));
  EXPECT_EQ(all.files.size(), 2u);
  EXPECT_EQ(all.lines, 3u);
  EXPECT_EQ(all.bytes, 10u);
}

TEST(sort, any_lines_are_sorted_by_their_bytes) {
  std::mt19937 random(3);
  std::vector<std::string> texts = {"", "\n", "b\na\n\nab\n\xff\n~\na", std::string(50'000, '\n')};
  texts.push_back(dense_text(random, 300'000));
  std::string rising, falling, bytes;
  for (int i = 10'000; i != 60'000; ++i) rising += std::to_string(i) + '\n';
  for (int i = 60'000; i != 10'000; --i) falling += std::to_string(i) + '\n';
  for (int i = 0; i != 300'000; ++i) bytes += static_cast<char>(random());
  texts.insert(texts.end(), {rising, falling, bytes});
  for (const unsigned workers : {1u, 2u, 5u}) {
    muster::pool pool({.workers = workers});
    for (const std::string& text : texts) {
      lines expected = lines_of(text), sorted = expected;
      sort_serially(expected);
      pool.run([&] { sort_in_parallel(sorted); });
      ASSERT_EQ(sorted, expected) << workers;
    }
  }
  lines few = lines_of(texts[2]);
  sort_in_parallel(few);
  EXPECT_EQ(few, lines({"", "a", "a", "ab", "b", "~", "\xff"}));  // as numbers from 0 to 255
}

method<int> adding(int value, const std::string& name) {
  return {name, 3, [value](int& result) { result += value; }};
}

TEST(compare, a_method_with_another_result_is_named) {
  const auto same = compare_methods<int>({adding(1, "one"), adding(1, "two")}, 5, 3);
  EXPECT_EQ(same.difference, "");
  EXPECT_EQ(same.reference, 6);  // every run begins with 5
  EXPECT_EQ(same.seconds.size(), 2u);
  for (const auto& seconds : same.seconds) EXPECT_EQ(seconds.size(), 3u);
  EXPECT_EQ(compare_methods<int>({adding(1, "right"), adding(2, "wrong")}, 5, 3).difference, "wrong with 3 workers");
}

TEST(compare, any_difference_of_two_searches_shows) {
  const search_result right{.files = {{"a", 1, 2}}, .complaints = {"b: bad"}, .lines = 1, .bytes = 2};
  search_result other = right;
  EXPECT_EQ(other, right);
  other.files[0].lines = 2;
  EXPECT_NE(other, right);
  other = right;
  other.complaints.clear();
  EXPECT_NE(other, right);
}

TEST(compare, the_median_is_in_the_middle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
}

}  // namespace
