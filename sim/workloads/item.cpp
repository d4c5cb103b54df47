// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
#include "sim/workloads/item.hpp"

#include <fmt/format.h>

#include <numeric>

namespace muster::bench {

verdict judge(const std::vector<tally>& seen, const std::vector<std::uint64_t>& sent, bool demand_order) {
  std::uint64_t sum = 0;
  std::uint64_t folded = 0;
  for (unsigned producer = 0; producer < sent.size(); ++producer) {
    for (std::uint64_t n = 1; n <= sent[producer]; ++n) {
      const item value = make_item(producer, n);
      sum += value;
      folded ^= consumer_check::fold(value);
    }
  }
  const auto expected = std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});

  std::uint64_t count = 0;
  std::uint64_t foreign = 0;
  verdict result;
  for (const tally& one : seen) {
    count += one.count;
    sum -= one.sum;
    folded ^= one.folded;
    foreign += one.foreign;
    result.out_of_order += one.out_of_order;
  }
  if (foreign != 0) {
    result.error = fmt::format("{} values arrived that were not sent", foreign);
  } else if (count != expected) {
    const bool lost = count < expected;
    result.error = fmt::format("{} of {} items were {}", lost ? expected - count : count - expected, expected,
                               lost ? "lost" : "delivered more than once");
  } else if (sum != 0 || folded != 0) {
    result.error = fmt::format("{} items arrived but they are not the ones sent (checksum differs)", count);
  } else if (demand_order && result.out_of_order != 0) {
    result.error =
        fmt::format("{} items reached a consumer before an older item of the same producer", result.out_of_order);
  }
  return result;
}

verdict judge(const std::vector<consumer_check>& consumer_checks, const std::vector<std::uint64_t>& sent,
              bool demand_order) {
  std::vector<tally> seen;
  for (const consumer_check& one : consumer_checks) seen.push_back(one.seen());
  return judge(seen, sent, demand_order);
}

}  // namespace muster::bench
