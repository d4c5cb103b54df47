// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: functions whose results come later, by pool::submit.

#include <muster/fork.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

long digits(int number) {
  if (number == 13) throw std::runtime_error("no page 13");
  return static_cast<long>(std::to_string(number * number).size());
}

}  // namespace

int main() {
  // [ours]
  muster::pool pool;                        // threads that are made once
  std::vector<muster::future<long>> pages;  // for the functions of one computation, a loop is cheaper still
  for (int i = 0; i < 10; ++i) pages.push_back(pool.submit([i] { return digits(i); }));
  long sum = 0;
  for (const long page : muster::when_all(std::move(pages)).get()) sum += page;

  std::string why;
  try {
    pool.submit([] { return digits(13); }).get();
  } catch (const std::runtime_error& error) {
    why = error.what();
  }

  muster::future<long> late = pool.submit([] { return digits(400); });
  while (!late.wait_for(std::chrono::milliseconds(1))) {
  }
  // [/ours]
  std::printf("%ld digits\n%s\n%ld digits\n", sum, why.c_str(), late.get());
}
