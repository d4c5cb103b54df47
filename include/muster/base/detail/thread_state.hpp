// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// thread_state.hpp: the library's per-thread state: a small number, the current operation, and cached parts of objects.
// Include base/sync.hpp instead, which also serves the model checker's threads.
//
// Numbers  dense from 0, always the smallest free one; no two live threads share one. Released when the thread's
//          thread_local objects are destroyed; a destructor that runs later takes another. A thread that reuses a
//          number sees everything its previous owner did, so per-number data needs no further ordering.
// Tenure   a number, and how often it has been taken: unique to each thread, forever.
// Cost     one load and one compare, after the first call of a thread.
#pragma once

#include <muster/base/config.hpp>             // MUSTER_ABI
#include <muster/base/detail/after_fork.hpp>  // only
#include <muster/base/detail/os.hpp>          // os::thread_key
#include <muster/base/detail/utilities.hpp>   // std::mutex

#include <atomic>   // new_object_id
#include <bit>      // std::countr_zero
#include <cstddef>  // std::size_t
#include <cstdint>  // std::uint64_t
#include <utility>  // std::exchange

namespace muster::inline MUSTER_ABI {

namespace detail {
class siblings;
}

namespace native {

namespace detail {

/// A thread's number, from taking it until giving it back.
struct thread_tenure {
  std::uint32_t number = no_number;
  std::uint32_t turn = 0;  // how many threads had the number before
  static constexpr std::uint32_t no_number = ~std::uint32_t{0};
  bool operator==(const thread_tenure&) const = default;
};

/// The numbers that threads have given back, smallest first. Never destroyed, as threads may outlive static objects.
class thread_numbers {
 public:
  static thread_numbers& all() { return only<thread_numbers>(); }
  /// The numbers of the parent's threads stay taken: they may be in the middle of operations. Any half change is as
  /// good as none or a whole one.
  void after_fork() noexcept { recover_after_fork(mutex_); }
  thread_tenure take() {
    const std::lock_guard lock(mutex_);
    std::uint32_t before = 0;  // numbers in earlier chunks
    for (chunk** at = &first_;; at = &(*at)->next, before += in_a_chunk) {
      if (*at == nullptr) *at = new chunk;
      chunk& here = **at;
      if (here.free == 0) continue;
      const auto smallest = static_cast<std::uint32_t>(std::countr_zero(here.free));
      here.free &= ~(std::uint64_t{1} << smallest);
      return {before + smallest, here.turns[smallest]};
    }
  }
  void give_back(std::uint32_t number) noexcept {
    const std::lock_guard lock(mutex_);
    chunk& here = chunk_of(number);
    ++here.turns[number % in_a_chunk];
    here.free |= std::uint64_t{1} << (number % in_a_chunk);
  }
  /// Returns true if the thread still has the number. If not, the caller sees everything that the thread did.
  bool lasts(const thread_tenure& tenure) {
    const std::lock_guard lock(mutex_);
    return chunk_of(tenure.number).turns[tenure.number % in_a_chunk] == tenure.turn;
  }

 private:
  static constexpr std::uint32_t in_a_chunk = 64;
  /// Successive numbers. Never freed.
  struct chunk {
    std::uint64_t free = ~std::uint64_t{0};  // a bit for each number
    std::uint32_t turns[in_a_chunk] = {};    // for each number, how often it has been given back
    chunk* next = nullptr;
  };

  /// Of a number that has been taken.
  chunk& chunk_of(std::uint32_t number) noexcept {
    chunk* found = first_;
    for (; number >= in_a_chunk; number -= in_a_chunk) found = found->next;
    return *found;
  }

  std::mutex mutex_;
  chunk* first_ = nullptr;
};

inline constinit thread_local thread_tenure own_tenure;
inline constinit char mark_of_copy = 0;  // only its address is used
inline constinit thread_local const void* innermost_operation = nullptr;
inline constinit thread_local MUSTER_ABI::detail::siblings* thread_siblings = nullptr;

/// The thread's part of an object, with the object's identity.
struct cache_entry {
  std::uint64_t identity = 0;
  void* part = nullptr;
};
inline constexpr std::size_t cached_parts = 8;
inline constinit thread_local cache_entry thread_parts[cached_parts];

/// Work that a thread must do before it gives its number back.
class last_work {
 public:
  virtual void at_thread_end() noexcept = 0;

 protected:
  ~last_work() = default;
};

/// Such work, if its object still exists.
class last_work_reference {
 public:
  virtual ~last_work_reference() = default;
  virtual bool expired() const noexcept = 0;
  virtual void run() noexcept = 0;

  last_work_reference* next = nullptr;
};
/// Weak is std::weak_ptr<last_work>. As a template, it does not need the definition, which takes long to compile.
template <class Weak>
class weak_last_work final : public last_work_reference {
 public:
  explicit weak_last_work(Weak work) noexcept : work_(std::move(work)) {}
  bool expired() const noexcept override { return work_.expired(); }
  void run() noexcept override {
    if (const auto work = work_.lock(); work != nullptr) work->at_thread_end();
  }

 private:
  const Weak work_;
};

/// All such work of a thread.
class last_works {
 public:
  last_works() = default;
  last_works(const last_works&) = delete;
  last_works& operator=(const last_works&) = delete;
  ~last_works() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next);
  }
  template <class Weak>
  void add(const Weak& work) {
    auto* const made = new weak_last_work<Weak>(work);
    if (count_ >= enough_) {
      drop_expired();
      enough_ = 2 * count_ + 1;
    }
    *end_ = made;
    end_ = &made->next;
    ++count_;
  }
  void run() noexcept {
    for (last_work_reference* one = first_; one != nullptr; one = one->next) one->run();
  }

 private:
  void drop_expired() noexcept {
    last_work_reference** at = &first_;
    while (*at != nullptr) {
      last_work_reference* const one = *at;
      if (one->expired()) {
        *at = one->next;
        delete one;
        --count_;
      } else {
        at = &one->next;
      }
    }
    end_ = at;
  }

  last_work_reference* first_ = nullptr;  // the oldest
  last_work_reference** end_ = &first_;   // where the next one belongs
  std::size_t count_ = 0;
  std::size_t enough_ = 1;  // so many are looked through, so that an add takes constant time on average
};
inline constinit thread_local last_works* own_last_works = nullptr;

/// Does the calling thread's last work, drops its kept parts, and gives its number back, if it has one.
inline void end_number() noexcept {
  while (own_last_works != nullptr) {
    last_works* const last = std::exchange(own_last_works, nullptr);
    last->run();
    delete last;
  }
  if (own_tenure.number == thread_tenure::no_number) return;
  for (cache_entry& kept : thread_parts) kept = {};
  thread_numbers::all().give_back(std::exchange(own_tenure, {}).number);
}

/// A key (os.hpp) whose destructor returns a number taken while the thread's objects are being destroyed. It runs after
/// the destructors of thread_local objects, and again if the destructor of another key takes a number.
class late_end {
 public:
  static const late_end& all() {
    static const late_end one;
    return one;
  }
  /// Arms or disarms the destructor for the calling thread. If the process has run out of keys, or the system has no
  /// such function, a number taken so late is never used again.
  void arm(bool armed) const noexcept {
    if (exists_) key_.set(armed ? this : nullptr);
  }

 private:
  late_end() : exists_(key_.make([](void*) { end_number(); })) {}

  os::thread_key key_;
  const bool exists_;
};

/// See at_thread_end().
template <class Check>
class last_check {
 public:
  last_check() noexcept : exists_(key_.make(&look)) {
    for (unsigned i = 0; i < rounds; ++i) all_[i] = {this, i};
  }
  bool arm(unsigned which) const noexcept {
    if (exists_) key_.set(&all_[which]);
    return exists_;
  }
  static void look(void* at) noexcept {
    const auto& now = *static_cast<const round*>(at);
    const bool last = now.number == rounds - 1;
    if (!Check::passes(last) && !last) now.check->arm(now.number + 1);
  }

 private:
  // The thread sanitizer takes its leave of the thread in the last one.
  static constexpr unsigned rounds = os::thread_key_rounds - 1;
  /// The key's value for a thread. Its destructor is called in so many rounds, if it sets the value again.
  struct round {
    const last_check* check = nullptr;
    unsigned number = 0;
  };

  os::thread_key key_;
  const bool exists_;
  round all_[rounds];
};

struct number_end {
  ~number_end() {
    end_number();
    late_end::all().arm(false);  // this library may be unloaded once the thread's objects are destroyed
  }
};

[[gnu::noinline]] inline void take_number() {
  thread_local const number_end last;
  static_cast<void>(&last);
  own_tenure = thread_numbers::all().take();
  late_end::all().arm(true);
}

}  // namespace detail

using detail::last_work;
using detail::thread_tenure;

/// Returns the calling thread's tenure. A thread's first call may throw std::bad_alloc.
inline thread_tenure own_tenure() {
  if (detail::own_tenure.number == thread_tenure::no_number) [[unlikely]]
    detail::take_number();
  return detail::own_tenure;
}
inline unsigned thread_index() { return own_tenure().number; }
/// Identifies what gives threads their numbers. A program and the libraries that it loads have several if they hide the
/// names of their functions.
inline const void* copy_of_library() noexcept { return &detail::mark_of_copy; }
/// Returns true if the thread still has its number. If not, the caller sees everything that the thread did.
inline bool lasts(const thread_tenure& tenure) { return detail::thread_numbers::all().lasts(tenure); }

/// Arranges a call of work->at_thread_end() before the calling thread gives its number back, if *work still exists.
/// Shared is std::shared_ptr<last_work>.
template <class Shared>
void before_thread_end(const Shared& work) {
  static_cast<void>(own_tenure());  // so that it is given back
  if (detail::own_last_works == nullptr) detail::own_last_works = new detail::last_works;
  detail::own_last_works->add(typename Shared::weak_type(work));
}

/// Returns an identity that no other object of the program has had. Copies of the library (copy_of_library) count each
/// for itself, at least a page from each other: 2^28 objects of one have none of another's identities.
inline std::uint64_t new_object_id() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  const std::uint64_t copy = reinterpret_cast<std::uintptr_t>(&last) / alignof(std::uint64_t);
  return (copy << 19) + last.fetch_add(1, std::memory_order_relaxed) + 1;
}
/// Returns the part that the calling thread has kept of the object with this identity; null if another replaced it.
inline void* cached_part(std::uint64_t identity) noexcept {
  const detail::cache_entry& kept = detail::thread_parts[identity % detail::cached_parts];
  if (kept.identity != identity) return nullptr;
  if (kept.part == nullptr) __builtin_unreachable();  // the caller's test for null is this one
  return kept.part;
}
/// Keeps a part, which must belong to the thread's number.
inline void cache_part(std::uint64_t identity, void* part) noexcept {
  detail::thread_parts[identity % detail::cached_parts] = {identity, part};
}

/// Returns the calling thread's T, which is constant-initialized and never destroyed.
template <class T>
T& own() noexcept {
  static constinit thread_local T one{};
  return one;
}

/// Arranges calls of Check::passes(last) at the end of the calling thread: after the destructors of its thread_local
/// objects, and again after the destructors of other pthread keys, while it returns false and until `last`. Not at the
/// end of the process, nor if the process has run out of keys: then it returns null, otherwise code that must stay
/// loaded.
template <class Check>
const void* at_thread_end() noexcept {
  static const detail::last_check<Check> check;
  return check.arm(0) ? reinterpret_cast<const void*>(&detail::last_check<Check>::look) : nullptr;
}

/// The innermost operation that is running a user's function, or null. Each fiber has its own.
inline const void*& innermost() noexcept { return detail::innermost_operation; }

/// The fibers of the thread, once it has made one (base/detail/siblings.hpp).
inline MUSTER_ABI::detail::siblings*& own_siblings() noexcept { return detail::thread_siblings; }

/// The worker that a thread is, if any.
struct worker_binding {
  void* worker = nullptr;  // null: in no pool
  // Its forks check the word at this address before they call. It is less than no_poll_word, unless they must do
  // something else.
  const void* poll_word = &no_poll_word;
  static constexpr std::uint64_t no_poll_word = ~std::uint64_t{1};
};

/// The calling thread's. Each fiber has its own. Code that sets it must also set innermost().
inline worker_binding& worker_slot() noexcept {
  static constinit thread_local worker_binding slot;
  return slot;
}

}  // namespace native

}  // namespace muster::inline MUSTER_ABI
