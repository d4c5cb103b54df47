// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// syscall.hpp: code in a sandbox, and the system calls that it may ask for.
#pragma once

#include <muster/syscall/inside.hpp>   // IWYU pragma: export
#include <muster/syscall/policy.hpp>   // IWYU pragma: export
#include <muster/syscall/sandbox.hpp>  // IWYU pragma: export
#include <muster/syscall/zygote.hpp>   // IWYU pragma: export
