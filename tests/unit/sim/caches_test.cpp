// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Where lines are after a sequence of reads and writes, against what MESI says, worked out by hand. Cores 0 and 1 share
// an L3, and 2 and 3 share the other.
#include "sim/cache/caches.hpp"
#include "small_machine.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace {

using namespace muster_simulation;

struct step {
  char what;  // r or w
  unsigned core;
  place found;
  const char* states;  // of the four cores afterwards: M, E, S or a dot
  const char* shared;  // of the two L3s: whether they have the line
};

struct sequence {
  const char* name;
  std::vector<step> steps;
  std::uint64_t invalidations;
};
void PrintTo(const sequence& s, std::ostream* out) { *out << s.name; }

std::string states(const caches& all, line_number line) {
  std::string text;
  for (unsigned core = 0; core < 4; ++core) {
    switch (all.state_of(core, line)) {
      case caches::state::invalid: text += '.'; break;
      case caches::state::shared: text += 'S'; break;
      case caches::state::exclusive: text += 'E'; break;
      case caches::state::modified: text += 'M'; break;
    }
  }
  return text;
}

class mesi : public testing::TestWithParam<sequence> {};

TEST_P(mesi, sequence) {
  constexpr line_number line = 7;
  caches all(small_machine());
  unsigned number = 0;
  for (const step& s : GetParam().steps) {
    SCOPED_TRACE("step " + std::to_string(++number));
    const caches::answer found = s.what == 'r' ? all.read(s.core, line) : all.write(s.core, line);
    EXPECT_EQ(found.where, s.found);
    EXPECT_EQ(states(all, line), s.states);
    EXPECT_EQ(std::string(all.in_l3(0, line) ? "+" : "-") + (all.in_l3(1, line) ? "+" : "-"), s.shared);
  }
  EXPECT_EQ(all.seen().invalidations, GetParam().invalidations);
  EXPECT_EQ(all.seen().memory_writes, 0U);
}

using enum place;

INSTANTIATE_TEST_SUITE_P(
    of_one_line, mesi,
    testing::Values(
        sequence{"invalid_to_exclusive_to_modified",
                 {{'r', 0, memory, "E...", "+-"},
                  {'r', 0, l1, "E...", "+-"},
                  {'w', 0, l1, "M...", "--"},
                  {'r', 0, l1, "M...", "--"},
                  {'w', 0, l1, "M...", "--"}},
                 0},
        sequence{"invalid_to_modified", {{'w', 0, memory, "M...", "--"}, {'w', 0, l1, "M...", "--"}}, 0},
        sequence{"exclusive_to_shared_in_the_cluster",
                 {{'r', 0, memory, "E...", "+-"}, {'r', 1, in_cluster, "SS..", "+-"}, {'r', 0, l1, "SS..", "+-"}},
                 0},
        sequence{"exclusive_to_shared_between_clusters",
                 {{'r', 0, memory, "E...", "+-"}, {'r', 2, elsewhere, "S.S.", "++"}, {'r', 3, l3, "S.SS", "++"}},
                 0},
        sequence{
            "exclusive_to_invalid",
            {{'r', 0, memory, "E...", "+-"}, {'w', 1, in_cluster, ".M..", "--"}, {'w', 2, elsewhere, "..M.", "--"}},
            2},
        sequence{"modified_to_shared_in_the_cluster",
                 {{'w', 0, memory, "M...", "--"}, {'r', 1, in_cluster, "SS..", "+-"}, {'r', 1, l1, "SS..", "+-"}},
                 0},
        sequence{"modified_to_shared_between_clusters",
                 {{'w', 0, memory, "M...", "--"}, {'r', 3, elsewhere, "S..S", "++"}, {'r', 1, l3, "SS.S", "++"}},
                 0},
        sequence{
            "modified_to_invalid",
            {{'w', 0, memory, "M...", "--"}, {'w', 1, in_cluster, ".M..", "--"}, {'w', 3, elsewhere, "...M", "--"}},
            2},
        sequence{
            "shared_to_modified_in_the_cluster",
            {{'r', 0, memory, "E...", "+-"}, {'r', 1, in_cluster, "SS..", "+-"}, {'w', 1, in_cluster, ".M..", "--"}},
            1},
        sequence{"shared_to_modified_between_clusters",
                 {{'r', 0, memory, "E...", "+-"},
                  {'r', 1, in_cluster, "SS..", "+-"},
                  {'r', 2, elsewhere, "SSS.", "++"},
                  {'w', 0, elsewhere, "M...", "--"}},
                 2},
        sequence{"shared_to_invalid_by_one_who_has_nothing",
                 {{'r', 0, memory, "E...", "+-"},
                  {'r', 2, elsewhere, "S.S.", "++"},
                  {'w', 1, elsewhere, ".M..", "--"}},  // its own L3 has the line, and core 2 must give it up
                 2},
        sequence{"ping_pong",
                 {{'w', 0, memory, "M...", "--"},
                  {'r', 2, elsewhere, "S.S.", "++"},
                  {'w', 2, elsewhere, "..M.", "--"},
                  {'r', 0, elsewhere, "S.S.", "++"},
                  {'w', 0, elsewhere, "M...", "--"}},
                 2}),
    [](const auto& of) { return std::string(of.param.name); });

TEST(caches, a_line_leaves_l1_before_l2_and_then_the_core) {
  caches all(small_machine());
  for (line_number line = 0; line < 3; ++line) EXPECT_EQ(all.read(0, line).where, place::memory);
  EXPECT_EQ(all.read(0, 0).where, place::l2) << "the third line has taken its place in L1";
  for (line_number line = 3; line < 7; ++line) EXPECT_EQ(all.read(0, line).where, place::memory);
  EXPECT_EQ(all.state_of(0, 0), caches::state::invalid);
  EXPECT_EQ(all.read(0, 0).where, place::l3);
  EXPECT_EQ(all.state_of(0, 0), caches::state::exclusive) << "no other cache has it";
}

TEST(caches, the_line_that_was_used_longest_ago_gives_way) {
  caches all(small_machine());
  for (const line_number line : {0U, 1U, 0U, 2U}) all.read(0, line);
  EXPECT_EQ(all.read(0, 0).where, place::l1);
  EXPECT_EQ(all.read(0, 1).where, place::l2);
}

TEST(caches, a_modified_line_goes_to_the_shared_cache_and_then_to_memory) {
  caches all(small_machine());
  all.write(0, 0);
  for (line_number line = 1; line < 5; ++line) all.read(0, line);
  EXPECT_EQ(all.state_of(0, 0), caches::state::invalid);
  EXPECT_TRUE(all.in_l3(0, 0));
  EXPECT_EQ(all.seen().memory_writes, 0U);
  for (line_number line = 5; line < 13; ++line) all.read(0, line);
  EXPECT_FALSE(all.in_l3(0, 0));
  EXPECT_EQ(all.seen().memory_writes, 1U);
  EXPECT_EQ(all.read(0, 0).where, place::memory);
}

TEST(caches, a_line_that_another_cluster_has_is_not_written_back) {
  caches all(small_machine());
  all.write(0, 0);
  all.read(2, 0);
  for (line_number line = 1; line < 20; ++line) all.read(0, line);
  EXPECT_FALSE(all.in_l3(0, 0));
  EXPECT_EQ(all.state_of(2, 0), caches::state::shared);
  EXPECT_EQ(all.seen().memory_writes, 0U);
  EXPECT_EQ(all.read(0, 0).where, place::elsewhere);
}

}  // namespace
