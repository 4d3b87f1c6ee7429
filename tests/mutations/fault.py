"""A fault as data, and what became of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Any


class Place(StrEnum):
    """Where a fault is put in."""

    #: The compiled plan, before it is checked.
    PLAN = "plan"
    #: The process in the machine that builds the network.
    NETWORK = "network"
    #: The agents' process in the machine.
    AGENTS = "agents"
    #: The controller's process in the machine.
    CONTROLLER = "controller"
    #: What a sound run left.
    RECORD = "record"


FAMILIES: Mapping[str, Place] = {
    "plans": Place.PLAN,
    "agents": Place.AGENTS,
    "tc": Place.NETWORK,
    "queues": Place.NETWORK,
    "flows": Place.CONTROLLER,
    "logs": Place.RECORD,
}
"""Each is a module of this folder, with its faults under FAULTS. A process in the machine imports no more than the one it needs."""
STAR = "star"
NOTHING = "nothing"
"""Stands for the fault of a process that is started as if it had one."""


@dataclass(frozen=True)
class Fault:
    """One small change."""

    #: What is done, in words.
    name: str
    #: Faults in plans and records take what is to be changed and return it changed; others change the process that they are called in.
    inject: Callable[..., Any]
    #: Name of the sound point that it is put into (bases.py).
    base: str = STAR


def faults_of(family: str) -> dict[str, Fault]:
    """The faults of a family by name."""
    listed: list[Fault] = importlib.import_module(f"tests.mutations.{family}").FAULTS
    return {fault.name: fault for fault in listed}


def replace_in(module: ModuleType, name: str, make: Callable[[Any], Any]) -> None:
    """Puts in the place of a module's function what `make` makes of it."""
    setattr(module, name, make(getattr(module, name)))


@dataclass(frozen=True)
class Outcome:
    """What a fault did to its run."""

    family: str
    fault: str
    #: The checks that failed, the first of them first; "run" for a run that was ended by an error.
    caught_by: tuple[str, ...]
    #: What ended the run, or that the times and bytes are those of the sound one.
    remark: str = ""
    #: Times and bytes are those of the sound run within 0.1 %.
    harmless: bool = False
