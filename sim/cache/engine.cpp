// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "sim/cache/engine.hpp"

#include <muster/base/arch.hpp>
#include <muster/fiber/detail/context.hpp>
#include <muster/fiber/detail/switch_observers.hpp>
#include <muster/fiber/stack.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

namespace muster_simulation {
namespace {

engine* living = nullptr;

constexpr std::size_t observed_bytes = 16;
// After this many consecutive loads by each thread without a change, the threads would poll forever.
constexpr std::uint64_t most_looks = 1'000'000;
constexpr picoseconds longest_delay = 100'000;  // before a thread begins

/// Splitmix (Steele, Lea, Flood, 2014).
std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return z ^ z >> 31;
}

struct reference {
  const void* at;
  std::size_t size;
  std::array<std::byte, observed_bytes> before;
};

struct kept {
  std::uint64_t identity = 0;
  void* part = nullptr;
};

}  // namespace

struct engine::thread {
  unsigned core = 0;
  picoseconds clock = 0;
  std::uint64_t random = 0;
  std::vector<reference> references;  // since its last operation
  std::vector<picoseconds> buffer;    // when each of the last stores becomes visible; a ring
  std::size_t oldest = 0;             // the place in it of the oldest
  picoseconds last_visible = 0;       // of all of them
  std::vector<futex> asleep_on;
  bool done = false;
  const void* innermost = nullptr;
  std::shared_ptr<void> own;  // its fibers
  std::array<kept, 8> parts{};
};

/// The fibers of the threads, and the order in which they run.
class engine::fibers {
  using stack_pool = muster::stack_pool;
  struct fiber {
    muster::stack_memory stack;
    muster::detail::saved_context context = {};
    muster::detail::observed_stack observed;
    muster::detail::exception_globals exceptions;
  };

 public:
  fibers(engine& of, unsigned count, const std::function<void(unsigned)>& body) : engine_(of), body_(body) {
    all_.resize(count + std::size_t{1});  // the last is the caller of run()
    current_ = count;
    for (unsigned i = 0; i < count; ++i) {
      fiber& f = all_[i];
      f.stack = stack_pool::shared().take({});
      f.context = muster::detail::new_context<&fibers::begin>(f.stack.top, f.stack.size());
      f.observed.begin(f.stack.bottom, f.stack.size());
      waiting_.push_back({engine_.threads_[i]->clock, i});
    }
    std::make_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }
  ~fibers() {
    for (std::size_t i = 0; i + 1 < all_.size(); ++i) {
      all_[i].observed.end();
      stack_pool::shared().give_back(all_[i].stack);
    }
  }
  fibers(const fibers&) = delete;
  fibers& operator=(const fibers&) = delete;

  /// Runs the threads in turn until all are done, or one has failed. Returns the failure, or an empty text.
  std::string run() {
    next();
    return failure_;
  }
  bool runs() const noexcept { return current_ + 1 != all_.size(); }
  unsigned current() const noexcept { return current_; }

  /// Runs the threads with earlier clocks before the current thread continues.
  void let_others_go_first(picoseconds clock) {
    if (waiting_.empty() || place_in_time{clock, current_} < waiting_.front()) return;
    make_ready(current_, clock);
    next();
  }
  /// Suspends the current thread until another thread makes it ready.
  void stop() {
    if (waiting_.empty()) engine_.stuck();
    next();
  }
  void make_ready(unsigned thread, picoseconds clock) {
    waiting_.push_back({clock, thread});
    std::push_heap(waiting_.begin(), waiting_.end(), std::greater<>());
  }
  /// The stack is left as it is, so `why` must not stay there.
  [[noreturn]] void fail(std::string why) {
    failure_ = std::move(why);
    switch_to(static_cast<unsigned>(all_.size() - 1), true);
    __builtin_unreachable();
  }

 private:
  struct place_in_time {
    picoseconds clock;
    unsigned thread;
    auto operator<=>(const place_in_time&) const = default;
  };

  void next(bool for_ever = false) {
    std::pop_heap(waiting_.begin(), waiting_.end(), std::greater<>());
    const unsigned to = waiting_.back().thread;
    waiting_.pop_back();
    if (to != current_) switch_to(to, for_ever);
  }
  void switch_to(unsigned number, bool for_ever) {
    fiber& from = all_[current_];
    fiber& to = all_[number];
    from.exceptions = std::exchange(muster::detail::thread_exceptions(), std::exchange(to.exceptions, {}));
    current_ = number;
    from.observed.before_leaving(to.observed, came_from_, for_ever);
    muster::detail::switch_context(from.context, to.context);
    from.observed.after_coming(came_from_);
  }
  [[noreturn]] static void begin() {
    fibers& here = *living->fibers_;
    here.all_[here.current_].observed.after_coming(here.came_from_);
    here.execute();
    __builtin_unreachable();
  }
  void execute() {
    std::string thrown;
    try {
      body_(current_);
      engine_.begin();
    } catch (const std::exception& e) {
      thrown = fmt::format("simulated thread {} has thrown: {}", current_, e.what());
    } catch (...) {
      thrown = fmt::format("simulated thread {} has thrown something that is not a std::exception", current_);
    }
    if (!thrown.empty()) fail(std::move(thrown));
    engine_.self().done = true;
    if (!waiting_.empty()) next(true);
    const auto& threads = engine_.threads_;
    if (!std::all_of(threads.begin(), threads.end(), [](const auto& t) { return t->done; })) engine_.stuck();
    switch_to(static_cast<unsigned>(all_.size() - 1), true);
  }

  engine& engine_;
  const std::function<void(unsigned)>& body_;
  std::vector<fiber> all_;
  unsigned current_ = 0;
  muster::detail::observed_stack* came_from_ = nullptr;
  std::vector<place_in_time> waiting_;  // a heap: the threads that can run, except the current one
  std::string failure_;
};

engine::engine(const machine& m, std::uint64_t seed) : machine_(m), caches_(m), random_(seed) {
  if (living != nullptr) throw std::logic_error("a simulation begins while another one lives: end that one first");
  threads_.push_back(std::make_unique<thread>());  // of who prepares, until run()
  living = this;
}
engine::~engine() { living = nullptr; }

engine& engine::active() {
  if (living == nullptr)
    throw std::logic_error("a simulated program runs outside of a simulation: make an engine first");
  return *living;
}

report engine::run(const std::vector<unsigned>& threads, const std::function<void(unsigned)>& body) {
  if (muster::detail::switches_by_itself && muster::shadow_stack())
    throw std::runtime_error(
        "a simulation switches stacks, which a shadow stack (Intel CET) forbids: start the program with "
        "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
  if (threads.empty()) throw std::invalid_argument("a simulation of no threads: name one at least");
  for (const unsigned t : threads)
    if (t >= machine_.threads())
      throw std::invalid_argument(
          fmt::format("{} has {} hardware threads, and no thread {}", machine_.name, machine_.threads(), t));
  threads_.resize(threads.size());
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (threads_[i] == nullptr) threads_[i] = std::make_unique<thread>();
    thread& t = *threads_[i];
    t.core = machine_.core_of(threads[i]);
    t.random = next_random(random_);
    t.clock = next_random(random_) % longest_delay;
    t.buffer.assign(machine_.store_buffer, 0);
  }
  fibers_ = std::make_unique<fibers>(*this, static_cast<unsigned>(threads.size()), body);
  const std::string failure = fibers_->run();
  fibers_.reset();
  if (!failure.empty()) throw std::runtime_error(failure);
  for (const auto& t : threads_) report_.end = std::max({report_.end, t->clock, t->last_visible});
  report_.lines = caches_.seen();
  return report_;
}

bool engine::runs() const noexcept { return fibers_ != nullptr && fibers_->runs(); }
unsigned engine::current() const noexcept { return runs() ? fibers_->current() : 0; }
engine::thread& engine::self() noexcept { return *threads_[current()]; }

void engine::fail(std::string why) {
  if (!runs()) throw std::logic_error(why);
  fibers_->fail(std::move(why));
}

void engine::stuck() {
  std::string why = "a deadlock: no thread can run, and these threads sleep:";
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (!threads_[i]->asleep_on.empty()) why += fmt::format(" {}", i);
  fail(std::move(why));
}

// ------------------------------------------------------------------------------------------------------------- time

picoseconds engine::latency(place where) const noexcept {
  switch (where) {
    case place::l1: return machine_.in_l1;
    case place::l2: return machine_.in_l2;
    case place::l3: return machine_.in_l3;
    case place::in_cluster: return machine_.in_cluster;
    case place::elsewhere: return machine_.elsewhere;
    case place::memory: return machine_.in_memory;
  }
  return 0;
}

/// Before each operation: accounts for the thread's plain writes since the last one, then runs the threads with earlier
/// clocks.
void engine::begin() {
  settle();
  fibers_->let_others_go_first(self().clock);
  ++report_.operations;
  if (self().clock > busy_until_ && ++looks_ > most_looks * threads_.size())
    fail("no thread has changed anything for a million operations of each: they wait for each other forever");
}

void engine::advance(picoseconds by) {
  if (!runs()) return;
  begin();
  self().clock += by;
}
void engine::work(picoseconds time) {
  advance(time);
  if (runs()) changed();
}
void engine::pause() { advance(machine_.pause); }
void engine::yield() { advance(machine_.yield); }
void engine::switch_fiber() { advance(machine_.fiber_switch); }
/// Other threads may have to wait at least until now.
void engine::changed() noexcept {
  looks_ = 0;
  busy_until_ = std::max(busy_until_, self().clock);
}
picoseconds engine::now() const { return threads_[current()]->clock; }
std::uint64_t engine::random() { return next_random(self().random); }

void engine::drain() noexcept {
  thread& t = self();
  t.clock = std::max(t.clock, t.last_visible);
}
void engine::fence() {
  advance(0);
  if (!runs()) return;
  drain();
  self().clock += machine_.fence;
}
void engine::heavy_fence() { advance(machine_.heavy_fence); }

// ------------------------------------------------------------------------------------------------------------ lines

line_number engine::line_of(std::uintptr_t line) {
  const auto [found, is_new] = numbers_.try_emplace(line, static_cast<line_number>(ways_.size()));
  if (is_new) ways_.emplace_back();
  return found->second;
}

template <class Use>
void engine::for_lines(const void* at, std::size_t size, Use use) {
  const auto first = reinterpret_cast<std::uintptr_t>(at) / machine_.line;
  const auto last = (reinterpret_cast<std::uintptr_t>(at) + size - 1) / machine_.line;
  for (std::uintptr_t line = first; line <= last; ++line) use(line_of(line));
}

/// Requests a line that the core does not have, and waits until the request has reached the line's holder, which keeps
/// using it until then. Several requesters get the line in turn, each for `use` after it has arrived.
void engine::request(line_number line, bool to_write, picoseconds use) {
  thread& t = self();
  const caches::answer expected = caches_.look(t.core, line, to_write);
  if (expected.is_hit()) return;
  way& its = ways_[line];
  const bool queues = its.free_at > t.clock;
  // A reader that follows other readers need not wait for their turn to end.
  const bool has_turn = to_write || (queues ? !its.to_read : expected.from_owner);
  place from = expected.where;
  if (queues) {
    const bool near = machine_.cluster_of(its.last) == machine_.cluster_of(t.core);
    from = !near ? place::elsewhere : has_turn ? place::in_cluster : place::l3;
  }
  t.clock = std::max(t.clock, its.free_at) + latency(from) / 2;
  if (has_turn) its = {t.clock + (latency(from) - latency(from) / 2) + use, its.arrived, t.core, !to_write};
  fibers_->let_others_go_first(t.clock);
}

/// Sends the line from its place to the core; the request took the first half of the time.
void engine::arrive(line_number line, const caches::answer& found) {
  thread& t = self();
  if (found.is_hit()) {
    t.clock += latency(found.where);
    return;
  }
  way& its = ways_[line];
  t.clock = std::max(t.clock, its.arrived) + (latency(found.where) - latency(found.where) / 2);
  if (found.from_owner) its.arrived = t.clock;
}

void engine::load_line(line_number line) {
  request(line, false, 0);
  arrive(line, caches_.read(self().core, line));
}

void engine::change_line(line_number line) {
  request(line, true, machine_.read_modify_write);
  arrive(line, caches_.write(self().core, line));
  thread& t = self();
  t.clock = std::max(t.clock, ways_[line].arrived) + machine_.read_modify_write;
  ways_[line].arrived = t.clock;  // the core's other threads wait as well
}

void engine::store_line(line_number line) {
  thread& t = self();
  t.clock = std::max(t.clock, t.buffer[t.oldest]);
  const caches::answer found = caches_.write(t.core, line);
  picoseconds arrives = t.clock;
  if (!found.is_hit()) {
    way& its = ways_[line];
    arrives = std::max({arrives, its.free_at, its.arrived}) + latency(found.where);
    its = {arrives, arrives, t.core, false};
  }
  t.last_visible = std::max(t.last_visible, arrives);
  t.buffer[t.oldest] = t.last_visible;
  t.oldest = (t.oldest + 1) % t.buffer.size();
  t.clock += machine_.in_l1;
  changed();
}

void engine::load(const void* at, std::size_t size) {
  if (!runs()) return;
  begin();
  for_lines(at, size, [this](line_number line) { load_line(line); });
}

void engine::store(const void* at, std::size_t size) {
  if (!runs()) return;
  begin();
  for_lines(at, size, [this](line_number line) { store_line(line); });
}

void engine::read_modify_write(const void* at, std::size_t size) {
  if (!runs()) return;
  begin();
  drain();
  for_lines(at, size, [this](line_number line) { change_line(line); });
  changed();
}

void engine::refer(const void* at, std::size_t size) {
  if (!runs()) return;
  reference seen{at, size, {}};
  if (size <= observed_bytes) std::memcpy(seen.before.data(), at, size);
  self().references.push_back(seen);
}

void engine::settle() {
  thread& t = self();
  for (const reference& r : t.references) {
    const bool written = r.size > observed_bytes || std::memcmp(r.before.data(), r.at, r.size) != 0;
    for_lines(r.at, r.size, [&](line_number line) { written ? store_line(line) : load_line(line); });
  }
  t.references.clear();
}

// ------------------------------------------------------------------------------------------------------------ sleep

void engine::sleep(std::vector<futex> words) {
  if (!runs()) fail("a simulated program sleeps before its threads run: no thread would wake it");
  thread& t = self();  // no begin(): the caller has just looked at the words, and no other thread may run in between
  t.clock += machine_.sleep;
  ++report_.sleeps;
  t.asleep_on = std::move(words);
  fibers_->stop();
}

unsigned engine::wake(const void* word, unsigned most, std::uint32_t bits) {
  if (!runs()) return 0;
  advance(machine_.call);
  unsigned woken = 0;
  for (unsigned i = 0; i < threads_.size() && woken < most; ++i) {
    thread& t = *threads_[i];
    const auto hears = [&](const futex& one) { return one.word == word && (one.bits & bits) != 0; };
    if (std::ranges::none_of(t.asleep_on, hears)) continue;
    t.asleep_on.clear();
    t.clock = std::max(t.clock, self().clock) + machine_.wake;
    busy_until_ = std::max(busy_until_, t.clock);
    fibers_->make_ready(i, t.clock);
    ++woken;
  }
  changed();
  return woken;
}

// ------------------------------------------------------------------------------------------------- what a thread has

const void*& engine::innermost() noexcept { return self().innermost; }
std::shared_ptr<void>& engine::own() noexcept { return self().own; }
std::uint64_t engine::new_object_id() noexcept { return ++identities_; }
void* engine::cached_part(std::uint64_t identity) const noexcept {
  const thread& t = *threads_[current()];
  const kept& own = t.parts[identity % t.parts.size()];
  return own.identity == identity ? own.part : nullptr;
}
void engine::cache_part(std::uint64_t identity, void* part) noexcept {
  thread& t = self();
  t.parts[identity % t.parts.size()] = {identity, part};
}

}  // namespace muster_simulation
