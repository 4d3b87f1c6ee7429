"""Strategies, models and devices of installed packages, found through an entry-point group for each of these kinds.

Packages are found by their metadata. None is imported until a scenario names what it adds, so a broken package affects
only the scenarios that use it. `installed_catalogue` has the models and devices that a scenario can name without
defining them: gradwire's and theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from gradwire.faults import InputFault
from gradwire.named_code import running
from gradwire.reading_budget import not_reading
from gradwire.workloads.models.catalogue import BUILT_IN, Catalogue
from gradwire.workloads.models.device_facts import Device
from gradwire.workloads.models.profile import Profile

GRADWIRE = "gradwire"


@dataclass(frozen=True)
class Group:
    """A kind of thing that packages add."""

    #: The entry-point group.
    name: str
    #: Word for one such thing in messages.
    noun: str

    def entries(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        """Entry points by name; a name has several if several packages claim it."""
        return _entries(self.name, tuple(sys.path))

    def origins(self, name: str, built_in: Mapping[str, object]) -> list[str]:
        """The origins of what is called `name`: gradwire itself, or packages by name and version.

        Normally one origin.
        """
        return [
            *([GRADWIRE] if name in built_in else []),
            *(distribution_of(entry) for entry in self.entries().get(name, ())),
        ]

    def refuse_clash(self, name: str, built_in: Mapping[str, object]) -> None:
        """Raises InputFault, with all origins, if several packages claim a name, or one claims what gradwire itself
        has."""
        origins = self.origins(name, built_in)
        if len(origins) > 1:
            raise InputFault(
                f"{self.noun} '{name}' is claimed by {' and by '.join(origins)}: uninstall all but one, or rename the "
                f"entry points of the others in group {self.name}"
            )

    def place(self, entry: EntryPoint) -> str:
        """An entry point in words: its name, package and value."""
        return f"{self.noun} '{entry.name}' of {distribution_of(entry)} (entry point {entry.value})"

    def loaded(self, entry: EntryPoint) -> Any:
        """Imports what an entry point names. Raises InputFault, naming the package, if that fails."""
        with not_reading(), running(f"fix the package, or uninstall it: {self.place(entry)} cannot be imported: "):
            return entry.load()


STRATEGIES = Group("gradwire.strategies", "strategy")
MODELS = Group("gradwire.models", "model")
DEVICES = Group("gradwire.devices", "device")


@cache
def _entries(group: str, _: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name.

    Cached, because reading the metadata of every package takes tens of milliseconds and a sweep looks it up for every
    point.
    """
    by_name: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=group):
        by_name[entry.name] = (*by_name.get(entry.name, ()), entry)
    return by_name


def distribution_of(entry: EntryPoint) -> str:
    """Name and version of the package that an entry point belongs to."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "a package without a name"


def installed_catalogue() -> Catalogue:
    """Built-in models and devices, and those of installed packages.

    A name that several claim raises InputFault when it is looked up.
    """
    return BUILT_IN.with_more(
        {name: partial(_model, name) for name in MODELS.entries()},
        {name: partial(_device, name) for name in DEVICES.entries()},
    )


def _model(name: str) -> Profile:
    """A package's model."""
    MODELS.refuse_clash(name, BUILT_IN.models)
    (entry,) = MODELS.entries()[name]
    function = MODELS.loaded(entry)
    origin = MODELS.place(entry)
    if not callable(function):
        raise InputFault(f"{origin} is a {type(function).__name__}: it must be a function that returns a Profile")
    profile = _call_once(function, entry)
    if not isinstance(profile, Profile):
        raise InputFault(f"{origin} returns a {type(profile).__name__}: it must return a Profile (gradwire.plugin)")
    if profile.name != name:
        raise InputFault(f"{origin} calls itself '{profile.name}': give the entry point and the Profile the same name")
    return profile


@cache
def _call_once(function: Callable[[], object], entry: EntryPoint) -> object:
    """Calls a package's function for a model once, because a point looks its model up several times."""
    with running(f"fix the package, or uninstall it: {MODELS.place(entry)} fails: "):
        return function()


def _device(name: str) -> Device:
    """A package's device."""
    DEVICES.refuse_clash(name, BUILT_IN.devices)
    (entry,) = DEVICES.entries()[name]
    device = DEVICES.loaded(entry)
    if not isinstance(device, Device):
        raise InputFault(f"{DEVICES.place(entry)} is a {type(device).__name__}: it must be a Device (gradwire.plugin)")
    return device
