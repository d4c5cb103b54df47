// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// claims.hpp: the verdict on a figure of a paper, sentence by sentence of what the paper says about it.
#pragma once

#include "driver/result.hpp"

#include <string>

namespace muster::bench {

/// Of two medians that differ by less, neither is the greater one.
inline constexpr double noise = 1.05;

class claims {
 public:
  /// A sentence of the paper with this machine's numbers, and whether it holds here.
  void add(bool holds, const std::string& sentence);
  /// One that cannot be judged here, and why.
  void leave_open(const std::string& why);

  /// reproduced: every sentence holds; not: none does; partly: some do, or some are open. No verdict when all are open.
  void write(result& r) const;

 private:
  std::string here_;
  std::string not_here_;
  std::string open_;
};

}  // namespace muster::bench
