// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// work.hpp: the subtrees that a rank has not searched, and how ranks without any get some of others'.
//
// A rank without work asks another, chosen by chance, which answers with half of its subtrees, or none. It answers
// between its batches, also while it waits for an answer itself.
//
// The end is found as Safra does (E. W. Dijkstra, "Shmuel Safra's version of termination detection", EWD 998): a token
// goes round, from rank to rank, each of which holds it as long as it has work, and adds how many answers with work it
// has sent, less the received ones. A rank is black if it has received work since it last passed the token on,
// and blackens the token. When the token comes back white to a white rank 0 and all sums together are 0, no rank has
// work and none is on its way.
#pragma once

#include <mpi.h>

#include "tree.hpp"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace uts {

class work {
 public:
  work(int rank, int ranks) : rank_(rank), ranks_(ranks), has_token_(rank == 0), dice_(static_cast<unsigned>(rank)) {}

  /// Takes up to `most` parts off, together half of what there is: the rest is for ranks that ask.
  std::vector<std::vector<node>> take(std::size_t most) {
    std::vector<std::vector<node>> parts(std::min(most, todo_.size()));
    for (std::size_t i = 0, many = std::max(parts.size(), todo_.size() / 2); i < many; ++i) {
      parts[i % parts.size()].push_back(todo_.back());
      todo_.pop_back();
    }
    return parts;
  }
  void put_back(const std::vector<node>& rest) { todo_.insert(todo_.end(), rest.begin(), rest.end()); }

  /// Answers other ranks. Returns true if this rank has work; waits for some of theirs if it has none. Returns false
  /// when no rank has any.
  bool more() {
    answer_all();
    while (todo_.empty() && !over_) {
      pass_token();
      if (!over_) ask_if_not_asked();
      if (!over_) answer_one();
    }
    if (over_) finish();
    return !over_;
  }

  /// How often it has got work of others.
  unsigned long long thefts() const noexcept { return thefts_; }

 private:
  enum tag : int { request = 1, answer, token, end };
  struct token_data {
    long long sum;
    long long black;
  };

  /// Answers what has come, and does not wait.
  void answer_all() {
    for (int there = 1; there != 0;) {
      MPI_Status what;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &what);
      if (there != 0) receive(what);
    }
  }
  void answer_one() {
    MPI_Status what;
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &what);
    receive(what);
  }

  /// Until each rank has the answer that it waits for: MPI may end only when no message is on its way.
  void finish() {
    while (asked_) answer_one();
    MPI_Request all = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &all);
    for (int done = 0; done == 0; MPI_Test(&all, &done, MPI_STATUS_IGNORE)) answer_all();
  }

  void receive(const MPI_Status& what) {
    switch (what.MPI_TAG) {
      case request:
        MPI_Recv(nullptr, 0, MPI_BYTE, what.MPI_SOURCE, request, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        give(what.MPI_SOURCE);
        break;
      case answer: get(what); break;
      case token: {
        long long data[2] = {};
        MPI_Recv(data, 2, MPI_LONG_LONG, what.MPI_SOURCE, token, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token_ = {data[0], data[1]};
        has_token_ = true;
        break;
      }
      default: MPI_Recv(nullptr, 0, MPI_BYTE, what.MPI_SOURCE, end, MPI_COMM_WORLD, MPI_STATUS_IGNORE); over_ = true;
    }
  }

  /// Sends the older half, whose subtrees are nearer to the root.
  void give(int to) {
    const std::size_t many = std::min(todo_.size() / 2, most_given);
    MPI_Send(todo_.data(), static_cast<int>(many * sizeof(node)), MPI_BYTE, to, answer, MPI_COMM_WORLD);
    todo_.erase(todo_.begin(), todo_.begin() + static_cast<std::ptrdiff_t>(many));
    if (many != 0) ++sent_;
  }
  void get(const MPI_Status& what) {
    int bytes = 0;
    MPI_Get_count(&what, MPI_BYTE, &bytes);
    const std::size_t before = todo_.size();
    todo_.resize(before + static_cast<std::size_t>(bytes) / sizeof(node));
    MPI_Recv(todo_.data() + before, bytes, MPI_BYTE, what.MPI_SOURCE, answer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    asked_ = false;
    if (bytes == 0) return;
    --sent_;
    black_ = true;
    ++thefts_;
  }

  void ask_if_not_asked() {
    if (asked_ || ranks_ == 1) return;
    const int other = static_cast<int>(dice_() % static_cast<unsigned>(ranks_ - 1));
    MPI_Send(nullptr, 0, MPI_BYTE, other < rank_ ? other : other + 1, request, MPI_COMM_WORLD);
    asked_ = true;
  }

  /// Called without work.
  void pass_token() {
    if (!has_token_) return;
    if (rank_ == 0) {
      const bool clean = round_ != 0 && token_.black == 0 && !black_ && token_.sum + sent_ == 0;
      if (clean || ranks_ == 1) {
        for (int other = 1; other < ranks_; ++other) MPI_Send(nullptr, 0, MPI_BYTE, other, end, MPI_COMM_WORLD);
        over_ = true;
        return;
      }
      ++round_;
      token_ = {0, 0};
    } else {
      token_.sum += sent_;
      token_.black |= black_ ? 1 : 0;
    }
    const long long data[2] = {token_.sum, token_.black};
    MPI_Send(data, 2, MPI_LONG_LONG, (rank_ + 1) % ranks_, token, MPI_COMM_WORLD);
    has_token_ = false;
    black_ = false;
  }

  static constexpr std::size_t most_given = std::size_t{1} << 20;

  const int rank_, ranks_;
  std::vector<node> todo_;  // near the root first
  bool over_ = false;
  bool asked_ = false;  // and not answered
  bool has_token_;
  bool black_ = false;
  token_data token_{0, 0};
  unsigned long long round_ = 0;
  long long sent_ = 0;  // answers with work, less the received ones
  unsigned long long thefts_ = 0;
  std::minstd_rand dice_;
};

}  // namespace uts
