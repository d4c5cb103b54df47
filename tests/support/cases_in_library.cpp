// SPDX-FileCopyrightText: the muster authors
// SPDX-License-Identifier: Apache-2.0
//
// cases_in_library.cpp: the program of test cases that are in a shared library. Its main is gtest's.
