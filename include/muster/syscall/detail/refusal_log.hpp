// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// refusal_log.hpp: reports the refused calls of a sandbox: each once, and repetitions rarely. An inside that makes very
// many refused calls cannot flood its outside's log.
//
// Progress   reports under a lock.
// Memory     at most `most_known` refusals are distinguished.
// Source     ours.
#pragma once

#include <muster/base/detail/system_abi.hpp>  // old_calls
#include <muster/base/detail/time.hpp>        // how often
#include <muster/syscall/detail/decode.hpp>   // decoded_call
#include <muster/syscall/policy.hpp>          // policy

#include <sys/syscall.h>  // SYS_clone

#include <array>          // the names
#include <cstddef>        // std::size_t
#include <cstdint>        // std::uint64_t
#include <functional>     // std::function
#include <mutex>          // the log
#include <string>         // texts
#include <unordered_map>  // the refusals reported
#include <utility>        // std::move

namespace muster::inline MUSTER_ABI {

/// A request of the code in a sandbox that was not allowed.
struct sandbox_refusal {
  std::string call;         ///< the system call
  std::string what;         ///< the path, port or number of the request
  std::string rule;         ///< the policy rule that would have allowed it; empty: none can
  std::string path;         ///< the path in that rule, not quoted; empty if it has none
  std::uint64_t times = 0;  ///< so far
};

namespace detail {

inline const char* name_of(sandbox_call call) noexcept {
  constexpr std::array<const char*, sandbox_calls> names{
      "getppid", "open",     "close",  "read",      "write",    "pread",    "pwrite",     "lseek",
      "fstat",   "stat",     "fsync",  "ftruncate", "getdents", "unlink",   "mkdir",      "rename",
      "socket",  "connect",  "bind",   "listen",    "accept",   "shutdown", "chmod",      "fchmod",
      "utimens", "futimens", "statfs", "fstatfs",   "lock",     "poll",     "system call"};
  return names[static_cast<std::size_t>(call)];
}

/// Covers the calls that programs miss most.
inline const char* name_of_system_call(std::uint64_t number) noexcept {
  switch (static_cast<long>(number)) {
    case SYS_clone: return "clone";
    case 435: return "clone3";
    case old_calls::fork: return "fork";
    case old_calls::vfork: return "vfork";
    case old_calls::poll: return "poll";
    case old_calls::select: return "select";
    case old_calls::pipe: return "pipe";
    case SYS_execve: return "execve";
    case SYS_kill: return "kill";
    case SYS_tgkill: return "tgkill";
    case SYS_ptrace: return "ptrace";
    case SYS_ppoll: return "ppoll";
    case SYS_pselect6: return "pselect6";
    case SYS_pipe2: return "pipe2";
    case SYS_epoll_create1: return "epoll_create1";
    case SYS_eventfd2: return "eventfd2";
    case SYS_ioctl: return "ioctl";
    case SYS_mount: return "mount";
    case SYS_fchmod: return "fchmod";
    case SYS_fchmodat: return "fchmodat";
    case SYS_fchown: return "fchown";
    case SYS_utimensat: return "utimensat";
    case SYS_statfs: return "statfs";
    case SYS_fstatfs: return "fstatfs";
    case SYS_truncate: return "truncate";
    case SYS_copy_file_range: return "copy_file_range";
    case SYS_dup: return "dup";
    case SYS_dup3: return "dup3";
    case SYS_flock: return "flock";
    case SYS_symlinkat: return "symlinkat";
    case SYS_linkat: return "linkat";
    case SYS_sysinfo: return "sysinfo";
    case SYS_getrusage: return "getrusage";
    case SYS_sched_getaffinity: return "sched_getaffinity";
    case SYS_getsockopt: return "getsockopt";
    case SYS_mremap: return "mremap";
    case SYS_sendto: return "sendto";
    case SYS_recvfrom: return "recvfrom";
    case SYS_sendmsg: return "sendmsg";
    case SYS_recvmsg: return "recvmsg";
    case SYS_mmap: return "mmap of this kind";
    case SYS_mprotect: return "mprotect of this kind";
    default: return nullptr;
  }
}

/// Describes a refused call to a user.
inline sandbox_refusal describe(const decoded_call& call) {
  sandbox_refusal made;
  made.call = name_of(call.what);
  const auto rule_for = [&made](const char* kind, const std::string& path) {
    const std::string word = policy::word_for(path);
    if (word.empty()) return std::string();
    made.path = path;
    return std::string(kind) + ' ' + word;
  };
  const auto directory_of = [](const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == path.npos || slash == 0 ? std::string("/") : path.substr(0, slash);
  };
  switch (call.what) {
    case sandbox_call::open:
      made.what = policy::shown(call.path);
      if ((call.flags & ~open_flags::only_read) == 0) made.rule = rule_for("read", call.path);
      else if ((call.flags & open_flags::create) != 0) made.rule = rule_for("write", directory_of(call.path));
      else made.rule = rule_for("write", call.path);
      break;
    case sandbox_call::stat:
    case sandbox_call::statfs:
      made.what = policy::shown(call.path);
      made.rule = rule_for("read", call.path);
      break;
    case sandbox_call::chmod:
    case sandbox_call::utimens:
      made.what = policy::shown(call.path);
      made.rule = rule_for("write", call.path);
      break;
    case sandbox_call::unlink:
    case sandbox_call::mkdir:
      made.what = policy::shown(call.path);
      made.rule = rule_for("write", directory_of(call.path));
      break;
    case sandbox_call::rename:
      made.what = policy::shown(call.path) + " to " + policy::shown(call.other_path);
      made.rule = rule_for("write", directory_of(call.path));
      break;
    case sandbox_call::socket: made.rule = "connect PORT, or listen PORT"; break;
    case sandbox_call::connect:
      made.what = std::to_string(call.flags);
      made.rule = "connect " + made.what;
      break;
    case sandbox_call::bind:
      made.what = std::to_string(call.flags);
      made.rule = "listen " + made.what;
      break;
    case sandbox_call::refused:
      made.what = std::to_string(call.flags);
      if (const char* const name = name_of_system_call(call.flags)) made.what += std::string(" (") + name + ')';
      break;
    default: break;
  }
  return made;
}

class refusal_log {
 public:
  using listener = std::function<void(const sandbox_refusal&)>;

  explicit refusal_log(listener tell) : tell_(std::move(tell)) {}

  void add(const decoded_call& call) {
    if (!tell_) return;
    sandbox_refusal made = describe(call);
    const std::lock_guard lock(mutex_);
    const clock::time_point now = clock::now();
    std::size_t key = key_of(made);
    auto known = known_.find(key);
    if (known == known_.end()) {
      if (known_.size() >= most_known) {  // from here on, all others together
        made.call = "others";
        made.what.clear();
        made.rule.clear();
        made.path.clear();
        key = key_of(made);
      }
      known = known_.try_emplace(key).first;
    }
    made.times = ++known->second.times;
    if (made.times != 1 && now < known->second.next) return;
    known->second.next = now + std::chrono::seconds(1);
    tell_(made);
  }

 private:
  using clock = std::chrono::steady_clock;
  static constexpr std::size_t most_known = 1024;
  static std::size_t key_of(const sandbox_refusal& one) { return std::hash<std::string>{}(one.call + ' ' + one.what); }
  struct entry {
    std::uint64_t times = 0;
    clock::time_point next{};
  };

  const listener tell_;
  std::mutex mutex_;
  std::unordered_map<std::size_t, entry> known_;  // by a hash, as paths may be long
};

}  // namespace detail
}  // namespace muster::inline MUSTER_ABI
