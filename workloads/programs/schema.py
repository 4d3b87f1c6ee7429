"""The schema of scenarios of programs. Validation rejects unknown keys, wrong units and wrong values, and names the key of each."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gradwire.topo.fabric import MAX_BANDS
from gradwire.workloads.scenario.expectations import InWords
from gradwire.workloads.scenario.fields import DurationS, Names, Section
from gradwire.workloads.scenario.schema import (
    LARGEST_SEED,
    MOST_MEMORY_MB,
    AboutSection,
    FabricSection,
    PointTables,
    Workers,
)

EVERY_HOST = ("all",)
RESERVED = "GRADWIRE_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


Command = Annotated[str, Field(min_length=1), InWords('a text that is not empty, such as "iperf3 -c h1 -n $size"')]


class ProgramSection(Section):
    """A program that runs on hosts of the network."""

    command: Command
    """A line for `sh`. It knows `$GRADWIRE_HOST`, the names in `arguments` and other variables, and starts in the folder that gradwire is
    called in."""
    arguments: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Variables that the line knows, so that they can be swept: with `size = "64M"` it may say `$size`."""
    hosts: Names = EVERY_HOST
    """Hosts that it runs on, in the order of their ranks: "h1", or "all"."""
    launch: Literal["each", "torch", "mpi"] = "each"
    """"each" host runs it; "torch" gives each what torchrun would; "mpi" runs it on the first host alone, as an `mpirun` that reaches the
    others."""
    start: DurationS = Field(0.0, ge=0)
    """Virtual time after which it starts."""
    background: bool = False
    """Whether it is ended when all others have ended, as servers are. Otherwise it ends by itself."""
    traffic_class: int | None = Field(None, ge=0, lt=MAX_BANDS - 1)
    """Traffic class of all that it sends, 0 being served first. Without one it travels before all classes, as pings do."""
    figures: Literal["lines", "iperf3", "osu"] = "lines"
    """Where its results are read from: "lines" of JSON that it writes to the file `$GRADWIRE_FIGURES`, the report that
    `iperf3 --json` prints, or the columns that an OSU micro-benchmark prints."""

    @model_validator(mode="after")
    def _arguments_are_variables(self) -> Self:
        wrong = [name for name in self.arguments if not _VARIABLE.fullmatch(name) or name.startswith(RESERVED)]
        if wrong:
            needed = f"must be a name that a shell takes for a variable, and not begin with {RESERVED}"
            raise ValueError("\n".join(f"arguments.{name}: {needed}" for name in wrong))
        return self


class HostsSection(Section):
    """The hosts."""

    workers: Workers
    """How many hosts there are: h1, h2 and so on."""


class ProgramRunSection(Section):
    """The limits of a run, and what it captures."""

    seed: int = Field(1, ge=-LARGEST_SEED, le=LARGEST_SEED)
    """Decides spines of flows, and losses."""
    virtual_limit: DurationS = Field(3600.0, gt=0)
    """Virtual time that the programs may take."""
    time_limit: DurationS = Field(1800.0, gt=0)
    """Wall time that one point may take."""
    stall_limit: DurationS = Field(20.0, gt=0)
    """Wall time that programs may compute while no virtual time passes."""
    memory_mb: int = Field(3072, ge=512, le=MOST_MEMORY_MB)
    """Memory of the virtual-time kernel, for all hosts together."""
    capture: Names = ()
    """Hosts, switches or ports whose packets are written to files: "h1", "s1-eth2", or "all" for every host's port."""


class ProgramFileSection(AboutSection):
    """The keys of a scenario of programs beside those of its points."""

    metric: str = ""
    """The figure that the chart shows; by default the first that a program reports."""
    over: str = ""
    """What it is drawn over: a swept parameter or a figure; by default the first that is a swept number."""


class ProgramPointSection(PointTables):
    """One point: everything that decides its result, but the programs themselves."""

    beside = ProgramFileSection

    cluster: HostsSection
    """The hosts."""
    fabric: FabricSection
    """The network."""
    program: dict[str, ProgramSection] = Field(min_length=1)
    """The programs, each by a name of its own."""
    run: ProgramRunSection = ProgramRunSection()
    """Limits, captures."""

    @model_validator(mode="after")
    def _hosts_exist_and_something_ends(self) -> Self:
        wrong = [name for name in self.program if not _NAME.fullmatch(name)]
        lines = [
            f"program.{name}: a name has letters, digits, dashes and underscores, for it names files" for name in wrong
        ]
        for name, program in self.program.items():
            lines += [
                f"program.{name}.hosts: {defect}" for defect in _host_defects(program.hosts, self.cluster.workers)
            ]
        classes = self.fabric.classes
        for name, program in self.program.items():
            if classes is not None and program.traffic_class is not None and program.traffic_class >= classes:
                lines.append(
                    f"program.{name}.traffic_class = {program.traffic_class}: fabric.classes = {classes} are 0 to {classes - 1}"
                )
        if all(program.background for program in self.program.values()):
            lines.append(
                "program: all programs have background = true, so the run would never end; one has to end by itself"
            )
        if lines:
            raise ValueError("\n".join(lines))
        return self


def _host_defects(names: tuple[str, ...], hosts: int) -> list[str]:
    known = {f"h{number + 1}" for number in range(hosts)}
    if names == EVERY_HOST:
        return []
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        which = f"no host is called {unknown[0]!r}" if unknown else "is empty"
        return [f'{which}; hosts are h1 to h{hosts}, or "all"']
    return ["name each host once"] if len(set(names)) < len(names) else []
