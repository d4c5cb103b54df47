# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs at every build, because the commit changes without any source file changing. configure_file leaves the header
# alone when nothing changed. "+" behind the commit means that tracked files were modified.
set(COMMIT unknown)
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE head
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(COMMIT ${head})
    execute_process(COMMAND ${GIT} -C ${SOURCE} diff-index --quiet HEAD -- RESULT_VARIABLE modified ERROR_QUIET)
    if(modified)
      string(APPEND COMMIT "+")
    endif()
  endif()
endif()
string(REPLACE "\"" "\\\"" FLAGS "${FLAGS}")
configure_file(${IN} ${OUT} @ONLY)
