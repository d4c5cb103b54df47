// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// registry.hpp: records that threads take when they come and give back when they go. A record's memory stays valid
// until the registry ends, so anybody may look at anybody's record at any time. Joining is lock-free.
#pragma once

#include <muster/base/sync.hpp>  // sync::atomic

#include <cstddef>

namespace muster::bench::inline MUSTER_ABI {

/// The base class of a record type: `struct record : registered<record>`.
template <class Record>
class registered {
  template <class>
  friend class registry;
  sync::atomic<bool> taken_{true};
  Record* following_ = nullptr;  // constant once the record is in the list
};

template <class Record>
class registry {
 public:
  registry() = default;
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;
  /// No thread may still hold a record.
  ~registry() {
    for (Record* r = first_.load(); r != nullptr;) {
      Record* const next = r->following_;
      delete r;
      r = next;
    }
  }

  /// A record of somebody who has left, with what that thread left in it, or a new one.
  Record& join() {
    for (Record* r = first_.load(); r != nullptr; r = r->following_)
      if (!r->taken_.load(std::memory_order_relaxed) && !r->taken_.exchange(true)) return *r;
    Record* const own = new Record;
    own->following_ = first_.load();
    while (!first_.compare_exchange_weak(own->following_, own)) {
    }
    size_.fetch_add(1);
    return *own;
  }
  static void leave(Record& r) noexcept { r.taken_.store(false); }

  /// The one behind `r`, and behind the last the first: who goes on like this meets all of them, also new ones.
  Record& after(const Record& r) const noexcept { return r.following_ != nullptr ? *r.following_ : *first_.load(); }

  /// All records, also those that nobody holds.
  template <class Use>
  void for_each(Use use) {
    for (Record* r = first_.load(); r != nullptr; r = r->following_) use(*r);
  }
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  sync::atomic<Record*> first_{nullptr};
  sync::atomic<std::size_t> size_{0};
};

}  // namespace muster::bench::inline MUSTER_ABI
