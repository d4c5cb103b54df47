// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Random programs over all parts at once: threads and fibers come and go, objects are shared and die with their last
// user, operations throw and nest, forks, asyncs, tasks, graphs and pipelines do all that as well. Every addition must
// arrive once, every item come out once, every exception reach the thread whose operation threw it, and all must end.
//
// MUSTER_RANDOM_SEED     the first program; a failure names its program's seed
// MUSTER_RANDOM_SECONDS  continues with other programs for this time
#include <gtest/gtest.h>
#include <muster/muster.hpp>

#include "scale.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace std::chrono_literals;
using muster::fiber;
using muster::queue_status;
using dice = std::mt19937_64;

/// Thrown by an operation; only the caller of that operation may see it.
struct refusal : std::runtime_error {
  explicit refusal(std::uint64_t n) : std::runtime_error("refused"), number(n) {}
  std::uint64_t number;
};

std::atomic<std::int64_t> items_alive{0};

/// An item that cannot be copied, and counts itself.
class item {
 public:
  explicit item(std::uint64_t value) : value_(std::make_unique<std::uint64_t>(value)) { ++items_alive; }
  item(item&& other) noexcept : value_(std::move(other.value_)) { ++items_alive; }
  item& operator=(item&& other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  ~item() { --items_alive; }
  std::uint64_t value() const { return *value_; }

 private:
  std::unique_ptr<std::uint64_t> value_;
};

/// A sum that many actors add to, by one of the techniques. A second count of the additions is kept outside.
class account {
 public:
  struct state {
    std::uint32_t sum = 0;
    std::uint32_t operations = 0;
  };
  using objects = std::variant<muster::osci<state>, muster::osci_shared<state>, muster::cc_synch<state>,
                               muster::flat_combining<state>, muster::psim<state>>;

  explicit account(std::size_t kind) { make(kind % std::variant_size_v<objects>); }
  account(const account&) = delete;
  account& operator=(const account&) = delete;
  ~account() {
    std::uint64_t sum = 0, operations = 0;
    std::visit(
        [&](auto& object) {
          operations = object->apply([](state& s) noexcept { return s.operations; });
          sum = object->apply([](state& s) noexcept { return s.sum; });
        },
        *object_);
    EXPECT_EQ(sum, added_.load() % (std::uint64_t{1} << 32U));
    EXPECT_EQ(operations, operations_.load());
  }

  void add(std::uint64_t what, bool throws, account* also) {
    added_ += what;
    ++operations_;
    std::visit([&](auto& object) { add_to(*object, what, throws, also); }, *object_);
  }
  /// Without waiting, where there is a way.
  void post(std::uint64_t what) {
    added_ += what;
    ++operations_;
    std::visit(
        [&](auto& object) {
          if constexpr (requires { object->post([](state&) noexcept {}); }) {
            object->post(
                [what](state& s) noexcept { s = {s.sum + static_cast<std::uint32_t>(what), s.operations + 1}; });
          } else {
            add_to(*object, what, false, nullptr);
          }
        },
        *object_);
  }

 private:
  template <class Object>
  static void add_to(Object& object, std::uint64_t what, bool throws, account* also) {
    if constexpr (std::is_same_v<Object, muster::psim<state>>) {
      object.apply([what](state& s) noexcept {
        s = {s.sum + static_cast<std::uint32_t>(what), s.operations + 1};
        return s.operations;
      });
    } else {
      try {
        const auto result = object.apply([&](state& s) {
          s = {s.sum + static_cast<std::uint32_t>(what), s.operations + 1};
          if (also != nullptr) also->add(what, false, nullptr);
          if (throws) throw refusal(what);
          return std::array<std::uint64_t, 2>{what, s.operations};
        });
        EXPECT_FALSE(throws);
        EXPECT_EQ(result[0], what) << "the result of another";
      } catch (const refusal& r) {
        EXPECT_TRUE(throws);
        EXPECT_EQ(r.number, what) << "the exception of another";
      }
    }
  }

  template <std::size_t I = 0>
  void make(std::size_t kind) {
    if constexpr (I < std::variant_size_v<objects>) {
      if (kind != I) return make<I + 1>(kind);
      using type = std::variant_alternative_t<I, objects>;
      if constexpr (I == 0) {
        object_ = std::make_unique<held>(std::in_place_index<I>,
                                         std::make_unique<type>(muster::combine_options{.detached = true}));
      } else {
        object_ = std::make_unique<held>(std::in_place_index<I>, std::make_unique<type>());
      }
    }
  }

  template <class>
  struct owned;
  template <class... Types>
  struct owned<std::variant<Types...>> {
    using type = std::variant<std::unique_ptr<Types>...>;
  };
  using held = owned<objects>::type;

  std::unique_ptr<held> object_;
  std::atomic<std::uint64_t> added_{0};
  std::atomic<std::uint64_t> operations_{0};
};

class program;

/// Performs random operations, on a thread or a fiber.
class actor {
 public:
  actor(program& all, std::uint64_t seed, unsigned depth, bool has_thread)
      : all_(all), random_(seed), depth_(depth), has_thread_(has_thread) {}
  void act(unsigned steps);

 private:
  std::uint64_t roll(std::uint64_t sides) { return random_() % sides; }
  std::uint64_t number() { return 1 + roll(1'000'000); }

  void step();
  void use_account();
  void use_own_account();
  void use_queue();
  void wait_for_nothing();
  void begin_fibers();
  void begin_thread();
  void begin_team();
  void fork();
  void scope();
  void loop();
  void group();
  void graph();
  void pipeline();

  program& all_;
  dice random_;
  const unsigned depth_;
  const bool has_thread_;  // to itself: it may block it
};

class program {
 public:
  explicit program(std::uint64_t seed) : random_(seed) {
    for (auto& one : accounts_) one = std::make_unique<account>(random_());
    for (auto& one : pools_)
      one = std::make_unique<muster::pool>(muster::pool_options{.workers = 1 + static_cast<unsigned>(random_() % 3)});
    for (auto& one : queues_) one = std::make_unique<queue>(2 + random_() % 6);
    for (auto& one : inboxes_) one = std::make_unique<inbox>(2 + random_() % 4);
  }
  ~program() {
    for (auto& one : queues_) one.reset();
    EXPECT_EQ(items_alive, 0);
  }
  program(const program&) = delete;
  program& operator=(const program&) = delete;

  void run() {
    // Consumers that only take: one is a thread, the others are fibers.
    std::jthread takes([this] { take(); });
    std::jthread takes_on_fibers([this] {
      std::vector<fiber> fibers;
      fibers.emplace_back([this] { take(); });
      for (auto& one : queues_) fibers.emplace_back([this, &one] { empty(*one); });
      for (auto& box : inboxes_) fibers.emplace_back([this, &box] { empty(*box); });
    });
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 3; ++i)
        threads.emplace_back([this, seed = random_()] { actor(*this, seed, 0, true).act(40); });
    }
    for (auto& one : queues_) one->close();
    for (auto& one : inboxes_) one->close();
    takes.join();
    takes_on_fibers.join();
    EXPECT_EQ(taken_, sent_);
    EXPECT_EQ(sum_taken_, sum_sent_);
  }

  using queue = muster::mpmc_queue<item>;
  using inbox = muster::lanes<item>;

  account& account_at(std::uint64_t i) { return *accounts_[i % accounts_.size()]; }
  static constexpr std::size_t many_accounts = 4;
  muster::pool& pool(std::uint64_t i) { return *pools_[i % pools_.size()]; }
  queue& queue_at(std::uint64_t i) { return *queues_[i % queues_.size()]; }
  inbox& inbox_at(std::uint64_t i) { return *inboxes_[i % inboxes_.size()]; }
  void sends(std::uint64_t value) {
    ++sent_;
    sum_sent_ += value;
  }

 private:
  void has_taken(const item& one) {
    ++taken_;
    sum_taken_ += one.value();
  }
  /// From all queues in turn.
  void take() {
    std::array<bool, queues> over{};
    for (std::size_t i = 0; !std::ranges::all_of(over, std::identity{}); i = (i + 1) % queues) {
      const auto one = queues_[i]->pop_for(200us);
      if (one) has_taken(*one);
      else over[i] = one.status() == queue_status::closed;
    }
  }
  void empty(queue& from) {
    while (const auto one = from.pop()) has_taken(*one);
  }
  void empty(inbox& box) {
    auto from = box.consumer();
    while (auto one = from.pop()) has_taken(*one);
  }

  dice random_;
  std::array<std::unique_ptr<account>, many_accounts> accounts_;
  std::array<std::unique_ptr<muster::pool>, 2> pools_;
  static constexpr std::size_t queues = 2;
  std::array<std::unique_ptr<queue>, queues> queues_;
  std::array<std::unique_ptr<inbox>, 2> inboxes_;
  std::atomic<std::uint64_t> sent_{0}, taken_{0}, sum_sent_{0}, sum_taken_{0};
};

void actor::act(unsigned steps) {
  for (unsigned i = 0; i < steps; ++i) step();
}

void actor::step() {
  switch (depth_ < 3 ? roll(17) : roll(7)) {
    case 0:
    case 1:
    case 2: return use_account();
    case 3: return use_own_account();
    case 4:
    case 5: return use_queue();
    case 6: return wait_for_nothing();
    case 7:
    case 8: return begin_fibers();
    case 9: return begin_thread();
    case 10: return begin_team();
    case 11: return fork();
    case 12: return scope();
    case 13: return group();
    case 14: return graph();
    case 15: return pipeline();
    default: return loop();
  }
}

// Of nested operations, the inner one is of a later account, so that actors never wait in a ring.
void actor::use_account() {
  const std::uint64_t i = roll(program::many_accounts);
  account& one = all_.account_at(i);
  switch (roll(8)) {
    case 0: return one.post(number());
    case 1: return one.add(number(), true, nullptr);
    case 2: return one.add(number(), false, i + 1 < program::many_accounts ? &all_.account_at(i + 1) : nullptr);
    default: return one.add(number(), false, nullptr);
  }
}

// The last of its users destroys it.
void actor::use_own_account() {
  auto shared = std::make_shared<account>(roll(100));
  const auto use = [n = number()](std::shared_ptr<account> mine, unsigned times) {
    for (unsigned i = 0; i < times; ++i) mine->add(n + i, i % 3 == 0, nullptr);
  };
  std::jthread other;
  if (has_thread_ && roll(2) == 0) other = std::jthread(use, shared, 1 + roll(5));
  fiber first(use, shared, 1 + roll(5)), second(use, shared, 1 + roll(5));
  if (roll(2) == 0) shared->add(number(), false, nullptr);
  shared.reset();
}

void actor::use_queue() {
  const std::uint64_t value = number();
  const std::uint64_t which = roll(10);
  if (roll(3) == 0) {
    auto end = all_.inbox_at(which).try_producer();
    if (!end) return;
    all_.sends(value);
    EXPECT_EQ(end->push(item(value)), queue_status::success);
    return;
  }
  auto& queue = all_.queue_at(which);
  item one(value);
  all_.sends(value);
  switch (roll(4)) {
    case 0:
      while (queue.try_push(std::move(one)) != queue_status::success) muster::this_fiber::yield();
      break;
    case 1:
      while (queue.push_for(std::move(one), 100us) != queue_status::success) continue;
      break;
    case 2: {
      std::stop_source stop;
      if (queue.push(std::move(one), stop.get_token()) != queue_status::success) FAIL();
      break;
    }
    default: EXPECT_EQ(queue.push(std::move(one)), queue_status::success);
  }
}

void actor::wait_for_nothing() {
  muster::spsc_queue<int> nobody_pushes(2);
  EXPECT_EQ(nobody_pushes.pop_for(std::chrono::microseconds(roll(300))).status(), queue_status::empty);
}

void actor::begin_fibers() {
  std::vector<fiber> fibers;
  const std::uint64_t throws = roll(8);
  for (std::uint64_t i = 0, many = 1 + roll(4); i < many; ++i)
    fibers.emplace_back([this, seed = random_(), i, throws] {
      actor(all_, seed, depth_ + 1, false).act(4);
      if (i == throws) throw refusal(i);
    });
  for (std::uint64_t i = 0; i < fibers.size(); ++i) {
    try {
      fibers[i].join();
      EXPECT_NE(i, throws);
    } catch (const refusal& r) {
      EXPECT_EQ(r.number, i);
      EXPECT_EQ(i, throws);
    }
  }
}

/// Adds when the thread ends.
struct last_addition {
  ~last_addition() {
    if (to != nullptr) to->add(1, false, nullptr);
  }
  account* to = nullptr;
};

// A fiber may not block its thread, so it waits for the thread's last message.
void actor::begin_thread() {
  muster::spsc_queue<int> over(2);
  std::jthread thread([&, seed = random_(), late = has_thread_ && roll(2) == 0] {
    thread_local last_addition at_the_end;
    if (late) at_the_end.to = &all_.account_at(seed);
    actor(all_, seed, depth_ + 1, true).act(5);
    over.push(0);
  });
  over.pop();
}

void actor::begin_team() {
  const std::uint64_t seed = random_();
  const auto run = [&] {
    muster::run_team({.carriers = 2, .fibers = 2}, [&](unsigned carrier, unsigned f) {
      actor(all_, seed + carrier * 2 + f, depth_ + 1, false).act(3);
      if (seed % 5 == 0 && carrier == 0 && f == 1) throw refusal(seed);
    });
  };
  if (seed % 5 == 0) EXPECT_THROW(run(), refusal);
  else run();
}

void actor::fork() {
  const std::uint64_t seed = random_();
  const std::uint64_t throws = roll(6);
  const auto half = [&](std::uint64_t which) {
    actor(all_, seed + which, depth_ + 1, false).act(3);
    if (which == throws) throw refusal(which);
    return which;
  };
  try {
    const auto [first, second] =
        all_.pool(seed).run([&] { return muster::fork2([&] { return half(0); }, [&] { return half(1); }); });
    EXPECT_EQ(first + 2 * second, 2U);
    EXPECT_GT(throws, 1U);
  } catch (const refusal& r) {
    EXPECT_EQ(r.number, throws);
  }
}

void actor::scope() {
  const std::uint64_t seed = random_();
  const std::uint64_t many = 1 + roll(6), throws = roll(12);
  std::vector<std::atomic<int>> begun(many);
  try {
    all_.pool(seed).run([&] {
      muster::finish([&](muster::async_scope& scope) {
        for (std::uint64_t i = 0; i < many; ++i)
          scope.async([&, i] {
            ++begun[i];
            actor(all_, seed + i, depth_ + 1, false).act(2);
            if (i == throws) throw refusal(i);
          });
      });
    });
    EXPECT_GE(throws, many);
  } catch (const refusal& r) {
    EXPECT_EQ(r.number, throws);
  }
  for (const auto& one : begun) EXPECT_EQ(one, 1);
}

void actor::loop() {
  std::vector<std::uint64_t> numbers(roll(3000));
  std::ranges::generate(numbers, [this] { return roll(1000); });
  const std::uint64_t sum = std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
  all_.pool(roll(10)).run([&] {
    EXPECT_EQ(muster::parallel_reduce(numbers.begin(), numbers.end(), std::uint64_t{0}, std::plus<>()), sum);
    muster::parallel_sort(numbers.begin(), numbers.end());
  });
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
}

void actor::group() {
  const std::uint64_t seed = random_();
  const std::uint64_t many = 1 + roll(6), throws = roll(12);
  std::vector<std::atomic<int>> begun(many);
  muster::task_group group(all_.pool(seed));
  for (std::uint64_t i = 0; i < many; ++i)
    group.run([&, i] {
      ++begun[i];
      actor(all_, seed + i, depth_ + 1, false).act(2);
      if (i == throws) throw refusal(i);
    });
  try {
    group.wait();
    EXPECT_GE(throws, many);
  } catch (const refusal& r) {
    EXPECT_EQ(r.number, throws);
  }
  for (const auto& one : begun) EXPECT_EQ(one, 1);
}

// Two runs: what follows a node that throws is skipped, and all others are executed, after their predecessors.
void actor::graph() {
  const std::uint64_t seed = random_();
  const std::uint64_t many = 1 + roll(6), throws = roll(12);
  std::vector<std::atomic<int>> begun(many);
  std::vector<std::vector<std::uint64_t>> before(many);
  std::vector<bool> skipped(many);
  muster::task_graph graph;
  std::vector<muster::task_node> nodes;
  for (std::uint64_t i = 0; i < many; ++i) {
    nodes.push_back(graph.add([&, i] {
      const int run = ++begun[i];
      for (const std::uint64_t k : before[i]) EXPECT_EQ(begun[k], run);
      actor(all_, seed + i, depth_ + 1, false).act(2);
      if (i == throws) throw refusal(i);
    }));
    for (std::uint64_t edges = roll(3); i != 0 && edges != 0; --edges) {
      const std::uint64_t k = roll(i);
      before[i].push_back(k);
      nodes[k].precede(nodes[i]);
      skipped[i] = skipped[i] || k == throws || skipped[k];
    }
  }
  for (int run = 1; run <= 2; ++run) {
    try {
      graph.run(all_.pool(seed));
      EXPECT_GE(throws, many);
    } catch (const refusal& r) {
      EXPECT_EQ(r.number, throws);
    }
    for (std::uint64_t i = 0; i < many; ++i) EXPECT_EQ(begun[i], skipped[i] ? 0 : run);
  }
}

// Items before the one that throws pass, in order.
void actor::pipeline() {
  const std::uint64_t seed = random_();
  const std::uint64_t many = roll(8), throws = roll(12);
  std::uint64_t next = 0, passed = 0;
  muster::pipeline line(all_.pool(seed), {.in_flight = 1 + roll(4)},
                        muster::serial([&] { return next == many ? std::nullopt : std::optional(next++); }),
                        muster::parallel([&](std::uint64_t i) {
                          actor(all_, seed + i, depth_ + 1, false).act(2);
                          if (i == throws) throw refusal(i);
                          return item(i);
                        }),
                        muster::serial([&](const item& one) { EXPECT_EQ(one.value(), passed++); }));
  try {
    line.run();
    EXPECT_GE(throws, many);
  } catch (const refusal& r) {
    EXPECT_EQ(r.number, throws);
  }
  EXPECT_EQ(passed, std::min(many, throws));
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(random_programs, keep_all_promises) {
  const std::uint64_t first = from_environment("MUSTER_RANDOM_SEED", 1);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(from_environment("MUSTER_RANDOM_SECONDS", 0));
  std::uint64_t done = 0;
  for (; done < muster_test::scaled(10) || std::chrono::steady_clock::now() < end; ++done) {
    SCOPED_TRACE("MUSTER_RANDOM_SEED=" + std::to_string(first + done));
    program(first + done).run();
    if (HasFailure()) return;
  }
  std::printf("%llu random programs\n", static_cast<unsigned long long>(done));
}

}  // namespace
