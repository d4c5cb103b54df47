// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// shown_stack.cpp: a program with a stack whose forks have been stolen, for fork_tools_test.cpp, which expects its
// functions' names. They are C functions, whose names all tools print alike.
#include <ctime>

#include "stolen.hpp"

extern "C" [[gnu::noinline]] void come_to_breakpoint() { asm volatile("" : : : "memory"); }
/// The thread's own processor time, because other programs may run, too. The loop calls nothing: at the end of a
/// function with a frame pointer, clang's unwind table places the caller's frame below the stack pointer, and a copied
/// stack does not have those bytes.
extern "C" [[gnu::noinline]] long spend_time() {
  long turns = 0;
  timespec used{};
  while (used.tv_sec == 0 && used.tv_nsec < 300'000'000) {
    for (int i = 0; i < 100'000; ++i) asm volatile("" : "+r"(++turns));
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  }
  come_to_breakpoint();
  return turns;
}
extern "C" [[gnu::noinline]] long forks_deeper(int depth) {
  if (depth == 0) return spend_time();
  return muster_test::fork_stolen([=] { return forks_deeper(depth - 1); }, [] { return 1L; }).first;
}

int main() {
  return muster_test::workers().run([] { return forks_deeper(5); }) > 0 ? 0 : 1;
}
