// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// deep_stack.hpp: calls a function on a thread with a stack of a gibibyte, of which only what is touched costs memory.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace muster_test {

template <class F>
void on_a_deep_stack(F function) {
  pthread_attr_t with;
  ASSERT_EQ(::pthread_attr_init(&with), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&with, std::size_t{1} << 30U), 0);
  pthread_t thread{};
  const auto call = [](void* what) -> void* {
    (*static_cast<F*>(what))();
    return nullptr;
  };
  ASSERT_EQ(::pthread_create(&thread, &with, call, &function), 0);
  ::pthread_attr_destroy(&with);
  ASSERT_EQ(::pthread_join(thread, nullptr), 0);
}

}  // namespace muster_test
