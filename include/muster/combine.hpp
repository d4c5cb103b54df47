// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// combine.hpp: everything of the part `combine`.
#pragma once

#include <muster/combine/combining_queue.hpp>  // IWYU pragma: export
#include <muster/combine/combining_stack.hpp>  // IWYU pragma: export
#include <muster/combine/osci.hpp>             // IWYU pragma: export
#include <muster/combine/osci_shared.hpp>      // IWYU pragma: export
