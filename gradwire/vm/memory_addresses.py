"""Addresses of the virtual-time kernel's memory, which are the same in each run where the machine allows that.

The machine chooses at random where a program's heap begins, up to 1 GiB behind its code. The kernel's memory begins behind that, and
what lies between costs up to 16 MiB of what programs have. So a program that asks how much memory its machine has would not repeat,
and what goes by addresses would not either.
"""

from __future__ import annotations

import subprocess
from functools import cache

FIXED_ADDRESSES = ("setarch", "--addr-no-randomize")
TRIAL_LIMIT_S = 20.0


@cache
def fixed_addresses() -> tuple[str, ...]:
    """The words before a command that make the machine choose its addresses as in each run; none where the machine
    refuses that, as some containers do."""
    try:
        tried = subprocess.run([*FIXED_ADDRESSES, "true"], capture_output=True, check=False, timeout=TRIAL_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):  # the kernel boots without it
        return ()
    return () if tried.returncode else FIXED_ADDRESSES
