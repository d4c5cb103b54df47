#!/usr/bin/env python3
# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Executes a program for which a system call is switched off: without_call.py NUMBER PROGRAM [ARGUMENT...]"""

import ctypes
import errno
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of a word, of a constant
RETURN_ERROR, RETURN_ALLOW = 0x00050000, 0x7FFF0000


def main():
    number = int(sys.argv[1])
    steps = ((LOAD, 0, 0, 0), (IF_EQUAL, 0, 1, number), (RETURN, 0, 0, RETURN_ERROR | errno.EOPNOTSUPP),
             (RETURN, 0, 0, RETURN_ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    calls = ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program))
    if any(libc.prctl(*call) != 0 for call in calls):
        raise OSError(ctypes.get_errno(), "cannot install a filter of system calls")
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
