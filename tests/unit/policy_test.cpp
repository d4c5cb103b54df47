// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The policy of a sandbox: what text means, what is wrong with it, which rule holds for a path.
#include <gtest/gtest.h>
#include <muster/syscall/policy.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using muster::policy;
using muster::policy_error;

/// A directory of its own, with files and directories of all kinds of names.
class policies : public ::testing::Test {
 protected:
  policies() {
    std::string name = (std::filesystem::temp_directory_path() / "policy-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
    for (const char* folder : {"data", "data/deep", "data/deep/er", "data2"})
      std::filesystem::create_directory(in(folder));
    for (const char* file : {"data/one", "with space", "a \"quote\" and \\", "really*", "#1"})
      std::ofstream(in(file)) << file;
  }
  ~policies() override { std::filesystem::remove_all(root_); }

  std::string in(const std::string& name) const { return root_ + '/' + name; }

  /// Which rule holds, and what is left of the path; "none" when there is none.
  static std::string found(const policy& by, const std::string& path) {
    std::string_view rest;
    const policy::place* const one = by.find(path, rest);
    if (one == nullptr) return "none";
    return one->path() + (one->may() == policy::access::read ? " read " : " write ") + std::string(rest);
  }

  std::string root_;
};

TEST_F(policies, allow_nothing_by_themselves) {
  const policy nothing;
  EXPECT_EQ(found(nothing, "/"), "none");
  EXPECT_TRUE(nothing.connects().empty());
  EXPECT_TRUE(nothing.listens().empty());
  EXPECT_EQ(nothing.memory(), std::nullopt);
  EXPECT_EQ(nothing.time(), std::nullopt);
  EXPECT_EQ(nothing.disk(), std::nullopt);
  EXPECT_EQ(nothing.files(), 64U);
  EXPECT_EQ(nothing.on_refusal(), policy::refusal::fail);
  EXPECT_EQ(nothing.text(), "");
  EXPECT_EQ(policy::parse("\n  # nothing but this\n\t\n").text(), "");
}

TEST_F(policies, say_what_their_text_says) {
  const policy all =
      policy::parse("read " + in("data") + "  # beneath it\n" + "write\t\"" + in("with space") + "\"\r\n" +
                    "connect 80\nconnect 65535\nlisten 1\nmemory 256M\ndisk 3G\nfiles 3\ntime 10\nrefuse kill");
  ASSERT_EQ(all.places().size(), 2U);
  EXPECT_EQ(all.places()[0].path(), in("data"));
  EXPECT_EQ(all.places()[0].may(), policy::access::read);
  EXPECT_EQ(all.places()[0].name(), "");
  EXPECT_EQ(all.places()[1].path(), in("with space"));
  EXPECT_EQ(all.places()[1].may(), policy::access::write);
  EXPECT_EQ(all.places()[1].name(), "with space");
  EXPECT_EQ(all.connects(), (std::vector<std::uint16_t>{80, 65535}));
  EXPECT_EQ(all.listens(), std::vector<std::uint16_t>{1});
  EXPECT_EQ(all.memory(), std::size_t{256} << 20U);
  EXPECT_EQ(all.disk(), std::size_t{3} << 30U);
  EXPECT_EQ(all.files(), 3U);
  EXPECT_EQ(all.time(), 10U);
  EXPECT_EQ(all.on_refusal(), policy::refusal::kill);
}

TEST_F(policies, can_be_written_in_code) {
  policy made;
  made.write(in("data/deep"))
      .read(in("data/"))
      .connect(443)
      .listen(8080)
      .memory(1 << 20)
      .disk(5000)
      .files(1)
      .time(2)
      .on_refusal(policy::refusal::kill);
  EXPECT_EQ(made.text(), "write " + in("data/deep") + "\nread " + in("data") +
                             "\nconnect 443\nlisten 8080\nmemory 1M\ndisk 5000\nfiles 1\ntime 2\nrefuse kill\n");
  EXPECT_EQ(policy::parse(made.text()).text(), made.text());
}

TEST_F(policies, let_the_longer_rule_hold) {
  policy made;
  made.read(in("data")).write(in("data/deep")).read(in("data/deep/er")).write(in("really*"));
  EXPECT_EQ(found(made, in("data")), in("data") + " read .");
  EXPECT_EQ(found(made, in("data/one")), in("data") + " read one");
  EXPECT_EQ(found(made, in("data/deeper")), in("data") + " read deeper");
  EXPECT_EQ(found(made, in("data/deep/x/y")), in("data/deep") + " write x/y");
  EXPECT_EQ(found(made, in("data/deep/er")), in("data/deep/er") + " read .");
  EXPECT_EQ(found(made, in("really*")), in("really*") + " write really*");
  for (const char* other : {"data2", "dat", "really*/x", "really", ""})
    EXPECT_EQ(found(made, in(other)), "none") << other;
  EXPECT_EQ(found(made, "/"), "none");
}

TEST_F(policies, may_allow_all_files) {
  const policy all = policy().read("/");
  EXPECT_EQ(found(all, "/"), "/ read .");
  EXPECT_EQ(found(all, "/etc/passwd"), "/ read etc/passwd");
}

// None of these is a path that a rule could have, so none can be looked up.
TEST_F(policies, take_no_path_that_is_not_plain) {
  const policy all = policy().read("/");
  for (const std::string& path :
       {std::string(), std::string("etc"), std::string("/etc/"), std::string("//etc"), std::string("/etc//passwd"),
        std::string("/."), std::string("/.."), std::string("/etc/../etc"), std::string("/etc/./x"),
        std::string("/etc\0/x", 7), std::string("/a\nb"), std::string("/etc/..")})
    EXPECT_EQ(found(all, path), "none") << path;
  EXPECT_EQ(found(all, "/..."), "/ read ...");
  EXPECT_EQ(found(all, "/.a/b."), "/ read .a/b.");
}

TEST_F(policies, find_a_directory_that_has_been_renamed) {
  const policy made = policy().read(in("data"));
  std::filesystem::rename(in("data"), in("elsewhere"));
  const int file = ::openat(made.places()[0].directory(), "one", O_RDONLY);
  EXPECT_GE(file, 0);
  ::close(file);
}

TEST_F(policies, share_their_directories_with_copies) {
  std::optional<policy> first = policy().read(in("data"));
  const policy second = *first;
  const int directory = first->places()[0].directory();
  first.reset();
  EXPECT_EQ(second.places()[0].directory(), directory);
  const int file = ::openat(directory, "one", O_RDONLY);
  EXPECT_GE(file, 0);
  ::close(file);
}

struct mistake {
  std::string text, says, word;
  std::size_t line = 1;
};

TEST_F(policies, name_the_mistake_in_them) {
  const std::string data = in("data"), rules = "read, write, connect, listen, memory, disk, files, time or refuse";
  const std::string one_path = "after read comes one path, as in: read /usr/share";
  const std::vector<mistake> all{
      {"reed " + data, "unknown rule 'reed'; a line begins with " + rules, "reed"},
      {"\n\nRead " + data, "unknown rule 'Read'; a line begins with " + rules, "Read", 3},
      {"\"read\" " + data, "unknown rule 'read'; a line begins with " + rules, "read"},
      {"read", "read lacks its argument; " + one_path, "read"},
      {"read # where?", "read lacks its argument; " + one_path, "read"},
      {"read " + data + " " + data, "'" + data + "' is unexpected; " + one_path, data},
      {"read data", "'data' is not a path for a rule: it must begin with / and contain no . or .. and no empty part",
       "data"},
      {"read " + data + "/../x",
       "'" + data +
           "/../x' is not a path for a rule: it must begin with / and contain no . or .. "
           "and no empty part",
       data + "/../x"},
      {"read /usr/share/*.ttf",
       "'/usr/share/*.ttf' looks like a pattern, and a rule takes none: name the directory, for all its "
       "files, or put the name in quotes if it has these characters",
       "/usr/share/*.ttf"},
      {"read " + in("none"),
       "cannot open '" + in("none") +
           "': No such file or directory; a rule names something that "
           "exists: name the directory in which it will be made",
       in("none")},
      {"read /dev/zero",
       "'/dev/zero' is neither a file nor a directory; a rule cannot name a socket, a pipe, or a device other than "
       "/dev/null",
       "/dev/zero"},
      {"read " + data + "\nwrite " + data + "/",
       "there are two rules for '" + data +
           "'; leave one (what may be written "
           "may be read)",
       data, 2},
      {"read \"" + data, "the quote before '" + data + "' is not closed on its line", data},
      {"read \"" + data + "\\x\"",
       "within quotes, \\ must be followed by \", another \\, or x and two hexadecimal digits", data},
      {"read \"" + data + "\\x4\"",
       "within quotes, \\ must be followed by \", another \\, or x and two hexadecimal digits", data},
      {"read \"" + data + "\\x4g\"",
       "within quotes, \\ must be followed by \", another \\, or x and two hexadecimal digits", data},
      {"read \"" + data + "\\x00\"",
       "'" + data + "\\x00' is not a path for a rule: it must begin with / and contain no . or .. and no empty part",
       data + std::string(1, '\0')},
      {"read /a\"b\"", "a quote within the word '/a'; put quotes around all of it", "/a"},
      {"connect 0", "0 is not a port; ports begin at 1", "0"},
      {"connect 65536", "'65536' is not a number from 1 to 65535; after connect comes a port, as in: connect 8080",
       "65536"},
      {"listen http", "'http' is not a number from 1 to 65535; after listen comes a port, as in: listen 8080", "http"},
      {"listen -1", "'-1' is not a number from 1 to 65535; after listen comes a port, as in: listen 8080", "-1"},
      {"memory 12", "memory 12 is too little; it must be at least 65536", "12"},
      {"memory 1T", "'1T' is not a size; after memory comes a size in bytes, or with K, M or G, as in: memory 256M",
       "1T"},
      {"memory 99999999999G",
       "'99999999999G' is not a size; after memory comes a size in bytes, or with K, M or G, as in: "
       "memory 256M",
       "99999999999G"},
      {"disk all", "'all' is not a size; after disk comes a size in bytes, or with K, M or G, as in: disk 256M", "all"},
      {"disk 0", "disk 0 is too little; it must be at least 1", "0"},
      {"disk 1M\ndisk 2M", "there are two rules 'disk'; leave one", "disk", 2},
      {"memory 1M\nmemory 2M", "there are two rules 'memory'; leave one", "memory", 2},
      {"files 0", "files 0 is too little; it must be at least 1", "0"},
      {"files many", "'many' is not a number from 1 to 4000; after files comes a number, as in: files 32", "many"},
      {"time 1s", "'1s' is not a number from 1 to 1000000000; after time comes a number of seconds, as in: time 10",
       "1s"},
      {"refuse all", "'all' is unknown here; after refuse comes kill or fail", "all"},
  };
  for (const mistake& m : all) {
    try {
      policy::parse(m.text, "job.policy");
      ADD_FAILURE() << m.text << "\nis taken";
    } catch (const policy_error& error) {
      EXPECT_EQ(error.what(), "job.policy:" + std::to_string(m.line) + ": " + m.says);
      EXPECT_EQ(error.word(), m.word) << m.text;
      EXPECT_EQ(error.line(), m.line) << m.text;
    }
  }
}

TEST_F(policies, follow_a_link_to_a_directory_only) {
  std::filesystem::create_symlink(in("data"), in("to data"));
  std::filesystem::create_symlink(in("data/one"), in("to one"));
  EXPECT_EQ(found(policy().read(in("to data")), in("to data/one")), in("to data") + " read one");
  try {
    policy().read(in("to one"));
    ADD_FAILURE();
  } catch (const policy_error& error) {
    EXPECT_EQ(error.what(),
              "policy: '" + in("to one") +
                  "' is a symbolic link to a file, which a rule does not follow; name the file that it points to");
  }
}

TEST_F(policies, name_the_mistake_in_rules_in_code) {
  try {
    policy().files(0);
    ADD_FAILURE();
  } catch (const policy_error& error) {
    EXPECT_STREQ(error.what(), "policy: files 0 is too little; it must be at least 1");
    EXPECT_EQ(error.line(), 0U);
  }
  EXPECT_THROW(policy().read("x"), policy_error);
  EXPECT_THROW(policy().connect(0), policy_error);
  EXPECT_THROW(policy().memory(1), policy_error);
  EXPECT_THROW(policy().time(0), std::invalid_argument);
}

// Any text is an error, or a policy that says the same when it is read again.
TEST_F(policies, are_read_or_refused_whatever_their_text) {
  std::mt19937 random(11);
  const std::vector<std::string> pieces{"read ",
                                        "write ",
                                        "connect ",
                                        "listen ",
                                        "memory ",
                                        "disk ",
                                        "files ",
                                        "time ",
                                        "refuse ",
                                        "kill",
                                        "fail",
                                        "8",
                                        "64K",
                                        "1G",
                                        "\n",
                                        "\n",
                                        "\n",
                                        "\"",
                                        "\\",
                                        "#",
                                        " ",
                                        "\t",
                                        "\r",
                                        "/",
                                        "..",
                                        "*",
                                        in("data"),
                                        in("with space"),
                                        in("#1"),
                                        in("data/one"),
                                        in("a \"quote\" and \\"),
                                        std::string(1, '\0')};
  unsigned taken = 0;
  for (unsigned i = 0; i < 20'000; ++i) {
    std::string text;
    for (auto many = random() % 12; many > 0; --many) text += pieces[random() % pieces.size()];
    try {
      const policy made = policy::parse(text);
      ++taken;
      ASSERT_EQ(policy::parse(made.text()).text(), made.text()) << text;
    } catch (const policy_error& error) {
      ASSERT_GE(error.line(), 1U) << text;
    }
  }
  EXPECT_GE(taken, 500U);
}

TEST_F(policies, write_sizes_as_people_do) {
  for (const char* size : {"65536K", "64K", "65537", "1000000", "1M", "1025K", "3G", "4096G"}) {
    const std::string text = policy::parse(std::string("memory ") + size).text();
    EXPECT_EQ(policy::parse(text).memory(), policy::parse(std::string("memory ") + size).memory()) << size;
    EXPECT_EQ(text, std::string("memory ") + (std::string_view(size) == "65536K" ? "64M" : size) + "\n");
  }
}

TEST_F(policies, quote_what_must_be_quoted) {
  policy made;
  for (const char* name : {"with space", "a \"quote\" and \\", "really*", "#1"}) made.read(in(name));
  const policy again = policy::parse(made.text());
  ASSERT_EQ(again.places().size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(again.places()[i].path(), made.places()[i].path());
}

/// A rule that is suggested for a path of an inside is shown in terminals and logs, and so is one that the program has.
TEST_F(policies, write_bytes_that_should_not_be_shown_as_numbers) {
  const auto number = [](unsigned byte) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "\\x%02x", byte);
    return std::string(text.data());
  };
  for (unsigned byte = 1; byte < 0x100; ++byte) {
    if (byte == '\n' || (byte >= 0x20 && byte < 0x7f)) continue;
    EXPECT_EQ(policy::word_for(std::string("/a") + static_cast<char>(byte)), "\"/a" + number(byte) + '"') << "alone";
    if (byte >= 0x80 && byte < 0xa0)
      EXPECT_EQ(policy::word_for(std::string("/\xc2") + static_cast<char>(byte) + "b"),
                "\"/\\xc2" + number(byte) + "b\"");
  }
  EXPECT_EQ(policy::word_for("/a\nread /"), "") << "no rule has it";
  for (const char* path :
       {"\xc0\x9b",     "\xe0\x82\x9b", "\xf0\x80\x82\x9b", "\xe2\x82",     "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\x9b",         "\xff",         "\xd8\x9c",         "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaa", "\xe2\x80\xab",     "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae",
        "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8",     "\xe2\x81\xa9"}) {
    std::string all;
    for (const char* at = path; *at != '\0'; ++at) all += number(static_cast<unsigned char>(*at));
    EXPECT_EQ(policy::word_for(std::string("/a") + path + "b"), "\"/a" + all + "b\"");
  }
  for (const char* path : {"/\xc2\xa0", "/\xc3\x84", "/\xe2\x82\xac", "/\xed\x9f\xbf", "/\xf0\x9f\x98\x80",
                           "/\xf4\x8f\xbf\xbf", "/\xe2\x80\x8d", "/\xe2\x80\xa7", "/\xe2\x80\xaf", "/\xe2\x81\xaa"})
    EXPECT_EQ(policy::word_for(path), path);
  EXPECT_EQ(policy::shown("a\\x1b \x1b"), "a\\\\x1b \\x1b") << "one is not taken for the other";
  for (const char* name : {"tab\tand\rline and \x1b", "\\x1b", "caf\xe9", "\xe2\x80\xa8", "\x7f\xff\\"}) {
    std::ofstream(in(name)) << "x";
    const policy made = policy().read(in(name));
    const std::string text = made.text();
    for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << text;
    EXPECT_EQ(policy::parse(text).places()[0].path(), in(name));
  }
}

/// A place has one name, where something may be written.
TEST_F(policies, know_places_by_one_name) {
  std::filesystem::create_directory_symlink(in("data"), in("link"));
  const auto why = [](const auto& make) {
    try {
      make();
    } catch (const policy_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(why([&] { policy().write(in("link")); }).find("leads over a link to '" + in("data")), std::string::npos);
  EXPECT_NE(why([&] { policy().write(in("data")).read(in("link/deep")); }).find("name that"), std::string::npos);
  EXPECT_NE(why([&] { policy().read(in("link/deep")).write(in("data")); }).find("name that"), std::string::npos);
  EXPECT_EQ(why([&] { policy().write(in("data")).read(in("data/deep")); }), "");
  EXPECT_EQ(why([&] { policy().read(in("link")).read(in("data")); }), "");
}

}  // namespace
