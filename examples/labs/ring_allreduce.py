"""A job of data-parallel training by plain sockets: all-reduces of gradients around a ring, as DDP makes them.

Each step, every host adds up all hosts' gradients: the vector has a part for each host, parts travel around the ring
and are added, then the sums travel around once more (reduce-scatter and all-gather).

    ring_allreduce.py STEPS ELEMENTS    # on each host of a lab, which tells it the others
"""

import array
import os
import socket
import sys
import threading
import time

PORT = 29500


def connect(name):
    """A connection to the next host, as soon as it listens."""
    while True:
        try:
            peer = socket.create_connection((name, PORT))
        except ConnectionRefusedError:
            time.sleep(0.01)
        else:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return peer


def receive(peer, size_bytes):
    """So many bytes."""
    data = bytearray()
    while len(data) < size_bytes:
        part = peer.recv(size_bytes - len(data))
        if not part:
            raise ConnectionError("the host before is gone")
        data += part
    return data


def exchange(after, before, part):
    """Sends a part to the host after this one and receives one from the host before."""
    sender = threading.Thread(target=after.sendall, args=(part.tobytes(),))
    sender.start()
    received = array.array("q")
    received.frombytes(receive(before, len(part) * part.itemsize))
    sender.join()
    return received


def all_reduce(parts, rank, after, before):
    """Adds up the vectors of all hosts, in place."""
    count = len(parts)
    for step in range(count - 1):
        received = exchange(after, before, parts[(rank - step) % count])
        place = (rank - step - 1) % count
        parts[place] = array.array("q", map(int.__add__, parts[place], received))
    for step in range(count - 1):
        received = exchange(after, before, parts[(rank + 1 - step) % count])
        parts[(rank - step) % count] = received


def main():
    """Prints how long each step took, and checks its sums."""
    steps, elements = map(int, sys.argv[1:])
    hosts, rank = os.environ["GRADWIRE_HOSTS"].split(), int(os.environ["GRADWIRE_INDEX"])
    with socket.create_server(("", PORT)) as listening:
        after = connect(hosts[(rank + 1) % len(hosts)])
        before, _ = listening.accept()
    size = elements // len(hosts)
    for step in range(steps):
        began_s = time.monotonic()
        parts = [array.array("q", [rank + step]) * size for _ in hosts]
        all_reduce(parts, rank, after, before)
        expected = sum(range(len(hosts))) + len(hosts) * step
        assert all(value == expected for part in parts for value in part), f"step {step}: wrong sums"
        print(f"step {step} {time.monotonic() - began_s:.9f}")
        time.sleep(0.05)  # the forward and the backward pass


if __name__ == "__main__":
    main()
