// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// trace.hpp: what the workers of a pool do, for the file that MUSTER_TRACE names.
//
// Slices     have a begin and an end, and are recorded when they end. The slices of a worker are nested or apart.
// Cost       without a trace, a null pointer is read where a worker has taken something, waits or sleeps, and a flag
//            for each node of a graph; a fork that no thief takes reads nothing. A slice costs two readings of the
//            clock.
// Memory     24 bytes for a slice, in blocks of 4,096, until the pool or the program ends.
// Full       a worker keeps 262,144 slices. Later ones are left out, unless they had begun by then, and an event in the
//            file says how many. The same if there is no memory.
#pragma once

#include <muster/base/detail/trace_file.hpp>  // trace_file
#include <muster/base/sync.hpp>               // sync::atomic
#include <muster/fork/detail/parking.hpp>     // spin_lock

#include <algorithm>    // std::min
#include <array>        // blocks
#include <charconv>     // std::to_chars
#include <cstddef>      // std::size_t
#include <cstdint>      // std::uint64_t
#include <memory>       // std::unique_ptr
#include <mutex>        // std::lock_guard
#include <new>          // std::nothrow
#include <string>       // events
#include <string_view>  // names
#include <utility>      // std::exchange
#include <vector>       // tracks

namespace muster::inline MUSTER_ABI::detail {

enum class slice_kind : std::uint32_t { run, task, stolen_fork, stolen_async, queued_async, call, node, join, sleep };

/// The slices of one worker. One thread at a time adds some; any thread may read them meanwhile.
class trace_track {
 public:
  static constexpr std::size_t most = std::size_t{1} << 18U;

  struct slice {
    std::uint64_t begin;  // nanoseconds
    std::uint64_t length;
    slice_kind kind;
    unsigned detail;  // of stolen ones: the victim; of nodes of graphs: the number of the name
  };

  trace_track(trace_file& file, unsigned worker) noexcept : worker_(worker), file_(file) {}
  trace_track(const trace_track&) = delete;
  trace_track& operator=(const trace_track&) = delete;
  ~trace_track() {
    for (block* const one : blocks_) delete one;
  }

  unsigned worker() const noexcept { return worker_; }
  std::uint64_t now() const noexcept { return file_.now(); }
  /// As trace_file::number_of().
  std::uint32_t number_of(const std::string& name) { return file_.number_of(name); }
  void add(const slice& one) noexcept {
    const std::size_t at = many_.load(std::memory_order_relaxed);
    const std::uint64_t full = full_at_.load(std::memory_order_relaxed);
    // The last block is for what has begun before the others were full.
    const bool fits = at < most && (full == 0 || one.begin < full) && has_block(at / block_size);
    if (full == 0 && (!fits || at + block_size >= most)) full_at_.store(now(), std::memory_order_relaxed);
    if (!fits) return lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    (*blocks_[at / block_size])[at % block_size] = one;
    // (1) release: pairs with (2). The reader sees the slice.
    many_.store(at + 1, std::memory_order_release);
  }

  /// For one reader at a time: calls each(slice) for the slices since the last call.
  template <class Each>
  void take(Each each) {
    // (2) acquire: pairs with (1).
    const std::size_t end = many_.load(std::memory_order_acquire);
    for (; taken_ != end; ++taken_) each((*blocks_[taken_ / block_size])[taken_ % block_size]);
  }
  /// When the buffer was full.
  std::uint64_t full_at() const noexcept { return full_at_.load(std::memory_order_relaxed); }
  /// The number of slices that were left out since the last call.
  std::uint64_t take_lost() noexcept {
    const std::uint64_t all = lost_.load(std::memory_order_relaxed);
    return all - std::exchange(lost_taken_, all);
  }

 private:
  static constexpr std::size_t block_size = 4096;
  using block = std::array<slice, block_size>;

  bool has_block(std::size_t number) noexcept {
    if (blocks_[number] == nullptr) blocks_[number] = new (std::nothrow) block;
    return blocks_[number] != nullptr;
  }

  const unsigned worker_;
  trace_file& file_;
  std::array<block*, most / block_size> blocks_{};  // a reader uses those below many_
  sync::atomic<std::size_t> many_{0};
  sync::atomic<std::uint64_t> lost_{0};
  sync::atomic<std::uint64_t> full_at_{0};
  std::size_t taken_ = 0;  // of the reader, as the next
  std::uint64_t lost_taken_ = 0;
};

/// A slice from its construction, or begin(), to its end.
class traced {
 public:
  traced() noexcept = default;
  /// `on`: null if nothing is traced.
  traced(trace_track* on, slice_kind what, unsigned detail = 0) noexcept { begin(on, what, detail); }
  ~traced() { end(); }
  traced(const traced&) = delete;
  traced& operator=(const traced&) = delete;

  void begin(trace_track* on, slice_kind what, unsigned detail = 0) noexcept {
    on_ = on;
    if (on == nullptr) [[likely]]
      return;
    one_ = {on->now(), 0, what, detail};
  }
  void end() noexcept {
    if (on_ == nullptr) [[likely]]
      return;
    one_.length = on_->now() - one_.begin;
    std::exchange(on_, nullptr)->add(one_);
  }

 private:
  trace_track* on_ = nullptr;
  trace_track::slice one_;
};

/// The tracks of a pool. In Perfetto's words, the pool is a process and a worker is a thread.
class pool_trace final : public trace_file::source {
 public:
  /// `name`: of the pool's threads; may be empty. Returns null if nothing is traced, or there is no memory.
  static std::unique_ptr<pool_trace> make(const std::string& name) noexcept {
    trace_file* const file = trace_file::of_process();
    if (file == nullptr) return nullptr;
    try {
      return std::unique_ptr<pool_trace>(new pool_trace(*file, name));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  ~pool_trace() override { file_.leave(*this); }

  /// Called when a worker is made. Returns null if there is no memory.
  trace_track* add_track(unsigned worker) noexcept {
    const std::lock_guard lock(lock_);
    try {
      return tracks_.emplace_back(std::make_unique<trace_track>(file_, worker)).get();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  void write(trace_file& to) override {
    std::vector<trace_track*> tracks;
    {
      const std::lock_guard lock(lock_);
      for (const auto& one : tracks_) tracks.push_back(one.get());
    }
    text_.clear();
    if (!std::exchange(has_name_, true))
      add_name("process_name", 0, "pool " + std::to_string(number_) + (name_.empty() ? "" : ": " + name_));
    for (; named_ != tracks.size(); ++named_) {
      const unsigned worker = tracks[named_]->worker();
      add_name("thread_name", worker, (name_.empty() ? "worker" : name_) + '-' + std::to_string(worker));
    }
    for (trace_track* const track : tracks) {
      track->take([&](const trace_track::slice& one) {
        add(to, track->worker(), one);
        constexpr std::size_t large = std::size_t{1} << 16U;
        if (text_.size() > large) {
          to.append(text_);
          text_.clear();
        }
      });
      if (const std::uint64_t lost = track->take_lost(); lost != 0) {
        begin_event("i", std::to_string(lost) + " slices are left out: the buffer of this worker is full",
                    track->worker(), track->full_at());
        text_ += ",\"s\":\"t\"},\n";
      }
    }
    to.append(text_);
  }

 private:
  pool_trace(trace_file& file, std::string name) : file_(file), name_(std::move(name)), number_(file.enter(*this)) {}

  static std::string_view name_of(slice_kind kind) noexcept {
    switch (kind) {
      case slice_kind::run: return "run";
      case slice_kind::task: return "task";
      case slice_kind::stolen_fork: return "stolen fork";
      case slice_kind::stolen_async: return "stolen async";
      case slice_kind::queued_async: return "queued async";
      case slice_kind::call: return "run_on_all";
      case slice_kind::join: return "join";
      case slice_kind::node:
      case slice_kind::sleep: break;
    }
    return "sleep";
  }

  void add(trace_file& to, unsigned worker, const trace_track::slice& one) {
    begin_event("X", one.kind == slice_kind::node ? to.name_of(one.detail) : name_of(one.kind), worker, one.begin);
    text_ += ",\"dur\":";
    add_time(one.length);
    const bool stolen = one.kind == slice_kind::stolen_fork || one.kind == slice_kind::stolen_async;
    if (stolen) {
      text_ += ",\"args\":{\"from\":";
      add_number(one.detail);
      text_ += '}';
    }
    text_ += "},\n";
    if (!stolen) return;
    // An arrow from what the victim does to this slice.
    const std::string arrow = ",\"id\":" + std::to_string(to.next_arrow());
    begin_event("s", "steal", one.detail, one.begin);
    text_ += arrow + "},\n";
    begin_event("f", "steal", worker, one.begin);
    text_ += arrow + ",\"bp\":\"e\"},\n";
  }
  /// Perfetto identifies a thread by its number alone.
  void add_place(unsigned worker) {
    text_ += ",\"pid\":";
    add_number(number_);
    text_ += ",\"tid\":";
    add_number(number_ * 10'000 + worker);
  }
  void begin_event(std::string_view phase, std::string_view name, unsigned worker, std::uint64_t time) {
    ((text_ += "{\"ph\":\"") += phase) += "\",\"name\":\"";
    add_text(name);
    text_ += "\",\"cat\":\"fork\"";
    add_place(worker);
    text_ += ",\"ts\":";
    add_time(time);
  }
  void add_name(std::string_view what, unsigned worker, std::string_view name) {
    ((text_ += "{\"ph\":\"M\",\"name\":\"") += what) += '"';
    add_place(worker);
    text_ += ",\"args\":{\"name\":\"";
    add_text(name);
    text_ += "\"}},\n";
  }
  void add_text(std::string_view text) {
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < ' ') continue;
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c;
    }
  }
  void add_number(std::uint64_t number) {
    std::array<char, 20> digits;
    text_.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
  }
  /// In microseconds.
  void add_time(std::uint64_t nanoseconds) {
    add_number(nanoseconds / 1000);
    const std::size_t point = text_.size();
    add_number(1000 + nanoseconds % 1000);
    text_[point] = '.';
  }

  trace_file& file_;
  const std::string name_;
  spin_lock lock_;
  std::vector<std::unique_ptr<trace_track>> tracks_;  // under the lock
  std::string text_;                                  // under the file's lock, as everything below
  bool has_name_ = false;
  std::size_t named_ = 0;       // tracks
  const std::uint64_t number_;  // last: from then on, an exit of the program writes what the others hold
};

}  // namespace muster::inline MUSTER_ABI::detail
