// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// counter.hpp: a number that many threads add to and that tells each of them what it was before: a ticket dispenser, a
// statistics counter. While threads rarely meet, an addition is one hardware fetch-and-add. While they meet all the
// time, a thread adds for its group, and a thread with fibers for all of them.
//
// Order      linearizable and exact: each operation sees all additions that have returned before it began, and
//            everything that their threads did before. 64 bits, which wrap around; n may be negative.
// Progress   direct additions are wait-free. In groups, a thread waits for the one that adds for its batch, the
//            delegate, which executes no code but this file's. A delegate that stops in the middle stops the members of
//            its batch, and no other thread. A thread that would sleep before its batch has begun adds by itself.
// Killed     as stopped.
// fork(2)    a child counts on from the value of the moment; its operations no longer use groups. The fibers of the
//            thread that calls fork must not be inside an operation.
// Memory     two line pairs. Once threads add in groups, 1 KiB, and 1.4 KiB for each group of eight threads.
// Cost       fetch_add, add: O(1), one fetch-add; once in `look_every` additions a compare-exchange instead. In groups:
//            one fetch-or for each addition; for each batch an exchange, one fetch-add on the number, and O(group)
//            steps of the delegate. Fibers of one thread that add together share them. load: a load. Waking and
//            waiting: see base/wait.hpp.
// Errors     the constructor throws std::invalid_argument. Operations throw nothing, and need no memory: without it
//            they do not form groups.
// Use it     when the number must be exact, or each thread needs the previous value. If threads only add, and a sum
//            that is read rarely may be old, a number for each thread is faster.
// Source     Roh, Wei, Ruppert, Fatourou, Jayanti and Shun, "Aggregating Funnels for Faster Fetch&Add and Queues",
//            PPoPP 2025: groups (aggregators), one of whose threads (the delegate) makes one fetch-and-add for a batch.
//            Changed: members announce themselves by a bit instead of by a fetch-and-add, and the delegate puts each
//            result into its member's place. So there are no records of batches to free, n is any number, a waiting
//            thread polls only its own line, and it can leave before its batch begins. A delegate waits longer for
//            members the longer additions take. Threads that do not meet use no group.
#pragma once

#include <muster/base/arch.hpp>                  // isolation_size
#include <muster/base/detail/brief_wait.hpp>     // brief_wait
#include <muster/base/detail/eventcount.hpp>     // eventcount
#include <muster/base/parallelism.hpp>           // available_parallelism
#include <muster/base/sync.hpp>                  // sync::atomic, sync::cell, sync::own
#include <muster/base/wait.hpp>                  // wait::spin_then_park
#include <muster/combine/detail/per_thread.hpp>  // stay, thread_part
#include <muster/fiber/this_fiber.hpp>           // this_fiber

#include <bit>        // std::countr_zero, std::popcount
#include <cstdint>    // std::int64_t
#include <memory>     // std::unique_ptr
#include <new>        // std::nothrow
#include <optional>   // the result of an addition in a group
#include <stdexcept>  // std::invalid_argument
#include <string>     // messages
#include <utility>    // std::exchange

namespace muster::inline MUSTER_ABI {

/// Options of a counter.
struct counter_options {
  /// gather_from: ten threads, and none on machines that cannot run ten at once.
  static constexpr unsigned by_machine = ~0U;

  /// Threads that must have met others at the number before threads add in groups. 0: they always do.
  unsigned gather_from = by_machine;
  /// Threads of a group, from 1 to 28. Threads with successive numbers form one.
  unsigned group = 8;
  /// Threads that may add in groups; others add directly. A thread counts as long as it lives, by its number among the
  /// threads that use this library.
  unsigned threads = 512;
  /// A thread looks once in so many additions if others add at the same moment.
  unsigned look_every = 64;
};

namespace detail {

/// The memory of a thread about counters.
struct counter_habits {
  struct joined;
  /// Additions of several fibers, on the stack of the first.
  struct batch {
    const void* of;
    std::uint64_t sum;
    joined* others;
    batch* next;
  };
  /// An addition of a fiber, as part of a batch.
  struct joined {
    joined(batch& with, std::uint64_t by) noexcept : before(with.sum), next(with.others) {
      with.sum += by;
      with.others = this;
    }
    std::uint64_t before;  // the sum of the additions before it in the batch; then the result
    joined* const next;
    enum : unsigned char { recorded, adding, done } phase = recorded;
  };

  unsigned left = 1;  // additions until the thread looks
  unsigned calm = 0;  // looks in succession that have found no other thread
  const void* calm_at = nullptr;
  batch* open = nullptr;  // batches that fibers may join
};

}  // namespace detail

template <class Wait = wait::spin_then_park>
class basic_counter {
 public:
  /// The type of the number.
  using value_type = std::int64_t;

  /// A number that starts with the value first. Throws std::invalid_argument, with the option and its bounds, if an
  /// option is out of range; allocates nothing.
  explicit basic_counter(value_type first = 0, const counter_options& options = {})
      : sum_(static_cast<std::uint64_t>(first)),
        at_rest_(options.gather_from == 0 ? gathering : 0),
        care_(at_rest_),
        gather_from_(options.gather_from == counter_options::by_machine ? usual_threads : options.gather_from),
        asks_machine_(options.gather_from == counter_options::by_machine),
        group_size_(options.group),
        threads_(options.threads),
        look_every_(options.look_every) {
    if (options.group == 0 || options.group > most_in_group)
      throw std::invalid_argument("counter_options::group is " + std::to_string(options.group) +
                                  "; it must be from 1 to 28");
    if (options.look_every == 0) throw std::invalid_argument("counter_options::look_every is 0; it must be at least 1");
  }
  /// Waits for operations that have taken effect but not yet returned; no other operation may have begun.
  ~basic_counter() {
    // Relaxed: the thread that may destroy the object knows of every operation.
    if (groups* const all = groups_.load(std::memory_order_relaxed); all != nullptr) delete all;
  }
  basic_counter(const basic_counter&) = delete;
  basic_counter& operator=(const basic_counter&) = delete;

  /// Adds n. Returns the value before.
  MUSTER_HOT value_type fetch_add(value_type n) noexcept {
    const auto by = static_cast<std::uint64_t>(n);
    if (care_.load(std::memory_order_relaxed) == 0 && --sync::own<detail::counter_habits>().left != 0) [[likely]]
      return static_cast<value_type>(add_to_sum(by));
    return static_cast<value_type>(add_with_care(by));
  }
  /// Adds n.
  MUSTER_HOT void add(value_type n) noexcept { static_cast<void>(fetch_add(n)); }
  /// Returns the value.
  value_type load() const noexcept {
    // (2) acquire: pairs with (1).
    return static_cast<value_type>(sum_.load(std::memory_order_acquire));
  }

 private:
  using habits = detail::counter_habits;
  using joined = habits::joined;
  using batch = habits::batch;
  static constexpr unsigned usual_threads = 10;
  static constexpr unsigned most_in_group = 28;
  static constexpr unsigned enough_calm = 8;
  static constexpr unsigned long_alone = 64;
  // Of care_.
  static constexpr std::uint32_t batching = 1;   // by threads with fibers
  static constexpr std::uint32_t gathering = 2;  // and by groups
  // Of a group's word.
  static constexpr std::uint32_t one_plane = (1U << most_in_group) - 1;
  static constexpr std::uint64_t one_batch = std::uint64_t{1} << (2 * most_in_group);
  static constexpr std::uint64_t all_members = one_batch - 1;

  /// Of one thread.
  struct alignas(isolation_size) place : detail::thread_part {
    sync::atomic<std::uint32_t> done{0};                 // 1: the result is there, and the place its thread's again
    sync::cell<std::uint64_t> number{std::uint64_t{0}};  // what to add, if it is not 1; then the result
    // The thread's:
    bool taken = false;        // by one of its fibers
    unsigned usual_looks = 0;  // as a delegate, until the batch before has been added
    unsigned alone = 0;        // batches in succession in which there was no other thread
  };
  struct group {
    explicit group(unsigned size) : places(new(std::nothrow) place[size]) {}
    // Two bits for each place: its thread has announced an addition of 1, or of the place's number, that is in no batch
    // yet. The thread that sets the first bit is the delegate. Above: how many batches have been closed, modulo 2^8.
    alignas(isolation_size) sync::atomic<std::uint64_t> word{0};
    // Of how many batches the sum has been added, modulo 2^8. Only a hint: their delegates may overtake each other.
    alignas(isolation_size) sync::atomic<std::uint64_t> added{0};
    alignas(isolation_size) const std::unique_ptr<place[]> places;
  };
  struct groups {
    groups(unsigned threads, unsigned group_size)
        : count((threads + group_size - 1) / group_size),
          size(group_size),
          all(new(std::nothrow) sync::atomic<group*>[count]) {}
    ~groups() {
      const bool is_copy = made_in.read_ref() != sync::fork_generation();  // where no other thread is
      for (unsigned i = 0; all != nullptr && i < count; ++i) {
        group* const one = all[i].load(std::memory_order_relaxed);
        if (one == nullptr) continue;
        for (unsigned j = 0; j < size && !is_copy; ++j)
          for (detail::brief_wait wait; !one->places[j].idle(); wait.pause()) this_fiber::yield();
        delete one;
      }
    }
    groups(const groups&) = delete;
    groups& operator=(const groups&) = delete;

    const unsigned count;
    const unsigned size;  // of a group
    const sync::cell<unsigned> made_in{sync::fork_generation()};
    const void* const copy = sync::copy_of_library();
    eventcount events;
    const std::unique_ptr<sync::atomic<group*>[]> all;
  };

  MUSTER_HOT std::uint64_t add_to_sum(std::uint64_t by) noexcept {
    // (1) acq_rel: pairs with (1, 2). In a direct addition it is the last access to the object: another thread that
    // sees its effect may destroy it.
    return sum_.fetch_add(by, std::memory_order_acq_rel);
  }

  MUSTER_COLD std::uint64_t add_with_care(std::uint64_t by) noexcept {
    habits& mine = sync::own<habits>();
    const std::uint32_t care = care_.load(std::memory_order_relaxed);
    if (care == 0) {
      mine.left = look_every_;
      return look_and_add(by, mine);
    }
    // A fiber in an operation of another object does not wait for its siblings: they may wait for that operation.
    if (this_fiber::has_siblings() && sync::innermost() == nullptr) return add_with_siblings(by, mine, care);
    return add_as_thread(by, mine, care, nullptr);
  }

  std::uint64_t add_as_thread(std::uint64_t by, habits& mine, std::uint32_t care, batch* with) noexcept {
    if ((care & gathering) != 0)
      if (const auto before = add_in_group(by, mine, with)) return *before;
    if (mine.left > 1) {  // it may be 0, if the caller has found so and another thread has met others since
      --mine.left;
      return add_to_sum(by);
    }
    mine.left = look_every_;
    return look_and_add(by, mine);
  }

  /// Adds, and finds out whether other threads add in that moment.
  std::uint64_t look_and_add(std::uint64_t by, habits& mine) noexcept {
    if (std::exchange(mine.calm_at, this) != this) mine.calm = 0;
    // Before the addition, after which the object may end.
    if (mine.calm >= enough_calm) note_calm();
    std::uint64_t before = sum_.load(std::memory_order_relaxed);
    // (1)
    if (sum_.compare_exchange_strong(before, before + by, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      ++mine.calm;
      return before;
    }
    mine.calm = 0;
    note_meeting();
    return add_to_sum(by);
  }

  void note_calm() noexcept {
    if (met_.load(std::memory_order_relaxed) != 0) met_.store(0, std::memory_order_relaxed);
    if (care_.load(std::memory_order_relaxed) != at_rest_) care_.store(at_rest_, std::memory_order_relaxed);
  }
  void note_meeting() noexcept {
    const std::uint32_t care = care_.load(std::memory_order_relaxed);
    if ((care & batching) == 0 && this_fiber::has_siblings()) care_.fetch_or(batching, std::memory_order_relaxed);
    if ((care & gathering) != 0) return;
    const std::uint64_t bit = std::uint64_t{1} << (own_number() % 64);
    std::uint64_t met = met_.load(std::memory_order_relaxed);
    if ((met & bit) == 0) met = met_.fetch_or(bit, std::memory_order_relaxed) | bit;
    if (static_cast<unsigned>(std::popcount(met)) < gather_from_.load(std::memory_order_relaxed)) return;
    if (asks_machine_ && !is_large()) {
      gather_from_.store(~0U, std::memory_order_relaxed);
    } else {
      care_.fetch_or(gathering, std::memory_order_relaxed);
    }
  }

  // -------------------------------------------------------------------------------------------------------- fibers

  std::uint64_t add_with_siblings(std::uint64_t by, habits& mine, std::uint32_t care) noexcept {
    for (batch* at = mine.open; at != nullptr; at = at->next)
      if (at->of == this) return join(*at, by);
    batch own{this, by, nullptr, mine.open};
    mine.open = &own;
    this_fiber::yield();  // the others join
    batch** at = &mine.open;
    while (*at != &own) at = &(*at)->next;
    *at = own.next;
    const std::uint64_t before = add_as_thread(own.sum, mine, care, &own);
    // The object may have ended.
    for (joined* one = own.others; one != nullptr;) {
      joined* const next = one->next;
      one->before += before;
      one->phase = joined::done;
      one = next;
    }
    return before;
  }

  std::uint64_t join(batch& with, std::uint64_t by) noexcept {
    joined one(with, by);
    while (one.phase == joined::recorded) this_fiber::yield();  // until the first fiber has a turn
    if (one.phase == joined::adding) await_delegate(one);
    return one.before;
  }

  /// The first fiber waits for a delegate, and so do the others of its batch.
  MUSTER_COLD void await_delegate(joined& one) noexcept {
    groups& all = *groups_.load(std::memory_order_relaxed);
    const std::uint32_t number = own_number();
    const detail::stay here(place_of(all, number));
    all.events.template await<Wait>(number, [&one] { return one.phase == joined::done; }, no_deadline);
  }

  // -------------------------------------------------------------------------------------------------------- groups

  /// Returns nothing, and has no effect, if the thread must add by itself.
  MUSTER_COLD std::optional<std::uint64_t> add_in_group(std::uint64_t by, habits& mine, batch* with) noexcept {
    groups* const all = find_groups();
    const std::uint32_t number = own_number();
    if (all == nullptr || number >= threads_) return std::nullopt;
    group* const in = find_group(all->all[number / group_size_]);
    if (in == nullptr) return std::nullopt;
    const unsigned index = number % group_size_;
    place& own = in->places[index];
    if (own.taken) return std::nullopt;
    own.taken = true;
    std::optional<std::uint64_t> before;
    {
      const detail::stay here(own);
      before = announce(*all, *in, index, by, mine, with);
    }
    return before;
  }

  std::optional<std::uint64_t> announce(groups& all, group& in, unsigned index, std::uint64_t by, habits& mine,
                                        batch* with) noexcept {
    place& own = in.places[index];
    struct frees {
      place& at;
      ~frees() { at.taken = false; }
    };
    const frees last{own};
    const std::uint64_t bit = std::uint64_t{1} << (by == 1 ? index : index + most_in_group);
    if (by != 1) own.number.write_ref() = by;
    own.done.store(0, std::memory_order_relaxed);
    // (3) release: pairs with (4). The delegate sees the number, and sets `done` after this thread has cleared it.
    const std::uint64_t seen = in.word.fetch_or(bit, std::memory_order_release);
    if ((seen & all_members) == 0) return add_for_all(all, in, index, by, seen, mine);
    for (joined* one = with != nullptr ? with->others : nullptr; one != nullptr; one = one->next)
      one->phase = joined::adding;
    bool withdrawn = false;
    const auto withdraw = [&] {
      // Relaxed: this thread has announced the addition, and only it will look at its number.
      withdrawn = withdrawn || (in.word.fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
    };
    unsigned looks = 0;
    all.events.template await<Wait>(
        own_number(),
        [&] {
          // (5) acquire: pairs with (6).
          if (own.done.load(std::memory_order_acquire) != 0) return true;
          if constexpr (!Wait::parks)
            if (++looks == Wait::pauses) withdraw();
          return withdrawn;
        },
        no_deadline, withdraw);
    own.alone = 0;
    return withdrawn ? std::nullopt : std::optional(own.number.read_ref());
  }

  /// For the delegate, which was the first to announce an addition: adds for all that have announced theirs. Returns
  /// the result of its own.
  std::uint64_t add_for_all(groups& all, group& in, unsigned index, std::uint64_t by, std::uint64_t seen,
                            habits& mine) noexcept {
    place& own = in.places[index];
    // Meanwhile others join. The delegate of the batch before may be stopped, and need not be waited for. When it has
    // added, its members come back: half of the time that an addition takes is left to them, as many join then.
    const std::uint64_t before_this = seen / one_batch;
    unsigned looks = 0;
    for (; looks < Wait::pauses && in.added.load(std::memory_order_relaxed) != before_this; ++looks) sync::relax();
    own.usual_looks = looks != 0 ? looks : own.usual_looks - own.usual_looks / 8;
    for (looks = 0; looks < own.usual_looks / 2; ++looks) sync::relax();
    // (4) acquire: pairs with (3).
    const std::uint64_t members = in.word.exchange(seen + one_batch, std::memory_order_acquire);
    const auto own_bits = std::uint64_t{1} << index | std::uint64_t{1} << (index + most_in_group);
    const auto others = static_cast<std::uint32_t>((members | members >> most_in_group) & ~(own_bits)) & one_plane;
    own.alone = others == 0 ? own.alone + 1 : 0;
    std::uint64_t sum = by;
    for (std::uint32_t left = others; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      sum += (members >> i) % 2 != 0 ? 1 : in.places[i].number.read_ref();
    }
    const std::uint64_t before = own.alone < long_alone ? add_to_sum(sum) : look_and_add(sum, mine);
    in.added.store((seen + one_batch) / one_batch, std::memory_order_relaxed);
    sum = before + by;
    for (std::uint32_t left = others; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      place& there = in.places[i];
      const std::uint64_t its_number = (members >> i) % 2 != 0 ? 1 : there.number.read_ref();
      there.number.write_ref() = std::exchange(sum, sum + its_number);
      // (6) release: pairs with (5). The member sees the result.
      there.done.store(1, std::memory_order_release);
    }
    if (others != 0) notify(all, index, others);
    return before;
  }

  /// Wakes members of the caller's group.
  void notify(groups& all, unsigned index, std::uint32_t members) noexcept {
    if constexpr (Wait::parks) {
      const std::uint32_t first = own_number() - index;
      std::uint32_t keys = 0;
      for (std::uint32_t left = members; left != 0; left &= left - 1)
        keys |= eventcount::bit(first + static_cast<unsigned>(std::countr_zero(left)));
      for (std::uint32_t asleep = all.events.waiters_after_event(keys); asleep != 0; asleep &= asleep - 1)
        all.events.wake(static_cast<std::uint32_t>(std::countr_zero(asleep)));
    }
  }

  // -------------------------------------------------------------------------------------------------------- memory

  static std::uint32_t own_number() noexcept {
    MUSTER_TRY { return sync::thread_index(); }
    MUSTER_CATCH_ALL { return ~0U; }  // no memory
  }

  place& place_of(groups& all, std::uint32_t number) noexcept {
    return all.all[number / group_size_].load(std::memory_order_relaxed)->places[number % group_size_];
  }

  /// Returns null if there are to be no groups here.
  groups* find_groups() noexcept {
    // (7) acquire: pairs with (8).
    groups* there = groups_.load(std::memory_order_acquire);
    if (there == nullptr) {
      groups* const made = new (std::nothrow) groups(threads_, group_size_);
      if (made == nullptr || made->all == nullptr) {
        delete made;
        return nullptr;
      }
      // (8) release, or acquire if another thread was faster: pairs with (7, 8).
      if (groups_.compare_exchange_strong(there, made, std::memory_order_release, std::memory_order_acquire))
        there = made;
      else delete made;
    }
    return there->made_in.read_ref() == sync::fork_generation() && there->copy == sync::copy_of_library() ? there
                                                                                                          : nullptr;
  }
  static bool is_large() noexcept {
    MUSTER_TRY { return available_parallelism() >= usual_threads; }
    MUSTER_CATCH_ALL { return false; }
  }

  group* find_group(sync::atomic<group*>& at) noexcept {
    // (9) acquire: pairs with (10).
    group* there = at.load(std::memory_order_acquire);
    if (there != nullptr) return there;
    group* const made = new (std::nothrow) group(group_size_);
    if (made == nullptr) return nullptr;
    if (made->places == nullptr) {
      delete made;
      return nullptr;
    }
    // (10) release, or acquire if another thread was faster: pairs with (9, 10).
    if (at.compare_exchange_strong(there, made, std::memory_order_release, std::memory_order_acquire)) return made;
    delete made;
    return there;
  }

  alignas(isolation_size) sync::atomic<std::uint64_t> sum_;
  // Read by all, rarely written.
  alignas(isolation_size) const std::uint32_t at_rest_;  // care_, when threads do not meet
  sync::atomic<std::uint32_t> care_;                     // 0: additions are direct
  // The threads that have met others when they looked: a bit for each, by its number.
  sync::atomic<std::uint64_t> met_{0};
  sync::atomic<std::uint32_t> gather_from_;
  const bool asks_machine_;
  const unsigned group_size_;
  const unsigned threads_;
  const unsigned look_every_;
  sync::atomic<groups*> groups_{nullptr};
};

/// The counter whose threads spin for a moment and then sleep, if they wait.
using counter = basic_counter<>;

}  // namespace muster::inline MUSTER_ABI
