// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// osci_shared.hpp: the definitions of muster/combine/osci_shared.hpp.
#pragma once

#include <muster/combine/osci_shared.hpp>  // osci_shared

namespace muster::inline MUSTER_ABI {

template <class State, class Wait>
template <class... Args>
osci_shared<State, Wait>::osci_shared(const combine_options& options, Args&&... args)
    : batch_(options.batch),
      groups_(options.groups != 0 ? options.groups : available_parallelism()),
      list_(options.help, false, &first_, std::forward<Args>(args)...) {
  if (options.batch == 0) throw std::invalid_argument("combine_options::batch is 0; ask for 1 at least");
  if (options.help == 0) throw std::invalid_argument("combine_options::help is 0; ask for 1 at least");
}

template <class State, class Wait>
void osci_shared<State, Wait>::check() const {
  bool empty = list_.quiescent();
  for (const group& g : groups_) {
    std::size_t free = 0;
    for (const fat* b = g.free.get(); b != nullptr; b = b->next.get()) ++free;
    empty &= g.open.get() == nullptr && free == g.fats.size();
  }
  MUSTER_CHECK(empty, "osci_shared: destroyed or checked while a thread is inside an operation");
}

// The last thing that an operation does is to give its batch back, or to count itself out of it before.
template <class State, class Wait>
void osci_shared<State, Wait>::await_idle() noexcept {
  MUSTER_CHECK(!list_.is_executing(), "a combining object is destroyed by one of its own operations");
  for (group& g : groups_) {
    // Relaxed: whoever changes it is behind the door.
    for (detail::brief_wait wait; g.in_use.load(std::memory_order_relaxed) != 0; wait.pause())
      this_fiber::yield();         // it may be a fiber of this thread
    const passage here(*this, g);  // they have left, and all that they have done is visible
  }
}

template <class State, class Wait>
void osci_shared<State, Wait>::pass_door(group& g) noexcept {
  // (1) acquire: pairs with (2).
  for (detail::brief_wait wait; g.door.exchange(1, std::memory_order_acquire) != 0;) do
      wait.pause();  // whoever is inside records a request, and needs the processor for it
    while (g.door.load(std::memory_order_relaxed) != 0);
}

template <class State, class Wait>
osci_shared<State, Wait>::passage::~passage() {
  // (2) release: pairs with (1). Who comes next finds what is behind the door as we leave it.
  through.door.store(0, std::memory_order_release);
}

// Behind the door.
template <class State, class Wait>
typename osci_shared<State, Wait>::fat& osci_shared<State, Wait>::open_fat(group& g) {
  if (g.open.get() != nullptr) return *g.open.get();
  fat* b = g.free.get();
  if (b != nullptr) {
    g.free.ref() = b->next.get();
  } else {
    const auto new_key = [this] { return next_key_.fetch_add(1, std::memory_order_relaxed); };
    g.nodes.push_back(std::make_unique<node>(new_key()));
    g.fats.push_back(std::make_unique<fat>(batch_, g.nodes.back().get(), new_key()));
    b = g.fats.back().get();
  }
  b->count.ref() = 0;
  g.in_use.store(g.in_use.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // Relaxed: whoever records in it comes through the door.
  b->announced.store(nullptr, std::memory_order_relaxed);
  g.open.ref() = b;
  return *b;
}

template <class State, class Wait>
template <class F>
std::invoke_result_t<F&, State&> osci_shared<State, Wait>::apply(F&& function) {
  list_.refuse_nested();
  detail::call<State, F> call(function);
  group& g = groups_[sync::thread_index() % groups_.size()];
  fat* b = nullptr;
  unsigned place = 0;
  {
    const passage here(*this, g);
    b = &open_fat(g);
    place = b->count.ref()++;
    b->readers.fetch_add(1, std::memory_order_relaxed);
    call.record(b->requests[place].ref());
    if (place + 1 == batch_) g.open.ref() = nullptr;
  }
  const reading last{*this, g, *b};
  if (place == 0) {  // we direct this batch
    // Siblings record their requests. For kernel threads that wait for this processor, as in the paper, it does not
    // pay: the kernel takes longer to switch than we to execute their requests.
    list_.yield();
    publish(g, *b);
  }
  await(*b);
  return call.fetch(b->rows[place].ref());
}

template <class State, class Wait>
void osci_shared<State, Wait>::publish(group& g, fat& b) noexcept {
  unsigned count = 0;
  {
    const passage here(*this, g);
    if (g.open.get() == &b) g.open.ref() = nullptr;
    count = b.count.get();
  }
  node* const own = list_.announce(b.spare);
  b.rows = b.requests.get();
  if (count <= list::few) {
    for (unsigned i = 0; i < count; ++i) own->in_node[i].ref() = b.requests[i].get();
    b.rows = own->in_node;
  }
  own->held.ref() = {b.rows, count};
  list_.link(own, std::exchange(b.spare, own));
  // (3) release: pairs with (4). The others of the batch find the node, and where their requests are.
  b.announced.store(own, std::memory_order_release);
  list_.happened(b.key);
}

template <class State, class Wait>
void osci_shared<State, Wait>::await(fat& b) noexcept {
  node* own = nullptr;
  list_.await(b.key, [&] {
    // (4) acquire: pairs with (3).
    own = b.announced.load(std::memory_order_acquire);
    return own != nullptr;
  });
  for (;;) {
    std::uint32_t state = 0;
    list_.await(own, [&] {
      state = list_.look(own);
      return state == list::done || state == list::yours;
    });
    if (state == list::done) return;
    if (list_.take_role(own)) return list_.serve(own);
  }
}

template <class State, class Wait>
void osci_shared<State, Wait>::leave(group& g, fat& b) noexcept {
  // (5) acq_rel: pairs with (5). The last to leave comes after all others have fetched their results.
  if (b.readers.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const passage here(*this, g);
  b.next.ref() = g.free.get();
  g.free.ref() = &b;
  g.in_use.store(g.in_use.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
}

}  // namespace muster::inline MUSTER_ABI
