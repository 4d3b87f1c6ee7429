"""Scenarios of programs: their keys, and how files with sweeps are resolved to points, as those of strategies
are."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import Field, model_validator
from typing_extensions import TypeIs

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB, LEAST_CPU_TIME, MOST_CPU_TIME
from gradwire.datatypes.records import PlannedFault
from gradwire.documents import Document, DocumentTable
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.definitions.inlining import FilesRead, inlined
from gradwire.scenario.expansion import Expansion
from gradwire.scenario.loading import (
    Point,
    Scenario,
    ScenarioOrigin,
    ScenarioPoint,
    distinct_points,
    first_names_of,
    parameter_names,
    toml_content,
    with_settings,
)
from gradwire.scenario.resolution.networks import fabric_of, refuse_sprayed
from gradwire.scenario.resolution.planned_faults import fault_defects, planned_faults
from gradwire.scenario.schema import (
    LARGEST_SEED,
    MOST_MEMORY_MB,
    AboutSection,
    PointTables,
    Workers,
)
from gradwire.scenario.sections.defined import ControllerDefinition
from gradwire.scenario.sections.fabric import FabricSection
from gradwire.scenario.sections.fault import FaultSection, may_lose, named_faults, program_fault_defects
from gradwire.scenario.sections.network import NetworkDefinition, RoutesDefinition
from gradwire.scenario.sections.program import ProgramSection, hosts_of, program_defects
from gradwire.workloads.fields import DurationS, Names, Section
from gradwire.workloads.units import rate_text


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
    cpu_time: float = Field(0.0, ge=0, le=MOST_CPU_TIME)
    """How much virtual time the computation of programs takes: a factor, 0.001 or more, of the CPU time that this machine counts for it.
    0: none. Such points do not repeat."""
    capture: Names = ()
    """Hosts, switches or ports whose packets are written to files: "h1", "s1-eth2", or "all" for every host's port."""

    @model_validator(mode="after")
    def _the_kernel_counts_thousandths(self) -> Self:
        if 0 < self.cpu_time < LEAST_CPU_TIME:
            raise ValueError(f"cpu_time: must be 0, where computation takes no time, or at least {LEAST_CPU_TIME:g}")
        return self


class ProgramFileSection(AboutSection):
    """The keys of a scenario of programs that are not those of its points."""

    metric: str = ""
    """The figure that the chart shows; by default the first that a program reports."""
    over: str = ""
    """What it is drawn over: a swept parameter or a figure; by default the first that is a swept number."""


class NetworksSection(Section):
    """Networks of your own, by the names that the rest of the scenario uses."""

    networks: dict[str, NetworkDefinition] = Field(default_factory=dict)
    """What files of networks say, by the networks' names."""
    routes: dict[str, RoutesDefinition] = Field(default_factory=dict)
    """What tables of routes say, by the tables' names."""
    controllers: dict[str, ControllerDefinition] = Field(default_factory=dict)
    """Where controllers of your own are. Programs have none: one is read here so that the refusal names its key."""


class ProgramPointSection(PointTables):
    """One point: everything that decides its result, but the programs themselves."""

    file_keys = ProgramFileSection

    cluster: HostsSection
    """The hosts."""
    fabric: FabricSection
    """The network."""
    program: dict[str, ProgramSection] = Field(min_length=1)
    """The programs, each with a name that no other has."""
    fault: dict[str, FaultSection] = Field(default_factory=dict)
    """Faults of the network while programs run: of links, switches and the controller, and without `iteration`."""
    defined: NetworksSection = NetworksSection()
    """What the files at `fabric.file` and `fabric.routes` say. The copy of a scenario in a run folder has it here."""
    run: ProgramRunSection = ProgramRunSection()
    """Limits, captures."""

    @model_validator(mode="after")
    def _hosts_exist_and_something_ends(self) -> Self:
        network = self.defined.networks.get(self.fabric.file or "")
        count = max(self.cluster.workers, len(network.hosts) if network else 0)
        hosts = [f"h{number + 1}" for number in range(count)]
        is_known = network is not None or self.fabric.file is None
        lines = program_defects(self.program, hosts, self.fabric.classes) if is_known else []
        if all(program.background for program in self.program.values()):
            lines.append(
                "program: all programs have background = true, so the run would never end; one has to end by itself"
            )
        lines += program_fault_defects(self.fault)
        if lines:
            raise ValueError("\n".join(lines))
        return self


@dataclass(frozen=True)
class ProgramPoint(ScenarioPoint):
    """One point whose work is programs, which its section does not contain, but their commands."""

    section: ProgramPointSection

    @property
    def programs(self) -> Mapping[str, ProgramSection]:
        """All programs that the point runs."""
        return self.section.program

    @property
    def network(self) -> Fabric:
        """The network of its programs."""
        return self.fabric

    @property
    def memory_mb(self) -> int:
        """Memory that its machine may use, in MiB."""
        return self.section.run.memory_mb

    @property
    def time_limit_s(self) -> float:
        """Wall time that it may take."""
        return self.section.run.time_limit

    @property
    def fabric(self) -> Fabric:
        """The network. Raises InputFault for keys that do not fit together."""
        wanted = self.section.fabric
        if wanted.rails:
            raise InputFault(
                "fabric.rails = true: leave it out: several NICs of a host are several network namespaces here, and a program lives in one"
            )
        if wanted.controller is not None:
            raise InputFault(
                "fabric.controller: is for strategies; networks of programs alone have gradwire's controller"
            )
        refuse_sprayed(wanted, programs=True)
        return fabric_of(
            wanted,
            self.section.cluster.workers,
            self.section.defined,
            classes=self._needed_classes(),
            seed=self.section.run.seed,
            faulty=may_lose(self.section.fault),
        )

    @property
    def faults(self) -> tuple[PlannedFault, ...]:
        """Faults of the network, as the machine carries them out."""
        return planned_faults(self.section.fault, self.fabric)

    def _needed_classes(self) -> int:
        return max(
            [1, *(each.traffic_class + 1 for each in self.section.program.values() if each.traffic_class is not None)]
        )

    def hosts_of(self, program: ProgramSection) -> list[int]:
        """Indices of the hosts that a program runs on."""
        return hosts_of(program, self.fabric.host_names())


ProgramScenario = Scenario[ProgramPoint]
"""A resolved scenario of programs."""
AnyScenario = Scenario[Point] | ProgramScenario
"""A resolved scenario, whatever its points do."""


def has_plans(scenario: AnyScenario) -> TypeIs[Scenario[Point]]:
    """Returns whether a scenario's points have plans; otherwise they are programs alone."""
    return isinstance(scenario.points[0], Point)


def of_plans(scenario: AnyScenario, otherwise: str) -> Scenario:
    """The scenario, if its points have plans. Raises InputFault with the words `otherwise` if they are programs alone."""
    if not has_plans(scenario):
        raise InputFault(otherwise)
    return scenario


def programs_of(content: Mapping[str, object], settings: Sequence[str] = ()) -> ProgramScenario:
    """The scenario with this content, equal to that of a file with the same content; its name is made of its
    title.

    Raises InputFault for everything that is wrong.
    """
    document = toml_content(content)
    return programs_of_document(document, ScenarioOrigin.given(document), settings)


def programs_of_document(document: Document, origin: ScenarioOrigin, settings: Sequence[str] = ()) -> ProgramScenario:
    """Applies settings to a document of a scenario of programs and resolves it. Values that settings replace must be
    right as well.

    Raises InputFault for everything that is wrong.
    """
    document = named_faults(first_names_of(document, origin.words))
    read: FilesRead = {}
    overridden: list[str] = []
    if settings:
        unset, overridden = (
            (document, []) if origin.folder is None else inlined(document, origin.folder, origin.code, read)
        )
        overridden += _defects(_expansion(unset))
    document = with_settings(document, settings, origin.words, overridden)
    if origin.folder is not None:
        document, wrong_files = inlined(document, origin.folder, origin.code, read)
        overridden += wrong_files
    return _resolved(document, origin, overridden, tuple(settings))


def _expansion(document: DocumentTable) -> Expansion[ProgramFileSection, ProgramPointSection]:
    return Expansion(copy.deepcopy(dict(document)), ProgramFileSection, ProgramPointSection)


def _defects(expansion: Expansion[ProgramFileSection, ProgramPointSection]) -> list[str]:
    list(expansion.points)  # adds to the file's defects
    return [*expansion.file_defects, *expansion.value_defects()]


def _resolved(
    document: Document, origin: ScenarioOrigin, overridden: Sequence[str], settings: tuple[str, ...]
) -> ProgramScenario:
    expansion = _expansion(document)
    lines = [*overridden, *_defects(expansion)]
    sections, misfits = expansion.sections()
    lines += misfits
    points = [ProgramPoint(_parameters(section, swept), section, origin.words) for section, swept in sections]
    lines += [] if overridden else _misfits(points)  # what is wrong with a file is said once
    about = expansion.about
    if lines or about is None:
        raise InputFault("\n".join([f"{origin.words}: {line}" for line in dict.fromkeys(lines)]))
    return ProgramScenario(
        name=origin.name,
        title=about.title,
        about=about.about,
        labels=about.labels,
        printed=(),
        points=distinct_points(points),
        document=document,
        notes=tuple(about.notes),
        settings=settings,
        metric=about.metric,
        over=about.over,
    )


def _misfits(points: Sequence[ProgramPoint]) -> list[str]:
    """Describes settings of the networks that do not go together, one line each."""
    lines: list[str] = []
    for point in points:
        try:
            fabric = point.fabric
            fabric.ports_named(point.section.run.capture)
            lines += fault_defects(point.section.fault, fabric, 0)
        except InputFault as fault:
            lines += str(fault).splitlines()
    return lines


def _parameters(section: ProgramPointSection, swept: DocumentTable) -> dict[str, str]:
    """The parameters of a point: everything that the scenario sweeps, and workers, rate and seed."""
    names = parameter_names(list(swept))
    standard = {
        "workers": str(section.cluster.workers),
        "rate": rate_text(section.fabric.rate),
        "seed": str(section.run.seed),
    }
    return {**{names[key]: str(value) for key, value in swept.items()}, **standard}
