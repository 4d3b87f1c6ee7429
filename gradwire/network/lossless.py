"""Priority flow control (IEEE 802.1Qbb) as frozen data: a switch's shared memory, and when its ports pause the far end.
Imports only the standard library.

What waits in a switch is charged to the port by which it came and to its class. Beyond a threshold, the class is
paused at the far end of that port's link, and what is still under way goes to headroom. The kernel does it
(vm/patches/6.12/priority-flow-control.patch, which has the theory); this module says with which sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gradwire.network.links import LEAST_BURSTS, Link

BUFFER_BYTES = 12_000_000
"""Shared memory of the switches in DCQCN's paper (Zhu et al., SIGCOMM 2015, section 4: Arista 7050QX32, 12 MB)."""
ALPHA = 1.0
"""Share of the free memory that one class of one port may take: the paper's beta of 8 over its 8 priorities (section
4)."""
GAP_BURSTS = 2
"""How far below the threshold a paused class continues: the paper's two MTUs (section 4), as bursts of `fabric.gso`."""
GSO_BYTES = 16384
"""The largest burst of hosts by default. A pause acts between bursts: of a flow that shares a paused port with another at
100 Gbit/s, bursts of 64 KiB left 89 % of what theory says, of 16 KiB 99.3 %, of 9,000 bytes 99.7 %, and frames all of it. But
shorter bursts have more ACKs: a ring of 8 took 1.2 % longer by bursts of 9,014 bytes than by 64 KiB, and 0.8 % by these."""
WINDOW_BUFFERS = 4
"""Buffers of switches that a connection's window holds, so that pauses hold senders back and windows do not, as RDMA has
none: those of a leaf, a spine and a leaf, and one more."""
PAUSE_FRAME_BYTES = 84
"""A pause frame on the line: 64 bytes, preamble and gap (IEEE 802.3, 31B)."""
RESPONSE_S = 2e-6
"""How long a port may still send after a pause has arrived. Ports here stop at once, but timers of the virtual clock
are up to 1 us late, and this is twice that. Without it, 391 of 90,000 frames did not fit at 100 Gbit/s."""


class PausedFabric(Protocol):
    """The properties of a fabric (network/fabric.py) that priority flow control depends on."""

    @property
    def lossless(self) -> Lossless | None: ...  # noqa: D102 (documented there, as all of these)

    @property
    def classes(self) -> int: ...  # noqa: D102

    @property
    def mtu_bytes(self) -> int: ...  # noqa: D102

    @property
    def gso_bytes(self) -> int: ...  # noqa: D102

    @property
    def aggregators(self) -> bool: ...  # noqa: D102

    @property
    def drops(self) -> bool: ...  # noqa: D102

    @property
    def losses(self) -> Mapping[str, float]: ...  # noqa: D102

    def links(self) -> list[Link]: ...  # noqa: D102

    def switch_names(self) -> list[str]: ...  # noqa: D102

    def burst_bytes(self, rate_bps: float, *, exact_timers: bool) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Lossless:
    """Settings of priority flow control, which makes a network lossless. 0 stands for a size that is not set."""

    buffer_bytes: int = BUFFER_BYTES
    #: The most that one class of one port may use, as a multiple of the free memory; 0 if only `xoff_bytes` counts.
    alpha: float = ALPHA
    #: The most that one class of one port may use before it pauses.
    xoff_bytes: int = 0
    #: How much may still be waiting when a paused class continues.
    xon_bytes: int = 0
    #: Memory of each class of each port for what is under way when it is paused; 0: as much as its link needs.
    headroom_bytes: int = 0
    #: Traffic classes that are paused; empty for all.
    classes: tuple[int, ...] = ()

    @staticmethod
    def from_fields(fields: Mapping[str, Any] | None) -> Lossless | None:
        """Returns the settings that a fabric's JSON has, from its fields; None for None."""
        return None if fields is None else Lossless(**{**fields, "classes": tuple(fields["classes"])})

    def paused_classes(self, classes: int) -> tuple[int, ...]:
        """The traffic classes that are paused, of a fabric with so many."""
        return self.classes or tuple(range(classes))

    def headroom_of(self, link: Link, fabric: PausedFabric) -> int:
        """Bytes of headroom of each class at either end of a link.

        By default all that can arrive after the pause was decided: what is on the wire, what is sent until the pause
        arrives and has been read, the port's burst, and a burst that began to leave at each of both moments.
        """
        if self.headroom_bytes:
            return self.headroom_bytes
        bytes_per_s = link.rate_bps / 8
        deaf_s = 2 * link.delay_s + link.jitter_s + pause_frame_s(link) + RESPONSE_S
        return (
            math.ceil(bytes_per_s * deaf_s + fabric.burst_bytes(link.rate_bps, exact_timers=True))
            + 2 * fabric.gso_bytes
        )

    def pool_bytes(self, switch: str, fabric: PausedFabric) -> int:
        """Returns the bytes of memory that the ports of a switch share: all of it without their headroom."""
        links = [link for link in fabric.links() for end in (link.a, link.b) if end.device == switch]
        reserved = sum(self.headroom_of(link, fabric) for link in links)
        return self.buffer_bytes - reserved * len(self.paused_classes(fabric.classes))

    def gap_bytes(self, fabric: PausedFabric) -> int:
        """Returns the number of bytes below the threshold at which a paused class continues."""
        return GAP_BURSTS * fabric.gso_bytes

    def settling_s(self, fabric: PausedFabric) -> float:
        """Time after which no port is paused any more once hosts send nothing new: until the memory of all switches has
        left by the slowest link, with every link's delay there and back."""
        links = fabric.links()
        memory_bits = 8 * self.buffer_bytes * len(fabric.switch_names())
        delays_s = sum(2 * (link.delay_s + link.jitter_s) + pause_frame_s(link) for link in links)
        return memory_bits / min(link.rate_bps for link in links) + delays_s


def pause_frame_s(link: Link) -> float:
    """Returns the seconds that a pause frame occupies the line."""
    return PAUSE_FRAME_BYTES * 8 / link.rate_bps


def lossless_defects(fabric: PausedFabric) -> Iterator[str]:
    """Yields the defects of a fabric's flow control, a line each."""
    wanted = fabric.lossless
    if wanted is None:
        return
    if too_high := [each for each in wanted.classes if not 0 <= each < fabric.classes]:
        yield f"fabric.lossless.classes = {list(wanted.classes)}: there is no class {too_high[0]}; classes are 0 to {fabric.classes - 1}"
        return
    if fabric.drops or fabric.losses:
        yield "fabric.lossless: nothing is to be dropped, so leave out fabric.buffer, loss, and those of single links"
    if fabric.aggregators:
        yield "fabric.lossless: strategies that add up on switches have ports without a rate, which nothing can pause"
        return
    least = LEAST_BURSTS * fabric.gso_bytes
    if 0 < wanted.xoff_bytes < least:
        yield (
            f"fabric.lossless.xoff = {wanted.xoff_bytes}B: must be at least {LEAST_BURSTS} bursts of fabric.gso = "
            f'{fabric.gso_bytes}B, for a burst is charged as a whole; set fabric.gso = "{fabric.mtu_bytes + 14}B", and hosts '
            "send frame by frame"
        )
    if wanted.xoff_bytes and wanted.xon_bytes >= wanted.xoff_bytes:
        yield f"fabric.lossless.xon = {wanted.xon_bytes}B: must be below fabric.lossless.xoff = {wanted.xoff_bytes}B"
    for switch in fabric.switch_names():
        if (pool_bytes := wanted.pool_bytes(switch, fabric)) < max(least, wanted.xoff_bytes):
            yield (
                f"fabric.lossless.buffer = {wanted.buffer_bytes}B: of {switch}, {wanted.buffer_bytes - pool_bytes} bytes are headroom, "
                f"and what is left must hold {max(least, wanted.xoff_bytes)}; set a larger buffer, or a smaller fabric.gso, "
                "of which a port's headroom holds two bursts"
            )
            return
