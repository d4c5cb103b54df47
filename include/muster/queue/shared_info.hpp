// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_info.hpp: the state of a queue between processes, also for programs that do not use the queue. Reads the
// queue's memory, writes nothing and never waits. The queue: shared.hpp.
#pragma once

#include <muster/base/detail/mapped_region.hpp>   // mapped_region
#include <muster/base/detail/process.hpp>         // pid_t
#include <muster/queue/detail/shared_layout.hpp>  // the memory layout

#include <algorithm>    // std::min
#include <bit>          // std::has_single_bit
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <cstring>      // std::memcpy
#include <filesystem>   // names
#include <stdexcept>    // std::runtime_error
#include <string>       // messages
#include <string_view>  // std::string_view
#include <vector>       // participants

namespace muster::inline MUSTER_ABI {

/// The opened queue is not the expected one, or no port is available. what() says what to do.
class shared_queue_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A port that has been opened and not closed.
struct shared_queue_participant {
  bool produces = false;        // or it consumes
  bool alive = false;           // not known to be dead
  bool hidden = false;          // a filter keeps this process from seeing if it is alive
  pid_t process = 0;            // its number
  std::uint64_t items = 0;      // pushed, or returned by pop
  std::uint64_t last_rank = 0;  // of a consumer: the last item returned, which may be lost if it died
};

/// The state of a queue. All counts are of some recent moment.
struct shared_queue_info {
  std::string shape;          // the name of the shape, such as "mpmc"
  std::string tag;            // shared_queue_options::tag of its maker
  std::size_t item_size = 0;  // bytes
  std::size_t capacity = 0;   // of each lane
  std::size_t lanes = 0;      // 1, but for shape::lanes
  std::size_t bytes = 0;      // of shared_bytes: for the messages of each lane
  std::size_t items = 0;      // including gaps and pushes in progress
  bool closed = false;        // a close() has begun
  std::uint64_t deaths = 0;   // ports of dead processes recovered; counts twice if a recovery was interrupted
  std::vector<shared_queue_participant> participants;  // all ports
};

namespace detail {

inline constexpr std::uint32_t producer_role = 1, consumer_role = 2;

template <std::size_t Size>
void copy_text(std::string_view text, std::array<char, Size>& into) {
  into = {};
  std::copy_n(text.begin(), std::min(text.size(), Size - 1), into.begin());
}

inline bool is_tag(const std::string& tag) {
  return tag.size() < sizeof(shared_metadata::tag) && tag.find('\0') == std::string::npos;
}
inline std::string no_tag(const std::string& tag) {
  return std::string("the tag '") + tag.c_str() + "' is longer than 31 bytes or contains a 0 byte; choose another";
}

template <std::size_t Size>
std::string text_of(const std::array<char, Size>& text) {
  return std::string(text.data(), ::strnlen(text.data(), Size));
}

/// Returns why this process cannot tell if the other users of a queue are alive; empty if it can.
inline std::string why_foreign(const shared_metadata& f) {
  const std::uint64_t boot = boot_identity(), name_space = process_name_space();
  if ((boot == 0 && f.boot != 0) || (name_space == 0 && f.name_space != 0))
    return "this process cannot read /proc, which shows the processes that are alive; mount it, allow reading it, or "
           "open ports before a filter forbids it";
  if ((boot != 0 && f.boot == 0) || (name_space != 0 && f.name_space == 0))
    return "the process that created the queue could not read /proc, so dead processes cannot be detected; create the "
           "queue where /proc can be read";
  if (!sees_own_processes())
    return "/proc belongs to another PID namespace, so dead processes cannot be detected; mount /proc for this one";
  if (f.boot != boot)
    return "the queue was created before the machine's last boot, so dead processes cannot be detected; delete it";
  if (f.name_space != name_space)
    return "the queue belongs to another PID or time namespace, where processes have other ids; share both namespaces";
  return {};
}

/// Returns the facts of a region after checking that this process can use it; throws otherwise.
inline shared_metadata read_facts(const mapped_region& memory, const std::string& name) {
  const auto refuse = [&](const std::string& why) { MUSTER_THROW(shared_queue_error(name + ": " + why)); };
  shared_metadata f;
  if (memory.size() < sizeof(shared_header))
    refuse(std::to_string(memory.size()) + " bytes are too few for a queue; it was truncated, or is another file");
  std::memcpy(&f, memory.start(), sizeof(f));
  if (f.magic != shared_magic) refuse("this is not a muster queue");
  if (f.version != shared_version)
    refuse("the queue has layout version " + std::to_string(f.version) + ", and this program " +
           std::to_string(shared_version) + "; build both with the same muster");
  if (f.size != memory.size())
    refuse("the queue has " + std::to_string(f.size) + " bytes, and the file " + std::to_string(memory.size()) +
           "; it was truncated: delete it and create another");
  const shared_metadata own = lay_out(f);
  if (!std::has_single_bit(f.cells) || f.capacity == 0 || f.capacity > f.cells || f.cells > f.size / 16 ||
      f.rings == 0 || f.rings >= f.seats || f.seats > shared_word::most_seats || f.item_size == 0 ||
      f.item_size > f.size || f.rings > f.size / f.cells / (f.item_size + 16) || f.arena > f.size / f.rings ||
      f.arena % isolation_size != 0 || f.seats_at != own.seats_at || f.ends_at != own.ends_at ||
      f.arenas_at != own.arenas_at || f.cells_at != own.cells_at || f.cells_at > f.size)
    refuse("the queue's header is damaged; delete it and create another");
  if (const std::string why = why_foreign(f); !why.empty()) refuse(why);
  return f;
}

/// Throws unless the queue's facts are those expected.
inline void compare_facts(const shared_metadata& there, const shared_metadata& wanted, const std::string& name) {
  const auto compare = [&](const char* what, const auto& have, const auto& want) {
    if (have != want)
      MUSTER_THROW(shared_queue_error(name + ": the queue's " + what + " is " + have + ", and this program's " + want +
                                      "; open it with the type and options that created it"));
  };
  compare("shape", text_of(there.shape), text_of(wanted.shape));
  // Not "'" + …: g++ 12 warns of a non-existent overlap there.
  const auto quoted = [](const auto& text) { return std::string(1, '\'').append(text_of(text)).append(1, '\''); };
  compare("tag", quoted(there.tag), quoted(wanted.tag));
  compare("item", std::to_string(there.item_size) + " bytes", std::to_string(wanted.item_size) + " bytes");
  compare("item's alignment", std::to_string(there.item_alignment), std::to_string(wanted.item_alignment));
  compare("layout", std::to_string(there.layout), std::to_string(wanted.layout));
  compare("size", std::to_string(there.size), std::to_string(wanted.size));
}

inline shared_queue_info describe(const unsigned char* region, const shared_metadata& f) {
  const auto& header = *reinterpret_cast<const shared_header*>(region);
  shared_queue_info info;
  info.shape = text_of(f.shape);
  info.tag = text_of(f.tag);
  info.item_size = f.item_size;
  info.capacity = f.capacity;
  info.lanes = f.rings;
  info.bytes = f.arena;
  info.closed = header.consumers.flags() != 0;
  info.deaths = header.deaths.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < f.rings; ++i) {
    const auto& ends = *(reinterpret_cast<const shared_ends*>(region + f.ends_at) + i);
    const rank_t head = ends.head.load(std::memory_order_relaxed);
    const rank_t tail = ends.tail.load(std::memory_order_relaxed);
    if (before(head, tail)) info.items += std::min<std::uint64_t>((tail - head) / shared_word::step, f.capacity);
  }
  for (std::size_t s = 1; s < f.seats; ++s) {
    const auto& seat = *(reinterpret_cast<const shared_seat*>(region + f.seats_at) + s);
    // (1) acquire: pairs with shared_ring.hpp (13). The counts are not those of the previous holder.
    const std::uint64_t holder = seat.holder.load(std::memory_order_acquire);
    if (holder == 0) continue;
    shared_queue_participant one;
    one.produces = seat.role.load(std::memory_order_relaxed) == producer_role;
    one.process = number_of(holder);
    const liveness life = liveness_of(holder);
    one.alive = life != liveness::dead;
    one.hidden = life == liveness::unknown;
    one.items = seat.items.load(std::memory_order_relaxed);
    one.last_rank = seat.last.load(std::memory_order_relaxed) / shared_word::step;
    info.participants.push_back(one);
  }
  return info;
}

}  // namespace detail

/// Reads a queue's file without changing it or disturbing its users. Throws as open() does.
inline shared_queue_info inspect_shared_queue(const std::filesystem::path& path) {
  const mapped_region memory = mapped_region::open_file(path, false);
  const detail::shared_metadata f = detail::read_facts(memory, path.string());
  return detail::describe(memory.start(), f);
}
/// As above, for a descriptor, which may be read-only. The caller still owns it.
inline shared_queue_info inspect_shared_queue(int descriptor) {
  const mapped_region memory = mapped_region::open_descriptor(descriptor, false);
  const detail::shared_metadata f = detail::read_facts(memory, "descriptor " + std::to_string(descriptor));
  return detail::describe(memory.start(), f);
}

}  // namespace muster::inline MUSTER_ABI
