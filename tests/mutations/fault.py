"""A fault as data, and what became of it."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
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
PROGRAMS = "programs"
"""A run of programs (program_trial.py), which no plan tells anything of."""
SLOWED = "slowed-programs"
"""The same programs, and a fault: for a while, the line of the silent host has half of its rate."""
TRACEBACK = re.compile(r'File "([^"]+)", line')
FOLDER, USED_FILE = "GRADWIRE_MUTATION_FOLDER", "fault-is-met"
"""The variable with the run's folder for processes with a fault, and what is in it once something has met that."""
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


def replace_in(owner: ModuleType | type, name: str, make: Callable[[Any], Any]) -> None:
    """Puts in the place of a module's function or constant, or of a class's method, what `make` makes of it."""
    made = make(getattr(owner, name))

    def noting(*given: Any, **named: Any) -> Any:
        note_used()
        return made(*given, **named)

    if not callable(made):
        note_used()
    setattr(owner, name, noting if callable(made) else made)


def note_used() -> None:
    """Leaves a word that gradwire has met the fault; one that nothing calls would pass for a harmless one."""
    if FOLDER in os.environ:
        Path(os.environ.pop(FOLDER), USED_FILE).touch()


def refuse_unused(folder: Path, fault: str) -> None:
    """Raises AssertionError for a fault that nothing in the machine has met."""
    assert fault == NOTHING or (folder / USED_FILE).exists(), f"'{fault}' is put in where nothing meets it"


def refuse_broken(said: str) -> None:
    """Raises AssertionError for a traceback that ends in these modules: such a run was ended by the fault's own code, which does
    not suit gradwire's any more, and not by what it puts in."""
    frames = TRACEBACK.findall(said)
    assert not (frames and "tests/mutations/" in frames[-1]), f"the fault cannot be put in: {said}"


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
