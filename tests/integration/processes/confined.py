"""`python confined.py UNIT COMMAND…`: run a command with what a systemd unit takes away.

That is its capabilities, new privileges, and all system calls but those of its SystemCallFilter.
The caller is root. systemd itself is not asked to run anything.
"""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
ALLOW, REFUSE_WITH_EPERM = 0x7FFF0000, 0x00050001
LAST_CAPABILITY = 40


def members(group: str) -> set[str]:
    """The system calls of a group such as `@system-service`."""
    command = ["systemd-analyze", "--no-pager", "syscall-filter", group]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: set[str] = set()
    for line in map(str.strip, listed.splitlines()[1:]):
        if line.startswith("@"):
            found |= members(line)
        elif line and not line.startswith("#"):
            found.add(line)
    return found


def allowed_calls(unit: Path) -> set[str]:
    allowed = members("@default")
    for line in unit.read_text().splitlines():
        key, _, value = line.partition("=")
        if key != "SystemCallFilter":
            continue
        groups = {call for group in value.removeprefix("~").split() for call in members(group)}
        allowed = allowed - groups if value.startswith("~") else allowed | groups
    return allowed | members("@default")


def confine(allowed: set[str]) -> None:
    seccomp, libc = ctypes.CDLL("libseccomp.so.2"), ctypes.CDLL(None)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(REFUSE_WITH_EPERM))
    for name in allowed:
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        # The group may name calls of other architectures.
        if number >= 0:
            assert seccomp.seccomp_rule_add(rules, ALLOW, number, 0) == 0, name
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert seccomp.seccomp_load(rules) == 0


if __name__ == "__main__":
    confine(allowed_calls(Path(sys.argv[1])))
    os.execvp(sys.argv[2], sys.argv[2:])
