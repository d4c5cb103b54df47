// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// muster-sandbox: runs a program that it does not trust. The program makes no system calls; a policy says what is done
// for it.
#include <muster/syscall.hpp>

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

namespace fs = std::filesystem;
using muster::policy;
using muster::sandbox_end;
using muster::sandbox_refusal;

/// Of the command itself, where the program's own status would be misleading: as env, nice and the like have them.
enum status : int { failed = 125, not_executable = 126, not_found = 127, by_signal = 128 };

/// The policy of a program without one: it may read everything that the system has installed, and gets memory.
constexpr std::string_view default_policy =
    "read /usr\n"
    "write /dev/null\n"
    "memory 1G executable\n";

policy read_policy(const std::string& file) {
  if (file.empty()) return policy::parse(default_policy, "the default policy");
  std::ifstream in(file, std::ios::binary);
  if (!in || fs::is_directory(file))
    throw std::runtime_error("cannot read the policy " + file + "; name a readable file");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return policy::parse(text, file);
}

/// Passed on without being named. HOME, besides, is "/": the program need not know the user's.
bool is_harmless(std::string_view name) {
  return name == "PATH" || name == "LANG" || name == "TERM" || name.starts_with("LC_");
}

/// The environment of the program: the harmless variables of this one, and named ones. A later NAME or NAME=VALUE
/// replaces an earlier one.
std::vector<std::string> environment_of(const std::vector<std::string>& named) {
  std::map<std::string, std::string> all{{"HOME", "/"}};
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable(*one);
    const std::size_t end = variable.find('=');
    if (end != variable.npos && is_harmless(variable.substr(0, end)))
      all[std::string(variable.substr(0, end))] = variable.substr(end + 1);
  }
  for (const std::string& one : named) {
    const std::size_t end = one.find('=');
    if (one.empty() || end == 0 || one[0] == '-')
      throw std::runtime_error("--env '" + one + "' has no name; write --env NAME, or --env NAME=VALUE");
    if (end != one.npos) {
      all[one.substr(0, end)] = one.substr(end + 1);
    } else if (const char* const value = std::getenv(one.c_str()); value != nullptr) {
      all[one] = value;
    } else {
      all.erase(one);
    }
  }
  std::vector<std::string> made;
  for (const auto& [name, value] : all) made.push_back(name + '=' + value);
  return made;
}

/// Where the shell would find it.
std::string found(const std::string& program) {
  if (program.find('/') != program.npos) return fs::absolute(program).string();
  const char* const path = std::getenv("PATH");
  const std::string all = path != nullptr ? path : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= all.size();) {
    const std::size_t end = std::min(all.find(':', at), all.size());
    const fs::path here = fs::path(all.substr(at, end - at)) / program;
    if (::access(here.c_str(), X_OK) == 0 && fs::is_regular_file(here)) return fs::absolute(here).string();
    at = end + 1;
  }
  return program;
}

/// The refusals, for a person and as rules.
class refusals {
 public:
  refusals(bool learns, const std::string& log) : learns_(learns) {
    if (log.empty()) return;
    log_.reset(std::fopen(log.c_str(), "w"));
    if (log_ == nullptr)
      throw std::runtime_error("cannot write the log " + log + "; name a file in a writable directory");
  }
  void add(const sandbox_refusal& one) {
    const std::lock_guard lock(mutex_);
    if (log_ != nullptr) {
      std::fprintf(log_.get(), "%s %s%s%s (%llu in all)\n", one.call.c_str(), one.what.c_str(),
                   one.rule.empty() ? "" : ": ", one.rule.c_str(), static_cast<unsigned long long>(one.times));
      std::fflush(log_.get());
    }
    if (one.rule.empty()) {
      if (one.times == 1) calls_.insert(one.call + ' ' + one.what);
    } else {
      rules_.emplace(one.rule, one.path);
    }
  }
  /// Rules that would have changed something: of what is there.
  void tell() const {
    if (!learns_) return;
    std::fprintf(stderr, "# rules that would have allowed the refused calls:\n");
    for (const auto& [rule, path] : rules_) {
      std::error_code error;  // of a path that is too long, say
      if (path.empty() || fs::exists(path, error)) std::fprintf(stderr, "%s\n", rule.c_str());
    }
    for (const std::string& call : calls_) std::fprintf(stderr, "# no rule allows: %s\n", call.c_str());
  }

 private:
  struct close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const bool learns_;
  std::mutex mutex_;
  std::map<std::string, std::string> rules_;  // and the path in each
  std::set<std::string> calls_;
  std::unique_ptr<std::FILE, close> log_;
};

struct arguments {
  std::string policy, log;
  bool learns = false, is_quiet = false;
  std::vector<std::string> environment;
  std::vector<std::string> program;
};

int run(const arguments& given) {
  policy rules = read_policy(given.policy);
  refusals told(given.learns, given.log);
  muster::sandbox_options options;
  options.standard_streams = true;
  options.on_refusal = [&told](const sandbox_refusal& one) { told.add(one); };
  muster::sandbox_program program;
  program.path = found(given.program.front());
  if (!fs::exists(program.path)) {
    std::fprintf(stderr, "muster-sandbox: there is no program %s; name a file, or a program in PATH\n",
                 program.path.c_str());
    return not_found;
  }
  if (fs::is_directory(program.path)) {
    std::fprintf(stderr, "muster-sandbox: %s is a directory; name a program\n", program.path.c_str());
    return not_executable;
  }
  const std::string path = fs::canonical(program.path).string();
  program.arguments = given.program;
  program.directory = fs::current_path().string();
  program.environment = environment_of(given.environment);
  muster::sandbox box(std::move(rules), std::move(program), std::move(options));
  if (!given.is_quiet)
    for (const std::string& layer : box.missing_layers())
      std::fprintf(stderr, "muster-sandbox: without a second line of defence (%s)\n", layer.c_str());
  const sandbox_end how = box.wait();
  box.stop();
  told.tell();
  switch (how.why) {
    case sandbox_end::reason::exited: return how.code;
    case sandbox_end::reason::not_loaded:
      std::fprintf(stderr, "muster-sandbox: %s: %s\n", path.c_str(), how.text().c_str());
      return not_executable;
    case sandbox_end::reason::by_signal:
      std::fprintf(stderr, "muster-sandbox: %s\n", how.text().c_str());
      return by_signal + how.code;
    default: std::fprintf(stderr, "muster-sandbox: %s\n", how.text().c_str()); return failed;
  }
}

void explain(const policy& rules) {
  if (rules.places().empty()) std::printf("No file can be opened.\n");
  for (const policy::place& one : rules.places()) {
    const bool is_directory = one.name().empty(), may_write = one.may() == policy::access::write;
    std::printf("%s %s can be %s.\n", is_directory ? "Everything beneath" : "The file", one.path().c_str(),
                !may_write     ? "read"
                : is_directory ? "read, changed, made and removed"
                               : "read and changed");
  }
  for (const auto port : rules.connects()) std::printf("It can connect to port %u of this machine.\n", unsigned{port});
  for (const auto port : rules.listens()) std::printf("It can listen at port %u of this machine.\n", unsigned{port});
  if (rules.connects().empty() && rules.listens().empty()) std::printf("It has no network.\n");
  if (rules.memory())
    std::printf("It gets %zu bytes of memory, which %s be executed.\n", *rules.memory(),
                rules.executable() ? "can" : "cannot");
  else std::printf("It gets no memory beyond its first.\n");
  if (rules.disk()) std::printf("Its files can take %zu bytes on disk.\n", *rules.disk());
  std::printf("It can have %u files open at once.\n", rules.files());
  if (rules.time())
    std::printf("It is ended after %u seconds of processor time, of its own and of its broker together.\n",
                *rules.time());
  std::printf("A call that is not allowed %s.\n",
              rules.on_refusal() == policy::refusal::kill ? "ends it" : "fails with EPERM");
}

}  // namespace

int main(int argc, char** argv) try {
  arguments given;
  CLI::App app("Runs a program without system calls; a broker executes the calls that a policy allows.");
  app.require_subcommand(1);
  CLI::App* const running = app.add_subcommand("run", "run a program: muster-sandbox run [OPTIONS] -- PROGRAM ARG...");
  running->add_option("--policy", given.policy,
                      "a file of rules; without it: read /usr, write /dev/null, and 1 GiB of memory");
  running->add_flag("--learn", given.learns, "print the rules that would have allowed the refused calls");
  running->add_option("--log", given.log, "a file to which refusals are written as they happen");
  running
      ->add_option("--env", given.environment,
                   "a variable of the environment for the program, NAME or NAME=VALUE; may be repeated. Without it: "
                   "PATH, LANG, LC_* and TERM, and HOME=/")
      ->allow_extra_args(false);
  running->add_flag("--quiet", given.is_quiet, "do not print which second lines of defence are missing");
  running->add_option("PROGRAM", given.program, "and its arguments")->required();
  CLI::App* const checking = app.add_subcommand("check", "check a policy for mistakes");
  checking->add_option("FILE", given.policy, "of rules")->required();
  CLI::App* const explaining = app.add_subcommand("explain", "describe what a policy allows");
  explaining->add_option("FILE", given.policy, "of rules; without it: the default policy");
  try {
    // Otherwise the parser asks for a command, without the word that it does not know.
    const std::string first = argc > 1 ? argv[1] : "";
    if (!first.empty() && first[0] != '-' && first != running->get_name() && first != checking->get_name() &&
        first != explaining->get_name())
      throw std::runtime_error("there is no command '" + first + "'; use run, check or explain");
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : failed;
  }
  if (running->parsed()) return run(given);
  const policy rules = read_policy(given.policy);
  if (explaining->parsed()) explain(rules);
  else std::printf("%s: no mistakes\n", given.policy.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "muster-sandbox: %s\n", error.what());
  return failed;
}
