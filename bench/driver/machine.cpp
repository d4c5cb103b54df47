// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/machine.hpp"

#include "build_facts.hpp"  // commit, compiler and flags; written by the build
#include "driver/placement.hpp"

#include <fmt/format.h>

#include <sys/utsname.h>
#include <unistd.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace muster::bench {
namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// The value of the first line of /proc/cpuinfo that begins with `key`.
std::string cpuinfo(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return {};
}

std::string or_unknown(std::string text) { return text.empty() ? "unknown" : text; }

std::string package_version(const std::string& package) {
  const std::string command = fmt::format("dpkg-query -W -f '${{Version}}' {} 2>/dev/null", package);
  struct closer {
    void operator()(FILE* f) const { pclose(f); }
  };
  const std::unique_ptr<FILE, closer> pipe(popen(command.c_str(), "r"));
  std::array<char, 128> buffer{};
  if (pipe == nullptr || std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) == nullptr) return {};
  return buffer.data();
}

}  // namespace

double load_average() {
  double last_minute = 0;
  return getloadavg(&last_minute, 1) == 1 ? last_minute : 0;
}

nlohmann::json describe_machine() {
  utsname kernel{};
  uname(&kernel);
  const auto bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return {{"cpu", or_unknown(cpuinfo("model name"))},
          {"cores", core_count()},
          {"threads", unit_count()},
          {"usable_threads", allowed_units().size()},
          {"caches", describe_caches()},
          {"kernel", fmt::format("{} {} {}", kernel.sysname, kernel.release, kernel.machine)},
          {"governor", or_unknown(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))},
          {"memory", fmt::format("{:.1f} GiB", bytes / (1024.0 * 1024.0 * 1024.0))},
          {"virtual", cpuinfo("flags").find(" hypervisor") != std::string::npos}};
}

nlohmann::json describe_build(const catalogue& contenders) {
  nlohmann::json peers = nlohmann::json::object();
  for (const left_out& peer : compiled_peers()) peers[peer.family] = or_unknown(package_version(peer.package));
  for (const left_out& gone : contenders.missing) {
    if (!gone.package.empty()) peers[gone.family] = gone.reason;
  }
  return {{"commit", build_commit}, {"compiler", build_compiler}, {"flags", build_flags}, {"peers", peers}};
}

}  // namespace muster::bench
