// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// impl/shared.hpp: the definitions of shared_queue: what a process does before and after it uses the rings of
// impl/shared_engine.hpp. What it does with a port is in impl/shared_ports.hpp.
#pragma once

#include <muster/queue/shared.hpp>  // the class

namespace muster::inline MUSTER_ABI {

#define MUSTER_SHARED_QUEUE shared_queue<T, Shape, Wait>

template <class T, class Shape, class Wait>
struct MUSTER_SHARED_QUEUE::state {
  state(mapping m, const detail::shared_facts& f) : memory(std::move(m)), rings(memory.start(), f) {}

  /// The calling process; throws when it may not share the queue. The process that made this object was checked then,
  /// and may have entered a filter since that forbids to check again. A child of fork() is checked now.
  std::uint64_t process() const {
    const pid_t now = ::getpid();
    if (now == number_of(made_by_) || (now < 0 && generation_ == process_generation())) return made_by_;
    require_own(rings.facts());
    return detail::real_life::self();
  }

  mapping memory;
  engine rings;

 private:
  const std::uint64_t made_by_ = detail::real_life::self();
  const unsigned generation_ = process_generation();
};

// Before a process joins: a child may have been born into another name space than the queue's.
template <class T, class Shape, class Wait>
void MUSTER_SHARED_QUEUE::require_own(const detail::shared_facts& f) {
  if (const std::string why = detail::why_foreign(f); !why.empty()) throw shared_queue_error("shared_queue: " + why);
}

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
  require_own(f);
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
  const std::uint64_t self = state_->process();
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
  const std::uint64_t self = state_->process();
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
  const auto any = [&](auto is) { return std::any_of(now.participants.begin(), now.participants.end(), is); };
  const std::string unseen = any([](const auto& p) { return p.hidden; })
                                 ? "; this process may not see which of them live: call recover() in one that may"
                                 : "";
  if (now.participants.size() + 1 >= state_->rings.facts().seats)
    return "shared_queue: all " + std::to_string(now.participants.size()) + " ports are in use" +
           (any([](const auto& p) { return !p.alive; }) ? "; some by processes that have died: call recover()"
            : unseen.empty()                            ? "; create it with more"
                                                        : unseen);
  std::string who;
  for (const shared_queue_participant& p : now.participants)
    if (p.produces == produces) who += (who.empty() ? " " : ", ") + std::to_string(p.process);
  return std::string("shared_queue: ") +
         (Shape::many_rings ? "all lanes have producers"
          : produces        ? "the producer is"
                            : "the consumer is") +
         " process" + (who.empty() ? " (just gone; try again)" : who) +
         (!unseen.empty()     ? unseen
          : Shape::many_rings ? "; create it with more lanes"
                              : "; a queue of shape mpmc may have several of both");
}

template <class T, class Shape, class Wait>
template <class Give>
std::size_t MUSTER_SHARED_QUEUE::recover(Give give) {
  const std::uint64_t self = state_->process();
  std::size_t ports = 0;
  for (unsigned s = 1; s < state_->rings.facts().seats; ++s)
    ports += state_->rings.clear_up(s, self, [&](const T& item) { give(item); }) == detail::cleared::done;
  for (const shared_queue_participant& p : info().participants)
    if (p.hidden && p.process != number_of(self))
      throw shared_queue_error("shared_queue::recover: a filter forbids this process to see whether process " +
                               std::to_string(p.process) + " lives (" + std::to_string(ports) +
                               " ports cleared up); call recover() in another process, or allow getpgid(2)");
  return ports;
}

// ------------------------------------------------------------------------------------------------------------ the rest

template <class T, class Shape, class Wait>
void MUSTER_SHARED_QUEUE::close() {
  if (!state_->rings.close())
    throw shared_queue_error(
        "shared_queue::close: pushes are refused from now on, but a filter forbids this process membarrier(2), by "
        "which "
        "it would find the last item; call close() in another process, or allow membarrier(2)");
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

}  // namespace muster::inline MUSTER_ABI

#include <muster/queue/impl/shared_ports.hpp>  // the rest of the definitions
