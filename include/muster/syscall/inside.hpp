// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// inside.hpp: system calls for code in a sandbox, by their POSIX names. Each goes to the sandbox's broker and returns
// the kernel's answer, or the policy's.
//
// Results    as the kernel's: the result of the system call, or a negative error number. EPERM: the policy does not
//            allow it. EACCES: the policy does, but the path leaves its rule's directory, or leads to something that is
//            neither a file nor a directory. EIO and others as usual.
// Handles    are the broker's numbers. Unmodified code may use them as well, but only it may use the numbers from its
//            own calls.
// Data       in a job's window goes to the kernel without a copy; other data is copied in pieces, so a read may see
//            changes to the file in between.
// Waiting    a waiting fiber lets the others of its thread run. So the calls of many fibers overlap, and each costs a
//            fraction of a single call.
// Threads    for the sandbox's one thread and its fibers.
// Order      calls of one fiber are made one after another.
// Cost       a call is one request to the broker: O(1) stores and a full fence, and a futex call if the broker sleeps;
//            the wait spins, then sleeps (futex). Data that is copied: O(size), with one or two requests for each
//            piece. No allocation after construction.
// Errors     throws nothing.
// Source     ours, after section V-F of Arnautov, Felber, Fetzer and Trach, "FFQ", IPDPS 2017.
#pragma once

#include <muster/syscall/broker.hpp>        // processor_now
#include <muster/syscall/detail/arena.hpp>  // arena_map

#include <fcntl.h>     // O_RDONLY
#include <poll.h>      // pollfd
#include <sys/stat.h>  // struct stat
#include <sys/vfs.h>   // struct statfs
#include <unistd.h>    // SEEK_CUR

#include <algorithm>    // std::min
#include <cerrno>       // EINVAL
#include <cstddef>      // std::byte
#include <cstdint>      // std::int64_t
#include <cstring>      // std::memcpy
#include <ctime>        // timespec
#include <limits>       // the latest time
#include <span>         // data
#include <string_view>  // paths
#include <vector>       // places for calls

namespace muster::inline MUSTER_ABI {

class inside {
 public:
  /// The most bytes of a path.
  static constexpr std::uint64_t longest_path = detail::decoder::longest_path;
  /// Kinds of lock(). Of a part of a file: `read`, `write`, and `none` to unlock; `test_read` and `test_write` only
  /// ask. Of a whole file, as flock(2): `shared`, `exclusive`, and `released` to unlock.
  using file_lock = detail::file_lock;

  /// Prepares the inside's part of the arena. Call before the wall is raised, because it allocates.
  explicit inside(const detail::arena_map& at)
      : at_(at),
        requests_(at.cells(), at.plan().cells()),
        to_broker_(at.head().to_broker),
        to_inside_(at.head().to_inside),
        free_(at.plan().calls) {
    for (std::uint32_t i = 0; i < free_.size(); ++i) free_[i] = i;
    many_free_ = static_cast<std::uint32_t>(free_.size());
  }
  inside(const inside&) = delete;
  inside& operator=(const inside&) = delete;

  // --- Files. `flags`, `mode` and `whence` are as in POSIX.

  /// Opens a file or directory. Returns a handle.
  std::int64_t open(std::string_view path, int flags = O_RDONLY, unsigned mode = 0666) {
    const std::int64_t translated = flags_of(flags);
    if (translated < 0) return translated;
    return on_path(call::open, path, [&](std::uint64_t at) {
      return words{at, path.size(), static_cast<std::uint64_t>(translated), mode};
    });
  }
  /// Closes a handle.
  std::int64_t close(std::int64_t handle) { return ask(call::close, {word(handle)}); }
  /// Returns the number of bytes; 0 at the end of the file.
  std::int64_t read(std::int64_t handle, std::span<std::byte> to) { return get(call::read, handle, to, 0); }
  /// Returns the number of bytes written.
  std::int64_t write(std::int64_t handle, std::span<const std::byte> from) { return put(call::write, handle, from, 0); }
  /// As read, at an offset; the position in the file stays.
  std::int64_t pread(std::int64_t handle, std::span<std::byte> to, std::int64_t offset) {
    return get(call::pread, handle, to, offset);
  }
  /// As write, at an offset; the position in the file stays.
  std::int64_t pwrite(std::int64_t handle, std::span<const std::byte> from, std::int64_t offset) {
    return put(call::pwrite, handle, from, offset);
  }
  /// Moves the position in the file, and returns it.
  std::int64_t lseek(std::int64_t handle, std::int64_t offset, int whence) {
    return ask(call::lseek, {word(handle), word(offset), word(whence)});
  }
  /// The properties of an open file, as fstat(2).
  std::int64_t fstat(std::int64_t handle, struct stat& to) {
    const place here(*this);
    const std::int64_t result = here.ask(call::fstat, {word(handle), here.copy_at()});
    if (result == 0) std::memcpy(&to, here.copy(), sizeof to);
    return result;
  }
  /// The properties of a file, as stat(2).
  std::int64_t stat(std::string_view path, struct stat& to) {
    if (path.size() > longest_path) return -ENAMETOOLONG;
    const place here(*this);
    std::memcpy(here.copy() + sizeof to, path.data(), path.size());
    const std::int64_t result = here.ask(call::stat, {here.copy_at() + sizeof to, path.size(), here.copy_at()});
    if (result == 0) std::memcpy(&to, here.copy(), sizeof to);
    return result;
  }
  /// Waits until the file is on the disk.
  std::int64_t fsync(std::int64_t handle) { return ask(call::fsync, {word(handle)}); }
  /// Sets the size of an open file.
  std::int64_t ftruncate(std::int64_t handle, std::int64_t size) {
    return ask(call::ftruncate, {word(handle), word(size)});
  }
  /// Sets the size of a file.
  std::int64_t truncate(std::string_view path, std::int64_t size) {
    const std::int64_t file = open(path, O_WRONLY);
    if (file < 0) return file;
    const std::int64_t result = ftruncate(file, size);
    close(file);
    return result;
  }
  /// Sets permissions, but no set-user-id, set-group-id or sticky bit.
  std::int64_t chmod(std::string_view path, unsigned mode) {
    return on_path(call::chmod, path, [&](std::uint64_t at) { return words{at, path.size(), mode}; });
  }
  /// As chmod, of an open file.
  std::int64_t fchmod(std::int64_t handle, unsigned mode) { return ask(call::fchmod, {word(handle), mode}); }
  /// The times are as in utimensat(2).
  std::int64_t utimens(std::string_view path, const timespec (&times)[2]) {
    return on_path(call::utimens, path, [&](std::uint64_t at) {
      return words{at, path.size(), word(nanoseconds(times[0])), word(nanoseconds(times[1]))};
    });
  }
  /// As utimens, of an open file.
  std::int64_t futimens(std::int64_t handle, const timespec (&times)[2]) {
    return ask(call::futimens, {word(handle), word(nanoseconds(times[0])), word(nanoseconds(times[1]))});
  }
  /// The properties of the file system of a file, as statfs(2).
  std::int64_t statfs(std::string_view path, struct statfs& to) {
    if (path.size() > longest_path) return -ENAMETOOLONG;
    const place here(*this);
    std::memcpy(here.copy() + sizeof to, path.data(), path.size());
    const std::int64_t result = here.ask(call::statfs, {here.copy_at() + sizeof to, path.size(), here.copy_at()});
    if (result == 0) std::memcpy(&to, here.copy(), sizeof to);
    return result;
  }
  /// The same of an open file.
  std::int64_t fstatfs(std::int64_t handle, struct statfs& to) {
    const place here(*this);
    const std::int64_t result = here.ask(call::fstatfs, {word(handle), here.copy_at()});
    if (result == 0) std::memcpy(&to, here.copy(), sizeof to);
    return result;
  }
  /// Returns -EAGAIN at once if another opening holds a conflicting lock. A length of 0 means to the end of the file.
  std::int64_t lock(std::int64_t handle, file_lock how, std::int64_t offset = 0, std::int64_t length = 0) {
    return ask(call::lock, {word(handle), static_cast<std::uint64_t>(how), word(offset), word(length)});
  }
  /// Copies bytes from one file to another through the broker's memory. A null offset means the file's own.
  std::int64_t copy(std::int64_t from, std::int64_t* from_offset, std::int64_t to, std::int64_t* to_offset,
                    std::uint64_t size) {
    const place here(*this);
    return in_pieces(here, size, [&](std::size_t, std::size_t now) -> std::int64_t {
      const std::int64_t got = from_offset == nullptr
                                   ? here.ask(call::read, {word(from), here.copy_at(), now})
                                   : here.ask(call::pread, {word(from), here.copy_at(), now, word(*from_offset)});
      if (got <= 0) return got;
      const auto most = std::min<std::uint64_t>(static_cast<std::uint64_t>(got), now);
      const std::int64_t put = to_offset == nullptr
                                   ? here.ask(call::write, {word(to), here.copy_at(), most})
                                   : here.ask(call::pwrite, {word(to), here.copy_at(), most, word(*to_offset)});
      const std::int64_t done = std::max<std::int64_t>(put, 0);
      if (from_offset != nullptr) *from_offset += done;
      else if (done < got) here.ask(call::lseek, {word(from), word(done - got), word(SEEK_CUR)});
      if (to_offset != nullptr) *to_offset += done;
      return put;
    });
  }
  /// Like poll(2), for at most 256 handles. A broker thread waits with the caller.
  std::int64_t poll(std::span<pollfd> handles, int milliseconds) {
    if (handles.size() > detail::decoder::most_polled) return -EINVAL;
    const place here(*this);
    std::ranges::copy(std::as_bytes(handles), here.copy());
    const std::int64_t result =
        here.ask(call::poll, {here.copy_at(), handles.size_bytes(), word(std::max(milliseconds, -1))});
    if (result >= 0) std::copy_n(here.copy(), handles.size_bytes(), std::as_writable_bytes(handles).begin());
    return result;
  }
  /// The entries are as in getdents64(2).
  std::int64_t getdents(std::int64_t handle, std::span<std::byte> to) { return get(call::getdents, handle, to, 0); }
  /// Removes a file.
  std::int64_t unlink(std::string_view path) { return remove(path, false); }
  /// Removes an empty directory.
  std::int64_t rmdir(std::string_view path) { return remove(path, true); }
  /// Creates a directory.
  std::int64_t mkdir(std::string_view path, unsigned mode = 0777) {
    return on_path(call::mkdir, path, [&](std::uint64_t at) { return words{at, path.size(), mode}; });
  }
  /// Renames a file or directory, and replaces one of the new name.
  std::int64_t rename(std::string_view from, std::string_view to) {
    if (std::max(from.size(), to.size()) > longest_path) return -ENAMETOOLONG;
    const place here(*this);
    std::memcpy(here.copy(), from.data(), from.size());
    std::memcpy(here.copy() + from.size(), to.data(), to.size());
    return here.ask(call::rename, {here.copy_at(), from.size(), here.copy_at() + from.size(), to.size()});
  }

  // --- TCP on this machine. read() and write() work on connected sockets.

  /// Creates a socket for TCP over IPv4. Returns a handle.
  std::int64_t socket() { return ask(call::socket, {}); }
  /// Connects a socket to a port of 127.0.0.1.
  std::int64_t connect(std::int64_t handle, std::uint16_t port) { return ask(call::connect, {word(handle), port}); }
  /// Gives a socket a port of 127.0.0.1.
  std::int64_t bind(std::int64_t handle, std::uint16_t port) { return ask(call::bind, {word(handle), port}); }
  /// Lets a socket receive connections, of which `most_waiting` may wait.
  std::int64_t listen(std::int64_t handle, unsigned most_waiting) {
    return ask(call::listen, {word(handle), std::min<std::uint64_t>(most_waiting, detail::decoder::most_waiting)});
  }
  /// Waits for a connection. Returns the handle of its socket.
  std::int64_t accept(std::int64_t handle) { return ask(call::accept, {word(handle)}); }
  /// Ends one direction of a connection or both, as shutdown(2).
  std::int64_t shutdown(std::int64_t handle, int how) { return ask(call::shutdown, {word(handle), word(how)}); }

  // --- Others.

  /// Returns the id of the process that holds the broker.
  std::int64_t getppid() { return ask(call::getppid, {}); }
  /// Reports a system call that cannot be requested; returns -EPERM.
  std::int64_t refuse(std::uint64_t number) { return ask(call::refused, {number & 0xffffffffU}); }

 private:
  friend class inside_jobs;
  using call = detail::sandbox_call;
  using words = std::array<std::uint64_t, detail::request_words - 1>;

  template <class Number>
  static std::uint64_t word(Number n) noexcept {
    return static_cast<std::uint64_t>(std::int64_t{n});
  }

  static std::int64_t nanoseconds(const timespec& time) noexcept {
    constexpr std::int64_t second = 1'000'000'000;
    if (time.tv_nsec == UTIME_OMIT) return detail::file_time::unchanged;
    if (time.tv_nsec == UTIME_NOW) return detail::file_time::now;
    // The range is about three centuries around 1970.
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / second - 1;
    return std::clamp<std::int64_t>(time.tv_sec, -most, most) * second + time.tv_nsec;
  }
  /// Returns the flags of a request, or -EINVAL. Irrelevant flags are dropped.
  static std::int64_t flags_of(int flags) noexcept {
    using detail::open_flags;
    constexpr int known = O_ACCMODE | O_APPEND | O_CREAT | O_EXCL | O_TRUNC | O_DIRECTORY | O_CLOEXEC | O_NOCTTY |
                          O_NONBLOCK | O_NOFOLLOW | O_NOATIME | O_LARGEFILE | 0100000 | O_SYNC | O_DSYNC;
    if ((flags & ~known) != 0) return -EINVAL;
    std::uint64_t made = 0;
    switch (flags & O_ACCMODE) {
      case O_RDONLY: made = open_flags::read; break;
      case O_WRONLY: made = open_flags::write; break;
      case O_RDWR: made = open_flags::read | open_flags::write; break;
      default: return -EINVAL;
    }
    if ((flags & O_APPEND) != 0) made |= open_flags::append;
    if ((flags & O_CREAT) != 0) made |= open_flags::create;
    if ((flags & O_EXCL) != 0) made |= open_flags::exclusive;
    if ((flags & O_TRUNC) != 0) made |= open_flags::truncate;
    if ((flags & O_DIRECTORY) != 0) made |= open_flags::directory;
    if ((flags & O_SYNC) == O_SYNC) made |= open_flags::sync;
    else if ((flags & O_DSYNC) != 0) made |= open_flags::data_sync;
    return static_cast<std::int64_t>(made);
  }

  /// A place among the calls in flight, and its part of the arena.
  class place {
   public:
    explicit place(inside& of) noexcept : of_(of), number_(of.take_place()) {}
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    ~place() { of_.free_[of_.many_free_++] = number_; }

    std::uint64_t copy_at() const noexcept { return of_.at_.plan().copy_of(number_); }
    std::byte* copy() const noexcept { return of_.at_.data() + copy_at(); }
    std::size_t copy_bytes() const noexcept { return of_.at_.plan().copy_bytes; }
    MUSTER_HOT std::int64_t ask(call what, const words& a) const noexcept {
      const std::uint64_t first = static_cast<std::uint64_t>(what) | std::uint64_t{number_} << 32U;
      const std::uint64_t number = of_.requests_.push({first, a[0], a[1], a[2], a[3], a[4]});
      of_.to_broker_.ring_one();
      const detail::guarded_slot& own = of_.at_.slots()[number_];
      std::int64_t result = 0;
      const auto ready = [&] { return detail::is_answered(own, number, result); };
      of_.to_inside_.await(of_.at_.head().to_broker, detail::processor_now(), of_.spins_, ready, no_deadline);
      return result;
    }

   private:
    inside& of_;
    const std::uint32_t number_;
  };

  std::uint32_t take_place() noexcept {
    // Fibers beyond the number of places wait for the answers of others. Another fiber may take the place before this
    // one runs.
    while (many_free_ == 0) [[unlikely]]
      to_inside_.await(at_.head().to_broker, 0, spins_, [this] { return many_free_ != 0; }, no_deadline);
    return free_[--many_free_];
  }

  std::int64_t ask(call what, const words& a) { return place(*this).ask(what, a); }

  template <class Words>
  std::int64_t on_path(call what, std::string_view path, Words with) {
    if (path.size() > longest_path) return -ENAMETOOLONG;
    const place here(*this);
    std::memcpy(here.copy(), path.data(), path.size());
    return here.ask(what, with(here.copy_at()));
  }
  std::int64_t remove(std::string_view path, bool directory) {
    return on_path(call::unlink, path, [&](std::uint64_t at) { return words{at, path.size(), word(directory)}; });
  }

  /// Returns its offset in the arena, or the arena's size if it is elsewhere.
  std::uint64_t place_of(const std::byte* data, std::size_t size) const noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(at_.data()), it = reinterpret_cast<std::uintptr_t>(data);
    const std::uint64_t all = at_.plan().data_bytes();
    return it >= begin && it - begin <= all && size <= all - (it - begin) ? it - begin : all;
  }

  std::int64_t get(call what, std::int64_t handle, std::span<std::byte> to, std::int64_t offset) {
    const place here(*this);
    if (const std::uint64_t at = place_of(to.data(), to.size()); at != at_.plan().data_bytes() || to.empty())
      return here.ask(what, {word(handle), to.empty() ? 0 : at, to.size(), word(offset)});
    return in_pieces(here, to.size(), [&](std::size_t done, std::size_t now) -> std::int64_t {
      // Only a file or directory, for which lseek works, is read again: a pipe or socket might wait.
      if (done != 0 && what != call::pread && here.ask(call::lseek, {word(handle), 0, word(SEEK_CUR)}) < 0) return 0;
      const std::int64_t got = here.ask(what, {word(handle), here.copy_at(), now, word(offset) + done});
      if (got > 0) std::memcpy(to.data() + done, here.copy(), std::min(static_cast<std::size_t>(got), now));
      return got;
    });
  }
  std::int64_t put(call what, std::int64_t handle, std::span<const std::byte> from, std::int64_t offset) {
    const place here(*this);
    if (const std::uint64_t at = place_of(from.data(), from.size()); at != at_.plan().data_bytes() || from.empty())
      return here.ask(what, {word(handle), from.empty() ? 0 : at, from.size(), word(offset)});
    return in_pieces(here, from.size(), [&](std::size_t done, std::size_t now) {
      std::memcpy(here.copy(), from.data() + done, now);
      return here.ask(what, {word(handle), here.copy_at(), now, word(offset) + done});
    });
  }
  /// Stops at a piece that is incomplete or fails; earlier pieces then count.
  template <class Piece>
  static std::int64_t in_pieces(const place& here, std::size_t size, Piece piece) {
    std::size_t done = 0;
    while (done < size) {
      const std::size_t now = std::min(size - done, here.copy_bytes());
      const std::int64_t result = piece(done, now);
      if (result < 0) return done != 0 ? static_cast<std::int64_t>(done) : result;
      done += static_cast<std::size_t>(result);
      if (static_cast<std::size_t>(result) != now) break;
    }
    return static_cast<std::int64_t>(done);
  }

  const detail::arena_map at_;
  detail::guarded_producer<detail::request_words> requests_;
  detail::doorbell &to_broker_, &to_inside_;
  detail::spin_extension spins_;     // of a carrier without fibers
  std::vector<std::uint32_t> free_;  // places; the first many_free_ are valid
  std::uint32_t many_free_ = 0;
};

}  // namespace muster::inline MUSTER_ABI
