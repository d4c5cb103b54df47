# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# The measuring program is tested like the library: a benchmark that cannot notice a wrong queue measures nothing. Its
# unit tests are in tests/unit/bench.

function(bench_test name)
  cmake_parse_arguments(t "" "TIMEOUT" "COMMAND" ${ARGN})
  if(NOT t_TIMEOUT)
    set(t_TIMEOUT 60)
  endif()
  add_test(NAME bench.${name} COMMAND ${t_COMMAND})
  set_tests_properties(bench.${name} PROPERTIES LABELS bench TIMEOUT ${t_TIMEOUT})
endfunction()

# A run of `program` that must end with a given status and say a given piece of text.
function(bench_expect name program status message)
  list(JOIN ARGN "|" arguments)  # a list would fall apart on its way to the script
  bench_test(${name}
    COMMAND ${CMAKE_COMMAND} -DSTATUS=${status} -DMESSAGE=${message} -DPROGRAM=$<TARGET_FILE:${program}>
            "-DARGUMENTS=${arguments}" -P ${CMAKE_CURRENT_SOURCE_DIR}/driver/expect.cmake)
endfunction()

# One smoke test per experiment. ctest asks the program for their names when it starts, so that none is forgotten.
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/smoke_tests.cmake CONTENT
"set(cmake \"${CMAKE_COMMAND}\")
set(program \"$<TARGET_FILE:muster_bench>\")
set(script \"${CMAKE_CURRENT_SOURCE_DIR}/driver/smoke.cmake\")
set(judge \"${MUSTER_PYTHON}\" -B \"${PROJECT_SOURCE_DIR}/report/judge.py\")
set(directory \"${CMAKE_CURRENT_BINARY_DIR}\")
include(\"${CMAKE_CURRENT_SOURCE_DIR}/driver/smoke_tests.cmake\")
")
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/smoke_tests.cmake)

bench_expect(too_few_seconds muster_bench 2 "is too short for queue/fan-out: it needs at least"
  run queue/fan-out --seconds 0.5)
bench_expect(no_seconds muster_bench 2 "not in range" run queue/fan-out --seconds 0)
bench_expect(left_out muster_bench 0 "ffq/fig3-queue-size was not run: --seconds 2 left no time for it"
  run queue/one-to-one ffq/fig3-queue-size --seconds 2)
bench_expect(unknown_experiment muster_bench 2 "nearest name is 'queue/fan-out'" run queue/fanout)
bench_expect(unknown_series muster_bench 2 "the nearest is 'spmc_queue'" run queue/fan-out --only spmc_quue)
bench_expect(bad_cpus muster_bench 2 "is not a list of CPUs" run queue/fan-out --cpus zero)
bench_expect(absent_cpu muster_bench 2 "may not run on CPU 99999" run queue/fan-out --cpus 99999)
bench_expect(unwritable_json muster_bench 2 "cannot write beside" run queue/fan-out --json /nonexistent/result.json)
bench_expect(absent_machine muster_bench 2 "cannot read the machine file /nonexistent/machine.json"
  run ffq/fig8-simulated --machine /nonexistent/machine.json)
bench_expect(unwritable_machine muster_bench 2 "cannot write the machine file" calibrate /nonexistent/machine.json)
bench_expect(dry_run muster_bench 0 "demand_order" run queue/one-to-one --dry-run)
bench_expect(bad_placement muster_bench 2 "unknown placement" run queue/fan-out --placement sideways)

bench_test(list_is_json
  COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:muster_bench>
          -P ${CMAKE_CURRENT_SOURCE_DIR}/driver/list_is_json.cmake)

# The same program over queues that are wrong on purpose: what its exit status says about them.
add_executable(muster_bench_faulty "${PROJECT_SOURCE_DIR}/tests/unit/bench/faulty_contenders.cpp")
target_link_libraries(muster_bench_faulty PRIVATE muster_bench_main)
set(faulty run queue/one-to-one --profile smoke --only)
bench_expect(status.right muster_bench_faulty 0 "ours_right" ${faulty} ours_right)
bench_expect(status.ours_wrong muster_bench_faulty 1 "1 of 5000 items were lost" ${faulty} ours_lossy)
bench_expect(status.ours_and_peer_wrong muster_bench_faulty 1 "OUR ours_lossy failed" ${faulty} ours_lossy,peer_lossy)
bench_expect(status.peer_lossy muster_bench_faulty 3 "1 of 5000 items were lost" ${faulty} ours_right,peer_lossy)
bench_expect(status.peer_disorderly muster_bench_faulty 3 "before an older item" ${faulty} peer_disorderly)
bench_expect(status.peer_crashing muster_bench_faulty 3 "ended by signal 9" ${faulty} peer_crashing)
bench_expect(status.peer_absent muster_bench_faulty 2 "apt-get install libabsent-dev" ${faulty} absent)
set(faulty run fork/small --profile smoke --only)
bench_expect(status.forks_right muster_bench_faulty 0 "forks_right" ${faulty} forks_right)
bench_expect(status.forks_losing muster_bench_faulty 1 "leaves were not executed" ${faulty} forks_losing)
bench_expect(status.forks_repeating muster_bench_faulty 3 "leaves were executed too much" ${faulty} forks_repeating)
