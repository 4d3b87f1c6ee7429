"""The schema of scenarios of programs. Validation rejects unknown keys, wrong units and wrong values, and names the key of each."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.workloads.fabrics.section import FabricSection
from gradwire.workloads.programs.section import ProgramSection, program_defects
from gradwire.workloads.scenario.fields import DurationS, Names, Section
from gradwire.workloads.scenario.schema import (
    LARGEST_SEED,
    MOST_MEMORY_MB,
    AboutSection,
    PointTables,
    Workers,
)


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
    memory_mb: int = Field(DEFAULT_MEMORY_MB, ge=512, le=MOST_MEMORY_MB)
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
        hosts = [f"h{number + 1}" for number in range(self.cluster.workers)]
        lines = program_defects(self.program, hosts, self.fabric.classes)
        if all(program.background for program in self.program.values()):
            lines.append(
                "program: all programs have background = true, so the run would never end; one has to end by itself"
            )
        if lines:
            raise ValueError("\n".join(lines))
        return self
