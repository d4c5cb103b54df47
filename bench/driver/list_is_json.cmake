# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -DPROGRAM=… -P list_is_json.cmake: `muster-bench list --json` parses and names the experiments and our queues.
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
