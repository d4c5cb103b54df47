# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -DPROGRAM=… -P list_is_json.cmake: `muster-bench list --json` parses and names our queues and the experiments,
# all that bars.toml names among them.
execute_process(COMMAND ${PROGRAM} list --json RESULT_VARIABLE status OUTPUT_VARIABLE text)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "exit status ${status}")
endif()
string(JSON experiments LENGTH "${text}" experiments)
string(JSON first GET "${text}" experiments 0 id)
string(JSON ours GET "${text}" series 0 name)
string(JSON missing LENGTH "${text}" missing)
if(experiments LESS 6 OR NOT first STREQUAL "queue/one-to-one" OR NOT ours STREQUAL "spsc_queue")
  message(FATAL_ERROR "${experiments} experiments, the first is '${first}', the first series '${ours}'")
endif()

set(known "|")
set(checked 0)
math(EXPR last "${experiments} - 1")
foreach(i RANGE ${last})
  string(JSON id GET "${text}" experiments ${i} id)
  string(APPEND known "${id}|")
endforeach()
# A header, or a figure of a paper. The tables of Python's comparison are not ours to name.
file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../bars.toml" lines REGEX "^\\[\"|^\"[^\"]*\" = (\"|\\[\")[a-z-]+/")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^\"[^\"]*\" = " "" line "${line}")
  string(REGEX MATCHALL "[a-z][a-z-]*/[a-z0-9-]+" named "${line}")
  foreach(id IN LISTS named)
    set(base "${id}")
    # A second chart of an experiment has a suffix: queue/slow-consumer-p99.
    while(NOT known MATCHES "[|]${base}[|]" AND base MATCHES "-[a-z0-9]+$")
      string(REGEX REPLACE "-[a-z0-9]+$" "" base "${base}")
    endwhile()
    if(NOT known MATCHES "[|]${base}[|]" AND NOT id MATCHES "^python/")
      message(FATAL_ERROR "bars.toml names ${id}, and no experiment has that name")
    endif()
    math(EXPR checked "${checked} + 1")
  endforeach()
endforeach()
if(NOT checked GREATER 90)
  message(FATAL_ERROR "only ${checked} names of bars.toml were checked")
endif()
