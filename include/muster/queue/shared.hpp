// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared.hpp: bounded FIFO queue of trivially copyable items between processes, in a file or in unnamed memory that is
// shared by its descriptor.
//
// Shapes     shape::spsc, spmc, mpmc: one strict FIFO. shape::lanes: a FIFO for each producer, behind one interface.
// Order      linearizable FIFO; with shape lanes, for each producer. Overlapping operations may finish out of order.
// Progress   try_push and try_pop never wait for another thread and are lock-free; push waits only for room, pop only
//            for an item. try_pop returns busy while the first item is being written.
// Preempted  a consumer stopped in a pop holds one cell, which producers skip. A producer stopped in a push delays the
//            pops that must not pass its item.
// Killed     a process may be killed at any moment. Each claim names the port (seat) of its owner, so that other
//            processes can undo it. Consumers blocked by a dead producer recover from its death after waiting or trying
//            for 50 ms; its unfinished push becomes a gap. If a consumer dies after it has claimed an item, the item
//            stays in the queue and blocks no thread until recover() delivers it; with shape spsc the next consumer
//            pops it first. The only item that may be lost is the one that a pop of the dead process had returned or
//            was about to return; info().participants gives its rank. A process may also be killed while it recovers
//            from the death of another.
// Memory     capacity + ports + 1 cells, rounded up to a power of two, at least 16; with shape lanes, for each lane. A
//            cell is an item and 16 bytes. Also 128 bytes for each port, 384 for each lane, 640 for the queue.
//            create() allocates all of it; each port needs a few more bytes in its own process.
// Cost       push, pop: O(1), one compare-exchange each, repeated if another process is faster; none by an only
//            producer or consumer. consume: a fetch-add more. They pass finished ranks, held cells and empty lanes one
//            by one. A thread that waits wakes every 50 ms. Opening a port: O(ports). recover(): system calls to ask
//            for the process of each port, and O(cells) for a dead one. Waking and waiting: see base/wait.hpp.
// Errors     create throws std::invalid_argument; open, attach, producer and consumer throw shared_queue_error; errors
//            of the system are std::system_error. Each message says what to do. consume(f) rethrows what f throws, and
//            that item is lost.
// Trust      processes that share a queue trust each other. Wrong contents never lead to an access outside the memory;
//            but a process that writes nonsense corrupts the others' items, or keeps them busy. Truncating the file
//            while it is in use kills its users by SIGBUS, as with any mapped file; unnamed memory cannot be truncated.
// Filters    after opening the queue, a process may enter a seccomp filter that allows futex(2). Without membarrier(2)
//            its sleepers poll every millisecond, and close() throws. Without getpgid(2), kill(2) and /proc the process
//            detects no death: its pops wait until another process recovers from it, and recover() throws.
// Use it     between processes. Within one: spsc_queue, spmc_queue, mpmc_queue, which take any type and are faster.
// Source     FFQ^m (see mpmc.hpp). New: claims that name their owner, in the word that they change; seats; recovery.
#pragma once

#include <muster/base/detail/mapped_region.hpp>  // mapped_region
#include <muster/base/detail/process.hpp>        // is_alive
#include <muster/base/detail/scope_exit.hpp>     // scope_exit
#include <muster/base/detail/temporal_slip.hpp>  // temporal_slip
#include <muster/base/wait.hpp>                  // wait::spin_then_park
#include <muster/queue/detail/operations.hpp>    // push_operations, pop_operations
#include <muster/queue/detail/shared_ring.hpp>   // the rings
#include <muster/queue/shared_info.hpp>          // shared_queue_info, shared_queue_error

#include <array>        // the digest of the tag
#include <cstdint>      // std::uint64_t
#include <filesystem>   // names
#include <memory>       // std::shared_ptr, std::unique_ptr
#include <optional>     // ports that may be refused
#include <string>       // messages
#include <type_traits>  // requirements on items

namespace muster::inline MUSTER_ABI {

/// How many producers and consumers a queue has.
namespace shape {

/// One producer and one consumer.
struct spsc {
  static constexpr const char* name = "spsc";
  static constexpr bool one_producer = true, one_consumer = true, many_rings = false;
};
/// One producer and many consumers.
struct spmc {
  static constexpr const char* name = "spmc";
  static constexpr bool one_producer = true, one_consumer = false, many_rings = false;
};
/// Many producers and many consumers.
struct mpmc {
  static constexpr const char* name = "mpmc";
  static constexpr bool one_producer = false, one_consumer = false, many_rings = false;
};
/// Many producers, each with its own ring, and many consumers.
struct lanes {
  static constexpr const char* name = "lanes";
  static constexpr bool one_producer = true, one_consumer = false, many_rings = true;
};

}  // namespace shape

/// Options of a queue between processes.
struct shared_queue_options {
  /// Maximum number of ports at once, in all processes. Ports of dead processes count until recovered. At most 1023.
  std::size_t ports = 62;
  /// For shape::lanes: the maximum number of producers at once.
  std::size_t lanes = 16;
  /// Processes that open the queue must give the same tag. At most 31 bytes, none of them 0.
  std::string tag = {};
  /// The rank of the first item. For tests of the wrap-around.
  rank_t first_rank = 0;
};

namespace detail {

struct process_liveness {
  static constexpr bool mortal = true;
  static std::uint64_t self() { return this_process(); }
  static bool alive(std::uint64_t process) { return is_alive(process); }
  static std::uint64_t ended(std::uint64_t process) { return identity_of_none(process); }
};

}  // namespace detail

template <class Shape, class Wait>
class shared_bytes;

template <class T, class Shape = shape::mpmc, class Wait = wait::spin_then_park>
class shared_queue {
  static_assert(std::is_trivially_copyable_v<T> && std::is_copy_constructible_v<T>,
                "shared_queue<T>: T must be trivially copyable, because items are copied between processes as bytes");
  static_assert(alignof(T) <= isolation_size, "shared_queue<T>: T must not be aligned to more than isolation_size");
  using engine = detail::shared_ring<T, Shape, Wait, detail::process_liveness>;
  using claimed = detail::claim_result<T>;
  struct state;
  template <class, class>
  friend class shared_bytes;  // which is a queue of places in an arena

 public:
  class producer_port;
  class consumer_port;

  /// Creates a queue of `capacity` items (lanes: for each producer) in a new file, which must not exist yet. Under
  /// /dev/shm it is never written to disk. The file stays until it is deleted.
  static shared_queue create(const std::filesystem::path& path, std::size_t capacity,
                             const shared_queue_options& options = {}) {
    return make_file(path, plan(capacity, options), options.first_rank);
  }

  /// Creates a queue in unnamed memory, which exists as long as any process has its descriptor or a mapping.
  static shared_queue create_anonymous(std::size_t capacity, const shared_queue_options& options = {}) {
    return make_anonymous(plan(capacity, options), options.first_rank);
  }

  /// Opens an existing queue. Item, shape and tag must be those it was created with. Only the item's size and alignment
  /// are compared: use tags to distinguish item types of the same size.
  static shared_queue open(const std::filesystem::path& path, const std::string& tag = {}) {
    return adopt(mapped_region::open_file(path), path.string(), tag);
  }

  /// As open(), by a descriptor that was inherited or received over a socket. The caller still owns it.
  static shared_queue attach(int descriptor, const std::string& tag = {}) {
    return adopt(mapped_region::open_descriptor(descriptor), "descriptor " + std::to_string(descriptor), tag);
  }

  /// The descriptor to pass to other processes.
  int descriptor() const noexcept { return state_->memory.descriptor(); }

  /// Returns a port, with which one thread pushes. A forked child must open its own ports, and must not use or destroy
  /// its parent's. Throws if all ports are in use, or if the only producer or consumer already exists.
  producer_port producer() {
    if (auto port = try_producer()) return std::move(*port);
    MUSTER_THROW(shared_queue_error(why_no_port(true)));
  }

  /// As producer(), for a thread that pops.
  consumer_port consumer() {
    if (auto port = try_consumer()) return std::move(*port);
    MUSTER_THROW(shared_queue_error(why_no_port(false)));
  }

  /// As above, but returns nothing instead of throwing.
  std::optional<producer_port> try_producer() {
    engine& rings = state_->rings;
    const std::uint64_t self = state_->process();
    if (rings.header().consumers.asymmetric()) static_cast<void>(sync::asymmetric_fences(futex_scope::shared));
    auto slip = std::make_unique<temporal_slip>();  // may throw, so before a seat is taken
    const unsigned seat = rings.acquire_seat(self, detail::producer_role);
    if (seat == 0) return std::nullopt;
    for (unsigned ring = 0; ring < rings.facts().rings; ++ring)
      if (!Shape::one_producer || rings.own(rings.ends(ring).producer, seat, self, detail::leave_items{})) {
        return producer_port(state_, seat, ring, std::move(slip));
      }
    rings.release_seat(seat);
    return std::nullopt;
  }

  /// As consumer(), but returns nothing instead of throwing.
  std::optional<consumer_port> try_consumer() {
    engine& rings = state_->rings;
    const std::uint64_t self = state_->process();
    if (rings.header().consumers.asymmetric()) static_cast<void>(sync::asymmetric_fences(futex_scope::shared));
    auto slip = std::make_unique<temporal_slip>();  // as above
    const unsigned seat = rings.acquire_seat(self, detail::consumer_role);
    if (seat == 0) return std::nullopt;
    if constexpr (Shape::one_consumer) {
      if (!rings.own(rings.ends(0).consumer, seat, self, detail::hand_over{})) {
        rings.release_seat(seat);
        return std::nullopt;
      }
    }
    return consumer_port(state_, seat, std::move(slip));
  }

  /// Recovers from every process that has died: closes its ports, and calls give(const T&) for each item that a pop had
  /// claimed and not returned, except items that a later spsc consumer has inherited. Returns the number of ports
  /// closed. If give throws, or this process dies in this call, the next recover() gives the item in question again,
  /// and then the remaining ones. Any process may call it at any time. If a filter hides whether another process is
  /// alive, it recovers what it can, then throws.
  template <class Give>
  std::size_t recover(Give give) {
    return recover_ports([&](const T& item) { give(item); });
  }
  /// As above, but the claimed items stay where they are, with the ports that had claimed them, for a later recover().
  std::size_t recover() { return recover_ports(detail::leave_items{}); }

  /// Waits until a pop would find an item, or the end of a closed queue. Takes nothing, so another consumer may take
  /// the item first. Needs no port. Returns false if the time expires first. It does not detect dead processes: if one
  /// has died in a push, this waits until a pop has skipped its item.
  template <class Rep, class Period>
  bool await_item_for(std::chrono::duration<Rep, Period> time) {
    static_cast<void>(state_->process());
    const wait_limit limit{detail::deadline_after(time)};
    const auto ready = [this] { return state_->rings.has_news(); };
    while (!ready()) {
      if (limit.over()) return false;
      state_->rings.await_item(limit, ready);
    }
    return true;
  }

  /// Refuses further pushes and wakes all waiters. Remaining items can still be popped. Any process may call it, any
  /// number of times. If the process dies in this call, the queue is either closed or not. Throws if a filter has
  /// forbidden membarrier(2) since the queue was opened. Pushes are refused even then, but pops find the end only after
  /// another process has called close() or pop.
  void close() {
    if (!state_->rings.close())
      MUSTER_THROW(shared_queue_error(
          "shared_queue::close: pushes are now refused, but a filter forbids membarrier(2), which finds the last item; "
          "call close() in another process, or allow membarrier(2)"));
  }

  /// Returns true if a close() has begun, in any process.
  bool is_closed() const noexcept { return state_->rings.is_closed(); }

  /// The most items that it holds; with shape::lanes, that each producer's ring holds.
  std::size_t capacity() const noexcept { return state_->rings.facts().capacity; }

  /// The number of items at some recent moment, including gaps and pushes in progress.
  std::size_t size_approx() const noexcept { return state_->rings.size_approx(); }

  /// The state of the queue and of its ports.
  shared_queue_info info() const { return detail::describe(state_->memory.start(), state_->rings.facts()); }

  /// Asserts the invariants. No thread may be inside an operation, and every dead process must have been recovered.
  void check() const { state_->rings.check(); }

 private:
  struct state {
    state(mapped_region m, const detail::shared_metadata& f) : memory(std::move(m)), rings(memory.start(), f) {}

    /// Returns the identity of the calling process; throws if it may not share the queue. The process that made this
    /// object was checked when it made it; it is not checked again, because a filter may forbid that by now. A forked
    /// child is checked here. The process number alone does not identify it: a child may have its maker's number in
    /// another PID namespace, or once the maker has ended.
    std::uint64_t process() const {
      const pid_t now = ::getpid();  // fails behind a filter
      if (generation_ == process_generation() && (now == number_of(made_by_) || now < 0)) return made_by_;
      require_own(rings.facts());
      return detail::process_liveness::self();
    }

    mapped_region memory;
    engine rings;

   private:
    const std::uint64_t made_by_ = detail::process_liveness::self();
    const unsigned generation_ = process_generation();
  };

  explicit shared_queue(std::shared_ptr<state> s) : state_(std::move(s)) {}

  template <class Give>
  std::size_t recover_ports(Give give) {
    const std::uint64_t self = state_->process();
    std::size_t ports = 0;
    for (unsigned s = 1; s < state_->rings.facts().seats; ++s)
      ports += state_->rings.clear_up(s, self, give) == detail::recovery::done;
    for (const shared_queue_participant& p : info().participants)
      if (p.hidden && p.process != number_of(self))
        MUSTER_THROW(
            shared_queue_error("shared_queue::recover: a filter prevents this process from seeing if process " +
                               std::to_string(p.process) + " is alive (" + std::to_string(ports) +
                               " ports recovered); call recover() in another process, or allow getpgid(2)"));
    return ports;
  }

  // Called before a process joins: a child may be in another namespace than the queue.
  static void require_own(const detail::shared_metadata& f) {
    if (const std::string why = detail::why_foreign(f); !why.empty())
      MUSTER_THROW(shared_queue_error("shared_queue: " + why));
  }

  static shared_queue make_file(const std::filesystem::path& path, const detail::shared_metadata& f, rank_t first) {
    return shared_queue(std::make_shared<state>(
        mapped_region::make_file(path, f.size, [&](unsigned char* at) { engine::construct(at, f, first); }), f));
  }
  static shared_queue make_anonymous(const detail::shared_metadata& f, rank_t first) {
    return shared_queue(std::make_shared<state>(
        mapped_region::make_anonymous(f.size, [&](unsigned char* at) { engine::construct(at, f, first); }), f));
  }

  // `arena`: bytes beside each ring, for shared_bytes.
  static detail::shared_metadata plan(std::size_t capacity, const shared_queue_options& options, std::size_t arena = 0,
                                      const char* here = "shared_queue", const char* shape = Shape::name) {
    detail::shared_metadata f;
    if (options.ports == 0 || options.ports >= detail::shared_word::most_seats)
      detail::refuse(here, "ports is " + std::to_string(options.ports) + "; it must be between 1 and " +
                               std::to_string(detail::shared_word::most_seats - 1));
    if (!detail::is_tag(options.tag)) detail::refuse(here, detail::no_tag(options.tag));
    if (Shape::many_rings && (options.lanes == 0 || options.lanes > options.ports))
      detail::refuse(here, "lanes is " + std::to_string(options.lanes) + "; it must be between 1 and ports (" +
                               std::to_string(options.ports) + ")");
    f.seats = options.ports + 1;
    f.rings = Shape::many_rings ? options.lanes : 1;
    f.capacity = capacity;
    f.cells =
        detail::ring_cells(here, capacity, {.threads = f.seats}, f.seats, sizeof(detail::shared_cell<T>) * f.rings);
    f.arena = arena;
    detail::copy_text(shape, f.shape);
    detail::copy_text(options.tag, f.tag);
    f.boot = boot_identity();
    f.name_space = process_name_space();
    require_own(f);
    return detail::lay_out<T>(f);
  }

  static shared_queue adopt(mapped_region memory, const std::string& name, const std::string& tag,
                            const char* shape = Shape::name) {
    if (!detail::is_tag(tag)) MUSTER_THROW(shared_queue_error(name + ": " + detail::no_tag(tag)));
    const detail::shared_metadata f = detail::read_facts(memory, name);
    detail::shared_metadata wanted = f;
    detail::copy_text(shape, wanted.shape);
    detail::copy_text(tag, wanted.tag);
    if (!Shape::many_rings) wanted.rings = 1;
    detail::compare_facts(f, detail::lay_out<T>(wanted), name);
    auto s = std::make_shared<state>(std::move(memory), f);
    if (s->rings.header().consumers.asymmetric() && !sync::asymmetric_fences(futex_scope::shared))
      MUSTER_THROW(shared_queue_error(
          name + ": its other users rely on membarrier(2), which is forbidden in this process; allow membarrier(2)"));
    return shared_queue(std::move(s));
  }

  // ------------------------------------------------------------------------------------------------------------- ports

  std::string why_no_port(bool produces) const {
    const shared_queue_info now = info();
    const auto any = [&](auto is) { return std::any_of(now.participants.begin(), now.participants.end(), is); };
    const std::string unseen =
        any([](const auto& p) { return p.hidden; })
            ? "; this process may not see which of them are alive: call recover() in one that may"
            : "";
    if (now.participants.size() + 1 >= state_->rings.facts().seats)
      return "shared_queue: all " + std::to_string(now.participants.size()) + " ports are in use" +
             (any([](const auto& p) { return !p.alive; }) ? ", some of dead processes; call recover()"
              : unseen.empty()                            ? "; create it with more"
                                                          : unseen);
    std::string who;
    for (const shared_queue_participant& p : now.participants)
      if (p.produces == produces) who += (who.empty() ? " " : ", ") + std::to_string(p.process);
    return std::string("shared_queue: ") +
           (Shape::many_rings ? "all lanes have a producer, in"
            : produces        ? "there is a producer, in"
                              : "there is a consumer, in") +
           " process" + (who.empty() ? " (just gone; try again)" : who) +
           (!unseen.empty()     ? unseen
            : Shape::many_rings ? "; create it with more lanes"
                                : "; close its port first, or use the shape mpmc, which takes several");
  }

  std::shared_ptr<state> state_;
};

/// Pushes: push, try_push, emplace, push_for, push_until, push(stop_token), push_n, try_push_n: see
/// detail/operations.hpp. One thread at a time.
template <class T, class Shape, class Wait>
class shared_queue<T, Shape, Wait>::producer_port : public push_operations<producer_port, T> {
  friend push_operations<producer_port, T>;
  friend shared_queue;
  template <class, class>
  friend class shared_bytes;

 public:
  producer_port(producer_port&&) noexcept = default;
  producer_port& operator=(producer_port&&) = delete;
  ~producer_port() {
    if (state_) state_->rings.release_seat(seat_);
  }

  /// Returns success, full or closed; busy if stopped processes hold every cell. Lock-free.
  template <class... Args>
  MUSTER_HOT queue_status try_emplace(Args&&... args) {
    // The item is made before the claim, so that an exception from its constructor changes nothing.
    if constexpr (sizeof...(Args) != 1 || !(std::is_same_v<std::remove_cvref_t<Args>, T> && ...)) {
      return try_emplace(T(std::forward<Args>(args)...));
    } else {
      const claimed at = claim_place();
      if (at) [[likely]]
        state_->rings.publish(seat_, at, args...);
      return at.status();
    }
  }

 private:
  producer_port(std::shared_ptr<state> s, unsigned seat, unsigned ring, std::unique_ptr<temporal_slip> slip) noexcept
      : state_(std::move(s)), seat_(seat), ring_(ring), seen_(state_->rings.view_of(ring)), slip_(std::move(slip)) {}

  template <class... Args>
  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, Args&&... args) {
    if constexpr (sizeof...(Args) != 1 || !(std::is_same_v<std::remove_cvref_t<Args>, T> && ...)) {
      return emplace_within(limit, T(std::forward<Args>(args)...));
    } else {
      claimed at = claim_place();
      if (!at) [[unlikely]] {
        at = await_place(limit, at);
        if (!at) return at.status();
      }
      state_->rings.publish(seat_, at, args...);
      return queue_status::success;
    }
  }

  MUSTER_HOT claimed claim_place() noexcept { return state_->rings.claim_place(ring_, seat_, seen_); }

  // Called after a failed claim: retries until one succeeds, the limit expires, or the queue is closed.
  MUSTER_COLD claimed await_place(wait_limit limit, claimed at) {
    while (!at && at.status() != queue_status::closed) {
      if (limit.over() || !state_->rings.await_room(limit, at.status(), ring_, seen_)) break;
      slip_->after_wait(state_->rings.slip(), [this] { return state_->rings.free_places(ring_); });
      at = claim_place();
    }
    return at;
  }

  std::shared_ptr<state> state_;
  unsigned seat_;
  unsigned ring_;
  typename engine::view seen_;
  std::unique_ptr<temporal_slip> slip_;
};

/// Pops: pop_for, pop_until, pop(stop_token), pop_n, try_pop_n, consume and its other forms: see
/// detail/operations.hpp. One thread at a time.
template <class T, class Shape, class Wait>
class shared_queue<T, Shape, Wait>::consumer_port : public pop_operations<consumer_port, T>,
                                                    public consume_operations<consumer_port, T> {
  friend pop_operations<consumer_port, T>;
  friend consume_operations<consumer_port, T>;
  friend shared_queue;
  template <class, class>
  friend class shared_bytes;

 public:
  consumer_port(consumer_port&&) noexcept = default;
  consumer_port& operator=(consumer_port&&) = delete;
  ~consumer_port() {
    if (state_) state_->rings.release_seat(seat_);
  }

  using pop_operations<consumer_port, T>::pop;
  /// Takes the first item; waits while there is none. Returns no value only when closed and drained.
  MUSTER_HOT queue_result<T> pop() { return pop_within(wait_limit{}); }

  /// Takes the first item if there is one. Returns the item, empty or closed; busy while it is being written. With
  /// shape lanes, empty means that each lane was empty when it was checked. Lock-free.
  MUSTER_HOT queue_result<T> try_pop() {
    const claimed at = claim_item();
    if (!at) [[unlikely]]
      return at.status();
    return state_->rings.take(seat_, at);
  }
  /// Like consume, but does not wait for an item: calls f(item) with a const T& into the queue's memory. Returns
  /// success, empty, closed or busy, as try_pop. f may use the port. If the process is killed in f, the item stays in
  /// the queue, like one that a pop has claimed.
  template <class F>
  MUSTER_HOT queue_status try_consume(F&& f) {
    const claimed at = claim_item();
    if (!at) [[unlikely]]
      return at.status();
    use(at, f);
    return queue_status::success;
  }

 private:
  consumer_port(std::shared_ptr<state> s, unsigned seat, std::unique_ptr<temporal_slip> slip) noexcept
      : state_(std::move(s)), seat_(seat), slip_(std::move(slip)) {
    if (Shape::many_rings) ring_ = static_cast<unsigned>(seat % state_->rings.facts().rings);
    inherits_ = Shape::one_consumer && state_->rings.inherited_item();
  }

  MUSTER_HOT queue_result<T> pop_within(const wait_limit& limit) {
    claimed at = claim_item();
    if (!at) [[unlikely]] {
      at = await_item(limit, at);
      if (!at) return at.status();
    }
    return state_->rings.take(seat_, at);
  }

  template <class F>
  MUSTER_HOT queue_status consume_within(const wait_limit& limit, F& f) {
    claimed at = claim_item();
    if (!at) [[unlikely]] {
      at = await_item(limit, at);
      if (!at) return at.status();
    }
    use(at, f);
    return queue_status::success;
  }

  template <class F>
  MUSTER_HOT void use(const claimed& at, F& f) {
    static_assert(
        requires(const T& one) { f(one); }, "consume takes a function that can be called with an item, const T&");
    engine& rings = state_->rings;
    if (Shape::one_consumer && inherits_) [[unlikely]]
      rings.adopt(seat_, at);
    const detail::scope_exit used([&rings, seat = seat_, &at, ring = ring_] { rings.release(seat, at, ring); });
    static_cast<void>(f(at.place().item.read_ref().value));
  }

  MUSTER_HOT claimed claim_item() {
    engine& rings = state_->rings;
    if (Shape::one_consumer && inherits_) [[unlikely]] {
      if (const claimed at = rings.inherited_item()) return at;
      inherits_ = false;
    }
    if (Shape::many_rings && in_a_row_ == turn) next_lane();
    claimed at = rings.claim_item(ring_, seat_);
    if (!at) [[unlikely]] {
      at = claim_elsewhere(at);
      if (!at) return at;
    }
    ++in_a_row_;
    help_at_ = no_deadline;
    return at;
  }

  // Called after a failed claim from lane ring_: tries the other lanes. If claims have been busy for engine::patience,
  // looks for dead processes.
  MUSTER_COLD claimed claim_elsewhere(claimed vain) {
    engine& rings = state_->rings;
    for (;;) {
      bool busy = vain.status() == queue_status::busy, open = vain.status() == queue_status::empty,
           over = vain.status() == queue_status::closed;
      if constexpr (Shape::many_rings) {
        next_lane();
        for (std::size_t looked = 1; looked < rings.facts().rings; ++looked, next_lane()) {
          const claimed at = rings.claim_item(ring_, seat_);
          if (at) return at;
          busy |= at.status() == queue_status::busy;
          open |= at.status() == queue_status::empty;
          over |= at.status() == queue_status::closed;
        }
      }
      if (busy) break;
      if (!open || !over) return open ? queue_status::empty : queue_status::closed;
      // The queue was closed during the search. A lane that is drained now may have had items before, and the lanes
      // that were empty are closed by now: search again.
      vain = rings.claim_item(ring_, seat_);
      if (vain) return vain;
    }
    // A dead process must not make try_pop return busy forever.
    const deadline now = deadline_clock::now();
    if (help_at_ == no_deadline) help_at_ = now + engine::patience;
    if (now >= help_at_) help();
    return queue_status::busy;
  }

  void next_lane() noexcept {
    ring_ = ring_ + 1 == state_->rings.facts().rings ? 0 : ring_ + 1;
    in_a_row_ = 0;
  }

  // Called after a failed claim: retries until one succeeds, the limit expires, or the queue is drained.
  MUSTER_COLD claimed await_item(wait_limit limit, claimed at) {
    engine& rings = state_->rings;
    while (!at && at.status() != queue_status::closed) {
      if (limit.over() || !rings.await_item(limit, [&] { return rings.has_news(); })) break;
      // The queue is closed, but only another process can find its end (see close()). So has_news() is true, although
      // this process can do nothing: it polls slowly.
      if (at.status() == queue_status::busy && rings.is_closed()) [[unlikely]]
        sync::nap();
      slip_->after_wait(rings.slip(), [&] { return rings.size_approx(); });
      at = claim_item();
    }
    return at;
  }

  void help() {
    engine& rings = state_->rings;
    const std::uint64_t self = detail::process_liveness::self();
    for (unsigned ring = 0; ring < rings.facts().rings; ++ring) rings.help(ring, self);
    help_at_ = no_deadline;
  }

  static constexpr unsigned turn = 64;  // items in a row from one lane while others may have some

  std::shared_ptr<state> state_;
  unsigned seat_;
  unsigned ring_ = 0;
  unsigned in_a_row_ = 0;
  bool inherits_;  // spsc: there may be items of consumers that have died
  std::unique_ptr<temporal_slip> slip_;
  deadline help_at_ = no_deadline;  // from then on, a try_pop that is busy looks for dead processes
};

}  // namespace muster::inline MUSTER_ABI
