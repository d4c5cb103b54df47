// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// decode.hpp: decodes a request of a sandbox's inside, or says why it is invalid. Only here do words from the inside
// become numbers, places and paths; all of them are copies.
//
// A request has six words: the call with its caller's slot, and five arguments. Data and paths are in the shared arena,
// at offsets into it. Data is never read here; a path or a list is copied before it is read.
//
// Order      stateless. Bounded: at most as many steps as a path has bytes.
// Hostile    every value of every word yields either a call with valid arguments or an error.
// Errors     the kernel's: EBADF, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, ENOSYS, as a positive number in `error`.
// Source     ours.
#pragma once

#include <muster/base/config.hpp>                 // MUSTER_ABI
#include <muster/syscall/detail/client_data.hpp>  // client_data, window

#include <poll.h>      // pollfd
#include <sys/stat.h>  // struct stat
#include <sys/vfs.h>   // struct statfs

#include <algorithm>    // std::min
#include <array>        // a request
#include <cerrno>       // EINVAL
#include <cstdint>      // std::uint64_t
#include <limits>       // the largest offset
#include <string>       // paths
#include <string_view>  // paths

namespace muster::inline MUSTER_ABI::detail {

inline constexpr std::size_t request_words = 6;
using raw_request = std::array<std::uint64_t, request_words>;

/// The available calls. The numbers are the protocol's, not the kernel's.
enum class sandbox_call : std::uint32_t {
  getppid,
  open,       // path, flags, mode -> handle
  close,      // handle
  read,       // handle, data -> bytes
  write,      // handle, data -> bytes
  pread,      // handle, data, offset -> bytes
  pwrite,     // handle, data, offset -> bytes
  lseek,      // handle, offset, whence -> offset
  fstat,      // handle, data of a struct stat's size
  stat,       // path, data of a struct stat's size
  fsync,      // handle
  ftruncate,  // handle, offset
  getdents,   // handle, data -> bytes
  unlink,     // path, true for a directory
  mkdir,      // path, mode
  rename,     // path, path
  socket,     // -> handle of a TCP socket
  connect,    // handle, port of this machine
  bind,       // handle, port of this machine
  listen,     // handle, length of the queue
  accept,     // handle -> handle
  shutdown,   // handle, direction: 0 reading, 1 writing, 2 both
  chmod,      // path, mode
  fchmod,     // handle, mode
  utimens,    // path, two times
  futimens,   // handle, two times
  statfs,     // path, data of a struct statfs's size
  fstatfs,    // handle, data of a struct statfs's size
  lock,       // handle, kind, offset, length
  poll,       // data of an array of struct pollfd, milliseconds
  refused,    // number of a system call that was not brokered: for the log only
};
inline constexpr std::uint32_t sandbox_calls = static_cast<std::uint32_t>(sandbox_call::refused) + 1;

/// The open flags of the protocol.
struct open_flags {
  static constexpr std::uint64_t read = 1, write = 2, append = 4, create = 8, exclusive = 16, truncate = 32,
                                 directory = 64, sync = 128, data_sync = 256, all = 511;
  static constexpr std::uint64_t only_read = read | directory | sync | data_sync;  ///< change nothing
};

/// Kinds of locks and tests: of fcntl(2), and from `shared` on of flock(2).
enum class file_lock : std::uint64_t { read, write, none, test_read, test_write, shared, exclusive, released };

/// Times of files are nanoseconds since 1970, except for two special values.
struct file_time {
  static constexpr std::int64_t unchanged = std::numeric_limits<std::int64_t>::min(), now = unchanged + 1;
};

struct decoded_call {
  int error = 0;  // 0, or an error number; then only the slot is valid
  sandbox_call what = sandbox_call::getppid;
  std::uint32_t slot = 0;
  std::uint32_t handle = 0;
  std::uint64_t flags = 0;  // of open; whence; true for a directory; a port; a count; a number
  std::uint32_t mode = 0;
  std::int64_t offset = 0;        // or a time, or milliseconds; -1: no limit
  std::int64_t other_offset = 0;  // or a length, or a time
  window data;
  std::string path, other_path;
  std::string list;  // a copy of the data
};

class decoder {
 public:
  static constexpr std::uint64_t longest_path = 4095;
  static constexpr std::uint64_t bytes_of_stat = sizeof(struct stat);
  static constexpr std::uint64_t bytes_of_statfs = sizeof(struct statfs);
  static constexpr std::uint64_t most_waiting = 4096;  // at a listening socket
  static constexpr std::uint64_t most_polled = 256;    // handles at once

  /// `slots` is the client's number of callers.
  decoder(const client_data& data, std::uint32_t slots) noexcept : data_(data), slots_(slots) {}

  decoded_call operator()(const raw_request& words) const {
    decoded_call made;
    const std::uint64_t* const a = words.data() + 1;
    made.slot = static_cast<std::uint32_t>(words[0] >> 32U);
    if (made.slot >= slots_) return made.error = EINVAL, made;
    made.what = static_cast<sandbox_call>(static_cast<std::uint32_t>(words[0]));
    switch (made.what) {
      case sandbox_call::getppid: return made;
      case sandbox_call::open:
        if (a[2] > open_flags::all || (a[2] & (open_flags::read | open_flags::write)) == 0) made.error = EINVAL;
        // Before Linux 6.4 this pair makes a file and reports an error, so its room would not be counted.
        if ((a[2] & open_flags::create) != 0 && (a[2] & open_flags::directory) != 0) made.error = EINVAL;
        made.flags = a[2];
        made.mode = mode_of(a[3]);
        take_path(made, made.path, {a[0], a[1]});
        return made;
      case sandbox_call::close:
      case sandbox_call::fsync: take_handle(made, a[0]); return made;
      case sandbox_call::pread:
      case sandbox_call::pwrite: take_offset(made, a[3]); [[fallthrough]];
      case sandbox_call::read:
      case sandbox_call::write:
      case sandbox_call::getdents:
        take_handle(made, a[0]);
        take_data(made, {a[1], a[2]});
        return made;
      case sandbox_call::lseek:
        if (a[2] > 2) made.error = EINVAL;
        made.flags = a[2];
        made.offset = static_cast<std::int64_t>(a[1]);  // may be negative
        take_handle(made, a[0]);
        return made;
      case sandbox_call::fstat:
        take_handle(made, a[0]);
        take_data(made, {a[1], bytes_of_stat});
        return made;
      case sandbox_call::stat:
        take_path(made, made.path, {a[0], a[1]});
        take_data(made, {a[2], bytes_of_stat});
        return made;
      case sandbox_call::ftruncate:
        take_handle(made, a[0]);
        take_offset(made, a[1]);
        return made;
      case sandbox_call::unlink:
        if (a[2] > 1) made.error = EINVAL;
        made.flags = a[2];
        take_path(made, made.path, {a[0], a[1]});
        return made;
      case sandbox_call::mkdir:
        made.mode = mode_of(a[2]);
        take_path(made, made.path, {a[0], a[1]});
        return made;
      case sandbox_call::rename:
        take_path(made, made.path, {a[0], a[1]});
        take_path(made, made.other_path, {a[2], a[3]});
        return made;
      case sandbox_call::socket: return made;
      case sandbox_call::connect:
      case sandbox_call::bind:
        take_handle(made, a[0]);
        take_number(made, a[1], 1, 65535);
        return made;
      case sandbox_call::listen:
        take_handle(made, a[0]);
        take_number(made, a[1], 0, most_waiting);
        return made;
      case sandbox_call::accept: take_handle(made, a[0]); return made;
      case sandbox_call::shutdown:
        take_handle(made, a[0]);
        take_number(made, a[1], 0, 2);
        return made;
      case sandbox_call::chmod:
        made.mode = mode_of(a[2]);
        take_path(made, made.path, {a[0], a[1]});
        return made;
      case sandbox_call::fchmod:
        made.mode = mode_of(a[1]);
        take_handle(made, a[0]);
        return made;
      case sandbox_call::utimens:
        take_times(made, a[2], a[3]);
        take_path(made, made.path, {a[0], a[1]});
        return made;
      case sandbox_call::futimens:
        take_times(made, a[1], a[2]);
        take_handle(made, a[0]);
        return made;
      case sandbox_call::statfs:
        take_path(made, made.path, {a[0], a[1]});
        take_data(made, {a[2], bytes_of_statfs});
        return made;
      case sandbox_call::fstatfs:
        take_handle(made, a[0]);
        take_data(made, {a[1], bytes_of_statfs});
        return made;
      case sandbox_call::lock:
        take_handle(made, a[0]);
        take_number(made, a[1], 0, static_cast<std::uint64_t>(file_lock::released));
        take_offset(made, a[2]);
        take_length(made, a[2], a[3]);
        return made;
      case sandbox_call::poll:
        if (a[1] % sizeof(pollfd) != 0 || a[1] > most_polled * sizeof(pollfd)) made.error = EINVAL;
        else take_list(made, {a[0], a[1]});
        made.offset = static_cast<std::int64_t>(a[2]);
        if (made.offset < -1 || made.offset > std::numeric_limits<int>::max()) made.error = EINVAL;
        return made;
      case sandbox_call::refused: take_number(made, a[0], 0, std::numeric_limits<std::uint32_t>::max()); return made;
    }
    made.what = sandbox_call::getppid;
    made.error = ENOSYS;
    return made;
  }

 private:
  /// Keeps permission bits only: no set-user-id, no sticky bit.
  static std::uint32_t mode_of(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word & 0777U); }

  static void take_number(decoded_call& made, std::uint64_t word, std::uint64_t least, std::uint64_t most) noexcept {
    if (word < least || word > most) made.error = EINVAL;
    made.flags = word;
  }
  static void take_handle(decoded_call& made, std::uint64_t word) noexcept {
    if (word > std::numeric_limits<std::uint32_t>::max()) made.error = EBADF;
    made.handle = static_cast<std::uint32_t>(word);
  }
  static void take_offset(decoded_call& made, std::uint64_t word) noexcept {
    if (word > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) made.error = EINVAL;
    made.offset = static_cast<std::int64_t>(word);
  }
  /// At most the end of the largest file.
  static void take_length(decoded_call& made, std::uint64_t offset, std::uint64_t word) noexcept {
    constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (word > largest - std::min(offset, largest)) made.error = EINVAL;
    made.other_offset = static_cast<std::int64_t>(word);
  }
  void take_data(decoded_call& made, const window& w) const noexcept {
    if (!data_.has(w)) made.error = EFAULT;
    else made.data = w;
  }
  void take_list(decoded_call& made, const window& w) const {
    take_data(made, w);
    if (made.error == 0) made.list = data_.copied(w);
  }
  static void take_times(decoded_call& made, std::uint64_t accessed, std::uint64_t modified) noexcept {
    made.offset = static_cast<std::int64_t>(accessed);
    made.other_offset = static_cast<std::int64_t>(modified);
  }
  /// The path must not be empty or contain a zero byte; the copy is checked.
  void take_path(decoded_call& made, std::string& to, const window& w) const {
    if (w.size > longest_path) {
      made.error = ENAMETOOLONG;
    } else if (w.size == 0) {
      made.error = ENOENT;
    } else if (!data_.has(w)) {
      made.error = EFAULT;
    } else {
      to = data_.copied(w);
      if (to.find('\0') != to.npos) made.error = EINVAL;
    }
  }

  const client_data data_;
  const std::uint32_t slots_;
};

}  // namespace muster::inline MUSTER_ABI::detail
