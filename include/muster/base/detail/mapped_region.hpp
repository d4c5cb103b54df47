// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mapped_region.hpp: memory shared by processes: a file, or unnamed memory (memfd) that is passed by its descriptor.
// Linux.
//
// A new file appears under its name only after fill() has returned: it is created without a name, then linked.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>             // MUSTER_ABI
#include <muster/base/detail/scope_exit.hpp>  // scope_exit

#include <fcntl.h>     // open, F_ADD_SEALS
#include <sys/mman.h>  // mmap, memfd_create
#include <sys/stat.h>  // fstat
#include <unistd.h>    // linkat

#include <algorithm>     // std::min
#include <cerrno>        // errno
#include <cstddef>       // std::size_t
#include <cstdlib>       // mkostemp
#include <filesystem>    // std::filesystem::path
#include <string>        // messages
#include <system_error>  // std::system_error
#include <utility>       // std::exchange

namespace muster::inline MUSTER_ABI {

/// A descriptor and the memory behind it. Throws std::system_error, whose message says what to do.
class mapped_region {
 public:
  mapped_region(mapped_region&& other) noexcept
      : file_(std::exchange(other.file_, -1)), start_(std::exchange(other.start_, nullptr)), size_(other.size_) {}
  mapped_region& operator=(mapped_region&&) = delete;
  ~mapped_region() {
    if (start_ != nullptr) ::munmap(start_, size_);
    if (file_ >= 0) ::close(file_);
  }

  /// Creates unnamed memory; its size is sealed.
  template <class Fill>
  static mapped_region make_anonymous(std::size_t size, Fill fill) {
    return make_anonymous(size, size, fill);
  }
  /// As above, but allocates only the first `now` bytes at once, the others when they are used.
  template <class Fill>
  static mapped_region make_anonymous(std::size_t size, std::size_t now, Fill fill) {
    mapped_region made(::memfd_create("muster", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                       "cannot create shared memory by memfd_create(2)");
    made.fill(size, now, fill);
    // Prevents any process from truncating the memory under the others. Kernels without seals cannot.
    ::fcntl(made.file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return made;
  }
  /// Creates a file.
  template <class Fill>
  static mapped_region make_file(const std::filesystem::path& path, std::size_t size, Fill fill) {
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    const bool nameless = file >= 0;
    // On file systems without O_TMPFILE, the file briefly has a temporary name.
    std::string before = path.string() + ".new-XXXXXX";
    if (!nameless) file = ::mkostemp(before.data(), O_CLOEXEC);
    mapped_region made(file, "cannot create a file in " + folder.string());
    const detail::scope_exit gone([&] {
      if (!nameless) ::unlink(before.c_str());
    });
    made.fill(size, size, fill);
    const std::string from = nameless ? "/proc/self/fd/" + std::to_string(file) : before;
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      const int why = errno;
      fail(why, "cannot create " + path.string() +
                    (why == EEXIST ? ": it already exists; open it, or delete it if it is not in use" : ""));
    }
    return made;
  }
  /// Opens an existing file.
  static mapped_region open_file(const std::filesystem::path& path, bool writable = true) {
    mapped_region there(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK),
                        "cannot open " + path.string());
    there.map(there.size_of_file(), writable);
    return there;
  }
  /// Maps the memory of a descriptor, which the caller still owns.
  static mapped_region open_descriptor(int descriptor, bool writable = true) {
    mapped_region there(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0),
                        "cannot duplicate the descriptor; pass an open one of shared memory");
    there.map(there.size_of_file(), writable);
    return there;
  }

  unsigned char* start() const noexcept { return static_cast<unsigned char*>(start_); }
  std::size_t size() const noexcept { return size_; }
  int descriptor() const noexcept { return file_; }

 private:
  mapped_region(int file, const std::string& what) : file_(file) {
    if (file < 0) fail(errno, what);
  }

  [[noreturn]] static void fail(int error, const std::string& what) {
    MUSTER_THROW(std::system_error(error, std::generic_category(), what));
  }

  std::size_t size_of_file() const {
    struct stat found{};
    if (::fstat(file_, &found) != 0) fail(errno, "cannot read the size of shared memory");
    return static_cast<std::size_t>(found.st_size);
  }

  static std::string cannot_allocate(std::size_t size) {
    return "cannot allocate " + std::to_string(size) + " bytes of shared memory; free some, or ask for less";
  }

  template <class Fill>
  void fill(std::size_t size, std::size_t allocated, Fill fill) {
    // Allocates now, so that a full file system fails here and not by a signal during a push. Allocates in pieces,
    // because some file systems undo the current piece on a signal.
    constexpr std::size_t piece = std::size_t{16} << 20;
    for (std::size_t at = 0; at < allocated;) {
      const std::size_t now = std::min(piece, allocated - at);
      const int error = ::posix_fallocate(file_, static_cast<off_t>(at), static_cast<off_t>(now));
      if (error == 0) at += now;
      else if (error != EINTR) fail(error, cannot_allocate(size));
    }
    if (allocated < size && ::ftruncate(file_, static_cast<off_t>(size)) != 0) fail(errno, cannot_allocate(size));
    map(size, true);
    fill(start());
  }

  void map(std::size_t size, bool writable) {
    if (size == 0) return;
    void* const at = ::mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) fail(errno, "cannot map " + std::to_string(size) + " bytes of shared memory");
    start_ = at;
    size_ = size;
  }

  int file_;
  void* start_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace muster::inline MUSTER_ABI
