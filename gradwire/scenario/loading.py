"""Scenario files: TOML with sweeps, resolved into points. A sweep lists values for dotted keys, and their product makes the points."""

from __future__ import annotations

import copy
import re
import tomllib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Generic

import tomli_w
from typing_extensions import TypeVar

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.named_code import RUN_FOLDER, NamedBy, named_by_scenario
from gradwire.network.fabric import Fabric
from gradwire.reading_budget import reading_budget
from gradwire.scenario.definitions.inlining import FilesRead, inlined
from gradwire.scenario.expansion import Expansion
from gradwire.scenario.limits import refuse_too_much
from gradwire.scenario.name_checks import name_defects
from gradwire.scenario.overrides import apply_setting, setting_words
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.schema import FileSection, PointSection, PointTables, PrintedSection
from gradwire.scenario.sections.defined import DefinedSection
from gradwire.scenario.sections.fault import named_faults
from gradwire.scenario.sections.program import ProgramSection
from gradwire.scenario.toml_documents import by_first_names, has_programs, read_document
from gradwire.workloads.models.synthetic import base_name
from gradwire.workloads.units import rate_text

GIVEN = "scenario"
"""The origin of a scenario that is not a file, for messages."""
SLUG_MAX = 60
"""Characters of a name that is made of a title."""


@dataclass(frozen=True)
class ScenarioPoint(ABC):
    """One point of a scenario, whose work is a strategy's plan (`Point`) or programs alone (scenario/program_scenarios.py)."""

    #: The values that identify the point in tables, by name.
    parameters: dict[str, str]
    #: Everything that decides the point's result.
    section: PointTables
    #: The file that the point comes from, for error messages.
    origin: str = field(default="", compare=False)

    @property
    @abstractmethod
    def programs(self) -> Mapping[str, ProgramSection]:
        """The users' programs that run in it, by their names."""

    @property
    @abstractmethod
    def fabric(self) -> Fabric:
        """The network. Raises InputFault for keys that do not fit together."""

    @property
    @abstractmethod
    def network(self) -> Fabric:
        """The network alone, for programs that a command starts there. Raises InputFault for keys that do not fit together."""

    @property
    @abstractmethod
    def memory_mb(self) -> int:
        """Memory that its machine may use, in MiB."""

    @property
    @abstractmethod
    def time_limit_s(self) -> float:
        """Wall time that it may take."""


@dataclass(frozen=True)
class Point(ScenarioPoint):
    """One point whose work is a strategy's plan, with or without programs next to it."""

    section: PointSection

    @property
    def programs(self) -> Mapping[str, ProgramSection]:
        """Programs that run next to the strategy."""
        return self.section.program

    @property
    def fabric(self) -> Fabric:
        """The network that the strategy needs, at the rate that the scenario gives."""
        return self.resolved.fabric

    @property
    def network(self) -> Fabric:
        """The network without the parts that only strategies need: classes and aggregators."""
        return replace(self.fabric, classes=1, aggregators=False)

    @property
    def memory_mb(self) -> int:
        """Memory that its machine may use, in MiB."""
        return self.section.run.memory_mb

    @property
    def time_limit_s(self) -> float:
        """Wall time that it may take."""
        return self.section.run.time_limit

    def parameters_of_job(self, name: str) -> dict[str, str]:
        """The parameters in which one of several jobs differs from the point."""
        job = self.section.job[name]
        return {"model": job.model.name, "strategy": job.strategy.name, "workers": str(job.cluster.workers)}

    @cached_property
    def resolved(self) -> ResolvedPoint:
        """The things that the point's names stand for, each looked up once, when it is first needed."""
        return ResolvedPoint(self.section)

    def __getstate__(self) -> dict[str, object]:
        """State for other processes, without the things that names stand for. They are looked up there, because
        strategies cannot be pickled."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


P_co = TypeVar("P_co", bound=ScenarioPoint, default=Point, covariant=True)


@dataclass(frozen=True)
class Scenario(Generic[P_co]):
    """A resolved scenario. `FileSection` documents the fields that a file sets by the same name; `ProgramFileSection` metric and over."""

    name: str
    title: str
    about: str
    labels: dict[str, str]
    printed: tuple[PrintedSection, ...]
    points: tuple[P_co, ...]
    #: The file's content after `--set`, from which an equal scenario can be resolved.
    document: Document
    chart: str = "auto"
    left_out: Mapping[str, str] = field(default_factory=dict)
    printed_claims: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    #: Settings of `--set`, as they were written.
    settings: tuple[str, ...] = ()
    #: The content before `--set`; None without settings, and for programs, beside which nothing is printed.
    unset_document: Document | None = field(default=None, compare=False, repr=False)
    metric: str = ""
    over: str = ""
    #: The swept keys, by the names of points' parameters.
    keys: Mapping[str, str] = field(default_factory=dict)


def without_settings(scenario: Scenario) -> Scenario:
    """The scenario without `--set`. Raises InputFault for a scenario that is only right with its settings."""
    if scenario.unset_document is None:
        return scenario
    return resolve(scenario.unset_document, scenario.points[0].origin, scenario.name)


def load_scenario(path: Path, settings: Sequence[str] = (), *, as_run: bool = False) -> Scenario:
    """Reads a scenario file, applies `key=value` settings, and puts the contents of its model and device files into
    it.

    as_run: the file is the copy in a run folder. Names of models, devices, strategies and options are then taken as they are: another
    version of gradwire may have known others.

    Raises InputFault, naming the file, the key and what would be right for everything that is wrong, if the file cannot be read or is not
    a valid scenario. What settings replace has to be right as well.
    """
    with reading_budget(path):
        document = read_document(path, follow=not as_run)
        return scenario_of_document(document, ScenarioOrigin.of_file(path, as_run=as_run), settings)


def _refuse_programs(document: DocumentTable, origin: str) -> None:
    """Raises InputFault for a scenario of programs alone, which is resolved by scenario/program_scenarios.py."""
    if has_programs(document):
        raise InputFault(
            f"{origin}: has programs, which have no plan: `gradwire run`, `plan` and `report` take it, and `exec` and `shell` its network"
        )


def scenario_of(content: Mapping[str, object], settings: Sequence[str] = ()) -> Scenario:
    """The scenario with this content, equal to the one that `load_scenario` reads from a file with the same content;
    its name is made of its title.

    Files that it names are looked for in the working directory. Raises InputFault for everything that is wrong, and for values that TOML
    does not have, such as None.
    """
    document = toml_content(content)
    return scenario_of_document(document, ScenarioOrigin.given(document), settings)


def toml_content(content: Mapping[str, object]) -> Document:
    """A mapping as TOML would have it. Raises InputFault for values that TOML does not have, such as None."""
    try:
        refuse_too_much(content)
        return tomllib.loads(tomli_w.dumps(content))
    except InputFault as fault:
        raise InputFault(f"{GIVEN}: {fault}") from fault
    except (TypeError, ValueError) as error:
        raise InputFault(
            f"{GIVEN}: {error}; a scenario has what TOML has: tables, lists, texts, numbers and truth"
        ) from error


def name_of_title(document: DocumentTable) -> str:
    """A document's title as a file's name: lower-case words with dashes between them."""
    title = str(document.get("title", ""))
    return "-".join(re.findall(r"[a-z0-9.]+", title.lower()))[:SLUG_MAX].strip("-.") or "scenario"


@dataclass(frozen=True)
class ScenarioOrigin:
    """The origin of a scenario's content."""

    #: For messages.
    words: str
    #: Name of its run folder.
    name: str
    #: Folder in which files that it names are looked for. None for the copy in a run folder, which names no files, and
    #: whose names of models and the like are not looked for as files.
    folder: Path | None
    #: Python files that its content may have run.
    code: NamedBy = RUN_FOLDER

    @classmethod
    def of_file(cls, path: Path, *, as_run: bool = False) -> ScenarioOrigin:
        """Origin of a file's content. as_run: whether it is the copy in a run folder."""
        folder, code = (None, RUN_FOLDER) if as_run else (path.parent, named_by_scenario(path))
        return cls(str(path), path.stem, folder, code)

    @classmethod
    def given(cls, document: DocumentTable) -> ScenarioOrigin:
        """Origin of content that is not in a file. Its name is made of the title."""
        return cls(GIVEN, name_of_title(document), Path(), NamedBy(GIVEN, Path()))


def scenario_of_document(document: Document, origin: ScenarioOrigin, settings: Sequence[str] = ()) -> Scenario:
    """Applies settings to a document of a scenario of plans and resolves it. Values that settings replace must be right
    as well.

    Raises InputFault for everything that is wrong.
    """
    _refuse_programs(document, origin.words)
    folder = origin.folder
    document = named_faults(first_names_of(document, origin.words))
    overridden: list[str] = []
    before: Document | None = None
    read: FilesRead = {}
    if settings:
        before, overridden = (document, []) if folder is None else inlined(document, folder, origin.code, read)
        overridden += _defects_of_values(Expansion(before, FileSection, PointSection), folder is not None)
    document = with_settings(document, settings, origin.words, overridden)
    if folder is not None:
        document, wrong_files = inlined(document, folder, origin.code, read)
        overridden += wrong_files
    resolved = _resolved(document, origin.words, origin.name, check_names=folder is not None, overridden=overridden)
    return replace(resolved, settings=tuple(settings), unset_document=before)


def with_settings(unset: DocumentTable, settings: Sequence[str], origin: str, overridden: Sequence[str]) -> Document:
    """A copy of a document with `key=value` settings applied, and named in its title.

    overridden: what is wrong with the document itself. Raises InputFault, with these lines, for settings that cannot be applied.
    """
    document = copy.deepcopy(dict(unset))
    refused = []
    for setting in settings:
        try:
            apply_setting(document, setting)
        except InputFault as fault:
            refused.append(str(fault))
    if refused:
        raise InputFault("\n".join([*(f"{origin}: {line}" for line in dict.fromkeys(overridden)), *refused]))
    title = document.get("title")
    if settings and isinstance(title, str):
        document["title"] = f"{title}, with {', '.join(map(setting_words, settings))}"
    return document


def first_names_of(document: DocumentTable, origin: str) -> Document:
    """The content by the first names of its keys. Raises InputFault, with the origin, where both names of a key are given."""
    try:
        return by_first_names(document)
    except InputFault as fault:
        raise InputFault(f"{origin}: {fault}") from fault


def resolve(document: Document, origin: str, name: str) -> Scenario:
    """Validates a scenario's content and expands its sweeps into points.

    Raises InputFault, with lines that begin with `origin`, if the content is not a valid scenario. Names are looked up when a point is
    compiled.
    """
    return _resolved(document, origin, name)


def _resolved(
    document: Document, origin: str, name: str, *, check_names: bool = False, overridden: Sequence[str] = ()
) -> Scenario:
    """Resolves a document. overridden: defects of values that settings replaced."""
    expansion = Expansion(document, FileSection, PointSection)
    lines = [*overridden, *_defects_of_values(expansion, check_names)]
    sections, misfits = expansion.sections()
    lines += misfits
    about = expansion.about
    if lines or about is None:
        raise InputFault("\n".join([f"{origin}: {line}" for line in dict.fromkeys(lines)]))
    keys = {name: key for _, swept in sections for key, name in parameter_names(list(swept)).items()}
    used = ((_with_what_it_uses(section), swept) for section, swept in sections)
    points = distinct_points(Point(_parameters(section, swept), section, origin) for section, swept in used)
    if about.chart == "ranking":
        _check_one_network(points, origin)
    return Scenario(
        name,
        about.title,
        about.about,
        about.labels,
        tuple(about.printed),
        points,
        document,
        about.chart,
        about.left_out,
        tuple(about.printed_claims),
        tuple(about.notes),
        keys=keys,
    )


def _defects_of_values(expansion: Expansion[FileSection, PointSection], check_names: bool) -> list[str]:
    """Describes values that are wrong regardless of others, in every part of the scenario."""
    points = [document for document, _ in expansion.points]  # first, for it adds to the file's defects
    names = name_defects(expansion.parts, points) if check_names else ()
    return [*expansion.file_defects, *expansion.value_defects(), *names]


@contextmanager
def origin_named(point: ScenarioPoint) -> Iterator[None]:
    """Prefixes each line of any InputFault that the block raises with the point's origin."""
    try:
        yield
    except InputFault as fault:
        prefix = f"{point.origin}: " if point.origin else ""
        raise InputFault("\n".join(f"{prefix}{line}" for line in str(fault).splitlines())) from fault


def _with_what_it_uses(section: PointSection) -> PointSection:
    """A point's section without the definitions that only other points use, which would make it another point."""
    if section.job:
        return section
    defined, model = section.defined, section.model
    base = base_name(model.name)
    devices = {name: defined.devices[name] for name in (model.device, model.modules_device) if name in defined.devices}
    models = {base, *(device.alike.get(base, "") for device in devices.values())}
    strategies = {name: path for name, path in defined.strategies.items() if name == section.strategy.name}
    kept = DefinedSection(
        models={name: definition for name, definition in defined.models.items() if name in models},
        devices=devices,
        strategies=strategies,
        networks={name: definition for name, definition in defined.networks.items() if name == section.fabric.file},
        routes={name: definition for name, definition in defined.routes.items() if name == section.fabric.routes},
        controllers={
            name: definition for name, definition in defined.controllers.items() if name == section.fabric.controller
        },
    )
    return section.model_copy(update={"defined": kept})


def distinct_points(points: Iterable[P_co]) -> tuple[P_co, ...]:
    """Drops points whose sections equal an earlier point's: cases may differ only in keys that `--set` overrides."""
    distinct: dict[str, P_co] = {}
    for point in points:
        distinct.setdefault(point.section.model_dump_json(), point)
    return tuple(distinct.values())


def _check_one_network(points: Sequence[Point], origin: str) -> None:
    """Rejects rankings of points that differ in network, model, cluster or costs: a ranking compares strategies at one setting."""
    sections = {
        (p.section.cluster, p.section.fabric, p.section.model.model_dump_json(), p.section.costs) for p in points
    }
    if len(sections) > 1:
        raise InputFault(
            f'{origin}: chart = "ranking" ranks strategies at one setting; leave it out, or sweep nothing but strategy and run.seed'
        )


KNOWN_BY = {
    "model": "model.name",
    "strategy": "strategy.name",
    "workers": "cluster.workers",
    "rate": "fabric.rate",
    "seed": "run.seed",
}
"""The parameters that every point has, and their keys."""


def parameter_names(keys: Sequence[str]) -> dict[str, str]:
    """Maps swept keys to their names in tables: a key's last part, or the whole key where that part would be ambiguous."""
    short = {key: key.rpartition(".")[2] for key in keys}
    counts = Counter([*short.values(), *KNOWN_BY])
    fixed_names = {key: name for name, key in KNOWN_BY.items()}
    return {key: fixed_names.get(key) or (name if counts[name] == 1 else key) for key, name in short.items()}


def _parameters(section: PointSection, swept: DocumentTable) -> dict[str, str]:
    """Returns the parameters of a point: model, strategy, workers, rate, seed, the number of workers that it stands
    for, and everything that the scenario sweeps."""
    standard = {
        "model": section.model.name,
        "strategy": section.strategy.name,
        "workers": str(section.cluster.workers),
        "rate": rate_text(section.fabric.rate),
        "seed": str(section.run.seed),
    }
    if section.job:
        standard |= _of_all_jobs(section)
    names = parameter_names(list(swept))
    if section.cluster.stands_for is not None:
        standard["stands_for"] = str(section.cluster.stands_for)
    others = {names[key]: _value_text(value) for key, value in swept.items()}
    if "strategy" in swept:
        others["options"] = _value_text(section.strategy.options)
        del others[names["strategy"]]
    return {**others, **standard}


def _of_all_jobs(section: PointSection) -> dict[str, str]:
    """The parameters of a point with several jobs, by which it is known as a whole; rows of its jobs have each job's."""
    jobs = section.job.values()
    return {
        "model": " + ".join(dict.fromkeys(job.model.name for job in jobs)),
        "strategy": " + ".join(dict.fromkeys(job.strategy.name for job in jobs)),
        "workers": str(sum(job.cluster.workers for job in jobs)),
    }


def _value_text(value: DocumentValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={_value_text(item)}" for key, item in value.items())
    return str(value)
