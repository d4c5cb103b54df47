# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# The compiler for GPUs, for muster's own tests and experiments. Included by the top CMakeLists.txt.
find_program(MUSTER_NVCC nvcc)
if(NOT MUSTER_NVCC)
  message(FATAL_ERROR "MUSTER_BUILD_GPU needs nvcc on the PATH (NVIDIA's CUDA toolkit, 12.4 or newer)")
endif()
# Machine code for these cards; and PTX of 9.0, which the driver compiles for each newer card, and of the newest
# architecture that the compiler knows.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND "${MUSTER_NVCC}" --list-gpu-arch OUTPUT_VARIABLE muster_known)
  string(REGEX MATCHALL "[0-9]+" muster_known "${muster_known}")
  list(SORT muster_known COMPARE NATURAL ORDER DESCENDING)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  foreach(architecture IN ITEMS 100 120)
    if(architecture IN_LIST muster_known)
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
    endif()
  endforeach()
  if(muster_known)
    list(GET muster_known 0 architecture)
    if(architecture GREATER 90)
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-virtual)
    endif()
  endif()
endif()
enable_language(CUDA)
# CMake 3.25.1, which Debian 12 has, does not know that this compiler supports C++20.
foreach(dialect IN ITEMS STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${dialect}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${dialect}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
