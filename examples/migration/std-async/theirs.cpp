// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Migration: functions whose results come later, by std::async.

#include <chrono>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

long digits(int number) {
  if (number == 13) throw std::runtime_error("no page 13");
  return static_cast<long>(std::to_string(number * number).size());
}

}  // namespace

int main() {
  // [theirs]
  std::vector<std::future<long>> pages;  // each may be a new thread
  for (int i = 0; i < 10; ++i) pages.push_back(std::async(std::launch::async, digits, i));
  long sum = 0;
  for (std::future<long>& page : pages) sum += page.get();

  std::string why;
  try {
    std::async(std::launch::async, digits, 13).get();
  } catch (const std::runtime_error& error) {
    why = error.what();
  }

  std::future<long> late = std::async(std::launch::async, digits, 400);
  while (late.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
  }
  // [/theirs]
  std::printf("%ld digits\n%s\n%ld digits\n", sum, why.c_str(), late.get());
}
