// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// allowed_calls.hpp: makes a broker's decoded calls for its client, as far as the policy allows.
//
// Paths      are resolved by the kernel beneath the directory opened by the rule, and never leave it. Links beneath it
//            are followed for reading. None is followed for writing, so the rule found is the rule of the changed file.
//            Nothing at or above a rule's own place can be renamed or removed.
// Kept       regular files, directories, TCP sockets and /dev/null. Other devices and pipes are closed again, as is
//            anything in the kernel's file system of processes, where the broker's memory can be read.
// Above      a directory above a rule's place is shown as a directory, without any true attributes: programs check each
//            part of a path.
// Flags      are composed here; none is passed through.
// Disk       is counted if the policy limits it: the growth of a file (disk_room.hpp), and a block per directory entry.
//            Removing gives nothing back.
// Threads    any number at once; they block SIGPIPE.
// Errors     as of system calls: a negative errno.
// Source     ours.
#pragma once

#include <muster/base/detail/process.hpp>          // read_start
#include <muster/syscall/detail/decode.hpp>        // decoded_call
#include <muster/syscall/detail/disk_room.hpp>     // disk_room
#include <muster/syscall/detail/handle_table.hpp>  // handle_table
#include <muster/syscall/policy.hpp>               // policy

#include <arpa/inet.h>      // htons
#include <fcntl.h>          // O_RDONLY
#include <linux/magic.h>    // PROC_SUPER_MAGIC
#include <linux/openat2.h>  // open_how
#include <netinet/in.h>     // sockaddr_in
#include <poll.h>           // poll
#include <sys/eventfd.h>    // eventfd
#include <sys/file.h>       // flock
#include <sys/socket.h>     // socket
#include <sys/stat.h>       // fstat
#include <sys/syscall.h>    // SYS_openat2
#include <sys/vfs.h>        // fstatfs
#include <unistd.h>         // pread

#include <algorithm>     // std::ranges::find
#include <array>         // the standard streams
#include <cerrno>        // errno
#include <climits>       // PIPE_BUF
#include <cstddef>       // std::size_t
#include <cstdint>       // std::int64_t
#include <cstdio>        // renameat
#include <cstring>       // std::memcpy
#include <ctime>         // timespec
#include <mutex>         // the room
#include <optional>      // the result of open
#include <string>        // paths
#include <string_view>   // paths
#include <system_error>  // std::system_error
#include <utility>       // std::exchange
#include <vector>        // several files

namespace muster::inline MUSTER_ABI::detail {

/// A descriptor, closed by the destructor.
class owned_file {
 public:
  explicit owned_file(int number) noexcept : number_(number) {}
  owned_file(owned_file&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  owned_file& operator=(owned_file&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~owned_file() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_;
};

struct close_file {
  void operator()(int file) const noexcept { ::close(file); }
};

class allowed_calls {
 public:
  /// Handles 0, 1 and 2 are copies of this process's standard streams, or closed. Throws std::system_error if the
  /// kernel is too old.
  allowed_calls(const policy& rules, const client_data& data, bool lend_standard_streams)
      : rules_(rules), data_(data), files_(table_size(rules, lend_standard_streams)) {
    if (over_.get() < 0)
      throw std::system_error(errno, std::generic_category(),
                              "broker: eventfd(2) fails; descriptors may be used up (ulimit -n)");
    const owned_file root(::open("/", O_PATH | O_CLOEXEC));
    const owned_file probe(open_beneath(root.get(), ".", O_PATH, 0, RESOLVE_BENEATH));
    if (probe.get() == -ENOSYS || probe.get() == -EPERM)
      throw std::system_error(-probe.get(), std::generic_category(),
                              "broker: openat2(2), which keeps paths beneath a directory, fails; it needs Linux 5.6 or "
                              "newer, and a container must allow it");
    begin(lend_standard_streams);
  }

  /// The result of a call that the policy forbids. The caller gets EPERM, which the kernel may also return.
  static constexpr std::int64_t not_allowed = -(std::int64_t{1} << 32U);

  /// Returns the result, a negative error number, or not_allowed.
  std::int64_t operator()(const decoded_call& call);

  /// Ends calls that wait for a network, now and in the future. Any thread may call it.
  void interrupt() const noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(over_.get(), &one, sizeof one));
  }

 private:
  using table = handle_table<close_file>;

  // --- Remaining disk space. While it is limited, one thread at a time looks at it and uses it: together they could
  // otherwise use it as often as there are threads.

  static constexpr std::uint64_t block = 4096;  // counted per directory entry

  std::unique_lock<std::mutex> lock_room() {
    return limits_disk_ ? std::unique_lock(room_mutex_) : std::unique_lock<std::mutex>();
  }
  bool has_room() const noexcept { return !limits_disk_ || !room_.empty(); }
  void take_room(std::uint64_t bytes) noexcept {
    if (limits_disk_) room_.take(bytes);
  }
  /// Calls write(n) for at most `size` bytes, as far as there is room, and counts the growth of the file. A negative
  /// offset is the file's own.
  template <class Write>
  std::int64_t write_within_room(int file, std::int64_t offset, std::uint64_t size, Write write) {
    std::unique_lock<std::mutex> alone = lock_room();
    struct stat before{}, after{};
    if (!limits_disk_ || size == 0 || ::fstat(file, &before) != 0 || !S_ISREG(before.st_mode)) {
      alone = {};  // a stream may wait
      return write(size);
    }
    if (const int flags = ::fcntl(file, F_GETFL); flags >= 0 && (flags & O_APPEND) != 0) offset = before.st_size;
    if (offset < 0) offset = ::lseek(file, 0, SEEK_CUR);
    if (offset < 0) return -errno;
    const std::uint64_t most = room_.most(before, static_cast<std::uint64_t>(offset), size);
    if (most == 0) return -EDQUOT;
    const std::int64_t done = write(most);
    if (done > 0 && ::fstat(file, &after) == 0) room_.written(before, after, static_cast<std::uint64_t>(done));
    return done;
  }
  std::int64_t set_length(int file, std::int64_t length) {
    const auto alone = lock_room();
    if (!limits_disk_ || length < 0) return result_of(::ftruncate(file, length));
    struct stat before{};
    if (::fstat(file, &before) != 0) return -errno;
    disk_room left = room_;
    if (!left.set_length(before, static_cast<std::uint64_t>(length))) return -EDQUOT;
    const std::int64_t result = result_of(::ftruncate(file, length));
    if (result == 0) room_ = left;
    return result;
  }
  /// Not while another thread looks where it will write.
  std::int64_t seek(int file, std::int64_t offset, int whence) {
    const auto alone = lock_room();
    return result_of(::lseek(file, offset, whence));
  }

  static unsigned table_size(const policy& rules, bool lend) {
    return std::min(rules.files(), table::most_places - standard) + (lend ? standard : 0);
  }
  /// Opens a stream anew, so that no call on it blocks: one that polls as ready may lack the room for a whole write, or
  /// another thread may empty it first. Copies sockets, files and streams that cannot be opened.
  static int lent(int stream) noexcept {
    constexpr std::array<const char*, standard> names{"/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"};
    struct stat found{};
    const int mode = ::fcntl(stream, F_GETFL) & O_ACCMODE;  // nothing more than it has
    const bool may_block = ::fstat(stream, &found) == 0 && (S_ISFIFO(found.st_mode) || ::isatty(stream) == 1);
    const owned_file own(
        may_block ? ::open(names[static_cast<unsigned>(stream)], mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1);
    return ::fcntl(own.get() >= 0 ? own.get() : stream, F_DUPFD_CLOEXEC, standard);
  }
  /// A number closed here is never given to a file.
  void begin(bool lend) noexcept {
    std::array<bool, standard> keeps{};
    for (unsigned i = 0; i < standard; ++i) {
      const int copy = lend ? lent(static_cast<int>(i)) : -1;
      keeps[i] = copy >= 0;
      files_.open(copy);
    }
    for (unsigned i = 0; i < standard; ++i)
      if (!keeps[i]) files_.close(i);
  }

  /// Returns a descriptor, or a negative error number.
  static int open_beneath(int directory, const std::string& path, int flags, unsigned mode, unsigned resolve) noexcept {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
    if ((flags & O_CREAT) != 0) how.mode = mode;
    how.resolve = resolve | RESOLVE_NO_MAGICLINKS;
    // Another process may be moving part of the path: the kernel then asks to try again.
    for (int tries = 0;; ++tries) {
      const long file = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
      if (file >= 0) return static_cast<int>(file);
      if ((errno == EAGAIN || errno == EINTR) && tries < 16) continue;
      return errno == EXDEV || errno == ELOOP ? -EACCES : -errno;
    }
  }
  /// Opens a path of the rule, for reading or as a place; links stay beneath it.
  static owned_file look_at(const policy::place& rule, std::string_view rest, int flags) {
    const unsigned links = rule.name().empty() ? 0 : RESOLVE_NO_SYMLINKS;  // a file rule means exactly that file
    return owned_file(open_beneath(rule.directory(), std::string(rest), flags, 0, RESOLVE_BENEATH | links));
  }
  static owned_file open_to_change(const policy::place& rule, std::string_view rest, int flags, unsigned mode = 0) {
    return owned_file(
        open_beneath(rule.directory(), std::string(rest), flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
  }
  /// Returns 0 outside the kernel's file system of processes, else a negative error number.
  static int judge_system(int file) noexcept {
    struct statfs where{};
    if (::fstatfs(file, &where) != 0) return -errno;
    return where.f_type == PROC_SUPER_MAGIC ? -EACCES : 0;
  }
  /// Returns 0 if the file may be kept, else a negative error number.
  static int judge(int file, bool may_be_null_device = true) noexcept {
    struct stat found{};
    if (::fstat(file, &found) != 0) return -errno;
    const bool is_null = may_be_null_device && policy::is_null_device(found);
    return S_ISREG(found.st_mode) || S_ISDIR(found.st_mode) || is_null ? judge_system(file) : -EACCES;
  }

  std::int64_t keep(owned_file file) {
    const std::optional<std::uint32_t> number = files_.open(file.get());
    if (!number) return -EMFILE;
    file.release();
    return *number;
  }

  std::int64_t open(const decoded_call& call);
  std::int64_t stat(const decoded_call& call);
  /// The directory of a path that may be changed, and its name there.
  struct entry {
    owned_file directory;
    std::string name;
  };
  entry entry_to_change(const std::string& path, bool exists) const;
  static std::int64_t error_of(const entry& one) noexcept {
    return one.directory.get() == refused_entry ? not_allowed : one.directory.get();
  }
  /// For a file that the policy lets be changed; `change` receives a name for it.
  template <class Change>
  std::int64_t change_at(const std::string& path, Change change) const;
  std::int64_t change_mode(const decoded_call& call) const;
  /// Returns 0 for a file open for writing, else not_allowed.
  static std::int64_t judge_change(int file) noexcept {
    struct stat found{};
    if (::fstat(file, &found) != 0) return -errno;
    const int flags = ::fcntl(file, F_GETFL);
    return S_ISREG(found.st_mode) && flags >= 0 && (flags & O_ACCMODE) != O_RDONLY ? 0 : not_allowed;
  }
  static std::array<timespec, 2> times_of(const decoded_call& call) noexcept;
  static bool has_most_locks(int file, const decoded_call& call);
  static std::int64_t lock(const decoded_call& call, int file);
  std::int64_t statfs(const decoded_call& call);
  std::int64_t poll(const decoded_call& call);
  std::int64_t remove(const decoded_call& call) const;
  std::int64_t make_directory(const decoded_call& call);
  std::int64_t rename(const decoded_call& call) const;

  std::int64_t read_or_write(const decoded_call& call, int file);
  std::int64_t make_socket();
  std::int64_t connect(const decoded_call& call, int file);
  std::int64_t bind(const decoded_call& call, int file);
  static std::int64_t listen(const decoded_call& call, int file);
  std::int64_t accept(int file);
  /// Waits until the socket is ready or the sandbox ends.
  int await(int file, short events) const noexcept;

  static std::int64_t result_of(long done) noexcept { return done < 0 ? -errno : done; }
  static sockaddr_in here(std::uint64_t port) noexcept {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  static constexpr unsigned standard = 3;
  static constexpr int refused_entry = -(1 << 20);  // in place of a descriptor

  const policy& rules_;
  const bool limits_disk_ = rules_.disk().has_value();
  std::mutex room_mutex_;
  disk_room room_{rules_.disk().value_or(0)};
  const client_data data_;
  const owned_file over_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  table files_;
};

inline std::int64_t allowed_calls::operator()(const decoded_call& call) {
  switch (call.what) {
    case sandbox_call::getppid: return ::syscall(SYS_getppid);
    case sandbox_call::open: return open(call);
    case sandbox_call::stat: return stat(call);
    case sandbox_call::unlink: return remove(call);
    case sandbox_call::mkdir: return make_directory(call);
    case sandbox_call::rename: return rename(call);
    case sandbox_call::chmod: return change_mode(call);
    case sandbox_call::utimens:
      return change_at(call.path, [&call](const char* name) {
        return result_of(::utimensat(AT_FDCWD, name, times_of(call).data(), 0));
      });
    case sandbox_call::statfs: return statfs(call);
    case sandbox_call::poll: return poll(call);
    case sandbox_call::socket: return make_socket();
    case sandbox_call::close: return files_.close(call.handle) ? 0 : -EBADF;
    case sandbox_call::refused: return not_allowed;
    default: break;
  }
  // Lent streams are shared: one to read, two to write, and no other calls but fstat.
  if (call.handle < standard && call.what != sandbox_call::fstat &&
      call.what != (call.handle == 0 ? sandbox_call::read : sandbox_call::write))
    return call.what == sandbox_call::lseek ? -ESPIPE : -EBADF;
  const table::use used = files_.get(call.handle);
  if (!used) return -EBADF;
  const int file = used.file();
  void* const data = data_.for_kernel(call.data);
  switch (call.what) {
    case sandbox_call::read:
    case sandbox_call::write: return read_or_write(call, file);
    case sandbox_call::pread: return result_of(::pread(file, data, call.data.size, call.offset));
    case sandbox_call::pwrite:
      return write_within_room(file, call.offset, call.data.size,
                               [&](std::uint64_t size) { return result_of(::pwrite(file, data, size, call.offset)); });
    case sandbox_call::lseek: return seek(file, call.offset, static_cast<int>(call.flags));
    case sandbox_call::fstat: return result_of(::fstat(file, static_cast<struct stat*>(data)));
    case sandbox_call::fsync: return result_of(::fsync(file));
    case sandbox_call::ftruncate: return set_length(file, call.offset);
    case sandbox_call::getdents: return result_of(::syscall(SYS_getdents64, file, data, call.data.size));
    case sandbox_call::fchmod:
      if (const std::int64_t error = judge_change(file); error != 0) return error;
      return result_of(::fchmod(file, call.mode));
    case sandbox_call::futimens:
      if (const std::int64_t error = judge_change(file); error != 0) return error;
      return result_of(::futimens(file, times_of(call).data()));
    case sandbox_call::fstatfs: return result_of(::fstatfs(file, static_cast<struct statfs*>(data)));
    case sandbox_call::lock: return lock(call, file);
    case sandbox_call::connect: return connect(call, file);
    case sandbox_call::bind: return bind(call, file);
    case sandbox_call::listen: return listen(call, file);
    case sandbox_call::accept: return accept(file);
    case sandbox_call::shutdown: return result_of(::shutdown(file, static_cast<int>(call.flags)));
    default: return -ENOSYS;
  }
}

inline std::int64_t allowed_calls::open(const decoded_call& call) {
  std::string_view rest;
  const policy::place* const rule = rules_.find(call.path, rest);
  if (rule == nullptr) return not_allowed;
  const bool writes = (call.flags & ~open_flags::only_read) != 0;
  if (writes && rule->may() != policy::access::write) return not_allowed;
  // Do not wait for the other end of a pipe, and do not make a terminal the broker's.
  int flags = O_NONBLOCK | O_NOCTTY;
  if ((call.flags & open_flags::write) == 0) flags |= O_RDONLY;
  else flags |= (call.flags & open_flags::read) != 0 ? O_RDWR : O_WRONLY;
  if ((call.flags & open_flags::append) != 0) flags |= O_APPEND;
  if ((call.flags & open_flags::truncate) != 0) flags |= O_TRUNC;
  if ((call.flags & open_flags::directory) != 0) flags |= O_DIRECTORY;
  if ((call.flags & open_flags::sync) != 0) flags |= O_SYNC;
  if ((call.flags & open_flags::data_sync) != 0) flags |= O_DSYNC;
  const bool creates = (call.flags & open_flags::create) != 0, only_new = (call.flags & open_flags::exclusive) != 0;
  // Open as a place first, which has no effect on the file: opening a pipe or a device would.
  for (int tries = 0; tries < 16; ++tries) {
    const owned_file there = writes ? open_to_change(*rule, rest, O_PATH) : look_at(*rule, rest, O_PATH);
    if (there.get() == -ENOENT && creates) {
      const auto alone = lock_room();
      if (!has_room()) return -EDQUOT;
      owned_file made = open_to_change(*rule, rest, flags | O_CREAT | O_EXCL, call.mode);
      if (made.get() == -EEXIST && !only_new) continue;  // another process has created it
      if (made.get() < 0) return made.get();
      take_room(block);
      return keep(std::move(made));
    }
    if (there.get() < 0) return there.get();
    if (creates && only_new) return -EEXIST;
    if (const int error = judge(there.get()); error != 0) return error;
    const std::string again = "/proc/self/fd/" + std::to_string(there.get());
    owned_file file(::open(again.c_str(), flags | O_CLOEXEC));
    if (file.get() < 0) return -errno;
    return keep(std::move(file));
  }
  return -EAGAIN;
}

inline std::int64_t allowed_calls::stat(const decoded_call& call) {
  std::string_view rest;
  const policy::place* const rule = rules_.find(call.path, rest);
  if (rule == nullptr && rules_.has_place_beneath(call.path)) {
    struct stat shown{};
    shown.st_mode = S_IFDIR | 0555;
    shown.st_nlink = 2;
    data_.put(call.data, &shown);
    return 0;
  }
  if (rule == nullptr) return not_allowed;
  const owned_file file = look_at(*rule, rest, O_PATH);
  if (file.get() < 0) return file.get();
  if (const int error = judge_system(file.get()); error != 0) return error;
  return result_of(::fstat(file.get(), static_cast<struct stat*>(data_.for_kernel(call.data))));
}

inline std::int64_t allowed_calls::statfs(const decoded_call& call) {
  std::string_view rest;
  const policy::place* const rule = rules_.find(call.path, rest);
  if (rule == nullptr) return not_allowed;
  const owned_file file = look_at(*rule, rest, O_PATH);
  if (file.get() < 0) return file.get();
  if (const int error = judge_system(file.get()); error != 0) return error;
  return result_of(::fstatfs(file.get(), static_cast<struct statfs*>(data_.for_kernel(call.data))));
}

template <class Change>
std::int64_t allowed_calls::change_at(const std::string& path, Change change) const {
  std::string_view rest;
  const policy::place* const rule = rules_.find(path, rest);
  if (rule == nullptr || rule->may() != policy::access::write) return not_allowed;
  const owned_file there = open_to_change(*rule, rest, O_PATH);
  if (there.get() < 0) return there.get();
  if (const int error = judge(there.get(), false); error != 0) return error;
  return change(("/proc/self/fd/" + std::to_string(there.get())).c_str());
}

/// A rule's own directory and those above a rule's place keep their permissions: by these the program itself, and other
/// users, reach them. A file that has a rule is the inside's, as its contents are.
inline std::int64_t allowed_calls::change_mode(const decoded_call& call) const {
  std::string_view rest;
  const policy::place* const rule = rules_.find(call.path, rest);
  if (rule != nullptr && rule->may() == policy::access::write &&
      (rest == "." || (call.path != rule->path() && rules_.has_place_beneath(call.path))))
    return -EBUSY;
  return change_at(call.path, [&call](const char* name) { return result_of(::chmod(name, call.mode)); });
}

inline std::array<timespec, 2> allowed_calls::times_of(const decoded_call& call) noexcept {
  const auto time_of = [](std::int64_t time) {
    constexpr std::int64_t second = 1'000'000'000;
    if (time == file_time::unchanged) return timespec{0, UTIME_OMIT};
    if (time == file_time::now) return timespec{0, UTIME_NOW};
    const std::int64_t rest = (time % second + second) % second;  // also correct before 1970
    return timespec{time / second - (time % second < 0 ? 1 : 0), static_cast<long>(rest)};
  };
  return {time_of(call.offset), time_of(call.other_offset)};
}

/// Tells if an opening has so many locks that it gets no others: the kernel sets no limit to the memory that they take.
/// Unlocking a part may leave two locks, so it has a limit too; the whole file can always be unlocked.
inline bool allowed_calls::has_most_locks(int file, const decoded_call& call) {
  constexpr std::size_t most = 128, longest_line = 128;
  const bool unlocks = static_cast<file_lock>(call.flags) == file_lock::none;
  if (unlocks && call.offset == 0 && call.other_offset == 0) return false;
  std::array<char, 2 * most * longest_line> text;
  const std::string_view all = read_start(("/proc/self/fdinfo/" + std::to_string(file)).c_str(), text);
  std::size_t many = 0;
  for (std::size_t at = 0; (at = all.find("\nlock:", at)) != all.npos; ++at) ++many;
  return all.empty() || many >= (unlocks ? 2 * most : most);
}

/// Never waits. Files opened only for reading are not locked, because others wait for such locks.
inline std::int64_t allowed_calls::lock(const decoded_call& call, int file) {
  if (judge_change(file) != 0) return -ENOLCK;
  const auto how = static_cast<file_lock>(call.flags);
  switch (how) {
    case file_lock::shared: return result_of(::flock(file, LOCK_SH | LOCK_NB));
    case file_lock::exclusive: return result_of(::flock(file, LOCK_EX | LOCK_NB));
    case file_lock::released: return result_of(::flock(file, LOCK_UN));
    default: break;
  }
  // Locks belong to the opening, not to the process, which is the broker of all its clients.
  struct flock what{};
  const bool only_reads = how == file_lock::read || how == file_lock::test_read;
  what.l_type = static_cast<short>(how == file_lock::none ? F_UNLCK : only_reads ? F_RDLCK : F_WRLCK);
  what.l_whence = SEEK_SET;
  what.l_start = call.offset;
  what.l_len = call.other_offset;
  if (how != file_lock::test_read && how != file_lock::test_write)
    return has_most_locks(file, call) ? -ENOLCK : result_of(::fcntl(file, F_OFD_SETLK, &what));
  if (::fcntl(file, F_OFD_GETLK, &what) != 0) return -errno;
  return what.l_type == F_UNLCK ? 0 : 1;
}

/// `directory` is a negative error number if the change is not allowed or the path does not exist.
inline allowed_calls::entry allowed_calls::entry_to_change(const std::string& path, bool exists) const {
  std::string_view rest;
  const policy::place* const rule = rules_.find(path, rest);
  if (rule == nullptr || rule->may() != policy::access::write) return {owned_file(refused_entry), {}};
  // A rule's own place and everything above it must not move: otherwise its contents would get another rule.
  if (rest == "." || (exists && rules_.has_place_beneath(path))) return {owned_file(-EBUSY), {}};
  const std::size_t slash = rest.rfind('/');
  const std::string_view parent = slash == rest.npos ? "." : rest.substr(0, slash);
  return {open_to_change(*rule, parent, O_PATH | O_DIRECTORY),
          std::string(slash == rest.npos ? rest : rest.substr(slash + 1))};
}

inline std::int64_t allowed_calls::remove(const decoded_call& call) const {
  const entry at = entry_to_change(call.path, true);
  if (at.directory.get() < 0) return error_of(at);
  return result_of(::unlinkat(at.directory.get(), at.name.c_str(), call.flags != 0 ? AT_REMOVEDIR : 0));
}

inline std::int64_t allowed_calls::make_directory(const decoded_call& call) {
  const entry at = entry_to_change(call.path, false);
  if (at.directory.get() < 0) return error_of(at);
  const auto alone = lock_room();
  if (!has_room()) return -EDQUOT;
  const std::int64_t made = result_of(::mkdirat(at.directory.get(), at.name.c_str(), call.mode));
  if (made == 0) take_room(2 * block);  // itself, and the entry
  return made;
}

inline std::int64_t allowed_calls::rename(const decoded_call& call) const {
  const entry from = entry_to_change(call.path, true), to = entry_to_change(call.other_path, true);
  if (from.directory.get() < 0) return error_of(from);
  if (to.directory.get() < 0) return error_of(to);
  return result_of(::renameat(from.directory.get(), from.name.c_str(), to.directory.get(), to.name.c_str()));
}

// -------------------------------------------------------------------------------------------------------- the network

inline int allowed_calls::await(int file, short events) const noexcept {
  pollfd both[2] = {{file, events, 0}, {over_.get(), POLLIN, 0}};
  for (;;) {
    if (::poll(both, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return -errno;
    }
    if (both[1].revents != 0) return -EINTR;
    return 0;
  }
}

/// A broker thread waits in it.
inline std::int64_t allowed_calls::poll(const decoded_call& call) {
  const std::size_t many = call.list.size() / sizeof(pollfd);
  std::vector<pollfd> waits(many);
  if (many != 0) std::memcpy(waits.data(), call.list.data(), many * sizeof(pollfd));
  std::vector<table::use> uses;
  uses.reserve(many);
  int unknown = 0;
  for (pollfd& one : waits) {
    const int handle = std::exchange(one.fd, -1);  // the kernel skips negative descriptors
    one.events &= POLLIN | POLLOUT;
    one.revents = 0;
    if (handle < 0) continue;
    table::use used = files_.get(static_cast<std::uint32_t>(handle));
    if (!used) {
      one.revents = POLLNVAL;
      ++unknown;
      continue;
    }
    one.fd = used.file();
    uses.push_back(std::move(used));
  }
  waits.push_back({over_.get(), POLLIN, 0});
  std::vector<short> found(many);
  for (std::size_t i = 0; i < many; ++i) found[i] = waits[i].revents;
  int ready = ::poll(waits.data(), waits.size(), unknown != 0 ? 0 : static_cast<int>(call.offset));
  if (ready < 0) return -errno;
  if (waits[many].revents != 0) return -EINTR;
  for (std::size_t i = 0; i < many; ++i) {
    const auto seen = static_cast<short>(found[i] | waits[i].revents);
    data_.put({call.data.at + i * sizeof(pollfd) + offsetof(pollfd, revents), sizeof seen}, &seen);
  }
  return ready + unknown;
}

inline std::int64_t allowed_calls::read_or_write(const decoded_call& call, int file) {
  void* const data = data_.for_kernel(call.data);
  const bool reads = call.what == sandbox_call::read;
  const short ready = reads ? POLLIN : POLLOUT;
  // A lent stream may be a blocking one.
  for (bool may_wait = call.handle < standard;; may_wait = true) {
    if (may_wait)
      if (const int error = await(file, ready); error != 0) return error;
    // A ready pipe accepts this many bytes without blocking.
    const std::size_t size = may_wait && !reads ? std::min<std::size_t>(call.data.size, PIPE_BUF) : call.data.size;
    const std::int64_t done =
        reads ? result_of(::read(file, data, size))
              : write_within_room(file, -1, size, [&](std::uint64_t n) { return result_of(::write(file, data, n)); });
    if (done != -EAGAIN) return done;
  }
}

inline std::int64_t allowed_calls::make_socket() {
  if (rules_.connects().empty() && rules_.listens().empty()) return not_allowed;
  owned_file made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.get() < 0) return -errno;
  const int on = 1;
  ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return keep(std::move(made));
}

inline std::int64_t allowed_calls::connect(const decoded_call& call, int file) {
  if (std::ranges::find(rules_.connects(), call.flags) == rules_.connects().end()) return not_allowed;
  const sockaddr_in to = here(call.flags);
  if (::connect(file, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) return 0;
  if (errno != EINPROGRESS) return -errno;
  if (const int error = await(file, POLLOUT); error != 0) return error;
  int why = 0;
  socklen_t size = sizeof why;
  if (::getsockopt(file, SOL_SOCKET, SO_ERROR, &why, &size) != 0) return -errno;
  return -why;
}

inline std::int64_t allowed_calls::bind(const decoded_call& call, int file) {
  if (std::ranges::find(rules_.listens(), call.flags) == rules_.listens().end()) return not_allowed;
  const sockaddr_in at = here(call.flags);
  return result_of(::bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof at));
}

/// Only for a bound socket: otherwise the kernel would choose an address, reachable by others.
inline std::int64_t allowed_calls::listen(const decoded_call& call, int file) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  if (::getsockname(file, reinterpret_cast<sockaddr*>(&at), &size) != 0) return -errno;
  if (at.sin_family != AF_INET || at.sin_port == 0 || at.sin_addr.s_addr != htonl(INADDR_LOOPBACK)) return -EINVAL;
  return result_of(::listen(file, static_cast<int>(call.flags)));
}

inline std::int64_t allowed_calls::accept(int file) {
  for (;;) {
    owned_file made(::accept4(file, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (made.get() >= 0) return keep(std::move(made));
    if (errno != EAGAIN) return -errno;
    if (const int error = await(file, POLLIN); error != 0) return error;
  }
}

}  // namespace muster::inline MUSTER_ABI::detail
