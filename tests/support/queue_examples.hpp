// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// queue_examples.hpp: histories written by hand, each with what fifo_monitor must say about it.
#pragma once

#include "history.hpp"
#include "queue_spec.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster_test {

inline event make(op kind, std::uint32_t thread, std::uint64_t value, result outcome, std::uint64_t begin,
                  std::uint64_t end) {
  return {thread, kind, value, outcome, begin, end};
}
inline event push(std::uint32_t thread, std::uint64_t value, std::uint64_t begin, std::uint64_t end,
                  result outcome = result::success) {
  return make(op::push, thread, value, outcome, begin, end);
}
inline event pop(std::uint32_t thread, std::uint64_t value, std::uint64_t begin, std::uint64_t end) {
  return make(op::pop, thread, value, result::success, begin, end);
}
inline event pop_none(std::uint32_t thread, std::uint64_t begin, std::uint64_t end, result outcome = result::empty) {
  return make(op::pop, thread, 0, outcome, begin, end);
}
inline event close(std::uint32_t thread, std::uint64_t begin, std::uint64_t end) {
  return make(op::close, thread, 0, result::success, begin, end);
}

struct example {
  std::vector<event> history;
  queue_rules rules;
  std::string expected;  // the monitor's whole sentence; empty: accepted
};

/// At least one for every rule and every way to break it, and some that are only close to a violation.
inline std::vector<example> queue_examples() {
  const queue_rules one{1, false}, two{2, false};
  return {
      {{push(0, 5, 1, 2), pop(1, 5, 3, 4), pop(2, 5, 5, 6)},
       {},
       "VRepeat: pop of 5 by thread 1 [3,4] and pop of 5 by thread 2 [5,6] returned the same item"},
      {{push(0, 5, 1, 2), pop(1, 6, 3, 4)},
       {},
       "VFresh: pop of 6 by thread 1 [3,4] returned a value that was never pushed"},
      {{push(0, 5, 1, 2, result::busy), pop(1, 5, 3, 4)},
       {},
       "VFresh: pop of 5 by thread 1 [3,4] returned a value that was never pushed"},
      {{push(0, 5, 3, 4), pop(1, 5, 1, 2)},
       {},
       "VFresh: pop of 5 by thread 1 [1,2] ended before push of 5 by thread 0 [3,4] began"},
      {{push(0, 1, 1, 2), push(0, 2, 3, 4), pop(1, 2, 5, 6), pop(1, 1, 7, 8)},
       {},
       "VOrd: push of 1 by thread 0 [1,2] came before push of 2 by thread 0 [3,4], but pop of 2 by thread 1 [5,6] "
       "came before pop of 1 by thread 1 [7,8]"},
      {{push(0, 1, 1, 2), push(1, 2, 3, 4), pop(2, 2, 5, 6)},
       {},
       "VOrd: push of 1 by thread 0 [1,2] came before push of 2 by thread 1 [3,4], but pop of 2 by thread 2 [5,6] "
       "took the second and the first was never popped"},
      {{push(0, 1, 1, 2), pop_none(1, 3, 4)},
       {},
       "VWit: pop by thread 1 [3,4] reported empty, but the queue held an item all the time: push of 1 by thread 0 "
       "[1,2] until the end"},
      {{push(0, 1, 1, 2), pop_none(2, 3, 8), push(0, 2, 4, 5), pop(1, 1, 6, 7), pop(1, 2, 9, 10)},
       {},
       "VWit: pop by thread 2 [3,8] reported empty, but the queue held an item all the time: push of 1 by thread 0 "
       "[1,2] until pop of 1 by thread 1 [6,7] began, then push of 2 by thread 0 [4,5] until pop of 2 by thread 1 "
       "[9,10] began"},
      {{push(0, 1, 1, 2, result::closed)},
       {},
       "VClosed: push of 1 by thread 0 [1,2] reported closed, but close was never called"},
      {{pop_none(0, 1, 2, result::closed), close(1, 3, 4)},
       {},
       "VClosed: pop by thread 0 [1,2] reported closed before the first close, close by thread 1 [3,4], began"},
      {{close(0, 1, 2), push(1, 5, 3, 4)},
       {},
       "VClosed: push of 5 by thread 1 [3,4] succeeded although the queue was closed before it began: close by "
       "thread 0 [1,2] had ended"},
      {{close(0, 1, 9), push(1, 4, 2, 3, result::closed), push(1, 4, 5, 6)},
       {},
       "VClosed: push of 4 by thread 1 [5,6] succeeded although the queue was closed before it began: push of 4 by "
       "thread 1 [2,3] had reported closed"},
      {{close(0, 1, 2), pop_none(1, 3, 4)},
       {},
       "VClosed: pop by thread 1 [3,4] reported empty, not closed, although the queue was closed before it began: "
       "close by thread 0 [1,2] had ended"},
      {{push(1, 1, 1, 2), close(0, 3, 4), push(1, 2, 5, 6, result::full)},
       one,
       "VClosed: push of 2 by thread 1 [5,6] reported full, not closed, although the queue was closed before it "
       "began: close by thread 0 [3,4] had ended"},
      {{push(0, 1, 1, 2), close(0, 3, 4), pop_none(1, 5, 6, result::closed)},
       {},
       "VDrain: pop by thread 1 [5,6] reported closed, but push of 1 by thread 0 [1,2] had succeeded and its item "
       "was never popped"},
      {{push(0, 1, 1, 2), close(0, 3, 4), pop_none(1, 5, 6, result::closed), pop(1, 1, 7, 8)},
       {},
       "VDrain: pop by thread 1 [5,6] reported closed, but push of 1 by thread 0 [1,2] had succeeded and pop of 1 by "
       "thread 1 [7,8] came later"},
      // Close cuts short what began before it: here the pop, which would have found the queue empty at 20.
      {{push(0, 1, 1, 2), pop_none(1, 3, 30), close(2, 4, 6), pop(0, 1, 10, 11)},
       {},
       "VWit: pop by thread 1 [3,30] (in effect by 6, when the queue was closed) reported empty, but the queue held "
       "an item all the time: push of 1 by thread 0 [1,2] until pop of 1 by thread 0 [10,11] began"},
      {{push(0, 1, 1, 2), push(1, 2, 3, 30), close(2, 4, 6), pop(0, 1, 10, 11)},
       one,
       "VCapacity: just after stamp 6 at least 2 items were inside, but the capacity is 1: push of 1 by thread 0 "
       "[1,2], push of 2 by thread 1 [3,30] (in effect by 6, when the queue was closed)"},
      {{push(0, 1, 1, 2), pop(0, 1, 3, 4), push(1, 2, 5, 30, result::full), close(2, 6, 8),
        push(0, 3, 4, 5, result::busy)},
       one,
       "VFull: push of 2 by thread 1 [5,30] (in effect by 8, when the queue was closed) reported full, but the "
       "capacity is 1 and the most items that can have been inside are 0"},
      {{push(0, 1, 1, 2), push(1, 2, 3, 4)},
       one,
       "VCapacity: just after stamp 4 at least 2 items were inside, but the capacity is 1: push of 1 by thread 0 "
       "[1,2], push of 2 by thread 1 [3,4]"},
      {{push(0, 1, 1, 2), pop(2, 1, 3, 4), push(1, 2, 5, 6, result::full)},
       one,
       "VFull: push of 2 by thread 1 [5,6] reported full, but the capacity is 1 and the most items that can have "
       "been inside are 0"},
      {{push(0, 1, 1, 2), push(1, 2, 3, 4, result::full)},
       {},
       "VFull: push of 2 by thread 1 [3,4] reported full, but the queue is unbounded and the most items that can "
       "have been inside are 1"},
      // Here only the order of the items tells that 1 was not inside: 1 goes in after 2, and comes out before 2.
      {{push(0, 1, 1, 20), push(1, 2, 5, 6), pop(2, 2, 7, 8), pop(2, 1, 9, 20), push(3, 3, 2, 3, result::full)},
       one,
       "VFull: push of 3 by thread 3 [2,3] reported full, but the capacity is 1 and the most items that can have been "
       "inside are 0"},
      {{push(0, 1, 1, 2), pop(2, 1, 3, 40), push(1, 2, 4, 5), pop(1, 2, 6, 7), push(3, 3, 10, 11, result::full)},
       two,
       "VFull: push of 3 by thread 3 [10,11] reported full, but the capacity is 2 and the most items that can have "
       "been "
       "inside are 0"},
      // And here the pop that found nothing.
      {{push(0, 1, 1, 2), pop(2, 1, 3, 40), pop_none(1, 5, 6), push(3, 3, 10, 11, result::full)},
       one,
       "VFull: push of 3 by thread 3 [10,11] reported full, but the capacity is 1 and the most items that can have "
       "been "
       "inside are 0"},
      // Accepted: the queue was full for a moment, long before the end of the push that saw it.
      {{push(0, 1, 1, 2), push(0, 2, 3, 4), pop(1, 1, 5, 6), pop(1, 2, 7, 8), push(0, 3, 9, 10),
        push(2, 4, 2, 20, result::full)},
       two,
       ""},
      // Accepted, though close to a violation: equal stamps are concurrent, and busy and early full say nothing.
      {{push(0, 1, 1, 2), pop_none(1, 2, 4)}, {}, ""},
      {{push(0, 1, 1, 2), push(1, 2, 2, 3), pop(2, 2, 4, 5), pop(3, 1, 5, 6)}, {}, ""},
      {{close(0, 1, 2), push(1, 5, 2, 4), close(1, 5, 6), pop(0, 5, 7, 8), pop_none(0, 9, 10, result::closed)}, {}, ""},
      {{push(0, 1, 1, 2), push(1, 2, 3, 4, result::busy), pop_none(1, 5, 6, result::busy)}, {}, ""},
      {{push(1, 2, 3, 4, result::full), push(1, 2, 5, 6)}, {2, true}, ""},
      {{push(0, 1, 1, 2), push(1, 2, 3, 4), push(1, 3, 5, 6, result::full), pop(0, 1, 5, 6)}, two, ""},
      {{}, {}, ""},
  };
}

}  // namespace muster_test
