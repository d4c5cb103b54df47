// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// sandbox.hpp: runs untrusted code in a process of its own, which makes no system calls. The code computes, and asks a
// broker for everything else; the broker executes what a policy allows.
//
// Jobs       functions of this program, with trivially copyable arguments. They see a copy of the memory of the program
//            as it was when the sandbox was created, and change only that copy. Memory that the program shares with
//            others (MAP_SHARED) is not in it. Several jobs may run at once: each runs on a fiber of the only thread of
//            the sandboxed process (the inside), and others run while it waits for a call. A job's library must have
//            been loaded before.
// Window     memory shared by a job and its caller, for input and output. All jobs of a sandbox can read and change all
//            windows at any time, even after they have ended: copy data before you check it.
// Results    are bytes from untrusted code: check them before you use them.
// Progress   run() returns when the job or the inside has ended. A job that never ends is ended by stop(), or by the
//            policy's time limit.
// Threads    several threads may use a sandbox at once. A thread that begins more jobs than there are places, and takes
//            no results, waits forever. A job object may outlive its sandbox, which stops the job; its window and its
//            result remain valid.
// Ends       the sandboxed process (the inside) ends with the program, with the sandbox object, or by its own fault,
//            and all its jobs end with it; their results name the reason. Its memory is released at once, the threads
//            of the broker end in stop() or the sandbox's destructor, and the destructor closes the files that jobs
//            have opened.
// Cost       a process, one thread that waits for its end, the threads of the broker (one by default), which mostly
//            sleep, and the touched pages of windows.
// Errors     the constructor throws std::invalid_argument for wrong options, and std::system_error, which names the
//            cause, if the kernel lacks something without which there is no sandbox. missing_layers() names the
//            additional layers of protection (Landlock, namespaces, capabilities given up) that the kernel lacks.
// Source     ours; calls travel as in Arnautov, Felber, Fetzer and Trach, "FFQ", IPDPS 2017.
#pragma once

#include <muster/base/detail/process.hpp>        // process_generation
#include <muster/base/detail/shared_object.hpp>  // pin_shared_object
#include <muster/base/detail/time.hpp>           // waiting
#include <muster/syscall/broker.hpp>             // broker
#include <muster/syscall/detail/launch.hpp>      // launch
#include <muster/syscall/policy.hpp>             // policy
#include <muster/syscall/zygote.hpp>             // zygote

#include <sys/resource.h>  // rusage
#include <sys/syscall.h>   // SYS_pidfd_open
#include <sys/wait.h>      // wait4

#include <algorithm>           // std::min
#include <array>               // messages, results
#include <condition_variable>  // a free place
#include <csignal>             // SIGKILL
#include <cstddef>             // std::byte
#include <cstdint>             // std::uint64_t
#include <cstring>             // strsignal
#include <ctime>               // clock_getcpuclockid
#include <functional>          // std::function
#include <memory>              // std::unique_ptr
#include <mutex>               // places for jobs
#include <optional>            // a value
#include <span>                // windows
#include <stdexcept>           // std::invalid_argument
#include <string>              // messages
#include <system_error>        // std::system_error
#include <thread>              // the keeper
#include <type_traits>         // std::is_trivially_copyable_v
#include <utility>             // std::exchange
#include <variant>             // std::monostate
#include <vector>              // places

namespace muster::inline MUSTER_ABI {

/// Options of a sandbox. docs/contracts/syscall.md has the bounds.
struct sandbox_options {
  unsigned jobs = 8;                                 ///< at once; further ones wait for a place
  unsigned calls = 64;                               ///< that jobs may have in flight at once
  std::size_t window_bytes = std::size_t{1} << 20U;  ///< of each job; memory once touched
  std::size_t stack_bytes = std::size_t{1} << 20U;   ///< of each job
  unsigned broker_threads = 1;                       ///< use more if calls wait for the network
  bool standard_streams = false;                     ///< handles 0, 1 and 2 are copies of this program's
  bool name_spaces = true;                           ///< no network and no System V IPC, if the kernel can
  std::function<void(const sandbox_refusal&)>
      on_refusal{};  ///< called by a broker thread; a repeated refusal is reported rarely
};

/// Another program, to run in a sandbox.
struct sandbox_program {
  std::string path;                      ///< absolute, and readable by the policy
  std::vector<std::string> arguments;    ///< the first is the program's name
  std::vector<std::string> environment;  ///< `NAME=value`; nothing else is passed on
  std::string directory = "/";           ///< the initial one; absolute, without `.`, `..` and links
};

/// Specialise as true for a structure that a job returns, if every pattern of bytes is a valid value of it: the inside
/// chooses the bytes. Its members are numbers, enumerations, arrays of them, or structures of this kind; none is a
/// bool, a pointer, a reference, or a class that relies on its members (a view, an iterator, std::optional,
/// std::variant).
template <class T>
inline constexpr bool any_bytes_are_valid = false;

namespace detail {

template <class T>
struct array_of {
  using element = std::remove_extent_t<T>;
  static constexpr bool is = std::is_array_v<T>;
};
template <class T, std::size_t n>
struct array_of<std::array<T, n>> {
  using element = T;
  static constexpr bool is = true;
};

/// True if every pattern of bytes is a value of the type. An enumeration qualifies if its underlying type is fixed:
/// then values without a name are valid, too. (The test is that a number in braces can initialize it.)
template <class T>
consteval bool is_valid_in_any_bytes() {
  if constexpr (std::is_const_v<T> || std::is_volatile_v<T>) return is_valid_in_any_bytes<std::remove_cv_t<T>>();
  else if constexpr (any_bytes_are_valid<T>) return true;
  else if constexpr (array_of<T>::is) return is_valid_in_any_bytes<typename array_of<T>::element>();
  else if constexpr (std::is_enum_v<T>) return requires { T{0}; } && is_valid_in_any_bytes<std::underlying_type_t<T>>();
  else return std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
}

/// As above; also a bool, which get() reads as a byte.
template <class T>
consteval bool may_come_from_inside() {
  return std::is_same_v<T, bool> || std::is_same_v<T, std::monostate> || is_valid_in_any_bytes<T>();
}

}  // namespace detail

/// How an inside has ended.
struct sandbox_end {
  /// The ways in which an inside ends.
  enum class reason {
    running,      ///< it has not ended
    exited,       ///< on its own; `code` is its status
    by_signal,    ///< `code` is the signal: a fault of the code, or SIGSYS for a call that is never allowed
    out_of_time,  ///< by the policy's limit on the inside's and its broker's processor time
    refused,      ///< by the policy, for a call that is not allowed
    stopped,      ///< by stop(), or the destructor
    not_loaded,   ///< the other program could not be loaded; `code` is the error number
    unknown,      ///< its status was lost: the program ignores SIGCHLD or waits for any child, or the zygote ended
  };
  reason why = reason::running;  ///< the way in which it has ended
  int code = 0;                  ///< depends on `why`

  /// A sentence about it, for messages.
  std::string text() const;

 private:
  std::string name_of_signal() const {
    switch (code) {
      case SIGSEGV: return "SIGSEGV, an access to memory that is not there";
      case SIGABRT: return "SIGABRT, by itself";
      case SIGBUS: return "SIGBUS";
      case SIGFPE: return "SIGFPE, wrong arithmetic";
      case SIGILL: return "SIGILL, an instruction that does not exist";
      case SIGKILL: return "SIGKILL, from outside or for want of memory";
      case SIGSYS: return "SIGSYS, a system call that is never allowed";
      case SIGTRAP: return "SIGTRAP";
      default: return "signal " + std::to_string(code);
    }
  }
  const char* advice_to_load() const noexcept {
    switch (code) {
      case EPERM: return "allow it and its loader to be read, as in: read /usr";
      case EACCES:
        return "allow its memory to be executed, as in: memory 256M executable; and its file must be readable";
      case ENOMEM: return "allow it more memory, as in: memory 256M executable";
      case ENOENT: return "it, or the loader that it names, does not exist";
      case E2BIG: return "its arguments and its environment are too long";
      default:
        return "it and its loader must be ELF files of this machine; for a script, name the program that executes it";
    }
  }
};

inline std::string sandbox_end::text() const {
  switch (why) {
    case reason::running: return "the sandbox is running";
    case reason::exited: return "the code in the sandbox has ended its process with status " + std::to_string(code);
    case reason::by_signal: return std::string("the code in the sandbox has ended by ") + name_of_signal();
    case reason::out_of_time: return "the code in the sandbox has used the processor time that its policy allows";
    case reason::refused: return "the code in the sandbox has made a call that its policy ends it for";
    case reason::stopped: return "the sandbox has been stopped";
    case reason::not_loaded:
      return "the program for the sandbox cannot be loaded: " + std::generic_category().message(code) + "; " +
             advice_to_load();
    case reason::unknown: break;
  }
  return "the sandbox has ended, and its status is unknown: another part of the program has collected it, or its "
         "zygote has ended or is stopped; do not ignore SIGCHLD, and let no thread wait for any child";
}

/// Thrown if a job has no result.
class sandbox_error : public std::runtime_error {
 public:
  /// With a message, and how the inside has ended.
  sandbox_error(const std::string& what, const sandbox_end& how) : std::runtime_error(what), end_(how) {}
  /// How the inside has ended; `running` if only the job threw.
  const sandbox_end& end() const noexcept { return end_; }

 private:
  sandbox_end end_;
};

/// The result of a job, or the reason why there is none.
template <class T>
class sandbox_result {
 public:
  /// A value.
  explicit sandbox_result(T value) : value_(std::move(value)) {}
  /// No value, and why.
  sandbox_result(std::string why, const sandbox_end& how) : why_(std::move(why)), end_(how) {}

  /// Returns true if there is a value.
  explicit operator bool() const noexcept { return value_.has_value(); }
  /// Throws sandbox_error if there is no value.
  const T& value() const {
    if (!value_) throw sandbox_error(why_, end_);
    return *value_;
  }
  /// Why there is no value: the job's exception (the text comes from the sandbox), or how the inside has ended.
  const std::string& why() const noexcept { return why_; }
  /// How the inside has ended; `running` if only the job threw.
  const sandbox_end& end() const noexcept { return end_; }

 private:
  std::optional<T> value_;
  std::string why_;
  sandbox_end end_;
};

class sandbox {
 public:
  /// A job that has been submitted.
  template <class T>
  class job;

  /// A sandbox for jobs, whose inside begins as a copy of this process. Throws std::invalid_argument for an option out
  /// of bounds, and std::system_error if the kernel lacks a feature.
  explicit sandbox(policy rules, sandbox_options options = {})
      : sandbox(std::move(rules), std::move(options), {}, nullptr) {}
  /// The zygote creates the inside, a copy of itself, and must outlive this object.
  sandbox(zygote& from, policy rules, sandbox_options options = {})
      : sandbox(std::move(rules), std::move(options), {}, &from) {}
  /// Runs another program instead of jobs, with the arguments after its own name. The policy must allow reading its
  /// file, its interpreter and its libraries, and executing memory. end() and wait() report how it ended.
  sandbox(policy rules, sandbox_program program, sandbox_options options = {})
      : sandbox(std::move(rules), std::move(options), std::optional(std::move(program)), nullptr) {}
  /// Stops the inside. In a child of fork(2), where this is a copy, it stops nothing.
  ~sandbox();
  sandbox(const sandbox&) = delete;
  sandbox& operator=(const sandbox&) = delete;

  /// Calls function(inside&, window) or function(inside&) in the sandbox, and returns its result. Waits for a place if
  /// all are taken.
  template <class F>
  auto run(const F& function) {
    return submit(function).get();
  }
  /// Starts the job and returns. `input` is copied to the beginning of the window.
  template <class F>
  auto submit(const F& function, std::span<const std::byte> input = {});

  /// Waits until the inside has ended.
  sandbox_end wait();
  /// Kills the inside, and waits until it has ended and its calls in flight are over. Must not be called from
  /// on_refusal. Throws std::system_error (EPERM) if the program may no longer kill the inside: it has given up the
  /// user ids with which the inside runs, or a filter forbids pidfd_send_signal(2); and no zygote can do it. Then the
  /// inside runs until it reaches its limits.
  sandbox_end stop();
  /// Returns how the inside has ended, or that it is running.
  sandbox_end end() const;
  /// The calls of the inside so far.
  sandbox_usage usage() const { return broker_->usage(); }
  /// Returns the additional layers of protection that the kernel lacks, each with the reason; empty if all are present.
  std::vector<std::string> missing_layers() const;
  /// The id of the inside's process, for debuggers and the like.
  int process() const noexcept { return process_; }

 private:
  struct state;
  /// For a child of fork(2). Threads of the parent may have held the mutex or waited for the condition variable, so the
  /// child must not destroy the state.
  static void leave_to_parent(std::shared_ptr<state> of) noexcept {
    new (std::nothrow) std::shared_ptr<state>(std::move(of));
  }

  sandbox(policy rules, sandbox_options options, std::optional<sandbox_program> program, zygote* from);
  static detail::arena_plan plan_of(const sandbox_options& o);
  void keep(const detail::launch_plan& plan, detail::program* instead_of_jobs);
  void keep_by(zygote& from, const detail::launch_plan& plan);
  void keep_news(int socket) noexcept;
  bool await_report(const detail::message_socket& news, const detail::launch_plan& plan,
                    deadline_clock::duration patience);
  void await_end(const detail::launch_plan& plan, int news) noexcept;
  std::chrono::nanoseconds processor_time() const noexcept;
  void note_begin(int process, detail::owned_file handle, int error);
  void note_end(int status, bool known, bool out_of_time);
  void await_start(std::chrono::milliseconds patience);
  std::uint32_t take_place();
  void kill(sandbox_end::reason why) noexcept;
  bool try_stop() noexcept;
  void end_or_fail() noexcept;
  /// The error number reported by the inside; 0 for a sandbox with jobs.
  int not_loaded() const noexcept;

  const policy rules_;
  const std::shared_ptr<state> state_;
  const std::function<void(const sandbox_refusal&)> on_refusal_;
  std::mutex stopping_;
  std::optional<sandbox_end::reason> killed_for_;
  std::array<int, detail::layers> layer_errors_{};  // as they were before a job began
  const unsigned made_in_ = process_generation();
  int fork_error_ = 0;
  int process_ = 0;
  detail::owned_file handle_{-1};  // of the process
  int news_ = -1;                  // socket to the zygote, which kills the inside when this is shut down
  bool may_kill_ = true;
  unsigned runners_ = 1;  // threads of the inside and the broker that can run at once
  std::unique_ptr<detail::broker> broker_;
  std::optional<detail::program> program_;
  std::thread keeper_;
};

/// Shared with the jobs, which may outlive the sandbox.
struct sandbox::state {
  // Given to a job, whose handle gives it back.
  struct place {
    std::uint64_t jobs = 0;  // jobs so far
    bool left = false;       // the handle was destroyed before the job was done
  };

  state(const detail::arena_plan& plan, unsigned jobs)
      : arena(detail::make_arena(plan)),
        map(plan, arena.start()),
        to_inside(map.head().to_inside),
        to_outside(map.head().to_outside),
        places(jobs) {
    for (std::uint32_t i = jobs; i-- > 0;) free.push_back(i);
  }

  void give_back(std::uint32_t number) {
    {
      const std::lock_guard lock(mutex);
      free.push_back(number);
    }
    changed.notify_one();
  }
  bool is_done(std::uint32_t number, std::uint64_t which) const noexcept {
    // (3) acquire: pairs with detail/launch.hpp (3).
    return map.jobs()[number].done.load(std::memory_order_acquire) == which;
  }
  bool has_ended() const noexcept {
    // (4) acquire: pairs with (5).
    return over.load(std::memory_order_acquire);
  }
  sandbox_end how_it_ended() const {
    const std::lock_guard lock(mutex);
    return end;
  }

  const unsigned made_in = process_generation();
  const mapped_region arena;
  const detail::arena_map map;
  detail::doorbell &to_inside, &to_outside;
  detail::spin_extension spins;  // of threads that wait at to_outside
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::uint32_t> free;
  std::vector<place> places;
  sandbox_end end;
  sync::atomic<bool> over{false};
};

template <class T>
class sandbox::job {
 public:
  job(job&& other) noexcept : of_(std::move(other.of_)), place_(other.place_), number_(other.number_) {}
  job& operator=(job&&) = delete;
  /// Without get(), the job still runs, and its result is lost.
  ~job() {
    if (of_ == nullptr) return;
    if (of_->made_in != process_generation()) {
      leave_to_parent(std::move(of_));
      return;
    }
    if (done()) {
      of_->give_back(place_);
      return;
    }
    const std::lock_guard lock(of_->mutex);
    of_->places[place_].left = true;
  }

  /// Returns true if get() would not wait.
  bool done() const noexcept { return of_->is_done(place_, number_) || of_->has_ended(); }
  /// The memory that the caller and the job share. Its contents may change at any time.
  std::span<std::byte> window() const noexcept {
    const detail::arena_plan& plan = of_->map.plan();
    return {of_->map.data() + plan.window_of(place_), plan.window_bytes};
  }
  /// Waits for the job, after which its window can be read.
  void wait() const;
  /// Waits for the job, and gives its place back. Call once.
  sandbox_result<T> get();

 private:
  friend sandbox;
  job(std::shared_ptr<state> of, std::uint32_t place, std::uint64_t number) noexcept
      : of_(std::move(of)), place_(place), number_(number) {}

  std::shared_ptr<state> of_;  // keeps the arena and the end alive as long as a job needs them
  std::uint32_t place_;
  std::uint64_t number_;
};

namespace detail {

template <class F>
auto call_job(const F& function, muster::inside& calls, std::span<std::byte> window) {
  if constexpr (std::is_invocable_v<const F&, muster::inside&, std::span<std::byte>>) return function(calls, window);
  else return function(calls);
}

template <class F>
using job_result =
    decltype(call_job(std::declval<const F&>(), std::declval<muster::inside&>(), std::span<std::byte>{}));

}  // namespace detail

template <class F>
auto sandbox::submit(const F& function, std::span<const std::byte> input) {
  using detail::job_slot;
  using returned = detail::job_result<F>;
  using value = std::conditional_t<std::is_void_v<returned>, std::monostate, returned>;
  static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= job_slot::closure_bytes,
                "a job goes to another process byte by byte: let it capture at most 448 bytes that can be copied so "
                "(numbers, arrays of them), and pass data in the window");
  static_assert(std::is_trivially_copyable_v<value> && sizeof(value) <= job_slot::result_bytes,
                "a job's result comes from another process byte by byte: at most 64 bytes that can be copied so; more "
                "data goes through the window");
  static_assert(detail::may_come_from_inside<value>(),
                "the inside chooses every byte of a job's result, so it would choose where a pointer, a view or an "
                "iterator points: return numbers, enumerations or arrays of them; for a structure that has nothing but "
                "such members, and no bool, specialise muster::any_bytes_are_valid");
  const detail::arena_plan& plan = state_->map.plan();
  if (input.size() > plan.window_bytes)
    throw std::invalid_argument("sandbox::submit: " + std::to_string(input.size()) +
                                " bytes of input do not fit into "
                                "a window of " +
                                std::to_string(plan.window_bytes) + "; raise sandbox_options::window_bytes");
  const detail::job_function entry = [](inside& calls, std::span<std::byte> window, const void* closure, void* result) {
    const F& called = *static_cast<const F*>(closure);
    if constexpr (std::is_void_v<returned>) {
      detail::call_job(called, calls, window);
    } else {
      const returned made = detail::call_job(called, calls, window);
      std::memcpy(result, &made, sizeof made);
    }
  };
  if (program_)
    throw std::logic_error(
        "sandbox::submit: this sandbox runs a program and takes no jobs; make another sandbox for jobs");
  const std::uint32_t number = take_place();
  job_slot& slot = state_->map.jobs()[number];
  if (!input.empty()) std::memcpy(state_->map.data() + plan.window_of(number), input.data(), input.size());
  detail::put_words(slot.closure, &function, sizeof function);
  slot.function.store(reinterpret_cast<std::uintptr_t>(entry), std::memory_order_relaxed);
  const std::uint64_t job_number = ++state_->places[number].jobs;
  // (2) release: pairs with detail/launch.hpp (2).
  slot.given.store(job_number, std::memory_order_release);
  state_->to_inside.ring();
  return job<value>(state_, number, job_number);
}

template <class T>
void sandbox::job<T>::wait() const {
  if (of_ == nullptr) throw std::logic_error("sandbox::job: the result has been taken");
  while (!done())
    of_->to_outside.await(
        of_->map.head().to_inside, detail::processor_now(), of_->spins, [this] { return done(); },
        deadline_clock::now() + std::chrono::seconds(1));
}

template <class T>
sandbox_result<T> sandbox::job<T>::get() {
  wait();
  const std::shared_ptr<state> from = std::move(of_);
  if (!from->is_done(place_, number_)) {
    const sandbox_end how = from->how_it_ended();
    return {how.text(), how};
  }
  const detail::job_slot& slot = from->map.jobs()[place_];
  const detail::scope_exit back([&] { from->give_back(place_); });
  if (slot.threw.load(std::memory_order_relaxed) != 0) {
    std::array<char, detail::job_slot::message_bytes> text;
    detail::get_words(text.data(), slot.message, text.size());
    text.back() = '\0';
    return {std::string("the job has thrown: ") + text.data(), {}};
  }
  if constexpr (std::is_same_v<T, std::monostate>) {
    return sandbox_result<T>(T{});
  } else if constexpr (std::is_same_v<T, bool>) {
    unsigned char byte = 0;  // may be any value, while a bool has two
    detail::get_words(&byte, slot.result, sizeof byte);
    return sandbox_result<T>(byte != 0);
  } else {
    T value;
    detail::get_words(&value, slot.result, sizeof value);
    return sandbox_result<T>(value);
  }
}

inline sandbox_end sandbox::wait() {
  while (!state_->has_ended())
    state_->to_outside.await(
        state_->map.head().to_inside, 0, state_->spins, [this] { return state_->has_ended(); },
        deadline_clock::now() + std::chrono::seconds(1));
  return end();
}

inline sandbox_end sandbox::end() const { return state_->how_it_ended(); }

inline int sandbox::not_loaded() const noexcept {
  if (!program_) return 0;
  const detail::arena_head& head = state_->map.head();
  const auto step = static_cast<detail::launch_step>(head.step.load(std::memory_order_relaxed));
  return step == detail::launch_step::program ? head.error.load(std::memory_order_relaxed) : 0;
}

inline detail::arena_plan sandbox::plan_of(const sandbox_options& o) {
  const auto check = [](std::size_t given, std::size_t least, std::size_t most, const char* what) {
    if (given < least || given > most)
      throw std::invalid_argument(std::string("sandbox_options::") + what + " is " + std::to_string(given) +
                                  "; it must be " + std::to_string(least) + " to " + std::to_string(most));
  };
  check(o.jobs, 1, 256, "jobs");
  check(o.calls, 1, 4096, "calls");
  check(o.window_bytes, 0, std::size_t{1} << 34U, "window_bytes");
  check(o.stack_bytes, stack_pool::least_size, std::size_t{1} << 34U, "stack_bytes");
  check(o.broker_threads, 1, 64, "broker_threads");
  constexpr std::uint64_t copy_bytes = std::uint64_t{64} << 10U;
  return {o.calls, o.jobs, copy_bytes, detail::arena_plan::up(o.window_bytes)};
}

inline sandbox::sandbox(policy rules, sandbox_options options, std::optional<sandbox_program> program, zygote* from)
    : rules_(std::move(rules)),
      state_(std::make_shared<state>(plan_of(options), options.jobs)),
      on_refusal_(std::move(options.on_refusal)) {
  runners_ = options.broker_threads + 1;
  if (const unsigned processors = std::thread::hardware_concurrency(); processors != 0)
    runners_ = std::min(runners_, processors);
  broker_ = std::make_unique<detail::broker>(
      rules_, state_->map,
      detail::broker::options{options.broker_threads, options.standard_streams, on_refusal_,
                              [this] { kill(sandbox_end::reason::refused); }});
  detail::launch_plan plan;
  plan.arena = state_->map.plan();
  plan.stack_bytes = options.stack_bytes;
  plan.memory_bytes = rules_.memory().value_or(0);
  plan.seconds = rules_.time().value_or(0);
  plan.executable = rules_.executable();
  plan.name_spaces = options.name_spaces;
  // The inside dies with the thread that created it. So the thread that creates it lives until the inside has ended.
  if (program) {
    program_.emplace(std::move(program->path), std::move(program->arguments), std::move(program->environment),
                     std::move(program->directory));
    program_->follow_links();
  }
  const detail::without_signals here;
  keeper_ = std::thread([this, plan, from] {
    if (from != nullptr) keep_by(*from, plan);
    else keep(plan, program_ ? &*program_ : nullptr);
  });
  try {
    await_start(from != nullptr ? from->options_.patience : std::chrono::seconds(30));
    broker_->start();
  } catch (...) {
    end_or_fail();
    throw;
  }
}

/// Creates the inside and waits until it ends.
inline void sandbox::keep(const detail::launch_plan& given, detail::program* instead_of_jobs) {
  detail::launch_plan plan = given;
  plan.parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) detail::launch::become_inside(plan, state_->arena.start(), instead_of_jobs);
  const int error = errno;
  if (child > 0) {
    detail::owned_file handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    const int why = handle.get() < 0 ? errno : detail::send_signal(handle.get(), 0);
    if (why != 0) {
      ::kill(child, SIGKILL);  // the process has not been reaped yet
      handle = detail::owned_file(-1);
    }
    note_begin(child, std::move(handle), why);
  } else {
    note_begin(-1, detail::owned_file(-1), error);
  }
  int status = 0;
  rusage used{};
  pid_t ended = -1;
  if (child > 0 && handle_.get() >= 0) await_end(given, -1);
  if (child > 0) do
      ended = ::wait4(child, &status, 0, &used);
    while (ended < 0 && errno == EINTR);
  note_end(status, ended == child,
           given.seconds != 0 &&
               static_cast<std::uint64_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1 >= given.seconds);
}

inline void sandbox::keep_by(zygote& from, const detail::launch_plan& plan) {
  const auto no_files = [] { return std::array{detail::owned_file(-1), detail::owned_file(-1)}; };
  auto files = no_files();
  detail::zygote_news begun, ended;
  bool told = false;
  try {
    const detail::message_socket news = from.order(plan, state_->arena.descriptor());
    // Stored before the process is known, so that kill() can reach the inside by the zygote as soon as it is known.
    keep_news(news.get());
    const detail::scope_exit over([this] { keep_news(-1); });
    told = news.receive(begun, files) && begun.process > 0;
    // If the process's descriptor has not arrived, this process has no free descriptor number (EMFILE).
    const int error = told ? EMFILE : begun.process == -1 ? ECHILD : -begun.process;
    told = told && files[0].get() >= 0;
    note_begin(told ? begun.process : -1, std::move(files[0]), error);
    files = no_files();
    told = told && await_report(news, plan, from.options_.patience) && news.receive(ended, files);
    if (!told && handle_.get() >= 0)
      detail::await_events(handle_.get(), POLLIN, deadline_clock::now() + from.options_.patience);
  } catch (const std::system_error& error) {
    note_begin(-1, detail::owned_file(-1), error.code().value());
  }
  constexpr std::uint64_t second = 1'000'000;
  note_end(ended.status, told && ended.known,
           plan.seconds != 0 && ended.microseconds + second >= plan.seconds * second);
}

/// Waits for the zygote's report of the end. Returns false if the inside has ended and the zygote does not report it,
/// because it is stopped.
inline bool sandbox::await_report(const detail::message_socket& news, const detail::launch_plan& plan,
                                  deadline_clock::duration patience) {
  await_end(plan, news.get());
  const deadline ended = deadline_clock::now();
  while (!news.await_message(deadline_clock::now() + std::chrono::milliseconds(20))) {
    // If this process has killed the inside, the report says nothing new, so the wait is short.
    const std::lock_guard lock(state_->mutex);
    const auto enough = killed_for_ ? std::min<deadline_clock::duration>(patience, std::chrono::seconds(1)) : patience;
    if (deadline_clock::now() - ended >= enough) return false;
  }
  return true;
}

/// Returns when the inside has ended, or when `news`, the socket from its zygote, is readable. Kills the inside when it
/// has used its time.
inline void sandbox::await_end(const detail::launch_plan& plan, int news) noexcept {
  // The inside and its broker's threads, of which at most runners_ run at once, cannot use up the remaining time before
  // 1/runners_ of it has passed. So the checks become frequent only when little time is left.
  constexpr std::chrono::milliseconds least{20}, most = std::chrono::hours(1);
  const std::chrono::nanoseconds allowed = std::chrono::seconds(plan.seconds);
  std::chrono::milliseconds pause{plan.seconds != 0 ? 0 : -1};
  std::array<pollfd, 2> waits{pollfd{handle_.get(), POLLIN, 0}, pollfd{news, POLLIN, 0}};
  for (;;) {
    const int found = ::poll(waits.data(), waits.size(), static_cast<int>(pause.count()));
    if (found > 0 || (found < 0 && errno != EINTR)) return;
    if (found < 0 || pause.count() < 0) continue;
    const std::chrono::nanoseconds used = processor_time();
    if (used >= allowed) {
      // If the inside has ended, its process number may belong to another process by now, and `used` be that of the
      // other.
      if (::poll(waits.data(), waits.size(), 0) != 0) return;
      kill(sandbox_end::reason::out_of_time);
      pause = std::chrono::milliseconds(-1);
    } else {
      pause = std::clamp(std::chrono::ceil<std::chrono::milliseconds>((allowed - used) / runners_), least, most);
    }
  }
}

/// Returns the processor time that the inside and its broker have used so far. If the system hides that of the inside,
/// the limit that the inside has set for itself ends it (detail/launch.hpp).
inline std::chrono::nanoseconds sandbox::processor_time() const noexcept {
  clockid_t clock = CLOCK_MONOTONIC;
  timespec used{};
  if (::clock_getcpuclockid(process_, &clock) != 0 || ::clock_gettime(clock, &used) != 0) used = {};
  return broker_->processor_time() + std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

inline void sandbox::note_begin(int process, detail::owned_file handle, int error) {
  {
    const std::lock_guard lock(state_->mutex);
    process_ = process;
    handle_ = std::move(handle);
    fork_error_ = error;
  }
  state_->changed.notify_all();
}

inline void sandbox::note_end(int status, bool known, bool out_of_time) {
  {
    const std::lock_guard lock(state_->mutex);
    using reason = sandbox_end::reason;
    if (killed_for_) state_->end = {*killed_for_, 0};
    else if (!known) state_->end = {reason::unknown, 0};
    else if (WIFEXITED(status) && not_loaded() != 0) state_->end = {reason::not_loaded, not_loaded()};
    else if (WIFEXITED(status)) state_->end = {reason::exited, WEXITSTATUS(status)};
    else if (out_of_time && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGXCPU))
      state_->end = {reason::out_of_time, 0};
    else state_->end = {reason::by_signal, WTERMSIG(status)};
  }
  // (5) release: pairs with (4). The end is visible, with its reason.
  state_->over.store(true, std::memory_order_release);
  state_->changed.notify_all();
  state_->to_outside.wake();
}

/// Waits until the inside is ready. Once its process exists, this may take up to `patience`.
inline void sandbox::await_start(std::chrono::milliseconds patience) {
  {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return process_ != 0; });
    if (process_ < 0 && fork_error_ == ETIMEDOUT)
      throw std::system_error(fork_error_, std::generic_category(),
                              "cannot make a sandbox: its zygote does not answer; it may be stopped by SIGSTOP or a "
                              "debugger; continue it");
    if (process_ < 0 && fork_error_ == ECHILD)
      throw std::system_error(fork_error_, std::generic_category(),
                              "cannot make a sandbox: its zygote has ended; it may have been killed; make a new one");
    if (process_ < 0)
      throw std::system_error(fork_error_, std::generic_category(),
                              "cannot make a sandbox: its process cannot be created");
    if (handle_.get() < 0)
      throw std::system_error(
          fork_error_, std::generic_category(),
          "cannot make a sandbox: pidfd_open(2) or pidfd_send_signal(2) fails for its process; they need Linux 5.3 or "
          "newer, and a container must allow them");
  }
  const auto stage = [this] {
    // (1) acquire: pairs with detail/launch.hpp (1).
    return static_cast<detail::inside_stage>(state_->map.head().stage.load(std::memory_order_acquire));
  };
  const auto ready = [&] { return stage() != detail::inside_stage::begun || state_->has_ended(); };
  // Another thread may have held a lock, of the C library or the user, when the process was created. The inside would
  // then wait for it forever. An inside from a zygote may be stopped.
  const deadline latest = deadline_clock::now() + std::min(patience, std::chrono::milliseconds(std::chrono::hours(24)));
  while (!ready() && deadline_clock::now() < latest)
    state_->to_outside.await(state_->map.head().to_inside, 0, state_->spins, ready,
                             deadline_clock::now() + std::chrono::milliseconds(100));
  for (std::size_t i = 0; i < layer_errors_.size(); ++i)
    layer_errors_[i] = state_->map.head().layer_errors[i].load(std::memory_order_relaxed);
  if (stage() == detail::inside_stage::ready) return;
  if (!ready())
    throw std::system_error(
        ETIMEDOUT, std::generic_category(),
        "cannot make a sandbox: its process has not become ready within " + std::to_string(patience.count()) +
            " ms; it may be stopped, by SIGSTOP or a debugger, or wait for a lock that another thread "
            "held when the process was forked: create the sandbox, or its zygote, before other "
            "threads");
  if (stage() == detail::inside_stage::begun)
    throw std::system_error(ECHILD, std::generic_category(),
                            "cannot make a sandbox: it ended before it was ready; " + end().text());
  const auto step = static_cast<detail::launch_step>(state_->map.head().step.load(std::memory_order_relaxed));
  const int error = state_->map.head().error.load(std::memory_order_relaxed);
  throw std::system_error(error != 0 ? error : ECHILD, std::generic_category(),
                          std::string("cannot make a sandbox: ") + detail::what_failed(step));
}

inline std::uint32_t sandbox::take_place() {
  std::unique_lock lock(state_->mutex);
  for (;;) {
    for (std::uint32_t i = 0; i < state_->places.size(); ++i)
      if (state_->places[i].left && state_->is_done(i, state_->places[i].jobs)) {
        state_->places[i].left = false;
        state_->free.push_back(i);
      }
    if (state_->end.why != sandbox_end::reason::running)
      throw sandbox_error("sandbox::submit: " + state_->end.text(), state_->end);
    if (!state_->free.empty()) {
      const std::uint32_t number = state_->free.back();
      state_->free.pop_back();
      return number;
    }
    if (detail::siblings* const others = detail::siblings::of_caller(); others != nullptr) {
      lock.unlock();
      others->run();  // another fiber may give a place back
      lock.lock();
    } else {
      // The wait is short because a job that no thread waits for does not signal its end.
      state_->changed.wait_for(lock, std::chrono::milliseconds(10));
    }
  }
}

inline sandbox::~sandbox() {
  if (made_in_ == process_generation()) {
    end_or_fail();
    return;
  }
  if (keeper_.joinable()) keeper_.detach();
  broker_->abandon();
  leave_to_parent(state_);
}

inline void sandbox::keep_news(int socket) noexcept {
  const std::lock_guard lock(state_->mutex);
  news_ = socket;
}

inline void sandbox::kill(sandbox_end::reason why) noexcept {
  const std::lock_guard lock(state_->mutex);
  if (state_->end.why != sandbox_end::reason::running || handle_.get() < 0 || made_in_ != process_generation()) return;
  // The inside has ended by itself, and its keeper is about to store how.
  if (detail::await_events(handle_.get(), POLLIN, deadline_clock::now())) return;
  if (!killed_for_) killed_for_ = why;
  if (const int error = detail::send_signal(handle_.get(), SIGKILL); error == 0 || error == ESRCH) return;
  // The program may no longer send the signal: it has changed its user ids, or entered a filter. The zygote still may.
  // But the call also fails in the same way if the inside has ended meanwhile.
  if (detail::await_events(handle_.get(), POLLIN, deadline_clock::now())) return;
  if (news_ >= 0) ::shutdown(news_, SHUT_RDWR);
  else may_kill_ = false;
}

/// Returns false if the inside runs and cannot be killed.
inline bool sandbox::try_stop() noexcept {
  kill(sandbox_end::reason::stopped);
  {
    const std::lock_guard lock(state_->mutex);
    if (!may_kill_ && state_->end.why == sandbox_end::reason::running) return false;
  }
  const std::lock_guard one_at_a_time(stopping_);
  if (keeper_.joinable()) keeper_.join();
  broker_->stop();
  return true;
}

inline void sandbox::end_or_fail() noexcept {
  MUSTER_CHECK(
      try_stop(),
      "sandbox: the program has given up the rights with which it made the sandbox (user ids, or "
      "pidfd_send_signal(2) by a filter), so it cannot end it; make the sandbox from a zygote, or after giving "
      "them up");
}

inline sandbox_end sandbox::stop() {
  if (!try_stop())
    throw std::system_error(EPERM, std::generic_category(),
                            "sandbox::stop: the program has given up the rights with which it made the sandbox (user "
                            "ids, or pidfd_send_signal(2) by a filter); make it from a zygote, or after giving them "
                            "up");
  return end();
}

inline std::vector<std::string> sandbox::missing_layers() const {
  constexpr std::array<const char*, detail::layers> names{"Landlock", "name spaces", "capabilities"};
  std::vector<std::string> all;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (const int error = layer_errors_[i]; error != 0)
      all.push_back(std::string(names[i]) + ": " + std::generic_category().message(error));
  return all;
}

}  // namespace muster::inline MUSTER_ABI
