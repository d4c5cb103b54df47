// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine.hpp: everything of the part `combine`. Each of the headers below can be included by itself.
#pragma once

#include <muster/combine/cc_synch.hpp>         // IWYU pragma: export
#include <muster/combine/combining_queue.hpp>  // IWYU pragma: export
#include <muster/combine/combining_stack.hpp>  // IWYU pragma: export
#include <muster/combine/counter.hpp>          // IWYU pragma: export
#include <muster/combine/flat_combining.hpp>   // IWYU pragma: export
#include <muster/combine/osci.hpp>             // IWYU pragma: export
#include <muster/combine/osci_shared.hpp>      // IWYU pragma: export
#include <muster/combine/psim.hpp>             // IWYU pragma: export
#include <muster/combine/psim_queue.hpp>       // IWYU pragma: export
#include <muster/combine/psim_stack.hpp>       // IWYU pragma: export
