// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// A yield of the library's fibers, and of kernel threads and ucontext, as contenders; and how they are made.
#include "driver/creations.hpp"
#include "driver/switches.hpp"
#include "driver/thread_group.hpp"

#include <muster/fiber/fiber.hpp>

#include <sched.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <atomic>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

namespace muster::bench {
namespace {

/// Runs `body` on one pinned thread, and returns the time that `turns` has measured.
template <class Body>
outcome run_turns(const team_spec& spec, turn_taking& turns, Body body) {
  outcome measured;
  outcome result = run_crew(spec.pus, [&](unsigned, start_line& line) {
    line.arrive_and_wait();
    body();
    turns.end(measured);
  });
  result.seconds = measured.seconds;
  result.items = measured.items;
  result.error = measured.error;
  result.peak_memory = peak_memory();
  return result;
}

outcome run_fibers(const team_spec& spec) {
  turn_taking turns(spec);
  return run_turns(spec, turns, [&] {
    std::vector<fiber> all;
    for (unsigned f = 0; f < spec.fibers; ++f) {
      all.emplace_back([&turns, f] {
        if (f == 0) turns.begin();
        for (std::uint64_t n = turns.laps(); n != 0; --n) {
          turns.take(f);
          this_fiber::yield();
        }
      });
    }
    all.clear();  // joins
  });
}

/// A ring of contexts. The last one returns to the thread.
class contexts {
 public:
  explicit contexts(const team_spec& spec, turn_taking& turns)
      : turns_(turns), stacks_(std::make_unique<char[]>(spec.fibers * stack_size)), ring_(spec.fibers) {
    for (unsigned f = 0; f < ring_.size(); ++f) {
      getcontext(&ring_[f]);
      ring_[f].uc_stack.ss_sp = stacks_.get() + f * stack_size;
      ring_[f].uc_stack.ss_size = stack_size;
      ring_[f].uc_link = f + 1 == ring_.size() ? &thread_ : &ring_[f + 1];
      makecontext(&ring_[f], reinterpret_cast<void (*)()>(&contexts::body), 1, f);
    }
  }
  void run() {
    current_ = this;
    swapcontext(&thread_, &ring_[0]);
  }

 private:
  static constexpr std::size_t stack_size = std::size_t{64} << 10U;

  static void body(unsigned f) {
    contexts& own = *current_;
    if (f == 0) own.turns_.begin();
    ucontext_t& next = own.ring_[f + 1 == own.ring_.size() ? 0 : f + 1];
    for (std::uint64_t n = own.turns_.laps(); n != 0; --n) {
      own.turns_.take(f);
      if (n != 1) swapcontext(&own.ring_[f], &next);  // after its last turn it continues at uc_link
    }
  }

  inline static contexts* current_ = nullptr;
  turn_taking& turns_;
  std::unique_ptr<char[]> stacks_;
  std::vector<ucontext_t> ring_;
  ucontext_t thread_{};
};

outcome run_contexts(const team_spec& spec) {
  turn_taking turns(spec);
  contexts ring(spec, turns);
  return run_turns(spec, turns, [&] { ring.run(); });
}

/// Kernel threads on one processor. The kernel chooses the next one, so turns are only counted.
outcome run_threads(const team_spec& spec) {
  const std::uint64_t laps = spec.items / spec.fibers;
  const std::vector<int> pus(spec.fibers, spec.pus.front());
  outcome result = run_crew(pus, [&](unsigned, start_line& line) {
    line.arrive_and_wait();
    for (std::uint64_t n = laps; n != 0; --n) sched_yield();
  });
  result.peak_memory = peak_memory();
  result.items = laps * spec.fibers;
  return result;
}

class made_fibers {
 public:
  explicit made_fibers(std::uint64_t most) : all_(most) {}
  void add() {
    all_[made_] = fiber([this] { ++ran_; });
    ++made_;
  }
  void end() {
    for (; made_ != 0; --made_) all_[made_ - 1].join();
  }
  std::uint64_t ran() const { return ran_; }

 private:
  static_assert(stack_options{}.size == bytes_of_stack);
  std::uint64_t ran_ = 0;
  std::size_t made_ = 0;
  std::vector<fiber> all_;
};

/// Threads that wait for the end of the crowd.
class made_threads {
 public:
  explicit made_threads(std::uint64_t most) : all_(most) {}
  void add() {
    all_[made_] = std::thread([this] {
      may_end_.wait(false);
      ran_.fetch_add(1, std::memory_order_relaxed);
    });
    ++made_;
  }
  void end() {
    may_end_ = true;
    may_end_.notify_all();
    for (; made_ != 0; --made_) all_[made_ - 1].join();
    may_end_ = false;
  }
  std::uint64_t ran() const { return ran_; }

 private:
  std::atomic<bool> may_end_{false};
  std::atomic<std::uint64_t> ran_{0};
  std::size_t made_ = 0;
  std::vector<std::thread> all_;
};

/// No fibers: the pages that they would need.
class touched_pages {
 public:
  explicit touched_pages(std::uint64_t) : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    void* const at =
        ::mmap(nullptr, most * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    ::madvise(at, most * page_, MADV_NOHUGEPAGE);
    all_ = static_cast<volatile char*>(at);
  }
  ~touched_pages() { ::munmap(const_cast<char*>(all_), most * page_); }
  touched_pages(const touched_pages&) = delete;
  touched_pages& operator=(const touched_pages&) = delete;

  void add() { all_[page_ * made_++] = 1; }
  void end() {}
  std::uint64_t ran() const { return made_; }

  static constexpr std::size_t most = 1'000'000;

 private:
  const std::size_t page_;
  volatile char* all_ = nullptr;
  std::uint64_t made_ = 0;
};

}  // namespace

void add_fibers(catalogue& to) {
  to.add("std", "peer",
         {{.name = "muster::fiber",
           .family = "muster",
           .role = "ours",
           .topics = fiber_switch | fiber_create,
           .fibers = 1024,
           .team = run_fibers,
           .create = run_creations<made_fibers>},
          {.name = "swapcontext",
           .family = "ucontext",
           .note = "a system call for the signal mask in each switch",
           .topics = fiber_switch,
           .fibers = 1024,
           .team = run_contexts},
          {.name = "std::thread, sched_yield",
           .note = "kernel threads on one processor; turns are not checked",
           .topics = fiber_switch,
           .fibers = 128,
           .team = run_threads},
          {.name = "std::thread",
           .note = "stacks of the system's size; no more than 2,000 are asked for",
           .topics = fiber_create,
           .create = run_creations<made_threads>,
           .most_created = 2000},
          {.name = "a fresh page",
           .family = "kernel",
           .role = "limit",
           .note = "is touched, one after another; no fiber",
           .topics = fiber_create,
           .create = run_creations<touched_pages>,
           .most_created = touched_pages::most}});
}

}  // namespace muster::bench
