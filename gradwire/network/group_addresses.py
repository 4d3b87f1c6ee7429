"""Addresses of groups that switches treat in ways of their own. Imports nothing."""

from __future__ import annotations

GROUP_BIT = "01:00:00:00:00:00"
"""The bit of a MAC address that stands for groups, and for all."""
KEPT_BY_BRIDGES, KEPT_MASK = "01:80:c2:00:00:00", "ff:ff:ff:ff:ff:f0"
"""MAC addresses of frames that no bridge passes on (IEEE 802.1Q, table 8-1): LLDP, spanning trees, pauses."""
LISTENER_REPORTS = "ff02::16"
"""Address to which a host's kernel reports the groups that it listens to (MLDv2, RFC 3810); it joins one for each of
its addresses."""
IGMP_REPORTS_IP = "224.0.0.22"
"""Address of such reports in IPv4 (IGMPv3, RFC 3376)."""
