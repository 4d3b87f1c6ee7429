"""How the hosts of a network have set up their TCP: as gradwire tunes it, or as Linux comes. Imports only the standard
library.

What stock hosts have are Linux's defaults: Documentation/networking/ip-sysctl.rst of the kernel, tcp_init() of
net/ipv4/tcp.c for the largest buffers, on machines with more than 1 GiB of memory for sockets, and tcp_sk_init() of
net/ipv4/tcp_ipv4.c.
"""

from __future__ import annotations

from enum import StrEnum

STOCK_SEND_BYTES = 4194304
"""The largest send buffer to which Linux grows a socket's (the third value of net.ipv4.tcp_wmem)."""
STOCK_RECEIVE_BYTES = 6291456
"""The largest receive buffer to which Linux grows a socket's (the third value of net.ipv4.tcp_rmem)."""
WRITTEN_SHARE = 2 / 3
"""Of a send buffer, what is under way when its sender writes again (sk_stream_min_wspace of include/net/sock.h)."""
HALF = 2
"""Before Linux 6.6, half of a receive buffer was for the kernel's own structures (net.ipv4.tcp_adv_win_scale = 1).
Since then a socket measures what they take, which is next to nothing of large packets (dfa2f0483360, "tcp: get rid of
sysctl_tcp_adv_win_scale")."""


class HostTcp(StrEnum):
    """What a host's TCP is set up for."""

    #: For standing in for RDMA: large buffers from the start, no restart after a pause, no timer that takes a
    #: held-back class for lost.
    TUNED = "tuned"
    #: As Linux 6.6 and later come.
    STOCK = "stock"
    #: As Linux before 6.6 comes, whose receive windows are half of their buffers.
    STOCK_BEFORE_6_6 = "stock-before-6.6"

    @property
    def is_stock(self) -> bool:
        """Whether it is as Linux comes."""
        return self is not HostTcp.TUNED

    @property
    def window_bytes(self) -> int:
        """What a connection of stock hosts keeps under way at most, by its two sockets' buffers. With a round trip of
        20 ms at 2 Gbit/s, two hosts with 64 MB each way reached 134 MB/s, which are 2.7 MB in each round trip."""
        return min(round(WRITTEN_SHARE * STOCK_SEND_BYTES), self.receive_bytes)

    @property
    def receive_bytes(self) -> int:
        """The largest receive window of stock hosts.

        The virtual clock's kernel is 6.12, where tcp_adv_win_scale has no effect. There, half of the largest buffer
        gives the same window: a socket starts with half of its first buffer as a window in both, and large packets
        leave nearly all of a grown one for it.
        """
        return STOCK_RECEIVE_BYTES // HALF if self is HostTcp.STOCK_BEFORE_6_6 else STOCK_RECEIVE_BYTES
