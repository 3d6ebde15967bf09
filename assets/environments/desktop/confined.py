"""Running a program that can open no way off this machine: `python -I -S confined.py COMMAND...`.

A seccomp filter refuses every socket but those within the machine (AF_UNIX, and AF_NETLINK, by which a program asks the
kernel). Whoever may not make namespaces, as in most containers, may still lay such a filter upon themselves; all that
the program starts inherits it, and nothing takes it off. Source: seccomp(2), and the kernel's seccomp_filter.rst.
"""

import ctypes
import os
import struct
import sys

REFUSED = 125
"""Exit code where the kernel takes no filter; what it says is on standard error."""

_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""Machine -> (its name in the kernel's audit, number of the call `socket`)."""
_IO_URING_SETUP = 425
"""The other way to make sockets. One number on every machine."""
_X32 = 0x40000000
"""From here on x86_64 has the calls of another table."""
_AF_UNIX, _AF_NETLINK = 1, 16

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_ENOSYS, _EAFNOSUPPORT = 38, 97
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
"""Where in the kernel's description of a call these lie."""
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


def program(machine: str) -> bytes:
    """The filter as the kernel reads it: eight bytes an instruction, (code, jump if true, jump if false, value).

    Raises:
        KeyError: it is not written for this machine.
    """
    audit, socket = _MACHINES[machine]
    instructions = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 0, 9, audit),  # a call of another machine's table: refused
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 7, 0, _X32),
        (_EQUAL, 6, 0, _IO_URING_SETUP),
        (_EQUAL, 0, 3, socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 1, 0, _AF_UNIX),
        (_EQUAL, 0, 1, _AF_NETLINK),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | _EAFNOSUPPORT),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def confine() -> None:
    """Lay the filter upon this process.

    Raises:
        OSError: the kernel does not take it.
    """
    machine = os.uname().machine
    if machine not in _MACHINES or sys.byteorder != "little":
        raise OSError(f"no filter is written for a {machine}")
    instructions = program(machine)
    held = ctypes.create_string_buffer(instructions, len(instructions))
    described = struct.pack("@HP", len(instructions) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    nothing = ctypes.c_ulong(0)
    calls = ((_SET_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), nothing), (_SET_SECCOMP, ctypes.c_ulong(_FILTER), described))
    for call in calls:
        if libc.prctl(*call, nothing, nothing):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """Turn into the program, confined."""
    try:
        confine()
    except OSError as error:
        print(f"no filter of system calls: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print(f"{sys.argv[1]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    main()
