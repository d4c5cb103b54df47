// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// fork.hpp: everything of the part `fork`.
#pragma once

#include <muster/fork/algorithms.hpp>  // IWYU pragma: export
#include <muster/fork/execution.hpp>   // IWYU pragma: export
#include <muster/fork/finish.hpp>      // IWYU pragma: export
#include <muster/fork/fork2.hpp>       // IWYU pragma: export
#include <muster/fork/future.hpp>      // IWYU pragma: export
#include <muster/fork/loops.hpp>       // IWYU pragma: export
#include <muster/fork/merge.hpp>       // IWYU pragma: export
#include <muster/fork/per_worker.hpp>  // IWYU pragma: export
#include <muster/fork/pipeline.hpp>    // IWYU pragma: export
#include <muster/fork/pool.hpp>        // IWYU pragma: export
#include <muster/fork/progress.hpp>    // IWYU pragma: export
#include <muster/fork/scan.hpp>        // IWYU pragma: export
#include <muster/fork/schedule.hpp>    // IWYU pragma: export
#include <muster/fork/sort.hpp>        // IWYU pragma: export
#include <muster/fork/task_graph.hpp>  // IWYU pragma: export
#include <muster/fork/task_group.hpp>  // IWYU pragma: export
