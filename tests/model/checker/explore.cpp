// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// explore.cpp: see explore.hpp.
#include "checker/explore.hpp"

#include "checker/search.hpp"
#include "checker/trace.hpp"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace muster_model {

namespace {

void check(const limits& within) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument("muster_model: " + why); };
  if (within.executions == 0) refuse("0 executions find nothing; ask for 1 or more");
  if (within.steps < 10)
    refuse(std::to_string(within.steps) + " steps are not enough for any program; ask for 10 or more");
  if (within.preemptions < -1) refuse("the bound on preemptions is -1 for none, or 0 and more");
  if (within.stale < -1) refuse("the bound on stale reads is -1 for none, or 0 and more");
  if (within.how != strategy::exhaustive && within.preemptions >= 0)
    refuse("a bound on preemptions goes with the exhaustive strategy; leave it at -1");
  if (within.depth == 0 || within.depth > 16) refuse("a depth of 1 to 16 makes sense");
  if (within.freeze >= static_cast<int>(most_threads))
    refuse("thread " + std::to_string(within.freeze) + " cannot stop: there are " + std::to_string(most_threads));
}

/// The limit set in the environment, see explore().
std::uint64_t most_executions() {
  const char* const text = std::getenv("MUSTER_MODEL_EXECUTIONS");
  if (text == nullptr) return std::numeric_limits<std::uint64_t>::max();
  const std::string_view said = text;
  std::uint64_t most = 0;
  if (const auto [end, error] = std::from_chars(said.data(), said.data() + said.size(), most);
      error != std::errc() || end != said.data() + said.size() || most == 0)
    throw std::invalid_argument("MUSTER_MODEL_EXECUTIONS is \"" + std::string(said) +
                                "\"; a number from 1 on is wanted");
  return most;
}

void prepare(engine& runs, const limits& within, const mutation* m) {
  runs.limit_steps(within.steps);
  runs.freeze(within.freeze);
  runs.mutate(m);
}

/// Takes away decisions while the program still fails in the same way.
decisions shrink(engine& runs, const limits& within, decisions path, const std::string& what,
                 const std::function<void()>& program) {
  unsigned attempts_left = 2000;
  const auto fails_with = [&](const decisions& candidate) {
    if (attempts_left == 0) return false;
    --attempts_left;
    repeating again(within, candidate);
    return runs.execute(again, program) == what;
  };
  for (std::size_t chunk = path.size(); chunk != 0; chunk /= 2) {
    for (std::size_t at = 0; at < path.size();) {
      decisions fewer = path;
      const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(at);
      const auto last = fewer.begin() + static_cast<std::ptrdiff_t>(std::min(at + chunk, path.size()));
      fewer.erase(first, last);
      if (fails_with(fewer)) {
        path = std::move(fewer);
      } else {
        at += chunk;
      }
    }
  }
  return path;
}

failure explain(engine& runs, const limits& within, const decisions& path, const std::string& what,
                const std::function<void()>& program) {
  failure f{what, shrink(runs, within, path, what, program), {}};
  runs.trace_steps(true);
  repeating again(within, f.path);
  const std::string now = runs.execute(again, program);
  runs.trace_steps(false);
  f.trace = format_trace(runs.trace()) + (now == what ? ""
                                                      : "(the repetition did not fail in the same way: " + now +
                                                            "; is the program deterministic?)\n");
  return f;
}

std::uint64_t build_number() {
  static const std::uint64_t number = [] {
    std::ifstream self("/proc/self/exe", std::ios::binary);
    std::uint64_t hash = 14695981039346656037U;
    char block[1 << 16];
    while (self.read(block, sizeof block), self.gcount() != 0)
      for (std::streamsize i = 0; i < self.gcount(); ++i)
        hash = (hash ^ static_cast<unsigned char>(block[i])) * 1099511628211U;
    return hash;
  }();
  return number;
}

template <class Number>
std::string in_base(Number n, int base) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, n, base).ptr};
}

/// While it lives, a bad address that a program uses is a failure of that program like any other.
class bad_addresses {
 public:
  bad_addresses() {
    struct sigaction caught{};
    caught.sa_handler = [](int) {
      if (!engine::is_running()) ::abort();
      engine::running().fail("a bad address is used");
    };
    caught.sa_flags = SA_NODEFER;  // the handler does not return: the execution is left where it is
    ::sigaction(SIGSEGV, &caught, &segv_);
    ::sigaction(SIGBUS, &caught, &bus_);
  }
  ~bad_addresses() {
    ::sigaction(SIGSEGV, &segv_, nullptr);
    ::sigaction(SIGBUS, &bus_, nullptr);
  }
  bad_addresses(const bad_addresses&) = delete;
  bad_addresses& operator=(const bad_addresses&) = delete;

 private:
  struct sigaction segv_{};
  struct sigaction bus_{};
};

}  // namespace

result explore(const limits& within, const std::function<void()>& program, const mutation* m) {
  check(within);
  const std::uint64_t most = std::min(within.executions, most_executions());
  const bad_addresses caught;
  engine runs;
  prepare(runs, within, m);
  result r;
  const auto run = [&](recording_scheduler& by) {
    const std::string what = runs.execute(by, program);
    ++r.executions;
    r.steps += runs.steps();
    r.abandoned += runs.abandoned();
    if (what.empty()) return true;
    r.failed = explain(runs, within, by.path(), what, program);
    return false;
  };
  if (within.how == strategy::exhaustive) {
    exhaustive all(within);
    do {
      if (!run(all)) break;
      r.complete = !all.next();
    } while (!r.complete && r.executions < most);
  } else {
    by_chance some(within, within.seed * 0x9e3779b97f4a7c15U);
    do some.next();
    while (run(some) && r.executions < most);
  }
  r.longest_operations = runs.longest_operations();
  r.cut = !r.failed && !r.complete && most < within.executions;
  return r;
}

std::optional<failure> replay(const limits& within, const decisions& path, const std::function<void()>& program,
                              const mutation* m) {
  check(within);
  const bad_addresses caught;
  engine runs;
  prepare(runs, within, m);
  runs.trace_steps(true);
  repeating again(within, path);
  const std::string what = runs.execute(again, program);
  if (what.empty()) return std::nullopt;
  return failure{what, path, format_trace(runs.trace())};
}

std::vector<operation_site> operations_of(const limits& within, const std::function<void()>& program) {
  check(within);
  std::vector<operation_site> sites;
  const bad_addresses caught;
  engine runs;
  prepare(runs, within, nullptr);
  runs.collect_sites(&sites);
  by_chance some(within, within.seed * 0x9e3779b97f4a7c15U);
  for (std::uint64_t i = 0; i < within.executions; ++i) {
    some.next();
    if (!runs.execute(some, program).empty()) break;
  }
  std::sort(sites.begin(), sites.end());
  return sites;
}

std::string write_replay(const std::string& name, const decisions& path) {
  std::string line = name + "@" + in_base(build_number(), 36);
  for (const auto& [number, taken] : path) line += ":" + in_base(number, 10) + "." + in_base(taken, 10);
  return line;
}

std::pair<std::string, decisions> read_replay(const std::string& line) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("muster_model: \"" + line + "\" cannot be replayed: " + why);
  };
  const std::size_t at = line.rfind('@');
  if (at == std::string::npos || at == 0)
    refuse("a replay line is NAME@BUILD:NUMBER.DECISION:..., as a failure prints it");
  std::size_t position = line.find(':', at);
  const std::string build = line.substr(at + 1, position == std::string::npos ? position : position - at - 1);
  if (build != in_base(build_number(), 36))
    refuse("it is of build " + build + ", and this is build " + in_base(build_number(), 36) +
           "; run the test again to get a new line");
  decisions path;
  while (position != std::string::npos) {
    std::pair<std::uint32_t, std::uint32_t> decision;
    const char* const end = line.data() + line.size();
    const auto number = std::from_chars(line.data() + position + 1, end, decision.first);
    if (number.ec != std::errc{} || number.ptr == end || *number.ptr != '.')
      refuse("no decision at character " + std::to_string(position + 1));
    const auto taken = std::from_chars(number.ptr + 1, end, decision.second);
    if (taken.ec != std::errc{} || (taken.ptr != end && *taken.ptr != ':'))
      refuse("no decision at character " + std::to_string(position + 1));
    path.push_back(decision);
    position = taken.ptr == end ? std::string::npos : static_cast<std::size_t>(taken.ptr - line.data());
  }
  return {line.substr(0, at), path};
}

}  // namespace muster_model
