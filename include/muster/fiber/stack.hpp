// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// stack.hpp: stacks for code that switches between them, kept for reuse.
//
// Guard      below each stack are 64 KiB without access: a stack that overflows ends the program with a message
//            (base/detail/stack_overflow.hpp) instead of overwriting its neighbour. Costs a second mapping; the kernel
//            allows 65,530 (vm.max_map_count).
// Colour     stacks begin at different distances from the end of their pages. Otherwise the tops of all stacks would
//            fall into the same sets of the caches, and a switch among many would cost several times as much.
// Memory     untouched pages cost nothing. Up to `most_kept` stacks are kept for reuse, with the pages that they have
//            touched; trim() frees them.
// Cost       take, give_back: O(1), at most one mutex, and no system call, while the pool keeps stacks with the wanted
//            options and has room for more. Stacks with other options are passed over one by one. A new stack costs
//            system calls. trim: O(kept).
#pragma once

#include <muster/base/arch.hpp>                   // line_size
#include <muster/base/detail/after_fork.hpp>      // only
#include <muster/base/detail/stack_overflow.hpp>  // stack_guard_bytes

#include <sys/mman.h>  // mmap
#include <unistd.h>    // sysconf

#include <cerrno>        // errno
#include <cstddef>       // std::size_t
#include <memory>        // std::construct_at
#include <mutex>         // the pool
#include <stdexcept>     // std::invalid_argument
#include <string>        // messages
#include <system_error>  // std::system_error
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

/// A stack, usable from `bottom` up to `top`, which is a little below the end of the mapping (the colour).
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

/// The stacks of the process. Any thread may take one and give one back.
class stack_pool {
 public:
  /// The smallest stack_options::size that take() accepts.
  static constexpr std::size_t least_size = std::size_t{16} << 10U;
  /// The most stacks that are kept for reuse.
  static constexpr std::size_t most_kept = 1024;

  /// The pool of the process. Never destroyed, because threads may end after static objects.
  static stack_pool& shared() { return native::detail::only<stack_pool>(); }

  stack_pool() = default;
  ~stack_pool() { trim(); }
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;

  /// Throws std::invalid_argument for a size below 16 KiB or above a terabyte, std::system_error if the kernel has no
  /// more memory or mappings.
  /// A stack with these options: one that is kept, or a new one.
  stack_memory take(const stack_options& wanted) {
    if (wanted.size < least_size)
      throw std::invalid_argument("stack_pool::take: stack_options::size is " + std::to_string(wanted.size) +
                                  " bytes; ask for 16384 at least");
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = kept_.size(); i-- > 0;) {
        if (kept_[i].options != wanted) continue;
        const stack_memory found = kept_[i];
        kept_[i] = kept_.back();
        kept_.pop_back();
        return found;
      }
      kept_.reserve(most_kept);  // so that give_back does not allocate
    }
    return map(wanted);
  }

  /// Takes a stack of take() back, and keeps it for reuse or returns it to the system. Nothing may use the stack.
  void give_back(const stack_memory& stack) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (kept_.size() < most_kept) {
        kept_.push_back(stack);
        return;
      }
    }
    unmap(stack);
  }

  /// Returns every kept stack to the system.
  void trim() noexcept {
    const std::lock_guard lock(mutex_);
    for (const stack_memory& stack : kept_) unmap(stack);
    kept_.clear();
  }

  /// The number of stacks that are kept now.
  std::size_t kept() const {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }

 private:
  friend stack_pool& native::detail::only<stack_pool>();
  void after_fork() noexcept {
    if (!native::detail::recover_after_fork(mutex_)) std::construct_at(&kept_);
  }

  // Colours are a line apart, so that a cache of 64 sets or more holds the hot ends of many stacks. They leave a
  // quarter of the last page, so that most frames in use at a switch are in that one page. Stacks created one after
  // another get distant colours, because a processor treats a load as dependent on a recent store if the lowest twelve
  // bits of their addresses are equal.
  static constexpr std::size_t colours = 48;
  static constexpr std::size_t colour_step = 29;

  static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }
  static std::size_t guard_of(const stack_options& o) {
    return o.guard ? (stack_guard_bytes + page() - 1) / page() * page() : 0;
  }
  /// Adds room for the colours to the requested size. The number of pages is odd, so that the hot pages of neighbouring
  /// stacks fall into all sets of a translation buffer: with an even number, a switch among 64 stacks costs 1.5 times
  /// as much.
  static std::size_t mapped(const stack_options& o) {
    const std::size_t usable = o.size + colours * line_size + guard_of(o);
    return ((usable + page() - 1) / page() | 1U) * page();
  }

  stack_memory map(const stack_options& wanted) {
    if (wanted.size > (std::size_t{1} << 40U))
      throw std::invalid_argument("stack_pool::take: stack_options::size is " + std::to_string(wanted.size) +
                                  " bytes; ask for a terabyte at most");
    const std::size_t length = mapped(wanted);
    void* const at =
        ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || (wanted.guard && ::mprotect(at, guard_of(wanted), PROT_NONE) != 0)) {
      const int why = errno;
      if (at != MAP_FAILED) ::munmap(at, length);
      throw std::system_error(why, std::generic_category(),
                              "stack_pool::take: no memory for a stack of " + std::to_string(wanted.size) +
                                  " bytes; with many stacks, raise vm.max_map_count or unset stack_options::guard");
    }
    std::size_t colour = 0;
    {
      const std::lock_guard lock(mutex_);
      colour = next_colour_++ * colour_step % colours;
    }
    char* const bottom = static_cast<char*>(at) + guard_of(wanted);
    return {bottom, static_cast<char*>(at) + length - colour * line_size, wanted};
  }

  static void unmap(const stack_memory& stack) noexcept {
    ::munmap(stack.bottom - guard_of(stack.options), mapped(stack.options));
  }

  mutable std::mutex mutex_;
  std::vector<stack_memory> kept_;
  std::size_t next_colour_ = 0;
};

}  // namespace muster::inline MUSTER_ABI
