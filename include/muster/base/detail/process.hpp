// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// process.hpp: unique identities of processes, tests if a process is still alive, and detection of a fork. Linux.
//
// A process number alone is reused. The number together with the start time, in clock ticks since boot, is unique until
// the machine reboots; boot_identity() detects that.
//
// Filters    a seccomp filter may forbid the calls that these functions make. Each function documents its result then.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>                // MUSTER_ABI
#include <muster/base/detail/shared_object.hpp>  // pin_shared_object

#include <fcntl.h>     // open
#include <pthread.h>   // pthread_atfork
#include <signal.h>    // kill
#include <sys/mman.h>  // madvise
#include <sys/stat.h>  // the namespace's number
#include <unistd.h>    // read

#include <algorithm>    // std::copy
#include <array>        // buffers
#include <cerrno>       // ESRCH
#include <charconv>     // the fields of /proc/…/stat
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <string_view>  // file contents

namespace muster::inline MUSTER_ABI {

/// A process: its number and its start time. 0 means no process.
using process_identity = std::uint64_t;

namespace detail {

inline constexpr unsigned pid_bits = 22;  // the limit of Linux

/// Returns the beginning of a file of /proc; empty if it cannot be read.
template <std::size_t Size>
std::string_view read_start(const char* path, std::array<char, Size>& into) noexcept {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t got = ::read(file, into.data(), into.size());
  ::close(file);
  return {into.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

struct process_facts {
  char state = '?';         // 'Z': dead and not yet reaped, or its first thread has ended
  unsigned threads = 0;     // those still running, and the first
  std::uint64_t began = 0;  // in ticks; 0: unknown
  bool missing = false;     // /proc has no such process, or hides it
};

inline process_facts facts_of(pid_t pid) noexcept {
  // That of its first thread, which says the same. QEMU's emulation of a process answers for the process's own stat by
  // itself, with another start than other processes see.
  std::array<char, 64> path{};
  char* end = path.data();
  const auto append = [&end](std::string_view part) { end = std::copy(part.begin(), part.end(), end); };
  append("/proc/");
  end = std::to_chars(end, path.data() + 24, pid).ptr;
  append("/task/");
  end = std::to_chars(end, path.data() + 48, pid).ptr;
  append("/stat");
  std::array<char, 512> buffer;
  errno = 0;
  std::string_view text = read_start(path.data(), buffer);
  if (text.empty()) return {.missing = errno == ENOENT || errno == ESRCH};
  // The second field is the program's name in parentheses, which may contain any characters.
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

/// Tells if a process has this number, without /proc. `unknown`: a filter forbids asking.
enum class existence : unsigned char { no, yes, unknown };
inline existence exists(pid_t pid) noexcept {
  if (::getpgid(pid) >= 0) return existence::yes;
  if (errno == ESRCH) return existence::no;
  if (::kill(pid, 0) == 0) return existence::yes;
  if (errno == ESRCH) return existence::no;
  // The kernel refuses to signal another user's process, which exists. A filter also refuses the caller's own group.
  return ::kill(0, 0) == 0 ? existence::yes : existence::unknown;
}

}  // namespace detail

inline pid_t number_of(process_identity process) noexcept {
  return static_cast<pid_t>(process & ((process_identity{1} << detail::pid_bits) - 1));
}

inline process_identity this_process() noexcept {
  const pid_t pid = ::getpid();
  return detail::facts_of(pid).began << detail::pid_bits | static_cast<process_identity>(pid);
}

/// An identity that no process has, with the same number: it counts as dead, or, if /proc cannot be read, until then as
/// the process of that number.
inline process_identity identity_of_none(process_identity process) noexcept {
  return process | process_identity{1} << 63U;
}

enum class liveness : unsigned char { alive, dead, unknown };

/// Tells if a process of this machine and PID namespace is alive. If /proc hides it, any process with its number is
/// taken for it. Unknown if a filter forbids getpgid(2), kill(2) and /proc.
inline liveness liveness_of(process_identity process) noexcept {
  const pid_t pid = number_of(process);
  if (process == 0) return liveness::dead;
  const detail::existence seen = detail::exists(pid);
  if (seen == detail::existence::no) return liveness::dead;
  const detail::process_facts facts = detail::facts_of(pid);
  if (facts.state == 'X' || (facts.state == 'Z' && facts.threads <= 1)) return liveness::dead;
  if (facts.began != 0) {
    const std::uint64_t began = process >> detail::pid_bits;
    return began == 0 || facts.began == began ? liveness::alive : liveness::dead;
  }
  if (seen == detail::existence::yes || pid == ::getpid()) return liveness::alive;
  // Only /proc can tell. It may hide processes of other users, and then also the first process.
  return facts.missing && detail::facts_of(1).began != 0 ? liveness::dead : liveness::unknown;
}

/// Returns false only if the process is known to be dead.
inline bool is_alive(process_identity process) noexcept { return liveness_of(process) != liveness::dead; }

/// Returns false if /proc shows the processes of another PID namespace; true if it cannot be read.
inline bool sees_own_processes() noexcept {
  std::array<char, 32> text;
  const ssize_t length = ::readlink("/proc/self", text.data(), text.size());
  if (length <= 0) return true;
  pid_t shown = 0;
  std::from_chars(text.data(), text.data() + length, shown);
  return shown == ::getpid();
}

/// Returns a number that differs after each boot; 0 if /proc cannot be read.
inline std::uint64_t boot_identity() noexcept {
  std::array<char, 64> buffer;
  std::uint64_t hash = 0;
  for (const char c : detail::read_start("/proc/sys/kernel/random/boot_id", buffer))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

/// Returns the number of this process's namespaces; 0 if /proc cannot be read. Processes of different namespaces cannot
/// identify each other: their numbers differ or, with another time namespace, their start times.
inline std::uint64_t process_name_space() noexcept {
  struct stat numbers{}, clocks{};
  if (::stat("/proc/self/ns/pid", &numbers) != 0) return 0;
  if (::stat("/proc/self/ns/time", &clocks) != 0) clocks.st_ino = 0;  // before Linux 5.6 there is only one
  return std::uint64_t{numbers.st_ino} << 32 ^ clocks.st_ino;
}

namespace detail {

// Identifies the library that contains this code, to which the handler below belongs.
extern "C" [[gnu::visibility("hidden")]] void* __dso_handle;  // NOLINT(bugprone-reserved-identifier)

}  // namespace detail

/// Returns a number that changes in a forked child. With MADV_WIPEONFORK (Linux 4.14) it also changes in children of
/// clone(2) and _Fork(), which run no handlers. It never changes if neither mechanism is available.
inline unsigned process_generation() noexcept {
  static constinit unsigned generation = 0;
  // Nonzero until the kernel gives a child a zeroed page instead.
  static volatile bool* const kept = [] {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const at = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool* made = at == MAP_FAILED ? nullptr : static_cast<bool*>(at);
    if (made != nullptr && ::madvise(at, page, MADV_WIPEONFORK) == 0) {
      *made = true;
      return made;
    }
    if (made != nullptr) ::munmap(at, page);
    pin_shared_object(static_cast<const void*>(&detail::__dso_handle));  // unloading it would remove its handlers
    ::pthread_atfork(nullptr, nullptr, [] { ++generation; });
    return static_cast<bool*>(nullptr);
  }();
  if (kept != nullptr && !*kept) [[unlikely]] {
    ++generation;  // a child has one thread
    *kept = true;
  }
  return generation;
}

}  // namespace muster::inline MUSTER_ABI
