#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Errors seeded into the queues, which their checking must notice: the known ones of the published algorithms, those
that other libraries have had, and what mutation.hpp cannot do to a single operation.

edits.py --list                    one line for each: its name, the queue whose programs it is run with (of what all
                                   queues share, one that notices it), and the header that it changes
edits.py --check                   whether each can be made in include
edits.py NAME INCLUDE DIRECTORY    reads the header from INCLUDE and writes the changed one into DIRECTORY
"""

import sys
from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    name: str
    queue: str
    header: str
    before: str  # occurs once in the header
    after: str


SPSC, SPMC, MPMC, LANES = (f"muster/queue/{queue}.hpp" for queue in ("spsc", "spmc", "mpmc", "lanes"))
SHARED_RING = "muster/queue/detail/shared_ring.hpp"
RING, ITEM_ACCESS = (f"muster/queue/detail/{part}.hpp" for part in ("ring", "item_access"))
WAIT = "muster/base/detail/eventcount.hpp"

EDITS = (
    # The errors of the published algorithms. FFQ as printed lacks the second look of its erratum; FFQ^m reads rank and
    # gap together, and without that or what stands for it a producer and a consumer miss each other.
    Edit("spmc-no-second-look", "spmc", SPMC,
         "return c.word.load(std::memory_order_relaxed) == published(rank) ? rank_state::ready : rank_state::skipped;",
         "return rank_state::skipped;"),
    Edit("mpmc-no-look-at-the-gap", "mpmc", MPMC,
         "if (!before(rank, gaps_end_.load(std::memory_order_seq_cst))) [[likely]]\n      return true;",
         "return true;"),
    Edit("mpmc-no-look-at-the-gap-of-the-cell", "mpmc", MPMC,
         "if (before(gap_at(rank).load(std::memory_order_seq_cst), rank)) return true;", "return true;"),
    Edit("mpmc-no-second-look", "mpmc", MPMC,
         "word = c.word.load(std::memory_order_seq_cst);", ""),
    Edit("mpmc-gap-goes-back", "mpmc", MPMC,
         "while (before(known, rank)) {", "for (gap.store(rank, std::memory_order_seq_cst); false;) {"),

    # Errors that other libraries have had, made here.
    Edit("ranks-compared-as-numbers", "spsc", RING,  # Concurrency Kit c7945fe: wrong past the wrap
         "return static_cast<std::int64_t>(a - b) < 0;", "return a < b;"),
    Edit("wake-erases-a-flag", "spsc", WAIT,  # folly #989: a plain store over a bit that another thread has set
         "  word_.compare_exchange_strong(asleep, asleep & ~std::uint64_t{bits}, std::memory_order_relaxed,\n"
         "                                std::memory_order_relaxed);",
         "  asleep = word_.load(std::memory_order_relaxed);\n"
         "  word_.store(asleep & ~std::uint64_t{bits}, std::memory_order_relaxed);"),
    Edit("sleep-is-not-counted", "spsc", WAIT,  # a waker takes the bit of one who has gone to sleep behind its back
         "notices that.\n  word_.fetch_add(one_sleep, std::memory_order_relaxed);\n", "notices that.\n"),
    Edit("sleeper-without-the-fence", "spsc", WAIT,  # oneTBB #2136: store buffering between sleeper and waker
         "!asymmetric_ || sync::try_heavy_fence(scope_);  // (8)\n    if", "true;\n    if"),
    Edit("waker-only-loads", "spsc", WAIT,  # tokio #7622: a load, however strong, where a read-modify-write is needed
         "word = word_.fetch_or(0, std::memory_order_release);", "word = word_.load(std::memory_order_seq_cst);"),
    Edit("one-wake-up-swallowed", "mpmc", WAIT,  # glibc 25847: a signal taken by a thread that does not need it
         "  if (!only_one) wake_bits(bit(key), events);", "  static_cast<void>(only_one);"),
    Edit("empty-though-pushed", "mpmc", MPMC,  # folly e20b4e39a, .NET #132736: the first writer is late
         "const bool taken = before(head, tail_.load(std::memory_order_relaxed));",
         "const bool taken = first_look == rank_state::writing;"),
    Edit("free-not-ordered", "mpmc", MPMC,  # moodycamel #404: the place is used again before it has been read
         "return detail::take(c.item, [&c, rank] { c.word.store(free(rank), std::memory_order_release); });",
         "return detail::take(c.item, [&c, rank] { c.word.store(free(rank), std::memory_order_relaxed); });"),

    # Two steps in the wrong order.
    Edit("spmc-published-before-written", "spmc", SPMC,
         "  if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {",
         "  c.word.store(published(rank), std::memory_order_release);\n"
         "    if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {"),
    Edit("spsc-shown-before-written", "spsc", SPSC,
         "  if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {",
         "  show(rank + 1);\n    if constexpr (std::is_nothrow_constructible_v<T, Args&&...>) {"),
    Edit("freed-before-read", "spsc", ITEM_ACCESS,
         "    detail::vacate(place);\n    release();\n  });\n  return queue_result<T>",
         "    detail::vacate(place);\n  });\n  release();\n  return queue_result<T>"),
    Edit("spmc-end-read-before-the-flag", "spmc", SPMC,
         "  if (!consumers_.raise(closing)) return;",
         "  end_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);\n"
         "    if (!consumers_.raise(closing)) return;\n    consumers_.raise(closed);"),
    Edit("mpmc-end-read-before-the-flag", "mpmc", MPMC,
         "  if (!consumers_.raise(closing)) return;",
         "  end_.store(tail_.load(std::memory_order_relaxed), std::memory_order_relaxed);\n"
         "    if (!consumers_.raise(closing)) return;\n    consumers_.raise(closed);"),
    Edit("spsc-closed-before-the-announcement", "spsc", SPSC,
         "  if (!consumer_.raise(closing)) return;", "  if (!consumer_.raise(closing | closed)) return;"),

    # A step left out.
    Edit("sleep-without-a-last-look", "spsc", WAIT,
         "    if (ready()) return true;                                           "
         "// our bit stays: it costs one superfluous wake\n", ""),
    Edit("wake-without-counting", "spsc", WAIT, "  epoch_.fetch_add(1, std::memory_order_release);\n", ""),
    Edit("spmc-close-wakes-no-producer", "spmc", SPMC,
         "  if (producers_.waiters_after_event() != 0) producers_.wake_all();\n", ""),
    Edit("spmc-cell-in-use", "spmc", SPMC,
         "return before(next.rank, limit_) && next.at->word.load(std::memory_order_acquire) == 0;",
         "return before(next.rank, limit_);"),
    Edit("spmc-item-not-announced", "spmc", SPMC,
         "  if (!announce(rank, rank + 1)) [[unlikely]]\n      return queue_status::closed;\n",
         "  tail_.store(rank + 1, std::memory_order_relaxed);\n"),
    Edit("spmc-run-not-resolved", "spmc", SPMC,
         "    while (count > 1 && !resolved(first + count - 1)) count /= 2;\n", ""),
    Edit("spmc-gap-without-a-signal", "spmc", SPMC,
         "  pass_over(rank);\n    signal_rank(rank);", "  pass_over(rank);"),
    Edit("mpmc-freed-place-without-a-signal", "mpmc", MPMC,
         "    signal_room();\n  }\n\n  // Returns true if an item", "  }\n\n  // Returns true if an item"),
    Edit("mpmc-late-rank-leaves-no-gap", "mpmc", MPMC, "  }\n    make_gap(rank);\n", "  }\n"),
    Edit("mpmc-gap-takes-a-place", "mpmc", MPMC, " || fits_beside_gaps(rank, head)", ""),
    Edit("mpmc-rank-of-its-own-for-those-who-may-not-wait", "mpmc", MPMC,
         "  if (for_ever) {", "  if (for_ever || true) {"),
    Edit("mpmc-claim-without-the-flag", "mpmc", MPMC,
         "if (consumers_.waiters_after_event(closing) == 0) [[likely]]", "if (true)"),
    Edit("spsc-full-without-the-fence", "spsc", SPSC, "  sync::full_fence();\n    return refresh_room()",
         "  return refresh_room()"),
    Edit("spmc-empty-without-the-fence", "spmc", SPMC, "      sync::full_fence();\n", ""),
    Edit("spsc-over-before-the-last-item", "spsc", SPSC,
         "return begun_.load(std::memory_order_relaxed) == tail_seen_ ? rank_state::end : rank_state::busy;",
         "return rank_state::end;"),
    Edit("spsc-withdrawal-without-a-signal", "spsc", SPSC,
         "  if (consumer_.waiters_after_event(eventcount::all_keys) != 0) consumer_.wake_all();\n", ""),

    Edit("lanes-two-producers-of-one", "lanes", LANES,
         "lanes_[i].taken.exchange(true, std::memory_order_acquire))",
         "(lanes_[i].taken.store(true, std::memory_order_relaxed), false))"),
    Edit("lanes-wakes-one-key", "lanes", LANES,
         "&& events_.wake(key)) --items;", "&& (events_.wake(key), true)) --items;"),

    # Recovery after a process that died in the middle of an operation.
    Edit("shared-cell-of-the-dead-is-lost", "shared", SHARED_RING,
         "        make_gap(c, word::rank_of(now));\n          give_back(ring, word::rank_of(now));\n",
         "        make_gap(c, word::rank_of(now));\n"),
    Edit("shared-unfinished-push-is-shown", "shared", SHARED_RING,
         "        make_gap(c, word::rank_of(now));\n          give_back(ring, word::rank_of(now));\n",
         "        c.word.store(word::make(word::rank_of(now), word::published), std::memory_order_release);\n"),
    Edit("shared-item-of-the-dead-is-given-twice", "shared", SHARED_RING,
         "        give(c.item.read_ref().value);\n          give_back(ring, word::rank_of(now));\n",
         "        give(c.item.read_ref().value);\n"),

    # A bound too far or too near.
    Edit("spsc-one-item-too-many", "spsc", SPSC,
         "limit_ = head_.load(std::memory_order_acquire) + capacity_;",
         "limit_ = head_.load(std::memory_order_acquire) + capacity_ + 1;"),
    Edit("spmc-one-item-too-many", "spmc", SPMC,
         "limit_ = head + std::min(capacity_ +", "limit_ = head + std::min(capacity_ + 1 +"),
    Edit("spmc-lapped", "spmc", SPMC,
         "limit_ = head + std::min(capacity_ + (gap_last_ - gap_first_), cells_.cells());",
         "limit_ = head + capacity_ + (gap_last_ - gap_first_);"),
    Edit("mpmc-one-item-too-many", "mpmc", MPMC,
         "return head + step * capacity_;", "return head + step * (capacity_ + 1);"),
    Edit("mpmc-end-is-too-near", "mpmc", MPMC,
         "end_.store(tail_.load(std::memory_order_relaxed), ",
         "end_.store(tail_.load(std::memory_order_relaxed) - step, "),
)


def text_of(edit: Edit, include: str) -> str:
    return (Path(include) / edit.header).read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        for edit in EDITS:
            print(edit.name, edit.queue, edit.header)
        return 0
    if arguments == ["--check"]:
        stale = [edit for edit in EDITS if text_of(edit, "include").count(edit.before) != 1]
        for edit in stale:
            print(f"tests/regression/edits.py: {edit.name}: its text is not in {edit.header} once: bring it up to date")
        return 1 if stale else 0
    named = [edit for edit in EDITS if arguments[:1] == [edit.name]]
    if len(arguments) != 3 or not named:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    edit = named[0]
    text = text_of(edit, arguments[1])
    if text.count(edit.before) != 1:
        print(f"edits.py: the text of {edit.name} occurs {text.count(edit.before)} times in {edit.header}; it must be "
              "there once: bring the edit up to date", file=sys.stderr)
        return 1
    changed = Path(arguments[2]) / edit.header
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
