// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// decoded_bounds.hpp: what is true of every call that a broker has decoded, whatever the words of its request were.
#pragma once

#include <muster/syscall/detail/decode.hpp>

#include <cstdint>
#include <limits>

namespace muster_test {

/// Null, or what the call breaks.
inline const char* out_of_bounds(const muster::detail::decoded_call& one, const muster::detail::client_data& data,
                                 std::uint32_t slots) {
  using muster::detail::decoder;
  using muster::detail::open_flags;
  using muster::detail::sandbox_call;
  if (static_cast<std::uint32_t>(one.what) >= muster::detail::sandbox_calls) return "there is no such call";
  if (one.error < 0) return "an error number is negative";
  if (one.error != 0) return nullptr;
  if (one.slot >= slots) return "there is no such slot";
  if (!data.has(one.data)) return "data lies outside the arena";
  if (one.mode > 0777) return "a mode has more bits than those of permissions";
  const bool has_times = one.what == sandbox_call::utimens || one.what == sandbox_call::futimens;
  if (one.what == sandbox_call::poll) {
    if (one.offset < -1 || one.offset > std::numeric_limits<int>::max()) return "a time to wait is out of its bounds";
    if (one.list.size() != one.data.size || one.list.size() > 8 * decoder::most_polled || one.list.size() % 8 != 0)
      return "a list is none";
  } else if (one.offset < 0 && one.what != sandbox_call::lseek && !has_times) {
    return "an offset is negative";
  }
  if (!has_times && (one.other_offset < 0 || one.offset > std::numeric_limits<std::int64_t>::max() - one.other_offset))
    return "a length is negative or too large";
  for (const std::string* path : {&one.path, &one.other_path})
    if (path->size() > decoder::longest_path || path->find('\0') != path->npos) return "a path is none";
  const bool has_path = one.what == sandbox_call::open || one.what == sandbox_call::stat ||
                        one.what == sandbox_call::unlink || one.what == sandbox_call::mkdir ||
                        one.what == sandbox_call::rename || one.what == sandbox_call::chmod ||
                        one.what == sandbox_call::utimens || one.what == sandbox_call::statfs;
  if (one.path.empty() == has_path) return "a path is missing, or there is one";
  if (one.other_path.empty() == (one.what == sandbox_call::rename)) return "a second path is missing, or there is one";
  constexpr std::uint64_t makes_directory = open_flags::create | open_flags::directory;
  if (one.what == sandbox_call::open && (one.flags & makes_directory) == makes_directory)
    return "a file is to be made that is to be a directory";
  std::uint64_t least = 0, most = 0;
  switch (one.what) {
    case sandbox_call::open: most = open_flags::all; break;
    case sandbox_call::lseek:
    case sandbox_call::shutdown: most = 2; break;
    case sandbox_call::unlink: most = 1; break;
    case sandbox_call::connect:
    case sandbox_call::bind: least = 1, most = 65535; break;
    case sandbox_call::listen: most = decoder::most_waiting; break;
    case sandbox_call::lock: most = 7; break;
    case sandbox_call::refused: most = std::numeric_limits<std::uint32_t>::max(); break;
    default: break;
  }
  return one.flags < least || one.flags > most ? "a number is out of its bounds" : nullptr;
}

}  // namespace muster_test
