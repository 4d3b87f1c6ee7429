"""IPv6 addresses of hosts, which networks with programs have. Imports only the standard library.

They are unique local ones (RFC 4193), all in one prefix, and permanent, as neighbours are: nobody asks for a router,
for a neighbour, or whether an address is taken.
"""

from __future__ import annotations

PREFIX, PREFIX_BITS = "fd00::", 64
LEAST_MTU_BYTES = 1280
"""The smallest packets that a link has to carry for IPv6 (RFC 8200, section 5): below, Linux has none."""
LISTENER_REPORTS = "ff02::16"
"""Address to which a host's kernel reports the groups that it listens to (MLDv2, RFC 3810); it joins one for each of
its addresses."""
IGMP_REPORTS_IP = "224.0.0.22"
"""Address of such reports in IPv4 (IGMPv3, RFC 3376)."""


def host_ip6(host: int) -> str:
    """IPv6 address of host index `host`: fd00::1 upwards."""
    return f"{PREFIX}{host + 1:x}"
