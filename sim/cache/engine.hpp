// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// engine.hpp: runs a program on the threads of a simulated machine, and predicts its cost.
//
// Each simulated thread is a fiber with a clock, and the thread with the lowest clock runs next. Work between two
// operations of the seam costs nothing; an operation advances the clock by the cost in the machine's file.
//
// Load        waits for its line: loads of one thread do not overlap.
// Store       enters the store buffer, and the thread continues; lines are fetched at once, and stores become visible
//             one after another. With a full buffer the thread waits for the oldest.
// Read-modify-write, full fence   wait until the buffer is empty, as on x86; so does a sequentially consistent store.
// Lines       travel half of their time as a request, during which the owner keeps using the line, and half as the
//             line. Requests are answered in the order in which they are made, one after another; read-only copies come
//             from a shared cache side by side. A line that is stored to leaves its holder at once.
// Values      are those of the order in which the operations begin: the simulation is sequentially consistent.
// The program  must be deterministic except for values from the simulation, and must not depend on addresses.
#pragma once

#include "sim/cache/caches.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace muster_simulation {

struct report {
  picoseconds end = 0;  // the clock of the thread that was last
  std::uint64_t operations = 0;
  std::uint64_t sleeps = 0;
  traffic lines{};
};

/// While it lives, the seam's operations are its own: those outside run() cost nothing, so that a program can be
/// prepared and looked at. At most one lives at a time, and all is on one thread.
class engine {
 public:
  /// `seed` decides when each thread begins: within the first tenth of a microsecond.
  engine(const machine& m, std::uint64_t seed);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Runs body(0), body(1), … each on the hardware thread that `threads` names. Call it once. Throws
  /// std::invalid_argument for threads that the machine does not have, std::runtime_error if a body throws or no thread
  /// can continue; then objects on the bodies' stacks are not destroyed.
  report run(const std::vector<unsigned>& threads, const std::function<void(unsigned)>& body);

  /// The current engine. A program that is compiled for the simulation has one.
  static engine& active();

  // -------------------------------------------------------------------------------------------------- for programs
  /// Works for that long without touching shared data.
  void work(picoseconds time);
  picoseconds now() const;
  std::uint64_t random();

  // -------------------------------------------------------------------------------------------------- for the seam
  // Each is called before the value itself is read or changed, and no other thread runs until the next operation.
  void load(const void* at, std::size_t size);
  void store(const void* at, std::size_t size);
  void read_modify_write(const void* at, std::size_t size);
  /// A reference to plain data. Up to two words are compared when the thread's next operation begins: if they have
  /// changed, this was a write. A reference to more than that counts as a write.
  void refer(const void* at, std::size_t size);
  void fence();
  void heavy_fence();
  void pause();
  void yield();
  void switch_fiber();
  struct futex {
    const void* word;
    std::uint32_t bits;
  };
  void sleep(std::vector<futex> words);
  unsigned wake(const void* word, unsigned most, std::uint32_t bits);
  [[noreturn]] void fail(std::string why);

  unsigned current() const noexcept;
  const void*& innermost() noexcept;
  std::shared_ptr<void>& own() noexcept;
  std::uint64_t new_object_id() noexcept;
  void* cached_part(std::uint64_t identity) const noexcept;
  void cache_part(std::uint64_t identity, void* part) noexcept;

 private:
  class fibers;
  friend class fibers;
  struct thread;

  bool runs() const noexcept;
  thread& self() noexcept;
  void begin();
  void advance(picoseconds by);
  void changed() noexcept;
  void settle();
  void reschedule();
  template <class Use>
  void for_lines(const void* at, std::size_t size, Use use);
  line_number line_of(std::uintptr_t line);
  void request(line_number line, bool to_write, picoseconds use);
  void arrive(line_number line, const caches::answer& found);
  void load_line(line_number line);
  void change_line(line_number line);
  void store_line(line_number line);
  void drain() noexcept;
  picoseconds latency(place where) const noexcept;
  [[noreturn]] void stuck();

  /// How a line travels.
  struct way {
    picoseconds free_at = 0;  // when all who have asked for it until now have had their turn
    picoseconds arrived = 0;  // since when its present holder can use it
    unsigned last = 0;        // the core that has asked last
    bool to_read = false;     // and whether it leaves copies to others
  };

  const machine machine_;
  caches caches_;
  std::unordered_map<std::uintptr_t, line_number> numbers_;  // of lines by address
  std::vector<way> ways_;                                    // by line
  std::vector<std::unique_ptr<thread>> threads_;
  std::unique_ptr<fibers> fibers_;
  std::uint64_t random_;
  std::uint64_t identities_ = 0;
  std::uint64_t looks_ = 0;     // operations since the last change
  picoseconds busy_until_ = 0;  // when the last who is known to do more than look has done it
  report report_;
};

}  // namespace muster_simulation
