// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// lane_side.hpp: the names that every side of muster/gpu/simt.cuh must have, as concepts. Its macros are used by every
// kernel and need none.
#pragma once

#include <muster/gpu/simt.cuh>

#include <concepts>
#include <cstdint>

namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE::seams {

template <class Atomic, class T>
concept atomic_of = requires(Atomic a, const Atomic c, T expected, T value, std::memory_order o) {
  { c.load(o) } -> std::same_as<T>;
  { a.store(value, o) } -> std::same_as<void>;
  { a.exchange(value, o) } -> std::same_as<T>;
  { a.fetch_add(value, o) } -> std::same_as<T>;
  { a.fetch_or(value, o) } -> std::same_as<T>;
  { a.fetch_and(value, o) } -> std::same_as<T>;
  { a.compare_exchange_strong(expected, value, o, o) } -> std::same_as<bool>;
};

template <class Mask>
concept lanes = requires(Mask among, std::uint64_t word, std::uint32_t number) {
  { lane_id() } -> std::same_as<unsigned>;
  { multiprocessor() } -> std::same_as<unsigned>;
  { warp_place() } -> std::same_as<unsigned>;
  { active_mask() } -> std::same_as<Mask>;
  { ballot(among, true) } -> std::same_as<Mask>;
  { match_any(among, word) } -> std::same_as<Mask>;
  { shuffle_word(among, word, 0U) } -> std::same_as<std::uint64_t>;
  { reduce_add(among, number) } -> std::same_as<std::uint32_t>;
  { reduce_or(among, number) } -> std::same_as<std::uint32_t>;
  sync_warp(among);
  sync_block();
  { clock() } -> std::same_as<std::uint64_t>;
  { thread_index() } -> std::same_as<index3>;
  { block_index() } -> std::same_as<index3>;
  { block_size() } -> std::same_as<index3>;
  { grid_size() } -> std::same_as<index3>;
};

static_assert(atomic_of<atomic<std::uint32_t>, std::uint32_t> && atomic_of<atomic<std::uint64_t>, std::uint64_t>);
static_assert(lanes<lane_mask>);

}  // namespace muster::inline MUSTER_ABI::gpu::inline MUSTER_GPU_SIDE::seams
