# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# In a checkout of muster, `vcpkg install muster --overlay-ports=packaging/vcpkg/ports` installs that checkout. Where
# the port lies alone, a triplet says where the archive of a release is: set(MUSTER_URL ...), set(MUSTER_SHA512 ...).
set(VCPKG_BUILD_TYPE release)  # there are only headers

cmake_path(ABSOLUTE_PATH CURRENT_PORT_DIR OUTPUT_VARIABLE port_dir)
cmake_path(SET checkout NORMALIZE "${port_dir}/../../../..")
if(MUSTER_URL)
  if(NOT MUSTER_SHA512)
    message(FATAL_ERROR "muster: the triplet sets MUSTER_URL, but not MUSTER_SHA512, the archive's digest")
  endif()
  vcpkg_download_distfile(
    archive
    URLS "${MUSTER_URL}"
    FILENAME "muster-${VERSION}.tar.gz"
    SHA512 "${MUSTER_SHA512}")
  vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")
elseif(EXISTS "${checkout}/include/muster/version.hpp")
  set(SOURCE_PATH "${checkout}")
else()
  message(FATAL_ERROR "muster: this port is outside of a checkout, so it needs an archive: in the triplet, "
                      "set(MUSTER_URL ...) and set(MUSTER_SHA512 ...)")
endif()

set(engine watermark)
if("barrier" IN_LIST FEATURES)
  set(engine barrier)
endif()
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DMUSTER_BUILD_TESTS=OFF
    -DMUSTER_BUILD_BENCH=OFF
    -DMUSTER_BUILD_EXAMPLES=OFF
    -DMUSTER_BUILD_COMMANDS=OFF
    -DMUSTER_FORK_ENGINE=${engine})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME muster CONFIG_PATH lib/cmake/muster)
# The pkg-config file stays in lib, where vcpkg wants files with flags for the linker.
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/cmake" "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_fixup_pkgconfig()

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
