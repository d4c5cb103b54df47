# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# Sets muster_version from include/muster/version.hpp, where the number is written once. Editing the header
# configures again.
set(muster_version_header "${CMAKE_CURRENT_LIST_DIR}/../include/muster/version.hpp")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${muster_version_header}")
file(STRINGS "${muster_version_header}" muster_version_lines REGEX "^#define MUSTER_VERSION_[A-Z]+ +[0-9]+$")
set(muster_version "")
foreach(muster_version_part IN ITEMS MAJOR MINOR PATCH)
  if(NOT "${muster_version_lines}" MATCHES "MUSTER_VERSION_${muster_version_part} +([0-9]+)")
    message(FATAL_ERROR "${muster_version_header} must contain: #define MUSTER_VERSION_${muster_version_part} <number>")
  endif()
  list(APPEND muster_version "${CMAKE_MATCH_1}")
endforeach()
list(JOIN muster_version "." muster_version)
