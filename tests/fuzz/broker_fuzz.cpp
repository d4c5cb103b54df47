// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as the memory that a client shares with its broker: requests, doorbells, answers and data. The broker
// answers each cell at most once, makes what the policy allows and nothing else, and shows nothing of other files.
//
// An input is the image of the cells, the doorbells, the slots and the data, in this order; bytes that it lacks are 0.
// Each input begins with the same files and a new broker. Calls that would wait for the network are interrupted.
#include <muster/syscall/broker.hpp>

#include "broken.hpp"

#include <stdlib.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using muster::detail::arena_map;
using muster::detail::arena_plan;
using muster_test::require;

/// The content of a file that no rule names. The fuzzer learns operands of comparisons and puts them into inputs. So
/// the secret is random, and is only compared where the fuzzer does not observe it.
class hidden_text {
 public:
  const std::string& text() const { return text_; }
  bool is(const std::string& other) const { return std::hash<std::string>{}(other) == std::hash<std::string>{}(text_); }
  __attribute__((no_sanitize("coverage"))) bool is_in(const std::byte* data, std::size_t size) const {
    for (std::size_t from = 0; from + text_.size() <= size; ++from) {
      std::size_t same = 0;
      while (same < text_.size() && data[from + same] == static_cast<std::byte>(text_[same])) ++same;
      if (same == text_.size()) return true;
    }
    return false;
  }

 private:
  const std::string text_ =
      "only the outside knows " + std::to_string(std::random_device{}()) + std::to_string(std::random_device{}());
};
const hidden_text secret;
constexpr std::string_view named_in_inputs = "/dev/shm/fuzz-XXXXXX";  // replaced by the directory that is made

/// A directory with may/ to be written, read/ to be read, and other/.
class files {
 public:
  files() {
    std::string name(named_in_inputs);
    require(::mkdtemp(name.data()) != nullptr, "no directory can be made in /dev/shm");
    root_ = name;
    for (const char* one : {"may", "read", "other"}) fs::create_directory(root_ / one);
    std::ofstream(root_ / "other/file") << secret.text();
    std::ofstream(root_ / "read/file") << "to be read";
    fs::create_symlink("../other/file", root_ / "read/out");
    fs::create_symlink("file", root_ / "read/link");
    restore();
  }
  ~files() { fs::remove_all(root_); }
  files(const files&) = delete;
  files& operator=(const files&) = delete;

  muster::policy rules() const {
    return muster::policy()
        .write((root_ / "may").string())
        .read((root_ / "read").string())
        .files(4)
        .connect(9)
        .listen(65432);
  }
  void restore() const {
    fs::permissions(root_ / "may", fs::perms::owner_all);
    if (names("may") == std::set<std::string>{"file"} && content("may/file") == "four") return;
    for (const auto& one : fs::directory_iterator(root_ / "may")) fs::remove_all(one);
    std::ofstream(root_ / "may/file") << "four";
  }
  void require_unchanged() const {
    require(names(".") == std::set<std::string>{"may", "read", "other"}, "files have come or gone");
    require(names("other") == std::set<std::string>{"file"} && secret.is(content("other/file")),
            "a file that no rule names has been changed");
    require(names("read") == std::set<std::string>{"file", "link", "out"} && content("read/file") == "to be read",
            "a file that may only be read has been changed");
  }
  std::string_view name() const { return root_.native(); }

 private:
  std::set<std::string> names(const char* directory) const {
    std::set<std::string> all;
    for (const auto& one : fs::directory_iterator(root_ / directory)) all.insert(one.path().filename());
    return all;
  }
  std::string content(const char* path) const {
    std::ifstream file(root_ / path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path root_;
};

/// Copies what there is of the input to one part of the arena.
void take(std::string_view& input, void* to, std::size_t size) {
  const std::size_t many = std::min(input.size(), size);
  std::memcpy(to, input.data(), many);
  input.remove_prefix(many);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static const files there;
  static const muster::policy rules = there.rules();
  static const arena_plan plan{16, 1, 0, 4096};
  static const muster::mapped_region arena = muster::detail::make_arena(plan);

  std::string input(reinterpret_cast<const char*>(data), size);
  for (std::size_t at = 0; (at = input.find(named_in_inputs, at)) != input.npos;)
    input.replace(at, named_in_inputs.size(), there.name());
  const arena_map at(plan, arena.start());
  std::memset(arena.start(), 0, plan.bytes());
  std::string_view rest(input);
  take(rest, at.cells(), plan.cells() * sizeof(arena_plan::cell));
  take(rest, &at.head(), sizeof at.head());
  take(rest, at.slots(), plan.calls * sizeof(muster::detail::guarded_slot));
  take(rest, at.data(), plan.data_bytes());
  const std::vector<unsigned char> jobs(plan.jobs * sizeof(muster::detail::job_slot));
  there.restore();

  muster::detail::broker broker(rules, at, {1, false, [](const auto&) {}, {}});
  ::signal(SIGPIPE, SIG_IGN);  // which the threads of a broker block
  broker.stop();               // what waits for the network returns at once
  std::uint64_t served = 0;
  while (broker.serve_next()) require(++served <= plan.cells(), "a broker answers a cell twice");

  const muster::sandbox_usage usage = broker.usage();
  require(usage.calls + usage.refusals <= 2 * served, "a broker counts calls that have not been");
  require(std::memcmp(at.jobs(), jobs.data(), jobs.size()) == 0, "a broker writes to where it has nothing to say");
  require(!secret.is_in(at.data(), plan.data_bytes()), "a file that no rule names has been read");
  there.require_unchanged();
  return 0;
}
