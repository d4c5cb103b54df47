// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// program.hpp: the common parts of the fork/join programs.
//
// A program is a template over a style: plain calls, muster, or a peer. All styles share its source, and the machine
// code of its leaves, which are functions outside of the template. A style S offers
//   S::leaf()                      called at each leaf, or each piece of a loop; counts them in untimed runs
//   S::fork2(f, g)                 a pair of the results of f() and g()
//   S::sum(n, f)                   f(0) + … + f(n - 1), each a child of its own: a scope with n asyncs
//   S::children(n, f)              the same sum, if the style has another way for a number of children known beforehand
//   S::loop(first, last, grain, f) f(from, to) for pieces that cover [first, last)
//   s.both<F>(a, b)                a pair of F(s, a) and F(s, b), for programs that do nothing but fork
//
// A program P<S> has
//   size                           of the run that counts its leaves, of the quick and of the full profile
//   repeats                        true if run() can be called again, with the same input
//   coarse                         true if a look at a flag at each leaf takes no part of its time that can be measured
//   P(size), run(s)                the constructor prepares the input; only run() is timed
//   digest()                       of the result; must equal the serial program's, bit for bit
//   error()                        why the result is wrong, independent of the serial program
//   items()                        the calls or nodes that a time per item refers to; 1 if there are none
//   tell(detail)                   optional: adds further details
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::bench {

struct program_sizes {
  std::uint64_t check;
  std::uint64_t quick;
  std::uint64_t full;
};

/// Hides the value from the compiler, so that it neither moves calls out of a loop nor merges them.
template <class T>
inline void opaque(T& value) {
  asm volatile("" : "+r"(value));
}

template <class S, class F>
std::uint64_t sum_over_children(unsigned many, const F& f) {
  if constexpr (requires { S::children(many, f); }) {
    return S::children(many, f);
  } else {
    return S::sum(many, f);
  }
}

/// Pseudorandom numbers, the same in every run.
class scrambler {
 public:
  explicit scrambler(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }
  /// From [0, 1).
  double fraction() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

template <class T>
std::uint64_t digest_of(const std::vector<T>& values) {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (const T value : values) {
    if constexpr (sizeof(T) == 8) {
      sum = (sum ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3ULL;
    } else {
      sum = (sum ^ static_cast<std::uint64_t>(value)) * 0x100000001b3ULL;
    }
  }
  return sum;
}

/// A square matrix of doubles by rows, or the lines of another one.
struct block {
  double* data;
  std::size_t stride;  // of a row, in elements
  double* row(std::size_t r) const { return data + r * stride; }
  block at(std::size_t r, std::size_t c) const { return {data + r * stride + c, stride}; }
};

}  // namespace muster::bench
