// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mpi.hpp: what heat-mpi and uts-mpi share. A process, which MPI calls a rank, has a pool; only its first thread calls
// MPI (MPI_THREAD_FUNNELED), between the pool's runs or beside them.
#pragma once

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>

namespace mpi {

/// MPI, from its construction until its destruction. An error of MPI ends all ranks, with MPI's message.
class session {
 public:
  session(int& argc, char**& argv) {
    int provided = MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (provided < MPI_THREAD_FUNNELED) {
      MPI_Finalize();
      throw std::runtime_error("this MPI does not allow a process to have threads; it must be built with them");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    MPI_Comm here = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &ranks_here_);
    MPI_Comm_free(&here);
  }
  ~session() { MPI_Finalize(); }
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return ranks_; }

  /// Ends all ranks, after an error of this one: they would wait for it.
  [[noreturn]] void abort(const char* program, const char* error) const noexcept {
    std::fprintf(stderr, "%s: rank %d: %s\n", program, rank_, error);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
  }

  /// This rank's share of the processors. mpirun may have bound each rank to its own; otherwise the ranks of a machine
  /// may use the same ones, and share them.
  unsigned workers() const {
    cpu_set_t own;
    int of_machine = 0, bound = 1;
    if (sched_getaffinity(0, sizeof own, &own) == 0) bound = CPU_COUNT(&own);
    MPI_Allreduce(&bound, &of_machine, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    const int shared = std::max(1, of_machine / ranks_here_);
    return static_cast<unsigned>(bound < of_machine ? bound : shared);
  }

 private:
  int rank_ = 0, ranks_ = 1, ranks_here_ = 1;
};

/// The main function of a program: calls start(session, argc, argv), which returns the exit status. An exception of one
/// rank ends all.
template <class Start>
int run(const char* program, Start start, int argc, char** argv) {
  const session here(argc, argv);
  try {
    return start(here, argc, argv);
  } catch (const std::exception& error) {
    here.abort(program, error.what());
  }
}

}  // namespace mpi
