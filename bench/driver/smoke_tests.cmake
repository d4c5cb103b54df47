# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs inside ctest, when it starts: a smoke test for each experiment that ${program} has, and one that judges what they
# have written to ${directory}: that the table of bars names series that there are, and that the files fit the schema.
execute_process(COMMAND "${program}" list --json OUTPUT_VARIABLE listing RESULT_VARIABLE status ERROR_QUIET TIMEOUT 60)
set(count 0)
if(status EQUAL 0)
  string(JSON count LENGTH "${listing}" experiments)
endif()
if(count EQUAL 0)
  # Not built, or it ends badly. That must be seen, so it becomes a test that fails.
  add_test(bench.lists-its-experiments "${program}" list --json)
  set_tests_properties(bench.lists-its-experiments PROPERTIES LABELS bench FAIL_REGULAR_EXPRESSION ".")
  return()
endif()
set(tests "")
set(files "")
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON id GET "${listing}" experiments ${i} id)
  string(REPLACE "/" "." name ${id})
  list(APPEND tests bench.smoke.${name})
  list(APPEND files "${directory}/smoke.${name}.json")
  add_test(bench.smoke.${name} "${cmake}" "-DPROGRAM=${program}" -DID=${id}
           "-DJSON=${directory}/smoke.${name}.json" -P "${script}")
  set_tests_properties(bench.smoke.${name} PROPERTIES LABELS bench TIMEOUT 60)
endforeach()
add_test(bench.bars ${judge} --check ${files})
set_tests_properties(bench.bars PROPERTIES LABELS bench TIMEOUT 60 DEPENDS "${tests}")
