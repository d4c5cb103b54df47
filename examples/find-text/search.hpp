// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// search.hpp: counts the matching lines of all files of a tree, one file after another, or as many at once as there
// are workers.
//
// Every directory and every file is a task of one finish, and a file is a reduction over its pieces. So the tree may be
// broad or deep, and hold many small files or a single large one. A task writes only to its own directory or file, so
// there is no lock, and the result is the same in every run.
#pragma once

#include "files.hpp"
#include "text.hpp"

#include <muster/fork.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>  // O_NOFOLLOW, O_NONBLOCK

namespace find_text {

struct search_job {
  std::string pattern;  // not empty, no line end in it
  std::string directory;
  std::size_t piece_size = 256 * 1024;
};

// [methods]
/// The methods of a program with one thread.
struct serially {
  struct scope {
    template <class Task>
    void async(Task task) {
      task();
    }
  };
  template <class Body>
  static void finish(Body body) {
    scope here;
    body(here);
  }
  template <class Find>
  static matches sum(std::uint64_t pieces, Find find) {
    matches all;
    for (std::uint64_t i = 0; i != pieces; ++i) all = all + find(i);
    return all;
  }
};

/// The same methods with muster.
struct in_parallel {
  template <class Body>
  static void finish(Body body) {
    muster::finish(body);
  }
  template <class Find>
  static matches sum(std::uint64_t pieces, Find find) {
    return muster::parallel_reduce(std::uint64_t{0}, pieces, matches(), std::plus<>(), find);
  }
};
// [/methods]

// [file]
/// Counts in pieces. Pieces may be read and searched at the same time, and are added up in groups, but always in order.
template <class Method>
std::uint64_t matching_lines(const input_file& file, std::uint64_t size, const search_job& work) {
  const std::uint64_t pieces = size / work.piece_size + 1;
  const auto find_in_piece = [&](std::uint64_t i) {
    std::uint64_t offset = i * work.piece_size;
    // The last piece is usually a small one. It extends to the end of the file, wherever that is now.
    const std::size_t step = std::min<std::uint64_t>(work.piece_size, size - offset + 4096);
    const std::size_t room = step + work.pattern.size() - 1;
    const auto text = std::make_unique_for_overwrite<char[]>(room);
    matches all;
    std::size_t got = 0;
    do {
      got = file.read_at(offset, {text.get(), room});
      all = all + find_matches({text.get(), got}, step, work.pattern);
      offset += step;
    } while (i + 1 == pieces && got >= step);
    return all;
  };
  return Method::sum(pieces, find_in_piece).lines;
}
// [/file]

template <class Method>
void search_file(const search_job& work, file_result& here) {
  if (!here.error.empty()) return;
  try {
    // The file may have been replaced since its directory was listed: O_NOFOLLOW and O_NONBLOCK keep open() from
    // following a link and from waiting for the other side of a FIFO.
    const input_file file(here.path, O_NOFOLLOW | O_NONBLOCK);
    here.bytes = file.size();
    here.lines = matching_lines<Method>(file, here.bytes, work);
  } catch (const std::system_error& failure) {  // of any piece
    here.error = failure.code().message();
  }
}

// [tree]
template <class Method, class Scope>
void search_directory(Scope& scope, const search_job& work, directory_result& here) {
  list(here);
  for (directory_result& below : here.directories)
    scope.async([&scope, &work, &below] { search_directory<Method>(scope, work, below); });
  for (file_result& file : here.files) scope.async([&work, &file] { search_file<Method>(work, file); });
}

template <class Method>
directory_result search_tree(const search_job& work) {
  directory_result root{.path = work.directory};
  Method::finish([&](auto& scope) { search_directory<Method>(scope, work, root); });
  return root;  // finish has waited for every task, including tasks started by tasks
}
// [/tree]

/// All files of a tree in order, and the errors.
struct search_result {
  std::vector<file_result> files;  // that could be read
  std::vector<std::string> complaints;
  std::uint64_t lines = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const search_result&, const search_result&) = default;
};

inline void collect(directory_result&& here, search_result& all) {
  if (!here.error.empty()) all.complaints.push_back(here.path + ": " + here.error);
  for (file_result& file : here.files) {
    if (!file.error.empty()) {
      all.complaints.push_back(file.path + ": " + file.error);
      continue;
    }
    all.lines += file.lines;
    all.bytes += file.bytes;
    all.files.push_back(std::move(file));
  }
  for (directory_result& below : here.directories) collect(std::move(below), all);
}

template <class Method>
search_result search(const search_job& work) {
  search_result all;
  collect(search_tree<Method>(work), all);
  return all;
}

}  // namespace find_text
