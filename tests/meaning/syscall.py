# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Mutants of meaning of sandboxes: see mutants.py."""

BROKER, POLICY, SANDBOX, ZYGOTE = (f"muster/syscall/{name}.hpp" for name in ("broker", "policy", "sandbox", "zygote"))
CALLS, DATA, DECODE, DISK, DOORBELL, HANDLES, LAUNCH, NURSERY, PROGRAM, TRAP = (
    f"muster/syscall/detail/{name}.hpp" for name in (
        "allowed_calls", "client_data", "decode", "disk_room", "doorbell", "handle_table", "launch", "nursery",
        "program", "trap"))

# A broker that could read a request again: where the cells are.
CELLS = ("  const bool kills_;\n", "  const arena_plan::cell* const again_;\n  const bool kills_;\n")
MADE = ("        kills_(rules.on_refusal()", "        again_(at.cells()),\n        kills_(rules.on_refusal()")
WORD = "again_[(request.number - 1) % 8].words[{}].load(std::memory_order_relaxed)"


def read_again(before, after):
    """Pieces of a broker that reads a word of a request a second time."""
    pieces = (CELLS, MADE, (before, after))
    return tuple(one for one, _ in pieces), tuple(other for _, other in pieces)


MUTANTS = (
    # name, header, before, after, test, cases of the test

    # Double fetches: a word is checked, and then read again.
    ("syscall-broker-reads-the-slot-again", BROKER,
     *read_again("answers_.give(call.slot,",
                 f"answers_.give(static_cast<std::uint32_t>({WORD.format(0)} >> 32U),"),
     "unit/broker", "*survives_memory_that_changes"),
    ("syscall-broker-reads-the-place-of-data-again", BROKER,
     *read_again("    const decoded_call call = decoded(request.words);\n",
                 "    decoded_call call = decoded(request.words);\n"
                 f"    if (call.data.size == 14) call.data.at = {WORD.format(2)};\n"),
     "unit/broker", "*survives_memory_that_changes"),
    ("syscall-decode-copies-a-path-again", DECODE,
     "if (to.find('\\0') != to.npos) made.error = EINVAL;",
     "if (to.find('\\0') != to.npos) made.error = EINVAL;\n      to = data_.copied(w);",
     "unit/sandbox_decode", "*of_a_path_that_changes"),

    # Bounds.
    ("syscall-decode-one-slot-too-many", DECODE,
     "if (made.slot >= slots_)", "if (made.slot > slots_)", "unit/sandbox_decode"),
    ("syscall-decode-sticky-modes", DECODE,
     "word & 0777U", "word & 07777U", "unit/sandbox_decode"),
    ("syscall-decode-port-0", DECODE,
     "take_number(made, a[1], 1, 65535);", "take_number(made, a[1], 0, 65535);", "unit/sandbox_decode"),
    ("syscall-decode-zeros-in-paths", DECODE,
     "if (to.find('\\0') != to.npos) made.error = EINVAL;", "", "unit/sandbox_decode"),
    ("syscall-data-ends-that-wrap", DATA,
     "w.size <= size_ && w.at <= size_ - w.size", "w.at + w.size <= size_", "unit/sandbox_decode"),

    # Which rule holds, and what it lets be done.
    ("syscall-policy-names-that-begin-like-a-rule", POLICY,
     "(path.size() == directory.size() || directory == \"/\" || path[directory.size()] == '/')", "true",
     "unit/policy"),
    ("syscall-policy-the-shorter-rule-holds", POLICY,
     "one.path_.size() > longest->path_.size()", "one.path_.size() < longest->path_.size()", "unit/policy"),
    ("syscall-calls-links-followed-to-write", CALLS,
     "open_beneath(rule.directory(), std::string(rest), flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS)",
     "open_beneath(rule.directory(), std::string(rest), flags, mode, RESOLVE_BENEATH)",
     "unit/broker", "*keeps_paths_beneath_the_rule"),
    ("syscall-calls-files-of-processes", CALLS,
     "return where.f_type == PROC_SUPER_MAGIC ? -EACCES : 0;", "return 0;",
     "unit/broker", "*keeps_files_and_directories_only"),
    ("syscall-calls-a-socket-at-any-port", CALLS,
     "if (std::ranges::find(rules_.connects(), call.flags) == rules_.connects().end()) return not_allowed;", "",
     "unit/broker", "*connects_to_allowed_ports"),
    ("syscall-handles-a-number-of-two-files", HANDLES,
     "state_of(turn_after(turn_of(before)), nobodys, 0)", "state_of(turn_of(before), nobodys, 0)",
     "unit/broker", "*keeps_as_many_files_as_the_policy_says"),
    ("syscall-handles-a-number-of-a-standard-stream", HANDLES,
     "turn + 1 == turns ? 1 : turn + 1", "(turn + 1) % turns", "unit/broker", "handle_table_test.*"),
    ("syscall-broker-counts-no-refusals", BROKER,
     "      counters::add(own.refusals, 1);\n", "      counters::add(own.refusals, 0);\n",
     "unit/broker", "*refuses_other_paths"),

    # Limits.
    ("syscall-disk-lengths-do-not-count", DISK,
     "    take(longer);\n", "", "unit/broker", "*blocks_are_counted_late"),
    ("syscall-disk-holes-do-not-count", DISK,
     "const std::uint64_t in_holes = space_of(before) < length_of(before) ? done - beyond : 0;",
     "const std::uint64_t in_holes = 0;", "unit/broker", "*blocks_are_counted_late"),
    ("syscall-disk-holes-are-paid-once-for-all", DISK,
     "    paid_ -= from_paid;\n", "", "unit/broker", "*blocks_are_counted_late"),
    ("syscall-calls-a-length-beyond-the-room", CALLS,
     "if (!left.set_length(before, static_cast<std::uint64_t>(length))) return -EDQUOT;", "",
     "unit/broker", "*limits_the_length_of_files"),
    ("syscall-doorbell-wakes-all", DOORBELL,
     "ring_one() noexcept { ring_for(1); }", "ring_one() noexcept { ring_for(INT_MAX); }",
     "unit/broker", "*an_event_that_needs_one"),
    ("syscall-doorbell-wakes-no-next", DOORBELL,
     "if (asleep.load(std::memory_order_relaxed) != 0) wake(1);", "", "unit/broker", "*an_event_that_needs_one"),
    ("syscall-sandbox-the-brokers-time-is-free", SANDBOX,
     "return broker_->processor_time() + ", "return ", "unit/sandbox", "*time_of_both_sides"),
    ("syscall-launch-keeps-capabilities", LAUNCH,
     "    note(layer::capabilities, give_up_capabilities());\n", "", "unit/sandbox", "*has_no_capabilities*"),
    ("syscall-launch-raises-the-idle", LAUNCH,
     "now != SCHED_BATCH && now != SCHED_IDLE", "now != SCHED_BATCH", "unit/sandbox", "*priority_than_its_maker"),
    ("syscall-trap-handlers-of-the-program", TRAP,
     "if (another_program) {", "if (!another_program) {", "unit/sandbox", "*handlers_with_its_own_data"),
    ("syscall-policy-shows-directions", POLICY,
     "ends_a_line || directs ? 0", "ends_a_line ? 0", "unit/policy", "*as_numbers"),

    # Kernels that lack something.
    ("syscall-calls-no-question-for-openat2", CALLS,
     "if (probe.get() == -ENOSYS || probe.get() == -EPERM)", "if (probe.get() == -ENOSYS)",
     "unit/sandbox_kernels", "*without_openat2*"),
    ("syscall-launch-files-stay-open", LAUNCH,
     "if (::syscall(SYS_close_range, 0, ~0U, 0) != 0) fail(launch_step::files, errno);",
     "::syscall(SYS_close_range, 0, ~0U, 0);", "unit/sandbox_kernels", "*without_close_range*"),
    ("syscall-sandbox-no-question-for-signals", SANDBOX,
     "handle.get() < 0 ? errno : detail::send_signal(handle.get(), 0)", "handle.get() < 0 ? errno : 0",
     "unit/sandbox_kernels", "*without_handles*"),
    ("syscall-zygote-no-question-for-signals", ZYGOTE,
     "handle_.get() < 0 ? errno : detail::send_signal(handle_.get(), 0)", "handle_.get() < 0 ? errno : 0",
     "unit/sandbox_kernels", "*without_handles*"),
    ("syscall-sandbox-waits-for-what-it-cannot-kill", SANDBOX,
     "error == 0 || error == ESRCH) return;", "error != EPERM) return;",
     "unit/sandbox_kernels", "*forbid_the_end*"),
    ("syscall-launch-keeps-landlock-quiet", LAUNCH,
     "    note(layer::landlock, allow_no_file());\n", "    allow_no_file();\n",
     "unit/sandbox_kernels", "*without_landlock*"),
    ("syscall-launch-keeps-name-spaces-quiet", LAUNCH,
     "plan_.name_spaces_error >= 0 ? plan_.name_spaces_error : enter_name_spaces()",
     "(plan_.name_spaces_error >= 0 ? plan_.name_spaces_error : enter_name_spaces()) * 0",
     "unit/sandbox_kernels", "*without_name_spaces*"),
    ("syscall-program-of-another-machine", PROGRAM,
     "        header.e_machine != machine ||", "       ", "unit/sandbox", "*program_is_not_loaded"),
    ("syscall-program-that-is-cut-off", PROGRAM,
     "if (got == 0) return ENOEXEC;", "if (got == 0) break;", "unit/sandbox", "*program_is_not_loaded"),

    # Processes that a zygote has prepared.
    ("syscall-nursery-gives-a-spare-of-another-kind", NURSERY,
     "if (!plan.is_like(spares_[i].plan)) continue;", "", "unit/sandbox", "*that_the_zygote_has_prepared"),
    ("syscall-nursery-keeps-spares-of-another-kind", NURSERY,
     "if (want_spares_) drop_spares_unlike(plan);", "", "unit/sandbox", "*the_kind_that_is_ordered_now"),
    ("syscall-nursery-one-spare-too-many", NURSERY,
     "spares_.size() < most_spares_", "spares_.size() <= most_spares_",
     "unit/sandbox", "*a_zygote_that_prepares_none"),
    ("syscall-nursery-an-arena-of-its-own", NURSERY,
     "MAP_SHARED | MAP_FIXED", "MAP_PRIVATE | MAP_FIXED", "unit/sandbox", "*that_the_zygote_has_prepared"),
    ("syscall-nursery-tells-no-status", NURSERY,
     "news.known = ::wait4(", "news.known = -2 == ::wait4(", "unit/sandbox", "*by_a_zygote"),
    ("syscall-launch-name-spaces-make-no-kind", LAUNCH,
     " &&\n           name_spaces == other.name_spaces;", ";", "unit/sandbox", "*that_the_zygote_has_prepared"),
    ("syscall-launch-memory-makes-no-kind", LAUNCH,
     "(memory_bytes != 0) == (other.memory_bytes != 0) && ", "", "unit/sandbox", "*that_the_zygote_has_prepared"),
)
