# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -DPROGRAM=… -DARGUMENTS=a|b|… -DSTATUS=… -DMESSAGE=… -P expect.cmake: the exit status and a piece
# of what is printed.
string(REPLACE "|" ";" ARGUMENTS "${ARGUMENTS}")
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT status STREQUAL STATUS)
  message(FATAL_ERROR "exit status ${status}, expected ${STATUS}\n${out}${err}")
endif()
string(FIND "${out}${err}" "${MESSAGE}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "it does not say: ${MESSAGE}\nit says: ${out}${err}")
endif()
