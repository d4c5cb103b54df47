// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// trace_file.hpp: the file that the environment variable MUSTER_TRACE names, in the Trace Event Format of Chrome, which
// Perfetto shows: a JSON array of events. `%p` in the name is the number of the process.
//
// Complete   the file is valid JSON after each append(). Sources hold the events of what has not ended; they write at
//            exit, or when they end. abort(), _exit() and signals lose what they have not written.
// Processes  the file belongs to the process that has opened it first. A child made by fork(2) writes nothing.
// Errors     a file that cannot be written is said on stderr, once, and then nothing is traced.
#pragma once

#include <muster/base/detail/needs_linux.hpp>  // IWYU pragma: keep

#include <muster/base/config.hpp>                // MUSTER_ABI
#include <muster/base/detail/process.hpp>        // process_generation
#include <muster/base/detail/shared_object.hpp>  // pin_shared_object
#include <muster/base/detail/time.hpp>           // the time of events

#include <fcntl.h>     // open
#include <sys/file.h>  // flock
#include <unistd.h>    // pwrite

#include <cerrno>        // errno
#include <cstdint>       // std::uint64_t
#include <cstdio>        // std::fprintf
#include <cstdlib>       // secure_getenv, std::atexit
#include <exception>     // std::exception
#include <map>           // names
#include <mutex>         // std::lock_guard
#include <string>        // the name
#include <string_view>   // events
#include <system_error>  // std::generic_category
#include <utility>       // std::move
#include <vector>        // names

namespace muster::inline MUSTER_ABI::detail {

class trace_file {
 public:
  /// Something that has events to write.
  class source {
   public:
    virtual ~source() = default;
    /// Appends the events so far. Other threads may add events meanwhile.
    virtual void write(trace_file& to) = 0;

   private:
    friend class trace_file;
    source* next_ = nullptr;
  };

  trace_file(const trace_file&) = delete;
  trace_file& operator=(const trace_file&) = delete;

  /// Returns null if there is none, or this is a child of the process that has it.
  static trace_file* of_process() noexcept {
    static trace_file* const one = open();
    return one != nullptr && one->process_ == process_generation() ? one : nullptr;
  }

  /// Nanoseconds since the file was opened.
  std::uint64_t now() const noexcept {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin_).count());
  }

  /// From now on it writes at exit. Returns its number, from 1 on.
  std::uint64_t enter(source& one) noexcept {
    const std::lock_guard lock(mutex_);
    one.next_ = sources_;
    sources_ = &one;
    return ++last_source_;
  }
  /// It writes now, and never again.
  void leave(source& one) noexcept {
    const std::lock_guard lock(mutex_);
    write(one);
    source** at = &sources_;
    while (*at != &one) at = &(*at)->next_;
    *at = one.next_;
  }
  /// Called by sources in write(). `events`: JSON objects, each followed by a comma and the end of a line.
  void append(std::string_view events) {
    if (events.empty()) return;
    events.remove_suffix(2);
    if (!is_empty_) put(",\n");
    put(events);
    is_empty_ = false;
    write_at(end_, "\n]\n");
  }
  /// A number for a name, the same for equal ones, as long as the program runs. Throws std::bad_alloc.
  std::uint32_t number_of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
    if (is_new) names_.push_back(&at->first);
    return at->second;
  }
  /// Called by sources in write().
  std::string_view name_of(std::uint32_t number) const { return *names_[number]; }
  /// Called by sources in write(): a number for an arrow.
  std::uint64_t next_arrow() noexcept { return ++last_arrow_; }

 private:
  trace_file(std::string name, int file) noexcept : name_(std::move(name)), file_(file) {}
  ~trace_file() { ::close(file_); }

  static trace_file* open() noexcept {
    const char* const wanted = ::secure_getenv("MUSTER_TRACE");
    if (wanted == nullptr || *wanted == '\0') return nullptr;
    try {
      std::string name = wanted;
      if (const auto at = name.find("%p"); at != std::string::npos) name.replace(at, 2, std::to_string(::getpid()));
      const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
      if (file < 0) return refuse(name.c_str(), std::generic_category().message(errno).c_str()), nullptr;
      if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
        const std::string why = errno == EWOULDBLOCK
                                    ? "another process writes it; %p in the name is the number of the process"
                                    : std::generic_category().message(errno);
        refuse(name.c_str(), why.c_str());
        ::close(file);
        return nullptr;
      }
      auto* const one = new trace_file(std::move(name), file);
      // If it is no file, the next call says why it cannot be written.
      [[maybe_unused]] const int emptied = ::ftruncate(file, 0);
      one->put("[\n");
      one->write_at(one->end_, "]\n");
      if (one->failed_) {
        delete one;
        return nullptr;
      }
      pin_shared_object(reinterpret_cast<const void*>(&write_at_exit));
      for_exit_ = one;
      std::atexit(&write_at_exit);
      return one;
    } catch (const std::exception& error) {
      return refuse(wanted, error.what()), nullptr;
    }
  }
  static void refuse(const char* name, const char* why) noexcept {
    std::fprintf(stderr, "muster: cannot write the trace that MUSTER_TRACE names, '%s': %s\n", name, why);
  }
  static void write_at_exit() noexcept {
    trace_file& here = *for_exit_;
    if (here.process_ != process_generation()) return;
    const std::lock_guard lock(here.mutex_);
    for (source* one = here.sources_; one != nullptr; one = one->next_) here.write(*one);
  }

  void write(source& one) noexcept {
    try {
      one.write(*this);
    } catch (const std::exception& error) {
      fail(error.what());
    }
  }
  void put(std::string_view text) {
    write_at(end_, text);
    end_ += static_cast<off_t>(text.size());
  }
  void write_at(off_t at, std::string_view text) {
    while (!text.empty() && !failed_) {
      const ssize_t many = ::pwrite(file_, text.data(), text.size(), at);
      if (many < 0 && errno == EINTR) continue;
      if (many <= 0) return fail(std::generic_category().message(errno).c_str());
      text.remove_prefix(static_cast<std::size_t>(many));
      at += many;
    }
  }
  void fail(const char* why) noexcept {
    if (!failed_) refuse(name_.c_str(), why);
    failed_ = true;
  }

  inline static trace_file* for_exit_ = nullptr;

  const std::string name_;
  const int file_;
  const unsigned process_ = process_generation();
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  source* sources_ = nullptr;  // under the lock, as everything below
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<const std::string*> names_;
  bool is_empty_ = true, failed_ = false;
  off_t end_ = 0;
  std::uint64_t last_source_ = 0, last_arrow_ = 0;
};

}  // namespace muster::inline MUSTER_ABI::detail
