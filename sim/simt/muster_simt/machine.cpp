// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "muster_simt/machine.hpp"

#include <muster/fiber/detail/context.hpp>
#include <muster/fiber/detail/switch_observers.hpp>
#include <muster/fiber/stack.hpp>

#if defined(MUSTER_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace muster_simt {
namespace {

namespace md = muster::detail;

constexpr unsigned warp_size = 32;
#if defined(MUSTER_ADDRESS_SANITIZER) || defined(MUSTER_THREAD_SANITIZER)
constexpr std::size_t stack_size = std::size_t{256} << 10U;
#else
constexpr std::size_t stack_size = std::size_t{32} << 10U;
#endif

#if defined(MUSTER_SIMT_TSAN)

/// For the thread sanitizer a lane is a thread, ordered with others only by its own operations. This file is not
/// instrumented.
class observed_lane {
 public:
  void begin(void*, std::size_t) { fiber_ = __tsan_create_fiber(0); }
  void end() { __tsan_destroy_fiber(fiber_); }
  void before_leaving(observed_lane& to, observed_lane*&, bool) {
    if (fiber_ == nullptr) fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to.fiber_, __tsan_switch_to_fiber_no_sync);
  }
  void after_coming(observed_lane*) {}
  /// Makes everything that the lane has done so far visible to a lane that acquires `what`.
  void releases(void* what) {
    void* const caller = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync);
    __tsan_release(what);
    __tsan_switch_to_fiber(caller, __tsan_switch_to_fiber_no_sync);
  }

 private:
  void* fiber_ = nullptr;
};
void releases(void* what) { __tsan_release(what); }
void acquires(void* what) { __tsan_acquire(what); }

#else

struct observed_lane : md::observed_stack {
  void before_leaving(observed_lane& to, observed_lane*& came_from, bool for_ever) {
    md::observed_stack* from = nullptr;
    observed_stack::before_leaving(to, from, for_ever);
    came_from = this;
  }
  void after_coming(observed_lane* from) { observed_stack::after_coming(from); }
  void releases(void*) {}
};
void releases(void*) {}
void acquires(void*) {}

#endif

enum class state : std::uint8_t { ready, together, converging, at_barrier, ended };

struct warp;
struct block;

struct lane {
  md::saved_context context{};
  observed_lane observed;
  muster::stack_memory stack{};
  state now = state::ready;
  std::uint32_t mask = 0;
  collective op = collective::sync;
  unsigned from = 0;
  std::uint64_t in = 0, out = 0;
  const void* site = nullptr;
  unsigned id = 0;  // in its warp
  index thread{};
  warp* of = nullptr;
  unsigned uses = 0;
};

struct warp {
  std::array<lane*, warp_size> lanes{};
  unsigned many = 0;
  unsigned ready = 0;
  unsigned steps = 0;  // since a lane has converged
  unsigned number = 0;
  block* of = nullptr;
};

struct alignas(64) line {
  unsigned char bytes[64];
};

struct block {
  index at{};
  std::vector<std::unique_ptr<lane>> lanes;
  std::vector<warp> warps;
  std::size_t alive = 0;
  std::size_t at_barrier = 0;
  std::map<const void*, std::unique_ptr<line[]>> shared;
};

struct grid {
  grid(index its_size, index its_block_size, const std::function<void()>& its_body)
      : size(its_size), block_size(its_block_size), body(its_body) {}

  const index size, block_size;
  const std::function<void()>& body;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string why;
  counts all;

  void fail(const std::string& what) {
    const std::lock_guard lock(mutex);
    if (!failed.exchange(true)) why = what;
  }
};

const char* name_of(collective op) {
  constexpr std::array names{"ballot", "match", "shuffle", "reduce", "reduce", "sync_warp"};
  return names.at(static_cast<std::size_t>(op));
}

/// Lanes with stacks, kept for the next launch: creating one costs more than most kernels.
class lane_pool {
 public:
  static lane_pool& shared();
  std::unique_ptr<lane> take() {
    const std::lock_guard lock(mutex_);
    if (!kept_.empty()) {
      std::unique_ptr<lane> l = std::move(kept_.back());
      kept_.pop_back();
      return l;
    }
    auto made = std::make_unique<lane>();
    made->stack = muster::stack_pool::shared().take({.size = stack_size, .guard = true});
    made->observed.begin(made->stack.bottom, made->stack.size());
    return made;
  }
  void give_back(std::unique_ptr<lane> l) {
    // Its frames were abandoned, and sanitizers still track them.
#if defined(MUSTER_ADDRESS_SANITIZER)
    constexpr unsigned most_uses = 1;
#else
    constexpr unsigned most_uses = 1000;
#endif
    if (++l->uses == most_uses) {
      l->observed.end();
      l->observed = {};
      l->observed.begin(l->stack.bottom, l->stack.size());
      l->uses = 0;
    }
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(l));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<lane>> kept_;
};

/// Never destroyed, and created before any thread, so its creation needs no order.
union lasting_pool {
  constexpr lasting_pool() : pool() {}
  ~lasting_pool() {}
  lane_pool pool;
};
constinit lasting_pool all_lanes;

lane_pool& lane_pool::shared() { return all_lanes.pool; }

/// One multiprocessor.
class machine {
 public:
  machine(grid& of, unsigned number, const settings& how)
      : grid_(of), number_(number), how_(how), dice_(how.seed * 0x9e3779b97f4a7c15ULL + number) {}
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  void run();

  // Called by the running lane.
  lane& me() const { return *running_; }
  void point(access kind, const void* address) {
    counts_.changes += kind == access::change;
    if (how_.by_address && kind == access::change) ++changes_of_[address];
    counts_.loads += kind == access::load;
    counts_.stores += kind == access::store;
    if (how_.switch_one_in == 1 || roll(how_.switch_one_in) == 0) leave();
  }
  std::uint32_t converge(const void* site) {
    running_->site = site;
    leave_for(state::converging);
    return running_->mask;
  }
  std::uint64_t together(std::uint32_t mask, collective op, std::uint64_t value, unsigned from) {
    lane& l = *running_;
    ++counts_.collectives;
    if ((mask >> l.id & 1U) == 0) stop(l, op, "with a mask that does not name the caller");
    if (op == collective::shuffle && (mask >> (from % warp_size) & 1U) == 0)
      stop(l, op, "from a lane that the mask does not name");
    l.mask = mask;
    l.op = op;
    l.in = value;
    l.from = from % warp_size;
    if (op == collective::sync) releases(l.of);
    leave_for(state::together);
    if (op == collective::sync) acquires(l.of);
    return l.out;
  }
  void barrier() {
    block* const b = running_->of->of;
    releases(b);
    leave_for(state::at_barrier);
    acquires(b);
  }
  void* shared(const void* key, std::size_t size) {
    auto& place = running_->of->of->shared[key];
    if (place == nullptr) {
      place = std::make_unique<line[]>((size + sizeof(line) - 1) / sizeof(line));
      releases(place.get());
    }
    acquires(place.get());
    return place.get();
  }
  unsigned number() const { return number_; }
  unsigned place_of_warp() const {
    const warp& w = *running_->of;
    const auto its = std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b.get() == w.of; });
    return static_cast<unsigned>(its - blocks_.begin()) * static_cast<unsigned>(w.of->warps.size()) + w.number;
  }
  std::uint64_t steps() const { return counts_.switches; }
  const grid& whole() const { return grid_; }

 private:
  unsigned roll(unsigned sides) { return static_cast<unsigned>(dice_() % sides); }

  // On a lane's stack.
  static void body();
  [[gnu::noinline]] void leave() {
    lane& l = *running_;
    l.observed.before_leaving(own_, came_from_, l.now == state::ended);
    md::switch_context(l.context, home_);
    l.observed.after_coming(came_from_);
  }
  void leave_for(state why) {
    running_->now = why;
    leave();
  }
  [[noreturn]] void stop(const lane& l, collective op, const char* what) {
    grid_.fail(place_of(l) + ": " + name_of(op) + " " + what);  // nothing is left on the stack, which is left
    for (;;) leave_for(state::ended);
  }

  // On the thread's own.
  void begin_block(std::uint64_t number);
  void end_block(block& b);
  void step();
  void wake(lane& l) {
    l.now = state::ready;
    ++l.of->ready;
    ready_.push_back(&l);
  }
  void after(lane& l);
  void resolve(warp& w, std::uint32_t mask);
  void resolve_all(warp& w) {
    for (unsigned k = 0; k < w.many; ++k)
      if (w.lanes[k]->now == state::together) resolve(w, w.lanes[k]->mask);
  }
  void release_converging(warp& w);
  void open_barrier(block& b);
  static std::string place_of(const lane& l);
  std::string who_waits() const;

  grid& grid_;
  const unsigned number_;
  const settings how_;
  std::mt19937_64 dice_;
  counts counts_;
  std::map<const void*, std::uint64_t> changes_of_;
  std::vector<std::unique_ptr<block>> blocks_;
  std::vector<lane*> ready_;
  lane* running_ = nullptr;
  std::uint64_t since_end_ = 0;
  md::saved_context home_{};
  observed_lane own_;
  observed_lane* came_from_ = nullptr;
};

thread_local machine* here = nullptr;

void machine::body() {
  machine& m = *here;
  m.running_->observed.after_coming(m.came_from_);
  acquires(&m.grid_.next);
  try {
    m.grid_.body();
  } catch (const std::exception& e) {
    m.grid_.fail(place_of(m.me()) + ": the kernel has thrown: " + e.what());
  } catch (...) {
    m.grid_.fail(place_of(m.me()) + ": the kernel has thrown");
  }
  for (;;) m.leave_for(state::ended);
}

void machine::begin_block(std::uint64_t number) {
  auto b = std::make_unique<block>();
  const index& g = grid_.size;
  const index& size = grid_.block_size;
  b->at = {static_cast<unsigned>(number % g.x), static_cast<unsigned>(number / g.x % g.y),
           static_cast<unsigned>(number / g.x / g.y)};
  const auto many = static_cast<unsigned>(size.volume());
  b->alive = many;
  b->warps.resize((many + warp_size - 1) / warp_size);
  for (unsigned t = 0; t < many; ++t) {
    std::unique_ptr<lane> l = lane_pool::shared().take();
    warp& w = b->warps[t / warp_size];
    w.of = b.get();
    w.number = t / warp_size;
    l->id = t % warp_size;
    l->thread = {t % size.x, t / size.x % size.y, t / size.x / size.y};
    l->of = &w;
    w.lanes[w.many++] = l.get();
    l->context = md::new_context<&machine::body>(l->stack.top, l->stack.size());
    wake(*l);
    b->lanes.push_back(std::move(l));
  }
  blocks_.push_back(std::move(b));
}

void machine::end_block(block& b) {
  for (auto& l : b.lanes) {
    l->observed.releases(&b);
    l->observed.releases(&grid_);
  }
  acquires(&b);
  for (auto& l : b.lanes) lane_pool::shared().give_back(std::move(l));
  std::erase_if(blocks_, [&](const auto& one) { return one.get() == &b; });
  since_end_ = 0;
}

void machine::run() {
  here = this;
  const std::uint64_t many = grid_.size.volume();
  while (!grid_.failed.load(std::memory_order_relaxed)) {
    while (blocks_.size() < how_.resident) {
      const std::uint64_t number = grid_.next.fetch_add(1, std::memory_order_relaxed);
      if (number >= many) break;
      begin_block(number);
    }
    if (blocks_.empty()) break;
    if (ready_.empty()) {
      grid_.fail("deadlock: " + who_waits());
    } else if (++since_end_ > how_.most_steps) {
      grid_.fail("no block has ended for " + std::to_string(how_.most_steps) +
                 " steps: lanes wait for each other in a " + "loop, as " + place_of(*ready_.front()));
    } else {
      step();
    }
  }
  // After a failure, lanes are abandoned.
  ready_.clear();
  while (!blocks_.empty()) end_block(*blocks_.front());
  here = nullptr;
  for (const auto& [address, changes] : changes_of_) counts_.addresses.push_back({address, changes});
  const std::lock_guard lock(grid_.mutex);
  grid_.all += counts_;
}

void machine::step() {
  const std::size_t at = dice_() % ready_.size();
  lane& l = *ready_[at];
  ++counts_.switches;
  running_ = &l;
  own_.before_leaving(l.observed, came_from_, false);
  md::switch_context(home_, l.context);
  own_.after_coming(came_from_);
  running_ = nullptr;
  if (l.now == state::ready) {
    // A lane in active_mask() does not wait for a lane that runs elsewhere.
    if (l.of->steps != 0 && ++l.of->steps > (how_.split_one_in == 0 ? 4096 : 64)) release_converging(*l.of);
    return;
  }
  ready_[at] = ready_.back();
  ready_.pop_back();
  --l.of->ready;
  after(l);
}

/// The lane waits, or has ended.
void machine::after(lane& l) {
  warp& w = *l.of;
  block& b = *w.of;
  switch (l.now) {
    case state::together: resolve(w, l.mask); break;
    case state::at_barrier: ++b.at_barrier; break;
    case state::ended:
      --b.alive;
      resolve_all(w);  // collectives do not wait for lanes that have ended
      break;
    case state::converging: w.steps = std::max(w.steps, 1U); break;
    case state::ready: break;
  }
  if (b.alive == 0) return end_block(b);
  if (b.at_barrier == b.alive) open_barrier(b);
  if (w.ready == 0 || (l.now == state::converging && how_.split_one_in != 0 && roll(8 * how_.split_one_in) == 0))
    release_converging(w);
}

void machine::open_barrier(block& b) {
  b.at_barrier = 0;
  for (const auto& l : b.lanes)
    if (l->now == state::at_barrier) wake(*l);
}

/// Called when all lanes of the mask have arrived.
void machine::resolve(warp& w, std::uint32_t mask) {
  std::uint32_t members = 0;
  const lane* first = nullptr;
  for (unsigned k = 0; k < w.many; ++k) {
    if ((mask >> k & 1U) == 0 || w.lanes[k]->now == state::ended) continue;
    const lane& l = *w.lanes[k];
    if (first == nullptr) first = &l;
    if (l.now != state::together || l.mask != mask || l.op != first->op) return;
    members |= 1U << k;
  }
  if (first != nullptr && first->op == collective::shuffle)
    for (std::uint32_t left = members; left != 0; left &= left - 1) {
      const lane& l = *w.lanes[static_cast<unsigned>(std::countr_zero(left))];
      if ((members >> l.from & 1U) == 0) grid_.fail(place_of(l) + ": shuffle from a lane that has ended");
    }
  const auto each = [&](auto&& what) {
    for (std::uint32_t left = members; left != 0; left &= left - 1)
      what(*w.lanes[static_cast<unsigned>(std::countr_zero(left))]);
  };
  each([&](lane& l) {
    std::uint64_t out = 0;
    each([&](const lane& other) {
      switch (l.op) {
        case collective::ballot: out |= std::uint64_t{other.in != 0} << other.id; break;
        case collective::match: out |= std::uint64_t{other.in == l.in} << other.id; break;
        case collective::shuffle: out = other.id == l.from ? other.in : out; break;
        case collective::add: out += other.in; break;
        case collective::either: out |= other.in; break;
        case collective::sync: break;
      }
    });
    l.out = out;
  });
  each([&](lane& l) { wake(l); });
}

/// Lanes at the same call get the same mask, or are split into two groups at random.
void machine::release_converging(warp& w) {
  w.steps = 0;
  std::uint32_t left = 0;
  for (unsigned k = 0; k < w.many; ++k) left |= std::uint32_t{w.lanes[k]->now == state::converging} << k;
  while (left != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(left));
    const bool split = how_.split_one_in != 0 && roll(how_.split_one_in) == 0;
    std::uint32_t group = 0;
    for (unsigned k = first; k < w.many; ++k)
      if ((left >> k & 1U) != 0 && w.lanes[k]->site == w.lanes[first]->site && (k == first || !split || roll(2) == 0))
        group |= 1U << k;
    left &= ~group;
    for (std::uint32_t g = group; g != 0; g &= g - 1) {
      lane& l = *w.lanes[static_cast<unsigned>(std::countr_zero(g))];
      l.mask = group;
      wake(l);
    }
  }
}

std::string machine::place_of(const lane& l) {
  const index& b = l.of->of->at;
  std::ostringstream text;
  text << "block (" << b.x << "," << b.y << "," << b.z << "), warp " << l.of->number << ", lane " << l.id;
  return text.str();
}

std::string machine::who_waits() const {
  std::ostringstream text;
  unsigned named = 0;
  for (const auto& b : blocks_) {
    for (const auto& l : b->lanes) {
      if (l->now == state::ended || ++named > 8) continue;
      text << (named == 1 ? "" : "; ") << place_of(*l) << " waits ";
      if (l->now == state::at_barrier) {
        text << "in sync_block";
      } else {
        text << "in " << name_of(l->op) << " for the lanes 0x" << std::hex << l->mask << std::dec;
      }
    }
  }
  if (named > 8) text << "; and " << named - 8 << " more";
  return text.str();
}

}  // namespace

counts& counts::operator+=(const counts& more) {
  changes += more.changes;
  loads += more.loads;
  stores += more.stores;
  collectives += more.collectives;
  switches += more.switches;
  if (more.addresses.empty()) return *this;
  std::map<const void*, std::uint64_t> changes_of;
  for (const changes_at& one : addresses) changes_of[one.address] += one.changes;
  for (const changes_at& one : more.addresses) changes_of[one.address] += one.changes;
  addresses.clear();
  for (const auto& [address, many] : changes_of) addresses.push_back({address, many});
  std::sort(addresses.begin(), addresses.end(), [](const changes_at& a, const changes_at& b) {
    return a.changes != b.changes ? a.changes > b.changes : std::less<>{}(a.address, b.address);
  });
  return *this;
}

settings& current() {
  static settings one;
  return one;
}

counts execute(index size, index block_size, const std::function<void()>& body) {
  const auto text_of = [](index i) {
    return std::to_string(i.x) + " x " + std::to_string(i.y) + " x " + std::to_string(i.z);
  };
  if (size.volume() == 0) throw error("simt: the grid has " + text_of(size) + " blocks; it must have at least one");
  if (block_size.volume() == 0 || block_size.volume() > 1024)
    throw error("simt: a block has " + text_of(block_size) + " threads; it must have 1 to 1024");
  const settings how = current();
  for (const auto& [name, value] : {std::pair{"multiprocessors", how.multiprocessors},
                                    {"resident", how.resident},
                                    {"switch_one_in", how.switch_one_in}})
    if (value == 0) throw error(std::string("simt: settings::") + name + " is 0; it must be at least 1");
  grid whole(size, block_size, body);
  std::vector<std::jthread> others;
  releases(&whole.next);
  const auto one = [&](unsigned number) { machine(whole, number, how).run(); };
  for (unsigned n = 1; n < how.multiprocessors; ++n) others.emplace_back(one, n);
  one(0);
  others.clear();
  acquires(&whole);
  if (whole.failed) throw error("simt: " + whole.why + " (seed " + std::to_string(how.seed) + ")");
  return whole.all;
}

// On threads that execute no kernel, a thread is a warp of one lane.
unsigned lane_id() { return here == nullptr ? 0 : here->me().id; }
std::uint32_t active_mask() { return here == nullptr ? 1 : here->converge(__builtin_return_address(0)); }
std::uint64_t together(std::uint32_t mask, collective op, std::uint64_t value, unsigned from) {
  if (here != nullptr) return here->together(mask, op, value, from);
  const bool is_mask = op == collective::match || (op == collective::ballot && value != 0);
  return is_mask ? mask : value;
}
void sync_block() {
  if (here != nullptr) here->barrier();
}
void point(access kind, const void* address) {
  if (here != nullptr) here->point(kind, address);
}
unsigned warp_place() { return here == nullptr ? 0 : here->place_of_warp(); }
unsigned multiprocessor() { return here == nullptr ? 0 : here->number(); }
std::uint64_t clock() { return here == nullptr ? 0 : here->steps(); }
index thread_index() { return here == nullptr ? index{0, 0, 0} : here->me().thread; }
index block_index() { return here == nullptr ? index{0, 0, 0} : here->me().of->of->at; }
index block_size() { return here == nullptr ? index{} : here->whole().block_size; }
index grid_size() { return here == nullptr ? index{} : here->whole().size; }
void* shared_bytes(const void* key, std::size_t size) { return here->shared(key, size); }

}  // namespace muster_simt
