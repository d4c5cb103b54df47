// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// syscall.cpp: the sandbox for clang-tidy. See queue.cpp.
#include <muster/syscall/policy.hpp>

int main() { return static_cast<int>(muster::policy::parse("").files()); }
