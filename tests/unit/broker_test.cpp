// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A broker gives its client files beneath a rule's directory and nothing else, ports of this machine, and handles that
// mean nothing elsewhere; a client that lies costs itself only. Both sides are in one process here.
#include <gtest/gtest.h>
#include <muster/fiber.hpp>

#include "brokered.hpp"
#include "scale.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
using muster::policy;
using muster_test::brokered;
using muster_test::bytes_of;
using muster_test::scaled;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A directory with may/ and other/, each with a file.
class broker_test : public ::testing::Test {
 protected:
  broker_test() {
    std::string made = (fs::temp_directory_path() / "broker-XXXXXX").string();
    root_ = ::mkdtemp(made.data());
    for (const char* name : {"may", "other"}) {
      fs::create_directory(root_ / name);
      std::ofstream(root_ / name / "file") << name << ": some text";
    }
  }
  ~broker_test() override {
    give_permissions(root_);
    fs::remove_all(root_);
  }
  /// A client may have made a directory without.
  static void give_permissions(const fs::path& directory) {
    std::error_code error;
    fs::permissions(directory, fs::perms::owner_all, error);
    for (const auto& one : fs::directory_iterator(directory, error))
      if (one.symlink_status(error).type() == fs::file_type::directory) give_permissions(one.path());
  }

  std::string path(const std::string& rest) const { return (root_ / rest).string(); }
  policy reads() const { return policy().read(path("may")); }
  policy writes() const { return policy().write(path("may")); }

  fs::path root_;
};

TEST_F(broker_test, reads_what_is_allowed) {
  brokered box(reads());
  const std::int64_t file = box.in.open(path("may/file"));
  ASSERT_GE(file, 3) << "0, 1 and 2 stand for streams";
  EXPECT_EQ(box.in.read(file, box.window()), 14);
  EXPECT_EQ(box.text(14), "may: some text");
  EXPECT_EQ(box.in.read(file, box.window()), 0) << "its end";
  EXPECT_EQ(box.in.lseek(file, -4, SEEK_END), 10);
  EXPECT_EQ(box.in.read(file, box.window().first(3)), 3);
  EXPECT_EQ(box.text(3), "tex");
  EXPECT_EQ(box.in.pread(file, box.window(), 5), 9);
  EXPECT_EQ(box.text(9), "some text");
  struct stat found{};
  EXPECT_EQ(box.in.fstat(file, found), 0);
  EXPECT_EQ(found.st_size, 14);
  EXPECT_EQ(box.in.stat(path("may"), found), 0);
  EXPECT_TRUE(S_ISDIR(found.st_mode));
  EXPECT_EQ(box.in.write(file, box.window().first(1)), -EBADF) << "opened for reading";
  EXPECT_EQ(box.in.close(file), 0);
  EXPECT_EQ(box.in.close(file), -EBADF);
  EXPECT_EQ(box.in.read(file, box.window()), -EBADF);
  EXPECT_EQ(box.in.getppid(), ::getppid());
}

TEST_F(broker_test, refuses_other_paths) {
  brokered box(reads());
  struct stat found{};
  EXPECT_EQ(box.in.open(path("other/file")), -EPERM);
  EXPECT_EQ(box.in.open(path("maybe")), -EPERM) << "a name that begins like a rule's";
  EXPECT_EQ(box.in.open(path("may/file"), O_RDWR), -EPERM);
  EXPECT_EQ(box.in.open(path("may/new"), O_WRONLY | O_CREAT), -EPERM);
  EXPECT_EQ(box.in.open(path("may/file"), O_RDONLY | O_TRUNC), -EPERM);
  EXPECT_EQ(box.in.stat(path("other/file"), found), -EPERM);
  EXPECT_EQ(box.in.unlink(path("may/file")), -EPERM);
  EXPECT_EQ(box.in.mkdir(path("may/new")), -EPERM);
  EXPECT_EQ(box.in.rename(path("may/file"), path("may/new")), -EPERM);
  EXPECT_EQ(box.in.socket(), -EPERM);
  EXPECT_EQ(box.in.open(path("may/absent")), -ENOENT);
  EXPECT_EQ(content_of(path("may/file")), "may: some text");
  EXPECT_EQ(box.usage().refusals, 10U);
}

TEST_F(broker_test, keeps_paths_beneath_the_rule) {
  brokered box(writes());
  fs::create_symlink("../other/file", path("may/out"));
  fs::create_symlink(path("other/file"), path("may/absolute"));
  fs::create_symlink("file", path("may/within"));
  fs::create_directory_symlink("../other", path("may/directory"));
  fs::create_symlink("loop", path("may/loop"));
  for (const char* one : {"may/../other/file", "may/./file", "may//file", "may/"})
    EXPECT_EQ(box.in.open(path(one)), -EPERM) << one;
  EXPECT_EQ(box.in.open("file"), -EPERM) << "relative";
  EXPECT_EQ(box.in.open(""), -ENOENT);
  EXPECT_EQ(box.in.open(std::string("/a\0b", 4)), -EINVAL);
  for (const char* one : {"may/out", "may/absolute", "may/directory/file", "may/loop"})
    EXPECT_EQ(box.in.open(path(one)), -EACCES) << one;
  EXPECT_GE(box.in.open(path("may/within")), 0) << "a link that stays, to read";
  EXPECT_EQ(box.in.open(path("may/within"), O_WRONLY), -EACCES) << "and to write";
  EXPECT_EQ(box.in.open(path("may/out"), O_WRONLY | O_CREAT), -EACCES);
  EXPECT_EQ(box.in.unlink(path("may/directory/file")), -EACCES);
  EXPECT_EQ(box.in.mkdir(path("may/directory/new")), -EACCES);
  const std::string longest = path("may/") + std::string(4095 - path("may/").size(), 'x');
  EXPECT_EQ(box.in.open(longest), -ENAMETOOLONG);
  EXPECT_EQ(box.in.open(longest + 'x'), -ENAMETOOLONG);
  EXPECT_EQ(content_of(path("other/file")), "other: some text");
}

TEST_F(broker_test, keeps_files_and_directories_only) {
  brokered box(policy(writes()).read("/dev").read("/proc"));
  ASSERT_EQ(::mkfifo(path("may/pipe").c_str(), 0600), 0);
  EXPECT_EQ(box.in.open(path("may/pipe")), -EACCES);
  EXPECT_EQ(box.in.open(path("may/pipe"), O_RDWR), -EACCES);
  EXPECT_EQ(box.in.open("/dev/zero"), -EACCES);
  EXPECT_EQ(box.in.open("/proc/" + std::to_string(::getpid()) + "/mem"), -EACCES) << "the broker's own memory";
  EXPECT_EQ(box.in.open("/proc/self/environ"), -EACCES);
  struct stat found{};
  EXPECT_EQ(box.in.stat("/proc/self/exe", found), -EACCES);
}

TEST_F(broker_test, writes_what_is_allowed) {
  brokered box(writes());
  const std::int64_t file = box.in.open(path("may/new"), O_RDWR | O_CREAT | O_EXCL, 0640);
  ASSERT_GE(file, 3);
  EXPECT_EQ(box.in.open(path("may/new"), O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(box.in.write(file, bytes_of("one two three")), 13);
  EXPECT_EQ(box.in.pwrite(file, bytes_of("2"), 4), 1);
  EXPECT_EQ(box.in.fsync(file), 0);
  EXPECT_EQ(content_of(path("may/new")), "one 2wo three");
  EXPECT_EQ(box.in.ftruncate(file, 3), 0);
  const std::int64_t more = box.in.open(path("may/new"), O_WRONLY | O_APPEND);
  EXPECT_EQ(box.in.write(more, bytes_of("!")), 1);
  EXPECT_EQ(content_of(path("may/new")), "one!");
  EXPECT_EQ(fs::status(path("may/new")).permissions() & fs::perms::mask, fs::perms(0640));
  EXPECT_EQ(box.in.mkdir(path("may/a")), 0);
  EXPECT_EQ(box.in.mkdir(path("may/a/b")), 0);
  EXPECT_EQ(box.in.rename(path("may/new"), path("may/a/b/old")), 0);
  EXPECT_EQ(content_of(path("may/a/b/old")), "one!");
  EXPECT_EQ(box.in.rmdir(path("may/a/b")), -ENOTEMPTY);
  EXPECT_EQ(box.in.unlink(path("may/a/b/old")), 0);
  EXPECT_EQ(box.in.rmdir(path("may/a/b")), 0);
  EXPECT_EQ(box.in.unlink(path("may")), -EBUSY) << "the rule's own place";
  EXPECT_EQ(box.in.rename(path("may/file"), path("other/file")), -EPERM);
  const std::int64_t directory = box.in.open(path("may"), O_RDONLY | O_DIRECTORY);
  std::set<std::string> names;
  std::vector<std::byte> entries(1000);
  for (std::int64_t size = 0; (size = box.in.getdents(directory, entries)) > 0;)
    for (std::int64_t at = 0; at < size;) {
      std::uint16_t length = 0;  // of an entry, which has 18 bytes before the name
      std::memcpy(&length, entries.data() + at + 16, sizeof length);
      names.insert(reinterpret_cast<const char*>(entries.data()) + at + 19);
      at += length;
    }
  EXPECT_EQ(names, (std::set<std::string>{".", "..", "file", "a"}));
}

TEST_F(broker_test, keeps_the_places_of_rules) {
  fs::create_directories(path("may/deep/kept"));
  std::ofstream(path("may/deep/kept/file")) << "kept";
  std::ofstream(path("may/single")) << "single";
  brokered box(policy(writes()).read(path("may/deep/kept")).read(path("may/single")));
  EXPECT_EQ(box.in.open(path("may/deep/kept/file"), O_WRONLY), -EPERM);
  EXPECT_EQ(box.in.rename(path("may/deep"), path("may/moved")), -EBUSY) << "there it could be written";
  EXPECT_EQ(box.in.rename(path("may/single"), path("may/moved")), -EPERM);
  EXPECT_EQ(box.in.unlink(path("may/single")), -EPERM);
  EXPECT_EQ(box.in.rename(path("may/file"), path("may/deep")), -EBUSY);
  EXPECT_GE(box.in.open(path("may/deep/kept/file")), 0);
  EXPECT_GE(box.in.open(path("may/single")), 0);
}

TEST_F(broker_test, keeps_the_permissions_of_the_places_of_rules) {
  fs::create_directories(path("may/deep/kept"));
  fs::create_directories(path("may/free"));
  std::ofstream(path("other/single")) << "single";
  brokered box(policy(writes()).read(path("may/deep/kept")).write(path("other/single")));
  const auto mode_of = [this](const char* name) { return fs::status(path(name)).permissions(); };
  for (const char* name : {"may", "may/deep"}) {
    const fs::perms before = mode_of(name);
    for (const unsigned mode : {0U, 0777U}) EXPECT_EQ(box.in.chmod(path(name), mode), -EBUSY) << name;
    EXPECT_EQ(mode_of(name), before) << name;
  }
  EXPECT_EQ(box.in.chmod(path("may/deep/kept"), 0777), -EPERM) << "has a rule to read";
  EXPECT_EQ(box.in.chmod(path("other"), 0777), -EPERM) << "has no rule";
  EXPECT_EQ(box.in.chmod(path("may/free"), 0700), 0);
  EXPECT_EQ(box.in.chmod(path("other/single"), 0600), 0) << "a file, whose contents are the inside's";
  const std::int64_t directory = box.in.open(path("may"), O_RDONLY | O_DIRECTORY);
  EXPECT_GE(directory, 0);
  EXPECT_EQ(box.in.fchmod(directory, 0777), -EPERM);
  EXPECT_EQ(box.in.utimens(path("may"), {{1, 0}, {1, 0}}), 0) << "its time changes with each file that is made";
}

TEST_F(broker_test, copies_data_that_is_not_in_a_window) {
  std::string all;
  for (std::size_t i = 0; i < 100'000; ++i) all += static_cast<char>('a' + i * i % 26);
  brokered box(writes());  // copies 16 KiB at a time
  const std::int64_t file = box.in.open(path("may/large"), O_RDWR | O_CREAT);
  EXPECT_EQ(box.in.write(file, bytes_of(all)), 100'000);
  EXPECT_EQ(content_of(path("may/large")), all);
  std::vector<std::byte> got(200'000);
  EXPECT_EQ(box.in.pread(file, got, 0), 100'000);
  EXPECT_EQ(std::memcmp(got.data(), all.data(), all.size()), 0);
  EXPECT_EQ(box.in.lseek(file, 0, SEEK_SET), 0);
  EXPECT_EQ(box.in.read(file, got), 100'000);
  EXPECT_EQ(box.in.read(file, std::span<std::byte>{}), 0);
  EXPECT_EQ(box.usage().bytes_in, 200'000U);
  EXPECT_EQ(box.usage().bytes_out, 100'000U);
}

TEST_F(broker_test, keeps_as_many_files_as_the_policy_says) {
  brokered box(policy(reads()).files(3));
  std::set<std::int64_t> handles;
  for (unsigned i = 0; i < 3; ++i) handles.insert(box.in.open(path("may/file")));
  EXPECT_EQ(handles.size(), 3U);
  EXPECT_GE(*handles.begin(), 3);
  EXPECT_EQ(box.in.open(path("may/file")), -EMFILE);
  EXPECT_EQ(box.in.close(*handles.begin()), 0);
  const std::int64_t again = box.in.open(path("may/file"));
  EXPECT_GE(again, 3);
  EXPECT_FALSE(handles.contains(again)) << "a number is never another file's";
  EXPECT_EQ(box.in.read(*handles.begin(), box.window()), -EBADF);
}

TEST_F(broker_test, opens_and_closes_without_end) {
  brokered box(policy(reads()).files(2));
  std::int64_t last = 0;
  for (std::size_t i = 0; i < scaled(20'000); ++i) {
    const std::int64_t file = box.in.open(path("may/file"));
    ASSERT_GE(file, 3);
    ASSERT_NE(file, last);
    ASSERT_EQ(box.in.close(file), 0);
    last = file;
  }
}

struct nothing {
  void operator()(int) const noexcept {}
};
// Code writes to 1 and 2 without asking who has opened them.
TEST(handle_table_test, gives_numbers_of_standard_streams_once) {
  muster::detail::handle_table<nothing> table(4);
  for (unsigned stream = 0; stream < 3; ++stream) ASSERT_EQ(table.open(7), stream);
  for (unsigned stream = 0; stream < 3; ++stream) ASSERT_TRUE(table.close(stream));
  std::vector<bool> seen(524'288);  // in the first place, which is the only one that is used
  constexpr unsigned places = 4096;
  for (unsigned i = 1; i < 524'288; ++i) {
    const std::uint32_t number = table.open(7).value();
    ASSERT_GE(number, 3U);
    ASSERT_FALSE(seen.at(number / places)) << "after " << i;
    seen[number / places] = true;
    ASSERT_TRUE(table.close(number));
    ASSERT_FALSE(table.get(number));
  }
  for (unsigned i = 0; i < 600'000; ++i) {
    const std::uint32_t number = table.open(7).value();
    ASSERT_GE(number, 3U) << "after the numbers of a place have been used up";
    ASSERT_TRUE(seen.at(number / places));
    ASSERT_TRUE(table.close(number));
  }
}

// A number names another opening only after 524,287 openings in its place.
TEST_F(broker_test, opens_a_million_times_nightly) {
  brokered box(policy(reads()).files(2));
  std::unordered_map<std::int64_t, unsigned> newest;  // of a number
  unsigned repeated = 0, least = ~0U;
  for (unsigned i = 0; i < 1'200'000; ++i) {
    const std::int64_t file = box.in.open(path("may/file"));
    ASSERT_GE(file, 3);
    const auto [at, is_new] = newest.try_emplace(file, i);
    if (!is_new) {
      ++repeated;
      least = std::min(least, i - std::exchange(at->second, i));
    }
    ASSERT_EQ(box.in.close(file), 0);
  }
  EXPECT_NE(repeated, 0U) << "the numbers were not used up";
  EXPECT_GE(least, 524'287U);
}

TEST_F(broker_test, never_leaves_a_link_that_is_swapped) {
  // A link that is now one to what may be read, now one to what may not.
  fs::create_symlink("file", path("may/one"));
  fs::create_symlink("../other/file", path("may/two"));
  std::atomic<bool> over{false};
  std::thread swaps([&] {
    while (!over) {
      std::rename(path("may/one").c_str(), path("may/link").c_str());
      std::rename(path("may/link").c_str(), path("may/one").c_str());
      std::rename(path("may/two").c_str(), path("may/link").c_str());
      std::rename(path("may/link").c_str(), path("may/two").c_str());
    }
  });
  brokered box(reads());
  std::size_t opened = 0;
  for (std::size_t i = 0; i < scaled(20'000); ++i) {
    const std::int64_t file = box.in.open(path("may/link"));
    ASSERT_TRUE(file >= 0 || file == -EACCES || file == -ENOENT || file == -EAGAIN) << file;
    if (file < 0) continue;
    ++opened;
    const std::int64_t size = box.in.read(file, box.window());
    ASSERT_EQ(box.text(static_cast<std::size_t>(size)), "may: some text");
    box.in.close(file);
  }
  over = true;
  swaps.join();
  RecordProperty("opened", std::to_string(opened));
}

TEST_F(broker_test, reports_refusals_with_the_rule_that_would_allow_them) {
  brokered box(policy(reads()).connect(9));
  box.in.open(path("other/file"));
  box.in.open(path("other/new"), O_WRONLY | O_CREAT);
  const std::int64_t socket = box.in.socket();
  box.in.connect(socket, 10);
  box.in.bind(socket, 11);
  box.in.refuse(56);
  for (unsigned i = 0; i < 100; ++i) box.in.open(path("other/file"));
  const auto all = box.refusals();
  ASSERT_GE(all.size(), 5U);
  EXPECT_EQ(all[0].call, "open");
  EXPECT_EQ(all[0].what, path("other/file"));
  EXPECT_EQ(all[0].rule, "read " + path("other/file"));
  EXPECT_EQ(all[0].times, 1U);
  EXPECT_EQ(all[1].rule, "write " + path("other"));
  EXPECT_EQ(all[1].path, path("other"));
  EXPECT_EQ(all[2].rule, "connect 10");
  EXPECT_EQ(all[2].path, "");
  EXPECT_EQ(all[3].rule, "listen 11");
  EXPECT_EQ(all[4].rule, "");
  EXPECT_TRUE(all[4].what.starts_with("56"));
  EXPECT_LT(all.size(), 10U) << "repeated refusals are reported once a second";
  EXPECT_EQ(box.usage().refusals, 105U);
  // A rule that was suggested is one.
  for (const auto& one : all)
    if (!one.rule.empty()) {
      EXPECT_NO_THROW(policy::parse(one.rule)) << one.rule;
    }
  EXPECT_EQ(box.kills(), 0U);
}

TEST_F(broker_test, reports_a_bounded_number_of_refusals) {
  brokered box(reads());
  for (std::size_t i = 0; i < 3000; ++i) box.in.open(path("other/" + std::to_string(i)));
  EXPECT_EQ(box.usage().refusals, 3000U);
  EXPECT_GE(box.refusals().size(), 1024U);
  EXPECT_LE(box.refusals().size(), 1040U);
}

TEST_F(broker_test, suggests_no_rule_that_says_more) {
  brokered box(reads());
  box.in.open("/etc/x\nwrite /");
  box.in.open("/etc/a b");
  box.in.open("/etc/\x1b[2J");
  box.in.open(
      "/etc/\xc2\x9b"
      "2J\x9b\xc3\x84");
  box.in.getppid();  // after this one, all earlier ones have been reported
  const auto all = box.refusals();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].rule, "");
  EXPECT_EQ(all[0].path, "");
  EXPECT_EQ(all[0].what, "/etc/x\\x0awrite /");
  EXPECT_EQ(all[1].rule, "read \"/etc/a b\"");
  EXPECT_EQ(all[1].path, "/etc/a b");
  EXPECT_EQ(all[2].what, "/etc/\\x1b[2J");
  EXPECT_EQ(all[2].rule, "read \"/etc/\\x1b[2J\"");
  EXPECT_EQ(all[3].what, "/etc/\\xc2\\x9b2J\\x9b\xc3\x84");
  EXPECT_EQ(all[3].rule, "read \"" + all[3].what + '"');
}

TEST_F(broker_test, leaves_pipes_and_their_writers_alone) {
  ASSERT_EQ(::mkfifo(path("may/pipe").c_str(), 0600), 0);
  brokered box(writes());
  std::atomic<bool> over{false};
  std::thread writer([&] {
    while (!over) {
      const int file = ::open(path("may/pipe").c_str(), O_WRONLY | O_NONBLOCK);
      EXPECT_EQ(file, -1) << "the other end has been opened";
      if (file >= 0) ::close(file);
    }
  });
  for (int i = 0; i < 200; ++i) EXPECT_EQ(box.in.open(path("may/pipe")), -EACCES);
  over = true;
  writer.join();
}

TEST_F(broker_test, takes_a_rule_for_a_file_as_one_for_that_file) {
  std::ofstream(path("may/conf")) << "conf";
  brokered box(policy().read(path("may/conf")));
  EXPECT_GE(box.in.open(path("may/conf")), 0);
  fs::remove(path("may/conf"));
  fs::create_symlink("file", path("may/conf"));
  EXPECT_EQ(box.in.open(path("may/conf")), -EACCES);
}

TEST_F(broker_test, ends_a_client_whose_policy_says_so) {
  brokered box(policy(reads()).on_refusal(policy::refusal::kill));
  EXPECT_GE(box.in.open(path("may/file")), 0);
  EXPECT_EQ(box.in.open(path("may/absent")), -ENOENT);
  EXPECT_EQ(box.kills(), 0U);
  EXPECT_EQ(box.in.open(path("other/file")), -EPERM);
  while (box.kills() == 0) std::this_thread::yield();
  EXPECT_EQ(box.kills(), 1U);
}

TEST_F(broker_test, limits_the_room_that_files_take) {
  brokered box(policy(writes()).disk(100'000), {.threads = 2});
  const std::string much(60'000, 'x');
  const std::int64_t file = box.in.open(path("may/new"), O_RDWR | O_CREAT);
  EXPECT_EQ(box.in.pwrite(file, bytes_of(much), 0), 60'000);
  EXPECT_EQ(box.in.pwrite(file, bytes_of(much), 0), 60'000) << "takes no more room";
  std::int64_t got = box.in.pwrite(file, bytes_of(much), 60'000);
  EXPECT_GT(got, 0) << "as much as is left";
  EXPECT_LT(got, 40'000);
  EXPECT_EQ(box.in.pwrite(file, bytes_of(much), 60'000 + got), -EDQUOT);
  EXPECT_EQ(box.in.write(file, bytes_of(much)), -EDQUOT);
  EXPECT_EQ(box.in.open(path("may/another"), O_RDWR | O_CREAT), -EDQUOT);
  EXPECT_EQ(box.in.mkdir(path("may/directory")), -EDQUOT);
  EXPECT_EQ(box.in.ftruncate(file, 0), 0);
  EXPECT_EQ(box.in.write(file, bytes_of(much)), -EDQUOT) << "what was taken is not given back";
  EXPECT_EQ(box.in.pread(file, box.window(), 0), 0);
  EXPECT_EQ(box.usage().refusals, 0U);
  EXPECT_FALSE(fs::exists(path("may/another")));

  brokered empty(policy(writes()).disk(20'000));
  std::int64_t made = 0;
  while (empty.in.mkdir(path("may/d" + std::to_string(made))) == 0) ++made;
  EXPECT_EQ(made, 3) << "entries take room, too";
}

// Some file systems count blocks late, but none lengths.
TEST_F(broker_test, limits_the_length_of_files) {
  brokered box(policy(writes()).disk(100'000));
  const std::string much(60'000, 'x');
  const std::int64_t file = box.in.open(path("may/new"), O_RDWR | O_CREAT);
  EXPECT_EQ(box.in.ftruncate(file, 1 << 30), -EDQUOT);
  EXPECT_EQ(box.in.pwrite(file, bytes_of(much), 1 << 30), -EDQUOT) << "beyond a hole";
  EXPECT_EQ(box.in.lseek(file, 1 << 30, SEEK_SET), 1 << 30);
  EXPECT_EQ(box.in.write(file, bytes_of(much)), -EDQUOT);
  EXPECT_EQ(fs::file_size(path("may/new")), 0U);
  EXPECT_EQ(box.in.ftruncate(file, 90'000), 0);
  EXPECT_EQ(box.in.ftruncate(file, 0), 0);
  EXPECT_EQ(box.in.ftruncate(file, 90'000), -EDQUOT) << "what was taken is not given back";
  const std::int64_t end = box.in.open(path("may/file"), O_WRONLY | O_APPEND);
  EXPECT_EQ(box.in.pwrite(end, bytes_of("more"), 1 << 30), 4) << "at the end, whatever the offset is";
  EXPECT_EQ(box.usage().refusals, 0U);

  brokered holes(policy(writes()).disk(100'000));
  const std::int64_t other = holes.in.open(path("may/other"), O_RDWR | O_CREAT);
  EXPECT_EQ(holes.in.ftruncate(other, 80'000), 0);
  EXPECT_EQ(holes.in.pwrite(other, bytes_of(much), 0), 60'000) << "a hole that was counted with the length";
}

/// A file, as the system describes it.
struct stat file_with(std::int64_t length, std::int64_t bytes_of_blocks) {
  struct stat made{};
  made.st_size = length;
  made.st_blocks = bytes_of_blocks / 512;
  return made;
}

TEST(disk_room_test, counts_what_is_written_though_its_blocks_are_counted_late) {
  using muster::detail::disk_room;
  constexpr std::int64_t old = 1 << 30;
  {
    // A hole of another program's, in which the system sees no block, ever.
    disk_room room(100'000);
    std::uint64_t all = 0;
    const struct stat file = file_with(old, 0);
    while (const std::uint64_t most = room.most(file, all, 30'000)) {
      room.written(file, file, most);
      all += most;
    }
    EXPECT_EQ(all, 100'000U);
  }
  {
    // One that it has made itself.
    disk_room room(100'000);
    EXPECT_TRUE(room.set_length(file_with(0, 0), 70'000));
    const struct stat file = file_with(70'000, 0);
    std::uint64_t all = 0;
    while (const std::uint64_t most = room.most(file, 0, 30'000)) {
      room.written(file, file, most);
      all += most;
    }
    EXPECT_EQ(all, 100'000U) << "70,000 that were paid, and what was left";
  }
  {
    // Blocks are counted at once: holes are filled, overwritten and extended.
    disk_room room(100'000);
    EXPECT_TRUE(room.set_length(file_with(0, 0), 8192));
    room.written(file_with(8192, 0), file_with(8192, 8192), 8192);
    EXPECT_EQ(room.most(file_with(8192, 8192), 8192, 1 << 20), 100'000U - 8192);
    room.written(file_with(8192, 8192), file_with(8192, 8192), 8192);
    EXPECT_EQ(room.most(file_with(8192, 8192), 8192, 1 << 20), 100'000U - 8192) << "no hole, no new block";
    room.written(file_with(8192, 8192), file_with(40'960, 12'288), 4096);
    EXPECT_EQ(room.most(file_with(40'960, 12'288), 40'960, 1 << 20), 100'000U - 40'960) << "beyond a hole";
    EXPECT_EQ(room.most(file_with(40'960, 12'288), 40'960 + 100'000, 1), 0U);
    room.written(file_with(40'960, 12'288), file_with(40'960, 40'960), 28'672);
    EXPECT_EQ(room.most(file_with(40'960, 40'960), 40'960, 1 << 20), 100'000U - 40'960) << "filled";
    // The rest of a block.
    room.written(file_with(40'960, 40'960), file_with(40'961, 45'056), 1);
    EXPECT_EQ(room.most(file_with(40'961, 45'056), 40'961, 1 << 20), 100'000U - 45'056);
  }
}

// Threads that find the same room must not all use it.
/// Some kernels make the file and report an error.
TEST_F(broker_test, makes_no_file_that_should_be_a_directory) {
  brokered box(writes());
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
    EXPECT_EQ(box.in.open(path("may/new"), flags | O_CREAT | O_DIRECTORY), -EINVAL);
    EXPECT_EQ(box.in.open(path("may/new"), flags | O_CREAT | O_EXCL | O_DIRECTORY), -EINVAL);
    EXPECT_EQ(box.in.open(path("may"), flags | O_CREAT | O_DIRECTORY), -EINVAL);
  }
  EXPECT_FALSE(fs::exists(path("may/new")));
}

TEST_F(broker_test, limits_the_room_of_all_threads_together) {
  constexpr std::size_t most = 1U << 20U, block = 4096;
  for (std::size_t round = 0; round < scaled(30); ++round) {
    brokered box(policy(writes()).disk(most), {.window_bytes = most, .threads = 4});
    std::vector<std::int64_t> files;
    for (int i = 0; i < 4; ++i)
      files.push_back(box.in.open(path("may/" + std::to_string(i)), O_WRONLY | O_CREAT | O_TRUNC));
    std::memset(box.window().data(), 'x', most);
    std::vector<muster::fiber> fibers;
    for (const std::int64_t file : files) fibers.emplace_back([&box, file] { box.in.pwrite(file, box.window(), 0); });
    fibers.clear();
    std::size_t all = 0;
    for (const std::int64_t file : files) {
      struct stat found{};
      ASSERT_EQ(box.in.fstat(file, found), 0);
      all += static_cast<std::size_t>(found.st_blocks) * 512;
    }
    EXPECT_GE(all, most - 4 * block);
    ASSERT_LE(all, most + block);
    for (int i = 0; i < 4; ++i) fs::remove(path("may/" + std::to_string(i)));
  }
}

TEST_F(broker_test, changes_permissions_and_times) {
  brokered box(policy(writes()).read(path("other")));
  const std::string name = path("may/file");
  struct stat found{};
  EXPECT_EQ(box.in.chmod(name, 07612), 0);
  EXPECT_EQ(box.in.stat(name, found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0612U) << "permissions only";
  EXPECT_EQ(box.in.utimens(name, {{1'000'000'003, 17}, {-5, 19}}), 0);
  EXPECT_EQ(box.in.stat(name, found), 0);
  EXPECT_EQ(found.st_atim.tv_sec, 1'000'000'003);
  EXPECT_EQ(found.st_atim.tv_nsec, 17);
  EXPECT_EQ(found.st_mtim.tv_sec, -5) << "before 1970";
  EXPECT_EQ(found.st_mtim.tv_nsec, 19);
  const std::int64_t file = box.in.open(name, O_WRONLY);
  EXPECT_EQ(box.in.fchmod(file, 0644), 0);
  EXPECT_EQ(box.in.futimens(file, {{0, UTIME_OMIT}, {0, UTIME_NOW}}), 0);
  EXPECT_EQ(box.in.fstat(file, found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0644U);
  EXPECT_EQ(found.st_atim.tv_sec, 1'000'000'003);
  EXPECT_GT(found.st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(box.in.truncate(name, 3), 0);
  EXPECT_EQ(content_of(name), "may");
  // Neither what may only be read, nor what has been opened for that.
  const std::int64_t reads = box.in.open(name);
  EXPECT_EQ(box.in.fchmod(reads, 0600), -EPERM);
  EXPECT_EQ(box.in.futimens(reads, {{1, 0}, {1, 0}}), -EPERM);
  EXPECT_EQ(box.in.chmod(path("other/file"), 0600), -EPERM);
  EXPECT_EQ(box.in.utimens(path("other/file"), {{1, 0}, {1, 0}}), -EPERM);
  EXPECT_EQ(box.in.truncate(path("other/file"), 0), -EPERM);
  EXPECT_EQ(box.in.chmod("/etc/passwd", 0600), -EPERM);
  fs::create_symlink("../other/file", path("may/out"));
  EXPECT_EQ(box.in.chmod(path("may/out"), 0600), -EACCES);
  EXPECT_EQ(box.in.utimens(path("may/absent"), {{1, 0}, {1, 0}}), -ENOENT);
  ASSERT_EQ(::mkfifo(path("may/pipe").c_str(), 0600), 0);
  EXPECT_EQ(box.in.chmod(path("may/pipe"), 0666), -EACCES);
}

TEST_F(broker_test, changes_and_shows_nothing_of_processes) {
  const std::string own = "/proc/" + std::to_string(::getpid());
  brokered box(policy().write(own));
  struct statfs system{};
  EXPECT_EQ(box.in.chmod(own + "/comm", 0600), -EACCES);
  EXPECT_EQ(box.in.utimens(own + "/comm", {{1, 0}, {1, 0}}), -EACCES);
  EXPECT_EQ(box.in.statfs(own, system), -EACCES);
}

TEST_F(broker_test, tells_of_file_systems) {
  brokered box(reads());
  struct statfs own{}, at{}, of{};
  ASSERT_EQ(::statfs(path("may").c_str(), &own), 0);
  EXPECT_EQ(box.in.statfs(path("may/file"), at), 0);
  EXPECT_EQ(at.f_type, own.f_type);
  EXPECT_EQ(at.f_bsize, own.f_bsize);
  EXPECT_EQ(box.in.fstatfs(box.in.open(path("may/file")), of), 0);
  EXPECT_EQ(of.f_type, own.f_type);
  EXPECT_EQ(box.in.statfs(path("other"), at), -EPERM);
  EXPECT_EQ(box.in.statfs(path("may/absent"), at), -ENOENT);
  EXPECT_EQ(box.in.fstatfs(77, of), -EBADF);
}

TEST_F(broker_test, shows_directories_above_a_rule_without_anything_of_theirs) {
  brokered box(reads());
  struct stat found{};
  for (const std::string& above : {std::string("/"), root_.string(), root_.parent_path().string()}) {
    found = {};
    EXPECT_EQ(box.in.stat(above, found), 0) << above;
    EXPECT_TRUE(S_ISDIR(found.st_mode));
    EXPECT_EQ(found.st_ino, 0U);
    EXPECT_EQ(found.st_mtim.tv_sec, 0);
    EXPECT_EQ(box.in.open(above), -EPERM) << above;
  }
  EXPECT_EQ(box.in.stat(path("other"), found), -EPERM);
}

TEST_F(broker_test, locks_files_that_are_written) {
  using file_lock = muster::inside::file_lock;
  brokered one(writes()), other(writes());
  const std::int64_t mine = one.in.open(path("may/file"), O_RDWR), theirs = other.in.open(path("may/file"), O_RDWR);
  EXPECT_EQ(one.in.lock(mine, file_lock::write, 10, 5), 0);
  EXPECT_EQ(other.in.lock(theirs, file_lock::write, 14, 1), -EAGAIN) << "another client's, of the same process";
  EXPECT_EQ(other.in.lock(theirs, file_lock::test_read, 14, 1), 1);
  EXPECT_EQ(other.in.lock(theirs, file_lock::test_read, 15, 0), 0);
  EXPECT_EQ(other.in.lock(theirs, file_lock::read, 15, 0), 0);
  EXPECT_EQ(one.in.lock(mine, file_lock::read, 20, 1), 0) << "both read";
  EXPECT_EQ(one.in.lock(mine, file_lock::test_write, 20, 1), 1);
  EXPECT_EQ(one.in.lock(mine, file_lock::none, 0, 0), 0);
  EXPECT_EQ(other.in.lock(theirs, file_lock::write, 10, 5), 0);
  EXPECT_EQ(one.in.lock(mine, file_lock::shared), 0);
  EXPECT_EQ(other.in.lock(theirs, file_lock::exclusive), -EAGAIN);
  EXPECT_EQ(one.in.lock(mine, file_lock::released), 0);
  EXPECT_EQ(other.in.lock(theirs, file_lock::exclusive), 0);
  EXPECT_EQ(other.in.close(theirs), 0);
  EXPECT_EQ(one.in.lock(mine, file_lock::write, 0, 0), 0) << "an end of the file is the end of its locks";
  const std::int64_t reads = one.in.open(path("may/file"));
  EXPECT_EQ(one.in.lock(reads, file_lock::shared), -ENOLCK) << "others would have to wait for who may only read";
  EXPECT_EQ(one.in.lock(77, file_lock::shared), -EBADF);
}

// The kernel would keep as many as it is asked for, in memory that no limit counts.
TEST_F(broker_test, limits_the_locks_of_an_opening) {
  using file_lock = muster::inside::file_lock;
  brokered box(writes());
  const std::int64_t file = box.in.open(path("may/file"), O_RDWR), other = box.in.open(path("may/file"), O_RDWR);
  constexpr std::int64_t far = std::int64_t{1} << 62U;
  std::int64_t many = 0;
  while (many < 1'000 && box.in.lock(file, file_lock::write, far - 3 * many, 2) == 0) ++many;
  EXPECT_EQ(many, 128);
  EXPECT_EQ(box.in.lock(file, file_lock::write, far + 9, 2), -ENOLCK);
  EXPECT_EQ(box.in.lock(other, file_lock::write, 0, 2), 0) << "another opening";
  EXPECT_EQ(box.in.lock(file, file_lock::none, far, 2), 0);
  EXPECT_EQ(box.in.lock(file, file_lock::write, 100, 1'000), 0) << "in the place of that";
  many = 0;
  while (many < 1'000 && box.in.lock(file, file_lock::none, 101 + 2 * many, 1) == 0) ++many;
  EXPECT_EQ(many, 128) << "parts without a lock";
  EXPECT_EQ(box.in.lock(file, file_lock::none, 0, 0), 0);
  EXPECT_EQ(box.in.lock(file, file_lock::write, 100, 1'000), 0);
  EXPECT_EQ(box.in.lock(file, file_lock::none, 101, 1), 0);
}

TEST_F(broker_test, copies_from_file_to_file) {
  brokered box(writes());  // 16 KiB at a time
  std::string all;
  for (std::size_t i = 0; i < 50'000; ++i) all += static_cast<char>('a' + i * i % 26);
  std::ofstream(path("may/large")) << all;
  const std::int64_t from = box.in.open(path("may/large")), to = box.in.open(path("may/copy"), O_RDWR | O_CREAT);
  EXPECT_EQ(box.in.copy(from, nullptr, to, nullptr, 100'000), 50'000);
  EXPECT_EQ(content_of(path("may/copy")), all);
  EXPECT_EQ(box.in.copy(from, nullptr, to, nullptr, 100'000), 0) << "at its end";
  std::int64_t from_at = 20'000, to_at = 1;
  EXPECT_EQ(box.in.copy(from, &from_at, to, &to_at, 17'000), 17'000);
  EXPECT_EQ(from_at, 37'000);
  EXPECT_EQ(to_at, 17'001);
  EXPECT_EQ(content_of(path("may/copy")).substr(1, 17'000), all.substr(20'000, 17'000));
  const std::int64_t reads = box.in.open(path("may/large"));
  EXPECT_EQ(box.in.lseek(reads, 5, SEEK_SET), 5);
  EXPECT_EQ(box.in.copy(reads, nullptr, from, nullptr, 10), -EBADF) << "not to be written";
  EXPECT_EQ(box.in.lseek(reads, 0, SEEK_CUR), 5) << "nothing is lost";
}

TEST_F(broker_test, opens_for_synchronous_writes) {
  brokered box(policy(writes()).read(path("other")));
  EXPECT_GE(box.in.open(path("may/file"), O_WRONLY | O_SYNC), 3);
  EXPECT_GE(box.in.open(path("may/file"), O_RDWR | O_DSYNC), 3);
  EXPECT_GE(box.in.open(path("other/file"), O_RDONLY | O_SYNC), 3);
  EXPECT_EQ(box.in.open(path("other/file"), O_WRONLY | O_SYNC), -EPERM);
  EXPECT_EQ(box.in.open(path("may/file"), O_WRONLY | O_DIRECT), -EINVAL);
}

TEST_F(broker_test, has_one_device) {
  brokered box(policy().write("/dev/null"));
  const std::int64_t null = box.in.open("/dev/null", O_RDWR | O_CREAT | O_TRUNC);
  ASSERT_GE(null, 3);
  EXPECT_EQ(box.in.write(null, bytes_of("gone")), 4);
  EXPECT_EQ(box.in.read(null, box.window()), 0);
  EXPECT_EQ(box.in.chmod("/dev/null", 0600), -EACCES);
  EXPECT_EQ(box.in.fchmod(null, 0600), -EPERM);
  EXPECT_EQ(box.in.unlink("/dev/null"), -EBUSY);
  EXPECT_EQ(box.in.open("/dev/zero"), -EPERM);
  EXPECT_THROW(policy().read("/dev/zero"), muster::policy_error);
}

TEST_F(broker_test, tells_of_the_time_of_its_threads) {
  brokered box(reads(), {.threads = 3});
  const auto begin = box.processor_time();
  // Wakes, but no request: or the test's own limit.
  while (box.processor_time() < begin + std::chrono::milliseconds(20)) box.at.head().to_broker.wake();
  EXPECT_EQ(box.usage().calls, 0U);
  const auto before = box.processor_time();
  while (box.processor_time() < before + std::chrono::milliseconds(20)) box.in.getppid();
}

// ---------------------------------------------------------------------------------------------------------------- TCP

class listener {
 public:
  listener() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(file_, reinterpret_cast<const sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(file_, 4), 0);
    EXPECT_EQ(::getsockname(file_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
  }
  ~listener() { ::close(file_); }
  std::uint16_t port() const { return port_; }
  int accept() const { return ::accept(file_, nullptr, nullptr); }

 private:
  const int file_ = ::socket(AF_INET, SOCK_STREAM, 0);
  std::uint16_t port_ = 0;
};

TEST_F(broker_test, connects_to_allowed_ports) {
  const listener server;
  std::thread echo([&] {
    const int peer = server.accept();
    char text[16] = {};
    const ssize_t size = ::read(peer, text, sizeof text);
    EXPECT_EQ(::write(peer, text, static_cast<std::size_t>(size)), size);
    EXPECT_EQ(::read(peer, text, sizeof text), 0) << "it has said that it will write no more";
    ::close(peer);
  });
  brokered box(policy().connect(server.port()));
  const std::int64_t socket = box.in.socket();
  EXPECT_EQ(box.in.connect(socket, static_cast<std::uint16_t>(server.port() ^ 1)), -EPERM);
  ASSERT_EQ(box.in.connect(socket, server.port()), 0);
  EXPECT_EQ(box.in.write(socket, bytes_of("hello")), 5);
  EXPECT_EQ(box.in.read(socket, box.window()), 5);
  EXPECT_EQ(box.text(5), "hello");
  EXPECT_EQ(box.in.shutdown(socket, SHUT_WR), 0);
  EXPECT_EQ(box.in.read(socket, box.window()), 0);
  echo.join();
  EXPECT_EQ(box.in.write(socket, bytes_of("x")), -EPIPE) << "and no signal";
  EXPECT_EQ(box.in.bind(socket, server.port()), -EPERM);
  const std::int64_t other = box.in.socket();
  EXPECT_EQ(box.in.listen(other, 4), -EINVAL) << "the kernel would choose where";
}

TEST_F(broker_test, listens_at_allowed_ports) {
  std::uint16_t port = 0;
  {
    const listener free_now;
    port = free_now.port();
  }
  brokered box(policy().listen(port));
  const std::int64_t socket = box.in.socket();
  EXPECT_EQ(box.in.bind(socket, static_cast<std::uint16_t>(port ^ 1)), -EPERM);
  ASSERT_EQ(box.in.bind(socket, port), 0);
  ASSERT_EQ(box.in.listen(socket, 4), 0);
  std::thread client([&] {
    const int peer = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(peer, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::write(peer, "from outside", 12), 12);
    ::close(peer);
  });
  const std::int64_t accepted = box.in.accept(socket);
  ASSERT_GE(accepted, 3);
  EXPECT_EQ(box.in.read(accepted, box.window()), 12);
  EXPECT_EQ(box.text(12), "from outside");
  client.join();
}

TEST_F(broker_test, waits_for_several_files) {
  const listener outside;
  brokered box(policy(reads()).connect(outside.port()), {.threads = 2});
  const std::int64_t file = box.in.open(path("may/file")), socket = box.in.socket();
  ASSERT_EQ(box.in.connect(socket, outside.port()), 0);
  const int peer = outside.accept();
  const auto fd = [](std::int64_t handle) { return static_cast<int>(handle); };
  pollfd both[] = {{fd(socket), POLLIN, 77}, {-1, POLLIN, 77}, {fd(file), POLLIN | POLLOUT, 77}};
  EXPECT_EQ(box.in.poll(both, 0), 1);
  EXPECT_EQ(both[0].revents, 0);
  EXPECT_EQ(both[1].revents, 0);
  EXPECT_EQ(both[2].revents, POLLIN | POLLOUT);
  pollfd one[] = {{fd(socket), POLLIN, 0}};
  EXPECT_EQ(box.in.poll(one, 5), 0) << "after its time";
  EXPECT_EQ(::write(peer, "x", 1), 1);
  EXPECT_EQ(box.in.poll(one, -1), 1);
  EXPECT_EQ(one[0].revents, POLLIN);
  pollfd unknown[] = {{fd(socket), POLLIN, 0}, {1234, POLLIN, 0}};
  EXPECT_EQ(box.in.poll(unknown, -1), 2);
  EXPECT_EQ(unknown[1].revents, POLLNVAL);
  EXPECT_EQ(box.in.poll({}, 1), 0);
  std::vector<pollfd> many(257, one[0]);
  EXPECT_EQ(box.in.poll(many, 0), -EINVAL);
  ::close(peer);
}

TEST_F(broker_test, stops_while_a_call_waits) {
  std::uint16_t port = 0;
  {
    const listener free_now;
    port = free_now.port();
  }
  brokered box(policy().listen(port));
  const std::int64_t socket = box.in.socket();
  ASSERT_EQ(box.in.bind(socket, port), 0);
  ASSERT_EQ(box.in.listen(socket, 4), 0);
  std::atomic<std::int64_t> result{0};
  std::thread waits([&] { result = box.in.accept(socket); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  box.stop();
  waits.join();
  EXPECT_EQ(result, -EINTR);
}

// ------------------------------------------------------------------------------------------------------ many callers

TEST_F(broker_test, serves_fibers_at_once) {
  for (const unsigned threads : {1U, 3U}) {
    brokered box(reads(), {.calls = 4, .threads = threads});
    std::vector<muster::fiber> fibers;
    std::size_t right = 0;
    const std::size_t each = scaled(2'000);
    for (unsigned f = 0; f < 16; ++f)  // more than may call at once
      fibers.emplace_back([&, f] {
        const std::int64_t file = box.in.open(path("may/file"));
        for (std::size_t i = 0; i < each; ++i) {
          std::byte one{};
          const auto at = static_cast<std::int64_t>((f + i) % 14);
          if (box.in.pread(file, std::span(&one, 1), at) == 1)
            right += static_cast<char>(one) == "may: some text"[at] ? 1 : 0;
        }
      });
    fibers.clear();
    EXPECT_EQ(right, 16 * each);
    EXPECT_EQ(box.usage().bytes_in, 16 * each);
  }
}

// ------------------------------------------------------------------------------------------------------ who lies

/// Requests of any words: what is plausible more often than what is not.
TEST_F(broker_test, survives_any_requests) {
  fs::create_directory(path("may/sub"));
  brokered box(policy(writes()).files(8));
  const std::string before = content_of(path("other/file"));
  using muster::detail::sandbox_call;
  muster::detail::guarded_producer<muster::detail::request_words> raw(box.at.cells(), box.at.plan().cells());
  std::mt19937_64 random(20261127);  // NOLINT(cert-msc51-cpp): the same each time
  const std::vector<std::string> paths{path("may/file"),          path("may/a"),         path("may/sub/b"),
                                       path("may/../other/file"), path("other/file"),    "/proc/self/mem",
                                       path("may/sub"),           std::string(5000, '/')};
  const std::uint64_t data_bytes = box.at.plan().data_bytes();
  std::uint64_t number = 0;
  muster::detail::spin_extension longer;
  for (std::size_t i = 0; i < scaled(100'000); ++i) {
    const std::string& one = paths[random() % paths.size()];
    std::memcpy(box.at.data(), one.data(), one.size());
    const auto word = [&]() -> std::uint64_t {
      switch (random() % 8) {
        case 0: return 0;
        case 1: return one.size();
        case 2: return random() % 8;
        case 3: return random() % data_bytes;
        case 4: return data_bytes - random() % 3;
        case 5: return 4096 * (random() % 4) + random() % 11;  // a handle perhaps
        case 6: return random();
        default: return 1;
      }
    };
    auto call = static_cast<sandbox_call>(random() % (muster::detail::sandbox_calls + 1));
    // A large file takes its time, and so does a wait. Without permissions nothing can be removed at the end.
    if (call == sandbox_call::ftruncate || call == sandbox_call::poll || call == sandbox_call::chmod)
      call = sandbox_call::open;
    const std::uint64_t slot = random() % 8 == 0 ? random() % 16 : i % 8;
    number =
        raw.push({static_cast<std::uint64_t>(call) | slot << 32U, word(), word(), word(), word() % 100'000, word()});
    if (slot < 8) {
      std::int64_t result = 0;
      box.at.head().to_broker.ring();
      EXPECT_TRUE(box.at.head().to_inside.await<muster::wait::park>(
          longer, [&] { return muster::detail::is_answered(box.at.slots()[slot], number, result); },
          muster::no_deadline));
    }
  }
  EXPECT_EQ(content_of(path("other/file")), before);
  std::set<std::string> there;
  for (const auto& one : fs::directory_iterator(root_)) there.insert(one.path().filename());
  EXPECT_EQ(there, (std::set<std::string>{"may", "other"}));
}

/// An arena with unmapped pages around it.
class guarded_arena {
 public:
  explicit guarded_arena(const muster::detail::arena_plan& plan) : plan_(plan), all_(2 * around + plan.bytes()) {
    start_ = static_cast<unsigned char*>(
        ::mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (start_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~guarded_arena() { ::munmap(start_, all_); }
  guarded_arena(const guarded_arena&) = delete;
  guarded_arena& operator=(const guarded_arena&) = delete;

  muster::detail::arena_map map() const { return {plan_, start_ + around}; }
  /// True while all is zero around the arena, and from the end of its slots to its data, where no broker writes.
  bool is_kept() const {
    const auto zeros = [this](std::uint64_t from, std::uint64_t to) {
      return std::all_of(start_ + from, start_ + to, [](unsigned char one) { return one == 0; });
    };
    return zeros(0, around) && zeros(around + plan_.bytes(), all_) &&
           zeros(around + plan_.slots_at() + plan_.calls * sizeof(muster::detail::guarded_slot),
                 around + plan_.data_at());
  }

 private:
  static constexpr std::uint64_t around = 1U << 20U;
  const muster::detail::arena_plan plan_;
  const std::uint64_t all_;
  unsigned char* start_;
};

/// A client that asks for what is allowed, while another of its threads rewrites every word that the broker reads: from
/// what is right to what lies just beyond a bound, or to anything. A broker that looked at a word a second time would
/// write beyond its slots or the arena, or open another file.
TEST_F(broker_test, survives_memory_that_changes) {
  using muster::detail::sandbox_call;
  const policy rules = writes();
  const guarded_arena arena({6, 1, 4096, 4096});
  const muster::detail::arena_map at = arena.map();
  const std::uint64_t data_bytes = at.plan().data_bytes();
  muster::detail::broker broker(rules, at, {2, false, {}, {}});
  broker.start();
  muster::detail::guarded_producer<muster::detail::request_words> raw(at.cells(), at.plan().cells());
  muster::detail::doorbell& bell = at.head().to_broker;
  const std::string file = path("may/file");
  std::memcpy(at.data(), file.data(), file.size());
  const auto first = [](sandbox_call call, std::uint64_t slot) {
    return static_cast<std::uint64_t>(call) | slot << 32U;
  };
  const std::uint64_t asked = raw.push({first(sandbox_call::open, 0), 0, file.size(), 1, 0, 0});
  bell.ring();
  std::int64_t handle = 0;
  while (!muster::detail::is_answered(at.slots()[0], asked, handle)) std::this_thread::yield();
  ASSERT_GE(handle, 3);
  const auto right = [&](std::uint64_t i) -> muster::detail::raw_request {
    if (i % 8 == 0) return {first(sandbox_call::open, i % 6), 0, file.size(), 1, 0, 0};
    return {first(sandbox_call::pread, i % 6), static_cast<std::uint64_t>(handle), 4096, 14, 0, 0};
  };

  std::atomic<bool> over{false};
  std::thread flips([&] {
    std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the same each time
    auto* const head = reinterpret_cast<std::atomic<std::uint32_t>*>(&at.head());
    auto* const letter = reinterpret_cast<std::atomic<unsigned char>*>(at.data() + file.size() - 1);
    for (std::uint64_t round = 0; !over; ++round) {
      const std::uint64_t value = random();
      auto& cell = at.cells()[value % 8];
      const std::uint64_t slot = value % 16 < 8 ? value % 6 : 6 + value / 16 % 48;
      cell.words[0].store(first(sandbox_call::pread, slot), std::memory_order_relaxed);
      cell.words[2].store(value % 32 < 16 ? 4096 : data_bytes + value % 4096, std::memory_order_relaxed);
      if (round % 8 == 0) cell.words[value / 8 % 6].store(value, std::memory_order_relaxed);
      if (round % 16 == 0)
        head[value / 8 % 48].store(static_cast<std::uint32_t>(value >> 32U), std::memory_order_relaxed);
      letter->store(value % 3 == 0 ? '\0' : value % 3 == 1 ? '/' : 'e', std::memory_order_relaxed);
    }
  });
  // One at a time, until it has been answered in some slot, or refused because its slot was none.
  std::uint64_t served = 0, refused = 0;
  const auto is_served = [&](std::uint64_t number) {
    for (std::uint64_t looks = 1;; ++looks) {
      for (std::uint32_t slot = 0; slot < at.plan().calls; ++slot)
        if (std::int64_t result = 0; muster::detail::is_answered(at.slots()[slot], number, result)) return true;
      if (broker.usage().refusals != refused) return true;
      if (looks % 256 == 0 && !arena.is_kept()) return false;
      std::this_thread::yield();
    }
  };
  for (; refused < scaled(1'000) || served < scaled(8'000); ++served) {  // so often the threads have met
    refused = broker.usage().refusals;
    const std::uint64_t number = raw.push(right(served));
    bell.ring();
    if (!is_served(number)) break;
  }
  over = true;
  flips.join();
  broker.stop();  // whatever its words say
  EXPECT_TRUE(arena.is_kept()) << "after " << served << " requests";
  EXPECT_EQ(content_of(path("other/file")), "other: some text");
}

// Work, not time: how often a waiting side looks for its event before it sleeps.
TEST(doorbell_test, spins_where_the_other_side_runs_on_another_processor) {
  muster::detail::doorbell bell, other;
  muster::detail::spin_extension longer;
  std::uint64_t looks = 0;
  const auto wait = [&](std::uint32_t processor) {
    looks = 0;
    const auto never = [&] { return ++looks == 0; };
    EXPECT_FALSE(
        bell.await(other, processor, longer, never, muster::deadline_clock::now() + std::chrono::milliseconds(1)));
    return looks;
  };
  constexpr unsigned pauses = muster::detail::wait_apart::pauses, few = 32;
  other.processor = 3;
  EXPECT_LT(wait(3), few);
  EXPECT_GE(wait(4), pauses);
  EXPECT_EQ(bell.processor, 4U);
  EXPECT_GE(wait(0), pauses);

  // After brief sleeps it looks some more: at least once between two looks at the clock.
  longer.note_sleep(std::chrono::microseconds(1));
  EXPECT_GE(wait(4), pauses + pauses / 8);
  // A sleep that its time limit ended is not brief.
  EXPECT_EQ(longer.length().count(), 0);
  longer.note_sleep(std::chrono::microseconds(1));
  EXPECT_LT(wait(3), few);

  // On a thread with fibers, one that has slept makes it spin no more when others wait.
  std::uint64_t all = 0;
  const auto until = muster::deadline_clock::now() + std::chrono::milliseconds(100);
  muster::fiber sleeps([&] { bell.await(other, 4, longer, [&] { return ++all == 0; }, until); });
  muster::fiber waits([&] {
    for (int i = 0; i < 10; ++i) EXPECT_LT(wait(3), 2 * pauses);
  });
  waits.join();
  sleeps.join();
  EXPECT_GE(all, pauses);
  EXPECT_LT(all, 4 * pauses);
}

// Work, not time: how often threads look for events of which each needs one of them.
TEST(doorbell_test, wakes_one_thread_for_an_event_that_needs_one) {
  constexpr unsigned threads = 4;
  muster::detail::doorbell bell;
  muster::detail::spin_extension longer;
  std::atomic<unsigned> looks{0}, made{0}, taken{0};
  std::array<std::atomic<pid_t>, threads> ids{};
  std::vector<std::thread> all;
  for (auto& id : ids)
    all.emplace_back([&] {
      id = ::gettid();
      for (unsigned now = taken;;) {
        bell.await<muster::wait::park>(
            longer,
            [&] {
              ++looks;
              return made > taken;
            },
            muster::no_deadline);
        now = taken;
        while (now < made)
          if (taken.compare_exchange_weak(now, now + 1)) {
            if (made > taken) bell.wake_next();
            return;
          }
      }
    });
  const auto all_sleep = [&] {
    // Or have ended.
    const auto asleep = [](pid_t id) {
      std::array<char, 512> room{};
      const std::string file = "/proc/self/task/" + std::to_string(id) + "/stat";
      const std::string_view text = muster::detail::read_start(file.c_str(), room);
      return id != 0 && (text.empty() || text.substr(text.rfind(')') + 2, 1) == "S");
    };
    while (!std::ranges::all_of(ids, asleep)) std::this_thread::yield();
  };
  while (looks < threads) std::this_thread::yield();
  all_sleep();
  for (unsigned left = threads; left > 2; --left) {
    looks = 0;
    ++made;
    bell.ring_one();
    while (taken < made) std::this_thread::yield();
    all_sleep();
    EXPECT_EQ(looks, 1U) << "of the thread that takes it";
  }
  // Two events, and a ring for one: the thread that takes the first wakes the next.
  made += 2;
  bell.ring_one();
  for (std::thread& one : all) one.join();
  EXPECT_EQ(taken, threads);
}

// Work, not time: how many of the others' requests are answered between a caller's and its answer.
TEST_F(broker_test, answers_each_caller_before_any_other_a_second_time) {
  using muster::detail::sandbox_call;
  const policy rules = reads();
  const guarded_arena arena({8, 1, 4096, 4096});
  const muster::detail::arena_map at = arena.map();
  muster::detail::broker broker(rules, at, {1, false, {}, {}});
  muster::detail::guarded_producer<muster::detail::request_words> raw(at.cells(), at.plan().cells());
  const std::string file = path("other/file");
  std::memcpy(at.data(), file.data(), file.size());
  // A flood by seven callers: no such call, no such file, not allowed, data beyond the arena.
  const std::uint64_t wrong[][4] = {{999, 0, 0, 0}, {3, 77, 0, 1}, {1, 0, file.size(), 1}, {3, 77, 1U << 30U, 9}};
  std::array<std::uint64_t, 8> asked{};
  std::uint64_t others = 0, most = 0, own = 0;
  for (std::uint64_t i = 0; own < 1'000; ++i) {
    for (std::uint64_t slot = 0; slot < 8; ++slot) {
      std::int64_t result = 0;
      if (asked[slot] != 0 && !muster::detail::is_answered(at.slots()[slot], asked[slot], result)) continue;
      if (slot != 5) {
        others += asked[slot] != 0 ? 1 : 0;
        const auto& w = wrong[(i + slot) % 4];
        asked[slot] = raw.push({w[0] | slot << 32U, w[1], w[2], w[3], 0, 0});
        continue;
      }
      if (asked[slot] != 0) {
        ASSERT_EQ(result, ::getppid());
        ++own;
        most = std::max(most, others);
        others = 0;
      }
      asked[slot] = raw.push({static_cast<std::uint64_t>(sandbox_call::getppid) | slot << 32U, 0, 0, 0, 0, 0});
    }
    ASSERT_TRUE(broker.serve_next());
  }
  EXPECT_LE(most, 7U) << "a caller has waited for two requests of another";
  EXPECT_GE(most, 6U) << "there was no flood";
}

// All threads of one client's broker wait for the network, and its ring is full.
TEST_F(broker_test, serves_a_client_while_another_keeps_its_broker) {
  std::uint16_t port = 0;
  {
    const listener free_now;
    port = free_now.port();
  }
  brokered floods(policy().listen(port), {.calls = 4});
  const std::int64_t socket = floods.in.socket();
  ASSERT_EQ(floods.in.bind(socket, port), 0);
  ASSERT_EQ(floods.in.listen(socket, 4), 0);
  muster::detail::guarded_producer<muster::detail::request_words> raw(floods.at.cells(), 4, 3);
  for (std::uint64_t slot = 0; slot < 4; ++slot)
    raw.push({static_cast<std::uint64_t>(muster::detail::sandbox_call::accept) | slot << 32U,
              static_cast<std::uint64_t>(socket), 0, 0, 0, 0});
  floods.at.head().to_broker.ring();
  brokered other(reads());
  for (unsigned i = 0; i < 1'000; ++i) ASSERT_EQ(other.in.getppid(), ::getppid());
  EXPECT_EQ(floods.usage().calls, 3U) << "those before the flood";
}

}  // namespace
