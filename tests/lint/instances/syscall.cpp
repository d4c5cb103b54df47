// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// syscall.cpp: the parts of the sandbox for clang-tidy. See queue.cpp.
#include <muster/syscall.hpp>
#include <muster/syscall/detail/decode.hpp>
#include <muster/syscall/detail/guarded_ring.hpp>
#include <muster/syscall/detail/guarded_slots.hpp>
#include <muster/syscall/detail/handle_table.hpp>
#include <muster/syscall/detail/wall.hpp>
#include <muster/syscall/policy.hpp>

template class muster::detail::guarded_producer<muster::detail::request_words>;
template class muster::detail::guarded_consumers<muster::detail::request_words>;
template class muster::detail::handle_table<int (*)(int)>;
