"""Two hosts send each other BYTES over one connection at once, and each prints its time over the ideal: `duplex.py BYTES BITS_PER_S`."""

from __future__ import annotations

import os
import select
import socket
import sys
import time

PORT = 7001
LISTEN_S = 0.05
"""Virtual seconds after which the other host listens."""
FRAME_BYTES, PAYLOAD_BYTES = 1538, 1448


def connected() -> socket.socket:
    """The connection between the two."""
    first, _ = os.environ["GRADWIRE_HOSTS"].split()
    if os.environ["GRADWIRE_HOST"] == first:
        return socket.create_server(("", PORT)).accept()[0]
    time.sleep(LISTEN_S)
    return socket.create_connection((first, PORT))


def main() -> None:
    """Sends and receives until both are complete."""
    size_bytes, rate_bps = int(sys.argv[1]), float(sys.argv[2])
    with connected() as peer:
        peer.setblocking(False)
        begin_s, unsent, unread, buffer = time.perf_counter(), size_bytes, size_bytes, bytearray(1 << 18)
        while unsent or unread:
            readable, writable, _ = select.select([peer], [peer] if unsent else [], [])
            if readable:
                unread -= peer.recv_into(buffer)
            if writable:
                unsent -= peer.send(memoryview(buffer)[: min(unsent, len(buffer))])
        took_s = time.perf_counter() - begin_s
    print(took_s / (size_bytes * 8 / rate_bps * FRAME_BYTES / PAYLOAD_BYTES))


if __name__ == "__main__":
    main()
