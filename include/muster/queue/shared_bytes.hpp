// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shared_bytes.hpp: bounded FIFO queue of messages of any length between processes, in a file or in unnamed memory.
// Messages are written and read in place, or copied in and out.
//
// Shapes     shape::lanes (default): many producers, each with a ring and an arena for its messages, and many
//            consumers. shape::spmc and spsc: one producer.
// Order      that of shared_queue: FIFO for each producer.
// Progress   try_push, try_loan, try_pop and try_peek never wait for another process; the others wait only for room or
//            for a message.
// Preempted  a consumer that is stopped with a message in its hands holds that message's bytes and cell; its producer
//            passes them. A producer that is stopped while it writes a message delays no other process.
// Killed     at any moment, by any cause. A message that was being written never existed, and its bytes are used again.
//            A message that a dead consumer was reading, in place or to copy it, stays until recover() delivers it;
//            with shape spsc the next consumer gets it. So a message read in place may be processed twice, once by the
//            dead; a copied one may be lost only if pop had finished the copy and was about to return.
// Memory     `bytes` for each producer, in blocks of 64 bytes: a message takes whole blocks side by side, so each is
//            aligned to 64. Also what a shared_queue of 16-byte items takes. Opening a producer port allocates 48 bytes
//            for each cell in its own process; nothing else allocates, except pop() for its result.
// Cost       push, pop: O(size) for the copy, which loan and peek do not make. A push has no read-modify-write; a pop
//            or peek has a fetch-add, and a compare-exchange unless it is the only consumer's. Room is found in O(1),
//            amortized; in O(messages) while consumers hold old ones. A producer port: O(cells + n log n) if its
//            predecessor has left n messages. Otherwise as shared_queue.
// Errors     as shared_queue. A message longer than longest(): std::length_error. A loan while another is open:
//            std::logic_error. A message whose place lies outside of its arena, because a process wrote nonsense:
//            shared_queue_error; that message is gone.
// Trust, filters   as shared_queue.
// Use it     between processes, for messages of different or large sizes, or to avoid copies. For small items of one
//            type, shared_queue is faster.
// Source     iceoryx's loans (Pöhnl and others) over a shared_queue whose items are places in an arena. New: whether a
//            block is free is read from the queue's cell; there is no allocator whose state a death could break.
#pragma once

#include <muster/base/wait.hpp>                // wait::spin_then_park
#include <muster/queue/detail/byte_arena.hpp>  // where messages are
#include <muster/queue/shared.hpp>             // the queue of their places

#include <cstddef>    // std::byte
#include <cstring>    // std::memcpy
#include <limits>     // the largest size
#include <memory>     // std::unique_ptr
#include <optional>   // ports that may be refused
#include <span>       // messages
#include <stdexcept>  // std::length_error
#include <string>     // messages of errors
#include <vector>     // copies

namespace muster::inline MUSTER_ABI {

/// Options of shared_bytes.
struct shared_bytes_options {
  /// For each producer: how many messages it may have in the queue at once.
  std::size_t messages = 4096;
  /// For each producer: the bytes of its messages. Rounded up to a multiple of 128.
  std::size_t bytes = std::size_t{1} << 20;
  /// The ports and lanes, the tag, and the first rank.
  shared_queue_options queue = {};
};

namespace detail {

/// Where a message is, counted from the first arena.
struct byte_place {
  std::uint64_t at;
  std::uint64_t size;
};

}  // namespace detail

template <class Shape = shape::lanes, class Wait = wait::spin_then_park>
class shared_bytes {
  static_assert(
      Shape::one_producer,
      "shared_bytes: the shape must be lanes, spmc or spsc: an arena belongs to the one producer of its ring");
  using places = shared_queue<detail::byte_place, Shape, Wait>;
  using engine = typename places::engine;
  using claimed = typename places::claimed;
  class writer;
  class reader;

 public:
  class producer_port;
  class consumer_port;
  class loan;
  class message;

  /// Creates a queue in a new file, which must not exist yet. The file stays until it is deleted.
  static shared_bytes create(const std::filesystem::path& path, const shared_bytes_options& options = {}) {
    return shared_bytes(places::make_file(path, plan(options), options.queue.first_rank));
  }
  /// Creates a queue in unnamed memory, which exists as long as any process has its descriptor or a mapping.
  static shared_bytes create_anonymous(const shared_bytes_options& options = {}) {
    return shared_bytes(places::make_anonymous(plan(options), options.queue.first_rank));
  }
  /// Opens an existing queue. Shape and tag must be those it was created with.
  static shared_bytes open(const std::filesystem::path& path, const std::string& tag = {}) {
    return shared_bytes(places::adopt(mapped_region::open_file(path), path.string(), tag, name));
  }
  /// As open(), by a descriptor that was inherited or received over a socket. The caller still owns it.
  static shared_bytes attach(int descriptor, const std::string& tag = {}) {
    return shared_bytes(places::adopt(mapped_region::open_descriptor(descriptor),
                                      "descriptor " + std::to_string(descriptor), tag, name));
  }

  /// The descriptor to pass to other processes.
  int descriptor() const noexcept { return places_.descriptor(); }

  /// Returns a handle with which one thread pushes or pops, as those of shared_queue.
  producer_port producer() { return producer_port(std::make_unique<writer>(places_.producer())); }
  /// As producer(), for a thread that pops.
  consumer_port consumer() { return consumer_port(std::make_unique<reader>(places_.consumer())); }
  /// As producer(), but returns nothing instead of throwing.
  std::optional<producer_port> try_producer() {
    if (auto port = places_.try_producer()) return producer_port(std::make_unique<writer>(std::move(*port)));
    return std::nullopt;
  }
  /// As consumer(), but returns nothing instead of throwing.
  std::optional<consumer_port> try_consumer() {
    if (auto port = places_.try_consumer()) return consumer_port(std::make_unique<reader>(std::move(*port)));
    return std::nullopt;
  }

  /// As shared_queue::recover. give(std::span<const std::byte>) must not keep the span.
  template <class Give>
  std::size_t recover(Give give) {
    return places_.recover([&](const detail::byte_place& at) {
      const std::span<std::byte> bytes = bytes_at(*places_.state_, at);
      if (bytes.data() != nullptr) give(std::span<const std::byte>(bytes));
    });
  }

  /// As shared_queue::recover: leaves the messages that dead consumers had claimed.
  std::size_t recover() { return places_.recover(); }

  /// As shared_queue::await_item_for: waits until a pop or peek could find a message or the end, and takes nothing.
  template <class Rep, class Period>
  bool await_item_for(std::chrono::duration<Rep, Period> time) {
    return places_.await_item_for(time);
  }

  /// Refuses further messages and wakes all waiters. Remaining ones can still be popped. As shared_queue::close.
  void close() { places_.close(); }
  /// Returns true if a close() has begun, in any process.
  bool is_closed() const noexcept { return places_.is_closed(); }

  /// For each producer: the number of messages, and the length of the longest that it can push.
  std::size_t capacity() const noexcept { return places_.capacity(); }
  /// For each producer: the bytes of the longest message that it can push.
  std::size_t longest() const noexcept { return places_.state_->rings.facts().arena; }
  /// The number of messages at some recent moment.
  std::size_t size_approx() const noexcept { return places_.size_approx(); }

  /// The state of the queue and of its ports.
  shared_queue_info info() const { return places_.info(); }

  /// Asserts the invariants. No thread may be inside an operation, and every dead process must have been recovered.
  void check() const { places_.check(); }

 private:
  static constexpr const char* name = Shape::many_rings     ? "bytes lanes"
                                      : Shape::one_consumer ? "bytes spsc"
                                                            : "bytes spmc";

  explicit shared_bytes(places&& p) noexcept : places_(std::move(p)) {}

  static detail::shared_metadata plan(const shared_bytes_options& options) {
    constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / 4096;
    if (options.bytes == 0 || options.bytes > most)
      detail::refuse("shared_bytes", "bytes is " + std::to_string(options.bytes) + "; it must be between 1 and " +
                                         std::to_string(most));
    const std::size_t arena = (options.bytes + isolation_size - 1) / isolation_size * isolation_size;
    return places::plan(options.messages, options.queue, arena, "shared_bytes", name);
  }

  // Null if the place is outside of the arenas.
  static std::span<std::byte> bytes_at(const typename places::state& s, const detail::byte_place& at) noexcept {
    const detail::shared_metadata& f = s.rings.facts();
    const std::uint64_t all = f.rings * f.arena;
    if (at.at > all || at.size > all - at.at) return {};
    return {reinterpret_cast<std::byte*>(s.memory.start() + f.arenas_at + at.at), static_cast<std::size_t>(at.size)};
  }

  places places_;
};

// ----------------------------------------------------------------------------------------------------------- producers

// A producer port, at an address that its loan knows.
template <class Shape, class Wait>
class shared_bytes<Shape, Wait>::writer {
  friend shared_bytes;

 public:
  explicit writer(typename places::producer_port&& p)
      : port(std::move(p)), arena(rings().facts().arena, rings().facts().cells) {
    rings().unfinished(port.ring_, [&](rank_t rank, const detail::byte_place& at) {
      if (at.at >= first()) arena.adopt(at.at - first(), at.size, rank);
    });
    arena.start();
  }

  engine& rings() const noexcept { return port.state_->rings; }
  std::uint64_t first() const noexcept { return port.ring_ * rings().facts().arena; }

  /// Finds room for a message of `size` bytes, which stays there until the next call.
  MUSTER_HOT queue_status reserve(std::size_t size) {
    if (size > arena.size()) [[unlikely]]
      refuse(size);
    if (loaned) [[unlikely]]
      MUSTER_THROW(
          std::logic_error("shared_bytes: this port has a loan; push it or let it end before the next message"));
    if (rings().is_closed()) [[unlikely]]
      return queue_status::closed;
    return find_room(size);
  }
  MUSTER_HOT queue_status reserve_within(const wait_limit& limit, std::size_t size) {
    const queue_status now = reserve(size);
    return detail::gave_up(now) ? await_room(limit, size) : now;
  }

  std::span<std::byte> bytes(std::size_t size) const noexcept {
    return bytes_at(*port.state_, {first() + arena.reserved(), size});
  }

  /// Publishes the message in the reserved room. Fails only if the queue has been closed: reserve() has found a place.
  MUSTER_HOT queue_status publish(std::size_t size) {
    const claimed at = port.claim_place();
    if (!at) [[unlikely]]
      return at.status();
    rings().publish(port.seat_, at, detail::byte_place{first() + arena.reserved(), size});
    arena.keep(size, at.rank());
    return queue_status::success;
  }

  MUSTER_HOT queue_status push(std::span<const std::byte> from, const wait_limit* limit) {
    const queue_status found = limit == nullptr ? reserve(from.size()) : reserve_within(*limit, from.size());
    if (found != queue_status::success) [[unlikely]]
      return found;
    if (!from.empty()) std::memcpy(bytes(from.size()).data(), from.data(), from.size());
    return publish(from.size());
  }

  typename places::producer_port port;
  detail::byte_arena arena;
  bool loaned = false;

 private:
  MUSTER_HOT queue_status find_room(std::size_t size) noexcept {
    const queue_status place = rings().find_place(port.ring_, port.seen_);
    if (place != queue_status::success) [[unlikely]]
      return place;
    const bool found = arena.reserve(size, [this](rank_t rank) { return rings().use_of(port.ring_, rank); });
    return found ? queue_status::success : queue_status::full;
  }

  MUSTER_COLD queue_status await_room(const wait_limit& limit, std::size_t size) {
    const auto ready = [&] { return rings().is_closed() || find_room(size) == queue_status::success; };
    for (;;) {
      if (limit.over() || !rings().await_release(limit, port.ring_, ready)) return queue_status::full;
      if (rings().is_closed()) return queue_status::closed;
      port.slip_->after_wait(rings().slip(), [this] { return rings().free_places(port.ring_); });
      if (find_room(size) == queue_status::success) return queue_status::success;
    }
  }

  [[noreturn]] MUSTER_COLD void refuse(std::size_t size) const {
    MUSTER_THROW(std::length_error("shared_bytes: a message of " + std::to_string(size) +
                                   " bytes; this queue takes at most " + std::to_string(arena.size()) +
                                   ": create it with more bytes"));
  }
};

/// Room for a message, to write it in place. It ends unsent unless pushed, and before its port.
template <class Shape, class Wait>
class shared_bytes<Shape, Wait>::loan {
  friend shared_bytes;

 public:
  loan(loan&& other) noexcept : from_(std::exchange(other.from_, nullptr)), bytes_(other.bytes_) {}
  loan& operator=(loan&&) = delete;
  ~loan() {
    if (from_ != nullptr) from_->loaned = false;
  }

  /// The content is undefined, and aligned to 64 bytes.
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// The first of the bytes.
  std::byte* data() const noexcept { return bytes_.data(); }
  /// The number of bytes.
  std::size_t size() const noexcept { return bytes_.size(); }

  /// Sends the message, or its first `size` bytes. Returns success or closed. Never waits. Call it once.
  queue_status push() { return push(bytes_.size()); }
  queue_status push(std::size_t size) {
    if (from_ == nullptr) MUSTER_THROW(std::logic_error("shared_bytes::loan::push: this loan has been pushed"));
    if (size > bytes_.size())
      MUSTER_THROW(std::length_error("shared_bytes::loan::push: " + std::to_string(size) + " bytes of a loan of " +
                                     std::to_string(bytes_.size()) + "; take a longer loan"));
    writer& from = *std::exchange(from_, nullptr);
    from.loaned = false;
    return from.publish(size);
  }

 private:
  loan(writer& from, std::size_t size) noexcept : from_(&from), bytes_(from.bytes(size)) { from.loaned = true; }

  writer* from_;
  std::span<std::byte> bytes_;
};

/// Pushes std::span<const std::byte>: push, try_push, push_for, push_until, push(stop_token), push_n, try_push_n, as
/// the other queues; the bytes are copied. And loans, for writing in place. One thread at a time; one loan at a time.
template <class Shape, class Wait>
class shared_bytes<Shape, Wait>::producer_port : public push_operations<producer_port, std::span<const std::byte>> {
  using bytes = std::span<const std::byte>;
  using limit_loan = queue_result<shared_bytes::loan>;
  friend push_operations<producer_port, bytes>;
  friend shared_bytes;

 public:
  /// Returns success, full or closed; busy if stopped processes hold every cell. Lock-free.
  MUSTER_HOT queue_status try_emplace(bytes message) { return writer_->push(message, nullptr); }

  /// Returns room for a message of `size` bytes; waits until there is some. Returns no value only when closed.
  limit_loan loan(std::size_t size) { return loan_within(wait_limit{}, size); }
  limit_loan loan(std::size_t size, std::stop_token stop) { return loan_within(wait_limit{no_deadline, &stop}, size); }
  /// Returns the room, full or closed. Lock-free.
  limit_loan try_loan(std::size_t size) { return made(writer_->reserve(size), size); }
  /// As loan, with a time limit. Returns the room, closed, or why it gave up: full or busy.
  template <class Rep, class Period>
  limit_loan loan_for(std::size_t size, std::chrono::duration<Rep, Period> time) {
    return loan_within(wait_limit{detail::deadline_after(time)}, size);
  }
  template <class Clock, class Duration>
  limit_loan loan_until(std::size_t size, std::chrono::time_point<Clock, Duration> when) {
    return detail::attempt_until(
        when, [&](deadline until) { return loan_within(wait_limit{until}, size); },
        [](const limit_loan& result) { return detail::gave_up(result.status()); });
  }

 private:
  explicit producer_port(std::unique_ptr<writer> w) noexcept : writer_(std::move(w)) {}

  MUSTER_HOT queue_status emplace_within(const wait_limit& limit, bytes message) {
    return writer_->push(message, &limit);
  }
  limit_loan loan_within(const wait_limit& limit, std::size_t size) {
    return made(writer_->reserve_within(limit, size), size);
  }
  limit_loan made(queue_status found, std::size_t size) {
    if (found != queue_status::success) return found;
    return limit_loan(std::in_place, shared_bytes::loan(*writer_, size));
  }

  std::unique_ptr<writer> writer_;
};

// ----------------------------------------------------------------------------------------------------------- consumers

// A consumer port, at an address that its messages know.
template <class Shape, class Wait>
class shared_bytes<Shape, Wait>::reader {
  friend shared_bytes;

 public:
  struct held {
    claimed at;
    unsigned ring;
  };

  explicit reader(typename places::consumer_port&& p) noexcept : port(std::move(p)) {}
  ~reader() {
    if (kept) std::exchange(port.state_, nullptr)->rings.abandon_seat(port.seat_);
  }

  engine& rings() const noexcept { return port.state_->rings; }

  /// Without a limit: if there is a message now.
  MUSTER_HOT queue_result<message> peek(const wait_limit* limit) {
    const held h = claim(limit);
    if (!h.at) return h.at.status();
    return queue_result<message>(std::in_place, message(*this, h, bytes(h)));
  }
  MUSTER_HOT queue_result<std::vector<std::byte>> pop(const wait_limit* limit) {
    const held h = claim(limit);
    if (!h.at) return h.at.status();
    queue_result<std::vector<std::byte>> made = copy(h);
    release(h);
    return made;
  }
  void release(const held& h) noexcept { rings().release(port.seat_, h.at, h.ring); }

  typename places::consumer_port port;
  std::optional<held> kept;  // claimed, and the first of this port

 private:
  // Claims the first message.
  MUSTER_HOT held claim(const wait_limit* limit) {
    if (kept) [[unlikely]] {
      const held h = *kept;
      kept.reset();
      return h;
    }
    claimed at = port.claim_item();
    if (!at) [[unlikely]] {
      if (limit != nullptr) at = port.await_item(*limit, at);
      if (!at) return {at, 0};
    }
    if (Shape::one_consumer && port.inherits_) [[unlikely]]
      rings().adopt(port.seat_, at);
    return {at, port.ring_};
  }
  queue_result<std::vector<std::byte>> copy(const held& h) {
    const std::span<const std::byte> all = bytes(h);
    MUSTER_TRY { return queue_result<std::vector<std::byte>>(std::in_place, all.begin(), all.end()); }
    MUSTER_CATCH_ALL {
      kept = h;  // no memory: the message remains the first of this port
      MUSTER_RETHROW;
    }
  }

  MUSTER_HOT std::span<std::byte> bytes(const held& h) {
    const std::span<std::byte> all = bytes_at(*port.state_, h.at.place().item.read_ref().value);
    if (all.data() == nullptr) [[unlikely]]
      drop(h);
    return all;
  }
  [[noreturn]] MUSTER_COLD void drop(const held& h) {
    release(h);
    MUSTER_THROW(shared_queue_error(
        "shared_bytes: the place of a message lies outside of the queue's memory, so a process has damaged it; create "
        "another queue"));
  }
};

/// A message in place. It stays in the queue's memory until this object ends, and then its bytes are used again.
/// Several may be held at once, and end in any order and in any thread, each before its port.
template <class Shape, class Wait>
class shared_bytes<Shape, Wait>::message {
  friend shared_bytes;

 public:
  message(message&& other) noexcept
      : from_(std::exchange(other.from_, nullptr)), held_(other.held_), bytes_(other.bytes_) {}
  message& operator=(message&&) = delete;
  ~message() {
    if (from_ != nullptr) from_->release(held_);
  }

  /// Aligned to 64 bytes. No other process reads or writes them.
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  /// The first of the bytes.
  std::byte* data() const noexcept { return bytes_.data(); }
  /// The number of bytes.
  std::size_t size() const noexcept { return bytes_.size(); }

  /// Ends this object and makes the message the next that its port pops or peeks. If the port ends before that,
  /// recover() gives the message. A port takes back one at a time; in the port's thread.
  void give_back() {
    if (from_ == nullptr || from_->kept)
      MUSTER_THROW(
          std::logic_error("shared_bytes::message::give_back: this message, or another one of its port, has been "
                           "given back; pop that one first"));
    std::exchange(from_, nullptr)->kept = held_;
  }

 private:
  message(reader& from, const typename reader::held& h, std::span<std::byte> bytes) noexcept
      : from_(&from), held_(h), bytes_(bytes) {}

  reader* from_;
  typename reader::held held_;
  std::span<std::byte> bytes_;
};

/// Pops copies, std::vector<std::byte>: pop, pop_for, pop_until, pop(stop_token), pop_n, try_pop_n, as the other
/// queues. When there is no memory for the copy, the message is given back. And messages in place: peek.
/// One thread at a time.
template <class Shape, class Wait>
class shared_bytes<Shape, Wait>::consumer_port : public pop_operations<consumer_port, std::vector<std::byte>> {
  using copy = std::vector<std::byte>;
  using in_place = queue_result<message>;
  friend pop_operations<consumer_port, copy>;
  friend shared_bytes;

 public:
  using pop_operations<consumer_port, copy>::pop;
  /// Takes a copy of the first message; waits while there is none. Returns no value only when closed and drained.
  queue_result<copy> pop() { return pop_within(wait_limit{}); }
  /// Returns the message, empty or closed; busy while it is being published. Lock-free.
  queue_result<copy> try_pop() { return reader_->pop(nullptr); }

  /// Takes the first message without a copy; waits while there is none. Returns no value only when closed and drained.
  in_place peek() { return peek_within(wait_limit{}); }
  in_place peek(std::stop_token stop) { return peek_within(wait_limit{no_deadline, &stop}); }
  /// Returns the message, empty or closed; busy while it is being published. Lock-free.
  in_place try_peek() { return reader_->peek(nullptr); }
  /// As peek, with a time limit. Returns the message, closed, or why it gave up: empty or busy.
  template <class Rep, class Period>
  in_place peek_for(std::chrono::duration<Rep, Period> time) {
    return peek_within(wait_limit{detail::deadline_after(time)});
  }
  template <class Clock, class Duration>
  in_place peek_until(std::chrono::time_point<Clock, Duration> when) {
    return detail::attempt_until(
        when, [&](deadline until) { return peek_within(wait_limit{until}); },
        [](const in_place& result) { return detail::gave_up(result.status()); });
  }

 private:
  explicit consumer_port(std::unique_ptr<reader> r) noexcept : reader_(std::move(r)) {}

  queue_result<copy> pop_within(const wait_limit& limit) { return reader_->pop(&limit); }
  in_place peek_within(const wait_limit& limit) { return reader_->peek(&limit); }

  std::unique_ptr<reader> reader_;
};

}  // namespace muster::inline MUSTER_ABI
