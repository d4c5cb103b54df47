// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// heat-mpi: heat that spreads over a plate, on several machines: each rank of MPI has a band of rows, and a pool that
// computes them. A rank sends its first and last row to its neighbours, and computes the rows in between while these
// are on their way. The first rank compares the plate with one that it computes alone, number by number.
//
//   mpirun -n 4 heat-mpi [--rows N] [--columns N] [--steps N] [--workers N]
//
// Exit status: 0 both plates are the same; 1 they are not, or something failed; 2 the usage.
#include <muster/fork.hpp>

#include "command_line.hpp"
#include "mpi/mpi.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace {

struct settings {
  std::size_t rows = 600, columns = 800, steps = 200;
  std::size_t workers = 0;
};

/// Rows of numbers, with one more row before the first and one after the last.
class band {
 public:
  band(std::size_t rows, std::size_t columns)
      : rows_(rows), columns_(columns), all_((rows + 2) * columns, 0.0), next_(all_) {}

  std::size_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_; }
  /// 0 is the row before the first.
  double* row(std::size_t at) noexcept { return all_.data() + at * columns_; }
  void fill(std::size_t at, double value) { std::fill_n(row(at), columns_, value); }
  void fill_both(std::size_t at, double value) {
    fill(at, value);
    std::fill_n(next_.data() + at * columns_, columns_, value);
  }

  /// Computes a row of the next plate from this one. The columns at the edges keep their heat.
  void step(std::size_t at) noexcept {
    const double* const above = all_.data() + (at - 1) * columns_;
    const double* const here = above + columns_;
    const double* const below = here + columns_;
    double* const to = next_.data() + at * columns_;
    to[0] = here[0];
    for (std::size_t i = 1; i + 1 < columns_; ++i)
      to[i] = 0.25 * (above[i] + below[i]) + 0.25 * (here[i - 1] + here[i + 1]);
    to[columns_ - 1] = here[columns_ - 1];
  }
  void advance() noexcept { all_.swap(next_); }

 private:
  std::size_t rows_, columns_;
  std::vector<double> all_, next_;
};

constexpr double hot = 100.0;

/// The rows of a rank: `first`, counted from 0 in the plate, and how many.
struct share {
  std::size_t first, many;
};
share share_of(std::size_t rows, int rank, int ranks) {
  const auto at = [&](int of) { return rows * static_cast<std::size_t>(of) / static_cast<std::size_t>(ranks); };
  return {at(rank), at(rank + 1) - at(rank)};
}

/// The plate after all steps, by one thread.
std::vector<double> alone(const settings& s) {
  band plate(s.rows, s.columns);
  plate.fill_both(0, hot);  // above the plate
  for (std::size_t step = 0; step < s.steps; ++step) {
    for (std::size_t row = 1; row <= s.rows; ++row) plate.step(row);
    plate.advance();
  }
  return {plate.row(1), plate.row(s.rows + 1)};
}

// [heat]
/// All steps of this rank's rows. Only this thread calls MPI; the pool computes while the messages are on their way.
void compute(band& mine, const mpi::session& mpi, muster::pool& workers, std::size_t steps) {
  const int above = mpi.rank() == 0 ? MPI_PROC_NULL : mpi.rank() - 1;
  const int below = mpi.rank() + 1 == mpi.ranks() ? MPI_PROC_NULL : mpi.rank() + 1;
  const int columns = static_cast<int>(mine.columns());
  for (std::size_t step = 0; step < steps; ++step) {
    MPI_Request under_way[4];
    MPI_Irecv(mine.row(0), columns, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &under_way[0]);
    MPI_Irecv(mine.row(mine.rows() + 1), columns, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &under_way[1]);
    MPI_Isend(mine.row(1), columns, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &under_way[2]);
    MPI_Isend(mine.row(mine.rows()), columns, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &under_way[3]);
    workers.run([&] {  // the rows that need none of the neighbours'
      muster::parallel_for(std::size_t{2}, std::max<std::size_t>(mine.rows(), 2),
                           [&](std::size_t row) { mine.step(row); });
    });
    MPI_Waitall(4, under_way, MPI_STATUSES_IGNORE);
    mine.step(1);
    if (mine.rows() > 1) mine.step(mine.rows());
    mine.advance();
  }
}
// [/heat]

/// The whole plate, in rank 0; elsewhere nothing.
std::vector<double> collect(band& mine, const mpi::session& mpi, const settings& s) {
  std::vector<int> counts, places;
  for (int rank = 0; rank < mpi.ranks(); ++rank) {
    const share one = share_of(s.rows, rank, mpi.ranks());
    counts.push_back(static_cast<int>(one.many * s.columns));
    places.push_back(static_cast<int>(one.first * s.columns));
  }
  std::vector<double> plate(mpi.rank() == 0 ? s.rows * s.columns : 0);
  MPI_Gatherv(mine.row(1), counts[static_cast<std::size_t>(mpi.rank())], MPI_DOUBLE, plate.data(), counts.data(),
              places.data(), MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return plate;
}

int run(const mpi::session& mpi, const settings& s) {
  const share own = share_of(s.rows, mpi.rank(), mpi.ranks());
  band mine(own.many, s.columns);
  if (mpi.rank() == 0) mine.fill_both(0, hot);
  const unsigned many = s.workers != 0 ? static_cast<unsigned>(s.workers) : mpi.workers();
  muster::pool workers(many);

  const auto begin = std::chrono::steady_clock::now();
  compute(mine, mpi, workers, s.steps);
  const std::vector<double> plate = collect(mine, mpi, s);
  const std::chrono::duration<double> together = std::chrono::steady_clock::now() - begin;

  int status = 0;
  if (mpi.rank() == 0) {
    const auto again = std::chrono::steady_clock::now();
    const bool same = alone(s) == plate;
    const std::chrono::duration<double> one = std::chrono::steady_clock::now() - again;
    std::printf("%zu x %zu, %zu steps: %d ranks of %u workers in %.3f s, one thread in %.3f s; %s\n", s.rows, s.columns,
                s.steps, mpi.ranks(), many, together.count(), one.count(), same ? "the same plate" : "ANOTHER PLATE");
    status = same ? 0 : 1;
  }
  MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return status;
}

int start(const mpi::session& mpi, int argc, char** argv) {
  settings s;
  examples::command_line line("Heat that spreads over a plate, computed by all ranks of MPI.", "heat-mpi");
  line.add("--rows", s.rows, "rows of the plate").in(1, 100'000).shows_default();
  line.add("--columns", s.columns, "columns of the plate").in(2, 100'000).shows_default();
  line.add("--steps", s.steps, "steps of time").in(0, 10'000'000).shows_default();
  line.add("--workers", s.workers, "threads of each rank; 0: its share of the processors").in(0, 1024).shows_default();
  if (const auto status = line.parse(argc, argv, 2)) return *status;
  if (s.rows < static_cast<std::size_t>(mpi.ranks()))
    return line.refuse("--rows", "must be at least the number of ranks, " + std::to_string(mpi.ranks()), 2);
  if (s.rows * s.columns > 2'000'000'000)
    return line.refuse("--columns", "the plate must have at most 2,000,000,000 places", 2);
  return run(mpi, s);
}

}  // namespace

int main(int argc, char** argv) { return mpi::run("heat-mpi", start, argc, argv); }
