"""Another tenant of the network, as a fault: one flow of TCP between two hosts, at a given rate, from a moment to
another.

The kernel paces the flow (SO_MAX_PACING_RATE), so it sends at its rate where it can and at its fair share where it
cannot, like any sender of a given rate. A thread keeps its socket full, and takes off what arrives.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
from contextlib import suppress
from typing import cast

from gradwire.agents.connections import HostEntry, SocketOptions, mark, tcp_socket
from gradwire.agents.transfer import LOW_WATER_BYTES, PAYLOAD_FILE_BYTES, SKIP_BYTES, discard, payload_file
from gradwire.faults import MachineFault
from gradwire.network.fabric import CONTROL_BAND
from gradwire.network_namespace import network_namespace

SO_MAX_PACING_RATE = 47
"""Socket option of asm-generic/socket.h that Python does not name: bytes of payload per second."""
INFO_BYTES = 208
SENT_BYTES = struct.Struct("200xQ")
"""Layout of tcpi_bytes_sent in `struct tcp_info` (linux/tcp.h): the payload that TCP has sent, retransmissions
included."""
ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER without time: a close drops what the socket still holds, and resets the connection."""
CONNECT_TIMEOUT_S = 30.0


class Tenant:
    """A flow, which is connected when it is made, sends from `begin` to `end`, and is then gone.

    payload_bps: what it sends at most, in bit/s of payload. band: the strict-priority band of its packets.
    """

    def __init__(
        self, source: HostEntry, destination: HostEntry, payload_bps: float, band: int, options: SocketOptions
    ) -> None:
        """Raises MachineFault if the hosts cannot be connected."""
        self._source, self._receiver = _connect(source, destination, band, options)
        self._source.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", max(1, round(payload_bps / 8))))
        self._wake, self._woken = socket.socketpair()
        self._trouble: OSError | None = None
        self._thread = threading.Thread(target=self._work, name="tenant", daemon=True)
        #: Bytes that the flow has sent, known when it has ended.
        self.sent_bytes = 0

    def begin(self) -> None:
        """Begins to send."""
        self._thread.start()

    def end(self) -> None:
        """Ends the flow. What its sockets still hold is dropped. Raises MachineFault if it did not last until now."""
        if self._thread.ident is not None:
            self._wake.send(b"\0")
            self._thread.join()
        self.sent_bytes = self.sent_so_far()
        self._source.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        for sock in (self._source, self._receiver, self._wake, self._woken):
            sock.close()
        if self._trouble is not None:
            raise MachineFault(f"another tenant's flow broke: {self._trouble}") from self._trouble

    def sent_so_far(self) -> int:
        """Returns the payload in bytes that TCP has sent, retransmissions included."""
        info = self._source.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
        return int(SENT_BYTES.unpack(info)[0])

    def _work(self) -> None:
        payload = payload_file()
        try:
            self._send(payload)
        except OSError as trouble:
            self._trouble = trouble
        finally:
            os.close(payload)

    def _send(self, payload: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            selector.register(self._receiver, selectors.EVENT_READ)
            selector.register(self._source, selectors.EVENT_WRITE)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._woken in ready:
                    return
                with suppress(BlockingIOError):
                    if self._receiver in ready and not discard(self._receiver, SKIP_BYTES):
                        raise ConnectionResetError("its receiver found it closed")
                    if self._source in ready:
                        os.sendfile(self._source.fileno(), payload, 0, PAYLOAD_FILE_BYTES)


def _connect(
    source: HostEntry, destination: HostEntry, band: int, options: SocketOptions
) -> tuple[socket.socket, socket.socket]:
    """A connection from one host to another: its sending and its receiving end."""
    with network_namespace(destination.namespace):
        listener = tcp_socket(options)
    with listener:
        mark(listener, CONTROL_BAND)
        listener.bind((destination.ip, 0))
        listener.listen(1)
        with network_namespace(source.namespace):
            sender = tcp_socket(options)
        mark(sender, band)
        sender.bind((source.ip, 0))
        sender.settimeout(CONNECT_TIMEOUT_S)
        listener.settimeout(CONNECT_TIMEOUT_S)
        try:
            sender.connect(cast("tuple[str, int]", listener.getsockname()))
            receiver, _ = listener.accept()
        except OSError as error:
            sender.close()
            raise MachineFault(
                f"another tenant's flow from {source.ip} to {destination.ip} cannot be connected: {error}"
            ) from error
    sender.setblocking(False)
    receiver.setblocking(False)
    if options.buffer_bytes:  # otherwise windows are the kernel's own, and this would make one of that size
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOW_WATER_BYTES)
    return sender, receiver
