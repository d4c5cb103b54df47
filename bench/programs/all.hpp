// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// all.hpp: the programs by name.
#pragma once

#include "programs/algorithms.hpp"
#include "programs/cholesky.hpp"
#include "programs/cilksort.hpp"
#include "programs/fib.hpp"
#include "programs/heat.hpp"
#include "programs/integrate.hpp"
#include "programs/jacobi.hpp"
#include "programs/locked.hpp"
#include "programs/lud.hpp"
#include "programs/matmul.hpp"
#include "programs/nqueens.hpp"
#include "programs/skynet.hpp"
#include "programs/spine.hpp"
#include "programs/tree.hpp"
#include "programs/urgent.hpp"
#include "programs/uts.hpp"

#include <array>
#include <string_view>

namespace muster::bench {

inline constexpr std::array fork_program_names{"fib",         "integrate", "nqueens", "skynet",   "tree",
                                               "uts T1",      "uts T3",    "matmul",  "cilksort", "jacobi",
                                               "jacobi fine", "heat",      "lud",     "cholesky"};

inline constexpr std::array fork_algorithm_names{"sort numbers", "sort texts", "running sums", "sum", "uneven loop"};

/// The operations that a style must offer for a set of programs.
enum class program_set {
  calls,      // both()
  forks,      // all of program.hpp
  algorithms  // the operations in algorithms.hpp
};

/// Calls f.template operator()<P>() with the program P of that name and returns true; returns false if the set has
/// none.
template <program_set Set, class F>
bool with_fork_program(std::string_view name, F f) {
  if constexpr (Set == program_set::algorithms) {
    if (name == "sort numbers") return f.template operator()<sort_numbers>(), true;
    if (name == "sort texts") return f.template operator()<sort_texts>(), true;
    if (name == "running sums") return f.template operator()<running_sums>(), true;
    if (name == "sum") return f.template operator()<one_sum>(), true;
    if (name == "uneven loop") return f.template operator()<uneven_loop>(), true;
  } else {
    if (name == "fib") return f.template operator()<fib>(), true;
    if (name == "tree") return f.template operator()<tree>(), true;
  }
  if constexpr (Set == program_set::forks) {
    if (name == "integrate") return f.template operator()<integrate>(), true;
    if (name == "nqueens") return f.template operator()<nqueens>(), true;
    if (name == "skynet") return f.template operator()<skynet>(), true;
    if (name == "uts T1") return f.template operator()<uts_t1>(), true;
    if (name == "uts T3") return f.template operator()<uts_t3>(), true;
    if (name == "matmul") return f.template operator()<matmul>(), true;
    if (name == "cilksort") return f.template operator()<cilksort>(), true;
    if (name == "jacobi") return f.template operator()<jacobi>(), true;
    if (name == "jacobi fine") return f.template operator()<jacobi_fine>(), true;
    if (name == "heat") return f.template operator()<heat>(), true;
    if (name == "lud") return f.template operator()<lud>(), true;
    if (name == "locked") return f.template operator()<locked>(), true;
    if (name == "spine") return f.template operator()<spine>(), true;
    if (name == "urgent") return f.template operator()<urgent>(), true;
    if (name == "cholesky") return f.template operator()<cholesky>(), true;
  }
  return false;
}

/// The same for all programs that run in the style of plain calls.
template <class F>
bool with_any_program(std::string_view name, F f) {
  return with_fork_program<program_set::forks>(name, f) || with_fork_program<program_set::algorithms>(name, f);
}

}  // namespace muster::bench
