// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Tests of the parts of word-count: words, chunks, the table, and the pipeline when something throws. test_program.py
// tests the program as a user sees it.

#include "compare.hpp"
#include "count.hpp"
#include "mutex_queue.hpp"

#include <gtest/gtest.h>
#include <muster/queue.hpp>

#include <unistd.h>  // getpid

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace word_count;
using counts = std::map<std::string, std::uint64_t>;

counts counts_of(const word_table& table) {
  counts result;
  for (const auto& [word, count] : table.top(table.distinct())) result.emplace(word, count);
  return result;
}

std::vector<std::string> words_of(std::string text) {
  std::vector<std::string> words;
  for_each_word(text, [&words](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(text, words_are_runs_of_letters_digits_and_underscores_in_lower_case) {
  using strings = std::vector<std::string>;
  EXPECT_EQ(words_of(""), strings());
  EXPECT_EQ(words_of(" \n+"), strings());
  EXPECT_EQ(words_of("a"), strings({"a"}));
  EXPECT_EQ(words_of("Size_t size_T;int32_t  x9"), strings({"size_t", "size_t", "int32_t", "x9"}));
  EXPECT_EQ(words_of(std::string("a\0b\xff", 4) + "c\x80\xc3\xa4z"), strings({"a", "b", "c", "z"}));
  EXPECT_EQ(words_of("@AZ[`az{/09:"), strings({"az", "az", "09"}));  // the neighbours of each range separate
}

TEST(text, every_byte_that_is_no_word_byte_separates) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool in_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    EXPECT_EQ(words_of(std::string("a") + c + "b").size(), in_word ? 1u : 2u) << byte;
  }
}

TEST(text, cuts_are_made_behind_a_separator) {
  EXPECT_EQ(cut_length(""), 0u);
  EXPECT_EQ(cut_length("word"), 0u);
  EXPECT_EQ(cut_length("two words"), 4u);
  EXPECT_EQ(cut_length("two words "), 10u);
  EXPECT_EQ(cut_length(" word"), 1u);
}

TEST(table, counts_like_a_map_while_it_grows) {
  std::mt19937 random(1);
  word_table table;
  counts expected;
  for (int i = 0; i < 200'000; ++i) {
    // Lengths 1 to 24 reach every branch of the hash; the squared number makes some words frequent.
    const auto number = random() % 300 * (random() % 300);
    std::string word = std::to_string(number);
    word.resize(1 + number % 24, 'x');
    table.add(word);
    ++expected[word];
  }
  EXPECT_EQ(table.words(), 200'000u);
  EXPECT_EQ(table.distinct(), expected.size());
  EXPECT_EQ(counts_of(table), expected);
  EXPECT_EQ(table.count("never added"), 0u);
  EXPECT_EQ(word_table().count("never added"), 0u);
}

TEST(table, merged_halves_equal_the_whole_and_any_difference_shows) {
  word_table whole, left, right;
  for (int i = 0; i < 5000; ++i) {
    const std::string word = std::to_string(i % 777);
    whole.add(word);
    (i % 3 == 0 ? left : right).add(word);
  }
  EXPECT_FALSE(whole == left);
  left.merge(right);
  EXPECT_TRUE(whole == left);
  EXPECT_TRUE(word_table() == word_table());
  EXPECT_FALSE(whole == word_table());

  word_table copy;  // the same totals, but two counts differ by one
  for (const auto& [word, count] : left.top(777))
    copy.add(word, word == "1" ? count - 1 : word == "2" ? count + 1 : count);
  EXPECT_EQ(copy.words(), whole.words());
  EXPECT_EQ(copy.distinct(), whole.distinct());
  EXPECT_FALSE(whole == copy);
}

TEST(table, words_of_equal_hash_are_told_apart) {
  // The hash of 16 bytes a, b is mix(mix(16 ^ a) ^ b), and mix can be undone; so for any a there is a colliding b.
  const auto mix = [](std::uint64_t h) {
    h *= 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
  };
  const auto word = [](std::uint64_t a, std::uint64_t b) {
    std::string bytes(16, '\0');
    std::memcpy(bytes.data(), &a, 8);
    std::memcpy(bytes.data() + 8, &b, 8);
    return bytes;
  };
  const std::string one = word(1, 0), two = word(2, mix(16 ^ 1) ^ mix(16 ^ 2));
  ASSERT_EQ(word_table::hash(one), word_table::hash(two));
  word_table table;
  table.add(one, 3);
  table.add(two, 4);
  EXPECT_EQ(table.count(one), 3u);
  EXPECT_EQ(table.count(two), 4u);
}

TEST(table, orders_by_count_then_by_word) {
  word_table table;
  for (const char* word : {"b", "a", "c", "c", "d"}) table.add(word);
  std::string order;
  for (const auto& entry : table.top(3)) order += entry.word;
  EXPECT_EQ(order, "cab");
}

/// A directory that is removed at the end of the test.
class scratch_directory {
 public:
  scratch_directory()
      : path_(std::filesystem::temp_directory_path() /
              ("word-count-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(path_);
  }
  ~scratch_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << text;
    ASSERT_TRUE(file.flush()) << name;
  }

 private:
  std::filesystem::path path_;
};

/// Text whose words are longer and shorter than the chunks of the test below.
std::string varied_text() {
  std::mt19937 random(2);
  std::string text;
  for (int i = 0; i < 400; ++i) {
    const std::size_t length = random() % (i % 50 == 0 ? 300 : 12);
    for (std::size_t j = 0; j != length; ++j) text += static_cast<char>('a' + random() % 26);
    text += i % 7 == 0 ? "\n\n" : " ";
  }
  return text;
}

TEST(reader, no_chunk_size_cuts_a_word_or_changes_the_text) {
  const scratch_directory directory;
  for (const std::string& text : {varied_text(), varied_text() + "end", std::string(1000, 'x')}) {
    directory.write("file", text);
    const std::vector<std::string> expected = words_of(text);
    for (std::size_t chunk_size = 1; chunk_size != 140; ++chunk_size) {
      std::string whole;
      std::vector<std::string> words;
      const auto take = [&](chunk&& piece) {
        whole.append(piece.text().data(), piece.size());
        for_each_word(piece.text(), [&words](std::string_view word) { words.emplace_back(word); });
        return true;
      };
      const reading_report report = tree_reader(chunk_size, take).read(directory.path());
      ASSERT_EQ(whole, text) << chunk_size;
      ASSERT_EQ(words, expected) << chunk_size;
      ASSERT_EQ(report.files, 1u);
      ASSERT_EQ(report.bytes, text.size());
    }
  }
}

TEST(reader, stops_when_nobody_takes_the_chunks) {
  const scratch_directory directory;
  for (int i = 0; i < 5; ++i) directory.write(std::to_string(i), "1234567 1234567 1234567 1234567 ");
  for (const std::size_t chunk_size : {8u, 100u}) {  // in the middle of a file, and between files
    std::size_t offered = 0, taken_bytes = 0;
    const auto take_two = [&](chunk&& piece) {
      if (++offered > 2) return false;
      taken_bytes += piece.size();
      return true;
    };
    const reading_report report = tree_reader(chunk_size, take_two).read(directory.path());
    EXPECT_EQ(offered, 3u) << chunk_size;  // Nothing is offered again after the first refusal.
    EXPECT_EQ(report.chunks, 2u) << chunk_size;
    EXPECT_EQ(report.bytes, taken_bytes) << chunk_size;
  }
}

template <class Queue>
class pipeline : public ::testing::Test {};
using queues = ::testing::Types<mutex_queue<int>, muster::spmc_queue<int>>;
TYPED_TEST_SUITE(pipeline, queues);

TYPED_TEST(pipeline, consumes_every_item_once) {
  TypeParam queue(4);
  std::vector<std::atomic<int>> seen(10'000);
  run_pipeline(
      queue, 3,
      [&](auto push) {
        for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(push(int{i}));
      },
      [&](std::size_t, int item) { ++seen[static_cast<std::size_t>(item)]; });
  for (const auto& times : seen) EXPECT_EQ(times, 1);
}

TYPED_TEST(pipeline, a_consumer_that_throws_stops_the_producer_and_is_reported) {
  TypeParam queue(4);
  int pushed = 0;
  const auto run = [&] {
    run_pipeline(
        queue, 2,
        [&](auto push) {
          while (push(int{pushed})) ++pushed;  // Only the closed queue ends this.
        },
        [](std::size_t, int item) {
          if (item == 100) throw std::bad_alloc();
        });
  };
  EXPECT_THROW(run(), std::bad_alloc);
  EXPECT_GE(pushed, 100);
}

TYPED_TEST(pipeline, all_consumers_may_throw_while_the_producer_waits) {
  TypeParam queue(2);
  const auto run = [&] {
    run_pipeline(
        queue, 4,
        [](auto push) {
          while (push(1)) continue;
        },
        [](std::size_t, int) {
          // By now the producer has most likely filled the queue again. It is woken by close() alone.
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          throw std::runtime_error("consumer");
        });
  };
  EXPECT_THROW(run(), std::runtime_error);
}

TYPED_TEST(pipeline, a_producer_that_throws_ends_the_consumers) {
  TypeParam queue(4);
  std::atomic<int> consumed = 0;
  const auto run = [&] {
    run_pipeline(
        queue, 3,
        [](auto push) {
          for (int i = 0; i < 50; ++i) push(int{i});
          throw std::runtime_error("producer");
        },
        [&](std::size_t, int) { ++consumed; });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(consumed, 50);  // Items pushed before are not lost.
}

TEST(compare, a_method_with_another_result_is_named) {
  const scratch_directory directory;
  directory.write("file", "some words and some more");
  job work;
  work.directory = directory.path();
  const auto forgets_a_word = [](const job& what) {
    outcome result = count_serially(what);
    word_table others;
    for (const auto& [word, count] : result.words.top(100))
      if (word != "more") others.add(word, count);
    result.words = std::move(others);
    return result;
  };
  const comparison same = compare_methods({{"one", count_serially}, {"two", count_serially}}, work, 3);
  EXPECT_EQ(same.difference, "");
  EXPECT_EQ(same.times.at(1).runs.size(), 3u);
  const comparison wrong = compare_methods({{"right", count_serially}, {"wrong", forgets_a_word}}, work, 3);
  EXPECT_NE(wrong.difference.find("'wrong'"), std::string::npos) << wrong.difference;
}

}  // namespace
