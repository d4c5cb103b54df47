# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# Executes a portfile without vcpkg: cmake -DPORT_DIR=... -DWORK=... [-DFEATURES=...] [-DMUSTER_URL=...
# -DMUSTER_SHA512=...] -P run_portfile.cmake. The package is then in WORK/packages.
#
# The functions are stand-ins: each does what vcpkg's documentation says, as far as this port asks for it, and refuses
# arguments that it does not know. They do not show that vcpkg itself accepts the port.
cmake_minimum_required(VERSION 3.25)

file(READ "${PORT_DIR}/vcpkg.json" manifest)
string(JSON PORT GET "${manifest}" name)
string(JSON VERSION GET "${manifest}" version-semver)
set(CURRENT_PORT_DIR "${PORT_DIR}")
set(CURRENT_PACKAGES_DIR "${WORK}/packages")
set(CURRENT_BUILDTREES_DIR "${WORK}/buildtrees")
set(DOWNLOADS "${WORK}/downloads")

macro(only_known_arguments function)
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function}: the stand-in does not know ${arg_UNPARSED_ARGUMENTS}")
  endif()
endmacro()
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_download_distfile result)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILENAME;SHA512" "URLS")
  only_known_arguments(vcpkg_download_distfile)
  file(DOWNLOAD "${arg_URLS}" "${DOWNLOADS}/${arg_FILENAME}" EXPECTED_HASH "SHA512=${arg_SHA512}" STATUS status)
  set(${result} "${DOWNLOADS}/${arg_FILENAME}" PARENT_SCOPE)
endfunction()

# The directory within the archive, if there is one, is the result.
function(vcpkg_extract_source_archive result)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
  only_known_arguments(vcpkg_extract_source_archive)
  file(ARCHIVE_EXTRACT INPUT "${arg_ARCHIVE}" DESTINATION "${CURRENT_BUILDTREES_DIR}/src")
  file(GLOB top "${CURRENT_BUILDTREES_DIR}/src/*")
  list(LENGTH top many)
  if(NOT many EQUAL 1)
    message(FATAL_ERROR "the archive must have one directory, and has ${many} files: ${top}")
  endif()
  set(${result} "${top}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  only_known_arguments(vcpkg_cmake_configure)
  run("${CMAKE_COMMAND}" -G Ninja -S "${arg_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}/rel"
      -DCMAKE_BUILD_TYPE=Release "-DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}" ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
  run("${CMAKE_COMMAND}" --build "${CURRENT_BUILDTREES_DIR}/rel" --target install)
endfunction()

# Moves the package to share/<name>, and corrects its way to the prefix, which is shorter there.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
  only_known_arguments(vcpkg_cmake_config_fixup)
  set(to "${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME}")
  file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*.cmake")
  if(NOT files)
    message(FATAL_ERROR "vcpkg_cmake_config_fixup: there is no ${arg_CONFIG_PATH}/*.cmake")
  endif()
  file(COPY ${files} DESTINATION "${to}")
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}")
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)")
  foreach(file IN LISTS files)
    cmake_path(GET file FILENAME name)
    file(READ "${to}/${name}" text)
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text "${text}")
    string(REPLACE "${up}\n${up}\n${up}\n" "${up}\n${up}\n" text "${text}")
    file(WRITE "${to}/${name}" "${text}")
  endforeach()
endfunction()

# vcpkg makes prefixes relative and looks for files that are named and missing.
function(vcpkg_fixup_pkgconfig)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "")
  only_known_arguments(vcpkg_fixup_pkgconfig)
  file(GLOB_RECURSE files "${CURRENT_PACKAGES_DIR}/*.pc")
  foreach(file IN LISTS files)
    file(READ "${file}" text)
    cmake_path(GET file PARENT_PATH directory)
    file(RELATIVE_PATH up "${directory}" "${CURRENT_PACKAGES_DIR}")
    string(REGEX REPLACE "/$" "" up "${up}")
    string(REGEX REPLACE "(^|\n)prefix=[^\n]*" "\\1prefix=\${pcfiledir}/${up}" text "${text}")
    file(WRITE "${file}" "${text}")
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  only_known_arguments(vcpkg_install_copyright)
  file(COPY_FILE "${arg_FILE_LIST}" "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright")
endfunction()

include("${PORT_DIR}/portfile.cmake")

# vcpkg looks at this after each build.
foreach(file IN ITEMS copyright usage muster-config.cmake muster-config-version.cmake)
  if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/share/${PORT}/${file}")
    message(FATAL_ERROR "the port did not install share/${PORT}/${file}")
  endif()
endforeach()
foreach(place IN ITEMS lib/cmake debug bin include/CMakeLists.txt share/doc share/pkgconfig)
  if(EXISTS "${CURRENT_PACKAGES_DIR}/${place}")
    message(FATAL_ERROR "the port of a header-only library installed ${place}")
  endif()
endforeach()
# One with flags for the linker must be in lib.
if(NOT EXISTS "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/muster.pc")
  message(FATAL_ERROR "the port did not install lib/pkgconfig/muster.pc")
endif()
file(GLOB_RECURSE files "${CURRENT_PACKAGES_DIR}/share/*.cmake" "${CURRENT_PACKAGES_DIR}/lib/*.pc")
foreach(file IN LISTS files)
  file(READ "${file}" text)
  string(FIND "${text}" "${WORK}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} contains a path of the build")
  endif()
endforeach()
