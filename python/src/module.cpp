// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// muster._muster: queues of Python objects between processes, over shared_bytes.
//
// A message ends with a byte that says what it is (kind), so that data begin at its aligned start:
//   raw      bytes of a loan
//   text     a str or bytes object
//   simple   None, bool, int, float, str, bytes, tuples of these, and one list, dict or tuple around them (simple.hpp)
//   pickled  buffers, each at a multiple of 64; the pickle; the size of each buffer; the size of the pickle; the number
//            of buffers
// Waits      release the interpreter lock and last at most a slice, then look for signals: Ctrl-C ends any of them.
// Deaths     a get that has waited for a slice looks for processes that have died, and then less often. A message that
//            one of them was getting is the result of this get.
// Errors     a message that cannot be unpickled is dropped when its get has raised the error. If Ctrl-C or a lack of
//            memory was the reason, it is given back to its port, and the next get of this process returns it.
// Fork       the child has no ports of its parent: it forgets them without closing them, and opens its own. It sends
//            and ends nothing that its parent had begun.
// Threads    puts of a process share one producer port; each get that finds all consumer ports in use opens another.
// Exit       a thread that asks for the interpreter lock while the interpreter ends stops there: see unlocked.
// Lifetime   messages and loans refer to the queue's memory and ports (queue), not to the object of Python (handle), so
//            that an object which refers to its own messages can be freed.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <muster/queue/shared_bytes.hpp>

#include <cxxabi.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "simple.hpp"

namespace nb = nanobind;

namespace {

using namespace std::chrono_literals;
using bytes_queue = muster::shared_bytes<>;
using clock_type = std::chrono::steady_clock;
using muster::queue_status;

enum class kind : unsigned char { raw = 0, pickled = 1, simple = 2, bytes = 3, text = 4 };

constexpr std::chrono::milliseconds slice{50};
constexpr std::size_t large = 32 * 1024;  // copied without the interpreter lock
constexpr std::size_t unit = 64;

std::size_t rounded(std::size_t size) { return (size + unit - 1) / unit * unit; }

constexpr clock_type::duration rarely = 8 * slice;  // between looks for the dead by a get that waits for long

// Objects of other modules, looked up once, and the exceptions of this module.
struct names {
  PyObject *pickler, *name_space, *loads, *empty, *full, *closed;
  PyObject *raw, *append, *dump, *clear_memo, *dispatch_table, *join, *release, *flags, *writeable;
  PyObject *reducers, *own_reducers;  // those of copyreg and of multiprocessing
};
names& of_python() {
  static names one{};
  return one;
}

[[noreturn]] void raise(PyObject* error, const char* text) {
  PyErr_SetString(error, text);
  throw nb::python_error();
}

/// For the rest of the process's life.
[[noreturn]] void stop_here() {
  for (;;) ::pause();
}

/// The rest of the scope runs without the interpreter lock. While the interpreter ends, Python before 3.14 ends a
/// thread that asks for the lock by pthread_exit(). That would destroy everything on the stack, without the lock, and
/// terminate the program at the first destructor that lets nothing through; so such a thread stops where it is.
class unlocked {
 public:
  unlocked() : state_(PyEval_SaveThread()) {}
  unlocked(const unlocked&) = delete;
  unlocked& operator=(const unlocked&) = delete;
  ~unlocked() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      stop_here();
    }
  }

 private:
  PyThreadState* state_;
};

/// Calls what may execute Python, and so ask for the interpreter lock.
template <class Work>
PyObject* in_python(Work work) {
  try {
    return work();
  } catch (const abi::__forced_unwind&) {
    stop_here();
  }
}

nb::object checked(PyObject* made) {
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

/// Until when a call waits: forever, not at all, or for a time.
class limit {
 public:
  limit(bool block, const std::optional<double>& timeout) : block_(block) {
    if (!block || !timeout) return;
    if (!(*timeout >= 0)) raise(PyExc_ValueError, "'timeout' must be a non-negative number");
    if (*timeout < 1e9)
      until_ =
          clock_type::now() + std::chrono::duration_cast<clock_type::duration>(std::chrono::duration<double>(*timeout));
  }
  bool blocks() const { return block_; }
  bool over() const { return !block_ || (until_ && clock_type::now() >= *until_); }
  clock_type::duration next_slice() const {
    if (!until_) return slice;
    return std::min<clock_type::duration>(slice, std::max<clock_type::duration>(*until_ - clock_type::now(), 0ms));
  }

 private:
  bool block_;
  std::optional<clock_type::time_point> until_;
};

void look_for_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void copy(std::byte* to, const void* from, std::size_t size) {
  if (size == 0) return;
  if (size < large) {
    std::memcpy(to, from, size);
    return;
  }
  const unlocked others_run;
  std::memcpy(to, from, size);
}

/// A lock that another thread may release, and that costs no system call while no thread waits for it.
class gate {
 public:
  bool try_acquire() noexcept {
    if (taken_.exchange(true, std::memory_order_acquire)) return false;
    owner_.store(::pthread_self(), std::memory_order_relaxed);
    return true;
  }
  /// If `unless_long`, ends early when the owner is going to keep it for long.
  bool try_acquire_for(clock_type::duration time, bool unless_long) {
    std::unique_lock lock(mutex_);
    ++waiting_;
    bool mine = false;
    released_.wait_for(lock, time, [&] {
      mine = try_acquire();
      return mine || (unless_long && is_long());
    });
    --waiting_;
    return mine;
  }
  void release() {
    owner_.store(pthread_t{}, std::memory_order_relaxed);
    long_.store(false);
    taken_.store(false);
    if (waiting_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    released_.notify_one();
  }
  /// Called by the owner: until it releases the gate or calls this again, it waits for something else, or does not.
  void set_long(bool is) {
    long_.store(is);
    if (!is || waiting_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    released_.notify_all();
  }
  bool is_long() const noexcept { return long_.load(); }
  bool is_of_caller() const noexcept { return owner_.load(std::memory_order_relaxed) == ::pthread_self(); }

 private:
  std::atomic<bool> taken_{false};
  std::atomic<bool> long_{false};
  std::atomic<pthread_t> owner_{};
  std::atomic<int> waiting_{0};
  std::mutex mutex_;
  std::condition_variable released_;
};

/// The ports of one process.
struct ports {
  struct consumer {
    gate free;
    std::optional<bytes_queue::consumer_port> port;
    bool first = false;  // a message has been given back to it
  };

  bool are_of_caller() const noexcept { return generation == muster::process_generation(); }

  const unsigned generation = muster::process_generation();
  gate writer_free;
  std::optional<bytes_queue::producer_port> producer;
  std::vector<std::unique_ptr<consumer>> consumers;
  unsigned given_back = 0;                            // consumers that are `first`
  std::deque<std::vector<std::byte>> recovered;       // from the dead, and not yet unpickled
  clock_type::time_point looked = clock_type::now();  // when a get last looked for the dead
};

/// Holds a port for a call. Acquired in slices, because another thread may wait with it. Empty if the limit came first,
/// or if a signal handler has forked and this is the child.
class held {
 public:
  held(ports& of, gate& free, const limit& until) : free_(&free) {
    while (!free_->try_acquire()) {
      if (free_->is_of_caller()) {
        if (until.blocks())
          raise(PyExc_RuntimeError,
                "this thread is already using the queue, and would wait for itself: in a signal handler, or in the "
                "block of a loan, use another queue or the methods that do not block");
        free_ = nullptr;
        return;
      }
      // A thread that only copies its message does not make the queue full.
      const bool over = until.over();
      if (over && free_->is_long()) {
        free_ = nullptr;
        return;
      }
      {
        const unlocked others_run;
        if (free_->try_acquire_for(over ? slice : until.next_slice(), over)) return;
      }
      look_for_signals();
      if (!of.are_of_caller()) {
        free_ = nullptr;
        return;
      }
    }
  }
  explicit held(gate& acquired) noexcept : free_(&acquired) {}
  held() noexcept : free_(nullptr) {}
  held(held&& other) noexcept : free_(std::exchange(other.free_, nullptr)) {}
  held& operator=(held&&) = delete;
  ~held() {
    if (free_ != nullptr) free_->release();
  }
  explicit operator bool() const noexcept { return free_ != nullptr; }
  void set_long(bool is) const { free_->set_long(is); }

 private:
  gate* free_;
};

/// A message that this process has claimed. A forked child has a copy, and must not end its parent's message.
class claim {
 public:
  claim(bytes_queue::message&& m, ports& its) : message_(std::move(m)), ports_(&its) {}
  claim(claim&&) = default;
  claim& operator=(claim&&) = delete;
  ~claim() {
    if (message_ && !ports_->are_of_caller()) new std::optional<bytes_queue::message>(std::move(message_));
  }
  std::span<std::byte> bytes() const noexcept { return message_->bytes(); }
  /// The next get of this process returns it.
  void give_back(ports::consumer& to) {
    if (!ports_->are_of_caller()) return;
    message_->give_back();
    message_.reset();
    to.first = true;
    ++ports_->given_back;
  }

 private:
  std::optional<bytes_queue::message> message_;
  ports* ports_;
};

/// Python's pickler as pickle.dumps() uses it, but it knows what multiprocessing.Queue can pickle and pickle cannot,
/// such as connections. It is made once, because that takes longer than pickling a small object.
class pickling {
 public:
  static pickling take() {
    if (idle().empty()) return {};
    pickling one = std::move(idle().back());
    idle().pop_back();
    return one;
  }
  /// For the next object. After an error it is not used again.
  void put_aside() && {
    if (large_) return;
    checked(PyObject_CallMethodObjArgs(pickler_.ptr(), of_python().clear_memo, nullptr));
    for (const nb::object& list : {chunks_, buffers_})
      if (PyList_SetSlice(list.ptr(), 0, PY_SSIZE_T_MAX, nullptr) != 0) throw nb::python_error();
    idle().push_back(std::move(*this));
  }

  nb::object dump(PyObject* object) {
    names& n = of_python();
    if (table_.ptr() != reducers().ptr()) {
      table_ = reducers();
      if (PyObject_SetAttr(pickler_.ptr(), n.dispatch_table, table_.ptr()) != 0) throw nb::python_error();
    }
    checked(in_python([&] { return PyObject_CallMethodObjArgs(pickler_.ptr(), n.dump, object, nullptr); }));
    nb::object all = PyList_Size(chunks_.ptr()) == 1
                         ? nb::borrow(PyList_GetItem(chunks_.ptr(), 0))
                         : checked(PyObject_CallMethodObjArgs(checked(PyBytes_FromStringAndSize(nullptr, 0)).ptr(),
                                                              n.join, chunks_.ptr(), nullptr));
    large_ = PyObject_Size(all.ptr()) > Py_ssize_t{large};
    return all;
  }
  /// Those of the object's buffers that are not in the pickle, as pickle.PickleBuffer.
  PyObject* buffers() const { return buffers_.ptr(); }

 private:
  pickling() : chunks_(checked(PyList_New(0))), buffers_(checked(PyList_New(0))) {
    names& n = of_python();
    const nb::object options = checked(PyDict_New()), none = checked(PyTuple_New(0)),
                     write = checked(PyObject_GetAttr(chunks_.ptr(), n.append)),
                     note = checked(PyObject_GetAttr(buffers_.ptr(), n.append)), five = checked(PyLong_FromLong(5));
    if (PyDict_SetItemString(options.ptr(), "write", write.ptr()) != 0) throw nb::python_error();
    const nb::object file = checked(PyObject_Call(n.name_space, none.ptr(), options.ptr())),
                     arguments = checked(PyTuple_Pack(4, file.ptr(), five.ptr(), Py_True, note.ptr()));
    pickler_ = checked(PyObject_CallObject(n.pickler, arguments.ptr()));
  }

  // Several: while one dumps, another thread, or the object itself, may put, too.
  static std::vector<pickling>& idle() {
    static auto* const all = new std::vector<pickling>;
    return *all;
  }

  // The entries of a dict at some time.
  struct entries {
    std::vector<std::pair<nb::object, nb::object>> all;
    bool are_of(PyObject* dict) const {
      PyObject *key = nullptr, *value = nullptr;
      std::size_t i = 0;
      for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); ++i)
        if (i == all.size() || all[i].first.ptr() != key || all[i].second.ptr() != value) return false;
      return i == all.size();
    }
    void assign(PyObject* dict) {
      std::vector<std::pair<nb::object, nb::object>> now;
      PyObject *key = nullptr, *value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
        now.emplace_back(nb::borrow(key), nb::borrow(value));
      all.swap(now);
    }
  };
  /// A dict of both; the same one as long as they do not change, which they rarely do.
  static const nb::object& reducers() {
    struct both {
      entries general, own;
      nb::object dict;
    };
    static auto* const known = new both;
    names& n = of_python();
    if (!known->dict.is_valid() || !known->general.are_of(n.reducers) || !known->own.are_of(n.own_reducers)) {
      nb::object dict = checked(PyDict_Copy(n.reducers));
      if (PyDict_Update(dict.ptr(), n.own_reducers) != 0) throw nb::python_error();
      known->general.assign(n.reducers);
      known->own.assign(n.own_reducers);
      known->dict = std::move(dict);
    }
    return known->dict;
  }

  nb::object chunks_, buffers_, pickler_, table_;
  bool large_ = false;
};

/// The object, or the result of calling `wrap` with it.
nb::object wrapped(nb::object one, PyObject* wrap) {
  if (wrap == nullptr) return one;
  return checked(in_python([&] { return PyObject_CallFunctionObjArgs(wrap, one.ptr(), nullptr); }));
}

/// If a message that cannot be unpickled is dropped.
enum class on_error {
  drop,  // but for errors that do not come from the message
  keep
};
bool keeps(on_error rule, nb::python_error& e) {
  return rule == on_error::keep || e.matches(PyExc_MemoryError) || !e.matches(PyExc_Exception);
}

/// The memory of a queue, and the ports of this process.
class queue {
 public:
  explicit queue(bytes_queue&& q, std::string path) : queue_(std::move(q)), path_(std::move(path)) {}
  ~queue() {
    // A forked child has its parent's ports; they are not its own to close.
    if (ports_ != nullptr && !ports_->are_of_caller()) static_cast<void>(ports_.release());
  }

  /// Locks the file: as long as any process has it locked, clean() leaves it. Waits for names() and clean(), which lock
  /// it for a moment. Returns false if clean() was first, and has removed it.
  bool lock_file() const {
    const int file = queue_.descriptor();
    for (bool wait = false;; wait = true) {
      int status = 0, error = 0;
      if (!wait) {
        status = ::flock(file, LOCK_SH | LOCK_NB), error = errno;
      } else {
        const unlocked others_run;
        status = ::flock(file, LOCK_SH), error = errno;
      }
      if (status == 0) break;
      if (error != EWOULDBLOCK && error != EINTR) return true;  // a file system without locks
      look_for_signals();
    }
    struct stat own{}, named{};
    return ::fstat(file, &own) != 0 ||
           (::stat(path_.c_str(), &named) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino);
  }

  bytes_queue& shared() { return queue_; }
  const std::string& path() const { return path_; }

  ports& own() {
    if (ports_ == nullptr || !ports_->are_of_caller()) {
      static_cast<void>(ports_.release());
      ports_ = std::make_unique<ports>();
    }
    return *ports_;
  }

  /// Room for a message, and the hold on the port. No room: raises Full or Closed.
  struct room {
    const ports* its;
    held hold;
    bytes_queue::loan loan;

    bool is_of_caller() const noexcept { return its->are_of_caller(); }
  };
  room reserve(std::size_t size, const limit& until) {
    for (;;) {
      ports& p = own();
      held hold(p, p.writer_free, until);
      if (p.are_of_caller()) {
        if (!hold) raise(of_python().full, "another thread of this process is putting");
        if (auto found = reserve(p, hold, size, until)) return {&p, std::move(hold), *std::move(found)};
      }
      // A signal handler has forked, and this is the child: again, with its own ports.
    }
  }
  static void send(bytes_queue::loan& to, std::size_t size) {
    if (to.push(size) == queue_status::closed) raise(of_python().closed, "the queue is closed");
  }

  void put(PyObject* object, const limit& until) {
    simple_writer simple;
    if (simple.write(object)) {
      room to = reserve(simple.size() + 1, until);
      std::memcpy(to.loan.data(), simple.data(), simple.size());
      finish(to, simple.size(), kind::simple);
    } else if (PyBytes_CheckExact(object)) {
      put_all(PyBytes_AsString(object), static_cast<std::size_t>(PyBytes_Size(object)), kind::bytes, until);
    } else if (Py_ssize_t size = 0; const char* const text = utf8_of(object, size)) {
      put_all(text, static_cast<std::size_t>(size), kind::text, until);
    } else {
      put_pickled(object, until);
    }
  }

  void put_raw(PyObject* from, const limit& until) {
    const view bytes(from);
    put_all(static_cast<const char*>(bytes.buffer.buf), static_cast<std::size_t>(bytes.buffer.len), kind::raw, until);
  }

  /// Calls use(message, its consumer, the ports) for the next message; or raises Empty or Closed. One that has been
  /// recovered is wrapped instead.
  template <class Use>
  nb::object get(const limit& until, on_error rule, PyObject* wrap, Use use) {
    for (;;) {
      ports& p = own();
      if (!p.recovered.empty()) [[unlikely]]
        return unpickle_recovered(p, rule, wrap);
      const std::pair<held, ports::consumer*> with = consumer(p, until);
      if (p.are_of_caller()) {
        if (with.second == nullptr) return no_port(rule, wrap);
        if (nb::object found = get(p, with.first, *with.second, until, rule, wrap, use); found.is_valid()) return found;
      }
      // A signal handler has forked, and this is the child: again, with its own ports.
    }
  }

  /// A message that a dead process was getting, if there is one: exactly one, the others stay for the next call.
  nb::object save_one(on_error rule, PyObject* wrap = nullptr) {
    struct enough {};
    ports& p = own();
    p.looked = clock_type::now();
    if (p.recovered.empty()) {
      try {
        queue_.recover([&](std::span<const std::byte> all) {
          if (!p.recovered.empty()) throw enough();
          p.recovered.emplace_back(all.begin(), all.end());
        });
      } catch (enough) {
      } catch (const muster::shared_queue_error&) {
        // A filter hides whether others live: another process recovers.
      }
    }
    return p.recovered.empty() ? nb::object() : unpickle_recovered(p, rule, wrap);
  }

  /// The object in a message. `in`: the memory's owner; null: everything is copied.
  static nb::object decode(std::span<const std::byte> all, PyObject* in) {
    if (all.empty()) raise(PyExc_ValueError, "muster: a message without a kind");
    const auto is = static_cast<kind>(all.back());
    const std::span<const std::byte> body = all.first(all.size() - 1);
    const auto* const text = reinterpret_cast<const char*>(body.data());
    switch (is) {
      case kind::simple: return simple_reader(body).read_all();
      case kind::text: return checked(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(body.size()), nullptr));
      case kind::bytes: return copied_bytes(body);
      case kind::raw: return in == nullptr ? copied_bytes(body) : part(in, 0, body.size());
      case kind::pickled: return unpickled(body, in);
    }
    raise(PyExc_ValueError, "muster: a message of an unknown kind; both sides must have the same version of muster");
  }
  static void finish(room& to, std::size_t size, kind is) {
    to.loan.data()[size] = static_cast<std::byte>(is);
    send(to.loan, size + 1);
  }

 private:
  /// Nothing in a child that a signal handler has forked.
  std::optional<bytes_queue::loan> reserve(ports& p, const held& hold, std::size_t size, const limit& until) {
    if (!p.producer) {
      auto port = queue_.try_producer();
      if (!port && close_dead_ports()) port = queue_.try_producer();
      p.producer.emplace(port ? *std::move(port) : queue_.producer());  // or says why there is none
    }
    for (;;) {
      {
        auto found = p.producer->try_loan(size);
        if (found) return *std::move(found);
        if (found.status() == queue_status::closed) raise(of_python().closed, "the queue is closed");
      }
      if (until.over()) raise(of_python().full, "the queue is full");
      std::optional<bytes_queue::loan> got;
      hold.set_long(true);
      {
        const unlocked others_run;
        auto found = p.producer->loan_for(size, until.next_slice());
        if (found) got.emplace(*std::move(found));
      }
      hold.set_long(false);
      if (got) return got;
      look_for_signals();
      if (!p.are_of_caller()) return std::nullopt;
    }
  }

  /// Nothing in a child that a signal handler has forked.
  template <class Use>
  nb::object get(ports& p, const held& hold, ports::consumer& with, const limit& until, on_error rule, PyObject* wrap,
                 Use use) {
    bytes_queue::consumer_port& port = *with.port;
    const auto used = [&](bytes_queue::message&& m) {
      if (std::exchange(with.first, false)) --p.given_back;
      hold.set_long(true);  // code of Python's may run
      return use(std::move(m), with, p);
    };
    const auto has_looked_since = [&p](clock_type::duration time) { return clock_type::now() - p.looked < time; };
    if (++gets_ % 4096 == 0)
      if (nb::object saved = save_one(rule, wrap); saved.is_valid()) return saved;
    for (clock_type::duration pause = slice;;) {
      queue_status status;
      {
        auto found = port.try_peek();
        if (found) return used(*std::move(found));
        status = found.status();
      }
      if (status == queue_status::closed || (until.over() && (until.blocks() || !has_looked_since(slice))))
        if (nb::object saved = save_one(rule, wrap); saved.is_valid()) return saved;
      if (status == queue_status::closed) raise(of_python().closed, "the queue is closed and empty");
      if (until.over()) raise(of_python().empty, "the queue is empty");
      std::optional<bytes_queue::message> next;
      hold.set_long(true);
      {
        const unlocked others_run;
        auto found = port.peek_for(until.next_slice());
        if (found) next.emplace(*std::move(found));
      }
      if (next) return used(*std::move(next));
      look_for_signals();
      if (!p.are_of_caller()) return {};
      if (has_looked_since(pause)) continue;
      pause = std::min<clock_type::duration>(2 * pause, rarely);
      if (nb::object saved = save_one(rule, wrap); saved.is_valid()) return saved;
    }
  }

  static nb::object unpickle_recovered(ports& p, on_error rule, PyObject* wrap) {
    std::vector<std::byte> all = std::move(p.recovered.front());
    p.recovered.pop_front();
    try {
      return wrapped(decode(all, nullptr), wrap);
    } catch (nb::python_error& e) {
      if (p.are_of_caller() && keeps(rule, e)) p.recovered.push_front(std::move(all));
      throw;
    }
  }

  /// Null if the object is no str, or has lone surrogates, which pickle knows.
  static const char* utf8_of(PyObject* object, Py_ssize_t& size) {
    if (!PyUnicode_CheckExact(object)) return nullptr;
    const char* const text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) PyErr_Clear();
    return text;
  }
  void put_all(const char* from, std::size_t size, kind is, const limit& until) {
    room to = reserve(size + 1, until);
    copy(to.loan.data(), from, size);
    finish(to, size, is);
  }

  struct view {
    Py_buffer buffer{};
    explicit view(PyObject* of) {
      if (PyObject_GetBuffer(of, &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    view(view&& other) noexcept : buffer(std::exchange(other.buffer, Py_buffer{})) {}
    view& operator=(view&&) = delete;
    ~view() {
      if (buffer.obj != nullptr) PyBuffer_Release(&buffer);
    }
  };

  void put_pickled(PyObject* object, const limit& until) {
    pickling p = pickling::take();
    const nb::object pickle = p.dump(object);
    const view pickled(pickle.ptr());
    std::vector<view> buffers;
    const Py_ssize_t count = PyList_Size(p.buffers());
    std::size_t size = 0;
    for (Py_ssize_t i = 0; i != count; ++i) {
      const nb::object flat = checked(in_python(
          [&] { return PyObject_CallMethodObjArgs(PyList_GetItem(p.buffers(), i), of_python().raw, nullptr); }));
      buffers.emplace_back(flat.ptr());
      size = rounded(size) + static_cast<std::size_t>(buffers.back().buffer.len);
    }
    const auto length = static_cast<std::size_t>(pickled.buffer.len);
    std::move(p).put_aside();
    const std::size_t pickle_at = size;
    size += length + 8 * (buffers.size() + 2);
    room to = reserve(size + 1, until);
    std::byte* const start = to.loan.data();
    std::size_t at = 0;
    for (const view& v : buffers) {
      at = rounded(at);
      copy(start + at, v.buffer.buf, static_cast<std::size_t>(v.buffer.len));
      at += static_cast<std::size_t>(v.buffer.len);
    }
    copy(start + pickle_at, pickled.buffer.buf, length);
    at = pickle_at + length;
    const auto note = [&](std::uint64_t number) {
      std::memcpy(start + at, &number, 8);
      at += 8;
    };
    for (const view& v : buffers) note(static_cast<std::uint64_t>(v.buffer.len));
    note(length);
    note(buffers.size());
    finish(to, size, kind::pickled);
  }

  static nb::object unpickled(std::span<const std::byte> body, PyObject* in) {
    const auto wrong = [] { raise(PyExc_ValueError, "muster: a pickled message with wrong sizes"); };
    const auto number = [&](std::size_t from_end) {
      std::uint64_t value = 0;
      if (from_end > body.size()) wrong();
      std::memcpy(&value, body.data() + body.size() - from_end, 8);
      return value;
    };
    const std::uint64_t count = number(8), length = number(16);
    if (count > body.size() / 8) wrong();
    const std::size_t notes = 8 * (count + 2);
    if (notes > body.size() || length > body.size() - notes) wrong();
    const std::size_t pickle_at = body.size() - notes - length;
    const nb::object buffers = checked(PyList_New(0));
    std::size_t at = 0;
    for (std::uint64_t i = 0; i != count; ++i) {
      const std::uint64_t size = number(notes - 8 * i);
      at = rounded(at);
      if (at > pickle_at || size > pickle_at - at) wrong();
      const nb::object one = in != nullptr ? part(in, at, size) : copied_array(body.subspan(at, size));
      if (PyList_Append(buffers.ptr(), one.ptr()) != 0) throw nb::python_error();
      at += size;
    }
    // From memory that no other process writes: the message is this process's own.
    const nb::object pickle =
        checked(PyMemoryView_FromMemory(const_cast<char*>(reinterpret_cast<const char*>(body.data() + pickle_at)),
                                        static_cast<Py_ssize_t>(length), PyBUF_READ));
    const nb::object arguments = checked(PyTuple_Pack(1, pickle.ptr()));
    const nb::object options = count == 0 ? nb::object() : checked(PyDict_New());
    if (count != 0 && PyDict_SetItemString(options.ptr(), "buffers", buffers.ptr()) != 0) throw nb::python_error();
    return checked(in_python([&] { return PyObject_Call(of_python().loads, arguments.ptr(), options.ptr()); }));
  }
  static nb::object part(PyObject* of, std::size_t at, std::size_t size) {
    const nb::object all = checked(PyMemoryView_FromObject(of));
    const nb::object from = checked(PyLong_FromSize_t(at)), to = checked(PyLong_FromSize_t(at + size));
    const nb::object range = checked(PySlice_New(from.ptr(), to.ptr(), nullptr));
    return checked(PyObject_GetItem(all.ptr(), range.ptr()));
  }
  static nb::object copied_bytes(std::span<const std::byte> from) {
    nb::object made = checked(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(from.size())));
    copy(reinterpret_cast<std::byte*>(PyBytes_AsString(made.ptr())), from.data(), from.size());
    return made;
  }
  // Can be written, as the buffers of an object that was never pickled.
  static nb::object copied_array(std::span<const std::byte> from) {
    nb::object made = checked(PyByteArray_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(from.size())));
    copy(reinterpret_cast<std::byte*>(PyByteArray_AsString(made.ptr())), from.data(), from.size());
    return made;
  }

  bool close_dead_ports() {
    try {
      return queue_.recover() != 0;
    } catch (const muster::shared_queue_error&) {
      return true;  // a filter hides whether others live
    }
  }
  /// The dead hold all ports, or the living do.
  nb::object no_port(on_error rule, PyObject* wrap) {
    if (nb::object saved = save_one(rule, wrap); saved.is_valid()) return saved;
    static_cast<void>(queue_.consumer());  // says why there is none
    raise(of_python().empty, "a port has just become free; try again");
  }

  std::pair<held, ports::consumer*> consumer(ports& p, const limit& until) {
    if (p.given_back != 0) [[unlikely]]
      for (const auto& one : p.consumers)
        if (one->first && one->free.try_acquire()) return {held(one->free), one.get()};
    for (const auto& one : p.consumers)
      if (one->free.try_acquire()) return {held(one->free), one.get()};
    // All are in use, by threads that wait.
    auto port = queue_.try_consumer();
    if (!port && close_dead_ports()) port = queue_.try_consumer();
    if (port) {
      auto made = std::make_unique<ports::consumer>();
      made->port.emplace(*std::move(port));
      made->free.try_acquire();
      p.consumers.push_back(std::move(made));
      return {held(p.consumers.back()->free), p.consumers.back().get()};
    }
    if (p.consumers.empty()) return {held(), nullptr};
    held hold(p, p.consumers.front()->free, until);
    if (!hold && p.are_of_caller()) raise(of_python().empty, "other threads of this process are getting");
    return {std::move(hold), p.consumers.front().get()};
  }

  bytes_queue queue_;
  const std::string path_;
  std::unique_ptr<ports> ports_;
  std::size_t gets_ = 0;
};

/// A message that stays in the queue's memory as long as any object refers to its bytes.
struct message {
  std::shared_ptr<queue> of;
  claim its;
};

/// The memory of a loan. It has the room until the loan is sent, so that no message comes into what arrays refer to.
struct lent {
  std::shared_ptr<queue> of;
  std::size_t size;
  std::optional<queue::room> room;
};

/// Room for a message of bytes, as a context manager.
struct loan {
  std::shared_ptr<queue> of;
  std::size_t size;
  nb::object wrap;  // makes of the view what the block gets; or None
  bool used = false;
  nb::object memory, view, result;
};

/// The object of Python.
struct handle {
  std::shared_ptr<queue> of;
};

template <class T>
T* made(PyObject* self, const char* why) {
  if (nb::inst_ready(self)) return nb::inst_ptr<T>(self);
  PyErr_SetString(PyExc_RuntimeError, why);
  return nullptr;
}

int buffer_of_message(PyObject* self, Py_buffer* into, int flags) {
  into->obj = nullptr;
  const message* const m = made<message>(self, "a Message is made by get(copy=False)");
  if (m == nullptr) return -1;
  const std::span<std::byte> all = m->its.bytes();
  return PyBuffer_FillInfo(into, self, all.data(), static_cast<Py_ssize_t>(all.size()), 0, flags);
}
PyType_Slot message_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(buffer_of_message)}, {0, nullptr}};

int buffer_of_lent(PyObject* self, Py_buffer* into, int flags) {
  into->obj = nullptr;
  lent* const l = made<lent>(self, "the memory of a loan is made in its with block");
  if (l == nullptr) return -1;
  if (!l->room) {
    PyErr_SetString(PyExc_ValueError, "a loan can be written only in its with block");
    return -1;
  }
  return PyBuffer_FillInfo(into, self, l->room->loan.data(), static_cast<Py_ssize_t>(l->size), 0, flags);
}
PyType_Slot lent_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(buffer_of_lent)}, {0, nullptr}};

// Without Python code between the room and the block, where Ctrl-C would leave the room taken.
nb::object enter_loan(loan& l) {
  if (l.used) raise(PyExc_ValueError, "a loan can be used once");
  l.used = true;
  try {
    queue::room room = l.of->reserve(l.size + 1, limit(true, std::nullopt));
    room.hold.set_long(true);
    nb::object memory = nb::cast(new lent{l.of, l.size, std::move(room)}, nb::rv_policy::take_ownership);
    nb::object view = checked(PyMemoryView_FromObject(memory.ptr()));
    nb::object result = view;
    if (!l.wrap.is_none())
      result = checked(in_python([&] { return PyObject_CallFunctionObjArgs(l.wrap.ptr(), view.ptr(), nullptr); }));
    l.memory = std::move(memory);
    l.view = std::move(view);
    l.result = result;
    return result;
  } catch (...) {
    l.used = false;
    throw;
  }
}
void leave_loan(loan& l, nb::handle error) {
  if (!l.memory.is_valid()) return;
  lent& memory = *nb::inst_ptr<lent>(l.memory);
  std::optional<queue::room> room = std::move(memory.room);
  memory.room.reset();
  // Arrays over the view may still exist: they keep the memory mapped, and must not be written.
  names& n = of_python();
  if (!l.wrap.is_none())
    if (PyObject* const flags = PyObject_GetAttr(l.result.ptr(), n.flags)) {
      static_cast<void>(PyObject_SetAttr(flags, n.writeable, Py_False));
      Py_DECREF(flags);
    }
  PyErr_Clear();
  if (PyObject* const done = PyObject_CallMethodObjArgs(l.view.ptr(), n.release, nullptr)) Py_DECREF(done);
  PyErr_Clear();
  l.result.reset();
  l.view.reset();
  l.memory.reset();
  // A child that was forked in the block has a copy, and its parent sends the message.
  if (error.is_none() && room && room->is_of_caller()) queue::finish(*room, l.size, kind::raw);
}

// Called for every object, so they read their arguments themselves.

/// Arguments in their order or by name.
template <std::size_t N>
bool sort_arguments(const char* function, const char* const (&known)[N], PyObject* const* given, Py_ssize_t count,
                    PyObject* by_name, PyObject* (&into)[N]) {
  if (static_cast<std::size_t>(count) > N) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zu arguments, got %zd", function, N, count);
    return false;
  }
  for (Py_ssize_t i = 0; i != count; ++i) into[i] = given[i];
  const Py_ssize_t named = by_name == nullptr ? 0 : PyTuple_Size(by_name);
  for (Py_ssize_t i = 0; i != named; ++i) {
    PyObject* const name = PyTuple_GetItem(by_name, i);
    std::size_t which = 0;
    while (which != N && PyUnicode_CompareWithASCIIString(name, known[which]) != 0) ++which;
    if (which == N || into[which] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected or repeated argument '%U'", function, name);
      return false;
    }
    into[which] = given[count + i];
  }
  return true;
}
bool as_bool(PyObject* o, bool otherwise) {
  if (o == nullptr) return otherwise;
  const int is = PyObject_IsTrue(o);
  if (is < 0) throw nb::python_error();
  return is != 0;
}
std::optional<double> as_timeout(PyObject* o) {
  if (o == nullptr || o == Py_None) return std::nullopt;
  const double seconds = PyFloat_AsDouble(o);
  if (seconds == -1.0 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return seconds;
}

/// Turns the exceptions of C++ into those of Python.
template <class Work>
PyObject* guarded(Work work) {
  try {
    return work();
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::length_error& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

std::shared_ptr<queue>& queue_of(PyObject* self) {
  handle* const h = made<handle>(self, "this queue's __init__ has not been called, or has failed");
  if (h == nullptr) throw nb::python_error();
  return h->of;
}

nb::object get_one(PyObject* self, const limit& until, bool copy_out, on_error rule = on_error::drop,
                   PyObject* wrap = nullptr) {
  std::shared_ptr<queue>& of = queue_of(self);
  return of->get(until, rule, wrap, [&](bytes_queue::message&& found, ports::consumer& from, ports& its) {
    claim m(std::move(found), its);
    const std::span<const std::byte> all = m.bytes();
    const auto is = all.empty() ? kind::simple : static_cast<kind>(all.back());
    std::unique_ptr<message> lasting;  // owned by `owner`, if there is one
    nb::object owner;
    try {
      if (!copy_out && (is == kind::raw || is == kind::pickled)) {
        lasting = std::make_unique<message>(of, std::move(m));
        owner = nb::cast(lasting.get(), nb::rv_policy::take_ownership);
        static_cast<void>(lasting.release());
      }
      return wrapped(queue::decode(all, owner.ptr()), wrap);
    } catch (nb::python_error& e) {
      if (!keeps(rule, e) || !its.are_of_caller()) throw;
      if (lasting != nullptr) lasting->its.give_back(from);
      else if (!owner.is_valid()) m.give_back(from);
      else if (Py_REFCNT(owner.ptr()) == 1) nb::inst_ptr<message>(owner)->its.give_back(from);
      else its.recovered.emplace_back(all.begin(), all.end());  // parts of it are in use, by the traceback at least
      throw;
    }
  });
}

PyObject* method_put(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* by_name) {
  static constexpr const char* known[] = {"obj", "block", "timeout"};
  PyObject* a[3] = {};
  if (!sort_arguments("put", known, given, count, by_name, a)) return nullptr;
  if (a[0] == nullptr) return PyErr_Format(PyExc_TypeError, "put() misses the argument 'obj'");
  return guarded([&] {
    queue_of(self)->put(a[0], limit(as_bool(a[1], true), as_timeout(a[2])));
    return nb::none().release().ptr();
  });
}
PyObject* method_get(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* by_name) {
  static constexpr const char* known[] = {"block", "timeout", "copy"};
  PyObject* a[3] = {};
  if (!sort_arguments("get", known, given, count, by_name, a)) return nullptr;
  return guarded(
      [&] { return get_one(self, limit(as_bool(a[0], true), as_timeout(a[1])), as_bool(a[2], true)).release().ptr(); });
}
PyObject* method_next(PyObject* self) {
  PyObject* const next = guarded([&] { return get_one(self, limit(true, std::nullopt), true).release().ptr(); });
  if (next == nullptr && PyErr_ExceptionMatches(of_python().closed)) PyErr_Clear();  // the end
  return next;
}
PyObject* method_iter(PyObject* self) { return nb::borrow(self).release().ptr(); }

std::size_t checked_size(std::size_t size) {
  if (size > std::numeric_limits<std::size_t>::max() / 2)
    raise(PyExc_ValueError, "a loan is longer than any memory; ask for fewer bytes");
  return size;
}

std::shared_ptr<queue> made_queue(const std::string& path, int descriptor,
                                  const muster::shared_bytes_options& options) {
  constexpr const char* tag = "python 1";
  const bool creates = options.messages != 0;
  try {
    if (path.empty())
      return std::make_shared<queue>(
          creates ? bytes_queue::create_anonymous(options) : bytes_queue::attach(descriptor, tag), "");
    for (;;) {
      auto one =
          std::make_shared<queue>(creates ? bytes_queue::create(path, options) : bytes_queue::open(path, tag), path);
      if (one->lock_file()) return one;
    }
  } catch (const std::system_error& e) {
    // FileNotFoundError and the like.
    if (e.code().category() != std::generic_category()) throw;
    const nb::object arguments = checked(Py_BuildValue("is", e.code().value(), e.what()));
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
    throw nb::python_error();
  }
}

PyMethodDef queue_methods[] = {
    {"put", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_put)), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"get", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method_get)), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot queue_slots[] = {{Py_tp_methods, queue_methods},
                             {Py_tp_iter, reinterpret_cast<void*>(method_iter)},
                             {Py_tp_iternext, reinterpret_cast<void*>(method_next)},
                             {0, nullptr}};

}  // namespace

NB_MODULE(_muster, m) {
  const auto name = [](const char* text) { return PyUnicode_InternFromString(text); };
  const auto from = [](const char* module, const char* what) {
    return nb::object(nb::module_::import_(module).attr(what)).release().ptr();
  };
  names& n = of_python();
  n.pickler = from("pickle", "Pickler");
  n.loads = from("pickle", "loads");
  n.name_space = from("types", "SimpleNamespace");
  n.reducers = from("copyreg", "dispatch_table");
  n.own_reducers =
      nb::object(nb::module_::import_("multiprocessing.reduction").attr("ForkingPickler").attr("_extra_reducers"))
          .release()
          .ptr();
  n.empty = from("queue", "Empty");
  n.full = from("queue", "Full");
  n.closed = nb::hasattr(nb::module_::import_("queue"), "ShutDown")
                 ? from("queue", "ShutDown")
                 : PyErr_NewException("muster.ShutDown", nullptr, nullptr);
  n.raw = name("raw");
  n.append = name("append");
  n.dump = name("dump");
  n.clear_memo = name("clear_memo");
  n.join = name("join");
  n.dispatch_table = name("dispatch_table");
  n.release = name("release");
  n.flags = name("flags");
  n.writeable = name("writeable");
  m.attr("ShutDown") = nb::borrow(n.closed);

  nb::class_<message>(m, "Message", nb::type_slots(message_slots));
  nb::class_<lent>(m, "Lent", nb::type_slots(lent_slots));
  nb::class_<loan>(m, "Loan")
      .def("__enter__", enter_loan)
      .def(
          "__exit__", [](loan& l, nb::handle error, nb::handle, nb::handle) { leave_loan(l, error); },
          nb::arg("error").none(), nb::arg("value").none(), nb::arg("traceback").none());

  nb::class_<handle>(m, "Queue", nb::type_slots(queue_slots), nb::dynamic_attr())
      .def(
          "__init__",
          [](handle* at, const std::string& path, int descriptor, std::size_t messages, std::size_t bytes,
             std::size_t producers, std::size_t ports) {
            new (at) handle{made_queue(
                path, descriptor,
                {messages, bytes, {.ports = ports, .lanes = producers, .tag = "python 1", .first_rank = 0}})};
          },
          nb::arg("path"), nb::arg("descriptor"), nb::arg("messages"), nb::arg("bytes"), nb::arg("producers"),
          nb::arg("ports"))
      .def("fileno", [](handle& q) { return q.of->shared().descriptor(); })
      .def_prop_ro("_path", [](handle& q) { return q.of->path(); })
      .def(
          "_put_raw",
          [](handle& q, nb::handle data, bool block, std::optional<double> timeout) {
            q.of->put_raw(data.ptr(), limit(block, timeout));
          },
          nb::arg("data"), nb::arg("block") = true, nb::arg("timeout").none() = nb::none())
      .def(
          "_get_as",
          [](nb::handle self, bool block, std::optional<double> timeout, nb::handle wrap) {
            return get_one(self.ptr(), limit(block, timeout), false, on_error::drop, wrap.ptr());
          },
          nb::arg("block"), nb::arg("timeout").none(), nb::arg("wrap"))
      .def(
          "_get_more",
          [](nb::handle self, nb::list into, std::size_t most) {
            try {
              for (; most != 0; --most)
                into.append(get_one(self.ptr(), limit(false, std::nullopt), true, on_error::keep));
            } catch (nb::python_error& e) {
              if (!e.matches(PyExc_Exception)) throw;
              // The end, or an error that the next get raises.
            }
          },
          nb::arg("into"), nb::arg("most"))
      .def(
          "loan", [](handle& q, std::size_t size) { return new loan{q.of, checked_size(size), nb::none()}; },
          nb::arg("nbytes"))
      .def("_loan", [](handle& q, std::size_t size,
                       nb::object wrap) { return new loan{q.of, checked_size(size), std::move(wrap)}; })
      .def("recover",
           [](handle& q) {
             nb::list all;
             for (;;) {
               try {
                 const nb::object one = q.of->save_one(nb::len(all) == 0 ? on_error::drop : on_error::keep);
                 if (!one.is_valid()) return all;
                 all.append(one);
               } catch (nb::python_error& e) {
                 if (nb::len(all) == 0 || !e.matches(PyExc_Exception)) throw;
                 return all;  // the next call raises it
               }
             }
           })
      .def("_await_object",
           [](handle& q, double seconds) {
             const std::shared_ptr<queue> of = q.of;
             if (const ports& p = of->own(); !p.recovered.empty() || p.given_back != 0) return true;
             const unlocked others_run;
             return of->shared().await_item_for(std::chrono::duration<double>(seconds));
           })
      .def("close", [](handle& q) { q.of->shared().close(); })
      .def_prop_ro("closed", [](handle& q) { return q.of->shared().is_closed(); })
      .def_prop_ro("capacity", [](handle& q) { return q.of->shared().capacity(); })
      .def_prop_ro("longest", [](handle& q) { return q.of->shared().longest() - 1; })
      .def("qsize", [](handle& q) { return q.of->shared().size_approx(); });

  nb::set_leak_warnings(false);  // queues that live until the interpreter ends are no leak
}
