// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// files.hpp: opens a file, reads any part of it, and lists a directory.
//
// Failures are std::system_error; errors inside a tree are stored with the file or directory they belong to. Several
// threads may read one file at once, because a read gives its offset and moves no position.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>     // open
#include <sys/stat.h>  // fstat
#include <unistd.h>    // pread, read, close

namespace find_text {

class input_file {
 public:
  /// `flags` are further flags of open(2), besides O_RDONLY and O_CLOEXEC.
  explicit input_file(const std::string& path, int flags = 0)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {
    if (number_ < 0) throw_errno();
  }
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;
  ~input_file() { ::close(number_); }

  /// The size that the system reports now; 0 for files that are generated while they are read, as in /proc.
  std::uint64_t size() const {
    struct ::stat status{};
    if (::fstat(number_, &status) != 0) throw_errno();
    if (!S_ISREG(status.st_mode)) throw std::system_error(EINVAL, std::generic_category());
    return static_cast<std::uint64_t>(status.st_size);
  }

  /// Reads the bytes from `offset` on. Returns their number, which is less than `room` at the end of the file.
  std::size_t read_at(std::uint64_t offset, std::span<char> room) const {
    return fill(room, [&](char* to, std::size_t most, std::size_t done) {
      return ::pread(number_, to, most, static_cast<::off_t>(offset + done));
    });
  }

  /// Reads the next bytes of a file of any kind. Returns their number, which is less than `room` at the end.
  std::size_t read(std::span<char> room) const {
    return fill(room, [&](char* to, std::size_t most, std::size_t) { return ::read(number_, to, most); });
  }

 private:
  template <class Read>
  static std::size_t fill(std::span<char> room, Read read_some) {
    std::size_t done = 0;
    while (done != room.size()) {
      const ::ssize_t got = read_some(room.data() + done, room.size() - done, done);
      if (got == 0) break;
      if (got > 0) done += static_cast<std::size_t>(got);
      else if (errno != EINTR) throw_errno();
    }
    return done;
  }
  [[noreturn]] static void throw_errno() { throw std::system_error(errno, std::generic_category()); }

  const int number_;
};

/// The whole contents of a file of any kind.
inline std::string read_whole(const std::string& path) {
  const input_file file(path);
  std::string text;
  std::size_t size = 0;
  do {
    text.resize(std::max<std::size_t>(65'536, 2 * size));
    size += file.read(std::span(text).subspan(size));
  } while (size == text.size());
  text.resize(size);
  return text;
}

/// A regular file of a tree and what was found in it.
struct file_result {
  std::string path;
  std::uint64_t lines = 0;  // that match
  std::uint64_t bytes = 0;
  std::string error = {};  // the reason why it could not be read, or empty
  friend bool operator==(const file_result&, const file_result&) = default;
};

/// A directory of a tree and its entries, each in the order of the bytes of the names.
struct directory_result {
  std::string path;
  std::vector<file_result> files = {};
  std::vector<directory_result> directories = {};
  std::string error = {};  // the reason why it could not be read, or empty
};

/// Lists the entries of a directory whose path is set. Like grep -r, it leaves out symbolic links, so that a tree
/// cannot loop, and FIFOs, sockets and devices, which might block forever.
inline void list(directory_result& here) {
  std::error_code error;
  // The directory is closed before anything below it is opened, so deep trees do not exhaust the open files.
  for (std::filesystem::directory_iterator at(here.path, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    const std::filesystem::file_type type = at->symlink_status(unknown).type();
    if (unknown) here.files.push_back({.path = at->path().native(), .error = unknown.message()});
    else if (type == std::filesystem::file_type::directory) here.directories.push_back({.path = at->path().native()});
    else if (type == std::filesystem::file_type::regular) here.files.push_back({.path = at->path().native()});
  }
  if (error) here.error = error.message();
  const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
  std::sort(here.files.begin(), here.files.end(), by_path);
  std::sort(here.directories.begin(), here.directories.end(), by_path);
}

}  // namespace find_text
