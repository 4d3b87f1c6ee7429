"""IPv6 addresses of hosts, which networks with programs have. Imports only the standard library.

They are unique local ones (RFC 4193), all in one prefix, and permanent, as neighbours are: nobody asks for a router,
for a neighbour, or whether an address is taken.
"""

from __future__ import annotations

PREFIX, PREFIX_BITS = "fd00::", 64
LEAST_MTU_BYTES = 1280
"""The smallest packets that a link has to carry for IPv6 (RFC 8200, section 5): below, Linux has none."""


def host_ip6(host: int) -> str:
    """IPv6 address of host index `host`: fd00::1 upwards."""
    return f"{PREFIX}{host + 1:x}"
