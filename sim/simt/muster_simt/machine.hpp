// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// machine.hpp: executes kernels without a GPU. Each lane is a fiber; warps of 32 lanes; blocks; multiprocessors, each a
// thread of the host.
//
// Schedule      Lanes are independent, as on every GPU since Volta: at each operation on an atomic, another lane of
//               the multiprocessor may run, as a seed determines. A run with one multiprocessor can be repeated.
// Convergence   is never promised. Lanes in active_mask() get the same mask only at the same call, and then only at
//               random: some groups are split.
// Collectives   match, ballot, shuffle, reduce and sync wait until all lanes of their mask that have not ended have
//               called them. Lanes that call with other masks, or for something else, wait forever.
// Order         Lanes of one multiprocessor run one at a time, so weak memory is not seen; use the model checker. The
//               thread sanitizer treats each lane as a thread, ordered only by atomics, sync and sync_block.
// Errors        launch() throws simt::error: deadlocks (with what each lane waits for), a mask without its caller, a
//               shuffle from a lane outside of the mask, lanes that spin, exceptions that a kernel throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace muster_simt {

struct index {
  unsigned x = 1, y = 1, z = 1;

  std::uint64_t volume() const { return std::uint64_t{x} * y * z; }
};

struct error : std::runtime_error {
  using runtime_error::runtime_error;
};

/// The settings of later launches.
struct settings {
  std::uint64_t seed = 1;
  unsigned multiprocessors = 1;
  unsigned resident = 2;                               // blocks per multiprocessor
  unsigned switch_one_in = 1;                          // operations on atomics: 1 is the wildest, larger is faster
  unsigned split_one_in = 4;                           // groups that converge are torn apart; 0: never
  std::uint64_t most_steps = std::uint64_t{1} << 32U;  // of one multiprocessor between two of its blocks' ends
  bool by_address = false;                             // also count changes for each address
};
settings& current();

/// The changes of one atomic.
struct changes_at {
  const void* address = nullptr;
  std::uint64_t changes = 0;

  friend bool operator==(const changes_at&, const changes_at&) = default;
};

/// The work of all lanes in a launch.
struct counts {
  std::uint64_t changes = 0;      // atomic operations that read and write
  std::uint64_t loads = 0;        // of atomics
  std::uint64_t stores = 0;       // of atomics
  std::uint64_t collectives = 0;  // per lane
  std::uint64_t switches = 0;
  // With settings::by_address: the atomics that were changed, those changed most often first. On a GPU, changes of one
  // address follow each other, while those of different ones overlap.
  std::vector<changes_at> addresses;

  counts& operator+=(const counts& more);
  std::uint64_t memory() const { return changes + loads + stores; }
};

/// Executes `body` once for each thread of the grid. Threads of the host may do so at once, with the same settings.
counts execute(index grid, index block, const std::function<void()>& body);

// --- For the lanes.

enum class collective : std::uint8_t { ballot, match, shuffle, add, either, sync };
enum class access : std::uint8_t { change, load, store };

unsigned lane_id();
/// The lanes that converge with the caller, itself included. The return address identifies the call.
[[gnu::noinline]] std::uint32_t active_mask();
std::uint64_t together(std::uint32_t mask, collective op, std::uint64_t value, unsigned from = 0);
void sync_block();
/// Before each operation on an atomic. On threads that execute no kernel it does nothing.
void point(access kind, const void* address);
unsigned multiprocessor();
/// The warp's place on its multiprocessor: at one time, different for all of its warps.
unsigned warp_place();
std::uint64_t clock();
index thread_index();
index block_index();
index block_size();
index grid_size();
/// Zeroed when the block's first thread asks for it.
void* shared_bytes(const void* key, std::size_t size);
template <class T>
T& shared(const void* key) {
  static_assert(std::is_trivially_copyable_v<T>, "on a device, what a block shares is of a trivial type");
  return *static_cast<T*>(shared_bytes(key, sizeof(T)));
}

}  // namespace muster_simt
