"""Scenarios of programs: what they may say, and how files with sweeps are resolved to points, as those of strategies are."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import InputFault
from gradwire.scenario.expansion import Expansion
from gradwire.scenario.limits import listed
from gradwire.scenario.loading import GIVEN, first_names_of, name_of_title, parameter_names, toml_content
from gradwire.scenario.reading import read_document
from gradwire.scenario.resolution.networks import graph_of
from gradwire.scenario.schema import (
    LARGEST_SEED,
    MOST_MEMORY_MB,
    AboutSection,
    PointTables,
    Workers,
)
from gradwire.scenario.sections.fabric import FabricSection
from gradwire.scenario.sections.program import ProgramSection, hosts_of, program_defects
from gradwire.scenario.settings import apply_setting, setting_words
from gradwire.workloads.values.fields import DurationS, Names, Section
from gradwire.workloads.values.units import rate_text


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


@dataclass(frozen=True)
class ProgramPoint:
    """One point of a scenario of programs."""

    #: The values that identify the point in tables, by name.
    parameters: dict[str, str]
    #: Everything that decides the point's result, but the programs themselves.
    section: ProgramPointSection
    #: The file that the point comes from, for error messages.
    origin: str = field(default="", compare=False)

    @property
    def fabric(self) -> Fabric:
        """The network. Raises InputFault for keys that do not fit together."""
        wanted = self.section.fabric
        if wanted.rails:
            raise InputFault(
                "fabric.rails = true: leave it out: several NICs of a host are several network namespaces here, and a program lives in one"
            )
        if wanted.file is not None:
            raise InputFault(
                f"fabric.file = '{wanted.file}': scenarios of programs take networks from numbers only: fabric.topology"
            )
        graph = graph_of(wanted, self.section.cluster.workers, {})
        return Fabric(
            hosts=self.section.cluster.workers,
            rate_bps=wanted.rate,
            graph=graph,
            topology=wanted.topology,
            leaves=wanted.leaves,
            spines=wanted.spines,
            oversubscription=wanted.oversubscription,
            pods=wanted.pods,
            cores=wanted.cores,
            core_oversubscription=wanted.core_oversubscription,
            classes=wanted.classes or self._needed_classes(),
            mtu_bytes=wanted.mtu_bytes,
            gso_bytes=wanted.gso_bytes,
            buffer_bytes=wanted.buffer_bytes,
            ecn_bytes=wanted.ecn_bytes,
            loss=wanted.loss,
            fair_queues=wanted.fair_queues,
            seed=self.section.run.seed,
            delay_s=wanted.delay,
            link_settings=wanted.link_settings,
            flow_rate_bps=wanted.flow_rate or 0.0,
        )

    def _needed_classes(self) -> int:
        return max(
            [1, *(each.traffic_class + 1 for each in self.section.program.values() if each.traffic_class is not None)]
        )

    def hosts_of(self, program: ProgramSection) -> list[int]:
        """Indices of the hosts that a program runs on."""
        return hosts_of(program, self.fabric.host_names())


@dataclass(frozen=True)
class ProgramScenario:
    """A resolved scenario of programs. `ProgramFileSection` documents the fields that a file sets by the same name."""

    name: str
    title: str
    about: str
    labels: Mapping[str, str]
    notes: tuple[str, ...]
    metric: str
    over: str
    points: tuple[ProgramPoint, ...]
    #: The file's content after `--set`, from which an equal scenario can be resolved.
    document: dict[str, Any]
    #: What `--set` set, as it was written.
    settings: tuple[str, ...] = ()


def load_programs(path: Path, settings: Sequence[str] = (), *, as_run: bool = False) -> ProgramScenario:
    """Reads a scenario file of programs, and applies `key=value` settings.

    as_run: the file is the copy in a run folder, which is not a link.

    Raises InputFault, naming the file, the key and what would be right for everything that is wrong. What settings replace has to be right
    as well.
    """
    return _with_settings(
        first_names_of(read_document(path, follow=not as_run), str(path)), str(path), path.stem, settings
    )


def programs_of(content: Mapping[str, Any], settings: Sequence[str] = ()) -> ProgramScenario:
    """The scenario with this content, as `load_programs` gives that of a file with the same content; its name is made of its title.

    Raises InputFault for everything that is wrong.
    """
    document = toml_content(content)
    return _with_settings(first_names_of(document, GIVEN), GIVEN, name_of_title(document), settings)


def _with_settings(document: dict[str, Any], origin: str, name: str, settings: Sequence[str]) -> ProgramScenario:
    """Applies settings to a document and resolves it."""
    overridden = _defects(_expansion(document)) if settings else []
    refused = []
    for setting in settings:
        try:
            apply_setting(document, setting)
        except InputFault as fault:
            refused.append(str(fault))
    if refused:
        raise InputFault("\n".join([*(f"{origin}: {line}" for line in dict.fromkeys(overridden)), *refused]))
    if settings and isinstance(document.get("title"), str):
        document["title"] += f", with {', '.join(map(setting_words, settings))}"
    return _resolved(document, origin, name, overridden, tuple(settings))


def _expansion(document: Mapping[str, Any]) -> Expansion[ProgramFileSection, ProgramPointSection]:
    return Expansion(copy.deepcopy(dict(document)), ProgramFileSection, ProgramPointSection)


def _defects(expansion: Expansion[ProgramFileSection, ProgramPointSection]) -> list[str]:
    list(expansion.points)  # adds to the file's defects
    return [*expansion.file_defects, *expansion.value_defects()]


def _resolved(
    document: dict[str, Any], origin: str, name: str, overridden: Sequence[str], settings: tuple[str, ...]
) -> ProgramScenario:
    expansion = _expansion(document)
    lines = [*overridden, *_defects(expansion)]
    sections, misfits = expansion.sections()
    lines += misfits
    points = [ProgramPoint(_parameters(section, swept), section, origin) for section, swept in sections]
    lines += _misfits(points)
    about = expansion.about
    if lines or about is None:
        raise InputFault(listed([f"{origin}: {line}" for line in dict.fromkeys(lines)]))
    distinct = {point.section.model_dump_json(): point for point in reversed(points)}
    return ProgramScenario(
        name,
        about.title,
        about.about,
        about.labels,
        tuple(about.notes),
        about.metric,
        about.over,
        tuple(reversed(distinct.values())),
        document,
        settings,
    )


def _misfits(points: Sequence[ProgramPoint]) -> list[str]:
    """What does not fit together in the networks."""
    lines: list[str] = []
    for point in points:
        try:
            point.fabric.ports_named(point.section.run.capture)
        except InputFault as fault:
            lines += str(fault).splitlines()
    return lines


def _parameters(section: ProgramPointSection, swept: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of a point: whatever the scenario sweeps, and workers, rate and seed."""
    names = parameter_names(list(swept))
    standard = {
        "workers": str(section.cluster.workers),
        "rate": rate_text(section.fabric.rate),
        "seed": str(section.run.seed),
    }
    return {**{names[key]: str(value) for key, value in swept.items()}, **standard}
