// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// build.cpp: the cost of including a header.
#include "table/points.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

extern char** environ;  // NOLINT(readability-redundant-declaration): not every libc declares it

namespace muster::bench {
namespace {

struct header {
  std::string name;
  const char* family;
  bool quick;  // also in the quick profile
};

/// Where the library's headers are.
std::vector<std::string> own_directories() {
  std::vector<std::string> found;
  std::stringstream directories(MUSTER_BENCH_INCLUDE);
  for (std::string one; std::getline(directories, one, ':');)
    if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
  return found;
}

/// Every public header of ours: muster/*.hpp and muster/ROOM/*.hpp. Those in detail/ are deeper.
std::vector<header> own_headers() {
  namespace fs = std::filesystem;
  std::vector<header> found;
  for (const std::string& directory : own_directories()) {
    const fs::path all = fs::path(directory) / "muster";
    if (!fs::exists(all)) continue;
    for (auto at = fs::recursive_directory_iterator(all); at != fs::recursive_directory_iterator(); ++at) {
      if (at.depth() == 1) at.disable_recursion_pending();
      const std::string name = fs::relative(at->path(), directory).string();
      if (name.ends_with(".hpp"))
        found.push_back({name, "muster", name == "muster/queue.hpp" || name == "muster/queue/spsc.hpp"});
    }
  }
  std::sort(found.begin(), found.end(), [](const header& a, const header& b) { return a.name < b.name; });
  return found;
}

const header peer_headers[] = {
    {"concurrentqueue/concurrentqueue.h", "moodycamel", true},
    {"readerwriterqueue/readerwriterqueue.h", "readerwriterqueue", false},
    {"atomic_queue/atomic_queue.h", "atomic_queue", false},
    {"boost/lockfree/queue.hpp", "boost", false},
    {"xenium/vyukov_bounded_queue.hpp", "xenium", false},
    {"oneapi/tbb/concurrent_queue.h", "tbb", false},
    {"oneapi/tbb/parallel_for.h", "tbb", false},
};
constexpr const char* compilers[] = {"g++", "clang++-19"};

/// A file that includes the header, in a directory of its own.
class source_file {
 public:
  explicit source_file(const std::string& header) {
    std::string name = (std::filesystem::temp_directory_path() / "muster-include-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no directory can be made in " + name);
    directory_ = name;
    std::ofstream(path()) << "#include <" << header << ">\n";
  }
  ~source_file() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  source_file(const source_file&) = delete;
  source_file& operator=(const source_file&) = delete;

  std::string path() const { return (directory_ / "one.cpp").string(); }
  std::string output() const { return (directory_ / "one.ii").string(); }

 private:
  std::filesystem::path directory_;
};

/// Returns true if the command ends with status 0. Its words are not shown.
bool runs(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  return error == 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool exists(const std::string& compiler) { return runs({compiler, "--version"}); }

outcome include_once(const std::string& compiler, const std::string& header) {
  using clock = std::chrono::steady_clock;
  const source_file source(header);
  std::vector<std::string> common{compiler, "-std=c++20"};
  for (const std::string& one : own_directories()) common.push_back("-I" + one);
  const auto compile = [&](std::vector<std::string> rest) {
    rest.insert(rest.begin(), common.begin(), common.end());
    return runs(std::move(rest));
  };
  outcome result;
  result.items = 1;
  if (!compile({"-E", "-o", source.output(), source.path()})) {
    result.error = compiler + " does not find the header, or what it includes";
    return result;
  }
  std::ifstream text(source.output());
  result.detail["lines"] =
      static_cast<double>(std::count(std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>(), '\n'));
  const clock::time_point begin = clock::now();
  if (!compile({"-fsyntax-only", source.path()}))
    result.error = compiler + " does not compile a file that includes only this header";
  result.seconds = std::chrono::duration<double>(clock::now() - begin).count();
  return result;
}

study compile_times(const setting& s) {
  study made = chart(
      "a file that includes one header, by -std=c++20 -fsyntax-only; of ours in the full profile all that are public; "
      "headers that are not installed are left out",
      {"compiler", "", "category", ""}, {"time to compile", "s", "", "lower"},
      [](const outcome& o) { return o.seconds; },
      add_charts(
          {{"-lines", "The cost of an include: lines", {"lines after the preprocessor", "", "", "lower"}, "lines"}}));
  std::vector<std::string> here;
  for (const char* one : compilers)
    if (exists(one)) here.emplace_back(one);
  std::vector<header> all = own_headers();
  std::copy_if(std::begin(peer_headers), std::end(peer_headers), std::back_inserter(all),
               [](const header& one) { return std::filesystem::exists("/usr/include/" + one.name); });
  for (const header& one : all) {
    if (!s.full() && !one.quick) continue;
    const bool own = one.family == std::string("muster");
    const contender c{.name = one.name, .family = one.family, .role = own ? "ours" : "peer"};
    const std::size_t line = made.add_line(c);
    for (const std::string& compiler : here) {
      configuration& point = made.configurations.emplace_back();
      point.line = line;
      point.x = compiler;
      point.contender = one.name;
      point.spec = {{"compiler", compiler}};
      point.fixed_items = 1;
      point.run = [compiler, name = one.name](std::uint64_t) { return include_once(compiler, name); };
    }
  }
  return made;
}

}  // namespace

std::vector<experiment> build_rows() {
  return {{"build/compile-time", "build", "", "The cost of an include", compile_times}};
}

}  // namespace muster::bench
