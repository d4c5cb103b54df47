// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Machine files: what is written is read back, and what is wrong is refused with a word on what should be there.
#include "sim/cache/machine.hpp"
#include "small_machine.hpp"

#include <gtest/gtest.h>

#include <unistd.h>
#include <fstream>
#include <stdexcept>

namespace {

using namespace muster_simulation;

machine in_kib() {
  machine m = small_machine();
  m.l1 = 32 << 10U;
  m.l2 = 64 << 10U;
  m.l3 = 128 << 10U;
  return m;
}

class file {
 public:
  explicit file(const std::string& text) { std::ofstream(path_) << text; }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("machine-" + std::to_string(::getpid()) + ".json");
};

std::string why_not(const std::filesystem::path& path) {
  try {
    read_machine(path);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "it was accepted";
}

/// The text of a good machine with one piece replaced.
std::string with(const std::string& old, const std::string& fresh) {
  std::string text = machine_text(in_kib());
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), fresh);
}

void expect_refused(const std::string& text, const std::string& word) {
  const file bad(text);
  const std::string why = why_not(bad.path());
  EXPECT_NE(why.find(word), std::string::npos) << why;
  EXPECT_NE(why.find(bad.path().string()), std::string::npos) << why;
}

TEST(machine_file, is_read_back_as_it_was_written) {
  const machine m = in_kib();
  const file good(machine_text(m));
  const machine again = read_machine(good.path());
  EXPECT_EQ(machine_text(again), machine_text(m));
  EXPECT_EQ(again.in_cluster, m.in_cluster);
  EXPECT_EQ(again.l2, m.l2);
}

TEST(machine_file, that_is_wrong_is_refused) {
  expect_refused("{", "is not JSON");
  expect_refused("[]", "is not an object");
  expect_refused(with("\"clusters\"", "\"clutters\""), "lacks 'clusters'");
  expect_refused(with("\"clusters\": 2", "\"clusters\": 0"), "must be a number from 1 to");
  expect_refused(with("\"clusters\": 2", "\"clusters\": 1.5"), "must be a whole number");
  expect_refused(with("\"clusters\": 2", "\"clusters\": 100"), "has 200 cores");
  expect_refused(with("\"clusters\": 2", "\"clusters\": \"two\""), "must be a number");
  expect_refused(with("\"line_bytes\": 64", "\"line_bytes\": 48"), "power of two");
  expect_refused(with("\"pause\": 10.0", "\"pause\": 0"), "must get older");
  expect_refused(with("\"wake\": 5000.0", "\"wake\": -1"), "has -1 for 'wake'");
  expect_refused(with("\"name\": \"small\"", "\"name\": \"\""), "no text for 'name'");
  expect_refused(with("\"name\"", "\"colour\": 1, \"name\""), "has 'colour', which means nothing here");
  expect_refused(with("\"made up\"", ""), "say where it is from");
}

TEST(machine_file, that_is_absent_is_named) {
  EXPECT_EQ(why_not("/nonexistent/machine.json"), "cannot read the machine file /nonexistent/machine.json");
}

}  // namespace
