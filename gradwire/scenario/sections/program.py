"""The table of one program, alone or next to a strategy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gradwire.network.fabric import MAX_BANDS, Fabric
from gradwire.workloads.fields import DurationS, InWords, Names, Section

EVERY_HOST = ("all",)
RESERVED = "GRADWIRE_"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


Command = Annotated[str, Field(min_length=1), InWords('a text that is not empty, such as "iperf3 -c h1 -n $size"')]


class ProgramSection(Section):
    """A program that runs on hosts of the network."""

    command: Command
    """A line for `sh`. It knows `$GRADWIRE_HOST`, the names in `arguments` and other variables, and starts in the folder that gradwire is
    called in."""
    arguments: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """Variables that the line knows, so that they can be swept: with `size = "64M"` it may say `$size`."""
    hosts: Names = EVERY_HOST
    """Hosts that it runs on, in the order of their ranks: "h1", or "all"."""
    launch: Literal["each", "torch", "mpi"] = "each"
    """"each" host runs it; "torch" gives each what torchrun would; "mpi" runs it on the first host alone, as an `mpirun` that reaches the
    others."""
    start: DurationS = Field(0.0, ge=0)
    """Virtual time after which it starts."""
    background: bool = False
    """Whether it is ended when all others have ended, as servers are. Otherwise it ends by itself. Next to a strategy, all are ended with
    the last iteration."""
    traffic_class: int | None = Field(None, ge=0, lt=MAX_BANDS - 1)
    """Traffic class of all that it sends, 0 being served first. Without one it travels before all classes, as pings do; next to a strategy,
    and where `fabric.lossless` pauses, in class 0."""
    warm_imports: Names = ()
    """Modules of Python, such as "torch", that are imported once for all hosts: each host's program is then a fork of the process that has
    them. The command has to be a plain `python SCRIPT ARGUMENTS`, also with `-m` or `-c`."""
    figures: Literal["lines", "iperf3", "osu"] = "lines"
    """Where its results are read from: "lines" of JSON that it writes to the file `$GRADWIRE_FIGURES`, the report that
    `iperf3 --json` prints, or the columns that an OSU micro-benchmark prints."""

    @model_validator(mode="after")
    def _no_shell_refuses_it(self) -> Self:
        texts = {"command": self.command, **{f"arguments.{name}": value for name, value in self.arguments.items()}}
        nul = [key for key, value in texts.items() if "\0" in str(value)]
        if nul:
            raise ValueError("\n".join(f"{key}: has a NUL character, which no program can be given" for key in nul))
        return self

    @model_validator(mode="after")
    def _arguments_are_variables(self) -> Self:
        wrong = [name for name in self.arguments if not _VARIABLE.fullmatch(name) or name.startswith(RESERVED)]
        if wrong:
            needed = f"must be a name that a shell takes for a variable, and not begin with {RESERVED}"
            raise ValueError("\n".join(f"arguments.{name}: {needed}" for name in wrong))
        return self


def class_beside(program: ProgramSection) -> int:
    """Traffic class of a program next to a strategy: the most urgent, unless it says another."""
    return program.traffic_class or 0


def class_alone(traffic_class: int | None, fabric: Fabric) -> int | None:
    """Traffic class of a program without a strategy next to it: the one that it sets, or none. A program without a
    class is never paused, so with flow control it is the most urgent."""
    return 0 if traffic_class is None and fabric.lossless is not None else traffic_class


def hosts_of(program: ProgramSection, names: Sequence[str]) -> list[int]:
    """Indices of the hosts that a program runs on, of those with these names."""
    return list(range(len(names))) if program.hosts == EVERY_HOST else [names.index(name) for name in program.hosts]


def hosts_named(programs: Mapping[str, ProgramSection]) -> Iterator[str]:
    """The hosts that programs name."""
    for program in programs.values():
        yield from (host for host in program.hosts if host not in EVERY_HOST)


def program_defects(programs: Mapping[str, ProgramSection], hosts: Sequence[str], classes: int | None) -> list[str]:
    """Describes defects of programs on a network with hosts of these names, one line each, with the key. classes: the
    number of classes of the network, if it is set."""
    lines = [
        f"program.{name}: a name has letters, digits, dashes and underscores, for it names files"
        for name in programs
        if not NAME.fullmatch(name)
    ]
    for name, program in programs.items():
        lines += [f"program.{name}.hosts: {defect}" for defect in _host_defects(program.hosts, hosts)]
        if classes is not None and program.traffic_class is not None and program.traffic_class >= classes:
            lines.append(
                f"program.{name}.traffic_class = {program.traffic_class}: fabric.classes = {classes} are 0 to {classes - 1}"
            )
    return lines


def _host_defects(chosen: Sequence[str], hosts: Sequence[str]) -> list[str]:
    if tuple(chosen) == EVERY_HOST:
        return []
    unknown = [name for name in chosen if name not in hosts]
    if unknown or not chosen:
        which = f"no host is called {unknown[0]!r}" if unknown else "is empty"
        return [f'{which}; hosts are {hosts[0]} to {hosts[-1]}, or "all"']
    return ["name each host once"] if len(set(chosen)) < len(chosen) else []
