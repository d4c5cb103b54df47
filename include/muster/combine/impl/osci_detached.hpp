// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci_detached.hpp: the definitions of muster/combine/osci.hpp for requests whose calls return before they have been
// executed.
#pragma once

#include <muster/combine/osci.hpp>  // osci

#include <stdexcept>  // std::logic_error

namespace muster::inline MUSTER_ABI {

template <class State, class Wait>
template <class Call>
std::pair<typename osci<State, Wait>::group*, typename osci<State, Wait>::fat*> osci<State, Wait>::record_detached(
    Call& call) {
  static_assert(
      Call::is_small,
      "submit and post take callables and results of up to eight bytes that can be copied as bytes: keep what "
      "is larger in a record of your own, and let the callable hold a pointer to it");
  if (!detached_) throw std::logic_error("submit, post: set combine_options::detached when the object is made");
  detail::inside::refuse(&list_);
  group& g = own_group();
  fat& b = open_fat(g);
  call.record(b.requests[b.count++].ref());
  return {&g, &b};
}

template <class State, class Wait>
template <class F>
typename osci<State, Wait>::template ticket<std::invoke_result_t<F&, State&>> osci<State, Wait>::submit(F function) {
  using call = detail::call<State, F&&>;
  call one(function);
  const auto [g, b] = record_detached(one);
  ticket<typename call::result> made(*this, g, b, &call::fetch_small);
  if (b->count == batch_) publish_and_leave(*g, *b);
  return made;
}

template <class State, class Wait>
template <class F>
void osci<State, Wait>::post(F function) {
  using call = detail::call<State, F&&>;
  static_assert(!call::throws, "post: nobody would see what the function throws; make it noexcept");
  call one(function);
  const auto [g, b] = record_detached(one);
  ++b->posted;
  if (b->count == batch_) publish_and_leave(*g, *b);
}

template <class State, class Wait>
void osci<State, Wait>::flush() {
  group& g = own_group();
  if (g.open != nullptr && !g.open->directed) publish_and_leave(g, *g.open);
}

template <class State, class Wait>
void osci<State, Wait>::publish_and_leave(group& g, fat& b) noexcept {
  if (publish(g, b) && !b.directed) {
    g.recent = nullptr;
    b.taken = true;
    if (!list_.leave(b.own)) list_.serve(b.own);
  }
  if (b.directed) return;
  if (b.readers == 0) {
    b.next = g.unread;
    g.unread = &b;
  }
}

template <class State, class Wait>
template <class R>
osci<State, Wait>& osci<State, Wait>::ticket<R>::await() noexcept {
  osci& object = *std::exchange(object_, nullptr);
  if (!in_->published && !in_->directed) object.publish(*group_, *in_);
  while (!in_->published) this_fiber::yield();
  object.await(*in_);
  return object;
}

template <class State, class Wait>
template <class R>
R osci<State, Wait>::ticket<R>::get() {
  MUSTER_CHECK(valid(), "osci: get() of a ticket that has been used or moved from");
  await();
  const reading last{*group_, *in_};
  return fetch_(osci::result_row(*in_, place_).ref());
}

template <class State, class Wait>
template <class R>
osci<State, Wait>::ticket<R>::~ticket() {
  if (!valid()) return;
  try {
    static_cast<void>(get());
  } catch (...) {
    return;  // nobody has asked for it
  }
}

template <class State, class Wait>
template <class R>
void osci<State, Wait>::ticket<R>::swap(ticket& other) noexcept {
  std::swap(object_, other.object_);
  std::swap(group_, other.group_);
  std::swap(in_, other.in_);
  std::swap(place_, other.place_);
  std::swap(fetch_, other.fetch_);
}

}  // namespace muster::inline MUSTER_ABI
