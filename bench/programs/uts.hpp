// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// uts.hpp: unbalanced tree search: counts the nodes of a tree whose shape cannot be predicted.
//
// T1: geometric, fixed shape: a node above the last level has a number of children whose mean is 4; 10 levels, seed 19.
// T3: binomial: the root has 2000 children, any other node 8 with probability 0.124875, else none; seed 42.
// Both are those of Olivier et al., "UTS: An Unbalanced Tree Search Benchmark" (LCPC 2006), and so are the counts.
#pragma once

#include "programs/program.hpp"
#include "programs/sha1.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace muster::bench {

struct uts_node {
  sha1_digest state;
  unsigned depth;
};

inline uts_node uts_root(std::uint32_t seed) { return {sha1<5>({0, 0, 0, 0, seed}), 0}; }
inline uts_node uts_child(const uts_node& of, std::uint32_t number) {
  const auto& s = of.state;
  return {sha1<6>({s[0], s[1], s[2], s[3], s[4], number}), of.depth + 1};
}
/// A number in [0, 1).
inline double uts_chance(const uts_node& of) { return static_cast<double>(of.state[4] & 0x7fffffffU) * 0x1p-31; }

/// Zero if only the serial program determines it.
struct uts_count {
  std::uint64_t nodes = 0;
  std::uint64_t leaves = 0;
};

struct uts_t1_shape {
  static constexpr program_sizes size{4, 7, 10};  // levels
  static uts_node root(std::uint64_t) { return uts_root(19); }
  static unsigned children(const uts_node& of, std::uint64_t levels) {
    if (of.depth >= levels) return 0;
    static const double scale = 1 / std::log(0.8);  // of 1 - 1 / (1 + mean)
    return static_cast<unsigned>(std::min(std::floor(std::log(1 - uts_chance(of)) * scale), 100.0));
  }
  /// The published counts.
  static uts_count known(std::uint64_t levels) { return levels == 10 ? uts_count{4130071, 3305118} : uts_count{}; }
};

struct uts_t3_shape {
  static constexpr program_sizes size{30, 20, 2000};  // children of the root
  /// The quick profile has another seed: its tree has 117,317 nodes, up to 380 deep.
  static uts_node root(std::uint64_t children) { return uts_root(children == size.quick ? 159 : 42); }
  static unsigned children(const uts_node& of, std::uint64_t root) {
    if (of.depth == 0) return static_cast<unsigned>(root);
    return uts_chance(of) < 0.124875 ? 8 : 0;
  }
  static uts_count known(std::uint64_t root) { return root == 2000 ? uts_count{4112897, 3599034} : uts_count{}; }
};

template <class S, class Shape>
class uts {
 public:
  static constexpr program_sizes size = Shape::size;
  static constexpr bool repeats = false;
  static constexpr bool coarse = true;

  explicit uts(std::uint64_t shape) : shape_(shape) {}

  void run(S) { found_ = count(shape_, Shape::root(shape_)); }

  std::uint64_t digest() const { return found_; }
  std::string error() const {
    const auto [nodes, leaves] = Shape::known(shape_);
    if (nodes == 0 || (items() == nodes && found_ >> 32U == leaves)) return "";
    return "the tree has " + std::to_string(nodes) + " nodes; " + std::to_string(items()) + " were counted";
  }
  std::uint64_t items() const { return found_ & 0xffffffffU; }  // nodes, once it has run

 private:
  /// Nodes in the lower half of the number, leaves in the upper half.
  [[gnu::noinline]] static std::uint64_t count(std::uint64_t shape, const uts_node& at) {
    const unsigned many = Shape::children(at, shape);
    if (many == 0) {
      S::leaf();
      return (std::uint64_t{1} << 32U) + 1;
    }
    return 1 + sum_over_children<S>(many, [&](unsigned i) { return count(shape, uts_child(at, i)); });
  }

  std::uint64_t shape_;
  std::uint64_t found_ = 0;
};

template <class S>
struct uts_t1 : uts<S, uts_t1_shape> {
  using uts<S, uts_t1_shape>::uts;
};
template <class S>
struct uts_t3 : uts<S, uts_t3_shape> {
  using uts<S, uts_t3_shape>::uts;
};

}  // namespace muster::bench
