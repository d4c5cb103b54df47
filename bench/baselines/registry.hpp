// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// registry.hpp: records that threads take when they join and give back when they leave. A record's memory stays valid
// until the registry ends, so any thread may read any record at any time. Joining is lock-free.
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

  /// Returns a record that a thread has given back, with its contents, or a new one.
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

  /// Returns the record after `r`; after the last, the first. Repeated calls visit all records, including new ones.
  Record& after(const Record& r) const noexcept { return r.following_ != nullptr ? *r.following_ : *first_.load(); }

  /// Visits all records, including the ones that no thread holds.
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
