// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// pages.hpp: a file of numbered pages, which the contenders of syscall/pread read in the same order.
#pragma once

#include "driver/contender.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

/// The file, in a directory of its own; both are removed at the end. Each page begins and ends with its number, from 1.
class numbered_pages {
 public:
  numbered_pages() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a directory for a file: " + name);
    directory_ = name;
    const int to = ::open(path().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    std::vector<std::byte> page(read_spec::bytes);
    bool whole = to >= 0;
    for (std::uint64_t n = 1; n <= read_spec::pages; ++n) {
      std::memcpy(page.data(), &n, sizeof n);
      std::memcpy(page.data() + page.size() - sizeof n, &n, sizeof n);
      whole = whole && ::write(to, page.data(), page.size()) == static_cast<ssize_t>(page.size());
    }
    if (to >= 0) ::close(to);
    if (!whole) throw std::runtime_error("cannot write " + path());
  }
  ~numbered_pages() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  numbered_pages(const numbered_pages&) = delete;
  numbered_pages& operator=(const numbered_pages&) = delete;

  const std::string& directory() const { return directory_; }
  std::string path() const { return directory_ + "/pages"; }

  /// The offset of call `n` of a caller. Neighbours read different pages.
  static std::int64_t offset(unsigned caller, std::uint64_t n) {
    return static_cast<std::int64_t>((n + 7 * std::uint64_t{caller}) % read_spec::pages * read_spec::bytes);
  }
  /// Returns true if a call that returned `got` has read the page that begins there.
  static bool is_page(std::span<const std::byte> page, std::int64_t got, std::int64_t offset) {
    const std::uint64_t expected = static_cast<std::uint64_t>(offset) / read_spec::bytes + 1;
    std::uint64_t first = 0, last = 0;
    std::memcpy(&first, page.data(), sizeof first);
    std::memcpy(&last, page.data() + read_spec::bytes - sizeof last, sizeof last);
    return got == static_cast<std::int64_t>(read_spec::bytes) && first == expected && last == expected;
  }

 private:
  std::string directory_;
};

}  // namespace muster::bench::inline MUSTER_ABI
