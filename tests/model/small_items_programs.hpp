// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// small_items_programs.hpp: spsc_queue with items so small that copies of them lie beside tail_. The consumer takes a
// copy when it finds few items, and must neither take one of an earlier lap, nor that of an item which has none.
#pragma once

#include "checker/explore.hpp"
#include "named_programs.hpp"
#include "small_waits.hpp"

#include <array>
#include <vector>

namespace muster_model_test {

/// More items fit than have copies. The ranks wrap.
struct small_items : spsc {
  small_items() : spsc(6, {.threads = 2, .cells = 0, .first_rank = muster::rank_t(0) - 3}) {}

  void push_all(std::initializer_list<int> items) {
    for (const int item : items) mm::require(push(item) == muster::queue_status::success, "a push is refused");
  }
  void push_run(std::initializer_list<int> items) {
    mm::require(push_n(items.begin(), items.size()) == items.size(), "a bulk push is cut short");
  }
  void expect(int first, int last) {
    for (int item = first; item <= last; ++item) {
      const auto got = pop();
      mm::require(got && *got == item, "another item than the next");
    }
  }
};

inline const std::vector<named_program> small_item_programs = {
    {"as many items as overwrite a copy",
     [] {
       small_items q;
       mm::parallel([&] { q.push_all({1, 2, 3, 4, 5, 6}); }, [&] { q.expect(1, 6); });
     }},
    {"a bulk push between two pushes",
     [] {
       small_items q;
       mm::parallel([&] { q.push_all({1}), q.push_run({2, 3}), q.push_all({4}); }, [&] { q.expect(1, 4); });
     }},
    {"pushes after a bulk push",
     [] {
       small_items q;
       mm::parallel([&] { q.push_run({1, 2}), q.push_all({3, 4, 5, 6}); }, [&] { q.expect(1, 6); });
     }},
    {"attempts to pop, and a look at the first",
     [] {
       small_items q;
       mm::parallel([&] { q.push_all({1, 2, 3}); },
                    [&] {
                      int next = 1;
                      if (const int* const first = q.front()) mm::require(*first == next, "another first item");
                      for (int attempts = 0; attempts < 2; ++attempts)
                        if (const auto item = q.try_pop()) mm::require(*item == next++, "another item than the next");
                      q.expect(next, 3);
                    });
     }},
    {"the end",
     [] {
       small_items q;
       mm::parallel([&] { q.push_all({1, 2}), q.close(); },
                    [&] {
                      q.expect(1, 2);
                      mm::require(!q.pop(), "an item after the end");
                    });
     }},
};

}  // namespace muster_model_test
