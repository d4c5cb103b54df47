// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// clh_stack.hpp: a sequential list stack under a CLH lock, where pushes and pops that meet cancel each other before
// they come to the lock. Unbounded, strict LIFO.
//
// Faithful to  the lock: combining/clh_lock.hpp. The meeting: the collision layer of Hendler, Shavit, Yerushalmi, "A
//              Scalable Lock-Free Stack Algorithm", SPAA 2004: an operation announces itself, puts itself into a random
//              place of an array, and looks whom it found there; an opposite one it takes, after it has withdrawn
//              itself; otherwise it waits a while to be taken, withdraws, and goes to the stack.
// Differs      the paper's layer goes with Treiber's stack and adapts its width and patience; here both are parameters.
//              An announcement is one word that says what is offered, so that taking it is one compare-and-swap
//              wherever the announcement is found; no thread numbers are needed.
// Linearizable an eliminated pair takes effect when the word is taken: both operations are under way at that moment,
//              the push comes first and the pop directly after it.
// Waiting      Pause::turn() for the lock, without limit, and `turns` times for being taken. An operation that has the
//              lock does not wait.
// Memory       nodes of a line each, from the handle's pool, which no other thread reads, so no hazards are needed.
//              Nodes go to the handle that popped them. A popped value's moved-from shell lives until its node is used
//              again. T must be default-constructible and movable by assignment.
#pragma once

#include "combining/clh_lock.hpp"
#include "registry.hpp"
#include "turn.hpp"

#include <muster/base/arch.hpp>  // isolation_size, line_size
#include <muster/base/sync.hpp>  // sync::atomic, sync::new_object_id

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace muster::bench::inline MUSTER_ABI {

struct elimination {
  enum class when {
    never,
    crowded,  // after the handle's last way through the lock had to wait, and while it finds partners
    always,
  };
  when attempt = when::crowded;
  unsigned places = 4;
  unsigned turns = 32;
};

template <class T, class Pause = cpu_turn>
class clh_stack {
  struct alignas(line_size) node {
    T value{};
    node* next = nullptr;
  };
  using word = std::uintptr_t;

  // idle: nothing is offered, and only the owner changes the word. wants: a pop; another thread gives it a node by
  // storing the node's address. A node's address + has: a push; the thread that changes it to `taken` owns the node.
  // The owner may take an offer back by changing it to idle.
  enum : word { idle = 0, wants = 1, has = 2, taken = 3 };
  struct alignas(isolation_size) offer : registered<offer> {
    sync::atomic<word> now{idle};
  };

 public:
  explicit clh_stack(elimination plan = {}) : plan_(plan), places_(plan.places == 0 ? 1 : plan.places) {}
  clh_stack(const clh_stack&) = delete;
  clh_stack& operator=(const clh_stack&) = delete;
  ~clh_stack() {
    drop(top_);
    delete lock_.last();
  }

  /// One per user-level thread; ends before the stack.
  class handle {
   public:
    explicit handle(clh_stack& s)
        : stack_(s), offer_(s.offers_.join()), crowded_(s.plan_.attempt == elimination::when::always) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle() {
      delete place_;
      drop(spare_);
      stack_.offers_.leave(offer_);
    }

    void push(T value) {
      node* fresh = spare_;
      if (fresh == nullptr) {
        fresh = new node;
      } else {
        spare_ = fresh->next;
        --spares_;
      }
      fresh->value = std::move(value);
      node* none = nullptr;
      if (crowded_ && eliminate(reinterpret_cast<word>(fresh) + has, none)) return;
      enter();
      fresh->next = stack_.top_;
      stack_.top_ = fresh;
      leave();
    }
    /// False when the stack is empty.
    bool pop(T& out) {
      node* given = nullptr;
      if (!crowded_ || !eliminate(wants, given)) {
        enter();
        given = stack_.top_;
        if (given != nullptr) stack_.top_ = given->next;
        leave();
        if (given == nullptr) return false;
      }
      out = std::move(given->value);
      recycle(given);
      return true;
    }
    /// Operations that have not come to the lock.
    std::uint64_t eliminated() const noexcept { return eliminated_; }

   private:
    /// Returns true if it met an opposite operation. A pop gets its node in `given`.
    bool eliminate(word own, node*& given) {
      offer_.now.store(own);
      offer* const other =
          stack_.places_[dice_.below(static_cast<std::uint32_t>(stack_.places_.size()))].who.exchange(&offer_);
      if (other != nullptr && other != &offer_) {
        word theirs = other->now.load();
        const bool they_have = (theirs & has) != 0 && theirs != taken;
        if (own == wants ? they_have : theirs == wants) {
          // Once we have withdrawn, no thread can take us, so we can take another and be in one pair only.
          if (word expected = own; !offer_.now.compare_exchange_strong(expected, idle)) return settle(given);
          if (!other->now.compare_exchange_strong(theirs, own == wants ? word{taken} : own - has)) return false;
          if (own == wants) given = reinterpret_cast<node*>(theirs - has);
          ++eliminated_;
          return true;
        }
      }
      for (unsigned turns = stack_.plan_.turns; turns != 0 && offer_.now.load() == own; --turns) Pause::turn();
      if (word expected = own; offer_.now.compare_exchange_strong(expected, idle)) return false;
      return settle(given);
    }
    /// Another thread has taken our offer.
    bool settle(node*& given) noexcept {
      const word result = offer_.now.load();
      offer_.now.store(idle);
      if (result != taken) given = reinterpret_cast<node*>(result);
      ++eliminated_;
      return true;
    }
    void enter() noexcept {
      before_ = stack_.lock_.enter(place_);
      const bool waits = !clh_lock::has_left(before_);
      if (waits) {
        do Pause::turn();
        while (!clh_lock::has_left(before_));
      }
      if (stack_.plan_.attempt == elimination::when::crowded) crowded_ = waits;
    }
    void leave() noexcept { clh_lock::leave(std::exchange(place_, before_)); }
    void recycle(node* n) noexcept {
      if (spares_ == most_spares) {
        delete n;
        return;
      }
      n->next = spare_;
      spare_ = n;
      ++spares_;
    }

    clh_stack& stack_;
    clh_node* place_ = new clh_node;  // in the queue for the lock
    clh_node* before_ = nullptr;      // while it holds the lock
    offer& offer_;
    bool crowded_;
    std::size_t spares_ = 0;
    node* spare_ = nullptr;
    std::uint64_t eliminated_ = 0;
    small_random dice_{sync::new_object_id()};
  };

 private:
  struct alignas(isolation_size) place {
    sync::atomic<offer*> who{nullptr};  // the last one that came by; it may have left
  };

  static constexpr std::size_t most_spares = 1024;

  static void drop(node* list) noexcept {
    while (list != nullptr) delete std::exchange(list, list->next);
  }

  const elimination plan_;
  std::vector<place> places_;
  registry<offer> offers_;
  clh_lock lock_{new clh_node};
  alignas(isolation_size) node* top_ = nullptr;  // guarded by lock_
};

}  // namespace muster::bench::inline MUSTER_ABI
