// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// mutation.hpp: a change of one operation of the program, made while it runs. A check that finds no failure in the
// changed program does not need the operation to be as it is, or does not look hard enough.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace muster_model {

using order = std::memory_order;

/// A place of the program where it does something to what threads share.
struct operation_site {
  std::string file;  // the last two parts of its path
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string function;   // with its class, without its arguments
  std::string operation;  // load, store, fetch_add, …
  order ordering = order::relaxed;
  order failure = order::relaxed;  // of a compare-exchange that fails
  bool rereads = false;            // a load that finds another value than the last one in the same operation

  bool operator==(const operation_site& other) const {
    return line == other.line && column == other.column && operation == other.operation && file == other.file;
  }
  bool operator<(const operation_site& other) const {
    return std::tie(file, line, column, operation) < std::tie(other.file, other.line, other.column, other.operation);
  }
};

struct mutation {
  enum class kind {
    weaker,          // the operation has the ordering `to`
    weaker_failure,  // so has a compare-exchange that fails
    skipped,         // a store, read-modify-write, fence or wake-up does not happen
    repeated,        // a second look does not happen: a load returns what the last one in the same operation returned
  };
  operation_site at;
  kind what = kind::weaker;
  order to = order::relaxed;

  /// "spmc_queue::look: load acquire -> relaxed"
  std::string describe() const;
};

/// Every change that makes sense at a place: each ordering one step weaker, and the operation skipped or repeated. Two
/// stores swapped are not among them: what that changes is what a weaker ordering of the second changes.
std::vector<mutation> mutations_of(const operation_site& site);

const char* name_of(order o);
/// The last two parts of a path are enough to find a file.
std::string short_path(const char* path);
/// "void muster::spmc_queue<T>::look(rank_t) const [with …]" → "spmc_queue::look".
std::string short_function(const char* signature);

}  // namespace muster_model
