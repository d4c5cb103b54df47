// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci.hpp: the definitions of muster/combine/osci.hpp.
#pragma once

#include <muster/combine/osci.hpp>  // osci

#include <algorithm>  // std::find
#include <deque>      // the calls of a batch
#include <exception>  // std::exception_ptr
#include <stdexcept>  // std::invalid_argument

namespace muster::inline MUSTER_ABI {

template <class State, class Wait>
template <class... Args>
osci<State, Wait>::osci(const combine_options& options, Args&&... args)
    : batch_(options.batch),
      detached_(options.detached),
      groups_(options.threads),
      list_(options.help, options.detached, &first_, std::forward<Args>(args)...) {
  if (options.batch == 0) throw std::invalid_argument("combine_options::batch is 0; ask for 1 at least");
  if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
}

template <class State, class Wait>
osci<State, Wait>::~osci() {
  groups_.for_each([](const group& g) {
    if (g.at_end != nullptr) g.at_end->end();
  });
  MUSTER_CHECK(!list_.is_executing(), "a combining object is destroyed by one of its own operations");
  groups_.await_idle();
  groups_.for_each([this](group& g) {
    if (g.open != nullptr && g.open->count == g.open->posted) publish_and_leave(g, *g.open);
  });
  check();
}

template <class State, class Wait>
void osci<State, Wait>::check() const {
  MUSTER_CHECK(list_.quiescent(), "osci: destroyed or checked while a thread is inside an operation");
  groups_.for_each([](const group& g) {
    std::size_t at_rest = g.open != nullptr ? 1 : 0;
    for (const fat* b : {g.free, g.unread})
      for (; b != nullptr; b = b->next) ++at_rest;
    MUSTER_CHECK(at_rest == g.fats.size(), "osci: a batch is lost; this is an error of the library");
    MUSTER_CHECK(g.recent == nullptr && (g.open == nullptr || g.open->count == g.open->posted),
                 "osci: destroyed or checked while a ticket is open; get() it first");
  });
}

// ---------------------------------------------------------------------------------------------------------- memory

template <class State, class Wait>
typename osci<State, Wait>::group& osci<State, Wait>::own_group() {
  return groups_.own([this](unsigned) {
    auto made = std::make_unique<group>();
    made->spare = make_node(*made);
    return made.release();
  });
}

template <class State, class Wait>
typename osci<State, Wait>::node* osci<State, Wait>::make_node(group& g) {
  g.nodes.push_back(std::make_unique<node>(next_key_.fetch_add(1, std::memory_order_relaxed)));
  return g.nodes.back().get();
}

template <class State, class Wait>
typename osci<State, Wait>::fat* osci<State, Wait>::make_fat(group& g) {
  auto made = std::make_unique<fat>();
  made->requests = std::make_unique<row[]>(batch_);
  if constexpr (detail::eliminating<State>) {
    made->kept = std::make_unique<row[]>(batch_);
    made->places = std::make_unique<std::uint32_t[]>(batch_);
  }
  made->own = make_node(g);
  g.fats.push_back(std::move(made));
  return g.fats.back().get();
}

// None is free: one that has been served and that nobody reads, or a new one.
template <class State, class Wait>
typename osci<State, Wait>::fat* osci<State, Wait>::find_fat(group& g) {
  for (fat** at = &g.unread; *at != nullptr; at = &(*at)->next) {
    fat* const b = *at;
    if (list_.look(b->own) != list::done) continue;
    *at = b->next;
    return b;
  }
  return make_fat(g);
}

template <class State, class Wait>
typename osci<State, Wait>::fat* osci<State, Wait>::take_fat(group& g) {
  fat* const b = g.free;
  if (b == nullptr) [[unlikely]]
    return find_fat(g);
  g.free = b->next;
  return b;
}

template <class State, class Wait>
void osci<State, Wait>::give_back(group& g, fat* b) noexcept {
  if (g.recent == b) g.recent = nullptr;
  b->next = g.free;
  g.free = b;
}

template <class State, class Wait>
typename osci<State, Wait>::fat& osci<State, Wait>::open_fat(group& g) {
  if (g.open == nullptr) {
    fat* const b = take_fat(g);
    b->count = b->posted = b->tickets = 0;
    b->directed = b->published = b->taken = false;
    list_.prepare(b->own);  // who records here looks at it before it is announced
    g.open = b;
  }
  return *g.open;
}

template <class State, class Wait>
osci<State, Wait>::reading::~reading() {
  if (--from.tickets == 0 && from.readers == 0) give_back(in, &from);
}

/// The end of a call of apply() that has recorded its request in a batch. The batch stays, from before it is announced
/// until the last of them.
template <class State, class Wait>
struct osci<State, Wait>::applying {
  group& in;
  fat& from;
  MUSTER_HOT ~applying() {
    if (--from.readers != 0) return;
    if (from.tickets == 0) give_back(in, &from);
    in.leave();
  }
};

// ----------------------------------------------------------------------------------------------------------- apply

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> osci<State, Wait>::apply(F&& function) {
  list_.refuse_nested();
  detail::call<State, F> call(function);
  group& g = own_group();
  if (g.open != nullptr && g.open->directed) return apply_with_others(g, call);
  if (g.open == nullptr && !this_fiber::has_siblings()) return apply_alone(g, call);
  return apply_and_direct(g, call);
}

// Nobody on this thread could add a request of its own.
template <class State, class Wait>
template <class Call>
typename Call::result osci<State, Wait>::apply_alone(group& g, Call& call) {
  node* const spare = g.spare;
  node* const own = g.spare = list_.announce(spare);
  if (list_.look(own) != list::yours) [[unlikely]] {
    const detail::stay here(g);
    call.record(own->in_node[0].ref());
    if (list_.served(own, spare)) return call.fetch(own->in_node[0].ref());
  }
  return list_.run_and_serve(call, spare, g);
}

// Most operations of many fibers: another one publishes them, and when this fiber has its turn again, they are done.
template <class State, class Wait>
template <class Call>
typename Call::result osci<State, Wait>::apply_with_others(group& g, Call& call) {
  if (g.recent != nullptr) look_after(*g.recent, g);
  // That may have executed operations that wait, and then the batch has gone.
  if (g.open == nullptr || !g.open->directed) [[unlikely]]
    return apply_and_direct(g, call);
  fat& b = *g.open;
  const unsigned place = b.count++;
  call.record(b.requests[place].ref());
  if (b.count == batch_) [[unlikely]]
    publish(g, b);
  list_.yield();
  if (list_.look(b.own) != list::done) [[unlikely]]
    await_published(b);
  const applying last{g, b};
  return call.fetch(result_row(b, place).ref());
}

template <class State, class Wait>
template <class Call>
typename Call::result osci<State, Wait>::apply_and_direct(group& g, Call& call) {
  detail::request<State> request;
  call.record(request);
  const auto [batch, place] = direct(g, request);
  const applying last{g, *batch};
  return call.fetch(result_row(*batch, place).ref());
}

// Records a request in a batch, sends the batch off when the thread's other fibers have recorded theirs, and waits for
// it. Returns the batch, and the request's place in it.
template <class State, class Wait>
std::pair<typename osci<State, Wait>::fat*, unsigned> osci<State, Wait>::direct(group& g,
                                                                                detail::request<State> first) {
  if (g.recent != nullptr) look_after(*g.recent, g);
  fat& b = open_fat(g);
  b.directed = true;
  const unsigned place = b.count++;
  b.requests[place].ref() = first;
  if (b.count < batch_) list_.yield();
  if (!b.published) publish(g, b);
  await(b);
  return {&b, place};
}

// Whichever fiber comes first takes the role, not only those that wait: until then, everybody waits.
template <class State, class Wait>
void osci<State, Wait>::look_after(fat& b, group& g) noexcept {
  const std::uint32_t state = list_.look(b.own);
  if (is_ours(b, state)) [[unlikely]]
    take_role(b);
  else if (state == list::done) g.recent = nullptr;
}

template <class State, class Wait>
void osci<State, Wait>::await_published(fat& b) noexcept {
  while (!b.published) list_.yield();  // until the fiber that directs it has its turn
  await(b);
}

template <class State, class Wait>
template <class F, class OutputIt>
OutputIt osci<State, Wait>::apply_batch(std::span<F> functions, OutputIt results) {
  using call = detail::call<State, std::conditional_t<std::is_invocable_v<const F&, State&>, const F&, F&>>;
  list_.refuse_nested();
  group& g = own_group();
  const detail::stay here(g);
  std::deque<call> calls;  // they must not move
  std::exception_ptr first;
  while (!functions.empty()) {
    const std::size_t many = std::min<std::size_t>(functions.size(), batch_);
    fat& b = *take_fat(g);
    b.count = static_cast<unsigned>(many);
    b.posted = b.count - 1;  // the results are fetched together
    b.tickets = 1;           // this call stays by itself
    b.published = b.taken = false;
    for (std::size_t i = 0; i < many; ++i) calls.emplace_back(functions[i]).record(b.requests[i].ref());
    publish(g, b);
    await(b);
    const reading last{g, b};
    for (unsigned i = 0; i < b.count; ++i) {
      try {
        if constexpr (std::is_void_v<typename call::result>) {
          calls[i].fetch(result_row(b, i).ref());
        } else {
          *results++ = calls[i].fetch(result_row(b, i).ref());
        }
      } catch (...) {
        if (first == nullptr) first = std::current_exception();
      }
    }
    calls.clear();
    functions = functions.subspan(many);
  }
  if (first != nullptr) std::rethrow_exception(first);
  return results;
}

template <class State, class Wait>
bool osci<State, Wait>::publish(group& g, fat& b) noexcept {
  if (g.open == &b) g.open = nullptr;
  b.readers = b.count - b.posted - b.tickets;
  if (b.readers != 0) g.enter();
  b.published = true;
  b.rows = b.requests.get();
  unsigned many = b.count;
  if constexpr (detail::eliminating<State>) {
    many = eliminate(b);
    if (many == 0) {
      list_.serve_unannounced(b.own);
      return false;
    }
  }
  g.recent = &b;
  node* const spare = b.own;
  node* const own = list_.announce(spare);
  b.own = own;
  if (many <= list::few) {
    for (unsigned i = 0; i < many; ++i) own->in_node[i].ref() = b.rows[i].get();
    b.rows = own->in_node;
  }
  own->held.ref() = {b.rows, many};
  list_.link(own, spare);
  return true;
}

/// How many of the requests have not answered each other. They stand at b.rows then.
template <class State, class Wait>
std::uint32_t osci<State, Wait>::eliminate(fat& b) noexcept
  requires detail::eliminating<State>
{
  using all = departing<State>;
  static_assert(noexcept(State::eliminate(all(nullptr, 0), std::span<std::uint32_t>())),
                "eliminate(departing, notes) must be noexcept: nobody would know which requests have been answered");
  b.eliminated = false;
  if (b.count < 2) return b.count;
  const std::span places(b.places.get(), b.count);
  State::eliminate(all(b.requests.get(), b.count), places);
  if (std::find(places.begin(), places.end(), all::answered) == places.end()) return b.count;
  b.eliminated = true;
  std::uint32_t kept = 0;
  for (unsigned i = 0; i < b.count; ++i) {
    if (places[i] == all::answered) continue;
    b.kept[kept].ref() = b.requests[i].get();
    places[i] = kept++;
  }
  b.rows = b.kept.get();
  return kept;
}

template <class State, class Wait>
typename osci<State, Wait>::row& osci<State, Wait>::result_row(const fat& b, unsigned place) noexcept {
  if constexpr (detail::eliminating<State>)
    if (b.eliminated) {
      const std::uint32_t to = b.places[place];
      return to == departing<State>::answered ? b.requests[place] : b.rows[to];
    }
  return b.rows[place];
}

template <class State, class Wait>
void osci<State, Wait>::await(fat& b) noexcept {
  for (;;) {
    const std::uint32_t state = list_.look(b.own);
    if (state == list::done) return;
    if (is_ours(b, state)) return take_role(b);
    // When this returns, another fiber of the batch may have taken the role.
    list_.await(b.own, [&] {
      const std::uint32_t now = list_.look(b.own);
      return now == list::done || is_ours(b, now);
    });
  }
}

template <class State, class Wait>
void osci<State, Wait>::take_role(fat& b) noexcept {
  b.taken = true;
  list_.serve(b.own);
}

}  // namespace muster::inline MUSTER_ABI
