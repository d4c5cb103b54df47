// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// reclaim.hpp: hazard pointers for the nodes of one structure.
//
// Faithful to  Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects", TPDS 2004: a thread announces
//              a node, looks whether it is still reachable, and uses it; a thread that has retired enough nodes reads
//              all announcements and reuses the nodes that are in none.
// Differs      a node that has become free goes to its retirer's pool and from there into the next push, as the
//              per-thread pools of the "Lock Oscillation" experiments do, so that malloc is not what is measured.
//              Beyond `keep` nodes the pool gives them back to delete. Threads may come at any time (the number of
//              announcements grows); who goes leaves its retired nodes to the next one that comes.
// Waiting      there is none; Pause is not needed here.
// Memory       each owner holds back up to `batch`, else 2 * Slots * owners + 16, retired nodes, and `keep` free ones.
//              With batch 1, every retirement looks through all announcements. The domain's end deletes every node that
//              was retired or recycled; what is still in the structure is the structure's to delete, before.
// Order        everything that two threads race on is sequentially consistent. Say a thread stores its announcement
//              and then still reads the node in the structure. A thread that unlinks the node after that reads the
//              announcement later still, and finds it. The structures' own words must be, and are, sequentially
//              consistent as well.
#pragma once

#include "registry.hpp"

#include <muster/base/arch.hpp>  // isolation_size
#include <muster/base/sync.hpp>  // sync::atomic

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

template <class Node, std::size_t Slots>
class hazard_domain {
  struct record;

 public:
  /// `keep`: free nodes that an owner hoards. `batch`: retired nodes before it looks for free ones; 0: as above.
  explicit hazard_domain(std::size_t keep = 1024, std::size_t batch = 0) noexcept : keep_(keep), batch_(batch) {}
  /// No owner is left.
  ~hazard_domain() {
    records_.for_each([](record& r) {
      for (Node* n : r.retired) delete n;
      for (Node* n : r.spare) delete n;
    });
  }

  /// The announcements and nodes of one user-level thread.
  class owner {
   public:
    explicit owner(hazard_domain& domain) : domain_(domain), mine_(domain.records_.join()) {}
    owner(const owner&) = delete;
    owner& operator=(const owner&) = delete;
    ~owner() {
      for (std::size_t slot = 0; slot < Slots; ++slot) clear(slot);
      domain_.records_.leave(mine_);
    }

    /// Returns the node that `from` holds. It has been announced, and `from` still held it afterwards. May be null.
    Node* protect(std::size_t slot, const sync::atomic<Node*>& from) noexcept {
      for (Node* seen = from.load();;) {
        announce(slot, seen);
        Node* const again = from.load();
        if (again == seen) return seen;
        seen = again;
      }
    }
    /// The caller looks afterwards whether the node was still reachable.
    void announce(std::size_t slot, Node* n) noexcept {
      sync::atomic<Node*>& hazard = mine_.hazards[slot];
      if (hazard.load(std::memory_order_relaxed) != n) hazard.store(n);  // an announcement that stands need not be made
    }
    void clear(std::size_t slot) noexcept { mine_.hazards[slot].store(nullptr, std::memory_order_release); }

    /// A free node from the pool, in the state in which it was retired; or new Node(arguments...).
    template <class... Arguments>
    Node* obtain(Arguments&&... arguments) {
      if (mine_.spare.empty()) return new Node(std::forward<Arguments>(arguments)...);
      Node* const n = mine_.spare.back();
      mine_.spare.pop_back();
      return n;
    }
    /// For a node that no other thread has ever seen.
    void recycle(Node* n) {
      if (mine_.spare.size() < domain_.keep_) mine_.spare.push_back(n);
      else delete n;
    }
    /// For a node that no thread can reach any more. Other threads may have announced it.
    void retire(Node* n) {
      mine_.retired.push_back(n);
      if (mine_.retired.size() >= domain_.enough()) scan();
    }

   private:
    void scan() {
      std::vector<Node*>& busy = mine_.busy;
      busy.clear();
      domain_.records_.for_each([&](record& r) {
        for (sync::atomic<Node*>& hazard : r.hazards)
          if (Node* const n = hazard.load(); n != nullptr) busy.push_back(n);
      });
      std::sort(busy.begin(), busy.end());
      std::erase_if(mine_.retired, [&](Node* n) {
        if (std::binary_search(busy.begin(), busy.end(), n)) return false;
        recycle(n);
        return true;
      });
    }

    hazard_domain& domain_;
    record& mine_;
  };

 private:
  // hazards: the owner writes, all threads read. The rest is the owner's alone.
  struct record : registered<record> {
    alignas(isolation_size) std::array<sync::atomic<Node*>, Slots> hazards{};
    alignas(isolation_size) std::vector<Node*> retired;
    std::vector<Node*> spare;
    std::vector<Node*> busy;  // the announcements that scan() found; kept for its memory
  };

  std::size_t enough() const noexcept { return batch_ != 0 ? batch_ : 2 * Slots * records_.size() + 16; }

  const std::size_t keep_;
  const std::size_t batch_;
  registry<record> records_;
};

}  // namespace muster::bench::inline MUSTER_ABI
