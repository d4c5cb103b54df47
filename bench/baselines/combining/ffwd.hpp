// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// ffwd.hpp: an object that belongs to one thread, the server, which executes the operations of all others.
//
// Order      linearizable.
// Progress   blocking: a server that stops stops all others.
// Operations run on the server and see its thread-local data. An exception reaches only the caller of its operation. An
//            operation must not apply to the same object.
// Memory     for each operation in progress at a time: a line pair for its request, and a place of 16 bytes in a line
//            pair for answers.
// Errors     as with cc_synch (muster/combine/cc_synch.hpp); std::system_error if there is no thread for the server.
// Source     Roghanchi, Eriksson and Basu, "ffwd: delegation is (much) faster than you think", SOSP 2017: a line for
//            each client's requests and a bit that says if it is new; lines with the answers of several clients, which
//            the server writes at once. Changed: a request carries any callable, and so an answer has 16 bytes and a
//            line pair seven of them, where the paper's has 15. A server without requests sleeps after a while.
#pragma once

#include <muster/base/arch.hpp>                    // isolation_size
#include <muster/base/detail/brief_wait.hpp>       // brief_wait
#include <muster/base/detail/reentrancy.hpp>       // reentrancy_scope
#include <muster/base/sync.hpp>                    // sync::atomic, sync::cell
#include <muster/base/wait.hpp>                    // wait::spin_then_park
#include <muster/combine/detail/fiber_wait.hpp>    // waiting
#include <muster/combine/detail/request.hpp>       // call, request
#include <muster/combine/detail/thread_nodes.hpp>  // thread_nodes
#include <muster/combine/options.hpp>              // combine_options

#include <cstdint>  // std::uint32_t
#include <memory>   // std::unique_ptr
#include <thread>   // the server
#include <utility>  // std::forward

namespace muster::bench::inline MUSTER_ABI {

/// Without the server's thread, which calls serve().
template <class State, class Wait = wait::spin_then_park>
class ffwd_object {
 public:
  using state_type = State;

  /// Constructs the state from `args`.
  template <class... Args>
  explicit ffwd_object(const combine_options& options = {}, Args&&... args)
      : nodes_(options.threads), state_(std::forward<Args>(args)...) {}
  /// Operations that have had their effect may still return; others may not have begun.
  ~ffwd_object() {
    nodes_.await_idle();
    check();
    for (row* at = first_.next.load(std::memory_order_relaxed); at != nullptr;)
      delete std::exchange(at, at->next.load(std::memory_order_relaxed));
  }
  ffwd_object(const ffwd_object&) = delete;
  ffwd_object& operator=(const ffwd_object&) = delete;

  /// Executes function(state) on the server, and returns its result.
  template <class F>
  std::invoke_result_t<F&, State&> apply(F&& function) {
    waiting_.refuse_nested();
    detail::call<State, F> call(function);
    group& mine = nodes_.own();
    const detail::stay here(mine);
    client* const own = mine.take([this](std::uint32_t key) { return make_client(key); });
    const typename nodes::gives_back last{mine, own};
    call.record(own->asked.write_ref());
    const std::uint32_t bit = own->asks ^= 1U;
    // (1) release: pairs with (2). The server sees the request.
    own->request.store(bit, std::memory_order_release);
    answers& to = *own->to;
    waiting_.await(own->key, [&] {
      // (3) acquire: pairs with (4). The answer is visible, and what the operation did.
      return (to.bits.load(std::memory_order_acquire) >> own->place) % 2 == bit;
    });
    return call.take_result(to.all[own->place].write_ref());
  }

  /// For the server: executes operations until stop().
  void serve() {
    constexpr unsigned patience = 32 * Wait::pauses;
    detail::brief_wait idle;
    for (unsigned looks = 0;; ++looks) {
      // Relaxed: all operations have been served before.
      const bool ends = stops_.load(std::memory_order_relaxed);
      if (serve_all()) {
        looks = 0;
        idle = {};
      } else if (ends) {
        return;
      } else if (looks >= patience) {
        idle.pause();
      }
    }
  }
  void stop() noexcept { stops_.store(true, std::memory_order_relaxed); }

  bool is_executing() const noexcept { return waiting_.is_executing(); }
  /// Asserts the invariants. Only while no thread is inside an operation.
  void check() const {
    bool answered = true;
    for (const row* at = &first_; at != nullptr; at = at->next.load(std::memory_order_relaxed))
      for (const sync::atomic<client*>& place : at->clients)
        if (const client* const one = place.load(std::memory_order_relaxed); one != nullptr)
          answered = answered && (at->to.bits.load(std::memory_order_relaxed) >> one->place) % 2 ==
                                     one->request.load(std::memory_order_relaxed);
    MUSTER_CHECK(answered, "ffwd: destroyed or checked while a thread is inside an operation; join its users first");
  }
  /// Only while there is no server.
  State& state() noexcept { return state_.write_ref(); }

 private:
  static constexpr unsigned in_answers = 7;  // clients that share a line pair

  /// Written by the server.
  struct alignas(isolation_size) answers {
    sync::atomic<std::uint32_t> bits{0};  // for each client, the bit of the last request that has been answered
    sync::cell<detail::request<State>> all[in_answers];
  };
  /// Written by the client.
  struct alignas(isolation_size) client {
    client(std::uint32_t its_key, answers& answered_in, unsigned at) : key(its_key), to(&answered_in), place(at) {}
    sync::atomic<std::uint32_t> request{0};  // changes with each
    std::uint32_t asks = 0;
    const std::uint32_t key;  // of its thread
    answers* const to;
    const unsigned place;
    sync::cell<detail::request<State>> asked;
  };
  using nodes = detail::thread_nodes<client>;
  using group = typename nodes::group;
  /// Clients that share answers.
  struct row {
    answers to;
    sync::atomic<client*> clients[in_answers]{};
    sync::atomic<row*> next{nullptr};
  };

  client* make_client(std::uint32_t key) {
    const unsigned number = made_.fetch_add(1, std::memory_order_relaxed);
    row* at = &first_;
    for (unsigned before = number / in_answers; before != 0; --before) at = &after(*at);
    auto* const one = new client(key, at->to, number % in_answers);
    // (7) release: pairs with (2).
    at->clients[number % in_answers].store(one, std::memory_order_release);
    return one;
  }
  static row& after(row& at) {
    // (5) acquire: pairs with (6).
    row* there = at.next.load(std::memory_order_acquire);
    if (there != nullptr) return *there;
    auto made = std::make_unique<row>();
    // (6) release, or acquire if another thread was faster: pairs with (2, 5, 6).
    if (!at.next.compare_exchange_strong(there, made.get(), std::memory_order_release, std::memory_order_acquire))
      return *there;
    return *made.release();
  }

  /// Returns false if there was nothing to do.
  bool serve_all() {
    bool any = false;
    // (2) acquire: pairs with (1, 6, 7).
    for (row* at = &first_; at != nullptr; at = at->next.load(std::memory_order_acquire)) any = serve_row(*at) || any;
    return any;
  }
  bool serve_row(row& at) {
    const std::uint32_t before = at.to.bits.load(std::memory_order_relaxed);
    std::uint32_t served = 0;
    std::uint32_t keys[in_answers];
    const detail::reentrancy_scope here = waiting_.executing();
    for (unsigned i = 0; i < in_answers; ++i) {
      client* const one = at.clients[i].load(std::memory_order_acquire);  // (2)
      if (one == nullptr) continue;
      if (one->request.load(std::memory_order_acquire) == (before >> i) % 2) continue;  // (2)
      at.to.all[i].write_ref() = one->asked.read_ref();
      detail::run_requests(state_.write_ref(), &at.to.all[i], &at.to.all[i] + 1);
      keys[i] = one->key;
      served |= 1U << i;
    }
    if (served == 0) return false;
    // (4) release: pairs with (3). All answers of the row at once.
    at.to.bits.store(before ^ served, std::memory_order_release);
    for (unsigned i = 0; i < in_answers; ++i)
      if ((served >> i) % 2 != 0) waiting_.notify(keys[i]);
    return true;
  }

  sync::atomic<unsigned> made_{0};
  sync::atomic<bool> stops_{false};
  row first_;
  nodes nodes_;
  alignas(isolation_size) detail::waiting<Wait> waiting_;
  alignas(isolation_size) sync::cell<State> state_;  // the server's
};

template <class State, class Wait = wait::spin_then_park>
class ffwd : public ffwd_object<State, Wait> {
 public:
  template <class... Args>
  explicit ffwd(const combine_options& options = {}, Args&&... args)
      : ffwd_object<State, Wait>(options, std::forward<Args>(args)...), server_([this] { this->serve(); }) {}
  ~ffwd() {
    MUSTER_CHECK(!this->is_executing(), "ffwd: destroyed by one of its own operations");
    this->stop();
    server_.join();
  }

 private:
  std::thread server_;
};

}  // namespace muster::bench::inline MUSTER_ABI
