// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fiber.hpp: everything of the part `fiber`.
#pragma once

#include <muster/fiber/fiber.hpp>  // IWYU pragma: export
#include <muster/fiber/stack.hpp>  // IWYU pragma: export
#include <muster/fiber/team.hpp>   // IWYU pragma: export
