// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// launch.hpp: turns a new process into the inside of a sandbox, and then runs its jobs.
//
// Before the wall, in this order: the process is set to die with its parent; signal handlers, special priority and
// memory shared by the program with others are removed; everything that needs memory is created; memory, processor time
// and all other kernel resources are limited; all files are closed; Landlock forbids all files, and new name spaces
// contain no network and no System V IPC, where the kernel supports these; all capabilities are given up. Then the wall
// is raised.
// Layers     the wall is mandatory: without it there is no sandbox. The others are second lines; arena_head tells the
//            outside which of them exist.
// Jobs       run on fibers, so they overlap while they wait.
// Source     ours.
#pragma once

#include <muster/base/detail/asymmetric_fence.hpp>  // join_heavy_fences
#include <muster/base/detail/exception.hpp>         // capture_exception
#include <muster/base/detail/process.hpp>           // read_start
#include <muster/base/detail/scope_exit.hpp>        // scope_exit
#include <muster/base/detail/time.hpp>              // the clock
#include <muster/fiber/fiber.hpp>                   // fiber
#include <muster/syscall/detail/program.hpp>        // program
#include <muster/syscall/detail/trap.hpp>           // trap
#include <muster/syscall/detail/wall.hpp>           // wall
#include <muster/syscall/inside.hpp>                // inside

#include <linux/capability.h>  // __user_cap_header_struct
#include <linux/landlock.h>    // landlock_ruleset_attr
#include <sched.h>             // unshare
#include <sys/prctl.h>         // prctl
#include <sys/resource.h>      // setrlimit
#include <sys/syscall.h>       // SYS_close_range

#include <algorithm>  // std::min
#include <array>      // the result of a job
#include <bit>        // std::bit_cast
#include <charconv>   // std::from_chars
#include <cstddef>    // std::byte
#include <cstdint>    // std::uint32_t
#include <cstdio>     // the mappings
#include <cstring>    // std::strchr
#include <exception>  // the exception of a job
#include <span>       // windows
#include <utility>    // std::pair
#include <vector>     // fibers

namespace muster::inline MUSTER_ABI::detail {

/// The step of creating an inside, for the error message.
enum class launch_step : std::uint32_t { none, orphan, sharing, limits, files, memory, handler, wall, program };

inline const char* what_failed(launch_step step) noexcept {
  switch (step) {
    case launch_step::orphan: return "its parent has ended";
    case launch_step::sharing:
      return "/proc/self/maps, which lists the memory that it shares with others, cannot be read; mount /proc";
    case launch_step::limits: return "setrlimit(2) fails in it";
    case launch_step::files:
      return "close_range(2) fails in it, so its files stay open; it needs Linux 5.9 or newer, and a container must "
             "allow it";
    case launch_step::memory: return "there is not enough memory for it";
    case launch_step::handler: return "sigaction(2) fails for its handler of SIGSYS";
    case launch_step::wall:
      return "its filter of system calls cannot be installed: the kernel must be built with seccomp filters, and a "
             "container must allow seccomp(2)";
    case launch_step::program: return "its program cannot be loaded";
    case launch_step::none: break;
  }
  return "it ended before it was ready";
}

/// A second line behind the wall; its error is stored if it is missing.
enum class layer : std::uint32_t { landlock, name_spaces, capabilities };
inline constexpr std::uint32_t layers = 3;

/// The description of an inside. Trivially copyable: it may travel to the process that creates it.
struct launch_plan {
  arena_plan arena;
  std::uint64_t stack_bytes = 0;   // of a job's fiber
  std::uint64_t memory_bytes = 0;  // beyond the initial size; 0: none
  std::uint64_t seconds = 0;       // of processor time; 0: no limit
  std::int32_t parent = 0;         // its process id
  bool executable = false;         // memory may be
  bool name_spaces = true;
  std::int32_t name_spaces_error = -1;  // of the parent, which has entered them for its children; -1: it has not
  bool settled = false;                 // the parent has called launch::settle()

  /// True if a process that was prepared for one can become the inside of the other.
  bool is_like(const launch_plan& other) const noexcept {
    return arena == other.arena && stack_bytes == other.stack_bytes &&
           (memory_bytes != 0) == (other.memory_bytes != 0) && executable == other.executable &&
           name_spaces == other.name_spaces;
  }
};

/// The entry of a job: called with its closure and room for its result.
using job_function = void (*)(muster::inside&, std::span<std::byte> window, const void* closure, void* result);

class launch {
 public:
  /// Waits until an inside is wanted, changes the plan to one that is like it, and maps its arena at the address.
  using order = bool (*)(launch_plan&, unsigned char* arena) noexcept;

  /// Call in a new process with one thread; never returns. With an order, `arena` is memory that the arena replaces.
  [[noreturn]] static void become_inside(const launch_plan& plan, unsigned char* arena,
                                         program* instead_of_jobs = nullptr, order ordered = nullptr) noexcept {
    launch here(plan, arena_map(plan.arena, arena), instead_of_jobs);
    try {
      here.leave_behind();
      here.prepare();
      if (ordered != nullptr && !ordered(here.plan_, arena)) ::_exit(1);
      here.shut();
      here.live();
    } catch (const std::bad_alloc&) {
      here.fail(launch_step::memory, ENOMEM);
    } catch (const std::exception&) {
      here.fail(here.step_, errno);
    }
  }

  /// Removes signal handlers, priority and the memory that the program shares with others, except `own`, from the
  /// calling process and its future children. Afterwards, all one-time lookups have been made. Returns 0 or an error
  /// number; after an error each child must settle by itself.
  static int settle(std::uintptr_t own = 0, std::uintptr_t own_end = 0) noexcept {
    for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);  // two of them cannot have handlers
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    // A real-time policy is given up. One below the usual is kept: the inside does not get more than its maker has.
    if (const int now = ::sched_getscheduler(0) & ~SCHED_RESET_ON_FORK; now != SCHED_BATCH && now != SCHED_IDLE) {
      const sched_param usual{};
      ::sched_setscheduler(0, SCHED_OTHER, &usual);
    }
    // The wall would trap the system calls of these lookups.
    try {
      throw 0;
    } catch (int) {  // NOLINT(bugprone-empty-catch)
    }
    static_cast<void>(std::chrono::steady_clock::now());
    try {
      return hide_shared_memory(own, own_end);
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
  }
  /// Maps stacks for the jobs of the children, and leaves them in the pool.
  static void keep_stacks(const launch_plan& plan) noexcept {
    std::vector<stack_memory> taken;
    try {
      taken.reserve(plan.arena.jobs);
      while (taken.size() < plan.arena.jobs) taken.push_back(stack_pool::shared().take({.size = plan.stack_bytes}));
    } catch (const std::exception&) {  // the inside fails likewise and reports it
      static_cast<void>(capture_exception());
    }
    for (const stack_memory& one : taken) stack_pool::shared().give_back(one);
  }

  /// Forbids the calling process and its future children to get capabilities that they do not have, which only the
  /// execution of a program could give, if the process may do this: otherwise it has none. After enter_name_spaces(),
  /// which allows them all.
  static void forbid_capabilities() noexcept {
    int is_allowed = 0;
    for (unsigned long one = 0; (is_allowed = ::prctl(PR_CAPBSET_READ, one, 0, 0, 0)) >= 0; ++one)
      if (is_allowed == 1) ::prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
  }
  /// Hides the network and System V IPC from the calling process and its future children. Returns 0 or an error number.
  static int enter_name_spaces() noexcept {
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) == 0 ? 0 : errno;
  }

 private:
  launch(const launch_plan& plan, const arena_map& at, program* instead_of_jobs) noexcept
      : plan_(plan), at_(at), program_(instead_of_jobs), to_outside_(at.head().to_outside) {}

  [[noreturn]] void fail(launch_step step, int error) const noexcept {
    at_.head().error.store(error, std::memory_order_relaxed);
    at_.head().step.store(static_cast<std::uint32_t>(step), std::memory_order_relaxed);
    arrive(inside_stage::failed);
    for (;;) ::_exit(1);
  }
  void arrive(inside_stage stage) const noexcept {
    // (1) release: pairs with sandbox.hpp (1). All earlier reports are visible with the stage.
    at_.head().stage.store(static_cast<std::uint32_t>(stage), std::memory_order_release);
    to_outside_.wake();
  }

  void leave_behind() {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != plan_.parent) fail(launch_step::orphan, ESRCH);
    if (plan_.settled) return;
    const auto own = reinterpret_cast<std::uintptr_t>(&at_.head());
    if (const int error = settle(own, own + plan_.arena.bytes()); error != 0) fail(launch_step::sharing, error);
  }

  /// Replaces all shared memory by inaccessible pages: writable file mappings, memory of other sandboxes, kernel
  /// queues. Leaves out mappings that begin in [own, own_end). Returns 0 or an error number.
  static int hide_shared_memory(std::uintptr_t own, std::uintptr_t own_end) {
    std::FILE* const maps = std::fopen("/proc/self/maps", "re");
    if (maps == nullptr) return errno;
    const scope_exit closed([maps] { std::fclose(maps); });
    std::vector<std::pair<std::uintptr_t, std::size_t>> shared;
    std::array<char, 512> line{};
    bool begins = true;  // at the start of a line; a long line comes in pieces
    while (std::fgets(line.data(), line.size(), maps) != nullptr) {
      unsigned long start = 0, end = 0;
      std::array<char, 5> how{};
      if (begins && std::sscanf(line.data(), "%lx-%lx %4s", &start, &end, how.data()) != 3) return EINVAL;
      if (begins && how[3] == 's' && (start < own || start >= own_end)) shared.emplace_back(start, end - start);
      begins = std::strchr(line.data(), '\n') != nullptr;
    }
    for (const auto& [start, size] : shared)
      if (::mmap(std::bit_cast<void*>(start), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                 -1, 0) == MAP_FAILED)
        return errno;
    return 0;
  }

  /// After everything that needs memory has been created.
  void shut() {
    step_ = launch_step::limits;
    set_limits();
    if (::syscall(SYS_close_range, 0, ~0U, 0) != 0) fail(launch_step::files, errno);
    note(layer::landlock, allow_no_file());
    if (plan_.name_spaces)
      note(layer::name_spaces, plan_.name_spaces_error >= 0 ? plan_.name_spaces_error : enter_name_spaces());
    note(layer::capabilities, give_up_capabilities());
  }

  /// All of them: in a user name space of its own they would be worth little, without one much. Returns 0 or an error
  /// number. No call that needs one passes the wall; this is a second line.
  static int give_up_capabilities() noexcept {
    forbid_capabilities();
    ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
    return ::syscall(SYS_capset, &header, none.data()) == 0 ? 0 : errno;
  }

  /// `error` is 0 or an error number.
  void note(layer which, int error) const noexcept {
    at_.head().layer_errors[static_cast<std::size_t>(which)].store(error, std::memory_order_relaxed);
  }

  void set_limits() const {
    const auto limit = [this](int what, rlim_t most) {
      rlimit both{};
      ::getrlimit(static_cast<decltype(RLIMIT_AS)>(what), &both);
      both.rlim_cur = both.rlim_max = std::min(most, both.rlim_max);  // the existing limit may be lower
      if (::setrlimit(static_cast<decltype(RLIMIT_AS)>(what), &both) != 0) fail(launch_step::limits, errno);
    };
    const sizes now = sizes_now();
    // The stack of the program's first thread, unused here, could otherwise grow.
    for (const int what : {RLIMIT_CORE, RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_STACK,
                           RLIMIT_NICE, RLIMIT_RTPRIO})
      limit(what, 0);
    if (plan_.seconds != 0) limit(RLIMIT_CPU, plan_.seconds);
    // Limit the address space too: memory that is no longer writable does not count as data, but still exists.
    limit(RLIMIT_DATA, now.data + plan_.memory_bytes);
    limit(RLIMIT_AS, now.all + plan_.memory_bytes);
  }
  struct sizes {
    rlim_t all = 0, data = 0;
  };
  static sizes sizes_now() noexcept {
    std::array<char, 256> text;
    const std::string_view found = read_start("/proc/self/statm", text);
    std::array<rlim_t, 7> pages{};
    const char* at = found.data();
    for (rlim_t& one : pages) {
      const auto [end, error] = std::from_chars(at, found.data() + found.size(), one);
      if (error != std::errc()) break;
      at = end + 1;
    }
    const auto page = static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
    return {pages[0] * page, pages[5] * page};  // the sixth is data and stack together
  }

  /// Asks to be killed first if memory runs out. A second line; containers need not support it.
  static void be_killed_first() noexcept {
    const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    constexpr std::string_view most = "1000";
    static_cast<void>(file >= 0 && ::write(file, most.data(), most.size()) < 0);
  }

  static int allow_no_file() noexcept {
    // The kernel's numbers, written out because Debian's headers may be older than the kernel.
    constexpr long create_ruleset = 444, restrict_self = 446;
    struct {
      std::uint64_t files, network, scopes;
    } handled{};
    const long version = ::syscall(create_ruleset, nullptr, 0, 1);
    if (version < 1) return errno;
    handled.files = version >= 5 ? 0xffff : version >= 3 ? 0x7fff : version == 2 ? 0x3fff : 0x1fff;
    if (version >= 4) handled.network = 3;
    if (version >= 6) handled.scopes = 3;
    const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    const int rules = static_cast<int>(::syscall(create_ruleset, &handled, size, 0));
    if (rules < 0) return errno;
    const int error = ::syscall(restrict_self, rules, 0) == 0 ? 0 : errno;
    ::close(rules);
    return error;
  }
  void prepare() {
    step_ = launch_step::memory;
    if (program_ != nullptr && !program_->reserve_stack()) fail(launch_step::memory, errno);
    calls_ = new muster::inside(at_);  // neither is ever destroyed
    trap_ = new trap(*calls_, plan_.memory_bytes != 0, program_ != nullptr ? program_->directory() : "/");
    runners_.reserve(plan_.arena.jobs);
    for (std::uint32_t i = 0; program_ == nullptr && i < plan_.arena.jobs; ++i)
      runners_.emplace_back(stack_options{.size = plan_.stack_bytes}, [this, i] { run_jobs(*calls_, i); });
    stack_pool::shared().trim();  // spare stacks would count as memory beyond the limit
    wall allowed = wall::pure();
    if (plan_.memory_bytes != 0) allowed.with_memory(plan_.executable);
    if (program_ != nullptr) allowed.with_program();
    // Signals to itself, which end the process in abort().
    allowed.with(SYS_tgkill, {{0, ~std::uint32_t{0}, {static_cast<std::uint32_t>(::getpid())}}});
    code_ = allowed.compiled(wall::refusal::trap);
    thread_pointer::prepare();
    if (!trap::listen(program_ != nullptr)) fail(launch_step::handler, errno);
    be_killed_first();
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    join_heavy_fences(futex_scope::process);  // for the jobs; if it is missing, it was missing in the parent
  }

  [[noreturn]] void live() {
    step_ = launch_step::wall;
    wall::raise(code_);
    arrive(inside_stage::ready);
    if (program_ != nullptr) fail(launch_step::program, program_->execute(trap::expect_another_program));
    for (;;) runners_.front().join();
  }

  /// Runs the jobs of one place, one after another.
  [[noreturn]] void run_jobs(muster::inside& calls, std::uint32_t number) noexcept {
    job_slot& slot = at_.jobs()[number];
    const std::span<std::byte> window(at_.data() + plan_.arena.window_of(number), plan_.arena.window_bytes);
    doorbell& mine = at_.head().to_inside;
    for (std::uint64_t done = 0;;) {
      // (2) acquire: pairs with sandbox.hpp (2).
      const auto ready = [&] { return slot.given.load(std::memory_order_acquire) != done; };
      mine.await(at_.head().to_outside, processor_now(), spins_, ready, no_deadline);
      run_one(calls, slot, window);
      done = slot.given.load(std::memory_order_relaxed);
      // (3) release: pairs with sandbox.hpp (3).
      slot.done.store(done, std::memory_order_release);
      to_outside_.ring();
    }
  }
  static void run_one(muster::inside& calls, job_slot& slot, std::span<std::byte> window) noexcept {
    alignas(std::max_align_t) std::array<std::byte, job_slot::closure_bytes> closure;
    alignas(std::max_align_t) std::array<std::byte, job_slot::result_bytes> result{};
    get_words(closure.data(), slot.closure, closure.size());
    slot.threw.store(0, std::memory_order_relaxed);
    const auto threw = [&slot](std::string_view what) {
      std::array<char, job_slot::message_bytes> text{};
      std::memcpy(text.data(), what.data(), std::min(what.size(), text.size() - 1));
      put_words(slot.message, text.data(), text.size());
      slot.threw.store(1, std::memory_order_relaxed);
    };
    try {
      const auto function = std::bit_cast<job_function>(slot.function.load(std::memory_order_relaxed));
      function(calls, window, closure.data(), result.data());
    } catch (const std::exception& error) {
      threw(error.what());
    } catch (...) {
      threw("something that is no std::exception");
    }
    put_words(slot.result, result.data(), result.size());
  }

  launch_plan plan_;
  const arena_map at_;
  program* const program_;
  doorbell& to_outside_;
  spin_extension spins_;
  launch_step step_ = launch_step::none;
  muster::inside* calls_ = nullptr;
  trap* trap_ = nullptr;
  std::vector<fiber> runners_;
  std::vector<sock_filter> code_;
};

}  // namespace muster::inline MUSTER_ABI::detail
