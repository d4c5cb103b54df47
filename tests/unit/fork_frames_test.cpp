// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Forks in functions of all shapes, of halves that return and throw everything, when the second half is stolen: each
// first half ends only after a thief has begun the second. For an engine that finds forks on the stack, all depends on
// what the compiler makes of these functions; so this file is compiled in many ways.
#include <execinfo.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <muster/fork.hpp>

#include <alloca.h>
#include <array>
#include <atomic>
#include <complex>
#include <coroutine>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stolen.hpp"

namespace {

using muster_test::await;
using muster_test::fork2;
using muster_test::fork_stolen;
using muster_test::leaf;
using muster_test::opaque;
using muster_test::pool;
using muster_test::workers;

// --- Results.

struct empty {
  bool operator==(const empty&) const = default;
};
struct two_integers {
  long a, b;
  bool operator==(const two_integers&) const = default;
};
struct integer_and_float {
  long a;
  double b;
  bool operator==(const integer_and_float&) const = default;
};
struct float_and_integer {
  double a;
  int b;
  bool operator==(const float_and_integer&) const = default;
};
struct four_floats {
  float a, b, c, d;
  bool operator==(const four_floats&) const = default;
};
struct in_memory {
  std::array<long, 9> all;
  bool operator==(const in_memory&) const = default;
};
struct alignas(64) aligned {
  long a;
  bool operator==(const aligned&) const = default;
};
/// Small enough for registers, but returned in memory.
struct [[gnu::packed]] packed {
  char a;
  int b;
  short c;
  bool operator==(const packed& other) const { return a == other.a && b == other.b && c == other.c; }
};
struct not_trivial {
  std::unique_ptr<long> a;
  bool operator==(const not_trivial& other) const { return *a == *other.a; }
};

__extension__ using wide = __int128;
/// In one register each, and in half of one.
using four_lanes [[gnu::vector_size(16)]] = float;
using two_lanes [[gnu::vector_size(8)]] = float;
struct of_lanes {
  two_lanes all;
  bool operator==(const of_lanes& other) const { return all[0] == other.all[0] && all[1] == other.all[1]; }
};
template <class T>
bool is_same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, four_lanes>) {
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
  } else if constexpr (std::is_same_v<T, two_lanes>) {
    return a[0] == b[0] && a[1] == b[1];
  } else {
    return a == b;
  }
}

template <class T>
T made(long seed) {
  if constexpr (std::is_same_v<T, empty>) {
    return {};
  } else if constexpr (std::is_same_v<T, two_integers>) {
    return {seed, ~seed};
  } else if constexpr (std::is_same_v<T, integer_and_float>) {
    return {seed, 0.5 * static_cast<double>(seed)};
  } else if constexpr (std::is_same_v<T, float_and_integer>) {
    return {0.5 * static_cast<double>(seed), static_cast<int>(seed)};
  } else if constexpr (std::is_same_v<T, four_floats>) {
    return {static_cast<float>(seed), 2, 3, static_cast<float>(-seed)};
  } else if constexpr (std::is_same_v<T, in_memory>) {
    in_memory all{};
    std::iota(all.all.begin(), all.all.end(), seed);
    return all;
  } else if constexpr (std::is_same_v<T, aligned>) {
    return {seed};
  } else if constexpr (std::is_same_v<T, packed>) {
    return {static_cast<char>(seed), static_cast<int>(~seed), static_cast<short>(seed + 1)};
  } else if constexpr (std::is_same_v<T, not_trivial>) {
    return {std::make_unique<long>(seed)};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "what is so long that it lies in memory: " + std::to_string(seed);
  } else if constexpr (std::is_same_v<T, bool>) {
    return seed % 2 == 0;
  } else if constexpr (std::is_same_v<T, four_lanes>) {
    return four_lanes{static_cast<float>(seed), 2, 3, static_cast<float>(-seed)};
  } else if constexpr (std::is_same_v<T, two_lanes>) {
    return two_lanes{static_cast<float>(seed), static_cast<float>(-seed)};
  } else if constexpr (std::is_same_v<T, of_lanes>) {
    return {made<two_lanes>(seed)};
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return {static_cast<float>(seed), 7};
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return {static_cast<double>(seed), 7};
  } else {
    return static_cast<T>(seed);
  }
}

// A function that is forked with its argument, as fork2(negative, 7, ...).
std::atomic<bool> stolen{false};
template <class R, class P>
R negative(P value) {
  await(stolen);
  return static_cast<R>(-value);
}
bool is_odd(short value) noexcept {
  await(stolen);
  return (value & 1) != 0;
}
enum class level : short { low = -9 };
long depth_of(level at) noexcept {
  await(stolen);
  return -static_cast<long>(at);
}
const char* next(const char* at) {
  await(stolen);
  return at + 1;
}
template <class F, class A, class R>
void expect_of(F& function, A argument, R expected) {
  stolen = false;
  const auto [first, second] = fork2(function, argument, [&] {
    stolen = true;
    return argument;
  });
  EXPECT_EQ(first, expected);
  EXPECT_EQ(second, argument);
}
TEST(functions, take_and_return_small_values) {
  workers().run([] {
    expect_of(negative<long, long>, 1L << 60U, -(1L << 60U));
    expect_of(negative<int, int>, -5, 5);
    expect_of(negative<signed char, int>, -100, static_cast<signed char>(100));
    expect_of(negative<unsigned, short>, short{3}, ~0U - 2U);
    expect_of(negative<double, int>, 3, -3.0);
    expect_of(negative<long, double>, 3.0, -3L);
    expect_of(negative<long, signed char>, opaque(static_cast<signed char>(-7)), 7L);
    expect_of(negative<long, short>, opaque(short{-3}), 3L);
    expect_of(depth_of, opaque(level::low), 9L);
    expect_of(is_odd, short{-3}, true);
    static constexpr char text[] = "ab";
    expect_of(next, &text[0], &text[1]);
  });
}

template <class T>
class results : public ::testing::Test {};
using result_types = ::testing::Types<bool, signed char, short, int, long, unsigned long, float, double, long double,
                                      wide, std::complex<float>, std::complex<double>, empty, two_integers,
                                      integer_and_float, float_and_integer, four_floats, in_memory, aligned, packed,
                                      four_lanes, two_lanes, of_lanes, not_trivial, std::string, std::vector<long>>;
TYPED_TEST_SUITE(results, result_types);

template <class T>
T vector_or(long seed) {
  if constexpr (std::is_same_v<T, std::vector<long>>) {
    return std::vector<long>(7, seed);
  } else {
    return made<T>(seed);
  }
}

TYPED_TEST(results, arrive_when_the_second_half_is_stolen) {
  workers().run([] {
    for (long seed = 1; seed < 8; ++seed) {
      auto [first, second] =
          fork_stolen([&] { return vector_or<TypeParam>(seed); }, [&] { return vector_or<TypeParam>(seed + 100); });
      EXPECT_TRUE(is_same(first, vector_or<TypeParam>(seed)));
      EXPECT_TRUE(is_same(second, vector_or<TypeParam>(seed + 100)));
    }
  });
}

// --- Callers. Each forks in a frame of its own shape, and checks its own state afterwards.

[[gnu::noinline]] long over_aligned(long a) {
  alignas(64) std::array<long, 16> own{};
  std::iota(own.begin(), own.end(), opaque(a));
  asm volatile("" : : "r"(own.data()) : "memory");
  const auto [x, y] = fork_stolen([&] { return leaf(own[3]); }, [&] { return leaf(own[4]); });
  return x + y + std::accumulate(own.begin(), own.end(), 0L) +
         static_cast<long>(reinterpret_cast<std::uintptr_t>(own.data()) % 64);
}
[[gnu::noinline]] long many_locals(long a) {
  long b = opaque(a + 1), c = opaque(a + 2), d = opaque(a + 3), e = opaque(a + 4), f = opaque(a + 5), g = opaque(a + 6);
  long h = opaque(a + 7), i = opaque(a + 8), j = opaque(a + 9), k = opaque(a + 10), l = opaque(a + 11);
  double m = opaque(0.25), n = opaque(1.5), o = opaque(2.5), p = opaque(3.5);
  const auto [x, y] = fork_stolen([a] { return leaf(a); }, [b] { return leaf(b); });
  return x + 2 * y + b - c + d * e - f + g * h - i + j * k - l + static_cast<long>(m * n + o * p * 8);
}
[[gnu::noinline]] long with_alloca(long a) {
  auto* const own = static_cast<long*>(alloca(static_cast<std::size_t>(opaque(a % 7 + 3)) * sizeof(long)));
  for (long i = 0; i < a % 7 + 3; ++i) own[i] = a + i;
  const auto [x, y] = fork_stolen([&] { return leaf(own[0]); }, [&] { return leaf(own[1]); });
  return x + y + own[2];
}
[[gnu::noinline]] long variable_arguments(int many, ...) {
  va_list all;
  va_start(all, many);
  long sum = va_arg(all, long);
  const auto [x, y] = fork_stolen([&] { return leaf(sum); }, [&] { return leaf(many); });
  for (int i = 1; i < many; ++i) sum += va_arg(all, long);
  sum += static_cast<long>(va_arg(all, double));
  va_end(all);
  return x + y + sum;
}
[[gnu::noinline]] in_memory returns_much(long a) {
  in_memory own = made<in_memory>(a);
  const auto [x, y] = fork_stolen([&] { return leaf(own.all[1]); }, [&] { return leaf(own.all[2]); });
  own.all[0] = x + y;
  return own;
}
[[gnu::noinline]] long many_arguments(long a, double b, in_memory c, long d, long e, long f, long g, long h, double i) {
  const auto [x, y] = fork_stolen([&] { return leaf(c.all[5]); }, [h] { return leaf(h); });
  return x + y + a + static_cast<long>(b) + d + e + f + g + h + static_cast<long>(i) + c.all[8];
}
[[gnu::noinline]] double vectors(double a) {
  std::array<double, 32> own{};
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = opaque(a) + static_cast<double>(i);
  std::array<double, 32> squares{};
  for (std::size_t i = 0; i < own.size(); ++i) squares[i] = own[i] * own[i];
  const auto [x, y] = fork_stolen([&] { return squares[1]; }, [&] { return squares[2]; });
  double sum = x + y;
  for (std::size_t i = 0; i < own.size(); ++i) sum += own[i] * squares[31 - i];
  return sum;
}
[[gnu::noinline]] four_lanes vector_arguments(four_lanes a, long b, two_lanes c, four_lanes d) {
  const auto [x, y] = fork_stolen([=] { return a * d; }, [=] { return leaf(b); });
  return x + d * static_cast<float>(y) + four_lanes{c[0], c[1], c[0], c[1]};
}
[[gnu::noinline]] long in_a_loop(long a) {
  long sum = 0;
  for (long i = 0; i < 5; ++i) {
    const auto [x, y] = fork_stolen([&] { return leaf(a + i); }, [=] { return leaf(a * i); });
    sum = sum * 5 + x - y;
  }
  return sum;
}
[[gnu::noinline]] long nested(long a) {
  const auto [x, y] = fork_stolen(
      [&] {
        const auto [v, w] = fork_stolen([&] { return leaf(a); }, [&] { return leaf(a + 1); });
        return v * w;
      },
      [&] {
        const auto [v, w] = fork_stolen([a] { return leaf(a + 2); }, [a] { return leaf(a + 3); });
        return v - w;
      });
  return x + y;
}
[[gnu::noinline]] long at_the_tail(long a, long deep) {
  if (deep == 0) return a;
  const auto [x, y] = fork_stolen([a] { return leaf(a); }, [a] { return leaf(a + 1); });
  return at_the_tail(x - y + a, deep - 1);
}
[[gnu::noinline]] long moves_only(long a) {
  auto one = std::make_unique<long>(a);
  const auto [x, y] =
      fork_stolen([own = std::make_shared<long>(a)] { return leaf(*own); }, [&one] { return leaf(*one); });
  return x + y + *one;
}
[[gnu::noinline]] long through_a_function(long a) {
  const std::function<long()> first = [a] { return leaf(a); };
  const std::function<long()> second = [a] { return leaf(a + 1); };
  const auto [x, y] = fork_stolen(first, second);
  return x * y;
}

struct generator {
  struct promise_type {
    long value = 0;
    generator get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_value(long v) noexcept { value = v; }
    void unhandled_exception() noexcept { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};
generator coroutine(long a) {
  const auto [x, y] = fork_stolen([&] { return leaf(a); }, [&] { return leaf(a + 1); });
  co_return x - 2 * y;
}
[[gnu::noinline]] long in_a_coroutine(long a) {
  const generator one = coroutine(a);
  const long value = one.handle.promise().value;
  one.handle.destroy();
  return value;
}

TEST(callers, of_all_shapes_continue_unchanged) {
  workers().run([] {
    for (long a = 1; a < 6; ++a) {
      const auto at = [](long v) { return v * 3 + 1; };
      EXPECT_EQ(over_aligned(a), at(a + 3) + at(a + 4) + 16 * a + 120);
      EXPECT_EQ(many_locals(a), at(a) + 2 * at(a + 1) + (a + 1) - (a + 2) + (a + 3) * (a + 4) - (a + 5) +
                                    (a + 6) * (a + 7) - (a + 8) + (a + 9) * (a + 10) - (a + 11) + 70);
      EXPECT_EQ(with_alloca(a), at(a) + at(a + 1) + a + 2);
      EXPECT_EQ(variable_arguments(3, a, a + 1, a + 2, 4.0), at(a) + at(3) + 3 * a + 3 + 4);
      EXPECT_EQ(returns_much(a).all[0], at(a + 1) + at(a + 2));
      EXPECT_EQ(returns_much(a).all[8], a + 8);
      EXPECT_EQ(many_arguments(a, 2.5, made<in_memory>(a), 4, 5, 6, 7, 8, 9.5),
                at(a + 5) + at(8) + a + 2 + 4 + 5 + 6 + 7 + 8 + 9 + a + 8);
      double sum = 0;
      const auto s = static_cast<double>(a);
      for (double i = 0; i < 32; ++i) sum += (s + i) * (s + 31 - i) * (s + 31 - i);
      EXPECT_EQ(vectors(s), (s + 1) * (s + 1) + (s + 2) * (s + 2) + sum);
      const auto f = static_cast<float>(a), y = static_cast<float>(at(a));
      EXPECT_TRUE(is_same(
          vector_arguments(made<four_lanes>(a), a, made<two_lanes>(a), made<four_lanes>(a + 1)),
          four_lanes{f * (f + 1) + (f + 1) * y + f, 4 + 2 * y - f, 9 + 3 * y + f, f * (f + 1) - (f + 1) * y - f}));
      long loop = 0;
      for (long i = 0; i < 5; ++i) loop = loop * 5 + at(a + i) - at(a * i);
      EXPECT_EQ(in_a_loop(a), loop);
      EXPECT_EQ(nested(a), at(a) * at(a + 1) + at(a + 2) - at(a + 3));
      EXPECT_EQ(at_the_tail(a, 20), a - 60);
      EXPECT_EQ(moves_only(a), 2 * at(a) + a);
      EXPECT_EQ(through_a_function(a), at(a) * at(a + 1));
      EXPECT_EQ(in_a_coroutine(a), at(a) - 2 * at(a + 1));
    }
  });
}

// --- The view of tools and of exceptions.

[[gnu::noinline]] std::size_t frames_from_here(std::array<void*, 200>& at) {
  return static_cast<std::size_t>(backtrace(at.data(), static_cast<int>(at.size())));
}

TEST(stacks, are_complete_when_return_addresses_have_been_replaced) {
  std::array<void*, 200> before{}, within{};
  workers().run([&] {
    const std::size_t outer = frames_from_here(before);
    std::size_t inner = 0;
    fork_stolen([&] { return inner = frames_from_here(within); }, [] { return 0; });
    ASSERT_GE(inner, outer);
    // From the test on, they are the same.
    std::size_t same = 0;
    while (same + 1 < outer && before[outer - 1 - same] == within[inner - 1 - same]) ++same;
    EXPECT_GE(same + 3, outer);
  });
}

TEST(signals, that_stop_a_thread_do_not_end_its_system_calls) {
  workers().run([] {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    for (int round = 0; round < 20; ++round) {
      // The first half blocks until the second has written: it is interrupted in the system call, and continues it.
      const auto [many, written] = fork2(
          [&] {
            char got = 0;
            return ::read(ends[0], &got, 1);
          },
          [&] { return ::write(ends[1], "x", 1); });
      EXPECT_EQ(many, 1);
      EXPECT_EQ(written, 1);
    }
    ::close(ends[0]);
    ::close(ends[1]);
  });
}

// Programs that wait for signals in one thread block them in all others, before there are any.
TEST(signals, may_be_blocked_where_a_pool_is_made) {
  std::thread([] {
    sigset_t all;
    ::sigfillset(&all);
    ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &all, nullptr), 0);
    pool three({.workers = 3, .stack_bytes = std::size_t{1} << 20U});
    int rounds = 0;
    std::atomic<bool> over{false};
    three.run([&] {
      muster::finish([&](auto& scope) {
        // Kept for others: this thread itself cannot be stopped.
        scope.async([&] {
          for (; rounds < 20; ++rounds) fork_stolen([] { return leaf(1); }, [] { return leaf(2); });
          over = true;
        });
        await(over);
      });
    });
    EXPECT_EQ(rounds, 20);
  }).join();
}

#if defined(MUSTER_BARRIER)
// In a register, a number has its sign: functions that clang has compiled rely on it.
TEST(functions, are_handed_small_numbers_with_their_signs) {
  using muster::detail::to_word;
  constexpr auto minus = [](long value) { return static_cast<muster::detail::word>(-value); };
  EXPECT_EQ(to_word(static_cast<signed char>(-7)), minus(7));
  EXPECT_EQ(to_word(short{-3}), minus(3));
  EXPECT_EQ(to_word(-5), minus(5));
  EXPECT_EQ(to_word(level::low), minus(9));
  EXPECT_EQ(to_word(static_cast<unsigned char>(200)), 200U);
}

// Stacks that others have made lead to addresses that are no code.
TEST(stacks, may_end_with_any_address) {
  muster::detail::known_calls calls;
  for (const std::uintptr_t address : {0ULL, 1ULL, 0x1000ULL, ~0ULL})
    for (int i = 0; i < 2; ++i) EXPECT_FALSE(calls.of(address).rule.known) << address;
}
#endif

// --- Statistics, and the number of offers.

TEST(statistics, count_thefts_and_nothing_else) {
  for (const auto share : {muster::steal_share::half, muster::steal_share::all, muster::steal_share::one}) {
    pool two({.workers = 2, .stack_bytes = std::size_t{1} << 20U, .share = share});
    two.run([] {
      for (int i = 0; i < 10; ++i) fork_stolen([] { return 0; }, [] { return 0; });
    });
    const muster::pool_statistics now = two.statistics();
    EXPECT_EQ(now.thefts, 10U);
    EXPECT_EQ(now.returns, 10U);
    EXPECT_GE(now.waiting_cycles + now.returning_cycles, 1U);
    EXPECT_GE(now.taking_cycles, now.thefts);
  }
  pool alone({.workers = 1});
  alone.run([] {
    muster::finish([](auto& scope) {
      for (int i = 0; i < 100; ++i) scope.async([] { fork2([] {}, [] {}); });
    });
  });
  EXPECT_EQ(alone.statistics().thefts, 0U);
  EXPECT_EQ(alone.statistics().offered, 0U);
}

TEST(statistics, do_not_count_asyncs_that_their_owner_executes) {
  pool two({.workers = 2, .stack_bytes = std::size_t{1} << 20U});
  std::atomic<unsigned> elsewhere{0};
  two.run([&] {
    const auto here = std::this_thread::get_id();
    muster::finish([&](auto& scope) {
      for (int i = 0; i < 1000; ++i)
        scope.async([&] {
          if (std::this_thread::get_id() != here) ++elsewhere;
        });
    });
  });
  EXPECT_EQ(two.statistics().thefts, elsewhere);
}

TEST(engines, can_be_chosen) {
  pool plain({.workers = 2, .stack_bytes = std::size_t{1} << 20U, .engine = muster::fork_engine::watermark});
  EXPECT_EQ(plain.engine(), muster::fork_engine::watermark);
  plain.run([] {
    const auto [x, y] = fork_stolen([] { return leaf(1); }, [] { return leaf(2); });
    EXPECT_EQ(x + y, 11);
  });
  const pool usual({.workers = 1});
  if (pool::barrier_unavailable_reason() == nullptr) {
    EXPECT_EQ(usual.engine(), muster::fork_engine::barrier);
    EXPECT_EQ(pool({.workers = 1, .engine = muster::fork_engine::barrier}).engine(), muster::fork_engine::barrier);
  } else {
    EXPECT_EQ(usual.engine(), muster::fork_engine::watermark);
    EXPECT_THROW(pool({.workers = 1, .engine = muster::fork_engine::barrier}), std::runtime_error);
  }
}

}  // namespace
