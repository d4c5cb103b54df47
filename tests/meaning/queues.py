# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Mutants of meaning of the queues, of waiting and of fibers: see mutants.py."""

SPSC, SPMC, MPMC, LANES = (f"muster/queue/{queue}.hpp" for queue in ("spsc", "spmc", "mpmc", "lanes"))
SHARED, SHARED_INFO, STATUS = (f"muster/queue/{part}.hpp" for part in ("shared", "shared_info", "status"))
RING, EXCLUSIVE_USE, ITEM_ACCESS, OPERATIONS, WAIT_LIMIT, SHARED_RING = (
    f"muster/queue/detail/{part}.hpp"
    for part in ("ring", "exclusive_use", "item_access", "operations", "wait_limit", "shared_ring"))
WAIT, FUTEX, PARALLELISM, THREAD = (f"muster/base/{part}.hpp" for part in ("wait", "futex", "parallelism", "thread"))
PROCESS, STACK_OVERFLOW = (f"muster/base/{part}.hpp" for part in ("process", "stack_overflow"))
CARRIER, CONTEXT, FIBER, STACK, TEAM = (f"muster/fiber/{part}.hpp"
                                        for part in ("carrier", "context", "fiber", "stack", "team"))

MUTANTS = (
    # name, header, before, after, test, cases of the test

    # The queue of one producer and one consumer.
    ("queue-spsc-one-item-too-many", SPSC,
     "limit_(options.first_rank + capacity),", "limit_(options.first_rank + capacity + 1),",
     "unit/queue_basics", "*holds_exactly_its_capacity*"),
    ("queue-spsc-items-left-past-the-wrap", SPSC,
     "rank != tail; ++rank) cells_", "rank < tail; ++rank) cells_",
     "unit/queue_lifetime", "*items_left_are_destroyed*"),
    ("queue-spsc-full-though-closed", SPSC,
     "look_again() noexcept {\n    if (is_closed()) return queue_status::closed;\n", "look_again() noexcept {\n",
     "unit/queue_basics", "*closed_is_reported_even_when_full"),
    ("queue-spsc-bulk-push-repeats-an-item", SPSC,
     "      if (again) ++item;\n        again = true;\n", "      if (again) ++item;\n",
     "unit/queue_basics", "*bulk_keeps_the_order*"),
    ("queue-spsc-announcement-of-a-bulk-push-that-threw", SPSC,
     "    show(filled);\n      withdraw(filled);\n", "    show(filled);\n",
     "unit/queue_lifetime", "*a_bulk_push_that_throws_leaves_nothing*"),

    # The queue of one producer and many consumers.
    ("queue-spmc-busy-though-full", SPMC,
     "return items < capacity_ ? queue_status::busy", "return items <= capacity_ ? queue_status::busy",
     "unit/queue_basics", "*holds_exactly_its_capacity*"),
    ("queue-spmc-end-is-too-far", SPMC,
     "end_.store(tail_.load(std::memory_order_relaxed), ", "end_.store(tail_.load(std::memory_order_relaxed) + 1, ",
     "unit/queue_basics", "*the_size_of_a_closed_queue*"),
    ("queue-spmc-gaps-are-counted-as-items", SPMC,
     "  return count - gaps;\n", "  return count;\n", "unit/queue_gap", "*bulk_pops_step_over_gaps"),
    ("queue-spmc-a-try-waits-for-room", SPMC,
     "count, false, [] {});", "count, true, [] {});", "unit/queue_basics", "*bulk_keeps_the_order*"),

    # The queue of many producers and many consumers.
    ("queue-mpmc-old-gaps-make-room", MPMC,
     "if (!before(gap, head) && before(gap, rank)) end += step;", "if (before(gap, rank)) end += step;",
     "unit/queue_gap", "*a_gap_takes_no_place_behind_an_item"),
    ("queue-mpmc-claims-what-it-may-not-take", MPMC,
     "claim_up_to(safe ? std::min(count, cells_.cells()) : 1, ",
     "claim_up_to(std::min(count - taken, cells_.cells()), ",
     "unit/queue_lifetime", "*bulk_pop_into_an_output_that_throws*"),
    ("queue-mpmc-claim-without-a-signal", MPMC,
     "        tell_of_head();\n", "", "unit/queue_gap", "*a_consumer_without_a_claim_is_woken_by*"),

    # Common to all queues: arguments, the role of a thread, the life of an item, results, bulk operations.
    ("queue-ring-no-cells-for-threads", RING,
     "least = std::bit_ceil(std::max<std::size_t>(capacity + spare, 2));",
     "least = std::bit_ceil(std::max<std::size_t>(capacity, 2));", "unit/queue_basics", "*too_few_cells*"),
    ("queue-second-producer-unnoticed", EXCLUSIVE_USE,
     "if (door_.taken_.exchange(true, std::memory_order_relaxed)) fail", "if (door_.taken_.load()) fail",
     "unit/queue_misuse", "*a_second_producer_is_noticed"),
    ("queue-item-taken-and-not-destroyed", ITEM_ACCESS,
     "  place.destroy();\n", "", "unit/queue_lifetime", "*results_own_their_item"),
    ("queue-result-empty-and-no-exception", STATUS,
     "if (!has_value()) throw", "if (status_ == queue_status::closed) throw",
     "unit/queue_basics", "queue_result_test*"),
    ("queue-bulk-push-reads-one-more", OPERATIONS,
     "if (++done != count) ++first;", "++done, ++first;", "unit/queue_basics", "*bulk_push_reads_no_more*"),
    ("queue-bulk-pop-takes-one-less", OPERATIONS,
     "for (; taken != count; ++taken) {", "for (; taken + 1 < count; ++taken) {",
     "unit/shared_queue", "*is_found_by_a_descriptor*"),

    # Lanes.
    ("queue-lanes-closed-before-close", LANES,
     "if (drained == used && all_closed) return", "if (drained == used) return",
     "unit/lanes", "*without_a_producer*"),
    ("queue-lanes-unused-ones-stay-open", LANES,
     "for (const std::unique_ptr<lane>& each : lanes_) each->queue.close();",
     "for (std::size_t i = 0; i < used_.load(std::memory_order_relaxed); ++i) lanes_[i]->queue.close();",
     "unit/lanes", "*without_a_producer*"),
    ("queue-lanes-size-without-the-last", LANES,
     "i < used_.load(std::memory_order_relaxed); ++i) items +=",
     "i + 1 < used_.load(std::memory_order_relaxed); ++i) items +=", "unit/lanes", "*each_producer_has_a_lane*"),
    ("queue-lanes-assignment-keeps-the-old", LANES,
     "    leave();\n      owner_ = ", "    owner_ = ", "unit/lanes", "*a_handle_moves_with_its_lane"),

    # The queue between processes.
    ("queue-shared-one-item-too-many", SHARED_RING,
     "return head + step * facts_.capacity; }", "return head + step * (facts_.capacity + 1); }",
     "unit/shared_queue", "*one_process_is_a_fifo*"),
    ("queue-shared-place-of-the-only-consumer-is-kept", SHARED_RING,
     "{&ends_[ring].producer, &ends_[ring].consumer})", "{&ends_[ring].producer})",
     "unit/shared_queue", "*leaves_a_port_to_the_next"),
    ("queue-shared-any-tag-will-do", SHARED_INFO,
     '  compare("tag", quoted(there.tag), quoted(wanted.tag));\n', "",
     "unit/shared_queue", "*distinguish_another_queue*"),
    ("queue-shared-last-participant-is-not-named", SHARED_INFO,
     "s < f.seats; ++s) {\n    const auto& seat", "s + 1 < f.seats; ++s) {\n    const auto& seat",
     "unit/shared_queue", "shared_queue_errors.*"),

    # The ends of a wait: a wake, a deadline, a stop request.
    ("wait-stop-is-taken-for-none", WAIT_LIMIT,
     "return stop != nullptr && stop->stop_requested(); }", "return stop != nullptr && !stop->stop_requested(); }",
     "unit/queue_waiting", "*a_waiting_consumer_gets_the_item"),
    ("wait-stop-wakes-one-key", WAIT_LIMIT,
     "[&events] { events.wake_all(); }", "[&events] { events.wake(0); }",
     "unit/queue_waiting", "*a_stop_request_ends_the_waiting"),
    ("wait-slow-clock-is-asked-once", WAIT_LIMIT,
     "if (!given_up(answer) || has_passed(when)) return answer;", "return answer;",
     "unit/time_points", "a_clock_of_its_own*"),
    ("wait-time-over-is-success", WAIT,
     "&& limit == until) return ready();", "&& limit == until) return true;",
     "unit/base", "event_mask_test*time_ends_the_waiting"),
    ("wait-time-over-is-found", CARRIER,
     "    one.waits = nullptr;\n", "    one.waits = nullptr;\n    one.was_ready = true;\n", "unit/waiting_fibers",
     "waiting_for_a_queue/*.with_a_limit"),
    ("wait-flag-is-raised-by-another", WAIT,
     "return (before & flag_bit) == 0;", "return (before & flag_bit) != 0;", "unit/base", "event_mask_flags*"),
    ("wait-keys-run-into-the-flags", WAIT,
     "return 1U << (key % keys);", "return 1U << key;", "unit/base", "event_mask_flags*"),
    ("wait-more-words-than-the-kernel-takes", FUTEX,
     "    if (count_ == most) overflown_ = true;\n    else words_[count_++] = one;",
     "    if (count_ != most) words_[count_++] = one;", "unit/waiting_fibers", "*too_many_words*"),

    # Processors, the numbers of threads, the names of processes, stacks that overflow.
    ("base-most-of-all-ancestors", PARALLELISM,
     "std::min(limit, here);\n    const std::size_t slash", "std::max(limit, here);\n    const std::size_t slash",
     "unit/base", "cgroup_files*"),
    ("base-pinned-to-the-first-processor", PARALLELISM,
     "unsigned left = n % allowed;", "unsigned left = n / allowed;", "unit/base", "parallelism.*"),
    ("base-number-for-two-threads", THREAD,
     "        free_[i] &= ~(std::uint64_t{1} << smallest);\n", "", "unit/thread_end", "thread_numbers*"),
    ("base-number-is-not-the-smallest", THREAD,
     "std::countr_zero(free_[i])", "63 - std::countl_zero(free_[i])", "unit/thread_end", "thread_numbers*"),
    ("base-tenure-never-ends", THREAD,
     "    ++turns_[number];\n", "", "unit/combine_edges", "*counts_the_threads_that_use_the_object"),
    ("base-process-is-known-by-its-number", PROCESS,
     "return began == 0 || facts.began == began ? liveness::alive : liveness::dead;", "return liveness::alive;",
     "unit/shared_queue", "processes.are_distinguished_from_later_ones*"),
    # Behind a filter.
    ("base-process-that-cannot-be-asked-for-lives", PROCESS,
     "return facts.missing && detail::facts_of(1).began != 0 ? liveness::dead : liveness::unknown;",
     "return liveness::unknown;", "unit/shared_queue_filter", "*notices_a_death*"),
    ("base-process-that-is-refused-lives", PROCESS,
     "return ::kill(0, 0) == 0 ? existence::yes : existence::unknown;", "return existence::yes;",
     "unit/shared_queue_filter", "processes_behind_a_filter*"),
    ("wait-sleeper-needs-the-fence", WAIT,
     "= !asymmetric_ || sync::try_heavy_fence(scope_);  // (8)\n    if",
     "= !asymmetric_ || (sync::heavy_fence(scope_), true);  // (8)\n    if",
     "unit/shared_queue_filter", "*sleeps_without_membarrier"),
    ("shared-close-without-a-fence", SHARED_RING,
     "if (!ordered) return false;", "static_cast<void>(ordered);",
     "unit/shared_queue_filter", "*leaves_the_end_of_close*"),
    ("shared-port-asks-again-behind-a-filter", SHARED,
     "|| (now < 0 && generation_ == process_generation())", "", "unit/shared_queue_filter", "*opens_ports_when*"),
    ("base-signal-stack-is-taken-away", STACK_OVERFLOW,
     "if (::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;",
     "if (::sigaltstack(nullptr, &now) != 0) return;", "unit/stack_overflow", "*takes_no_signal_stack_away"),
    ("base-other-faults-without-their-facts", STACK_OVERFLOW,
     "before.sa_sigaction(number, info, context);", "before.sa_handler(number);",
     "unit/stack_overflow", "*tells_them_all*"),

    # The order of fibers, what leaves them, what they wait for.
    ("fiber-newest-comes-first", CARRIER,
     "    fiber.next = current_;\n    fiber.before = std::exchange(current_->before, &fiber);\n"
     "    fiber.before->next = &fiber;\n",
     "    fiber.before = current_;\n    fiber.next = std::exchange(current_->next, &fiber);\n"
     "    fiber.next->before = &fiber;\n",
     "unit/fiber", "the_ring*"),
    ("fiber-exception-is-swallowed", CARRIER,
     "fiber.error = caught();", "static_cast<void>(caught());", "unit/fiber", "exceptions.reach_join"),
    ("fiber-comes-back-without-its-exceptions", CARRIER,
     " || sync::innermost() != nullptr || to->keeps)", " || sync::innermost() != nullptr)",
     "unit/fiber", "exceptions.stay_with_their_fiber*"),
    ("fiber-frame-pointer-is-lost", CONTEXT,
     '      "movq 16(%[entered]), %%rbp\\n\\t"\n', "", "unit/fiber", "the_ring*"),
    ("fiber-waits-for-what-has-passed", CARRIER,
     "  if (one.until != no_deadline && deadline_clock::now() >= one.until) return one.ready();\n", "",
     "unit/waiting_fibers", "*a_time_that_has_passed*"),
    ("fiber-thread-sleeps-past-a-deadline", CARRIER,
     "    until = std::min(until, one->waits->until);\n", "",
     "unit/waiting_fibers", "*no_others_and_a_limit*"),

    # Stacks and teams of fibers.
    ("fiber-stack-is-not-given-back", FIBER,
     "  stack_pool::shared().give_back(memory);\n  return error;\n", "  return error;\n",
     "unit/fiber", "stacks.*"),
    ("fiber-stack-of-another-size", STACK,
     "        if (kept_[i].options != wanted) continue;\n", "", "unit/fiber", "stacks.*"),
    ("fiber-stack-without-a-guard", STACK,
     "if (at == MAP_FAILED || (wanted.guard && ::mprotect(at, guard_of(wanted), PROT_NONE) != 0)) {",
     "if (at == MAP_FAILED) {", "unit/stack_overflow", "*by_a_frame_larger_than_a_page*"),
    ("fiber-team-throws-the-last", TEAM,
     "if (first == nullptr) first = detail::caught();", "first = detail::caught();", "unit/fiber", "a_team.*"),
    ("fiber-team-without-fibers", TEAM,
     "if (options.carriers == 0 || options.fibers == 0)", "if (options.carriers == 0)", "unit/fiber", "bad_input.*"),
)
