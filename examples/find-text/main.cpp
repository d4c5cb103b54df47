// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// find-text: searches a tree of files for a text, or sorts the lines of a file, with several workers.
//
//   find-text count PATTERN DIR    prints what grep -arcF PATTERN DIR prints, in the order of the names
//   find-text sort FILE            prints what sort FILE prints in the locale "C"
//
// As with grep -a, a file that is not text is searched like any other. As with grep -r, symbolic links below DIR are
// not followed, and FIFOs, sockets and devices are not opened. Unlike in grep, the pattern must not be empty and must
// be one line, and a path that is too long for the system counts as unreadable.
//
// Exit status, as that of grep: 0 a line matches, or the lines are sorted; 1 no line matches; 2 wrong usage, an
// unreadable file or directory, or different results in a comparison. Readable files are counted and printed even then.

#include "command_line.hpp"
#include "compare.hpp"
#include "files.hpp"
#include "search.hpp"
#include "sort.hpp"
#include "text.hpp"

#include <muster/base/parallelism.hpp>  // available_parallelism
#include <muster/fork.hpp>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using namespace find_text;

enum exit_status { all_is_well = 0, no_match = 1, trouble = 2 };

struct options {
  unsigned workers = muster::available_parallelism();
  bool compare = false;
  std::size_t repeats = 5;
  bool null = false;
};

void complain(std::string complaint) {
  // A file name may hold any byte. Do not print bytes that could move the cursor or colour the terminal.
  std::replace_if(complaint.begin(), complaint.end(), [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  std::fprintf(stderr, "find-text: %s\n", complaint.c_str());
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void end_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "the result could not be written");
}

/// Turns `start` into the result with all workers, or compares a serial program, one worker, and all of them.
template <class Result, class Serial, class Parallel>
Result do_or_compare(const options& how, Result start, Serial serial, Parallel parallel) {
  muster::pool pool({.workers = how.workers});
  const auto in_pool = [&](Result& result) { pool.run([&] { parallel(result); }); };
  if (!how.compare) {
    in_pool(start);
    return start;
  }
  muster::pool one({.workers = 1});
  const auto in_one = [&](Result& result) { one.run([&] { parallel(result); }); };
  const std::vector<method<Result>> methods = {
      {"serial", 1, serial}, {"muster", 1, in_one}, {"muster", pool.workers(), in_pool}};
  comparison<Result> compared = compare_methods(methods, start, how.repeats);
  if (!compared.difference.empty())
    throw std::runtime_error("the result of " + compared.difference + " is not the result of the serial program; " +
                             "either files changed while they were compared, or muster is wrong");
  print_times(methods, compared);
  return std::move(compared.reference);
}

exit_status count(const options& how, const search_job& work) {
  std::error_code error;
  if (!std::filesystem::is_directory(work.directory, error)) {
    complain(work.directory + ": " + (error ? error.message() : "Is not a directory") + "; give a directory to search");
    return trouble;
  }
  const search_result found = do_or_compare(
      how, search_result(), [&](search_result& to) { to = search<serially>(work); },
      [&](search_result& to) { to = search<in_parallel>(work); });
  if (how.compare) {
    std::printf("\n%zu files, %" PRIu64 " bytes, %" PRIu64 " matching lines\n", found.files.size(), found.bytes,
                found.lines);
  } else {
    for (const file_result& file : found.files) {
      print(file.path);
      print(how.null ? std::string_view("\0", 1) : ":");
      print(std::to_string(file.lines) + '\n');
    }
  }
  end_output();
  for (const std::string& complaint : found.complaints) complain(complaint);
  if (!found.complaints.empty()) return trouble;
  return found.lines != 0 ? all_is_well : no_match;
}

exit_status sort(const options& how, const std::string& path) {
  std::string text;
  try {
    text = read_whole(path);
  } catch (const std::system_error& failure) {
    complain(path + ": " + failure.code().message() + "; give a file whose lines to sort");
    return trouble;
  }
  const lines sorted = do_or_compare(how, lines_of(text), sort_serially, sort_in_parallel);
  if (how.compare) {
    std::printf("\n%zu lines, %zu bytes\n", sorted.size(), text.size());
  } else {
    for (const std::string_view line : sorted) {
      print(line);
      print("\n");
    }
  }
  end_output();
  return all_is_well;
}

void add_options(examples::command_line& to, options& how) {
  to.add("--workers", how.workers, "threads that work at once").in(1, 512).shows_default();
  const auto compare = to.add("--compare", how.compare,
                              "print no result, but the times of a serial program, of one worker, and of all, after "
                              "checking that their results are equal");
  to.add("--repeat", how.repeats, "runs of each to take the median of").in(1, 1000).shows_default().needs(compare);
}

}  // namespace

int main(int argc, char** argv) {
  options how;
  search_job work;
  std::string file;

  examples::command_line line(
      "Searches a tree of files for a text, or sorts the lines of a file, with several workers.", "find-text");
  auto counts = line.add_command("count", "how many lines of each file contain the text, as grep -arcF does it");
  counts.add("PATTERN", work.pattern, "the text, byte by byte; behind -- it may begin with - or +").required();
  counts.add("DIR", work.directory, "the directory; symbolic links in it are not followed").required();
  counts.add("-Z,--null", how.null, "print a zero byte instead of the colon behind each name");
  counts.add("--piece", work.piece_size, "bytes of a file that one worker searches at once")
      .in(1, 1 << 30)
      .shows_default();
  add_options(counts, how);
  auto sorts = line.add_command("sort", "the lines of a file in the order of their bytes, as LC_ALL=C sort does it");
  sorts.add("FILE", file, "the file; the whole of it is read into memory").required();
  add_options(sorts, how);
  if (const auto status = line.parse(argc, argv, trouble)) return *status;
  if (counts.given() && work.pattern.empty())
    return line.refuse("PATTERN", "is empty, which every line contains; give some text", trouble);
  if (counts.given() && work.pattern.find('\n') != std::string::npos)
    return line.refuse("PATTERN", "contains a line end, and no line does; search for one line at a time", trouble);

  try {
    return counts.given() ? count(how, work) : sort(how, file);
  } catch (const std::bad_alloc&) {
    complain("out of memory; try fewer --workers, a smaller --piece or a smaller file");
  } catch (const std::exception& failure) {
    complain(failure.what());
  }
  return trouble;
}
