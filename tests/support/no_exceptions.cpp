// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiled without exceptions: the compiler must say what to do.
#include <muster/muster.hpp>

int main() {}
