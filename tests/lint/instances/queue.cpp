// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue.cpp: the queues for clang-tidy. It looks into a template only where the template is used, so every class is
// instantiated here as a whole, for a small and for an owning item type and for each way to wait.
#include <muster/queue.hpp>
#include <muster/queue/shared.hpp>
#include <muster/version.hpp>

#include <cstdint>
#include <string>

template class muster::spsc_queue<std::uint64_t>;
template class muster::spmc_queue<std::uint64_t>;
template class muster::mpmc_queue<std::uint64_t>;
template class muster::lanes<std::uint64_t>;

template class muster::spsc_queue<std::string, muster::layout::packed, muster::wait::park>;
template class muster::spmc_queue<std::string, muster::layout::aligned, muster::wait::spin>;
template class muster::mpmc_queue<std::string, muster::layout::rotated, muster::wait::spin_then_park>;
template class muster::lanes<std::string, muster::layout::aligned, muster::wait::park>;

template class muster::shared_queue<std::uint64_t, muster::shape::spsc>;
template class muster::shared_queue<std::uint64_t, muster::shape::spmc, muster::wait::park>;
template class muster::shared_queue<std::uint64_t, muster::shape::mpmc, muster::wait::spin>;
template class muster::shared_queue<std::uint64_t, muster::shape::lanes>;
