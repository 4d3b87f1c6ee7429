"""How many files a process may have open: an agent has a socket for each flow, and a capture one for each port, with a
file."""

from __future__ import annotations

import resource


def raise_file_limit() -> None:
    """Raises the soft limit, which is usually 1,024, to the hard one."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
