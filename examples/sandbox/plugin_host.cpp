// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// plugin_host.cpp: loads a plug-in within a sandbox and calls a function of it a million times in one job, then does
// the same outside and compares the digests.
//
//   plugin-host PLUGIN.so
//
// The plug-in's constructors run within the sandbox too. The calls are plain calls: only dlopen() asks the broker.

#include <muster/syscall.hpp>

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace {

constexpr std::uint64_t many = 1'000'000;

/// If dlopen() fails, its error message ends the job.
std::uint64_t digest_by(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto mix =
      reinterpret_cast<std::uint64_t (*)(std::uint64_t, std::uint64_t)>(::dlsym(library, "muster_plugin_mix"));
  if (mix == nullptr) throw std::runtime_error(::dlerror());
  std::uint64_t digest = 0;
  for (std::uint64_t n = 0; n < many; ++n) digest = mix(digest, n);
  return digest;
}

int run(const std::string& plugin) {
  muster::policy rules;
  rules.read(plugin).memory(std::size_t{256} << 20U, true);  // executable: a library's code is loaded into memory
  // The libraries that the plug-in needs, and where the loader looks them up.
  for (const char* place : {"/lib", "/lib64", "/usr/lib", "/usr/local/lib", "/etc/ld.so.cache"})
    if (std::filesystem::exists(place)) rules.read(place);

  muster::sandbox_options options;
  options.on_refusal = [](const muster::sandbox_refusal& one) {
    std::fprintf(stderr, "refused: %s %s\n", one.call.c_str(), one.what.c_str());
  };
  muster::sandbox box(rules, options);
  // `plugin` existed before the sandbox, which has a copy of the program's memory from its creation.
  const auto begin = std::chrono::steady_clock::now();
  const auto inside = box.run([path = plugin.c_str()](muster::inside&) { return digest_by(path); });
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (!inside) {
    std::fprintf(stderr, "plugin-host: %s\n", inside.why().c_str());
    return 1;
  }
  const muster::sandbox_usage used = box.usage();
  std::printf("inside:  %016llx, %llu calls of the plug-in in %.1f ms, %llu system calls\n",
              static_cast<unsigned long long>(inside.value()), static_cast<unsigned long long>(many), took.count(),
              static_cast<unsigned long long>(used.calls));

  const auto missing = box.run([](muster::inside&) { return ::dlopen("/etc/passwd", RTLD_NOW) == nullptr; });
  const std::uint64_t outside = digest_by(plugin.c_str());
  std::printf("outside: %016llx\n", static_cast<unsigned long long>(outside));
  return inside.value() == outside && missing.value() ? 0 : 1;
}

}  // namespace

int main(int count, char** words) try {
  if (count != 2) {
    std::fprintf(stderr, "usage: plugin-host PLUGIN.so\n");
    return 2;
  }
  return run(std::filesystem::canonical(words[1]).string());
} catch (const std::exception& error) {
  std::fprintf(stderr, "plugin-host: %s\n", error.what());
  return 2;
}
