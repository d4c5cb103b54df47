// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// nursery.hpp: the process of a zygote. It forks the insides that are ordered, reports their beginnings and ends, and
// keeps spares: processes that have taken all steps to become an inside for which they need no arena.
//
// Spares     are forked a few milliseconds after the second of two orders in a row that are alike, for the next order
//            of this kind. A spare that is killed is replaced after the next order.
// Ends       with the program, or when its orders are closed. It ends its children then, and reaps them.
// Source     ours.
#pragma once

#include <muster/base/detail/time.hpp>               // the time of a start
#include <muster/syscall/detail/launch.hpp>          // launch
#include <muster/syscall/detail/message_socket.hpp>  // message_socket

#include <poll.h>          // poll
#include <sys/mman.h>      // mmap
#include <sys/resource.h>  // rusage
#include <sys/syscall.h>   // SYS_pidfd_open
#include <sys/wait.h>      // wait4

#include <array>    // descriptors
#include <cerrno>   // errno
#include <csignal>  // SIGKILL
#include <cstddef>  // std::size_t
#include <cstdint>  // std::int32_t
#include <new>      // std::bad_alloc
#include <utility>  // std::move
#include <vector>   // children

namespace muster::inline MUSTER_ABI::detail {

/// The zygote's reports about an inside: one after it was created, one after it has ended.
struct zygote_news {
  std::int32_t process = -1;  // or a negative error number
  std::int32_t status = 0;
  std::uint64_t microseconds = 0;  // of processor time
  bool known = false;              // true if `status` is
};

class nursery {
 public:
  /// Serves the other end of `orders_end`, in a new process of the program's; never returns.
  [[noreturn]] static void serve(pid_t program, int orders_end, std::size_t spares) noexcept {
    // Drops the program's terminal, files and shared memory.
    ::setsid();
    keep_only(orders_end);
    nursery here(program, spares);
    try {
      if (::getppid() == program) here.run();
    } catch (const std::bad_alloc&) {
      ::_exit(1);  // this ends the sandboxes, and their owners learn of it
    }
    for (const child& one : here.children_) end(one.process);
    for (const spare& one : here.spares_) end(one.process);
    for (;;) ::_exit(0);
  }

 private:
  static constexpr int kept = 3;  // the only file: of a zygote its orders, of a spare the one that it waits for

  // From an order until a spare is forked. Sandboxes that are made one after another need all processors for
  // themselves: each would wait for the spare that is in the making.
  static constexpr std::chrono::milliseconds quiet{5};

  struct child {
    pid_t process;
    owned_file handle;  // readable once it has ended
    message_socket news;
  };
  struct spare {
    pid_t process;
    owned_file handle;
    message_socket order;
    launch_plan plan;  // that it is prepared for
  };
  using two_files = std::array<owned_file, message_socket::most_files>;

  // Done once for all insides: creating a network takes time, and so does listing the mappings.
  nursery(pid_t program, std::size_t spares) noexcept
      : orders_(kept),
        program_(static_cast<int>(::syscall(SYS_pidfd_open, program, 0))),
        most_spares_(spares),
        settled_(launch::settle() == 0),
        name_spaces_error_(launch::enter_name_spaces()) {
    launch::forbid_capabilities();
  }

  static void keep_only(int file) noexcept {
    ::dup3(file, kept, O_CLOEXEC);
    for (int other = 0; other < kept; ++other) ::close(other);
    ::syscall(SYS_close_range, kept + 1, ~0U, 0);
  }
  static void end(pid_t process) noexcept {
    ::kill(process, SIGKILL);  // it has not been reaped yet
    ::waitpid(process, nullptr, 0);
  }

  void run() {
    for (;;) {
      std::vector<pollfd> waits{{orders_.get(), POLLIN, 0}};
      for (const spare& one : spares_) waits.push_back({one.handle.get(), POLLIN, 0});
      for (const child& one : children_) {
        waits.push_back({one.handle.get(), POLLIN, 0});
        waits.push_back({one.news.get(), 0, 0});
      }
      waits.push_back({program_.get(), POLLIN, 0});
      const bool wants = want_spares_ && spares_.size() < most_spares_;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(spares_from_ - deadline_clock::now()).count();
      const int ready = ::poll(waits.data(), waits.size(), !wants ? -1 : left > 0 ? static_cast<int>(left) : 0);
      if (ready < 0 && errno != EINTR) return;
      if (ready == 0 && left <= 0) want_spares_ = make_spare();
      if (ready <= 0) continue;
      look_at_children(waits.data() + 1 + spares_.size());
      look_at_spares(waits.data() + 1);
      if (waits.back().revents != 0) return;
      if (waits[0].revents != 0 && !take_order()) return;
    }
  }
  void look_at_children(const pollfd* found) {
    for (std::size_t i = children_.size(); i-- > 0;) {
      if (found[2 * i].revents != 0) {
        tell_end(children_[i]);
        children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (found[2 * i + 1].revents != 0) {
        // Its sandbox does not know of it, or has forgotten it.
        ::kill(children_[i].process, SIGKILL);
        children_[i].news = message_socket(-1);
      }
    }
  }
  void look_at_spares(const pollfd* found) {
    for (std::size_t i = spares_.size(); i-- > 0;)
      if (found[i].revents != 0) {
        end(spares_[i].process);
        spares_.erase(spares_.begin() + static_cast<std::ptrdiff_t>(i));
        want_spares_ = false;  // the next one might end in the same way
      }
  }

  /// Returns false if the program has ended.
  bool take_order() {
    launch_plan plan;
    two_files files{owned_file(-1), owned_file(-1)};
    if (!orders_.receive(plan, files)) return false;
    message_socket news(files[1].release());
    if (news.deserted()) return true;  // its sandbox has not waited so long
    plan.parent = ::getpid();
    plan.name_spaces_error = name_spaces_error_;
    plan.settled = settled_;
    children_.reserve(children_.size() + 1);
    child made = take_spare(plan, files[0]);
    if (made.process < 0) made = fork_now(plan, files[0]);
    news.send(zygote_news{made.process, 0, 0, false}, {made.handle.get()});
    if (made.process < 0) return true;
    made.news = std::move(news);
    children_.push_back(std::move(made));
    want_spares_ = plan.is_like(last_);
    last_ = plan;
    spares_from_ = deadline_clock::now() + quiet;
    if (want_spares_) drop_spares_unlike(plan);
    return true;
  }
  /// Gives the order to a spare that is prepared for it. Returns no process if there is none.
  child take_spare(const launch_plan& plan, const owned_file& arena) {
    for (std::size_t i = spares_.size(); i-- > 0;) {
      if (!plan.is_like(spares_[i].plan)) continue;
      spare one = std::move(spares_[i]);
      spares_.erase(spares_.begin() + static_cast<std::ptrdiff_t>(i));
      if (one.order.send(plan, {arena.get()})) return {one.process, std::move(one.handle), message_socket(-1)};
      end(one.process);
    }
    return {-1, owned_file(-1), message_socket(-1)};
  }
  /// Returns the process, or a negative error number.
  static child fork_now(const launch_plan& plan, const owned_file& arena) {
    void* const at = ::mmap(nullptr, plan.arena.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, arena.get(), 0);
    if (at == MAP_FAILED) return {-errno, owned_file(-1), message_socket(-1)};
    launch::keep_stacks(plan);
    const pid_t process = ::fork();
    if (process == 0) launch::become_inside(plan, static_cast<unsigned char*>(at));
    const int error = errno;
    ::munmap(at, plan.arena.bytes());
    if (process < 0) return {-error, owned_file(-1), message_socket(-1)};
    return with_handle(process);
  }
  static child with_handle(pid_t process) noexcept {
    owned_file handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    const int error = errno;
    if (handle.get() >= 0) return {process, std::move(handle), message_socket(-1)};
    end(process);
    return {-error, owned_file(-1), message_socket(-1)};
  }

  /// Forks a spare for orders like the last one. Returns false if there can be none.
  bool make_spare() {
    spares_.reserve(most_spares_);
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
    message_socket order(ends[0]);
    const owned_file other(ends[1]);
    launch::keep_stacks(last_);
    const pid_t process = ::fork();
    if (process == 0) be_spare(other.get(), last_);
    if (process < 0) return false;
    child made = with_handle(process);
    if (made.process < 0) return false;
    spares_.push_back({made.process, std::move(made.handle), std::move(order), last_});
    return true;
  }
  void drop_spares_unlike(const launch_plan& plan) noexcept {
    for (std::size_t i = spares_.size(); i-- > 0;)
      if (!plan.is_like(spares_[i].plan)) {
        end(spares_[i].process);
        spares_.erase(spares_.begin() + static_cast<std::ptrdiff_t>(i));
      }
  }

  // --- In a spare.

  [[noreturn]] static void be_spare(int order_end, const launch_plan& likely) noexcept {
    keep_only(order_end);
    // Private memory where the arena will be.
    void* const at = ::mmap(nullptr, likely.arena.bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) ::_exit(1);
    launch::become_inside(likely, static_cast<unsigned char*>(at), nullptr, await_order);
  }
  /// Waits for the plan, and maps its arena. Returns false if none comes.
  static bool await_order(launch_plan& plan, unsigned char* arena) noexcept {
    two_files files{owned_file(-1), owned_file(-1)};
    return message_socket(kept).receive(plan, files) && ::mmap(arena, plan.arena.bytes(), PROT_READ | PROT_WRITE,
                                                               MAP_SHARED | MAP_FIXED, files[0].get(), 0) == arena;
  }

  // --- In the zygote.

  static void tell_end(const child& one) noexcept {
    zygote_news news{one.process, 0, 0, false};
    rusage used{};
    news.known = ::wait4(one.process, &news.status, 0, &used) == one.process;
    constexpr std::uint64_t in_a_second = 1'000'000;
    news.microseconds = static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * in_a_second +
                        static_cast<std::uint64_t>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    one.news.send(news);
  }

  const message_socket orders_;
  const owned_file program_;  // readable once it has ended; children of it may keep the other end of orders_ open
  const std::size_t most_spares_;
  const bool settled_;
  const int name_spaces_error_;
  std::vector<child> children_;
  std::vector<spare> spares_;
  launch_plan last_;
  bool want_spares_ = false;
  deadline spares_from_;
};

}  // namespace muster::inline MUSTER_ABI::detail
