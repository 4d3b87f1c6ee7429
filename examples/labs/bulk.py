"""One TCP connection that sends as much as it can: `bulk.py receive PORT`, which prints the bit/s that arrive, and
`bulk.py send HOST PORT CONGESTION_CONTROL SECONDS`.

iperf3 does this as well, but where TCP holds it back, it asks a million times a second whether it may send again.
"""

import socket
import sys
import time

BLOCK = bytes(65536)


def receive(port):
    with socket.create_server(("", int(port))) as listening:
        peer, _ = listening.accept()
    began_s, size_bytes = time.monotonic(), 0
    while part := peer.recv(len(BLOCK)):
        size_bytes += len(part)
    print(size_bytes * 8 / (time.monotonic() - began_s))


def send(host, port, control, seconds):
    with socket.socket() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        peer.connect((host, int(port)))
        end_s = time.monotonic() + float(seconds)
        while time.monotonic() < end_s:
            peer.sendall(BLOCK)


if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]](*sys.argv[2:])
