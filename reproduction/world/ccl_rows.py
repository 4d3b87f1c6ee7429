"""Rows of nccl-tests, predicted by `gradwire ccl`: what NCCL chooses, on hosts that take what they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gradwire.runs.ccl import Given, row_of, set_up, size_of
from gradwire.workloads.engines.collectives.schedule import Collective
from reproduction.world.cells import By, quoted
from reproduction.world.predicting import Predicted

USUAL = Given(
    machines=2,
    gpus=8,
    gpu="h100",
    nic="400gbit",
    nics=8,
    transport="rdma",
    links=None,
    nvswitch=True,
    amd=False,
    dtype="float",
    version="2.22",
    variables=(),
    latency=None,
    delay="0us",
    machine_rate=None,
    burst_cost=None,
    mtu_bytes=9000,
)
"""What the command has where nothing is asked."""
OPTIONS = {"version": "nccl", "mtu_bytes": "mtu", "links": "nvlink", "variables": "env"}
"""Names of options that differ from those in `Given`."""
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Called:
    """A line of the table of `gradwire ccl all-reduce`, and how its time becomes the printed quantity."""

    #: What differs from `USUAL`, by its name in `Given`.
    options: tuple[tuple[str, str | int], ...]
    #: As `--sizes` has it.
    size: str
    #: From seconds to the row's unit.
    value: Callable[[float], float]

    @property
    def by(self) -> By:
        """What predicts."""
        return By.CCL

    @property
    def given(self) -> Given:
        """The options of the command."""
        return replace(
            USUAL,
            **{name: (value,) if name == "variables" else value for name, value in self.options},  # type: ignore[arg-type]
        )

    def command(self) -> str:
        """The command that predicts it alone."""
        told = " ".join(
            f"--{OPTIONS.get(name, name).replace('_', '-')} {quoted(str(value))}" for name, value in self.options
        )
        return f"gradwire ccl all-reduce {told} --sizes {quoted(self.size)}"

    def predicted(self) -> Predicted:
        """What the table says. Raises InputFault for options that cannot be."""
        comm, wires, _ = set_up(self.given)
        row = row_of(comm, wires, Collective.ALL_REDUCE, size_of(self.size), FLOAT_BYTES)
        seen = f"by NCCL's tables {row.algorithm} with {row.protocol}, {row.channels} channels, chunks of {row.chunk_bytes} B"
        return Predicted(self.value(row.time_s), f"{seen}; {row.by}")
