// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// kernel.cpp: the kernel of a user of muster, executed without a GPU.
#include <muster/gpu/xmc.cuh>

#include "muster_simt/launch.hpp"

#include <cstddef>
#include <cstdio>

MUSTER_KERNEL void number_lanes(unsigned** numbers) {
  const unsigned me = muster::gpu::thread_index().x;
  numbers[me] = static_cast<unsigned*>(muster::gpu::xmcMalloc(sizeof(unsigned)));
  if (numbers[me] != nullptr) *numbers[me] = me + 1;
}

int main() {
  constexpr unsigned lanes = 64;
  muster_simt::device_array<unsigned*> numbers(lanes);
  muster::gpu::xmcInit(std::size_t{1} << 20U);
  muster_simt::launch({1}, {lanes}, number_lanes, numbers.get());
  unsigned sum = 0;
  for (unsigned i = 0; i < lanes; ++i) sum += numbers.get()[i] == nullptr ? 0 : *numbers.get()[i];
  std::printf("kernel: %u\n", sum);
  return sum == lanes * (lanes + 1) / 2 ? 0 : 1;
}
