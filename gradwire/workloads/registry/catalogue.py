"""Models and devices that a scenario can name without defining them: built-in ones, and those of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import EntryPoint

from gradwire.faults import InputFault
from gradwire.workloads.models.catalogue import BUILT_IN, Catalogue
from gradwire.workloads.models.device_facts import Device
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.registry.plugins import DEVICES, MODELS


def installed() -> Catalogue:
    """Built-in models and devices, and those of installed packages. A name that several claim raises InputFault when
    it is looked up."""
    return BUILT_IN.with_more(
        {name: partial(_model, name) for name in MODELS.entries()},
        {name: partial(_device, name) for name in DEVICES.entries()},
    )


def _model(name: str) -> Profile:
    """A package's model."""
    MODELS.refuse_clash(name, BUILT_IN.models)
    (entry,) = MODELS.entries()[name]
    function = MODELS.loaded(entry)
    place = MODELS.place(entry)
    if not callable(function):
        raise InputFault(f"{place} is a {type(function).__name__}: it must be a function that returns a Profile")
    profile = _called(function, entry)
    if not isinstance(profile, Profile):
        raise InputFault(f"{place} returns a {type(profile).__name__}: it must return a Profile (gradwire.plugin)")
    if profile.name != name:
        raise InputFault(f"{place} calls itself '{profile.name}': give the entry point and the Profile the same name")
    return profile


@cache
def _called(function: Callable[[], object], entry: EntryPoint) -> object:
    """Cached, because a point looks its model up several times, and building one may take a while."""
    try:
        return function()
    except Exception as error:  # third-party code may raise anything
        raise InputFault(
            f"{MODELS.place(entry)} fails: {type(error).__name__}: {error}. Fix the package, or uninstall it"
        ) from error


def _device(name: str) -> Device:
    """A package's device."""
    DEVICES.refuse_clash(name, BUILT_IN.devices)
    (entry,) = DEVICES.entries()[name]
    device = DEVICES.loaded(entry)
    if not isinstance(device, Device):
        raise InputFault(f"{DEVICES.place(entry)} is a {type(device).__name__}: it must be a Device (gradwire.plugin)")
    return device
