// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pipe.hpp: the code that pipe-send and pipe-receive share: the items of the queue, and functions that read, write and
// digest a file.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <muster/queue/shared.hpp>

#include <fcntl.h>   // open
#include <unistd.h>  // read, pwrite

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace pipe_example {

enum exit_status { all_is_well = 0, failed = 1, wrong_usage = 2 };

// [shared-pipe-types]
/// A piece of the file. The last one has no bytes, and holds the digest of all.
struct chunk {
  static constexpr std::size_t most = 4096 - 32;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // bytes in use; 0 in the last piece
  std::array<std::uint64_t, 2> digest{};
  std::array<std::byte, most> bytes{};
};
static_assert(sizeof(chunk) == 4096);

/// One sender, one receiver. The tag keeps a program from opening a queue that was created for another purpose.
using pipe_queue = muster::shared_queue<chunk, muster::shape::spsc>;
inline const std::string tag = "muster pipe 1";
// [/shared-pipe-types]

/// An open file, closed by the destructor.
class file {
 public:
  file(const std::string& path, int flags) : path_(path), descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail("cannot be opened");
  }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  ~file() { ::close(descriptor_); }

  /// Returns the number of bytes read: 0 at the end, and maybe fewer than there is room for, as from a terminal or a
  /// FIFO.
  std::size_t read(std::span<std::byte> into) {
    for (;;) {
      const ssize_t got = ::read(descriptor_, into.data(), into.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) fail("cannot be read");
    }
  }
  void write(std::span<const std::byte> bytes, std::uint64_t offset) {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
  }
  void cut(std::uint64_t size) {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail("cannot be cut to its length");
  }
  void rewind() {
    if (::lseek(descriptor_, 0, SEEK_SET) != 0) fail("cannot be read again");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw std::system_error(errno, std::generic_category(), path_ + " " + what);
  }

  std::string path_;
  int descriptor_;
};

/// The XXH3 of many pieces: fast, and detects accidental errors.
class digest {
 public:
  digest() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void add(std::span<const std::byte> bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }
  std::array<std::uint64_t, 2> value() const {
    const XXH128_hash_t h = XXH3_128bits_digest(state_.get());
    return {h.high64, h.low64};
  }

 private:
  struct release {
    void operator()(XXH3_state_t* s) const { XXH3_freeState(s); }
  };
  std::unique_ptr<XXH3_state_t, release> state_;
};

inline std::string to_text(const std::array<std::uint64_t, 2>& value) {
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(value[0]),
                static_cast<unsigned long long>(value[1]));
  return text.data();
}

// [shared-pipe-peer]
enum class peer { none, alive, dead };

/// The state of the other side, and its process if there is one.
inline std::pair<peer, pid_t> look_for(const pipe_queue& queue, bool producer) {
  for (const muster::shared_queue_participant& p : queue.info().participants)
    if (p.produces == producer) return {p.alive ? peer::alive : peer::dead, p.process};
  return {peer::none, 0};
}
// [/shared-pipe-peer]

}  // namespace pipe_example
