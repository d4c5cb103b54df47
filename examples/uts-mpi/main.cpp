// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// uts-mpi: counts the nodes of a tree that cannot be divided in advance, on several machines. See "UTS: An Unbalanced
// Tree Search Benchmark", Olivier et al., LCPC 2006. Each rank of MPI has a pool, which searches many subtrees at once;
// a rank without work asks others for half of theirs, by messages. The first rank compares its counts with these
// of one thread.
//
//   mpirun -n 4 uts-mpi [--roots N] [--seed N] [--batch N] [--workers N]
//
// Exit status: 0 both count the same; 1 they do not, or something failed; 2 the usage.
#include <muster/fork.hpp>

#include "command_line.hpp"
#include "mpi/mpi.hpp"
#include "tree.hpp"
#include "work.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace {

using namespace uts;

struct settings {
  std::size_t roots = 2000, seed = 1, batch = 2000;
  std::size_t workers = 0;
};

std::vector<node> roots_of(const settings& s) {
  std::vector<node> all;
  for (std::size_t i = 0; i < s.roots; ++i) all.push_back(child_of({s.seed, 0}, static_cast<std::uint32_t>(i)));
  return all;
}

counts alone(const settings& s) {
  counts sum;
  std::vector<node> todo = roots_of(s);
  while (!todo.empty()) sum += search_one(todo);
  return sum;
}

// [search]
/// Searches on until all ranks have nothing left. Only this thread calls MPI, between the pool's runs, each of which
/// searches at most `batch` nodes below each of some subtrees.
counts search(work& mine, muster::pool& workers, std::size_t batch) {
  counts sum;
  while (mine.more()) {  // answers other ranks, and asks them if this one has nothing left
    std::vector<std::vector<node>> parts = mine.take(4 * std::size_t{workers.workers()});
    std::vector<counts> found(parts.size());
    workers.run([&] {
      muster::parallel_for(std::size_t{0}, parts.size(), [&](std::size_t i) {
        for (std::size_t many = 0; many < batch && !parts[i].empty(); ++many) found[i] += search_one(parts[i]);
      });
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sum += found[i];
      mine.put_back(parts[i]);
    }
  }
  return sum;
}
// [/search]

int run(const mpi::session& mpi, const settings& s) {
  const unsigned many = s.workers != 0 ? static_cast<unsigned>(s.workers) : mpi.workers();
  muster::pool workers(many);
  const auto begin = std::chrono::steady_clock::now();
  work mine(mpi.rank(), mpi.ranks());
  if (mpi.rank() == 0) mine.put_back(roots_of(s));
  const counts own = search(mine, workers, s.batch);
  const std::chrono::duration<double> together = std::chrono::steady_clock::now() - begin;

  unsigned long long sums[] = {own.nodes, own.leaves, mine.thefts()}, all[3] = {};
  MPI_Reduce(sums, all, 3, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  unsigned long long depth = own.depth, deepest = 0;
  MPI_Reduce(&depth, &deepest, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
  int status = 0;
  if (mpi.rank() == 0) {
    const auto again = std::chrono::steady_clock::now();
    const counts right = alone(s);
    const std::chrono::duration<double> one = std::chrono::steady_clock::now() - again;
    const bool same = right == counts{all[0], all[1], deepest};
    std::printf(
        "%llu nodes, %llu leaves, depth %llu: %d ranks of %u workers in %.3f s with %llu thefts, one thread in "
        "%.3f s; %s\n",
        all[0], all[1], deepest, mpi.ranks(), many, together.count(), all[2], one.count(),
        same ? "the same counts" : "OTHER COUNTS");
    status = same ? 0 : 1;
  }
  MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return status;
}

int start(const mpi::session& mpi, int argc, char** argv) {
  settings s;
  examples::command_line line("Counts the nodes of an unbalanced tree, on all ranks of MPI.", "uts-mpi");
  line.add("--roots", s.roots, "subtrees at the top").in(1, 100'000'000).shows_default();
  line.add("--seed", s.seed, "another number is another tree").in(0, 1'000'000'000).shows_default();
  line.add("--batch", s.batch, "nodes of a subtree that a worker searches at a time")
      .in(1, 1'000'000'000)
      .shows_default();
  line.add("--workers", s.workers, "threads of each rank; 0: its share of the processors").in(0, 1024).shows_default();
  if (const auto status = line.parse(argc, argv, 2)) return *status;
  return run(mpi, s);
}

}  // namespace

int main(int argc, char** argv) { return mpi::run("uts-mpi", start, argc, argv); }
