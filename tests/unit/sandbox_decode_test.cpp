// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// The meaning of a request from a sandbox's inside: each call, each bound from both sides, and any words at all.
#include <gtest/gtest.h>
#include <muster/syscall/detail/decode.hpp>

#include "decoded_bounds.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using muster::detail::decoded_call;
using muster::detail::decoder;
using muster::detail::open_flags;
using muster::detail::raw_request;
using muster::detail::sandbox_call;

constexpr std::uint64_t arena_bytes = 16384;
constexpr std::uint32_t slots = 8;
constexpr auto most = std::numeric_limits<std::uint64_t>::max();

/// Nothing but the decoder reads what the inside can write; the kernel gets an address.
template <class Data>
concept can_be_read = requires(const Data& data, const muster::detail::window& w) { data.copied(w); } ||
                      requires(const Data& data, const muster::detail::window& w) { *data.for_kernel(w); } ||
                      requires(const Data& data) { data[0]; } || requires(const Data& data) { *data; } ||
                      requires(const Data& data) { data.start_; } || requires(const Data& data) { data.data(); };
static_assert(!can_be_read<muster::detail::client_data>);
static_assert(can_be_read<std::vector<std::byte>>);

class decoding : public ::testing::Test {
 protected:
  decoding() { put(0, "/a/path"); }
  void put(std::uint64_t at, std::string_view text) { std::memcpy(arena_.data() + at, text.data(), text.size()); }

  decoded_call decode(const raw_request& words) { return decoder({arena_.data(), arena_.size()}, slots)(words); }
  decoded_call decode(sandbox_call call, std::array<std::uint64_t, 5> a = {}, std::uint64_t slot = 3) {
    return decode({static_cast<std::uint64_t>(call) | slot << 32U, a[0], a[1], a[2], a[3], a[4]});
  }
  int error_of(sandbox_call call, std::array<std::uint64_t, 5> a = {}) { return decode(call, a).error; }

  std::vector<std::byte> arena_{arena_bytes};
};

TEST_F(decoding, of_calls_and_slots) {
  const decoded_call one = decode(sandbox_call::getppid);
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(one.what, sandbox_call::getppid);
  EXPECT_EQ(one.slot, 3U);
  EXPECT_EQ(decode(sandbox_call::getppid, {}, slots - 1).error, 0);
  EXPECT_EQ(decode(sandbox_call::getppid, {}, slots).error, EINVAL);
  EXPECT_EQ(decode({muster::detail::sandbox_calls, 0, 0, 0, 0, 0}).error, ENOSYS);
  EXPECT_EQ(decode({most, 0, 0, 0, 0, 0}).error, EINVAL);
  EXPECT_EQ(decode({std::numeric_limits<std::uint32_t>::max(), 0, 0, 0, 0, 0}).error, ENOSYS);
}

TEST_F(decoding, of_paths) {
  const decoded_call one = decode(sandbox_call::open, {0, 7, open_flags::read | open_flags::create, 07777});
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(one.path, "/a/path");
  EXPECT_EQ(one.flags, open_flags::read | open_flags::create);
  EXPECT_EQ(one.mode, 0777U) << "no set-user-id, no sticky bit";
  const auto open = [this](std::uint64_t at, std::uint64_t size) {
    return error_of(sandbox_call::open, {at, size, open_flags::read});
  };
  EXPECT_EQ(open(0, 0), ENOENT);
  EXPECT_EQ(open(0, 8), EINVAL) << "a zero in it";
  EXPECT_EQ(open(0, decoder::longest_path + 1), ENAMETOOLONG);
  EXPECT_EQ(open(0, most), ENAMETOOLONG);
  EXPECT_EQ(open(arena_bytes - 3, 4), EFAULT);
  EXPECT_EQ(open(most, 4), EFAULT);
  EXPECT_EQ(open(most - 2, 4), EFAULT) << "an end that wraps";
  put(arena_bytes - 4, "/end");
  EXPECT_EQ(decode(sandbox_call::open, {arena_bytes - 4, 4, open_flags::write}).path, "/end");
  std::string longest(decoder::longest_path, 'x');
  put(0, longest);
  EXPECT_EQ(decode(sandbox_call::mkdir, {0, decoder::longest_path, 0755}).path, longest);
}

TEST_F(decoding, of_flags) {
  const auto open = [this](std::uint64_t flags) { return error_of(sandbox_call::open, {0, 7, flags}); };
  EXPECT_EQ(open(0), EINVAL) << "neither to be read nor written";
  EXPECT_EQ(open(open_flags::create), EINVAL);
  EXPECT_EQ(open(open_flags::all - open_flags::directory), 0);
  EXPECT_EQ(open(open_flags::all - open_flags::create), 0);
  EXPECT_EQ(open(open_flags::all), EINVAL) << "to create and to be a directory";
  EXPECT_EQ(open(open_flags::read | open_flags::create | open_flags::directory), EINVAL);
  EXPECT_EQ(open(open_flags::all + 1), EINVAL);
  EXPECT_EQ(open(most), EINVAL);
}

TEST_F(decoding, of_two_paths) {
  put(100, "/another");
  const decoded_call one = decode(sandbox_call::rename, {0, 7, 100, 8});
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(one.path, "/a/path");
  EXPECT_EQ(one.other_path, "/another");
  EXPECT_EQ(error_of(sandbox_call::rename, {0, 7, most, 8}), EFAULT);
  EXPECT_EQ(error_of(sandbox_call::rename, {0, 0, 100, 8}), ENOENT);
}

TEST_F(decoding, of_data) {
  const decoded_call one = decode(sandbox_call::pread, {7, 100, 200, 300});
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(one.handle, 7U);
  EXPECT_EQ(one.data.at, 100U);
  EXPECT_EQ(one.data.size, 200U);
  EXPECT_EQ(one.offset, 300);
  for (const sandbox_call call :
       {sandbox_call::read, sandbox_call::write, sandbox_call::pread, sandbox_call::pwrite, sandbox_call::getdents}) {
    EXPECT_EQ(error_of(call, {7, 0, arena_bytes}), 0);
    EXPECT_EQ(error_of(call, {7, arena_bytes, 0}), 0);
    EXPECT_EQ(error_of(call, {7, 1, arena_bytes}), EFAULT);
    EXPECT_EQ(error_of(call, {7, arena_bytes + 1, 0}), EFAULT);
    EXPECT_EQ(error_of(call, {7, most, most}), EFAULT);
    EXPECT_EQ(error_of(call, {7, 1, most}), EFAULT);
    EXPECT_EQ(error_of(call, {std::uint64_t{1} << 32U, 0, 1}), EBADF);
  }
  EXPECT_EQ(error_of(sandbox_call::pread, {7, 0, 1, std::uint64_t{1} << 63U}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::fstat, {7, arena_bytes - decoder::bytes_of_stat}), 0);
  EXPECT_EQ(error_of(sandbox_call::fstat, {7, arena_bytes - decoder::bytes_of_stat + 1}), EFAULT);
  EXPECT_EQ(error_of(sandbox_call::stat, {0, 7, arena_bytes - decoder::bytes_of_stat}), 0);
  EXPECT_EQ(error_of(sandbox_call::stat, {0, 7, most}), EFAULT);
}

TEST_F(decoding, of_offsets) {
  EXPECT_EQ(decode(sandbox_call::lseek, {7, most, 1}).offset, -1);
  EXPECT_EQ(decode(sandbox_call::lseek, {7, 5, 2}).flags, 2U);
  EXPECT_EQ(error_of(sandbox_call::lseek, {7, 0, 3}), EINVAL);
  EXPECT_EQ(decode(sandbox_call::ftruncate, {7, 5}).offset, 5);
  EXPECT_EQ(error_of(sandbox_call::ftruncate, {7, most}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::close, {7}), 0);
  EXPECT_EQ(error_of(sandbox_call::fsync, {most}), EBADF);
  EXPECT_EQ(decode(sandbox_call::unlink, {0, 7, 1}).flags, 1U);
  EXPECT_EQ(error_of(sandbox_call::unlink, {0, 7, 2}), EINVAL);
}

TEST_F(decoding, of_permissions_and_times) {
  const decoded_call one = decode(sandbox_call::chmod, {0, 7, 07751});
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(one.path, "/a/path");
  EXPECT_EQ(one.mode, 0751U) << "no set-user-id, no sticky bit";
  EXPECT_EQ(error_of(sandbox_call::chmod, {0, 0, 0644}), ENOENT);
  EXPECT_EQ(decode(sandbox_call::fchmod, {5, 06640}).mode, 0640U);
  EXPECT_EQ(decode(sandbox_call::fchmod, {5, 06640}).handle, 5U);
  EXPECT_EQ(error_of(sandbox_call::fchmod, {most, 0644}), EBADF);
  const decoded_call times = decode(sandbox_call::utimens, {0, 7, most, 1'000'000'007});
  EXPECT_EQ(times.error, 0);
  EXPECT_EQ(times.path, "/a/path");
  EXPECT_EQ(times.offset, -1);
  EXPECT_EQ(times.other_offset, 1'000'000'007);
  EXPECT_EQ(error_of(sandbox_call::utimens, {0, arena_bytes, 1, 2}), ENAMETOOLONG);
  const decoded_call others = decode(sandbox_call::futimens, {6, std::uint64_t{1} << 63U, 3});
  EXPECT_EQ(others.handle, 6U);
  EXPECT_EQ(others.offset, muster::detail::file_time::unchanged);
  EXPECT_EQ(others.other_offset, 3);
  EXPECT_EQ(error_of(sandbox_call::futimens, {most, 1, 3}), EBADF);
}

TEST_F(decoding, of_file_systems) {
  const std::uint64_t last = arena_bytes - decoder::bytes_of_statfs;
  EXPECT_EQ(decode(sandbox_call::statfs, {0, 7, last}).path, "/a/path");
  EXPECT_EQ(error_of(sandbox_call::statfs, {0, 7, last + 1}), EFAULT);
  EXPECT_EQ(decode(sandbox_call::fstatfs, {8, last}).data.at, last);
  EXPECT_EQ(error_of(sandbox_call::fstatfs, {8, last + 1}), EFAULT);
  EXPECT_EQ(error_of(sandbox_call::fstatfs, {most, 0}), EBADF);
}

TEST_F(decoding, of_locks) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const decoded_call one = decode(sandbox_call::lock, {9, 7, 11, 13});
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(one.handle, 9U);
  EXPECT_EQ(one.flags, 7U);
  EXPECT_EQ(one.offset, 11);
  EXPECT_EQ(one.other_offset, 13);
  EXPECT_EQ(error_of(sandbox_call::lock, {9, 8, 11, 13}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::lock, {9, 0, largest + 1, 0}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::lock, {9, 0, 11, largest - 11}), 0);
  EXPECT_EQ(error_of(sandbox_call::lock, {9, 0, 11, largest - 10}), EINVAL) << "an end that no file has";
  EXPECT_EQ(error_of(sandbox_call::lock, {9, 0, 0, most}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::lock, {most, 0, 0, 0}), EBADF);
}

TEST_F(decoding, of_lists) {
  constexpr auto longest_time = static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  put(40, "12345678abcdefgh");
  const decoded_call one = decode(sandbox_call::poll, {40, 16, 250});
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(one.list, "12345678abcdefgh") << "a copy";
  EXPECT_EQ(one.data.at, 40U);
  EXPECT_EQ(one.data.size, 16U);
  EXPECT_EQ(one.offset, 250);
  EXPECT_EQ(decode(sandbox_call::poll, {40, 0, most}).offset, -1) << "without end";
  EXPECT_EQ(error_of(sandbox_call::poll, {40, 8, longest_time}), 0);
  EXPECT_EQ(error_of(sandbox_call::poll, {40, 8, longest_time + 1}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::poll, {40, 8, most - 1}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::poll, {40, 7, 0}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::poll, {40, 8 * decoder::most_polled, 0}), 0);
  EXPECT_EQ(error_of(sandbox_call::poll, {40, 8 * decoder::most_polled + 8, 0}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::poll, {arena_bytes - 7, 8, 0}), EFAULT);
}

TEST_F(decoding, of_ports_and_counts) {
  for (const sandbox_call call : {sandbox_call::connect, sandbox_call::bind}) {
    EXPECT_EQ(decode(call, {7, 65535}).flags, 65535U);
    EXPECT_EQ(error_of(call, {7, 1}), 0);
    EXPECT_EQ(error_of(call, {7, 0}), EINVAL);
    EXPECT_EQ(error_of(call, {7, 65536}), EINVAL);
    EXPECT_EQ(error_of(call, {7, most}), EINVAL);
    EXPECT_EQ(error_of(call, {most, 1}), EBADF);
  }
  EXPECT_EQ(error_of(sandbox_call::listen, {7, decoder::most_waiting}), 0);
  EXPECT_EQ(error_of(sandbox_call::listen, {7, decoder::most_waiting + 1}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::shutdown, {7, 2}), 0);
  EXPECT_EQ(error_of(sandbox_call::shutdown, {7, 3}), EINVAL);
  EXPECT_EQ(error_of(sandbox_call::accept, {7}), 0);
  EXPECT_EQ(error_of(sandbox_call::accept, {most}), EBADF);
  EXPECT_EQ(decode(sandbox_call::refused, {56}).flags, 56U);
  EXPECT_EQ(error_of(sandbox_call::refused, {most}), EINVAL);
}

// Words that are near every bound, or anything.
TEST_F(decoding, of_anything) {
  std::mt19937_64 random(5);
  const std::uint64_t near[] = {0,
                                1,
                                2,
                                7,
                                slots,
                                128,
                                144,
                                4095,
                                arena_bytes,
                                std::uint64_t{1} << 31U,
                                std::uint64_t{1} << 32U,
                                std::uint64_t{1} << 63U,
                                most};
  for (std::byte& b : arena_) b = static_cast<std::byte>(1 + random() % 255);
  unsigned right = 0;
  for (unsigned i = 0; i < 1'000'000; ++i) {
    raw_request words;
    for (std::uint64_t& word : words)
      word = random() % 4 == 0 ? random() : near[random() % std::size(near)] + random() % 5 - 2;
    if (random() % 8 != 0) words[0] = random() % muster::detail::sandbox_calls | (random() % slots) << 32U;
    const decoded_call one = decode(words);
    right += one.error == 0;
    ASSERT_STREQ(muster_test::out_of_bounds(one, {arena_.data(), arena_.size()}, slots), nullptr) << words[0];
  }
  EXPECT_GE(right, 50'000U);
}

// A path that changes while it is copied may be any mixture, but the checked copy is the one that is used.
TEST_F(decoding, of_a_path_that_changes) {
  const std::jthread writer([&](const std::stop_token& over) {
    auto* const first = reinterpret_cast<std::atomic<unsigned char>*>(arena_.data());
    for (unsigned i = 0; !over.stop_requested(); ++i)
      first[3].store(i % 2 == 0 ? 'p' : '\0', std::memory_order_relaxed);
  });
  // Until it has changed often enough that it must have changed during a copy.
  int before = 0;
  for (unsigned changes = 0; changes < 1'000;) {
    const decoded_call one = decode(sandbox_call::open, {0, 7, open_flags::read});
    changes += one.error != before;
    before = one.error;
    if (one.error == 0) {
      ASSERT_EQ(one.path, "/a/path");
    } else {
      ASSERT_EQ(one.error, EINVAL);
    }
  }
}

}  // namespace
