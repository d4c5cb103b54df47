// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// tree_reader.hpp: reads every regular file under a directory and hands the text out in chunks.
//
// Symbolic links are not followed, so a tree cannot loop. Nothing is lost silently: unreadable files and directories
// are counted, and the first few are named.
#pragma once

#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>     // open
#include <sys/stat.h>  // fstat
#include <unistd.h>    // read, close

namespace word_count {

/// A piece of a file that starts and ends at the border of a word. It is the unit of work: small enough that one
/// large file keeps all counters busy, and moved, never copied, from the reader to a counter.
class chunk {
 public:
  chunk() = default;
  explicit chunk(std::size_t room) : bytes_(std::make_unique_for_overwrite<char[]>(room)), room_(room) {}

  std::span<char> text() { return {bytes_.get(), size_}; }
  std::span<char> free_room() { return {bytes_.get() + size_, room_ - size_}; }
  std::size_t size() const { return size_; }
  std::size_t room() const { return room_; }
  void resize(std::size_t size) { size_ = size; }
  void append(std::span<const char> text) {  // There must be room.
    std::copy(text.begin(), text.end(), free_room().begin());
    size_ += text.size();
  }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

/// Counts of the files that were read and of the files that were not.
struct reading_report {
  std::uint64_t files = 0;              // regular files read to their end
  std::uint64_t bytes = 0;              // handed out
  std::uint64_t chunks = 0;             // handed out
  std::uint64_t links = 0;              // symbolic links, skipped on purpose
  std::uint64_t special = 0;            // FIFOs, sockets and devices, skipped on purpose
  std::uint64_t unreadable = 0;         // files and directories that could not be read, or only in part
  std::vector<std::string> complaints;  // why, for the first few of them
};

/// Calls `send(chunk&&)` for each chunk until the tree ends or `send` returns false. A chunk has `chunk_size` bytes at
/// most, unless one word is longer than that.
template <class Send>
class tree_reader {
 public:
  tree_reader(std::size_t chunk_size, Send send) : chunk_size_(chunk_size), send_(std::move(send)) {}

  reading_report read(const std::filesystem::path& root) {
    // A list instead of a recursive iterator, which ends, or skips silently, at the first directory it may not enter.
    // The list also keeps only one directory open at a time, however deep the tree is.
    std::vector<std::filesystem::path> directories{root};
    while (!directories.empty()) {
      const std::filesystem::path directory = std::move(directories.back());
      directories.pop_back();
      if (!read_directory(directory, directories)) break;
    }
    return std::move(report_);
  }

 private:
  static constexpr std::size_t most_complaints = 5;

  /// Reads the files of one directory and appends its directories to `found`. False: stop.
  bool read_directory(const std::filesystem::path& directory, std::vector<std::filesystem::path>& found) {
    std::error_code error;
    for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
      std::error_code unknown;
      const std::filesystem::file_type type = at->symlink_status(unknown).type();
      if (unknown) complain(at->path().native(), unknown.value());
      else if (type == std::filesystem::file_type::directory) found.push_back(at->path());
      else if (type == std::filesystem::file_type::symlink) ++report_.links;
      else if (type != std::filesystem::file_type::regular) ++report_.special;
      else if (!read_file(at->path().native())) return false;
    }
    if (error) complain(directory.native(), error.value());
    return true;
  }

  /// False: stop. An unreadable file is added to the report, and is no reason to stop.
  bool read_file(const std::string& path) {
    // The file may have been replaced since its directory was listed: O_NOFOLLOW and O_NONBLOCK keep open() from
    // following a link and from waiting for the other side of a FIFO.
    const descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct ::stat status{};
    if (file.number() < 0 || ::fstat(file.number(), &status) != 0) return complain(path, errno);
    if (!S_ISREG(status.st_mode)) return complain(path, EINVAL);

    // One byte more than the reported size, so that the whole file fits and the read sees its end.
    const auto expected = static_cast<std::size_t>(status.st_size) + 1;
    chunk piece(std::min(std::max<std::size_t>(expected, 512), chunk_size_));
    while (true) {
      const std::span<char> room = piece.free_room();
      const ::ssize_t got = ::read(file.number(), room.data(), room.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return complain(path, errno);
      if (got == 0) break;
      piece.resize(piece.size() + static_cast<std::size_t>(got));
      if (piece.size() == piece.room() && !send_whole_words(piece)) return false;
    }
    ++report_.files;
    return piece.size() == 0 || send(std::move(piece));
  }

  /// Sends a full chunk up to its last separator and leaves the rest, which may be the first half of a word, in a new
  /// one. When there is no separator the chunk only grows: a word is never cut. False: stop.
  bool send_whole_words(chunk& piece) {
    const std::span<char> text = piece.text();
    const std::size_t cut = cut_length({text.data(), text.size()});
    chunk rest(std::max(chunk_size_, 2 * (text.size() - cut)));
    rest.append(text.subspan(cut));
    piece.resize(cut);
    std::swap(piece, rest);
    return cut == 0 || send(std::move(rest));
  }

  bool send(chunk&& piece) {
    const std::size_t size = piece.size();
    if (!send_(std::move(piece))) return false;
    report_.bytes += size;
    ++report_.chunks;
    return true;
  }

  bool complain(const std::string& path, int error) {
    if (++report_.unreadable > most_complaints) return true;
    std::string complaint = path + ": " + std::generic_category().message(error);
    // A file name may hold any byte. Do not print bytes that could move the cursor or colour the terminal.
    std::replace_if(complaint.begin(), complaint.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
    report_.complaints.push_back(std::move(complaint));
    return true;
  }

  class descriptor {
   public:
    explicit descriptor(int number) : number_(number) {}
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() {
      if (number_ >= 0) ::close(number_);
    }
    int number() const { return number_; }

   private:
    int number_;
  };

  std::size_t chunk_size_;
  Send send_;
  reading_report report_;
};

}  // namespace word_count
