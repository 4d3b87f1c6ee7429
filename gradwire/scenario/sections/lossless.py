"""The tables [fabric.lossless] and [fabric.ecn] of scenarios: priority flow control, and marks by RED."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from gradwire.network.fabric import MAX_BANDS
from gradwire.network.lossless import ALPHA, BUFFER_BYTES, Lossless
from gradwire.workloads.fields import Section, SizeBytes

LEAST_BYTES, LARGEST_BYTES = 2**11, 2**30
"""Range of a switch's memory and its thresholds: from a frame to more than any switch has."""
KMIN_BYTES, KMAX_BYTES, PMAX = 5_000, 200_000, 0.01
"""DCQCN's at 40 Gbit/s (Zhu et al., SIGCOMM 2015, figure 14)."""
LARGEST_ALPHA = 128.0
"""Switches' settings end there: SONiC's `dynamic_th` is a power of 2 from -7 to 7."""

Bytes = Annotated[SizeBytes, Field(ge=LEAST_BYTES, le=LARGEST_BYTES)]


class RedSection(Section):
    """Marks by RED, as DCQCN wants them: none up to `kmin`, then more and more, and all from `kmax` on."""

    kmin: Bytes = KMIN_BYTES
    """Length of a queue from which on some packets are marked."""
    kmax: Bytes = KMAX_BYTES
    """Length from which on all are marked."""
    pmax: float = Field(PMAX, gt=0, le=1)
    """Share of packets that are marked just below it."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.kmax <= self.kmin:
            raise ValueError("kmax: must be above kmin; for one threshold, give a size in place of the table")
        return self


class LosslessSection(Section):
    """Priority flow control (IEEE 802.1Qbb): switches with one memory each, whose ports pause the far end's classes before it overflows."""

    buffer: Bytes = BUFFER_BYTES
    """Memory of each switch, headroom included. Unset: 12 MB, as in DCQCN's paper (SIGCOMM 2015, section 4)."""
    alpha: float | None = Field(None, gt=0, le=LARGEST_ALPHA)
    """Dynamic threshold: what came by one port and waits is paused beyond alpha times the memory that is free. Unset: 1, the paper's beta
    of 8 over its 8 priorities; with `xoff`, none."""
    xoff: Bytes | None = None
    """Fixed threshold: what came by one port, per class, is paused beyond it. With `alpha`, the lower one counts."""
    xon: Bytes | None = None
    """What may still wait when it continues. Unset: two bursts (`fabric.gso`) less than the threshold."""
    headroom: Bytes | None = None
    """Memory of each port and class for what is under way when it is paused. Unset: what the link's rate and delay need."""
    classes: list[Annotated[int, Field(ge=0, lt=MAX_BANDS - 1)]] = Field(default_factory=list)
    """Traffic classes that are paused; unset: all. Others, and control messages and ACKs, have deep queues that are never paused."""

    def resolved(self) -> Lossless:
        """The table in the form that a fabric takes."""
        by_default = 0.0 if self.xoff else ALPHA
        return Lossless(
            self.buffer,
            by_default if self.alpha is None else self.alpha,
            self.xoff or 0,
            self.xon or 0,
            self.headroom or 0,
            tuple(sorted(set(self.classes))),
        )
