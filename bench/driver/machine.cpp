// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "driver/machine.hpp"

#include "build_facts.hpp"  // commit, compiler and flags; written by the build
#include "driver/placement.hpp"

#include <fmt/format.h>

#include <sys/utsname.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

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

/// From the driver's files, which are not in every container.
std::string model_of_gpu() {
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  }
  return "a GPU";
}

}  // namespace

std::string package_version(const std::string& package) {
  if (package.empty()) return {};  // dpkg-query would list all packages
  return line_of(fmt::format("dpkg-query -W -f '${{Version}}' {}", package));
}

std::string line_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return {};
  // All of it, or the command might fail because nothing reads its output.
  std::string all;
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), pipe) != nullptr) all += buffer.data();
  return pclose(pipe) == 0 ? all.substr(0, all.find('\n')) : std::string();
}

double load_average() {
  double last_minute = 0;
  return getloadavg(&last_minute, 1) == 1 ? last_minute : 0;
}

bool has_gpu() {
  std::error_code none;
  const auto devices = std::filesystem::directory_iterator("/dev", none);
  return std::any_of(begin(devices), end(devices), [](const auto& device) {
    const std::string name = device.path().filename().string();
    return name.starts_with("nvidia") && name.size() > 6 && name[6] >= '0' && name[6] <= '9';
  });
}

const std::string& describe_gpu() {
  static const std::string found = [] {
    if (!has_gpu()) return std::string();
    const std::string told = line_of(
        "timeout 20 nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm --format=csv,noheader");
    return told.empty() ? model_of_gpu() : told;
  }();
  return found;
}

nlohmann::json describe_machine() {
  utsname kernel{};
  uname(&kernel);
  const auto bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  nlohmann::json all{{"cpu", or_unknown(cpuinfo("model name"))},
                     {"cores", core_count()},
                     {"threads", unit_count()},
                     {"usable_threads", allowed_units().size()},
                     {"caches", describe_caches()},
                     {"kernel", fmt::format("{} {} {}", kernel.sysname, kernel.release, kernel.machine)},
                     {"governor", or_unknown(first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))},
                     {"memory", fmt::format("{:.1f} GiB", bytes / (1024.0 * 1024.0 * 1024.0))},
                     {"virtual", cpuinfo("flags").find(" hypervisor") != std::string::npos}};
  if (!describe_gpu().empty()) all["gpu"] = describe_gpu();
  return all;
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
