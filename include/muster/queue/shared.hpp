// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared.hpp: bounded FIFO queue of trivially copyable items between processes, in a file or in memory that is handed
// on by its descriptor.
//
// Shapes     shape::spsc, spmc, mpmc: one strict FIFO. shape::lanes: a FIFO for each producer, behind one face.
// Order      linearizable FIFO; of lanes, for each producer. Threads that overlap may finish out of order.
// Progress   try_push and try_pop never wait for another thread and are lock-free; push waits only for room, pop only
//            for an item. try_pop says busy while the first item is still being written.
// Preempted  a consumer stopped in a pop holds one cell, which producers skip. A producer stopped in a push delays the
//            pops that must not pass its item.
// Killed     at any moment, by whatever: what it held is known by its seat. Consumers in the way of a dead producer
//            clear up once they have waited, or tried, for 50 ms; its unfinished push is a gap. The item that a dead
//            consumer had claimed and not returned stays, in nobody's way, until recover() gives it to somebody; of
//            spsc, the next consumer pops it first. No item is lost but the one that a pop had returned, or was about
//            to; info().participants names its rank. Who clears up may be killed as well.
// Memory     cells of 16 bytes beside the item: capacity + ports + 1 of them, rounded up to a power of two, at least
//            16; of shape lanes for each lane. And 128 bytes for each port, 384 for each lane, 640 for itself. All of
//            it is allocated by create(); each port needs a few bytes more in its own process.
// Errors     create throws std::invalid_argument; open, attach, producer and consumer throw shared_queue_error; what
//            the system refuses is a std::system_error. Each says what to do.
// Trust      processes that share a queue trust each other. Whatever the memory holds, no index leaves it; but a
//            process that writes nonsense spoils the others' items, or keeps them busy. A file that is truncated
//            while it is in use kills by SIGBUS, as every mapped file; memory without a name cannot be truncated.
// Filters    a process may enter a seccomp filter that allows futex(2) once it has opened the queue. Without
//            membarrier(2) its sleepers look every millisecond, and close() throws. Without getpgid(2), kill(2) and
//            /proc it notices no death: its pops wait until another process clears up, and recover() throws.
// Use it     between processes. Within one: spsc_queue, spmc_queue, mpmc_queue, which take any type and are faster.
// Source     FFQ^m (see mpmc.hpp). New: claims that name their owner, in the word that they change; seats; recovery.
#pragma once

#include <muster/base/mapping.hpp>              // mapping
#include <muster/base/process.hpp>              // is_alive
#include <muster/queue/face.hpp>                // push_face, pop_face
#include <muster/queue/impl/shared_engine.hpp>  // the rings
#include <muster/queue/shared_info.hpp>         // what it says of itself, and shared_queue_error

#include <array>        // the digest of the tag
#include <cstdint>      // std::uint64_t
#include <filesystem>   // names
#include <memory>       // std::shared_ptr, std::unique_ptr
#include <optional>     // ports that may be refused
#include <string>       // messages
#include <type_traits>  // what an item must be

namespace muster::inline MUSTER_ABI {

/// Who pushes, and who pops.
namespace shape {

struct spsc {
  static constexpr const char* name = "spsc";
  static constexpr bool one_producer = true, one_consumer = true, many_rings = false;
};
struct spmc {
  static constexpr const char* name = "spmc";
  static constexpr bool one_producer = true, one_consumer = false, many_rings = false;
};
struct mpmc {
  static constexpr const char* name = "mpmc";
  static constexpr bool one_producer = false, one_consumer = false, many_rings = false;
};
/// Many producers with a ring each, many consumers.
struct lanes {
  static constexpr const char* name = "lanes";
  static constexpr bool one_producer = true, one_consumer = false, many_rings = true;
};

}  // namespace shape

/// What a queue between processes may be told when it is made.
struct shared_queue_options {
  /// Ports at once, in all processes; ports of the dead count until somebody has cleared up. At most 1023.
  std::size_t ports = 62;
  /// Of shape::lanes: producers at once.
  std::size_t lanes = 16;
  /// Whoever opens the queue must name the same. At most 31 bytes, none of them 0.
  std::string tag = {};
  /// The rank of the first item. For tests that want to see the ranks wrap.
  rank_t first_rank = 0;
};

namespace detail {

struct real_life {
  static constexpr bool mortal = true;
  static std::uint64_t self() { return this_process(); }
  static bool alive(std::uint64_t process) { return is_alive(process); }
};

}  // namespace detail

template <class T, class Shape = shape::mpmc, class Wait = wait::spin_then_park>
class shared_queue {
  static_assert(std::is_trivially_copyable_v<T> && std::is_copy_constructible_v<T>,
                "what goes from process to process is bytes: the item must be trivially copyable");
  static_assert(alignof(T) <= isolation_size, "the item asks for more alignment than the queue's memory has");
  using engine = detail::shared_engine<T, Shape, Wait, detail::real_life>;
  using claimed = detail::shared_claim<T>;
  struct state;

 public:
  class producer_port;
  class consumer_port;

  /// A new queue of exactly `capacity` items (lanes: for each producer) in a new file, which must not be there yet;
  /// under /dev/shm it never goes to a disk. The file stays until somebody deletes it.
  static shared_queue create(const std::filesystem::path& path, std::size_t capacity,
                             const shared_queue_options& options = {});
  /// A new queue in memory without a name, which lives as long as somebody has its descriptor or a mapping.
  static shared_queue create_anonymous(std::size_t capacity, const shared_queue_options& options = {});
  /// A queue that is there. The item, the shape and the tag must be those it was made with. Of the item, size and
  /// alignment are compared: whoever has several kinds of one size tells them by tags.
  static shared_queue open(const std::filesystem::path& path, const std::string& tag = {});
  /// The same by a descriptor that was inherited, or received over a socket. It stays the caller's.
  static shared_queue attach(int descriptor, const std::string& tag = {});

  /// To hand on.
  int descriptor() const noexcept;

  /// What one thread pushes, or pops, with. A child of fork() opens ports of its own, and must not use or destroy those
  /// of its parent. Throws when all ports are in use, or the only producer or consumer is somebody else.
  producer_port producer();
  consumer_port consumer();
  /// The same, but empty instead of an exception.
  std::optional<producer_port> try_producer();
  std::optional<consumer_port> try_consumer();

  /// Clears up after every process that has died: closes its ports, and calls give(const T&) for each item that a pop
  /// had claimed and not returned; those that a later consumer of an spsc inherits already are its own. Returns how
  /// many ports. When the process dies in here, or give throws, the items not yet given, and that one, are given to the
  /// next who asks. Any process, at any time; throws, having cleared up what it can, where a filter forbids to see
  /// whether one of the others lives.
  template <class Give>
  std::size_t recover(Give give);

  /// Refuses further pushes and wakes everybody. Items in the queue can still be popped. Any process, any number of
  /// times. A process that dies in here has closed the queue, or not. Throws where a filter has forbidden membarrier(2)
  /// since the queue was opened: pushes are refused, but another process must call close() or pop to find the end.
  void close();
  bool is_closed() const noexcept;
  std::size_t capacity() const noexcept;
  /// Items in the queue at some recent moment; gaps and pushes in progress count.
  std::size_t size_approx() const noexcept;
  shared_queue_info info() const;

  /// Asserts the invariants. Only while no thread is inside an operation, and nobody dead is left to clear up after.
  void check() const;

 private:
  explicit shared_queue(std::shared_ptr<state> s) : state_(std::move(s)) {}
  static void require_own(const detail::shared_facts& f);
  static detail::shared_facts plan(std::size_t capacity, const shared_queue_options& options);
  static shared_queue adopt(mapping memory, const std::string& name, const std::string& tag);
  std::string why_no_port(bool produces) const;

  std::shared_ptr<state> state_;
};

/// Pushes: push, try_push, emplace, push_for, push_until, push(stop_token), push_n, try_push_n: see face.hpp. One
/// thread at a time.
template <class T, class Shape, class Wait>
class shared_queue<T, Shape, Wait>::producer_port : public push_face<producer_port, T> {
  friend push_face<producer_port, T>;
  friend shared_queue;

 public:
  producer_port(producer_port&&) noexcept = default;
  producer_port& operator=(producer_port&&) = delete;
  ~producer_port();

  /// success, full, closed; busy when stopped processes hold every cell. Lock-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args);

 private:
  producer_port(std::shared_ptr<state> s, unsigned seat, unsigned ring, std::unique_ptr<slipping> slip) noexcept;
  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args);
  MUSTER_HOT claimed claim_place() noexcept;
  MUSTER_COLD claimed await_place(wait_limit limit, claimed at);

  std::shared_ptr<state> state_;
  unsigned seat_;
  unsigned ring_;
  typename engine::view seen_;
  std::unique_ptr<slipping> slip_;
};

/// Pops: pop_for, pop_until, pop(stop_token), pop_n, try_pop_n: see face.hpp. One thread at a time.
template <class T, class Shape, class Wait>
class shared_queue<T, Shape, Wait>::consumer_port : public pop_face<consumer_port, T> {
  friend pop_face<consumer_port, T>;
  friend shared_queue;

 public:
  consumer_port(consumer_port&&) noexcept = default;
  consumer_port& operator=(consumer_port&&) = delete;
  ~consumer_port();

  using pop_face<consumer_port, T>::pop;
  /// Takes the first item; waits while there is none. No value only when the queue is closed and drained.
  MUSTER_HOT queue_result<T> pop();
  /// Takes the first item if there is one: an item, empty or closed; busy while it is still being written. Lock-free.
  /// Of lanes, empty means that each was empty when it was looked at.
  MUSTER_HOT queue_result<T> try_pop();

 private:
  consumer_port(std::shared_ptr<state> s, unsigned seat, std::unique_ptr<slipping> slip) noexcept;
  MUSTER_HOT queue_result<T> pop_within(const wait_limit& limit);
  MUSTER_HOT claimed claim_item();
  MUSTER_COLD claimed claim_elsewhere(claimed vain);
  MUSTER_COLD claimed await_item(wait_limit limit, claimed at);
  void next_lane() noexcept;
  void help();

  static constexpr unsigned turn = 64;  // items in a row from one lane, while others may have some

  std::shared_ptr<state> state_;
  unsigned seat_;
  unsigned ring_ = 0;
  unsigned in_a_row_ = 0;
  bool inherits_;  // spsc: perhaps, from consumers that have died
  std::unique_ptr<slipping> slip_;
  deadline help_at_ = no_deadline;  // when a try that is busy looks for the dead
};

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/shared.hpp>  // definitions
