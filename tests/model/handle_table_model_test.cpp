// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of a broker's files under the checker: a file is closed once, after its number has been closed and its last
// use has ended, and a number belongs to one opening only.
#include <gtest/gtest.h>
#include <muster/syscall/detail/handle_table.hpp>

#include "checker/explore.hpp"
#include "expect_right.hpp"
#include "mutant_search.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace muster_model_test;
namespace sync = muster::sync;

/// Files by number; what is in one is its number and 10, until it is closed.
struct disk {
  std::array<sync::cell<int>, 4> contents{sync::cell<int>(10), sync::cell<int>(11), sync::cell<int>(12),
                                          sync::cell<int>(13)};
  std::array<int, 4> closed{};
};

struct closes {
  disk* of;
  void operator()(int file) const {
    const auto at = static_cast<std::size_t>(file);
    of->contents[at].write_ref() = -1;
    ++of->closed[at];
  }
};
using table = muster::detail::handle_table<closes>;

/// The file that a call uses; empty if the number belongs to none.
std::optional<int> look(table& in, disk& on, std::uint32_t number) {
  const table::use file = in.get(number);
  if (!file) return std::nullopt;
  return on.contents.at(static_cast<std::size_t>(file.file())).read_ref();
}

void require_file(const std::optional<int>& seen, int file) {
  mm::require(!seen || *seen == file + 10, "another file, or one that has been closed");
}

void a_close_beside_a_use() {
  disk on;
  {
    table files(2, {&on});
    const std::uint32_t number = files.open(1).value();
    mm::parallel([&] { require_file(look(files, on, number), 1); },
                 [&] { mm::require(files.close(number), "an open file is not closed"); },
                 [&] { require_file(look(files, on, number), 1); });
    mm::require(on.closed[1] == 1, "a file is not closed by its last use");
  }
  mm::require(on.closed[1] == 1, "a file is closed again");
}

void two_closes() {
  disk on;
  table files(1, {&on});
  const std::uint32_t number = files.open(1).value();
  std::array<bool, 2> did{};
  mm::parallel([&] { did[0] = files.close(number); }, [&] { did[1] = files.close(number); });
  mm::require(did[0] != did[1], "a file is closed by both, or by none");
  mm::require(on.closed[1] == 1, "a file is closed twice");
  mm::require(files.open(2).has_value(), "a place is not used again");
}

/// A client may name any number at any time.
void a_number_that_is_guessed() {
  disk on;
  table files(1, {&on});
  constexpr std::uint32_t first = 0;
  mm::parallel([&] { mm::require(files.open(1) == first, "another number"); },
               [&] { require_file(look(files, on, first), 1); });
  require_file(look(files, on, first), 1);
  mm::require(look(files, on, first).has_value(), "an open file is not found");
}

/// The next file gets the same place and another number.
void a_place_that_is_used_again() {
  disk on;
  table files(1, {&on});
  const std::uint32_t first = files.open(1).value();
  std::optional<std::uint32_t> second;
  mm::parallel([&] { require_file(look(files, on, first), 1); },
               [&] {
                 files.close(first);
                 second = files.open(2);
                 if (second) require_file(look(files, on, *second), 2);
               });
  mm::require(!look(files, on, first), "a number of a file that has been closed");
  mm::require(!second || *second != first, "a number is used again");
}

void two_open_where_there_is_room_for_one() {
  disk on;
  table files(1, {&on});
  std::array<std::optional<std::uint32_t>, 2> number;
  const auto open = [&](int file) {
    auto& mine = number.at(static_cast<std::size_t>(file));
    mine = files.open(file);
    if (mine) require_file(look(files, on, *mine), file);
  };
  mm::parallel([&] { open(0); }, [&] { open(1); });
  mm::require(number[0].has_value() != number[1].has_value(), "both have the place, or neither");
}

void an_opening_where_another_closes() {
  disk on;
  table files(1, {&on});
  const std::uint32_t first = files.open(0).value();
  std::optional<std::uint32_t> second;
  mm::parallel([&] { files.close(first); },
               [&] {
                 second = files.open(1);
                 if (second) require_file(look(files, on, *second), 1);
               },
               [&] { require_file(look(files, on, first), 0); });
  if (second) mm::require(files.close(*second) && on.closed[1] == 1, "the second file is not closed");
  mm::require(on.closed[0] == 1, "the first file is not closed");
}

struct row {
  const char* name;
  void (*run)();
  search_bounds within;
};

const row programs[] = {
    {"a_close_beside_a_use", a_close_beside_a_use, {2, 2}},
    {"two_closes", two_closes, {-1, -1}},
    {"a_number_that_is_guessed", a_number_that_is_guessed, {-1, -1}},
    {"a_place_that_is_used_again", a_place_that_is_used_again, {-1, 2}},
    {"two_open_where_there_is_room_for_one", two_open_where_there_is_room_for_one, {-1, 2}},
    {"an_opening_where_another_closes", an_opening_where_another_closes, {2, 2}},
};

class handle_table_model : public ::testing::TestWithParam<row> {};

TEST_P(handle_table_model, keeps_its_promises) {
  const row& r = GetParam();
  expect_right(r.within, r.name, r.run);
  expect_right(mm::limits{.how = mm::strategy::priorities, .executions = 20'000, .depth = 4}, r.name, r.run);
}

INSTANTIATE_TEST_SUITE_P(of, handle_table_model, ::testing::ValuesIn(programs),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(handle_table_mutants, are_noticed_or_explained) {
  mutant_search search;
  for (const row& r : programs) search.programs.push_back({r.name, true, r.run, {}});
  search.survivors = {
      {"handle_table::~handle_table: load repeated", true, "no other thread is there"},
      {"handle_table::get: load repeated", true, "the exchange finds out that it is old"},
  };
  search.files = {"detail/handle_table"};
  search.prefix = "handle_table";
  search.run();
}

}  // namespace
