"""The question of `gradwire compare --gpus`: a large model, a number of GPUs, machines and a network."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradwire.faults import InputFault
from gradwire.runs.comparing.questions import completed, stem
from gradwire.scenario.contenders import shared_section
from gradwire.scenario.definitions.conversion import model_file, model_text
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.schema import PointSection
from gradwire.workloads.divisions.choices import DivisionChoice, DivisionRequest, ModelShape
from gradwire.workloads.divisions.sharded_choices import ShardedChoice
from gradwire.workloads.models.catalogue import Catalogue
from gradwire.workloads.models.resized import sample_tokens, with_tokens

RATE = "400gbit"
"""Rate of each NIC, one for each GPU: eight ConnectX-7 in a DGX H100 (data sheet)."""
MACHINE_GPUS = 8
"""Number of GPUs in a DGX or HGX (data sheets)."""
BATCH_TOKENS = 1 << 24
"""Tokens of an iteration: 16 M, as Llama 3 405B was trained with for the most part (The Llama 3 Herd of Models, 2024,
section 3.4.1)."""
LEAST_GPUS, MOST_GPUS = 64, 65_536
"""Range of GPUs that estimates by classes of ranks are made for (docs/thousands.md)."""

Choice = DivisionChoice | ShardedChoice


@dataclass(frozen=True)
class DivisionQuestion:
    """A large model on so many GPUs, however it is divided."""

    model: str
    gpus: int
    rate: str = RATE
    device: str | None = None
    machine_gpus: int = MACHINE_GPUS
    #: Tokens of a sample; None: as in the model's paper.
    tokens: int | None = None
    #: Samples of an iteration; None: as many as make BATCH_TOKENS.
    samples: int | None = None
    #: Memory of a GPU; None: the device's own.
    memory_bytes: float | None = None
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises InputFault for numbers that cannot be."""
        if not LEAST_GPUS <= self.gpus <= MOST_GPUS:
            raise InputFault(
                f"--gpus {self.gpus}: must be between {LEAST_GPUS} and {MOST_GPUS:,}; below, --parallel runs the ways to "
                "train a model that is divided as you say"
            )
        if self.gpus % self.machine_gpus:
            raise InputFault(f"--machine-gpus {self.machine_gpus}: must divide --gpus {self.gpus}")

    @property
    def name(self) -> str:
        """Name of the folder: the question in a few words."""
        words = [stem(self.model), stem(self.device or ""), f"{self.gpus}gpus", self.rate]
        words += [f"{self.tokens}tokens"] if self.tokens else []
        words += [f"batch{self.samples}"] if self.samples else []
        return "-".join(["compare", *filter(None, words)])

    @cached_property
    def document(self) -> dict[str, Any]:
        """The scenario, but for the strategy. Raises InputFault."""
        document: dict[str, Any] = {
            "about": f"{self.model} on {self.gpus} GPUs, {self.machine_gpus} on each machine with a NIC each.",
            "cluster": {
                "workers": self.gpus,
                "workers_per_host": self.machine_gpus,
                "nics_per_host": self.machine_gpus,
            },
            "fabric": {"rate": self.rate},
            "model": {"name": self.model, **({"device": self.device} if self.device else {})},
        }
        return completed(document, self.settings, self._complete)

    def _complete(self, document: dict[str, Any], catalogue: Catalogue) -> None:
        """Sets the length of samples."""
        model = document["model"]
        if self.tokens is not None:
            changed = with_tokens(catalogue.model(model["name"]), self.tokens)
            table = tomllib.loads(model_text(model_file(changed)))
            name = model["name"] = table.pop("name")
            document.setdefault("defined", {}).setdefault("models", {})[name] = table

    @cached_property
    def section(self) -> PointSection:
        """The question as a point, with any strategy. Raises InputFault."""
        return shared_section(self.document)

    @cached_property
    def resolved(self) -> ResolvedPoint:
        """The job, undivided."""
        strategy = self.section.strategy.model_copy(update={"name": "megatron", "options": {}})
        return ResolvedPoint(self.section.model_copy(update={"strategy": strategy}))

    @cached_property
    def sample_tokens(self) -> int:
        """Tokens of a sample."""
        return sample_tokens(self.resolved.job.profile)

    @cached_property
    def batch(self) -> int:
        """Samples of an iteration."""
        return self.samples or max(1, BATCH_TOKENS // self.sample_tokens)

    def asked(self) -> DivisionRequest:
        """The model and the GPUs to divide it over. Raises InputFault for a model that cannot be divided."""
        # A model of another length has the shape of the published one.
        profile = self.resolved.job.profile
        published = self.resolved.catalogue.model(self.model) if self.tokens else profile
        return DivisionRequest(self.gpus, self.machine_gpus, self.batch, ModelShape.of(published), self.sample_tokens)

    def section_of(self, choice: Choice) -> PointSection:
        """The point that is divided so."""
        strategy = self.section.strategy.model_copy(update={"name": choice.strategy, "options": dict(choice.options)})
        model = self.section.model.model_copy(update={"batch": choice.batch} if choice.batch else {})
        return self.section.model_copy(update={"strategy": strategy, "model": model})

    def scenario(self, choice: Choice) -> dict[str, Any]:
        """The document of a scenario that is divided so."""
        strategy = {"name": choice.strategy, "options": dict(choice.options)}
        model = {**self.document["model"], **({"batch": choice.batch} if choice.batch else {})}
        return {**self.document, "model": model, "strategy": strategy}

    def memory(self) -> float:
        """Bytes that a GPU has. Raises InputFault where neither the device nor the question says."""
        if self.memory_bytes is not None:
            return self.memory_bytes
        device, catalogue = self.section.model.device or "", self.resolved.catalogue
        found = catalogue.device(device).memory_bytes if device in catalogue.devices else None
        if found is None:
            raise InputFault(f"device '{device}': its memory is not known; give --memory, e.g. --memory 80GiB")
        return found
