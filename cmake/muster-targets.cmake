# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# The library's targets. A part is a directory under include/muster; it becomes muster::<part>, and a component of
# find_package(muster).
set(muster_parts base queue fiber combine fork gpu syscall)

find_package(Threads REQUIRED)

# muster_add_part(<part> [HEADERS <more headers>...] [NEEDS <part>...])
#
# The headers are found and not listed: a header that is in the tree is installed and checked, and cannot be
# forgotten. CONFIGURE_DEPENDS notices new ones at the next build.
function(muster_add_part part)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;NEEDS")
  set(include_dir "${PROJECT_SOURCE_DIR}/include")
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS "${include_dir}/muster/${part}/*.hpp"
       "${include_dir}/muster/${part}/*.cuh")
  file(GLOB umbrella CONFIGURE_DEPENDS "${include_dir}/muster/${part}.hpp")
  list(TRANSFORM arg_HEADERS PREPEND "${include_dir}/")
  list(TRANSFORM arg_NEEDS PREPEND "muster::")

  add_library(muster_${part} INTERFACE)
  add_library(muster::${part} ALIAS muster_${part})
  set_target_properties(muster_${part} PROPERTIES EXPORT_NAME ${part})
  target_compile_features(muster_${part} INTERFACE cxx_std_20)
  target_link_libraries(muster_${part} INTERFACE ${arg_NEEDS} Threads::Threads)
  target_sources(
    muster_${part} INTERFACE FILE_SET HEADERS BASE_DIRS "${include_dir}" FILES ${headers} ${umbrella} ${arg_HEADERS})
endfunction()

muster_add_part(base HEADERS muster/version.hpp)
muster_add_part(queue NEEDS base)
muster_add_part(fiber NEEDS base)
muster_add_part(combine NEEDS fiber)
muster_add_part(fork NEEDS base)
muster_add_part(gpu NEEDS base)
muster_add_part(syscall NEEDS fiber)
if(MUSTER_FORK_ENGINE STREQUAL barrier)
  target_compile_definitions(muster_fork INTERFACE MUSTER_FORK_BARRIER)
elseif(NOT MUSTER_FORK_ENGINE STREQUAL watermark)
  message(FATAL_ERROR "MUSTER_FORK_ENGINE is ${MUSTER_FORK_ENGINE}; it must be watermark or barrier")
endif()

# All parts, and the header that includes them all.
add_library(muster_muster INTERFACE)
add_library(muster::muster ALIAS muster_muster)
set_target_properties(muster_muster PROPERTIES EXPORT_NAME muster)
target_sources(
  muster_muster INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
                          FILES "${PROJECT_SOURCE_DIR}/include/muster/muster.hpp")
foreach(muster_part IN LISTS muster_parts)
  target_link_libraries(muster_muster INTERFACE muster::${muster_part})
endforeach()
