"""The questions of `gradwire compare`: a model, a large model that is divided, or a recorded job, on a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from gradwire.faults import InputFault
from gradwire.files import without_links
from gradwire.named_code import COMMAND_LINE
from gradwire.scenario.contenders import (
    ITERATIONS,
    LEAVES,
    ORIGIN,
    SPINES,
    WARMUP,
    Contender,
    contenders,
    replays,
    shared_section,
)
from gradwire.scenario.definitions.conversion import catalogue_of
from gradwire.scenario.definitions.inlining import inlined
from gradwire.scenario.overrides import apply_setting
from gradwire.scenario.parallelism import Parallel, divided, kept_blocks
from gradwire.scenario.schema import PointSection
from gradwire.scenario.sections.defined import DefinedSection
from gradwire.workloads.models.catalogue import Catalogue
from gradwire.workloads.models.resized import block_count
from gradwire.workloads.trace_replay.recorded_job import trace_of
from gradwire.workloads.units import rate_text

GIVEN = "given"
"""Name of the device where the iteration time is given."""
FIDELITY = "0.5%"
"""Fidelity of comparisons of large models and recorded jobs, whose bytes would take hours otherwise; `--set
run.fidelity=` sets another."""
IN_NAMES = str.maketrans({"/": "_", **dict.fromkeys("[]\"' ")})
"""Replacements in names of folders for characters that have a meaning in shells and paths; None removes one."""


class AnyQuestion(Protocol):
    """A question on any subject."""

    @property
    def settings(self) -> tuple[str, ...]:
        """Further `key=value` of a scenario."""

    @property
    def name(self) -> str:
        """Name of the run folder: the question in a few words."""

    def document(self) -> dict[str, Any]:
        """Document of the scenario that all contenders share, with a title. Raises InputFault for faults that do not
        depend on the contender."""

    def contenders(self, names: Sequence[str]) -> list[Contender]:
        """Contenders among these strategies, or among all. Raises InputFault for a name that does not exist, or cannot
        take part."""


@dataclass(frozen=True)
class AskedNetwork:
    """The network that is asked about."""

    rate: str
    leaf_spine: bool = False
    oversubscription: float | None = None

    @property
    def is_nested(self) -> bool:
        """Whether there are leaves and spines."""
        return self.leaf_spine or self.oversubscription is not None

    @property
    def words(self) -> list[str]:
        """Words for the network in the name of a folder."""
        return [self.rate, *([f"leaf-spine-{self.oversubscription or 1:g}"] if self.is_nested else [])]

    def table(self) -> dict[str, Any]:
        """The table [fabric] of the scenario."""
        if not self.is_nested:
            return {"rate": self.rate}
        ratio = 1.0 if self.oversubscription is None else self.oversubscription
        shape = {"topology": "leaf-spine", "leaves": LEAVES, "spines": SPINES, "oversubscription": ratio}
        return {"rate": self.rate, **shape}


@dataclass(frozen=True)
class Question:
    """Every strategy on a model, with a worker on each host."""

    model: str
    workers: int
    network: AskedNetwork
    device: str | None = None
    iteration_time: str | None = None
    servers: int | None = None
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the run folder: the question in a few words."""
        words = [stem(self.model), stem(self.device or "") or self.iteration_time, f"{self.workers}"]
        rate, *shape = self.network.words
        return _name([*words, rate, f"{self.servers}servers" if self.servers else None, *shape], self.settings)

    def document(self) -> dict[str, Any]:
        """Document of the scenario that all strategies share, with a title. Raises InputFault for faults that do not
        depend on the strategy."""
        cluster: dict[str, Any] = {"workers": self.workers}
        if self.servers is not None:
            cluster["servers"] = self.servers
        document = {
            "about": "Every strategy on one model and network. Adding gradients, copying and software cost nothing "
            "unless they are set.",
            "cluster": cluster,
            "fabric": self.network.table(),
            "model": _model(self.model, self.device, self.iteration_time),
        }
        return completed(document, self.settings)

    def contenders(self, names: Sequence[str]) -> list[Contender]:
        """The named strategies, or all."""
        return contenders(names)


@dataclass(frozen=True)
class ParallelQuestion:
    """Ways to train a large model with a given division of workers, and a number of GPUs on each machine."""

    model: str
    parallel: Parallel
    network: AskedNetwork
    device: str | None = None
    iteration_time: str | None = None
    #: GPUs on each machine. None: as many as share a layer's products, but up to 8 where only data is divided.
    gpus_per_host: int | None = None
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the run folder: the question in a few words."""
        words = [stem(self.model), stem(self.device or "") or self.iteration_time, self.parallel.words]
        return _name([*words, *self.network.words], self.settings)

    def document(self) -> dict[str, Any]:
        """Document of the scenario that all contenders share, with a title. Raises InputFault."""
        workers, on_host = self.parallel.workers, self.gpus_per_host or self.parallel.usual_on_host
        document: dict[str, Any] = {
            "about": f"{self.model} with {self.parallel}, {on_host} GPUs on each machine. Adding gradients, copying "
            "and software cost nothing unless they are set.",
            "cluster": {"workers": workers, "workers_per_host": on_host},
            "fabric": self.network.table(),
            "model": _model(self.model, self.device, self.iteration_time),
            "run": {"warmup": WARMUP, "iterations": ITERATIONS, "fidelity": FIDELITY},
        }
        return completed(document, self.settings, self._of_large_models)

    def contenders(self, names: Sequence[str]) -> list[Contender]:
        """The ways to divide the model as asked."""
        return divided(self.parallel, names)

    def _of_large_models(self, document: dict[str, Any], catalogue: Catalogue) -> None:
        """Sets the value that the question leaves open: the number of blocks that stand for all."""
        model = document["model"]
        profile = catalogue.model(model["name"])
        blocks = kept_blocks(self.parallel, block_count(profile))
        if blocks is not None:
            model.setdefault("blocks", blocks)


@dataclass(frozen=True)
class TraceQuestion:
    """Algorithms and priorities for the collectives of a recorded job."""

    #: Folder or file that `gradwire import` made.
    trace: str
    network: AskedNetwork
    #: A multiple of the recorded ranks; None: as many. With more, groups of all ranks grow (docs/traces.md).
    workers: int | None = None
    gpus_per_host: int = 1
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the run folder: the question in a few words."""
        workers = f"{self.workers}" if self.workers else None
        return _name([trace_of(self.trace).name, workers, *self.network.words], self.settings)

    def document(self) -> dict[str, Any]:
        """Document of the scenario that all contenders share, with a title. Raises InputFault."""
        trace = trace_of(self.trace)
        workers = self.workers or trace.ranks
        model = {"name": trace.name, "trace": str(without_links(Path(self.trace)))}
        if workers != trace.ranks:
            model["grow"] = "all-ranks"
        document = {
            "about": "Collective algorithms for a recorded job. Adding gradients, copying and software cost nothing "
            "unless they are set.",
            "cluster": {"workers": workers, "workers_per_host": self.gpus_per_host},
            "fabric": self.network.table(),
            "model": model,
            "run": {"warmup": WARMUP, "iterations": ITERATIONS, "fidelity": FIDELITY},
        }
        return completed(document, self.settings)

    def contenders(self, names: Sequence[str]) -> list[Contender]:
        """The replay of the recorded job with each algorithm, one at a time. Raises InputFault for other names than
        that of the replay."""
        return replays(trace_of(self.trace), names)


@dataclass(frozen=True)
class QuestionOptions:
    """Options of which only some go together; None for those that are not given."""

    workers: int | None
    parallel: str | None
    gpus_per_host: int | None
    device: str | None
    iteration_time: str | None
    servers: int | None

    def refuse_all_but(self, beside: str, *known: str) -> None:
        """Raises InputFault if another option is given."""
        extra = [
            field.name for field in fields(self) if field.name not in known and getattr(self, field.name) is not None
        ]
        if extra:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in extra)
            raise InputFault(f"{names}: cannot be given together with {beside}")


def question_of(
    model: str | None, trace: Path | None, network: AskedNetwork, given: QuestionOptions, settings: tuple[str, ...]
) -> AnyQuestion:
    """Makes the question of the command's options. Raises InputFault for options that do not go together."""
    device, iteration_time = given.device, given.iteration_time
    if trace is not None and model is None:
        given.refuse_all_but("--trace", "workers", "gpus_per_host")
        return TraceQuestion(str(trace), network, given.workers, given.gpus_per_host or 1, settings)
    if model is None or trace is not None:
        raise InputFault("give either --model or --trace: what is trained, or what was recorded")
    if given.parallel is not None:
        given.refuse_all_but("--parallel", "parallel", "gpus_per_host", "device", "iteration_time")
        division = Parallel.parse(given.parallel)
        return ParallelQuestion(model, division, network, device, iteration_time, given.gpus_per_host, settings)
    if given.workers is None:
        raise InputFault("give --workers, or with a large model --parallel, as in --parallel data=8,tensor=8")
    given.refuse_all_but("--workers", "workers", "device", "iteration_time", "servers")
    return Question(model, given.workers, network, device, iteration_time, given.servers, settings)


def _model(name: str, device: str | None, iteration_time: str | None) -> dict[str, Any]:
    model: dict[str, Any] = {"name": name, **({"device": device} if device else {})}
    if iteration_time:
        model |= {"iteration_time": iteration_time, "iteration_time_source": "given on the command line"}
    return model


def completed(
    document: dict[str, Any],
    settings: Sequence[str],
    complete: Callable[[dict[str, Any], Catalogue], None] = lambda _document, _catalogue: None,
) -> dict[str, Any]:
    """The document with its files' content, a device, the settings, and a title. `complete` sets further values that
    are still open."""
    document = _with_files(document)
    model = document["model"]
    if "trace" not in model:
        catalogue = _catalogue(document)
        first = GIVEN if "iteration_time" in model else catalogue.devices_for(catalogue.model(model["name"]))[0]
        model.setdefault("device", first)
    for setting in settings:
        apply_setting(document, setting)
    document = _with_files(document)
    title = _title(shared_section(document))  # refuses settings that leave no table of a model, or of what is defined
    complete(document, _catalogue(document))
    return {"title": title, **document}


def _with_files(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the contents of its files. Raises InputFault for files that are wrong."""
    found, lines = inlined(document, Path.cwd(), COMMAND_LINE)
    if lines:
        raise InputFault("\n".join(f"{ORIGIN}: {line}" for line in lines))
    return found


def _catalogue(document: Mapping[str, Any]) -> Catalogue:
    return catalogue_of(DefinedSection.model_validate(document.get("defined", {})))


def stem(value: str) -> str:
    """A name for folders: of a file, its own."""
    return Path(value).stem if value.endswith((".toml", ".json")) else value


def _name(words: Sequence[str | None], settings: Sequence[str]) -> str:
    return "-".join(word.translate(IN_NAMES) for word in ("compare", *filter(None, words), *settings))


def _title(shared: PointSection) -> str:
    """Model, cluster and network in a few words."""
    fabric, model, cluster = shared.fabric, shared.model, shared.cluster
    device = f" x {model.device or 'made-up'}" if model.trace is None else " ranks"
    machines = f" on {cluster.workers // cluster.workers_per_host} machines" if cluster.workers_per_host > 1 else ""
    words = f"{model.name} on {cluster.workers}{device}{machines}, {rate_text(fabric.rate)}"
    return words + fabric.topology.structure.short_words(fabric.oversubscription, fabric.core_oversubscription)
