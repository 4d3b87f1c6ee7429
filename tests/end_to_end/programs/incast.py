"""Everyone sends BYTES to the first host, which prints their time over the ideal one: `incast.py BYTES BITS_PER_S`, on each host."""

from __future__ import annotations

import os
import select
import socket
import sys
import time

PORT = 7000
FRAME_BYTES, PAYLOAD_BYTES = 1538, 1448


def receive(senders: int, size_bytes: int) -> float:
    """Takes the bytes of all senders at once; the seconds from the first to the last."""
    server = socket.create_server(("", PORT))
    left = {server.accept()[0]: size_bytes for _ in range(senders)}
    for peer in left:
        peer.sendall(b"go")
    begin_s, buffer = time.perf_counter(), bytearray(1 << 20)
    while left:
        for peer in select.select(list(left), [], [])[0]:
            left[peer] -= peer.recv_into(buffer)
            if not left[peer]:
                del left[peer]
    return time.perf_counter() - begin_s


def send(host: str, size_bytes: int) -> None:
    """Sends the bytes to a host that may not listen yet, when it says so."""
    while True:
        try:
            connection = socket.create_connection((host, PORT))
            break
        except ConnectionRefusedError:
            time.sleep(0.001)
    connection.recv(2)
    connection.sendall(bytes(size_bytes))
    connection.recv(1)


def main() -> None:
    """Receives on the first host and sends on the others."""
    size_bytes, rate_bps = int(sys.argv[1]), float(sys.argv[2])
    hosts = os.environ["GRADWIRE_HOSTS"].split()
    if os.environ["GRADWIRE_HOST"] != hosts[0]:
        send(hosts[0], size_bytes)
        return
    senders = len(hosts) - 1
    took_s = receive(senders, size_bytes)
    print(took_s / (senders * size_bytes * 8 / rate_bps * FRAME_BYTES / PAYLOAD_BYTES))


if __name__ == "__main__":
    main()
