# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Mutants of meaning of the combining objects, and of the queues and stacks built on them: see mutants.py."""

FLAT, OSCI, SHARED, PSIM, QUEUE, STACK, PSIM_QUEUE, PSIM_STACK = (
    f"muster/combine/{header}.hpp" for header in (
        "flat_combining", "osci", "osci_shared", "psim", "combining_queue", "combining_stack", "psim_queue",
        "psim_stack"))
DSM_SYNCH, OYAMA, CLH, MCS, RETRY = (
    f"baselines/combining/{header}.hpp" for header in ("dsm_synch", "oyama", "clh", "mcs", "retry"))
OBJECT, PLACES, NODES, REQUEST, LIST, BOXES = (
    f"muster/combine/detail/{header}.hpp" for header in (
        "combining_object", "per_thread", "psim_nodes", "request", "request_list", "boxed_items"))
SLIP = "muster/combine/detail/burst_slip.hpp"
COUNTER = "muster/combine/counter.hpp"
CARRIER = "muster/fiber/detail/carrier.hpp"
CROWD = "executes_every_request_once_with_its_own_argument"

MUTANTS = (
    # name, header, before, after, test, cases of the test

    # The counter.
    ("combine-counter-accepts-a-group-of-none", COUNTER,
     "if (options.group == 0 || options.group > most_in_group)", "if (options.group > most_in_group)", "unit/counter",
     "a_counter.refuses_options_that_make_no_sense"),
    ("combine-counter-fibers-have-the-value-of-the-first", COUNTER,
     "      one->before += before;\n", "      one->before = before;\n", "unit/counter",
     "a_counter.is_exact_among_fibers_of_one_thread"),
    ("combine-counter-number-of-the-first-fiber-lost", COUNTER,
     "batch own{this, by, nullptr, mine.open};", "batch own{this, 0, nullptr, mine.open};", "unit/counter",
     "a_counter.is_exact_among_fibers_of_one_thread"),
    ("combine-counter-delegate-leaves-its-number-out", COUNTER,
     "    sum = before + by;\n", "    sum = before;\n", "unit/counter", "a_counter.is_exact_among_threads"),
    ("combine-counter-every-number-is-1", COUNTER,
     "sum += (members >> i) % 2 != 0 ? 1 : in.places[i].number.read_ref();", "sum += 1;", "unit/counter",
     "a_counter.is_exact_among_threads"),

    # A thread that waits lets others use the object in bursts.
    ("combine-slip-without-another-thread", SLIP,
     "        if (other != nullptr) mine.left_ = trust;\n", "        mine.left_ = trust;\n", "unit/burst_slip",
     "burst_slip.makes_no_way_for_a_thread_that_comes_rarely"),
    ("combine-slip-burst-forgotten", SLIP,
     "      if (burst_ > longest_) longest_ = burst_;\n", "      longest_ = burst_;\n", "unit/burst_slip",
     "burst_slip.remembers_a_burst_until_the_thread_waits"),
    ("combine-slip-trials-never-rarer", SLIP,
     "std::min(2 * mine.between_trials_, rest)", "mine.between_trials_", "unit/burst_slip",
     "burst_slip.hardly_tries_when_bursts_stay_short"),
    ("combine-slip-never-tries", SLIP,
     "      if (--mine.until_trial_ != 0) return false;\n", "      return false;\n", "unit/burst_slip",
     "burst_slip.finds_out_when_an_absence_is_answered"),

    # Refusals: options, too many threads, operations within operations.
    ("combine-object-accepts-help-of-zero", OBJECT,
     "if (options.help == 0)", "if (options.batch == 0)", "unit/baseline_combining",
     "baselines.serve_at_most_help_requests"),
    ("combine-psim-one-thread-more-than-has-a-name", PSIM,
     "if (options.threads > most_threads)", "if (options.threads > most_threads + 1)", "unit/psim",
     "psim.refuses_options_that_make_no_sense"),
    ("combine-one-thread-too-many", PLACES,
     "while (made < threads_) {", "while (made <= threads_) {", "unit/combine_edges",
     "combine_edges/*.counts_the_threads_that_use_the_object"),
    ("combine-retry-applied-from-within", RETRY,
     "  const detail::reentrancy_scope here(this);\n", "", "unit/baseline_combining",
     "retry.leaves_the_state_alone_when_an_operation_throws"),
    ("combine-joined-fiber-not-looked-at", CARRIER,
     "        MUSTER_CHECK(one->fiber != at || !lasts(*one) || !closes_ring(one->object), joined_by_its_operation);\n",
     "        static_cast<void>(one);\n", "unit/combine_edges",
     "combine_edges/cc_synch.an_operation_does_not_join_a_fiber_that_waits_for_it"),
    ("combine-ring-of-three-not-refused", CARRIER,
     "      object = holder->object;\n      if (reentrancy_scope::is_in(object)) return true;",
     "      object = holder->object;\n      return reentrancy_scope::is_in(object);",
     "unit/combine_edges",
     "combine_edges/cc_synch.fibers_that_would_wait_for_each_other_are_refused"),

    # The places of threads that have ended.
    ("combine-place-of-a-living-thread-taken-over", PLACES,
     "if (!sync::lasts(tenure_of(owner)) &&", "if (sync::lasts(tenure_of(owner)) &&", "unit/combine_edges",
     "combine_edges/cc_synch.counts_the_threads_that_use_the_object"),
    ("combine-only-the-last-place-taken-over", PLACES,
     "for (place* at = last_.load(std::memory_order_acquire); at != nullptr; at = at->next) {",
     "for (place* at = last_.load(std::memory_order_acquire); at != nullptr; at = nullptr) {", "unit/combine_edges",
     "combine_edges/cc_synch.counts_the_threads*:combine_edges/cc_synch.hands_the_places_of_threads_on"),
    ("combine-place-not-used-again-by-the-next-with-its-number", PLACES,
     "if (number_of(owner) != tenure.number ||", "if (owner != me ||", "unit/combine_counts",
     "combining.gives_the_part_of_an_ended_thread_to_the_next"),

    # Requests: their results, their exceptions, and whose they are.
    ("combine-exception-swallowed", REQUEST,
     "          keep_error(one);\n", "", "unit/combine",
     "combine/*.brings_exceptions_to_their_owner_from_every_position"),
    ("combine-nothing-comes-back-as-something", REQUEST,
     "        run = &returned_nothing;\n", "", "unit/eliminate", "*loses_nothing_between_fibers_of_a_stack"),
    ("combine-neighbours-taken-for-one-kind", REQUEST,
     "} while (first != last && first->write_ref().run == &run);", "} while (first != last);", "unit/eliminate",
     "*does_not_reach_across_requests_of_another_kind"),
    ("combine-state-executes-others-as-its-own-kind", REQUEST,
     "while (end != last && end->write_ref().run == &run) ++end;", "while (end != last) ++end;",
     "unit/combine_counts", "*"),
    ("combine-row-works-on-a-copy-of-the-state", REQUEST,
     "    do {\n      run_one(state, first->write_ref());\n      ++first;\n"
     "    } while (first != last && first->write_ref().run == &run);\n",
     "    if constexpr (std::is_copy_assignable_v<State> && std::is_copy_constructible_v<State>) {\n"
     "      State now = state;\n      do {\n        run_one(now, first->write_ref());\n"
     "        ++first;\n      } while (first != last && first->write_ref().run == &run);\n      state = now;\n"
     "      return first;\n    }\n"
     "    do {\n      run_one(state, first->write_ref());\n      ++first;\n"
     "    } while (first != last && first->write_ref().run == &run);\n",
     "unit/combine_edges", "combine_edges/*.there_is_one_state"),
    ("combine-result-moved-by-the-combiner", REQUEST,
     "stored(std::invoke(*owner.function_, state));",
     "stored(static_cast<result&&>(std::invoke(*owner.function_, state)));",
     "unit/places", "throwing.results_of_operations"),
    ("combine-result-is-not-destroyed", REQUEST,
     "        const ended last{outcome_.returned};\n", "", "unit/combine_counts", "*"),

    # The list and who serves it.
    ("combine-helps-one-too-many", LIST,
     "if (next == nullptr || served >= (Alone ? 1 : help_)) {",
     "if (next == nullptr || served > (Alone ? 1 : help_)) {",
     "unit/combine_counts", "combining.helps_as_many_as_its_options_say"),
    ("combine-check-is-always-content", LIST,
     "->state.load(std::memory_order_relaxed) == yours;", "->state.load(std::memory_order_relaxed) != done;",
     "unit/combine", "combine/*.notices_that_it_is_in_use_when_it_is_checked"),
    ("combine-state-is-not-destroyed", LIST,
     "  alignas(isolation_size) sync::cell<State> state_;  // the combiner's\n",
     "  struct kept {\n    union {\n      sync::cell<State> cell;\n    };\n    template <class... Args>\n"
     "    explicit kept(Args&&... args) : cell(std::forward<Args>(args)...) {}\n    ~kept() {}\n"
     "    State& write_ref() noexcept { return cell.write_ref(); }\n  };\n  alignas(isolation_size) kept state_;\n",
     "unit/combine_counts", "*"),
    ("combine-node-given-back-twice", OBJECT,
     "const typename nodes::gives_back last{mine, turn.own};",
     "const typename nodes::gives_back last{mine, turn.own}, again{mine, turn.own};", "unit/combine_crowd",
     "combine_crowd/cc_synch.serves_all_requests_that_came_meanwhile"),

    # The other combining objects and the queue locks. (Two of them are tested where all kinds are.)
    ("combine-flat-combining-executes-twice", FLAT,
     "  own->state.store(done, std::memory_order_relaxed);\n", "", "unit/combine_crowd",
     f"combine_crowd/flat_combining.{CROWD}"),
    ("combine-flat-combining-without-a-signal", FLAT,
     "    events.notify(key);\n", "", "unit/combine_crowd",
     "combine_waiting/parking_flat_combining.serves_all_requests_that_came_meanwhile"),
    ("combine-dsm-synch-role-not-taken", DSM_SYNCH,
     "return look(own) == done;", "return look(own) != waiting_for_turn;", "unit/baseline_combining",
     "baseline/dsm_synch.serves_all_requests_that_came_meanwhile"),
    ("combine-oyama-forgets-those-left-to-it", OYAMA,
     "      rest = now.own->next.read_ref();\n", "",
     "unit/baseline_combining", "baseline/oyama.serves_all_requests_that_came_meanwhile"),
    ("combine-clh-keeps-its-own-node", CLH,
     "mine.give_back(before);", "mine.give_back(own);", "unit/baseline_combining", f"baseline/*.{CROWD}", "", True),
    ("combine-mcs-leaves-those-who-are-about-to-link", MCS,
     "    node* const next = queue_.behind(own, waiting);\n",
     "    node* const next = own->next.load(std::memory_order_acquire);\n    if (next == nullptr) return;\n",
     "unit/baseline_combining", f"baseline/*.{CROWD}", "", True),
    ("combine-retry-goes-on-with-the-copy", RETRY,
     "    for (backoff<cpu_turn> wait(limits, dice);; wait.lost()) {\n      State copy = unpacked(seen);\n",
     "    State copy = unpacked(seen);\n    for (backoff<cpu_turn> wait(limits, dice);; wait.lost()) {\n",
     "unit/baseline_combining", "retry.*"),

    # Batches of osci and osci_shared, and requests that answer each other.
    ("combine-osci-batch-of-fibers-too-long", OSCI,
     "if (b.count == batch_) [[unlikely]]\n      publish(g, b);\n",
     "if (b.count > batch_) [[unlikely]]\n      publish(g, b);\n", "unit/combine_counts", "*"),
    ("combine-osci-shared-batch-too-long", SHARED,
     "!b->make_room(batch_)", "!b->make_room(batch_ + 1)", "unit/combine_counts", "*"),
    ("combine-osci-shared-requests-lost-with-more-room", SHARED,
     "      for (unsigned i = 0; i < room; ++i) larger", "      for (unsigned i = 1; i < room; ++i) larger",
     "unit/combine_counts", "*"),
    ("combine-osci-last-exception-rethrown", OSCI,
     "if (first == nullptr) first = std::current_exception();", "first = std::current_exception();", "unit/osci",
     "apply_batch.executes_all_and_rethrows_the_first_exception"),
    ("combine-osci-results-mixed-up-by-elimination", OSCI,
     "places[i] = kept++;", "places[i] = i, ++kept;", "unit/eliminate",
     "elimination.gives_the_results_of_one_after_another"),
    ("combine-stack-one-push-for-two-pops", STACK,
     "const std::uint32_t met = std::exchange(last, notes[last]);", "const std::uint32_t met = last;",
     "unit/combine_counts", "*"),

    # Tickets and posted requests.
    ("combine-ticket-of-another-thread", PLACES,
     "return place != nullptr && place->part.read_ref() == &part;", "return place != nullptr;", "unit/osci",
     "a_ticket.belongs_to_its_thread"),
    ("combine-ticket-assigned-without-its-place", OSCI,
     "  std::swap(place_, other.place_);\n", "", "unit/combine_counts", "*"),
    ("combine-ticket-with-its-result-refused-within-an-operation", OSCI,
     "if (sync::innermost() != nullptr && !ready()) [[unlikely]]", "if (sync::innermost() != nullptr) [[unlikely]]",
     "unit/osci", "a_ticket.is_not_awaited_within_an_operation_of_its_object"),
    ("combine-post-overtaken-by-a-batch", OSCI,
     "if (g.open != nullptr && g.open->posted + g.open->tickets != 0) publish_and_leave(g, *g.open);", "", "unit/osci",
     "apply_batch.does_not_overtake_requests_that_were_posted"),
    ("combine-thread-that-ends-serves-the-others", OSCI,
     "      list_.serve_alone(own);\n", "      list_.serve(own);\n", "unit/thread_end", "posted_requests.of_a_thread*"),
    ("combine-post-overtaken-by-apply", OSCI,
     "if (g.open == nullptr && !this_fiber::has_siblings())", "if (!this_fiber::has_siblings())", "unit/osci",
     "post.is_executed_with_the_next_apply_at_flush_and_at_the_end"),
    ("combine-posts-travel-one-too-late", OSCI,
     "++b.posted;\n    if (b.count == batch_)", "++b.posted;\n    if (b.count > batch_)", "unit/osci",
     "post.is_executed_with_the_next_apply_at_flush_and_at_the_end"),
    ("combine-posts-of-the-next-thread-lost-at-its-end", OSCI,
     "    in.ends_with_flush = false;\n", "", "unit/osci", "post.is_executed_when_the_thread_ends"),
    ("combine-posts-lost-at-the-end-of-the-object", OSCI,
     "    if (g.open != nullptr && g.open->count == g.open->posted) publish_and_leave(g, *g.open);\n", "", "unit/osci",
     "post.is_executed_with_the_next_apply_at_flush_and_at_the_end"),

    # The end of the object comes too early.
    ("combine-osci-shared-does-not-wait", SHARED,
     "      for (detail::brief_wait wait; g.in_use.load(std::memory_order_relaxed) != 0; wait.pause())\n"
     "        this_fiber::yield();         // it may be a fiber of this thread\n", "", "unit/object_end",
     "combining_object/osci_shared.may_be_*"),
    ("combine-psim-does-not-wait", PSIM,
     "    groups_.await_idle();\n", "", "unit/object_end", "psim.*"),
    ("combine-queue-does-not-wait-for-its-last-push", QUEUE,
     "  detail::object_end::await_free(pushes_);  // a popped item does not imply that its push has left the other "
     "end\n", "", "unit/object_end",
     "structures.may_be_destroyed_as_soon_as_an_item_has_come"),

    # Items of the queues and stacks: their order, and how each ends.
    ("combine-queue-last-item-not-found", QUEUE,
     "return taken != filled;", "return taken + 1 < filled;", "unit/structures",
     "structure/short_queue.keeps_its_order"),
    ("combine-queue-used-segment-keeps-its-next", QUEUE,
     "  added->next.store(nullptr, std::memory_order_relaxed);\n", "", "unit/combine_counts", "*"),
    ("combine-stack-empty-at-the-end-of-a-block", STACK,
     "if (!stack.drop_block()) return std::nullopt;", "return std::nullopt;", "unit/structures",
     "structure/osci_stack.keeps_its_order"),
    ("combine-stack-items-left-not-destroyed", STACK,
     "      while (used != 0) detail::item_words<T>::drop(last->words[--used]);\n", "",
     "unit/structures", "structure/osci_stack.destroys_each_item_once"),
    ("combine-queue-items-left-in-later-segments-not-destroyed", QUEUE,
     "      taken = 0;\n    }\n    delete std::exchange(", "    }\n    delete std::exchange(",
     "unit/structures", "structure/short_queue.destroys_each_item_once"),
    ("combine-popped-item-not-destroyed", BOXES,
     "          from->item.write_ref().destroy();\n", "", "unit/structures", "structure/*.destroys_each_item_once"),
    ("combine-refused-item-not-destroyed", BOXES,
     "        made->item.write_ref().destroy();\n", "", "unit/combine_counts",
     "structures.destroy_an_item_*"),
    ("combine-boxes-not-used-again", BOXES,
     "if (own.size() < most_kept)", "if (own.size() > most_kept)", "unit/combine_counts",
     "structures.use_their_boxes_again"),

    # psim: announced requests, their results, and what load() answers.
    ("combine-psim-youngest-thread-ignored", PSIM,
     "(std::uint64_t{1} << here) - 1", "(std::uint64_t{1} << (here - 1)) - 1", "unit/psim", "threads.come_and_go"),
    ("combine-psim-batch-runs-on-into-the-last-one", PSIM,
     "  if (count < batch_) me.announced[count].run.store({}, std::memory_order_release);  // (8)\n", "", "unit/psim",
     "psim.executes_a_batch_that_is_smaller_than_the_last_one"),
    ("combine-psim-gives-up-after-one-attempt", PSIM,
     "attempts < 2;", "attempts < 1;", "unit/psim", "*a_crowd*/3x8_*:*a_crowd*/4x1_*"),
    ("combine-psim-results-in-reverse", PSIM,
     "p.result[0] = there.first[i].read_ref();", "p.result[0] = there.first[count - 1 - i].read_ref();", "unit/psim",
     "*a_crowd*/1x20_*"),
    ("combine-psim-load-in-need-answers-one-word", PSIM,
     "for (unsigned i = 0; i < state_words; ++i) to.first[i].write_ref() = words[i];",
     "to.first[0].write_ref() = words[0];",
     "unit/psim", "psim.copies_whole_states"),
    ("combine-psim-try-load-never-fails", PSIM,
     "if (head_.load(std::memory_order_acquire) != head) return std::nullopt;", "", "unit/psim",
     "psim.copies_whole_states"),
    ("combine-psim-vain-execution-not-told", PSIM,
     "      if constexpr (works) me.workspace.abort();\n      return false;\n    }\n"
     "    if constexpr (works) me.workspace.commit();",
     "      return false;\n    }\n    if constexpr (works) me.workspace.commit();", "unit/psim_structures",
     "workspaces.see_an_execution_that_others_have_overtaken"),

    # psim: one record, chain or node too many or too few.
    ("combine-psim-one-record-in-place-of-two", PSIM,
     "  me.filling ^= 1;\n", "", "unit/psim", "psim.copies_whole_states"),
    ("combine-psim-results-twice-as-large", PSIM,
     "results(std::size_t{in.threads_} * in.row_)", "results(2 * std::size_t{in.threads_} * in.row_)",
     "unit/combine_counts",
     "psim.has_the_results_of_each_batch_once"),
    ("combine-psim-chain-made-with-one-in-reserve", NODES,
     "  if (reserve_ != nullptr) {\n    free_ = std::exchange(reserve_, nullptr);\n    count_ += market_.chain;\n"
     "    return true;\n  }\n", "", "unit/psim_structures", "memory.*"),
    ("combine-psim-chain-offered-one-too-late", NODES,
     "if (count_ >= market_.chain) {", "if (count_ > market_.chain) {", "unit/psim_structures", "memory.*",
     "chains of one node more are handed on, and nothing is lost"),
    ("combine-psim-offers-of-one-thread-not-seen", NODES,
     "i <= market_.threads; ++i)", "i < market_.threads; ++i)", "unit/psim_structures", "memory.*"),
    ("combine-psim-vain-execution-loses-free-nodes", NODES,
     "  first_taken_->next.write_ref() = free_;\n", "",
     "unit/psim_structures", "*serves_threads_that_come_and_go:memory.*"),
    ("combine-psim-stack-node-free-twice", PSIM_STACK,
     "return {item, detail::psim_popped::no_node};", "return {item, detail::word_of(old)};",
     "unit/combine_counts", "*"),

    # psim_queue and psim_stack: items that are not found, end too early or never.
    ("combine-psim-queue-pushes-not-linked", PSIM_QUEUE,
     "std::exchange(now, push_end(nullptr)).link();", "now = push_end(nullptr);", "unit/psim_structures",
     "psim_structure/queue.keeps_its_order"),
    ("combine-psim-item-ends-with-its-push", NODES,
     "      static_cast<void>(box.release());\n", "", "unit/structures",
     "structure/psim_queue.destroys_each_item_once"),
    ("combine-psim-queue-items-left-not-destroyed", PSIM_QUEUE,
     "if constexpr (!as_item::in_place) for_each", "if constexpr (as_item::in_place) for_each", "unit/structures",
     "structure/psim_queue.destroys_each_item_once"),
    ("combine-psim-stack-items-left-not-destroyed", PSIM_STACK,
     "if constexpr (!as_item::in_place) for_each", "if constexpr (as_item::in_place) for_each",
     "unit/combine_counts", "*"),
)
