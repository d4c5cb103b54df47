// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// process.hpp: names of processes that a later process cannot have, and whether the named one still lives. Linux.
//
// A process number alone is used again. The number and the time at which the process began, in clock ticks since the
// machine did, are not, until the machine begins again: boot_identity() tells that.
#pragma once

#include <muster/base/config.hpp>  // MUSTER_ABI

#include <fcntl.h>     // open
#include <signal.h>    // kill
#include <sys/stat.h>  // the name space's number
#include <unistd.h>    // read

#include <algorithm>    // std::copy
#include <array>        // buffers
#include <cerrno>       // ESRCH
#include <charconv>     // the fields of /proc/…/stat
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <string_view>  // what is read

namespace muster::inline MUSTER_ABI {

/// A process: its number, and when it began. 0 is nobody.
using process_identity = std::uint64_t;

namespace detail {

inline constexpr unsigned pid_bits = 22;  // Linux has no greater numbers

/// The beginning of a file of /proc; empty when it cannot be read.
template <std::size_t Size>
std::string_view read_start(const char* path, std::array<char, Size>& into) noexcept {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t got = ::read(file, into.data(), into.size());
  ::close(file);
  return {into.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

struct process_facts {
  char state = '?';         // 'Z': dead, and its parent has not asked for it yet; or its first thread has ended
  unsigned threads = 0;     // that have not ended, and the first
  std::uint64_t began = 0;  // in ticks; 0: unknown
};

inline process_facts facts_of(pid_t pid) noexcept {
  std::array<char, 32> path{"/proc/"};
  constexpr std::string_view file = "/stat";
  char* const end = std::to_chars(path.data() + 6, path.data() + path.size() - file.size() - 1, pid).ptr;
  std::copy(file.begin(), file.end(), end);
  std::array<char, 512> buffer;
  std::string_view text = read_start(path.data(), buffer);
  // The second field is the program's name in brackets, with whatever the program likes inside.
  const std::size_t bracket = text.rfind(") ");
  if (bracket == text.npos) return {};
  text.remove_prefix(bracket + 2);
  process_facts facts;
  facts.state = text.empty() ? '?' : text.front();
  for (int field = 3; field != 22; ++field) {
    const std::size_t space = text.find(' ');
    if (space == text.npos) return {};
    text.remove_prefix(space + 1);
    if (field + 1 == 20) std::from_chars(text.data(), text.data() + text.size(), facts.threads);
  }
  std::from_chars(text.data(), text.data() + text.size(), facts.began);
  return facts;
}

}  // namespace detail

inline pid_t number_of(process_identity process) noexcept {
  return static_cast<pid_t>(process & ((process_identity{1} << detail::pid_bits) - 1));
}

inline process_identity this_process() noexcept {
  const pid_t pid = ::getpid();
  return detail::facts_of(pid).began << detail::pid_bits | static_cast<process_identity>(pid);
}

/// Whether a process of this machine and this process name space still executes. Where /proc hides it, whoever has its
/// number is taken for it.
inline bool is_alive(process_identity process) noexcept {
  const pid_t pid = number_of(process);
  if (process == 0 || (::kill(pid, 0) != 0 && errno == ESRCH)) return false;
  const detail::process_facts facts = detail::facts_of(pid);
  if (facts.state == 'X' || (facts.state == 'Z' && facts.threads <= 1)) return false;
  const std::uint64_t began = process >> detail::pid_bits;
  return facts.began == 0 || began == 0 || facts.began == began;
}

/// Whether /proc shows the processes of this one's name space, by the numbers that they have in it; or nothing.
inline bool sees_own_processes() noexcept {
  std::array<char, 32> text;
  const ssize_t length = ::readlink("/proc/self", text.data(), text.size());
  if (length <= 0) return true;
  pid_t shown = 0;
  std::from_chars(text.data(), text.data() + length, shown);
  return shown == ::getpid();
}

/// Another number after each start of the machine. 0 where the kernel does not tell.
inline std::uint64_t boot_identity() noexcept {
  std::array<char, 64> buffer;
  std::uint64_t hash = 0;
  for (const char c : detail::read_start("/proc/sys/kernel/random/boot_id", buffer))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

/// Processes of different name spaces cannot name each other: they have other numbers, or, where the clocks are others,
/// other times of birth. 0 where the kernel does not tell.
inline std::uint64_t process_name_space() noexcept {
  struct stat numbers{}, clocks{};
  if (::stat("/proc/self/ns/pid", &numbers) != 0) return 0;
  if (::stat("/proc/self/ns/time", &clocks) != 0) clocks.st_ino = 0;  // before Linux 5.6 there is one only
  return std::uint64_t{numbers.st_ino} << 32 ^ clocks.st_ino;
}

}  // namespace muster::inline MUSTER_ABI
