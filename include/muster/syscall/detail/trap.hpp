// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// trap.hpp: system calls of code that is unaware of the sandbox. The wall traps each of them. The handler of SIGSYS
// asks the broker, answers calls that concern only the process, or refuses. The code then continues with the result.
//
// Stack      the handler runs on the caller's stack, so a fiber may wait in it while others run and are trapped in
//            turn. It blocks no signal, allocates nothing and takes no lock.
// Signals    of another program wait until the call has ended: the handler has changed the thread pointer, and the
//            program's own handlers would find this program's thread-local data. A fault in the handler, by a bad
//            address that the program has given, ends the process.
// Fixed      the handler is set before the wall is raised; calls that would replace it are trapped.
// Answered   here: process and user ids, limits, the working directory, the flags of open files.
// Refused    processes, threads, sockets other than TCP on this machine, and other calls: EPERM, and the broker is
//            informed.
// Source     ours.
#pragma once

#include <muster/base/detail/program_entry.hpp>  // thread_pointer
#include <muster/base/detail/system_abi.hpp>     // trapped_call, old_calls
#include <muster/syscall/inside.hpp>             // inside

#include <netinet/in.h>    // sockaddr_in
#include <netinet/tcp.h>   // TCP_NODELAY
#include <poll.h>          // pollfd
#include <sched.h>         // cpu_set_t
#include <sys/file.h>      // LOCK_SH
#include <sys/mman.h>      // mmap
#include <sys/resource.h>  // rlimit
#include <sys/select.h>    // fd_set
#include <sys/socket.h>    // SOCK_STREAM
#include <sys/syscall.h>   // SYS_read
#include <sys/time.h>      // timeval
#include <sys/uio.h>       // iovec
#include <sys/utsname.h>   // uname
#include <ucontext.h>      // ucontext_t

#include <algorithm>    // std::min
#include <array>        // arguments
#include <bit>          // std::bit_cast
#include <cerrno>       // errno
#include <csignal>      // sigaction
#include <cstddef>      // std::byte
#include <cstdint>      // std::int64_t
#include <cstring>      // std::strlen
#include <ctime>        // timespec
#include <limits>       // numbers that are none
#include <span>         // data
#include <string_view>  // paths

namespace muster::inline MUSTER_ABI::detail {

/// One per process, created before the wall is raised.
class trap {
 public:
  using arguments = trapped_call::arguments;

  /// `memory`: the kernel permits memory calls that need no file.
  trap(muster::inside& calls, bool memory, std::string_view directory = "/") noexcept
      : calls_(calls), memory_(memory), directory_size_(std::min(directory.size(), sizeof directory_)) {
    std::memcpy(directory_, directory.data(), directory_size_);
    ::uname(&system_);
    process_ = ::getpid();
    user_ = ::getuid();
    group_ = ::getgid();
    break_ = reinterpret_cast<std::uint64_t>(::sbrk(0));
    const long bytes = ::syscall(SYS_sched_getaffinity, 0, sizeof processors_, &processors_);
    processor_bytes_ = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
    own() = this;
  }
  trap(const trap&) = delete;
  trap& operator=(const trap&) = delete;

  /// Installs the handler for the whole process, for another program if one is to run in it. Returns false if the
  /// system rejects it.
  static bool listen(bool another_program) noexcept {
    struct sigaction how{};
    how.sa_sigaction = &on_signal;
    how.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigemptyset(&how.sa_mask);
    if (another_program) {
      // There are no fibers, to which the mask would apply too. The handler's own calls may be trapped.
      ::sigfillset(&how.sa_mask);
      ::sigdelset(&how.sa_mask, SIGSYS);
    }
    return ::sigaction(SIGSYS, &how, nullptr) == 0;
  }

  /// Call before another program runs in this thread, with its own thread pointer.
  static void expect_another_program() noexcept { own_thread() = thread_pointer::get(); }

  /// Returns the result, or a negative error number.
  std::int64_t answer(long number, const arguments& a);

 private:
  static trap*& own() noexcept {
    static constinit trap* one = nullptr;
    return one;
  }
  /// 0 while the process runs only this program.
  static std::uintptr_t& own_thread() noexcept {
    static constinit std::uintptr_t one = 0;
    return one;
  }

  /// Uses no thread-local data: the thread pointer may be another program's.
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
  /// Sets the signal mask of the code that continues after the handler. SIGSYS cannot be blocked: its next call would
  /// end the process.
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

  // --- Paths: made absolute, without `.`, `..` and double slashes, as in rules.

  class full_path {
   public:
    /// Resolves `path` beneath `from`, unless it is absolute.
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

  /// Calls call(path) with the full path; a relative one is resolved from the directory `at`.
  template <class Call>
  std::int64_t with_path(std::uint64_t at, std::uint64_t path, Call call) {
    const char* const given = pointer<const char>(path);
    if (given == nullptr) return -EFAULT;
    if (number(at) != AT_FDCWD && given[0] != '/') {
      // Beneath an opened directory: its path is recorded.
      const opened& from = record_of(file(at));
      if (given[0] == '\0' || from.path_size == 0) return given[0] == '\0' ? -ENOENT : -EBADF;
      const full_path all({from.path, from.path_size}, given);
      return all.error() != 0 ? all.error() : call(all.get());
    }
    const full_path all(here(), given);
    return all.error() != 0 ? all.error() : call(all.get());
  }

  // --- How files were opened, for programs that ask.

  struct opened {
    std::int64_t handle = 0;
    int flags = 0;
    std::uint16_t names = 0;      // given by dup, besides its own number
    bool hidden = false;          // its own number has been closed, or names another handle
    std::uint16_t path_size = 0;  // 0 if it is too long to record
    char path[106] = {};
  };
  static constexpr std::size_t most_opened = 4096;  // as many places as a broker's table has
  /// One array per process, so it takes memory only when touched.
  static opened& place_of(std::uint64_t handle) noexcept {
    static constinit std::array<opened, most_opened> all{};
    return all[handle % most_opened];
  }

  static opened& record_of(std::int64_t handle) noexcept {
    opened& here = place_of(static_cast<std::uint64_t>(handle));
    if (here.handle != handle) here = {handle};
    return here;
  }

  // --- Numbers. A broker's handle is its own number unless it is large, or dup has given it another or taken its own
  // away.

  static constexpr std::uint64_t names_end = most_opened;
  static constexpr std::uint64_t first_name = 960, last_name = FD_SETSIZE - 1;  // range for numbers chosen here
  /// For each number the handle that dup has given it, plus one; 0: none.
  static std::uint32_t& name(std::uint64_t number) noexcept {
    static constinit std::array<std::uint32_t, names_end> all{};
    return all[number];
  }
  static bool is_name(std::int64_t number) noexcept {
    return number >= 0 && number < std::int64_t{names_end} && name(word(number)) != 0;
  }
  /// Returns the handle for a number of the program; -1, which no broker knows, if it is closed.
  static std::int64_t file(std::uint64_t given) noexcept {
    const std::int64_t one = number(given);
    if (is_name(one)) return std::int64_t{name(word(one))} - 1;
    if (one < 0) return -1;
    const opened& here = place_of(word(one));
    return here.handle == one && here.hidden ? -1 : one;
  }
  static void add_name(std::uint64_t number, std::int64_t handle) noexcept {
    name(number) = static_cast<std::uint32_t>(handle) + 1;
    ++record_of(handle).names;
  }
  /// Returns the number for a new handle.
  std::int64_t named(std::int64_t handle, int flags, std::string_view path = {}) {
    if (handle < 0) return handle;
    opened& here = place_of(word(handle));
    here = {handle, flags};
    if (path.size() <= sizeof here.path) {
      std::memcpy(here.path, path.data(), path.size());
      here.path_size = static_cast<std::uint16_t>(path.size());
    }
    if (handle < std::int64_t{names_end} && !is_name(handle)) return handle;
    // The broker's numbers grow with each use of a place; the program gets the place's number, which fits into an
    // fd_set. Exceptions: dup2 has taken that number, or it is one of the standard streams.
    here.hidden = true;
    const std::uint64_t place = word(handle) % most_opened;
    if (place < 3 || name(place) != 0) return name_from(first_name, handle);
    return add_name(place, handle), static_cast<std::int64_t>(place);
  }
  std::int64_t name_from(std::uint64_t least, std::int64_t handle) {
    for (std::uint64_t free = std::max(least, first_name); free <= last_name; ++free)
      if (name(free) == 0 && place_of(free).handle != static_cast<std::int64_t>(free))
        return add_name(free, handle), static_cast<std::int64_t>(free);
    // A new handle whose own number is taken has no number at all.
    if (const opened& here = record_of(handle); here.hidden && here.names == 0) calls_.close(handle);
    return -EMFILE;
  }
  bool is_open(std::int64_t handle) {
    struct stat found{};
    return handle >= 0 && calls_.fstat(handle, found) != -EBADF;
  }
  std::int64_t duplicate(std::uint64_t given, std::uint64_t least) {
    const std::int64_t handle = file(given);
    if (!is_open(handle)) return -EBADF;
    return least <= last_name ? name_from(least, handle) : -EINVAL;
  }
  std::int64_t duplicate_to(std::uint64_t given, std::uint64_t wanted) {
    const std::int64_t handle = file(given);
    if (!is_open(handle)) return -EBADF;
    if (number(given) == number(wanted)) return number(wanted);
    if (number(wanted) < 0 || number(wanted) >= std::int64_t{names_end}) return -EBADF;
    ++record_of(handle).names;  // so that it stays open if that is its own number
    close(wanted);
    --record_of(handle).names;
    add_name(word(number(wanted)), handle);
    return number(wanted);
  }
  std::int64_t close(std::uint64_t given) {
    const std::int64_t one = number(given), handle = file(given);
    if (handle < 0) return -EBADF;
    opened& here = record_of(handle);
    if (is_name(one)) {
      name(word(one)) = 0;
      --here.names;
      if (here.names != 0 || !here.hidden) return 0;
    } else if (here.names != 0) {
      here.hidden = true;
      return 0;
    }
    here = {};
    return calls_.close(handle);
  }

  std::int64_t open(std::uint64_t at, std::uint64_t path, int flags, unsigned mode) {
    return with_path(at, path, [&](std::string_view full) {
      return named(calls_.open(full, flags, mode), flags & (O_ACCMODE | O_APPEND | O_SYNC), full);
    });
  }
  std::int64_t stat(std::uint64_t at, std::uint64_t path, std::uint64_t to, int flags) {
    const char* const given = pointer<const char>(path);
    if ((flags & AT_EMPTY_PATH) != 0 && (given == nullptr || given[0] == '\0'))
      return calls_.fstat(file(at), *pointer<struct stat>(to));
    return with_path(at, path, [&](std::string_view full) { return calls_.stat(full, *pointer<struct stat>(to)); });
  }
  std::int64_t access(std::uint64_t at, std::uint64_t path, int how) {
    struct stat found{};
    const std::int64_t result = with_path(at, path, [&](std::string_view full) { return calls_.stat(full, found); });
    if (result != 0) return result;
    return (how & X_OK) != 0 && (found.st_mode & 0111U) == 0 ? -EACCES : 0;
  }
  /// Links are not shown: an existing path is never a link.
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
      const std::int64_t now = writes ? calls_.write(file(handle), data) : calls_.read(file(handle), data);
      if (now < 0) return done != 0 ? done : now;
      done += now;
      if (static_cast<std::size_t>(now) != one.iov_len) break;
    }
    return done;
  }
  static constexpr std::uint64_t working_directory = static_cast<std::uint64_t>(std::int64_t{AT_FDCWD});

  // --- Memory.

  /// Maps a file as anonymous memory with a copy of its bytes. Writes do not reach the file.
  std::int64_t map(const arguments& a) {
    const int protection = number(a[2]), flags = number(a[3]);
    const std::int64_t handle = file(a[4]);
    if (!memory_) return -ENOMEM;
    if ((flags & MAP_ANONYMOUS) != 0) {
      // Shared anonymous memory has no other sharer here.
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
  /// The wall permits the call, or traps it again; then returns that answer.
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
    const std::int64_t made = named(calls_.accept(file(handle)), O_RDWR);
    if (made < 0 || address == 0) return made;
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto& room = *pointer<socklen_t>(size);
    std::memcpy(pointer<void>(address), &from, std::min<std::size_t>(room, sizeof from));
    room = sizeof from;
    return made;
  }

  std::int64_t control(std::uint64_t given, int command, std::uint64_t argument) {
    const std::int64_t handle = file(given);
    if (handle < 0) return -EBADF;
    const int flags = handle < 3 ? O_RDWR : record_of(handle).flags;
    switch (command) {
      case F_GETFD: return FD_CLOEXEC;
      case F_SETFD: return 0;
      case F_GETFL: return flags;
      case F_SETFL: return ((number(argument) ^ flags) & O_APPEND) != 0 ? -EINVAL : 0;
      case F_DUPFD:
      case F_DUPFD_CLOEXEC: return duplicate(given, argument);
      case F_SETLK:
      case F_OFD_SETLK: return lock(handle, *pointer<const struct flock>(argument), false);
      case F_SETLKW:
      case F_OFD_SETLKW: return lock(handle, *pointer<const struct flock>(argument), true);
      case F_GETLK:
      case F_OFD_GETLK: return test_lock(handle, *pointer<struct flock>(argument));
      default: return -EINVAL;
    }
  }

  // --- Locks. The broker waits for none: the thread sleeps and retries.

  template <class Try>
  static std::int64_t until_locked(bool waits, Try once) {
    for (;;) {
      const std::int64_t result = once();
      if (result != -EAGAIN || !waits) return result;
      const timespec pause{0, 1'000'000};
      native(SYS_clock_nanosleep, {CLOCK_MONOTONIC, 0, std::bit_cast<std::uint64_t>(&pause), 0, 0, 0});
    }
  }
  struct range {
    std::int64_t start = 0, length = 0;
  };
  std::int64_t range_of(std::int64_t handle, const struct flock& what, range& made) {
    made = {what.l_start, what.l_len};
    if (what.l_whence == SEEK_CUR || what.l_whence == SEEK_END) {
      struct stat found{};
      const std::int64_t from =
          what.l_whence == SEEK_CUR ? calls_.lseek(handle, 0, SEEK_CUR) : calls_.fstat(handle, found);
      if (from < 0) return from;
      made.start += what.l_whence == SEEK_CUR ? from : found.st_size;
    }
    if (made.length < 0) {
      made.start += made.length;
      made.length = -made.length;
    }
    return made.start < 0 ? -EINVAL : 0;
  }
  std::int64_t lock(std::int64_t handle, const struct flock& what, bool waits) {
    range where;
    if (const std::int64_t error = range_of(handle, what, where); error != 0) return error;
    const file_lock how = what.l_type == F_RDLCK   ? file_lock::read
                          : what.l_type == F_WRLCK ? file_lock::write
                                                   : file_lock::none;
    return until_locked(waits, [&] { return calls_.lock(handle, how, where.start, where.length); });
  }
  std::int64_t test_lock(std::int64_t handle, struct flock& what) {
    range where;
    if (const std::int64_t error = range_of(handle, what, where); error != 0) return error;
    const std::int64_t result = calls_.lock(
        handle, what.l_type == F_RDLCK ? file_lock::test_read : file_lock::test_write, where.start, where.length);
    if (result < 0) return result;
    what.l_type = result == 0 ? F_UNLCK : F_WRLCK;  // held by an opening of which no more is known
    if (result != 0) what.l_pid = -1;
    return 0;
  }
  std::int64_t lock_file(std::int64_t handle, int operation) {
    file_lock how = file_lock::released;
    switch (operation & ~LOCK_NB) {
      case LOCK_SH: how = file_lock::shared; break;
      case LOCK_EX: how = file_lock::exclusive; break;
      case LOCK_UN: break;
      default: return -EINVAL;
    }
    return until_locked((operation & LOCK_NB) == 0, [&] { return calls_.lock(handle, how); });
  }

  // --- Attributes.

  std::int64_t set_times(std::uint64_t at, std::uint64_t path, const timespec* given) {
    const timespec times[2] = {given != nullptr ? given[0] : timespec{0, UTIME_NOW},
                               given != nullptr ? given[1] : timespec{0, UTIME_NOW}};
    if (path == 0) return calls_.futimens(file(at), times);
    return with_path(at, path, [&](std::string_view full) { return calls_.utimens(full, times); });
  }
  std::int64_t set_times(std::uint64_t path, const timeval* given) {
    if (given == nullptr) return set_times(working_directory, path, static_cast<const timespec*>(nullptr));
    const timespec times[2] = {{given[0].tv_sec, given[0].tv_usec * 1000}, {given[1].tv_sec, given[1].tv_usec * 1000}};
    return set_times(working_directory, path, times);
  }
  /// Owners never change: a request for the current owner succeeds.
  static std::int64_t keep_owner(std::int64_t result, const struct stat& found, std::uint64_t user,
                                 std::uint64_t group) noexcept {
    if (result != 0) return result;
    constexpr std::uint32_t any = ~std::uint32_t{0};
    const auto is = [](std::uint64_t wanted, std::uint32_t own) {
      return static_cast<std::uint32_t>(wanted) == any || static_cast<std::uint32_t>(wanted) == own;
    };
    return is(user, found.st_uid) && is(group, found.st_gid) ? 0 : -EPERM;
  }
  std::int64_t change_owner(std::uint64_t at, std::uint64_t path, std::uint64_t user, std::uint64_t group) {
    struct stat found{};
    const std::int64_t result = with_path(at, path, [&](std::string_view full) { return calls_.stat(full, found); });
    return keep_owner(result, found, user, group);
  }
  std::int64_t change_owner(std::uint64_t given, std::uint64_t user, std::uint64_t group) {
    struct stat found{};
    const std::int64_t result = calls_.fstat(file(given), found);
    return keep_owner(result, found, user, group);
  }

  // --- Waiting for several files.

  MUSTER_COLD std::int64_t poll(std::span<pollfd> given, std::int64_t milliseconds) {
    constexpr std::size_t most = decoder::most_polled;
    if (given.size() > most) return -EINVAL;
    if (given.empty()) return sleep(milliseconds);
    std::array<pollfd, most> asked;
    for (std::size_t i = 0; i < given.size(); ++i) {
      constexpr int closed = std::numeric_limits<int>::max();
      asked[i] = given[i];
      if (given[i].fd < 0) continue;
      const std::int64_t handle = file(word(given[i].fd));
      asked[i].fd = handle < 0 ? closed : static_cast<int>(handle);
    }
    const std::int64_t result = calls_.poll(std::span(asked).first(given.size()), static_cast<int>(milliseconds));
    if (result < 0) return result;
    for (std::size_t i = 0; i < given.size(); ++i) given[i].revents = asked[i].revents;
    return result;
  }
  static std::int64_t sleep(std::int64_t milliseconds) noexcept {
    constexpr std::int64_t second = 1000;
    const std::int64_t all = milliseconds < 0 ? std::numeric_limits<int>::max() : milliseconds;
    const timespec pause{all / second, (all % second) * 1'000'000};
    for (;;) {
      native(SYS_clock_nanosleep, {CLOCK_MONOTONIC, 0, std::bit_cast<std::uint64_t>(&pause), 0, 0, 0});
      if (milliseconds >= 0) return 0;
    }
  }
  /// Rounded up to whole milliseconds; -1: no limit.
  static std::int64_t milliseconds(const timespec* time) noexcept {
    if (time == nullptr) return -1;
    constexpr std::int64_t most = std::numeric_limits<int>::max();
    if (time->tv_sec < 0 || time->tv_nsec < 0) return 0;
    return std::min(most, std::min<std::int64_t>(time->tv_sec, most) * 1000 + (time->tv_nsec + 999'999) / 1'000'000);
  }
  MUSTER_COLD std::int64_t select(int many, const std::array<fd_set*, 3>& sets, std::int64_t time) {
    std::array<pollfd, decoder::most_polled> asked;
    std::size_t used = 0;
    for (int one = 0; one < std::min(many, FD_SETSIZE); ++one) {
      const auto in = [&](std::size_t set) { return sets[set] != nullptr && FD_ISSET(one, sets[set]); };
      const int events = (in(0) ? POLLIN : 0) | (in(1) ? POLLOUT : 0);
      if (events == 0 && !in(2)) continue;
      if (used == asked.size()) return -EINVAL;
      asked[used++] = {one, static_cast<short>(events), 0};
    }
    const std::span<pollfd> some = std::span(asked).first(used);
    const std::int64_t result = poll(some, time);
    if (result < 0) return result;
    for (const pollfd& one : some)
      if ((one.revents & POLLNVAL) != 0) return -EBADF;
    std::int64_t ready = 0;
    for (const pollfd& one : some) {
      const auto keep = [&](std::size_t set, int events) {
        if (sets[set] == nullptr || !FD_ISSET(one.fd, sets[set])) return;
        if ((one.revents & events) != 0) ++ready;
        else FD_CLR(one.fd, sets[set]);
      };
      keep(0, POLLIN | POLLHUP | POLLERR);
      keep(1, POLLOUT | POLLERR);
      keep(2, POLLPRI);
    }
    return ready;
  }

  // --- Options of sockets. Options that only affect speed or size are accepted without effect.

  static std::int64_t set_option(int level, int name) noexcept {
    const bool harmless = level == SOL_SOCKET ? name == SO_REUSEADDR || name == SO_KEEPALIVE || name == SO_SNDBUF ||
                                                    name == SO_RCVBUF || name == SO_REUSEPORT
                                              : level == IPPROTO_TCP && (name == TCP_NODELAY || name == TCP_CORK ||
                                                                         name == TCP_QUICKACK || name == TCP_KEEPIDLE ||
                                                                         name == TCP_KEEPINTVL || name == TCP_KEEPCNT);
    return harmless ? 0 : -ENOPROTOOPT;
  }
  static std::int64_t get_option(int level, int name, std::uint64_t to, std::uint64_t size) noexcept {
    int value = 0;
    if (level != SOL_SOCKET) return -ENOPROTOOPT;
    switch (name) {
      case SO_ERROR: break;
      case SO_TYPE: value = SOCK_STREAM; break;
      case SO_DOMAIN: value = AF_INET; break;
      case SO_PROTOCOL: value = IPPROTO_TCP; break;
      case SO_REUSEADDR: value = 1; break;
      default: return -ENOPROTOOPT;
    }
    auto& room = *pointer<socklen_t>(size);
    room = std::min<socklen_t>(room, sizeof value);
    std::memcpy(pointer<void>(to), &value, room);
    return 0;
  }

  /// Processor time of the process, and nothing else.
  static std::int64_t usage(std::uint64_t to) noexcept {
    timespec used{};
    native(SYS_clock_gettime, {CLOCK_PROCESS_CPUTIME_ID, std::bit_cast<std::uint64_t>(&used), 0, 0, 0, 0});
    rusage made{};
    made.ru_utime = {used.tv_sec, used.tv_nsec / 1000};
    *pointer<rusage>(to) = made;
    return 0;
  }
  /// The processors as they were before the wall was raised.
  std::int64_t affinity(std::uint64_t size, std::uint64_t to) const noexcept {
    const auto most = std::min<std::size_t>(size, sizeof processors_);
    if (most < processor_bytes_) return -EINVAL;
    std::memcpy(pointer<void>(to), &processors_, processor_bytes_);
    return static_cast<std::int64_t>(processor_bytes_);
  }
  std::int64_t copy(std::uint64_t from, std::uint64_t from_offset, std::uint64_t to, std::uint64_t to_offset,
                    std::uint64_t size) {
    return calls_.copy(file(from), pointer<std::int64_t>(from_offset), file(to), pointer<std::int64_t>(to_offset),
                       size);
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
  cpu_set_t processors_{};
  std::size_t processor_bytes_ = 0;
  std::int64_t process_ = 0, user_ = 0, group_ = 0;
  std::uint64_t break_ = 0;
  char directory_[muster::inside::longest_path];
  std::size_t directory_size_;
};

inline std::int64_t trap::answer(long call, const arguments& a) {
  switch (call) {
    // Files.
    case SYS_read: return calls_.read(file(a[0]), bytes(a[1], a[2]));
    case SYS_write: return calls_.write(file(a[0]), bytes(a[1], a[2]));
    case SYS_pread64: return calls_.pread(file(a[0]), bytes(a[1], a[2]), static_cast<std::int64_t>(a[3]));
    case SYS_pwrite64: return calls_.pwrite(file(a[0]), bytes(a[1], a[2]), static_cast<std::int64_t>(a[3]));
    case SYS_readv: return vectors(a[0], a[1], a[2], false);
    case SYS_writev: return vectors(a[0], a[1], a[2], true);
    case SYS_openat: return open(a[0], a[1], number(a[2]), static_cast<unsigned>(a[3]));
    case SYS_close: return close(a[0]);
    case SYS_lseek: return calls_.lseek(file(a[0]), static_cast<std::int64_t>(a[1]), number(a[2]));
    case SYS_fstat: return calls_.fstat(file(a[0]), *pointer<struct stat>(a[1]));
    case SYS_newfstatat: return stat(a[0], a[1], a[2], number(a[3]));
    case SYS_fsync:
    case SYS_fdatasync: return calls_.fsync(file(a[0]));
    case SYS_ftruncate: return calls_.ftruncate(file(a[0]), static_cast<std::int64_t>(a[1]));
    case SYS_truncate:
      return with_path(working_directory, a[0],
                       [&](std::string_view path) { return calls_.truncate(path, static_cast<std::int64_t>(a[1])); });
    case SYS_fchmod: return calls_.fchmod(file(a[0]), static_cast<unsigned>(a[1]));
    case SYS_fchmodat:
      return with_path(a[0], a[1],
                       [&](std::string_view path) { return calls_.chmod(path, static_cast<unsigned>(a[2])); });
    case SYS_utimensat: return set_times(a[0], a[1], pointer<const timespec>(a[2]));
    case SYS_fchown: return change_owner(a[0], a[1], a[2]);
    case SYS_fchownat: return change_owner(a[0], a[1], a[2], a[3]);
    case SYS_statfs:
      return with_path(working_directory, a[0],
                       [&](std::string_view path) { return calls_.statfs(path, *pointer<struct statfs>(a[1])); });
    case SYS_fstatfs: return calls_.fstatfs(file(a[0]), *pointer<struct statfs>(a[1]));
    case SYS_copy_file_range: return copy(a[0], a[1], a[2], a[3], a[4]);
    case SYS_sendfile: return copy(a[1], a[2], a[0], 0, a[3]);
    case SYS_dup: return duplicate(a[0], 0);
    case SYS_dup3: return number(a[0]) == number(a[1]) ? -EINVAL : duplicate_to(a[0], a[1]);
    case SYS_flock: return lock_file(file(a[0]), number(a[1]));
    case SYS_ppoll: return poll({pointer<pollfd>(a[0]), a[1]}, milliseconds(pointer<const timespec>(a[2])));
    case SYS_pselect6:
      return select(number(a[0]), {pointer<fd_set>(a[1]), pointer<fd_set>(a[2]), pointer<fd_set>(a[3])},
                    milliseconds(pointer<const timespec>(a[4])));
    case SYS_getdents64: return calls_.getdents(file(a[0]), bytes(a[1], a[2]));
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
    case SYS_fchdir: {
      const std::int64_t handle = file(a[0]);
      if (handle < 0) return -EBADF;
      const opened& from = record_of(handle);
      if (from.path_size == 0) return -EACCES;
      std::memcpy(directory_, from.path, from.path_size);
      directory_size_ = from.path_size;
      return 0;
    }
    case SYS_getcwd:
      if (a[1] < directory_size_ + 1) return -ERANGE;
      std::memcpy(pointer<char>(a[0]), directory_, directory_size_);
      pointer<char>(a[0])[directory_size_] = '\0';
      return static_cast<std::int64_t>(directory_size_ + 1);
    case SYS_umask: return 022;
    case SYS_ioctl: return -ENOTTY;
    case SYS_fcntl: return control(a[0], number(a[1]), a[2]);
    case SYS_fadvise64: return 0;
    case SYS_setxattr:
    case SYS_lsetxattr:
    case SYS_fsetxattr:
    case SYS_getxattr:
    case SYS_lgetxattr:
    case SYS_fgetxattr:
    case SYS_listxattr:
    case SYS_llistxattr:
    case SYS_flistxattr: return -EOPNOTSUPP;  // no file has any here
    case SYS_mincore:
    case SYS_sysinfo:
    case SYS_statx:
    case 435: return -ENOSYS;  // clone3: the C library then tries clone, and fails cleanly
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
    case old_calls::dup2: return duplicate_to(a[0], a[1]);
    case old_calls::chmod:
      return with_path(working_directory, a[0],
                       [&](std::string_view path) { return calls_.chmod(path, static_cast<unsigned>(a[1])); });
    case old_calls::chown:
    case old_calls::lchown: return change_owner(working_directory, a[0], a[1], a[2]);
    case old_calls::utimes: return set_times(a[0], pointer<const timeval>(a[1]));
    case old_calls::poll: return poll({pointer<pollfd>(a[0]), a[1]}, std::max(number(a[2]), -1));
    case old_calls::select: {
      const auto* const time = pointer<const timeval>(a[4]);
      const timespec exact = time != nullptr ? timespec{time->tv_sec, time->tv_usec * 1000} : timespec{};
      return select(number(a[0]), {pointer<fd_set>(a[1]), pointer<fd_set>(a[2]), pointer<fd_set>(a[3])},
                    milliseconds(time != nullptr ? &exact : nullptr));
    }
    case old_calls::rename: return rename(working_directory, a[0], working_directory, a[1]);
    case old_calls::renameat: return rename(a[0], a[1], a[2], a[3]);
    case old_calls::getrlimit: return limit(a[0], 0, a[1]);
    case old_calls::getpgrp: return process_;

    // Memory. Calls that are allowed do not reach this point.
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
      return named(calls_.socket(), O_RDWR);
    }
    case SYS_connect:
    case SYS_bind: {
      const std::int64_t port = port_of(a[1], a[2]);
      if (port < 0) return port;
      const auto to = static_cast<std::uint16_t>(port);
      return call == SYS_connect ? calls_.connect(file(a[0]), to) : calls_.bind(file(a[0]), to);
    }
    case SYS_listen: return calls_.listen(file(a[0]), static_cast<unsigned>(a[1]));
    case SYS_accept:
    case SYS_accept4: return accept(a[0], a[1], a[2]);
    case SYS_shutdown: return calls_.shutdown(file(a[0]), number(a[1]));
    case SYS_setsockopt: return set_option(number(a[1]), number(a[2]));
    case SYS_getsockopt: return get_option(number(a[1]), number(a[2]), a[3], a[4]);
    case SYS_sendto:
      if (a[4] != 0 || (number(a[3]) & ~MSG_NOSIGNAL) != 0) return refused(SYS_sendto);
      return calls_.write(file(a[0]), bytes(a[1], a[2]));
    case SYS_recvfrom:
      if (a[4] != 0 || number(a[3]) != 0) return refused(SYS_recvfrom);
      return calls_.read(file(a[0]), bytes(a[1], a[2]));

    // The process.
    case SYS_getpid:
    case SYS_gettid:
    case SYS_set_tid_address: return process_;
    case SYS_getppid: return calls_.getppid();
    case SYS_getuid:
    case SYS_geteuid: return user_;
    case SYS_getgroups: return 0;
    case SYS_getpgid:
    case SYS_getsid: return process_;
    case SYS_getrusage: return usage(a[1]);
    case SYS_sched_getaffinity: return affinity(a[1], a[2]);
    case SYS_getgid:
    case SYS_getegid: return group_;
    case SYS_uname: return *pointer<utsname>(a[0]) = system_, 0;
    case SYS_prlimit64: return limit(a[1], a[2], a[3]);
    case SYS_set_robust_list: return 0;
    case SYS_rseq: return -ENOSYS;
    case SYS_prctl:
    case old_calls::arch_prctl: return -EINVAL;
    case SYS_rt_sigaction: {  // of SIGSYS
      if (a[1] != 0) return -EPERM;
      constexpr std::size_t bytes_of_action = 32;  // as the kernel defines it
      if (a[2] != 0) std::memset(pointer<void>(a[2]), 0, bytes_of_action);
      return 0;
    }
    case SYS_nanosleep: return native(SYS_clock_nanosleep, {CLOCK_REALTIME, 0, a[0], a[1], 0, 0});
    default: return refused(static_cast<std::uint64_t>(call));
  }
}

}  // namespace muster::inline MUSTER_ABI::detail
