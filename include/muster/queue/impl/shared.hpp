// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/shared.hpp: the definitions of shared_queue and its ports: what a process does before and after it uses the
// rings of impl/shared_engine.hpp.
#pragma once

#include <muster/queue/shared.hpp>  // the class

namespace muster::inline MUSTER_ABI {

#define MUSTER_SHARED_QUEUE shared_queue<T, Shape, Wait>

template <class T, class Shape, class Wait>
struct MUSTER_SHARED_QUEUE::state {
  state(mapping m, const detail::shared_facts& f) : memory(std::move(m)), rings(memory.start(), f) {}

  mapping memory;
  engine rings;
};

template <class T, class Shape, class Wait>
detail::shared_facts MUSTER_SHARED_QUEUE::plan(std::size_t capacity, const shared_queue_options& options) {
  static constexpr const char* here = "shared_queue";
  detail::shared_facts f;
  if (options.ports == 0 || options.ports >= detail::shared_word::most_seats)
    detail::refuse(here, std::to_string(options.ports) + " ports; ask for 1 to " +
                             std::to_string(detail::shared_word::most_seats - 1));
  if (!detail::is_tag(options.tag)) detail::refuse(here, detail::no_tag(options.tag));
  if (Shape::many_rings && (options.lanes == 0 || options.lanes > options.ports))
    detail::refuse(here, std::to_string(options.lanes) + " lanes; ask for 1 to as many as there are ports");
  f.seats = options.ports + 1;
  f.rings = Shape::many_rings ? options.lanes : 1;
  f.capacity = capacity;
  f.cells = detail::ring_cells(here, capacity, {.threads = f.seats}, f.seats, sizeof(detail::shared_cell<T>) * f.rings);
  detail::copy_text(Shape::name, f.shape);
  detail::copy_text(options.tag, f.tag);
  f.boot = boot_identity();
  f.name_space = process_name_space();
  return detail::lay_out<T>(f);
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::create(const std::filesystem::path& path, std::size_t capacity,
                                 const shared_queue_options& options) -> shared_queue {
  const detail::shared_facts f = plan(capacity, options);
  return shared_queue(std::make_shared<state>(
      mapping::make_file(path, f.size, [&](unsigned char* at) { engine::construct(at, f, options.first_rank); }), f));
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::create_anonymous(std::size_t capacity, const shared_queue_options& options) -> shared_queue {
  const detail::shared_facts f = plan(capacity, options);
  return shared_queue(std::make_shared<state>(
      mapping::make_anonymous(f.size, [&](unsigned char* at) { engine::construct(at, f, options.first_rank); }), f));
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::adopt(mapping memory, const std::string& name, const std::string& tag) -> shared_queue {
  if (!detail::is_tag(tag)) throw shared_queue_error(name + ": " + detail::no_tag(tag));
  const detail::shared_facts f = detail::read_facts(memory, name);
  detail::shared_facts wanted = f;
  detail::copy_text(Shape::name, wanted.shape);
  detail::copy_text(tag, wanted.tag);
  if (!Shape::many_rings) wanted.rings = 1;
  detail::compare_facts(f, detail::lay_out<T>(wanted), name);
  auto s = std::make_shared<state>(std::move(memory), f);
  if (s->rings.header().consumers.asymmetric() && !sync::asymmetric_fences(futex_scope::shared))
    throw shared_queue_error(name +
                             ": its other users rely on membarrier(2), which this process may not call; allow it");
  return shared_queue(std::move(s));
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::open(const std::filesystem::path& path, const std::string& tag) -> shared_queue {
  return adopt(mapping::open_file(path), path.string(), tag);
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::attach(int descriptor, const std::string& tag) -> shared_queue {
  return adopt(mapping::open_descriptor(descriptor), "descriptor " + std::to_string(descriptor), tag);
}

template <class T, class Shape, class Wait>
int MUSTER_SHARED_QUEUE::descriptor() const noexcept {
  return state_->memory.descriptor();
}

// ------------------------------------------------------------------------------------------------------------- ports

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::try_producer() -> std::optional<producer_port> {
  engine& rings = state_->rings;
  const std::uint64_t self = detail::real_life::self();
  if (rings.header().consumers.asymmetric()) static_cast<void>(sync::asymmetric_fences(futex_scope::shared));
  auto slip = std::make_unique<slipping>();  // it may throw, and we have no seat yet
  const unsigned seat = rings.sit_down(self, detail::producer_role);
  if (seat == 0) return std::nullopt;
  for (unsigned ring = 0; ring < rings.facts().rings; ++ring)
    if (!Shape::one_producer || rings.own(rings.ends(ring).producer, seat, self, detail::leave_items{})) {
      return producer_port(state_, seat, ring, std::move(slip));
    }
  rings.stand_up(seat);
  return std::nullopt;
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::try_consumer() -> std::optional<consumer_port> {
  engine& rings = state_->rings;
  const std::uint64_t self = detail::real_life::self();
  if (rings.header().consumers.asymmetric()) static_cast<void>(sync::asymmetric_fences(futex_scope::shared));
  auto slip = std::make_unique<slipping>();  // as above
  const unsigned seat = rings.sit_down(self, detail::consumer_role);
  if (seat == 0) return std::nullopt;
  if constexpr (Shape::one_consumer) {
    if (!rings.own(rings.ends(0).consumer, seat, self, detail::hand_over{})) {
      rings.stand_up(seat);
      return std::nullopt;
    }
  }
  return consumer_port(state_, seat, std::move(slip));
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::producer() -> producer_port {
  if (auto port = try_producer()) return std::move(*port);
  throw shared_queue_error(why_no_port(true));
}

template <class T, class Shape, class Wait>
auto MUSTER_SHARED_QUEUE::consumer() -> consumer_port {
  if (auto port = try_consumer()) return std::move(*port);
  throw shared_queue_error(why_no_port(false));
}

template <class T, class Shape, class Wait>
std::string MUSTER_SHARED_QUEUE::why_no_port(bool produces) const {
  const shared_queue_info now = info();
  const bool dead =
      std::any_of(now.participants.begin(), now.participants.end(), [](const auto& p) { return !p.alive; });
  if (now.participants.size() + 1 >= state_->rings.facts().seats)
    return "shared_queue: all " + std::to_string(now.participants.size()) + " ports are in use" +
           (dead ? "; some by processes that have died: call recover()" : "; create it with more");
  std::string who;
  for (const shared_queue_participant& p : now.participants)
    if (p.produces == produces) who += (who.empty() ? " " : ", ") + std::to_string(p.process);
  return std::string("shared_queue: ") +
         (Shape::many_rings ? "all lanes have producers"
          : produces        ? "the producer is"
                            : "the consumer is") +
         " process" + (who.empty() ? " (just gone; try again)" : who) +
         (Shape::many_rings ? "; create it with more lanes" : "; a queue of shape mpmc may have several of both");
}

template <class T, class Shape, class Wait>
template <class Give>
std::size_t MUSTER_SHARED_QUEUE::recover(Give give) {
  const std::uint64_t self = detail::real_life::self();
  std::size_t ports = 0;
  for (unsigned s = 1; s < state_->rings.facts().seats; ++s)
    ports += state_->rings.clear_up(s, self, [&](const T& item) { give(item); }) == detail::cleared::done;
  return ports;
}

// --------------------------------------------------------------------------------------------------------- producers

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::producer_port::producer_port(std::shared_ptr<state> s, unsigned seat, unsigned ring,
                                                  std::unique_ptr<slipping> slip) noexcept
    : state_(std::move(s)), seat_(seat), ring_(ring), seen_(state_->rings.view_of(ring)), slip_(std::move(slip)) {}

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::producer_port::~producer_port() {
  if (state_) state_->rings.stand_up(seat_);
}

template <class T, class Shape, class Wait>
template <class... Args>
queue_status MUSTER_SHARED_QUEUE::producer_port::try_emplace(Args&&... args) {
  // Made before the claim: what its constructor throws changes nothing.
  if constexpr (sizeof...(Args) != 1 || !(std::is_same_v<std::remove_cvref_t<Args>, T> && ...)) {
    return try_emplace(T(std::forward<Args>(args)...));
  } else {
    rank_t rank = 0;
    const queue_status claim = state_->rings.claim_place(ring_, seat_, seen_, rank);
    if (claim == queue_status::success) [[likely]]
      state_->rings.publish(ring_, seat_, rank, args...);
    return claim;
  }
}

template <class T, class Shape, class Wait>
template <class... Args>
queue_status MUSTER_SHARED_QUEUE::producer_port::emplace_within(const wait_limit& limit, Args&&... args) {
  if constexpr (sizeof...(Args) != 1 || !(std::is_same_v<std::remove_cvref_t<Args>, T> && ...)) {
    return emplace_within(limit, T(std::forward<Args>(args)...));
  } else {
    for (;;) {
      const queue_status now = try_emplace(args...);
      if (now == queue_status::success || now == queue_status::closed) return now;
      if (limit.over() || !state_->rings.await_room(limit, now, ring_, seen_)) return now;
      slip_->after_wait(state_->rings.slip(), [this] { return state_->rings.free_places(ring_); });
    }
  }
}

// --------------------------------------------------------------------------------------------------------- consumers

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::consumer_port::consumer_port(std::shared_ptr<state> s, unsigned seat,
                                                  std::unique_ptr<slipping> slip) noexcept
    : state_(std::move(s)), seat_(seat), slip_(std::move(slip)) {
  if (Shape::many_rings) ring_ = static_cast<unsigned>(seat % state_->rings.facts().rings);
  rank_t rank = 0;
  inherits_ = Shape::one_consumer && state_->rings.has_inherited(rank);
}

template <class T, class Shape, class Wait>
MUSTER_SHARED_QUEUE::consumer_port::~consumer_port() {
  if (state_) state_->rings.stand_up(seat_);
}

template <class T, class Shape, class Wait>
queue_result<T> MUSTER_SHARED_QUEUE::consumer_port::try_pop() {
  engine& rings = state_->rings;
  const auto lanes = static_cast<unsigned>(Shape::many_rings ? rings.facts().rings : 1);
  bool busy = false, open = false;
  if (Shape::one_consumer && inherits_) [[unlikely]] {
    if (rank_t rank = 0; rings.has_inherited(rank)) return rings.take(0, seat_, rank);
    inherits_ = false;
  }
  if (Shape::many_rings && in_a_row_ == turn) ring_ = ring_ + 1 == lanes ? 0 : ring_ + 1, in_a_row_ = 0;
  for (unsigned looked = 0; looked < lanes; ++looked) {
    rank_t rank = 0;
    const queue_status claim = rings.claim_item(ring_, seat_, rank);
    if (claim == queue_status::success) {
      ++in_a_row_;
      help_at_ = no_deadline;
      return rings.take(ring_, seat_, rank);
    }
    busy |= claim == queue_status::busy;
    open |= claim == queue_status::empty;
    if (Shape::many_rings) ring_ = ring_ + 1 == lanes ? 0 : ring_ + 1, in_a_row_ = 0;
  }
  if (!busy) return open ? queue_status::empty : queue_status::closed;
  // Whoever only tries must not find it busy for ever because somebody has died.
  const deadline now = deadline_clock::now();
  if (help_at_ == no_deadline) help_at_ = now + engine::patience;
  if (now >= help_at_) help();
  return queue_status::busy;
}

template <class T, class Shape, class Wait>
queue_result<T> MUSTER_SHARED_QUEUE::consumer_port::pop_within(const wait_limit& limit) {
  engine& rings = state_->rings;
  const auto ready = [&] {
    for (unsigned ring = 0; ring < rings.facts().rings; ++ring)
      if (rings.has_news(ring)) return true;
    return false;
  };
  for (;;) {
    queue_result<T> result = try_pop();
    if (result || result.status() == queue_status::closed) return result;
    if (limit.over() || !rings.await_item(limit, ready)) return result;
    slip_->after_wait(rings.slip(), [&] { return rings.size_approx(); });
  }
}

template <class T, class Shape, class Wait>
void MUSTER_SHARED_QUEUE::consumer_port::help() {
  engine& rings = state_->rings;
  const std::uint64_t self = detail::real_life::self();
  for (unsigned ring = 0; ring < rings.facts().rings; ++ring) rings.help(ring, self);
  help_at_ = no_deadline;
}

// ------------------------------------------------------------------------------------------------------------ the rest

template <class T, class Shape, class Wait>
void MUSTER_SHARED_QUEUE::close() {
  state_->rings.close();
}

template <class T, class Shape, class Wait>
bool MUSTER_SHARED_QUEUE::is_closed() const noexcept {
  return state_->rings.is_closed();
}

template <class T, class Shape, class Wait>
std::size_t MUSTER_SHARED_QUEUE::capacity() const noexcept {
  return state_->rings.facts().capacity;
}

template <class T, class Shape, class Wait>
std::size_t MUSTER_SHARED_QUEUE::size_approx() const noexcept {
  return state_->rings.size_approx();
}

template <class T, class Shape, class Wait>
shared_queue_info MUSTER_SHARED_QUEUE::info() const {
  return detail::describe(state_->memory.start(), state_->rings.facts());
}

template <class T, class Shape, class Wait>
void MUSTER_SHARED_QUEUE::check() const {
  state_->rings.check();
}

#undef MUSTER_SHARED_QUEUE

}  // namespace muster::inline MUSTER_ABI
