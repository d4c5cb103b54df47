// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stack.hpp: stacks for code that switches between them, many in one mapping, kept for reuse.
//
// Slabs      a mapping has room for as many stacks as there are already, for 1024 at most. Where the kernel has guards
//            in its page tables, a million stacks need a few thousand mappings of the 65,530 that a process may have.
// Guard      below each stack are 64 KiB without access: a stack that overflows ends the program with a message
//            (base/detail/stack_overflow.hpp) instead of overwriting its neighbour. By MADV_GUARD_INSTALL (Linux 6.13),
//            which costs no mapping; the first one is tested. Otherwise, and for memory that mlockall(2) locks, by
//            mprotect, which costs two mappings for each stack: take() throws when the kernel allows no more.
// Colour     stacks begin at different distances from the end of their pages. Otherwise the tops of all stacks would
//            fall into the same sets of the caches, and a switch among many would cost several times as much.
// Memory     untouched pages cost nothing, and no page of a stack is huge. Up to `most_kept` stacks are kept for reuse,
//            with the pages that they have touched, and a few for each thread; the others lose their pages, and a slab
//            without stacks in use is unmapped. trim() frees all. When many stacks are made, the kernel prepares
//            several at once, so that up to an eighth more than are in use have a page.
// Cost       take_own, give_back_own: O(1), without a mutex in most calls. take, give_back: O(1) and one mutex. No
//            system call while the pool keeps stacks of the wanted size and has room for more. A size is found among
//            the sizes in use one by one. A new stack costs a guard and the touch of a page: a system call each, or a
//            64th of one among many. A new slab costs five. trim: O(kept).
// Fork       a child of fork(2) has copies of all stacks, with their guards.
#pragma once

#include <muster/base/arch.hpp>                      // line_size
#include <muster/base/detail/after_fork.hpp>         // only
#include <muster/base/detail/shared_object.hpp>      // pin_once
#include <muster/base/detail/stack_overflow.hpp>     // stack_guard_bytes
#include <muster/base/detail/thread_state.hpp>       // own, at_thread_end
#include <muster/fiber/detail/switch_observers.hpp>  // under_valgrind

#include <sys/mman.h>     // mmap
#include <sys/syscall.h>  // process_madvise
#include <sys/uio.h>      // iovec
#include <unistd.h>       // sysconf

#include <algorithm>     // std::sort
#include <cerrno>        // errno
#include <cstddef>       // std::size_t
#include <cstdint>       // std::uint32_t
#include <memory>        // std::construct_at, std::unique_ptr
#include <mutex>         // the pool
#include <stdexcept>     // std::invalid_argument
#include <string>        // messages
#include <system_error>  // std::system_error
#include <utility>       // std::exchange
#include <vector>        // the pool

namespace muster::inline MUSTER_ABI {

/// Options of a stack. `size` is in bytes, rounded up to whole pages; 16 KiB at least.
struct stack_options {
  /// Bytes, rounded up to whole pages; 16 KiB at least.
  std::size_t size = std::size_t{256} << 10U;
  /// If true, pages without access lie below the stack, so that an overflow ends the program with a message.
  bool guard = true;

  bool operator==(const stack_options&) const = default;
};

/// A stack, usable from `bottom` up to `top`, which is a little below the end of its pages (the colour).
struct stack_memory {
  /// The lowest usable address.
  char* bottom = nullptr;
  /// The address behind the highest usable byte.
  char* top = nullptr;
  /// The options that it was made with.
  stack_options options;

  /// Usable bytes.
  std::size_t size() const noexcept { return static_cast<std::size_t>(top - bottom); }
};

namespace detail {

/// The sizes that the stacks of a mapping have in common, in bytes.
struct stack_shape {
  std::size_t distance = 0;  // from one to the next
  std::size_t guard = 0;     // below each
  bool operator==(const stack_shape&) const = default;
};

struct stack_pool_seam;
struct stack_kind;

/// A mapping with stacks of one shape. A stack is in use, kept, spare (it has no pages, or was not prepared), or has
/// not been used yet: [made, count).
struct stack_slab {
  char* base = nullptr;
  stack_kind* kind = nullptr;
  std::uint32_t count = 0;
  std::uint32_t made = 0;
  std::uint32_t busy = 0;  // in use or kept
  std::uint32_t spares = 0;
  std::unique_ptr<std::uint32_t[]> spare;  // twice the place, and 1 if it was prepared
  std::size_t first_colour = 0;
  bool open = false;  // all is accessible but the guards; otherwise nothing is but the stacks that were prepared
  unsigned epoch = 0;
  stack_slab* next = nullptr;  // of the kind, with room or without
  stack_slab* before = nullptr;

  bool has_room() const noexcept { return spares != 0 || made != count; }
};

struct stack_place {
  stack_slab* slab = nullptr;
  std::uint32_t index = 0;
};

struct stack_kind {
  stack_shape shape;
  std::vector<stack_place> kept{};  // the latest last; has room for the stacks in use
  std::size_t in_use = 0;
  stack_slab* with_room = nullptr;
  stack_slab* full = nullptr;
  stack_slab* idle = nullptr;  // one of those with room, of which no stack is in use or kept
};

}  // namespace detail

/// The stacks of the process. Any thread may take one and give one back.
class stack_pool {
 public:
  /// The smallest stack_options::size that take() accepts.
  static constexpr std::size_t least_size = std::size_t{16} << 10U;
  /// The most stacks that are kept for reuse; some more while others end.
  static constexpr std::size_t most_kept = 1024;
  /// The most that each thread keeps for itself beside them.
  static constexpr std::size_t most_of_thread = 8;

  /// The pool of the process. Never destroyed, because threads may end after static objects.
  static stack_pool& shared() { return native::detail::only<stack_pool>(); }

  stack_pool() = default;
  ~stack_pool() { trim(); }
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  /// Throws std::invalid_argument for a size below 16 KiB or above a terabyte, std::system_error if the kernel has no
  /// more memory or mappings.
  /// A stack with these options: one that is kept, or a new one.
  stack_memory take(const stack_options& wanted);
  /// Takes a stack of take() back, and keeps it for reuse or returns its pages to the system. Nothing may use the
  /// stack.
  void give_back(const stack_memory& stack) noexcept { give_back_some(&stack, 1); }

  /// take() of the shared pool, but first from the few stacks that the calling thread keeps, without a lock.
  static stack_memory take_own(const stack_options& wanted) {
    own_stacks& own = native::own<own_stacks>();
    if (own.kept == 0 || own.all[own.kept - 1].options != wanted) [[unlikely]]
      return take_several(own, wanted);
    return own.all[--own.kept];
  }
  /// give_back() to the shared pool, unless the calling thread has room for one more.
  static void give_back_own(const stack_memory& stack) noexcept {
    own_stacks& own = native::own<own_stacks>();
    if (own.kept == own.most) [[unlikely]]
      if (!make_room(own)) return shared().give_back(stack);
    own.all[own.kept++] = stack;
  }

  /// Returns to the system what no stack in use needs. Of the shared pool: but for the stacks that other threads keep
  /// for themselves.
  void trim() noexcept;

  /// The number of stacks that are kept now. Of the shared pool: with those of the calling thread.
  std::size_t kept() const {
    const std::size_t own = this == &shared() ? native::own<own_stacks>().kept : 0;
    const std::lock_guard lock(mutex_);
    return kept_ + own;
  }

 private:
  friend stack_pool& native::detail::only<stack_pool>();
  friend detail::stack_pool_seam;
  using slab = detail::stack_slab;
  using kind = detail::stack_kind;
  using place = detail::stack_place;
  using shape = detail::stack_shape;

  /// How guards are made; unknown before the first.
  enum class guards : unsigned char { unknown, in_tables, as_mappings };

  /// The stacks that a thread keeps for itself.
  struct own_stacks {
    std::uint32_t kept = 0;
    std::uint32_t most = 0;  // 0: none, before the first or because the thread has ended
    bool has_begun = false;
    stack_memory all[most_of_thread];
  };
  struct thread_has_ended {
    static bool passes(bool) noexcept {
      own_stacks& own = native::own<own_stacks>();
      give_own_back(own, own.kept);
      own.most = 0;
      return true;
    }
  };
  MUSTER_COLD static stack_memory take_several(own_stacks& own, const stack_options& wanted) {
    if (own.kept == 0 && own.most != 0)
      own.kept = static_cast<std::uint32_t>(shared().take_kept(wanted, own.all, most_of_thread / 2));
    // Those of other options stay until others take their places.
    if (own.kept == 0 || own.all[own.kept - 1].options != wanted) return shared().take(wanted);
    return own.all[--own.kept];
  }
  MUSTER_COLD static bool make_room(own_stacks& own) noexcept {
    if (!std::exchange(own.has_begun, true)) {
      // Without a call at its end, a thread would leave them behind.
      const void* const code = native::at_thread_end<thread_has_ended>();
      own.most = code != nullptr ? most_of_thread : 0;
      if (code != nullptr) pin_once<own_stacks>(code);
    } else if (own.most != 0) {
      give_own_back(own, most_of_thread / 2);
    }
    return own.kept != own.most;
  }
  /// The ones that the thread has kept for the longest time.
  static void give_own_back(own_stacks& own, std::uint32_t many) noexcept {
    shared().give_back_some(own.all, many);
    std::copy(own.all + many, own.all + own.kept, own.all);
    own.kept -= many;
  }

  void after_fork() noexcept {
    if (native::detail::recover_after_fork(mutex_)) return;
    std::construct_at(&kinds_);
    kept_ = 0;
    ++epoch_;
  }

  static constexpr std::uint32_t most_in_slab = 1024;                   // stacks
  static constexpr std::size_t most_of_slab = std::size_t{256} << 20U;  // bytes, if it has more than one
  static constexpr std::size_t released_at_once = 64;                   // stacks whose pages are returned
  static constexpr std::size_t prepared_at_once = 64;
  static constexpr std::size_t in_use_for_each = 8;  // stacks, for one that is prepared in advance

  // Colours are a line apart, so that a cache of 64 sets or more holds the hot ends of many stacks. They leave a
  // quarter of the last page, so that most frames in use at a switch are in that one page. Stacks created one after
  // another get distant colours, because a processor treats a load as dependent on a recent store if the lowest twelve
  // bits of their addresses are equal.
  static constexpr std::size_t colours = 48;
  static constexpr std::size_t colour_step = 29;

  std::size_t whole_pages(std::size_t bytes) const noexcept { return (bytes + page_ - 1) & ~(page_ - 1); }
  /// Adds room for the colours to the requested size. The number of pages is odd, so that the hot pages of neighbouring
  /// stacks fall into all sets of a translation buffer: with an even number, a switch among 64 stacks costs 1.5 times
  /// as much.
  shape shape_of(const stack_options& o) const {
    if (o.size < least_size)
      throw std::invalid_argument("stack_pool::take: stack_options::size is " + std::to_string(o.size) +
                                  " bytes; ask for 16384 at least");
    if (o.size > (std::size_t{1} << 40U))
      throw std::invalid_argument("stack_pool::take: stack_options::size is " + std::to_string(o.size) +
                                  " bytes; ask for a terabyte at most");
    const std::size_t guard = o.guard ? whole_pages(stack_guard_bytes) : 0;
    return {whole_pages(o.size + colours * line_size + guard) | page_, guard};
  }

  static char* begin_of(const place& at) noexcept { return at.slab->base + at.index * at.slab->kind->shape.distance; }
  static char* end_of(const place& at) noexcept { return begin_of(at) + at.slab->kind->shape.distance; }
  static char* bottom_of(const place& at) noexcept { return begin_of(at) + at.slab->kind->shape.guard; }
  static stack_memory memory_of(const place& at, const stack_options& wanted) noexcept {
    const std::size_t colour = (at.slab->first_colour + at.index) * colour_step % colours;
    char* const top = end_of(at) - (colour + 1) * line_size;
    std::construct_at(reinterpret_cast<place*>(top), at);
    return {bottom_of(at), top, wanted};
  }
  /// Lies above the top: one word less to carry for each stack that is passed on.
  static place place_of(const stack_memory& stack) noexcept { return *reinterpret_cast<const place*>(stack.top); }

  // ------------------------------------------------------------------------------------------- with the mutex locked

  kind& kind_of(const shape& wanted) {
    for (const auto& one : kinds_)
      if (one->shape == wanted) return *one;
    return *kinds_.emplace_back(new kind{.shape = wanted});
  }
  static void reserve(kind& of) {
    const std::size_t needed =
        std::min(of.in_use + of.kept.size() + prepared_at_once, most_kept + released_at_once + prepared_at_once);
    if (of.kept.capacity() < needed) of.kept.reserve(2 * needed);
  }
  /// Returns false if there is no room for one more.
  bool keep(const place& one) noexcept {
    std::vector<place>& kept = one.slab->kind->kept;
    if (kept.size() == kept.capacity()) return false;
    kept.push_back(one);
    ++kept_;
    return true;
  }
  static void link(slab& one) noexcept {
    slab*& first = one.has_room() ? one.kind->with_room : one.kind->full;
    one.before = nullptr;
    one.next = first;
    if (first != nullptr) first->before = &one;
    first = &one;
  }
  static void unlink(slab& one) noexcept {
    if (one.next != nullptr) one.next->before = one.before;
    if (one.before != nullptr) {
      one.before->next = one.next;
    } else {
      (one.kind->with_room == &one ? one.kind->with_room : one.kind->full) = one.next;
    }
  }
  /// A stack that is no longer in use nor kept. Returns its slab if that should be unmapped, which is in no list then.
  static slab* make_spare(const place& one, bool prepared) noexcept {
    slab& its = *one.slab;
    unlink(its);
    its.spare[its.spares++] = 2 * one.index + (prepared ? 1 : 0);
    --its.busy;
    if (its.busy == 0) {
      if (its.kind->idle != nullptr) return &its;
      its.kind->idle = &its;
    }
    link(its);
    return nullptr;
  }
  /// Removes some of the stacks that were kept for the longest time. Returns how many.
  std::size_t take_oldest(place* to, std::size_t most) noexcept {
    kind* fullest = nullptr;
    for (const auto& one : kinds_)
      if (fullest == nullptr || one->kept.size() > fullest->kept.size()) fullest = one.get();
    if (fullest == nullptr) return 0;
    const auto many = static_cast<std::ptrdiff_t>(std::min(most, fullest->kept.size()));
    std::copy(fullest->kept.begin(), fullest->kept.begin() + many, to);
    fullest->kept.erase(fullest->kept.begin(), fullest->kept.begin() + many);
    kept_ -= static_cast<std::size_t>(many);
    return static_cast<std::size_t>(many);
  }

  // ---------------------------------------------------------------------------------------------- without the mutex

  std::size_t take_kept(const stack_options& wanted, stack_memory* to, std::size_t most) {
    const shape its = shape_of(wanted);
    const std::lock_guard lock(mutex_);
    kind& from = kind_of(its);
    std::size_t found = 0;
    for (; found < most && !from.kept.empty(); ++found) {
      to[found] = memory_of(from.kept.back(), wanted);
      from.kept.pop_back();
    }
    kept_ -= found;
    from.in_use += found;
    return found;
  }

  void give_back_some(const stack_memory* some, std::size_t many) noexcept {
    std::unique_lock lock(mutex_);
    for (std::size_t i = 0; i < many; ++i) {
      const place at = place_of(some[i]);
      if (at.slab->epoch != epoch_) {  // of the parent of this process: its slab is no longer known
        drop_pages(some[i].bottom, static_cast<std::size_t>(some[i].top - some[i].bottom));
        continue;
      }
      --at.slab->kind->in_use;
      if (!keep(at)) {
        lock.unlock();
        release(&at, 1);
        lock.lock();
      }
    }
    if (kept_ < most_kept + released_at_once) return;
    place oldest[released_at_once];
    const std::size_t found = take_oldest(oldest, released_at_once);
    lock.unlock();
    release(oldest, found);
  }

  /// Returns the pages of stacks that are in no list.
  void release(const place* some, std::size_t many) noexcept {
    place sorted[released_at_once];
    std::copy(some, some + many, sorted);
    std::sort(sorted, sorted + many, [](const place& a, const place& b) { return begin_of(a) < begin_of(b); });
    for (std::size_t i = 0, end = 0; i < many; i = end) {
      end = i + 1;
      while (end < many && sorted[end].slab == sorted[i].slab && begin_of(sorted[end]) == end_of(sorted[end - 1]))
        ++end;
      drop_pages(bottom_of(sorted[i]), static_cast<std::size_t>(end_of(sorted[end - 1]) - bottom_of(sorted[i])));
    }
    slab* unneeded = nullptr;
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < many; ++i)
        if (slab* const one = make_spare(sorted[i], true)) one->next = std::exchange(unneeded, one);
    }
    while (unneeded != nullptr) unmap(*std::exchange(unneeded, unneeded->next));
  }
  /// The guards stay.
  static void drop_pages(char* at, std::size_t bytes) noexcept {
    constexpr int dont_need_locked = 24;  // MADV_DONTNEED_LOCKED, of Linux 5.18
    if (::madvise(at, bytes, MADV_DONTNEED) != 0) ::madvise(at, bytes, dont_need_locked);
  }
  static void unmap(slab& one) noexcept {
    ::munmap(one.base, one.count * one.kind->shape.distance);
    delete &one;
  }

  /// Makes a slab, which has room, as large as the system permits. Throws std::system_error.
  slab& make_slab(kind& of, const stack_options& wanted);
  static bool make_accessible(char* at, std::size_t bytes) noexcept {
    return ::mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
  }

  static constexpr int guard_install = 102;  // MADV_GUARD_INSTALL, of Linux 6.13
  /// Installs a guard in the page tables and makes the memory accessible. Returns false if that is impossible.
  bool guards_in_tables(char* at, std::size_t guard) noexcept {
    if (guards_ == guards::as_mappings) return false;
    if (guards_ == guards::in_tables) return true;
    guards_ = guards::as_mappings;
    if (::madvise(at, guard, guard_install) != 0) return false;
    // An emulator of Linux may answer that it has taken an advice that it does not know. MADV_POPULATE_READ, of Linux
    // 5.14, fails where an access would.
    constexpr int populate_read = 22;
    if (!make_accessible(at, guard)) return false;
    const bool works = ::madvise(at, page_, populate_read) != 0 && errno == EFAULT &&
                       ::madvise(at + guard - page_, page_, populate_read) != 0 && errno == EFAULT;
    if (works) guards_ = guards::in_tables;
    return works;
  }

  /// The same advice for a range of each stack. Returns false if it was not taken for all: Linux before 6.15.
  static bool advise_all(const place& first, std::size_t many, std::ptrdiff_t from, std::size_t bytes,
                         int advice) noexcept {
#if defined(SYS_process_madvise)
    constexpr int this_process = -10001;  // PIDFD_SELF_THREAD_GROUP
    iovec ranges[prepared_at_once];
    for (std::size_t i = 0; i < many; ++i) {
      const place one{first.slab, static_cast<std::uint32_t>(first.index + i)};
      ranges[i] = {from < 0 ? end_of(one) + from : begin_of(one) + from, bytes};
    }
    const long done = ::syscall(SYS_process_madvise, this_process, ranges, many, advice, 0);
    return done >= 0 && static_cast<std::size_t>(done) == many * bytes;
#else
    return false;
#endif
  }
  /// Makes stacks usable. Returns false if the kernel does not prepare several at once. Throws std::system_error.
  bool prepare(const place& first, std::size_t many, const stack_options& wanted) const;
  [[noreturn]] static void throw_no_memory(int why, const stack_options& wanted, bool mappings);

  const std::size_t page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<kind>> kinds_;
  std::size_t kept_ = 0;  // of all kinds
  std::size_t next_colour_ = 0;
  unsigned epoch_ = 0;
  guards guards_ = guards::unknown;
  bool several_at_once_ = !detail::under_valgrind();
};

inline stack_memory stack_pool::take(const stack_options& wanted) {
  const shape its = shape_of(wanted);
  std::unique_lock lock(mutex_);
  kind& from = kind_of(its);
  reserve(from);
  if (!from.kept.empty()) {
    const place found = from.kept.back();
    from.kept.pop_back();
    --kept_;
    ++from.in_use;
    return memory_of(found, wanted);
  }
  slab& in = from.with_room != nullptr ? *from.with_room : make_slab(from, wanted);
  unlink(in);
  if (from.idle == &in) from.idle = nullptr;
  place first{&in, in.made};
  std::size_t many = 1;
  bool prepared = false;
  if (in.spares != 0) {
    const std::uint32_t spare = in.spare[--in.spares];
    first.index = spare / 2;
    prepared = spare % 2 != 0;
  } else {
    if (in.open && several_at_once_)
      many = std::clamp<std::size_t>(from.in_use / in_use_for_each, 1,
                                     std::min<std::size_t>(prepared_at_once, in.count - in.made));
    in.made += static_cast<std::uint32_t>(many);
  }
  in.busy += static_cast<std::uint32_t>(many);
  ++from.in_use;
  link(in);
  if (prepared) return memory_of(first, wanted);

  lock.unlock();
  bool at_once = true;
  try {
    at_once = prepare(first, many, wanted);
  } catch (...) {
    lock.lock();
    --from.in_use;
    for (std::size_t i = 0; i < many; ++i)
      if (slab* const unneeded = make_spare({&in, static_cast<std::uint32_t>(first.index + i)}, false))
        unmap(*unneeded);
    throw;
  }
  if (many == 1) return memory_of(first, wanted);
  lock.lock();
  several_at_once_ = several_at_once_ && at_once;
  for (std::size_t i = many - 1; i != 0; --i) {  // the next one is that beside
    const place other{&in, static_cast<std::uint32_t>(first.index + i)};
    if (!keep(other)) make_spare(other, true);
  }
  return memory_of(first, wanted);
}

inline void stack_pool::trim() noexcept {
  if (this == &shared()) {
    own_stacks& own = native::own<own_stacks>();
    give_own_back(own, own.kept);
  }
  std::unique_lock lock(mutex_);
  while (kept_ != 0) {
    place oldest[released_at_once];
    const std::size_t found = take_oldest(oldest, released_at_once);
    lock.unlock();
    release(oldest, found);
    lock.lock();
  }
  for (const auto& one : kinds_) {
    for (slab* at = one->with_room; at != nullptr;) {
      slab& now = *std::exchange(at, at->next);
      unlink(now);
      if (now.busy == 0) {
        if (one->idle == &now) one->idle = nullptr;
        unmap(now);
        continue;
      }
      const std::size_t used = now.made * one->shape.distance;
      if (now.made != now.count && ::munmap(now.base + used, (now.count - now.made) * one->shape.distance) == 0)
        now.count = now.made;
      link(now);
    }
  }
}

inline detail::stack_slab& stack_pool::make_slab(kind& of, const stack_options& wanted) {
  const std::size_t distance = of.shape.distance, guard = of.shape.guard;
  auto count = std::clamp<std::size_t>(of.in_use, 1, most_in_slab);
  count = std::clamp<std::size_t>(count, 1, std::max<std::size_t>(most_of_slab / distance, 1));
  auto made = std::make_unique<slab>();
  made->spare = std::make_unique_for_overwrite<std::uint32_t[]>(count);
  for (;; count /= 2) {
    // Without access at first, so that mlockall(2) brings in no pages.
    void* const at =
        ::mmap(nullptr, count * distance, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      if (count == 1) throw_no_memory(errno, wanted, guard != 0 && guards_ == guards::as_mappings);
      continue;
    }
    made->base = static_cast<char*>(at);
    ::madvise(at, count * distance, MADV_NOHUGEPAGE);  // fails where there are none
    const bool locked = ::madvise(at, guard != 0 ? guard : distance, MADV_DONTNEED) != 0;
    made->open = !locked && (guard == 0 || guards_in_tables(made->base, guard));
    const bool ready = made->open ? make_accessible(made->base, count * distance)
                                  : ::mprotect(at, count * distance, PROT_NONE) == 0;  // as it was, but for a test
    if (ready) break;
    const int why = errno;
    ::munmap(at, count * distance);
    if (count == 1) throw_no_memory(why, wanted, guard != 0 && !made->open);
  }
  made->kind = &of;
  made->count = static_cast<std::uint32_t>(count);
  made->first_colour = next_colour_;
  next_colour_ += count;
  made->epoch = epoch_;
  link(*made);
  return *made.release();
}

inline bool stack_pool::prepare(const place& first, std::size_t many, const stack_options& wanted) const {
  const std::size_t guard = first.slab->kind->shape.guard;
  if (!first.slab->open) {
    for (std::size_t i = 0; i < many; ++i) {
      const place one{first.slab, static_cast<std::uint32_t>(first.index + i)};
      if (!make_accessible(bottom_of(one), static_cast<std::size_t>(end_of(one) - bottom_of(one))))
        throw_no_memory(errno, wanted, guard != 0);
    }
    return false;
  }
  bool at_once = many > 1 && (guard == 0 || advise_all(first, many, 0, guard, guard_install));
  if (!at_once && guard != 0) {
    for (std::size_t i = 0; i < many; ++i) {
      char* const begin = begin_of({first.slab, static_cast<std::uint32_t>(first.index + i)});
      // Not in memory that was locked after it was mapped.
      if (::madvise(begin, guard, guard_install) != 0 && ::mprotect(begin, guard, PROT_NONE) != 0)
        throw_no_memory(errno, wanted, true);
    }
  }
  // The pages at the tops: the kernel brings in several in less time than a fault takes for each.
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
  if (at_once) at_once = advise_all(first, many, -static_cast<std::ptrdiff_t>(page_), page_, populate_write);
  return at_once;
}

inline void stack_pool::throw_no_memory(int why, const stack_options& wanted, bool mappings) {
  std::string text = "stack_pool::take: no memory for a stack of " + std::to_string(wanted.size) + " bytes; ";
  text += mappings ? "here each stack with a guard needs two mappings (none, from Linux 6.13 on and if memory is not "
                     "locked): raise vm.max_map_count or unset stack_options::guard"
                   : "use smaller or fewer stacks, or raise the limit of memory (ulimit -v, vm.overcommit_memory)";
  throw std::system_error(why, std::generic_category(), text);
}

namespace detail {

/// For tests.
struct stack_pool_seam {
  /// From now on the pool makes guards as on a kernel that has none in its page tables.
  static void make_guards_as_mappings(stack_pool& pool) noexcept { pool.guards_ = stack_pool::guards::as_mappings; }
  /// Returns true if guards cost no mappings. Known once a stack with a guard was taken.
  static bool has_guards_in_tables(const stack_pool& pool) noexcept {
    return pool.guards_ == stack_pool::guards::in_tables;
  }
};

}  // namespace detail

}  // namespace muster::inline MUSTER_ABI
