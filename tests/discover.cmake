# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs inside ctest, when it starts: asks each test program for its cases and makes every one a ctest test.
# CMake's own gtest_discover_tests is not used, because in 3.25 it puts the whole C++ type of a typed test into the
# test's name, hundreds of characters; here the name is the one that --gtest_filter takes.
cmake_policy(VERSION 3.25)

# muster_discover(<label> <seconds> <processors> <name> <program>)
function(muster_discover label seconds processors name program)
  execute_process(
    COMMAND "${program}" --gtest_list_tests
    OUTPUT_VARIABLE listing RESULT_VARIABLE status ERROR_QUIET TIMEOUT 60)
  if(NOT status EQUAL 0 OR NOT listing MATCHES "\n  [^ ]")
    # Not built, or it ends badly, or it has no cases. That must be seen, so it becomes a test that fails.
    add_test("${label}/${name}/lists-its-cases" "${program}" --gtest_list_tests)
    set_tests_properties("${label}/${name}/lists-its-cases" PROPERTIES LABELS "${label}" FAIL_REGULAR_EXPRESSION ".")
    return()
  endif()

  # Suites end in a dot, cases are indented; comments tell the types and values.
  string(REGEX REPLACE " *#[^\n]*" "" listing "${listing}")
  string(REPLACE "\n" ";" listing "${listing}")
  foreach(line IN LISTS listing)
    if(line MATCHES "^[^ ]+\\.$")
      set(suite "${line}")
    elseif(line MATCHES "^  ([^ ]+)$")
      set(case "${suite}${CMAKE_MATCH_1}")
      set(test "${label}/${name}/${case}")
      set(limits LABELS "${label}" TIMEOUT "${seconds}" PROCESSORS "${processors}")
      if(case MATCHES "nightly")
        set(test "nightly/${name}/${case}")
        set(limits LABELS nightly TIMEOUT 3600 RUN_SERIAL TRUE)
      endif()
      add_test("${test}" "${program}" "--gtest_filter=${case}" --gtest_also_run_disabled_tests)
      set_tests_properties("${test}" PROPERTIES ${limits} SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
      if(case MATCHES "DISABLED_")
        set_tests_properties("${test}" PROPERTIES DISABLED TRUE)
      endif()
    endif()
  endforeach()
endfunction()
