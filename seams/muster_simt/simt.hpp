// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// simt.hpp: the emulated side of the seam muster/gpu/simt.cuh (MUSTER_SIMT).
#pragma once

#include <muster/gpu/detail/simt_types.hpp>

#include "muster_simt/machine.hpp"

#include <atomic>
#include <cstdint>

#define MUSTER_GPU_SIDE emulated
#define MUSTER_GPU inline
#define MUSTER_GPU_COLD inline
#define MUSTER_GPU_ROLLED
#define MUSTER_KERNEL inline
#define MUSTER_GPU_SHARED(type, name) \
  static constexpr char name##_key{}; \
  type& name = ::muster_simt::shared<type>(&name##_key)

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE {

using muster_simt::access;
using muster_simt::collective;
using muster_simt::together;

/// Like std::atomic; another lane may run before each operation.
template <class T>
class atomic {
 public:
  atomic() = default;
  explicit constexpr atomic(T value) : value_(value) {}

  T load(std::memory_order order) const {
    muster_simt::point(access::load, this);
    return value_.load(order);
  }
  void store(T value, std::memory_order order) {
    muster_simt::point(access::store, this);
    value_.store(value, order);
  }
  T exchange(T value, std::memory_order order) { return changed().exchange(value, order); }
  T fetch_add(T value, std::memory_order order) { return changed().fetch_add(value, order); }
  T fetch_sub(T value, std::memory_order order) { return changed().fetch_sub(value, order); }
  T fetch_or(T value, std::memory_order order) { return changed().fetch_or(value, order); }
  T fetch_and(T value, std::memory_order order) { return changed().fetch_and(value, order); }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order, std::memory_order failure) {
    return changed().compare_exchange_strong(expected, desired, order, failure);
  }

 private:
  std::atomic<T>& changed() {
    muster_simt::point(access::change, this);
    return value_;
  }

  std::atomic<T> value_{};
};

inline unsigned lane_id() { return muster_simt::lane_id(); }
[[gnu::always_inline]] inline lane_mask active_mask() { return muster_simt::active_mask(); }
inline lane_mask ballot(lane_mask among, bool yes) {
  return static_cast<lane_mask>(together(among, collective::ballot, yes));
}
inline lane_mask match_any(lane_mask among, std::uint64_t value) {
  return static_cast<lane_mask>(together(among, collective::match, value));
}
inline std::uint64_t shuffle_word(lane_mask among, std::uint64_t value, unsigned from) {
  return together(among, collective::shuffle, value, from);
}
inline std::uint32_t reduce_add(lane_mask among, std::uint32_t value) {
  return static_cast<std::uint32_t>(together(among, collective::add, value));
}
inline std::uint32_t reduce_or(lane_mask among, std::uint32_t value) {
  return static_cast<std::uint32_t>(together(among, collective::either, value));
}
inline void sync_warp(lane_mask among) { together(among, collective::sync, 0); }
inline void sync_block() { muster_simt::sync_block(); }
inline unsigned multiprocessor() { return muster_simt::multiprocessor(); }
inline unsigned warp_place() { return muster_simt::warp_place(); }
inline std::uint64_t clock() { return muster_simt::clock(); }
inline index3 as_index(const muster_simt::index& i) { return {i.x, i.y, i.z}; }
inline index3 thread_index() { return as_index(muster_simt::thread_index()); }
inline index3 block_index() { return as_index(muster_simt::block_index()); }
inline index3 block_size() { return as_index(muster_simt::block_size()); }
inline index3 grid_size() { return as_index(muster_simt::grid_size()); }

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE
