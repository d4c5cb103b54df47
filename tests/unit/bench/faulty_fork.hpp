// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// faulty_fork.hpp: styles of fork/join programs that are wrong on purpose. For tests.
#pragma once

#include "driver/fork_run.hpp"

#include <array>

namespace muster::bench {

enum class fork_fault { none, loses, repeats, late_loss };

/// Plain calls, but the second half of the tenth fork is not executed, or twice. late_loss: in the timed run only.
template <fork_fault Fault>
struct faulty_fork {
  template <class Leaf>
  struct style : serial_style<Leaf> {
    template <auto F, class A>
    static auto both(A a, A b) {
      return fork2([a] { return F(style{}, a); }, [b] { return F(style{}, b); });
    }

    template <class F, class G>
    static auto fork2(F f, G g) {
      const bool timed = std::is_same_v<Leaf, ignores_leaves> ||
                         (std::is_same_v<Leaf, counts_leaves_if_told> && !counts_leaves_if_told::told);
      const bool now = ++forks[timed ? 1 : 0] == 10;
      auto first = value_of(f);
      value_type_of<G> second{};
      const bool lost = now && (Fault == fork_fault::loses || (timed && Fault == fork_fault::late_loss));
      if (!lost) second = value_of(g);
      if (now && Fault == fork_fault::repeats) second = value_of(g);
      return std::pair{first, second};
    }

    inline static std::array<std::uint64_t, 2> forks{};  // of runs that count leaves, and of timed ones
  };
};

}  // namespace muster::bench
