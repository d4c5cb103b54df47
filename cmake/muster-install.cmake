# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# Install rules: headers, the package for find_package(muster), and muster.pc. Everything that is installed finds its
# neighbours by relative paths, so the prefix may be chosen by `cmake --install --prefix` and moved afterwards.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(muster_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/muster")

set(muster_install_targets muster ${muster_parts})
list(TRANSFORM muster_install_targets PREPEND muster_)
# Every header must compile by itself: cmake --build <dir> --target all_verify_interface_header_sets
set_target_properties(${muster_install_targets} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)

install(
  TARGETS ${muster_install_targets}
  EXPORT muster-targets
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT muster-targets NAMESPACE muster:: DESTINATION "${muster_package_dir}")

configure_package_config_file(
  cmake/muster-config.cmake.in "${PROJECT_BINARY_DIR}/muster-config.cmake"
  INSTALL_DESTINATION "${muster_package_dir}" NO_SET_AND_CHECK_MACRO)
# While the version is 0.x, a new minor version may break its users. The headers fit every architecture.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/muster-config-version.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/muster-config.cmake" "${PROJECT_BINARY_DIR}/muster-config-version.cmake"
        DESTINATION "${muster_package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# pkg-config. LIBDIR may be several directories deep (lib/x86_64-linux-gnu), so the way back is computed.
set(muster_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
if(IS_ABSOLUTE "${muster_pc_dir}")
  set(muster_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
  file(RELATIVE_PATH muster_pc_prefix "/prefix/${muster_pc_dir}" "/prefix")
  string(REGEX REPLACE "/$" "" muster_pc_prefix "\${pcfiledir}/${muster_pc_prefix}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(muster_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(muster_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(muster_pc_defines "")
if(MUSTER_FORK_ENGINE STREQUAL barrier)
  set(muster_pc_defines " -DMUSTER_FORK_BARRIER")
endif()
configure_file(cmake/muster.pc.in "${PROJECT_BINARY_DIR}/muster.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/muster.pc" DESTINATION "${muster_pc_dir}")
