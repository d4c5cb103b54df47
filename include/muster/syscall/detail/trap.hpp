// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// trap.hpp: system calls of code that knows nothing of a sandbox. The wall traps each of them; the handler of SIGSYS
// asks the broker, answers itself what concerns the process alone, or refuses, and the code goes on with the result.
//
// Stack      the handler runs on the stack of the caller, so a fiber may wait in it while others run and are trapped
//            themselves. It blocks no signal, allocates nothing and takes no lock.
// Fixed      the handler is set before the wall, and calls that would set another are among those that are trapped.
// Answered   here: numbers of process and user, limits, where the caller is, how a file was opened.
// Refused    processes, threads, waiting for several files, other sockets than TCP on this machine, other calls: EPERM,
//            and the broker is told.
// Source     ours.
#pragma once

#include <muster/base/program_entry.hpp>  // thread_pointer
#include <muster/base/system_abi.hpp>     // trapped_call, old_calls
#include <muster/syscall/inside.hpp>      // inside

#include <netinet/in.h>    // sockaddr_in
#include <sys/mman.h>      // mmap
#include <sys/resource.h>  // rlimit
#include <sys/socket.h>    // SOCK_STREAM
#include <sys/syscall.h>   // SYS_read
#include <sys/uio.h>       // iovec
#include <sys/utsname.h>   // uname
#include <ucontext.h>      // ucontext_t

#include <array>        // arguments
#include <bit>          // std::bit_cast
#include <cerrno>       // errno
#include <csignal>      // sigaction
#include <cstddef>      // std::byte
#include <cstdint>      // std::int64_t
#include <cstring>      // std::strlen
#include <span>         // data
#include <string_view>  // paths

namespace muster::inline MUSTER_ABI::detail {

/// One for a process. Made before the wall.
class trap {
 public:
  using arguments = trapped_call::arguments;

  /// `memory`: the kernel lets calls for memory pass that need no file.
  trap(muster::inside& calls, bool memory) noexcept : calls_(calls), memory_(memory) {
    ::uname(&system_);
    process_ = ::getpid();
    user_ = ::getuid();
    group_ = ::getgid();
    break_ = reinterpret_cast<std::uint64_t>(::sbrk(0));
    own() = this;
  }
  trap(const trap&) = delete;
  trap& operator=(const trap&) = delete;

  /// From now on, for the whole process. Returns false when the system does not take it.
  static bool listen() noexcept {
    struct sigaction how{};
    how.sa_sigaction = &on_signal;
    how.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigemptyset(&how.sa_mask);
    return ::sigaction(SIGSYS, &how, nullptr) == 0;
  }

  /// From now on, another program may run in this thread, with a thread pointer of its own.
  static void expect_another_program() noexcept { own_thread() = thread_pointer::get(); }

  /// The result, or a negative error number.
  std::int64_t answer(long number, const arguments& a);

 private:
  static trap*& own() noexcept {
    static constinit trap* one = nullptr;
    return one;
  }
  /// 0 as long as the process is this program only.
  static std::uintptr_t& own_thread() noexcept {
    static constinit std::uintptr_t one = 0;
    return one;
  }

  /// Uses nothing that is a thread's own: it may be another program's now.
  static void on_signal(int, siginfo_t* info, void* context) {
    if (own_thread() == 0) {
      handle(info, context);
      return;
    }
    const std::uintptr_t theirs = thread_pointer::get();
    thread_pointer::set(own_thread());
    handle(info, context);
    thread_pointer::set(theirs);
  }
  MUSTER_COLD static void handle(const siginfo_t* info, void* context) {
    constexpr int by_filter = 1;  // SYS_SECCOMP
    if (info->si_code != by_filter || own() == nullptr) return;
    const int error = errno;
    trapped_call call(context);
    if (info->si_syscall == SYS_rt_sigprocmask) call.set_result(set_mask(call.blocked_signals(), call.given()));
    else call.set_result(own()->answer(info->si_syscall, call.given()));
    errno = error;
  }
  /// Of the code that goes on when the handler returns. SIGSYS cannot be blocked: its next call would end the process.
  static std::int64_t set_mask(sigset_t& now, const arguments& a) noexcept {
    std::uint64_t mask = 0;
    std::memcpy(&mask, &now, sizeof mask);
    if (a[2] != 0) std::memcpy(pointer<void>(a[2]), &mask, sizeof mask);
    if (a[1] == 0) return 0;
    std::uint64_t given = 0;
    std::memcpy(&given, pointer<const void>(a[1]), sizeof given);
    switch (number(a[0])) {
      case SIG_BLOCK: mask |= given; break;
      case SIG_UNBLOCK: mask &= ~given; break;
      case SIG_SETMASK: mask = given; break;
      default: return -EINVAL;
    }
    mask &= ~(std::uint64_t{1} << (SIGSYS - 1));
    std::memcpy(&now, &mask, sizeof mask);
    return 0;
  }

  template <class T>
  static T* pointer(std::uint64_t word) noexcept {
    return std::bit_cast<T*>(word);
  }
  static std::span<std::byte> bytes(std::uint64_t at, std::uint64_t size) noexcept {
    return {pointer<std::byte>(at), size};
  }
  static int number(std::uint64_t word) noexcept { return static_cast<int>(static_cast<std::uint32_t>(word)); }

  // --- Paths: made absolute, without `.`, `..` and double slashes, as rules have them.

  class full_path {
   public:
    /// Beneath `from`, unless it is absolute.
    full_path(std::string_view from, const char* path) noexcept {
      const std::string_view given(path);
      if (given.empty()) {
        error_ = -ENOENT;
        return;
      }
      if (given[0] != '/') add(from);
      add(given);
      if (size_ == 0) text_[size_++] = '/';
    }
    int error() const noexcept { return error_; }
    std::string_view get() const noexcept { return {text_, size_}; }

   private:
    void add(std::string_view parts) noexcept {
      for (std::size_t at = 0; at < parts.size();) {
        const std::size_t end = std::min(parts.find('/', at), parts.size());
        const std::string_view part = parts.substr(at, end - at);
        at = end + 1;
        if (part.empty() || part == ".") continue;
        if (part == "..") {
          const std::size_t slash = get().rfind('/');
          size_ = slash == std::string_view::npos ? 0 : slash;
        } else if (size_ + 1 + part.size() > sizeof text_) {
          error_ = -ENAMETOOLONG;
          return;
        } else {
          text_[size_++] = '/';
          std::memcpy(text_ + size_, part.data(), part.size());
          size_ += part.size();
        }
      }
    }
    char text_[muster::inside::longest_path];
    std::size_t size_ = 0;
    int error_ = 0;
  };

  std::string_view here() const noexcept { return {directory_, directory_size_}; }

  /// Calls call(path) with the full path; `at` must be the caller's directory unless the path is absolute.
  template <class Call>
  std::int64_t with_path(std::uint64_t at, std::uint64_t path, Call call) {
    const char* const given = pointer<const char>(path);
    if (given == nullptr) return -EFAULT;
    if (number(at) != AT_FDCWD && given[0] != '/') {
      // Beneath a directory that was opened: its path is remembered.
      const opened& from = place_of(at);
      if (given[0] == '\0' || from.path_size == 0) return given[0] == '\0' ? -ENOENT : -EBADF;
      const full_path all({from.path, from.path_size}, given);
      return all.error() != 0 ? all.error() : call(all.get());
    }
    const full_path all(here(), given);
    return all.error() != 0 ? all.error() : call(all.get());
  }

  // --- How files have been opened, as the program may ask.

  struct opened {
    int flags = 0;
    std::size_t path_size = 0;  // of a directory; 0 when it is too long to be remembered
    char path[120] = {};
  };
  static constexpr std::size_t most_opened = 4096;  // as many places as a broker's table has
  /// One for a process, so that it is memory when it is used.
  static opened& place_of(std::uint64_t handle) noexcept {
    static constinit std::array<opened, most_opened> all{};
    return all[handle % most_opened];
  }

  std::int64_t open(std::uint64_t at, std::uint64_t path, int flags, unsigned mode) {
    return with_path(at, path, [&](std::string_view full) {
      const std::int64_t handle = calls_.open(full, flags, mode);
      if (handle < 0) return handle;
      opened& place = place_of(static_cast<std::uint64_t>(handle));
      place.flags = flags & (O_ACCMODE | O_APPEND);
      place.path_size = full.size() <= sizeof place.path ? full.size() : 0;
      std::memcpy(place.path, full.data(), place.path_size);
      return handle;
    });
  }
  std::int64_t stat(std::uint64_t at, std::uint64_t path, std::uint64_t to, int flags) {
    const char* const given = pointer<const char>(path);
    if ((flags & AT_EMPTY_PATH) != 0 && (given == nullptr || given[0] == '\0'))
      return calls_.fstat(number(at), *pointer<struct stat>(to));
    return with_path(at, path, [&](std::string_view full) { return calls_.stat(full, *pointer<struct stat>(to)); });
  }
  std::int64_t access(std::uint64_t at, std::uint64_t path, int how) {
    struct stat found{};
    const std::int64_t result = with_path(at, path, [&](std::string_view full) { return calls_.stat(full, found); });
    if (result != 0) return result;
    return (how & X_OK) != 0 && (found.st_mode & 0111U) == 0 ? -EACCES : 0;
  }
  /// Links are not shown: where there is something, it is none.
  std::int64_t read_link(std::uint64_t at, std::uint64_t path) {
    const std::int64_t result = access(at, path, F_OK);
    return result == 0 ? -EINVAL : result;
  }
  std::int64_t change_directory(std::uint64_t path) {
    return with_path(static_cast<std::uint64_t>(std::int64_t{AT_FDCWD}), path, [&](std::string_view full) {
      struct stat found{};
      if (const std::int64_t result = calls_.stat(full, found); result != 0) return result;
      if (!S_ISDIR(found.st_mode)) return std::int64_t{-ENOTDIR};
      std::memcpy(directory_, full.data(), full.size());
      directory_size_ = full.size();
      return std::int64_t{0};
    });
  }
  std::int64_t rename(std::uint64_t from_at, std::uint64_t from, std::uint64_t to_at, std::uint64_t to) {
    return with_path(from_at, from, [&](std::string_view one) {
      return with_path(to_at, to, [&](std::string_view other) { return calls_.rename(one, other); });
    });
  }
  std::int64_t vectors(std::uint64_t handle, std::uint64_t at, std::uint64_t many, bool writes) {
    std::int64_t done = 0;
    for (std::uint64_t i = 0; i < many; ++i) {
      const iovec& one = pointer<const iovec>(at)[i];
      if (one.iov_len == 0) continue;
      const std::span<std::byte> data(static_cast<std::byte*>(one.iov_base), one.iov_len);
      const std::int64_t now = writes ? calls_.write(number(handle), data) : calls_.read(number(handle), data);
      if (now < 0) return done != 0 ? done : now;
      done += now;
      if (static_cast<std::size_t>(now) != one.iov_len) break;
    }
    return done;
  }
  static constexpr std::uint64_t working_directory = static_cast<std::uint64_t>(std::int64_t{AT_FDCWD});

  // --- Memory.

  /// Of a file: memory without one, into which the file's bytes are read. Nothing that is written goes back.
  std::int64_t map(const arguments& a) {
    const int protection = number(a[2]), flags = number(a[3]);
    const std::int64_t handle = number(a[4]);
    if (!memory_) return -ENOMEM;
    if ((flags & MAP_ANONYMOUS) != 0) {
      // Shared memory without a file is shared with nobody here.
      if ((flags & MAP_SHARED) == 0) return refused(SYS_mmap);
      return native(SYS_mmap, {a[0], a[1], a[2], word((flags & ~MAP_SHARED_VALIDATE) | MAP_PRIVATE), a[4], a[5]});
    }
    if ((flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0) return -EACCES;
    constexpr int kept = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_NORESERVE;
    struct stat found{};
    if (const std::int64_t error = calls_.fstat(handle, found); error != 0) return error;
    const std::int64_t at = native(SYS_mmap, {a[0], a[1], word(PROT_READ | PROT_WRITE),
                                              word((flags & kept) | MAP_PRIVATE | MAP_ANONYMOUS), word(-1), 0});
    if (at < 0) return at;
    const auto offset = static_cast<std::int64_t>(a[5]);
    const std::int64_t left = found.st_size > offset ? found.st_size - offset : 0;
    const auto size = std::min(static_cast<std::size_t>(left), static_cast<std::size_t>(a[1]));
    for (std::size_t done = 0; done < size;) {
      const std::int64_t got =
          calls_.pread(handle, bytes(static_cast<std::uint64_t>(at) + done, size - done), offset + std::int64_t(done));
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    if (protection != (PROT_READ | PROT_WRITE))
      if (const std::int64_t error = native(SYS_mprotect, {static_cast<std::uint64_t>(at), a[1], a[2]}); error != 0) {
        native(SYS_munmap, {static_cast<std::uint64_t>(at), a[1]});
        return error;
      }
    return at;
  }
  static std::uint64_t word(std::int64_t n) noexcept { return static_cast<std::uint64_t>(n); }
  /// One that the wall lets pass, or traps again; then the answer to that.
  static std::int64_t native(long call, const arguments& a) noexcept {
    const long result = ::syscall(call, a[0], a[1], a[2], a[3], a[4], a[5]);
    return result == -1 ? -errno : result;
  }

  // --- TCP on this machine.

  static std::int64_t port_of(std::uint64_t address, std::uint64_t size) noexcept {
    sockaddr_in at{};
    if (size < sizeof at) return -EINVAL;
    std::memcpy(&at, pointer<const void>(address), sizeof at);
    if (at.sin_family != AF_INET) return -EAFNOSUPPORT;
    if (at.sin_addr.s_addr != htonl(INADDR_LOOPBACK)) return -EPERM;
    return ntohs(at.sin_port);
  }
  std::int64_t accept(std::uint64_t handle, std::uint64_t address, std::uint64_t size) {
    const std::int64_t made = calls_.accept(number(handle));
    if (made >= 0) place_of(word(made)).flags = O_RDWR;
    if (made < 0 || address == 0) return made;
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto& room = *pointer<socklen_t>(size);
    std::memcpy(pointer<void>(address), &from, std::min<std::size_t>(room, sizeof from));
    room = sizeof from;
    return made;
  }

  std::int64_t control(std::uint64_t handle, int command, std::uint64_t) {
    switch (command) {
      case F_GETFD: return FD_CLOEXEC;
      case F_SETFD:
      case F_SETFL: return 0;
      case F_GETFL: return handle < 3 ? O_RDWR : place_of(handle).flags;
      default: return -EINVAL;
    }
  }
  std::int64_t limit(std::uint64_t which, std::uint64_t set, std::uint64_t get) const {
    if (set != 0) return -EPERM;
    if (get != 0) {
      constexpr rlim_t usual_stack = rlim_t{8} << 20U;
      const rlim_t most = which == RLIMIT_STACK ? usual_stack : which == RLIMIT_NOFILE ? most_opened : RLIM_INFINITY;
      *pointer<rlimit>(get) = {most, most};
    }
    return 0;
  }
  std::int64_t refused(std::uint64_t call) { return calls_.refuse(call); }

  muster::inside& calls_;
  const bool memory_;
  utsname system_{};
  std::int64_t process_ = 0, user_ = 0, group_ = 0;
  std::uint64_t break_ = 0;
  char directory_[muster::inside::longest_path] = "/";
  std::size_t directory_size_ = 1;
};

inline std::int64_t trap::answer(long call, const arguments& a) {
  switch (call) {
    // Files.
    case SYS_read: return calls_.read(number(a[0]), bytes(a[1], a[2]));
    case SYS_write: return calls_.write(number(a[0]), bytes(a[1], a[2]));
    case SYS_pread64: return calls_.pread(number(a[0]), bytes(a[1], a[2]), static_cast<std::int64_t>(a[3]));
    case SYS_pwrite64: return calls_.pwrite(number(a[0]), bytes(a[1], a[2]), static_cast<std::int64_t>(a[3]));
    case SYS_readv: return vectors(a[0], a[1], a[2], false);
    case SYS_writev: return vectors(a[0], a[1], a[2], true);
    case SYS_openat: return open(a[0], a[1], number(a[2]), static_cast<unsigned>(a[3]));
    case SYS_close: return calls_.close(number(a[0]));
    case SYS_lseek: return calls_.lseek(number(a[0]), static_cast<std::int64_t>(a[1]), number(a[2]));
    case SYS_fstat: return calls_.fstat(number(a[0]), *pointer<struct stat>(a[1]));
    case SYS_newfstatat: return stat(a[0], a[1], a[2], number(a[3]));
    case SYS_fsync:
    case SYS_fdatasync: return calls_.fsync(number(a[0]));
    case SYS_ftruncate: return calls_.ftruncate(number(a[0]), static_cast<std::int64_t>(a[1]));
    case SYS_getdents64: return calls_.getdents(number(a[0]), bytes(a[1], a[2]));
    case SYS_unlinkat:
      return with_path(a[0], a[1], [&](std::string_view path) {
        return (number(a[2]) & AT_REMOVEDIR) != 0 ? calls_.rmdir(path) : calls_.unlink(path);
      });
    case SYS_mkdirat:
      return with_path(a[0], a[1],
                       [&](std::string_view path) { return calls_.mkdir(path, static_cast<unsigned>(a[2])); });
    case SYS_renameat2:
      if (a[4] != 0) return -EINVAL;
      return rename(a[0], a[1], a[2], a[3]);
    case SYS_faccessat:
    case 439: return access(a[0], a[1], number(a[2]));  // faccessat2
    case SYS_readlinkat: return read_link(a[0], a[1]);
    case SYS_chdir: return change_directory(a[0]);
    case SYS_getcwd:
      if (a[1] < directory_size_ + 1) return -ERANGE;
      std::memcpy(pointer<char>(a[0]), directory_, directory_size_);
      pointer<char>(a[0])[directory_size_] = '\0';
      return static_cast<std::int64_t>(directory_size_ + 1);
    case SYS_umask: return 022;
    case SYS_ioctl: return -ENOTTY;
    case SYS_fcntl: return control(a[0], number(a[1]), a[2]);
    case SYS_fadvise64: return 0;
    case SYS_statx:
    case 435: return -ENOSYS;  // clone3: the C library tries clone then, and fails cleanly
    case old_calls::open: return open(working_directory, a[0], number(a[1]), static_cast<unsigned>(a[2]));
    case old_calls::creat:
      return open(working_directory, a[0], O_WRONLY | O_CREAT | O_TRUNC, static_cast<unsigned>(a[1]));
    case old_calls::stat:
    case old_calls::lstat: return stat(working_directory, a[0], a[1], 0);
    case old_calls::access: return access(working_directory, a[0], number(a[1]));
    case old_calls::readlink: return read_link(working_directory, a[0]);
    case old_calls::unlink:
      return with_path(working_directory, a[0], [&](std::string_view path) { return calls_.unlink(path); });
    case old_calls::rmdir:
      return with_path(working_directory, a[0], [&](std::string_view path) { return calls_.rmdir(path); });
    case old_calls::mkdir:
      return with_path(working_directory, a[0],
                       [&](std::string_view path) { return calls_.mkdir(path, static_cast<unsigned>(a[1])); });
    case old_calls::rename: return rename(working_directory, a[0], working_directory, a[1]);
    case old_calls::renameat: return rename(a[0], a[1], a[2], a[3]);
    case old_calls::getrlimit: return limit(a[0], 0, a[1]);
    case old_calls::getpgrp: return process_;

    // Memory. What is allowed does not come here.
    case SYS_brk: return static_cast<std::int64_t>(break_);  // an error number would be taken for an address
    case SYS_mmap: return map(a);
    case SYS_munmap:
    case SYS_madvise: return memory_ ? refused(static_cast<std::uint64_t>(call)) : 0;
    case SYS_mremap: return -ENOMEM;
    case SYS_mprotect: return -EACCES;

    // TCP on this machine.
    case SYS_socket: {
      constexpr int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
      if (a[0] != AF_INET || (number(a[1]) & ~flags) != SOCK_STREAM) return refused(SYS_socket);
      if ((number(a[1]) & SOCK_NONBLOCK) != 0) return refused(SYS_socket);
      const std::int64_t made = calls_.socket();
      if (made >= 0) place_of(word(made)).flags = O_RDWR;
      return made;
    }
    case SYS_connect:
    case SYS_bind: {
      const std::int64_t port = port_of(a[1], a[2]);
      if (port < 0) return port;
      const auto to = static_cast<std::uint16_t>(port);
      return call == SYS_connect ? calls_.connect(number(a[0]), to) : calls_.bind(number(a[0]), to);
    }
    case SYS_listen: return calls_.listen(number(a[0]), static_cast<unsigned>(a[1]));
    case SYS_accept:
    case SYS_accept4: return accept(a[0], a[1], a[2]);
    case SYS_shutdown: return calls_.shutdown(number(a[0]), number(a[1]));
    case SYS_setsockopt: return 0;  // how fast, and such; nothing that changes what is sent
    case SYS_sendto:
      if (a[4] != 0 || (number(a[3]) & ~MSG_NOSIGNAL) != 0) return refused(SYS_sendto);
      return calls_.write(number(a[0]), bytes(a[1], a[2]));
    case SYS_recvfrom:
      if (a[4] != 0 || number(a[3]) != 0) return refused(SYS_recvfrom);
      return calls_.read(number(a[0]), bytes(a[1], a[2]));

    // The process.
    case SYS_getpid:
    case SYS_gettid:
    case SYS_set_tid_address: return process_;
    case SYS_getppid: return calls_.getppid();
    case SYS_getuid:
    case SYS_geteuid: return user_;
    case SYS_getgid:
    case SYS_getegid: return group_;
    case SYS_uname: return *pointer<utsname>(a[0]) = system_, 0;
    case SYS_prlimit64: return limit(a[1], a[2], a[3]);
    case SYS_set_robust_list: return 0;
    case SYS_rseq: return -ENOSYS;
    case SYS_prctl:
    case old_calls::arch_prctl: return -EINVAL;
    case SYS_rt_sigaction: return -EPERM;  // of SIGSYS
    case SYS_nanosleep: return native(SYS_clock_nanosleep, {CLOCK_REALTIME, 0, a[0], a[1], 0, 0});
    default: return refused(static_cast<std::uint64_t>(call));
  }
}

}  // namespace muster::inline MUSTER_ABI::detail
