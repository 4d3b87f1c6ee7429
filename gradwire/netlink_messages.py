"""Messages of rtnetlink (linux/netlink.h, linux/rtnetlink.h), and the socket that they go through.

A process costs ten milliseconds in the virtual-time kernel, and a fabric of 512 hosts would start a thousand of them
to give each host its addresses and its queues. A message costs microseconds, and one system call takes hundreds.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from gradwire.faults import MachineFault

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP = 0x1, 0x4, 0x300
NLM_F_DUMP_INTR, NLM_F_ACK_TLVS = 0x10, 0x200
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x100, 0x200, 0x400
ATTRIBUTE_KIND = 0x3FFF
"""NLA_TYPE_MASK: the other bits of an attribute's type are flags."""
SOL_NETLINK, NETLINK_EXT_ACK, NLMSGERR_ATTR_MSG = 270, 11, 1
DUMPS = 10
"""Number of attempts to read a list that changes while the kernel sends it."""
SENT_BYTES, READ_BYTES = 1 << 15, 1 << 16
HEADER = struct.Struct("=IHHII")
FLAGS_OFFSET = 6
ATTRIBUTE = struct.Struct("=HH")


class NetlinkRequest(NamedTuple):
    """Something to be done by the kernel."""

    #: The command of ip or tc that would do the same, for whoever reads of its failure.
    words: str
    data: bytes


def request(words: str, kind: int, flags: int, body: bytes) -> NetlinkRequest:
    """A request whose body is a structure with its attributes. flags: those besides NLM_F_REQUEST."""
    return NetlinkRequest(words, HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST | flags, 0, 0) + body)


def attribute(kind: int, payload: bytes) -> bytes:
    """An attribute, padded to a multiple of four bytes."""
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    """The payloads of attributes, by kind."""
    found: dict[int, bytes] = {}
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        size_bytes, kind = ATTRIBUTE.unpack_from(data, at)
        found[kind & ATTRIBUTE_KIND] = data[at + ATTRIBUTE.size : at + size_bytes]
        at += max(size_bytes + -size_bytes % 4, ATTRIBUTE.size)
    return found


class Kernel:
    """A socket to the kernel, about the network namespace that it was made in; as a context manager, closed at the
    end."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        # What it refuses, it gives a reason for.
        self._socket.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self._socket.bind((0, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def do(self, requests: Sequence[NetlinkRequest]) -> None:
        """Has all requests done, in order. Raises MachineFault with the words of the first that the kernel refuses."""
        batch: list[NetlinkRequest] = []
        size_bytes = 0
        for each in requests:
            if batch and size_bytes + len(each.data) > SENT_BYTES:
                self._send(batch)
                batch, size_bytes = [], 0
            batch.append(each)
            size_bytes += len(each.data)
        if batch:
            self._send(batch)

    def _send(self, batch: Sequence[NetlinkRequest]) -> None:
        """Sends requests and waits for the kernel's answer. Only the last request asks for one: of those before it, the
        kernel reports only those that it refused. Raises MachineFault for a refused request."""
        data = bytearray().join(each.data for each in batch)
        last = len(data) - len(batch[-1].data)
        (flags,) = struct.unpack_from("=H", data, last + FLAGS_OFFSET)
        struct.pack_into("=H", data, last + FLAGS_OFFSET, flags | NLM_F_ACK)
        self._socket.send(data)
        while True:
            for kind, flags, body in messages(self._socket.recv(READ_BYTES)):
                if kind != NLMSG_ERROR:
                    continue
                (code,) = struct.unpack_from("=i", body)
                if code == 0:
                    return
                why = f"{os.strerror(-code)}{_reason(flags, body)}"
                raise MachineFault(f"the kernel refused `{_refused(batch, body[4:])}`: {why}")

    def dump(self, kind: int, body: bytes) -> list[bytes]:
        """All that the kernel tells, a structure with its attributes each. Raises MachineFault if it does not tell."""
        for _ in range(DUMPS):
            self._socket.send(request("", kind, NLM_F_DUMP, body).data)
            if (told := self._told()) is not None:
                return told
        raise MachineFault(
            f"what the kernel was asked for changed {DUMPS} times while it answered: another program is changing it"
        )

    def _told(self) -> list[bytes] | None:
        """A list to its end; None if it changed meanwhile."""
        told: list[bytes] = []
        is_whole = True
        while True:
            for kind, flags, body in messages(self._socket.recv(READ_BYTES)):
                is_whole &= not flags & NLM_F_DUMP_INTR
                if kind not in (NLMSG_DONE, NLMSG_ERROR):
                    told.append(body)
                    continue
                # The end of a list has its error, too, since parts of it may have been told by then.
                (code,) = struct.unpack_from("=i", body) if body else (0,)
                if code < 0:
                    raise MachineFault(f"asking the kernel for a list failed: {os.strerror(-code)}")
                return told if is_whole else None


def index_of(interface: str) -> int | None:
    """The index of an interface of the caller's network namespace; None if there is no such interface."""
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        return None


def known_index(interface: str) -> int:
    """The index of an interface that was made before. Raises MachineFault if it is gone."""
    index = index_of(interface)
    if index is None:
        raise MachineFault(f"interface {interface} is gone: another program removed or renamed it; see `ip link`")
    return index


def messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields the kind, the flags and the body of each message of an answer."""
    at = 0
    while at < len(data):
        size_bytes, kind, flags, *_ = HEADER.unpack_from(data, at)
        yield kind, flags, data[at + HEADER.size : at + size_bytes]
        at += size_bytes + -size_bytes % 4


def _reason(flags: int, refusal: bytes) -> str:
    """The kernel's message in words, which follows the request that an error repeats; "" if it sent none."""
    if not flags & NLM_F_ACK_TLVS:
        return ""
    (original_bytes,) = struct.unpack_from("=I", refusal, 4)
    said = attributes(refusal[4 + original_bytes + -original_bytes % 4 :]).get(NLMSGERR_ATTR_MSG, b"")
    return f" ({said.rstrip(bytes(1)).decode(errors='replace')})" if said else ""


def _refused(batch: Sequence[NetlinkRequest], original: bytes) -> str:
    """The words of the request that the kernel repeats in its refusal. Its flags may have one more, to ask for an
    answer."""
    (size_bytes,) = struct.unpack_from("=I", original)
    body = original[HEADER.size : size_bytes]
    return next((each.words for each in batch if each.data[HEADER.size :] == body), batch[-1].words)
