// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// caches.hpp: the place of each line of memory, by the protocol MESI with a directory: which core may write it, which
// cores may read it, and which last-level caches have it.
//
// Private  each core has an L1 and an L2, which includes the L1. A line evicted from L2 leaves both; if it was
//          modified, the cluster's L3 gets it.
// Shared   each cluster has an L3 that gets the lines that its cores fetch and evict. It need not include their caches.
//          A modified line that the last cache evicts goes to memory.
// Room     each cache holds a number of lines and evicts the least recently used one. Sets, their conflicts and
//          prefetching are not modelled.
#pragma once

#include "sim/cache/machine.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace muster_simulation {

/// Lines are numbered from 0, without many holes.
using line_number = std::uint32_t;

/// The place where a core found a line, or for a write the furthest that had to drop it; nearest first.
enum class place : unsigned char { l1, l2, l3, in_cluster, elsewhere, memory };
inline constexpr std::size_t places = 6;
inline constexpr std::array<std::string_view, places> place_names{
    "l1 hits", "l2 hits", "l3 hits", "transfers in a cluster", "transfers between clusters", "memory reads"};

struct traffic {
  std::array<std::uint64_t, places> found{};
  std::uint64_t invalidations = 0;  // copies of other cores that a write has ended
  std::uint64_t memory_writes = 0;

  std::uint64_t at(place where) const noexcept { return found[static_cast<std::size_t>(where)]; }
  std::uint64_t transfers() const noexcept { return at(place::in_cluster) + at(place::elsewhere); }
  bool operator==(const traffic&) const = default;
};

/// A number of lines; evicts the least recently used one.
class recently_used {
 public:
  static constexpr line_number none = ~line_number{0};

  explicit recently_used(std::size_t lines) : room_(lines) {}

  bool has(line_number line) const noexcept { return line < links_.size() && links_[line].in; }
  /// Makes it the most recently used line. Returns the evicted line, or none.
  line_number use(line_number line);
  void remove(line_number line);

 private:
  struct link {
    line_number newer = none;
    line_number older = none;
    bool in = false;
  };
  void unlink(const link& of) noexcept;

  std::size_t room_;
  std::size_t count_ = 0;
  line_number newest_ = none;
  line_number oldest_ = none;
  std::vector<link> links_;  // by line
};

class caches {
 public:
  enum class state : unsigned char { invalid, shared, exclusive, modified };

  struct answer {
    place where = place::l1;
    bool from_owner = false;  // another core had it for itself
    bool is_hit() const noexcept { return where <= place::l2; }
  };

  explicit caches(const machine& m);

  /// The answer that read() or write() would return now.
  answer look(unsigned core, line_number line, bool to_write) const;
  answer read(unsigned core, line_number line);
  answer write(unsigned core, line_number line);

  /// A core's access to a line.
  state state_of(unsigned core, line_number line) const noexcept;
  bool in_l3(unsigned cluster, line_number line) const noexcept { return l3_[cluster].has(line); }
  const traffic& seen() const noexcept { return seen_; }

 private:
  using core_set = std::array<std::uint64_t, machine::most_cores / 64>;
  static constexpr unsigned no_core = machine::most_cores;

  struct entry {
    core_set holders{};
    unsigned owner = no_core;  // holds it alone, and may write
    bool modified = false;     // has written
    bool dirty = false;        // memory is older than what the caches have
  };
  struct own_caches {
    recently_used l1;
    recently_used l2;
  };

  static bool is_in(const core_set& set, unsigned core) noexcept { return (set[core / 64] >> core % 64 & 1U) != 0; }
  template <class Use>
  static void for_each(core_set set, Use use);
  entry& at(line_number line);
  answer find(unsigned core, line_number line, const entry& e) const;
  place furthest(unsigned core, line_number line, const entry& e, place so_far) const;
  void keep(unsigned core, line_number line);
  void give_up(unsigned core, line_number line);
  void keep_shared(unsigned cluster, line_number line);
  void last_copy(line_number line);
  void drop_others(unsigned core, line_number line, entry& e);
  answer count(answer a);

  const machine machine_;
  std::vector<entry> lines_;
  std::vector<own_caches> own_;    // by core
  std::vector<recently_used> l3_;  // by cluster
  traffic seen_;
};

}  // namespace muster_simulation
