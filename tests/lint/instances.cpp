// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// instances.cpp: what clang-tidy reads. It looks into a template only where the template is used, so every class of
// the library is instantiated here as a whole, for a small and for an owning item type and for each way to wait.
#include <muster/queue.hpp>
#include <muster/version.hpp>

#include <cstdint>
#include <string>

template class muster::spsc_queue<std::uint64_t>;
template class muster::spmc_queue<std::uint64_t>;
template class muster::mpmc_queue<std::uint64_t>;

template class muster::spsc_queue<std::string, muster::layout::packed, muster::wait::park>;
template class muster::spmc_queue<std::string, muster::layout::aligned, muster::wait::spin>;
template class muster::mpmc_queue<std::string, muster::layout::rotated, muster::wait::spin_then_park>;
