# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
#
# The compiler for GPUs, for muster's own tests and experiments. Included by the top CMakeLists.txt.
find_program(MUSTER_NVCC nvcc)
if(NOT MUSTER_NVCC)
  message(FATAL_ERROR "MUSTER_BUILD_GPU needs nvcc on the PATH (NVIDIA's CUDA toolkit, 12.4 or newer)")
endif()
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real)
endif()
enable_language(CUDA)
# CMake 3.25.1, which Debian 12 has, does not know that this compiler supports C++20.
foreach(dialect IN ITEMS STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${dialect}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${dialect}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()
