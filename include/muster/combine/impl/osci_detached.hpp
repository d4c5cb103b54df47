// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci_detached.hpp: the definitions of muster/combine/osci.hpp for requests whose calls return before they have been
// executed.
#pragma once

#include <muster/combine/osci.hpp>  // osci

#include <mutex>      // the end of a thread, and of the object
#include <stdexcept>  // std::logic_error

namespace muster::inline MUSTER_ABI {

/// Sends a thread's requests off when it ends, unless the object has ended before.
template <class State, class Wait>
struct osci<State, Wait>::last_flush final : sync::last_work {
  last_flush(osci& object, group& g) noexcept : of(&object), in(g) {}
  void at_thread_end() noexcept override {
    const std::lock_guard lock(mutex);
    if (of == nullptr) return;
    in.ends_with_flush = false;
    flush_open(*of, in);
  }
  void end() noexcept {
    const std::lock_guard lock(mutex);
    of = nullptr;
  }

 private:
  std::mutex mutex;
  osci* of;
  group& in;
};

template <class State, class Wait>
void osci<State, Wait>::flush_at_thread_end(group& g) {
  if (g.at_end == nullptr) g.at_end = std::make_shared<last_flush>(*this, g);
  sync::before_thread_end(g.at_end);
  g.ends_with_flush = true;
}

template <class State, class Wait>
void osci<State, Wait>::flush_open(osci& object, group& g) noexcept {
  const detail::stay here(g);
  if (g.open != nullptr && !g.open->directed) object.publish_and_leave(g, *g.open);
}

template <class State, class Wait>
template <class Call>
typename osci<State, Wait>::fat& osci<State, Wait>::record_detached(group& g, Call& call) {
  static_assert(
      Call::is_small,
      "submit and post take callables and results of up to eight bytes that can be copied as bytes: keep what "
      "is larger in a record of your own, and let the callable hold a pointer to it");
  if (!detached_) throw std::logic_error("submit, post: set combine_options::detached when the object is made");
  list_.refuse_nested();
  if (!g.ends_with_flush) [[unlikely]]
    flush_at_thread_end(g);
  fat& b = open_fat(g);
  call.record(b.requests[b.count++].ref());
  return b;
}

template <class State, class Wait>
template <class F>
typename osci<State, Wait>::template ticket<std::invoke_result_t<F&, State&>> osci<State, Wait>::submit(F function) {
  using call = detail::call<State, F&&>;
  call one(function);
  group& g = own_group();
  const detail::stay here(g);
  fat& b = record_detached(g, one);
  ++b.tickets;
  ticket<typename call::result> made(*this, &g, &b, &call::fetch_small);
  if (b.count == batch_) publish_and_leave(g, b);
  return made;
}

template <class State, class Wait>
template <class F>
void osci<State, Wait>::post(F function) {
  using call = detail::call<State, F&&>;
  static_assert(!call::throws, "post: nobody would see what the function throws; make it noexcept");
  call one(function);
  group& g = own_group();
  const detail::stay here(g);
  fat& b = record_detached(g, one);
  ++b.posted;
  if (b.count == batch_) publish_and_leave(g, b);
}

template <class State, class Wait>
void osci<State, Wait>::flush() {
  flush_open(*this, own_group());
}

template <class State, class Wait>
void osci<State, Wait>::publish_and_leave(group& g, fat& b) noexcept {
  const bool is_announced = publish(g, b);
  if (b.directed) return;
  // Before it is served: when that executes operations that wait, other fibers may take the batch to its end.
  if (b.readers == 0 && b.tickets == 0) {
    b.next = g.unread;
    g.unread = &b;
  }
  if (!is_announced) return;
  g.recent = nullptr;
  b.taken = true;
  node* const own = b.own;
  if (!list_.leave(own)) list_.serve(own);
}

template <class State, class Wait>
template <class R>
osci<State, Wait>& osci<State, Wait>::ticket<R>::await() noexcept {
  osci& object = *std::exchange(object_, nullptr);
  if (!in_->published && !in_->directed) object.publish(*group_, *in_);
  while (!in_->published) object.list_.yield();
  object.await(*in_);
  return object;
}

template <class State, class Wait>
template <class R>
R osci<State, Wait>::ticket<R>::get() {
  MUSTER_CHECK(valid(), "osci: get() of a ticket that has been used or moved from");
  if (!object_->groups_.is_own(*group_))
    throw std::logic_error("osci: get() of a ticket on another thread than the one that has submitted the request");
  const detail::stay here(*group_);
  await();
  const reading last{*group_, *in_};
  return fetch_(osci::result_row(*in_, place_).ref());
}

template <class State, class Wait>
template <class R>
osci<State, Wait>::ticket<R>::~ticket() {
  if (!valid()) return;
  check_thread();
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
