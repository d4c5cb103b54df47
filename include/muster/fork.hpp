// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork.hpp: everything of the part `fork`.
#pragma once

#include <muster/fork/finish.hpp>  // IWYU pragma: export
#include <muster/fork/fork2.hpp>   // IWYU pragma: export
#include <muster/fork/loops.hpp>   // IWYU pragma: export
#include <muster/fork/pool.hpp>    // IWYU pragma: export
#include <muster/fork/scan.hpp>    // IWYU pragma: export
#include <muster/fork/sort.hpp>    // IWYU pragma: export
