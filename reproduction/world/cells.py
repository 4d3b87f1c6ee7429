"""What a printed value is, and by what it is predicted: rows, cells and sources."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.runs.ccl import row_of, size_of
from gradwire.runs.ccl_machines import CclOptions, set_up
from gradwire.workloads.engines.collectives.schedule import Collective

FOLDER = Path(__file__).parent
GIVEN = FOLDER / "given.csv"
SCENARIOS = FOLDER / "scenarios"
COLUMNS = ("source", "what", "setting", "quantity", "unit", "printed")
RIGHT_WITHIN = 0.10
"""An error beyond this needs a cause that a run shows, as the project's claims have it (gradwire/analysis/printed.py:
NUMBER_SHARE)."""


USUAL = CclOptions(
    machines=2,
    gpus=8,
    gpu="h100",
    nic="400gbit",
    nics=8,
    transport="rdma",
    links=None,
    nvswitch=True,
    amd=False,
    dtype="float",
    version=None,
    variables=(),
    latency=None,
    delay="0us",
    machine_rate=None,
    burst_cost=None,
    mtu_bytes=None,
)
"""What the command has where nothing is asked."""
OPTIONS = {"version": "nccl", "mtu_bytes": "mtu", "links": "nvlink", "variables": "env"}
"""Names of options that differ from those in `CclOptions`."""
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Row:
    """A cell of a source's table."""

    source: str
    #: What was measured.
    what: str
    #: On what: network, hosts, size.
    setting: str
    quantity: str
    unit: str
    #: None where the value is not given: the set-up alone tells such a cell.
    printed: float | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells it from all others."""
        return self.source, self.what, self.setting


class Timed(StrEnum):
    """Which time of a run is taken."""

    ITERATION = "iteration"
    CALL = "call"
    """Of the strategy `single-call`: the call alone, without the barrier before it."""


class By(StrEnum):
    """What predicts."""

    PACKETS = "packets"
    """A run on the emulated network."""
    ESTIMATE = "estimate"
    """The same plan on an ideal network (`gradwire estimate`): for networks that the virtual clock does not carry."""
    PROGRAMS = "programs"
    """Real programs on emulated hosts."""
    SOCKETS = "sockets"
    """NCCL's sockets on emulated hosts, by a program that does with them what NCCL does (nccl_ranks.py)."""
    CCL = "ccl"
    """The table of `gradwire ccl`, which is an estimate."""


@dataclass(frozen=True)
class Planned:
    """A scenario with settings, and how its time becomes the printed quantity."""

    #: Of a file in `scenarios/`, without its ending.
    scenario: str
    #: As with `--set`.
    settings: tuple[str, ...]
    #: From seconds to the row's unit.
    value: Callable[[float], float]
    timed: Timed = Timed.ITERATION
    by: By = By.PACKETS

    @property
    def key(self) -> tuple[str, tuple[str, ...], str]:
        """What has to be run or estimated."""
        return self.scenario, self.settings, self.by

    @property
    def path(self) -> Path:
        """The scenario file. Raises InputFault where it is none of `scenarios/`."""
        path = SCENARIOS / f"{self.scenario}.toml"
        if not path.is_file():
            raise InputFault(f"{path}: there is no such scenario of reproduction/world")
        return path

    def command(self) -> str:
        """The command that runs or estimates it alone."""
        verb = "run" if self.by is By.PACKETS else "estimate"
        told = " ".join(f"--set {quoted(setting)}" for setting in self.settings)
        return f"gradwire {verb} reproduction/world/scenarios/{self.scenario}.toml {told}".strip()


@dataclass(frozen=True)
class Called:
    """A line of the table of `gradwire ccl all-reduce`, and how its time becomes the printed quantity."""

    #: What differs from `USUAL`, by its name in `CclOptions`.
    options: tuple[tuple[str, str | int], ...]
    #: As `--sizes` has it.
    size: str
    #: From seconds to the row's unit.
    value: Callable[[float], float]

    @property
    def by(self) -> By:
        """What predicts."""
        return By.CCL

    @property
    def given(self) -> CclOptions:
        """The options of the command."""
        return replace(
            USUAL,
            **{  # type: ignore[arg-type]
                name: tuple(str(value).split()) if name == "variables" else value for name, value in self.options
            },
        )

    def command(self) -> str:
        """The command that predicts it alone."""
        told = " ".join(
            f"--{OPTIONS.get(name, name).replace('_', '-')} {quoted(word)}"
            for name, value in self.options
            for word in (str(value).split() if name == "variables" else [str(value)])
        )
        return f"gradwire ccl all-reduce {told} --sizes {quoted(self.size)}"

    def predicted(self) -> tuple[float, str]:
        """The quantity, and what was chosen. Raises InputFault for options that cannot be."""
        comm, wires, _ = set_up(self.given)
        row = row_of(comm, wires, Collective.ALL_REDUCE, size_of(self.size), FLOAT_BYTES)
        seen = f"by NCCL's tables {row.algorithm} with {row.protocol}, {row.channels} channels, chunks of {row.chunk_bytes} B"
        return self.value(row.time_s), f"{seen}; {row.by}"


@dataclass(frozen=True)
class Programs:
    """Real programs on emulated hosts, and how what they report becomes the printed quantity."""

    #: Of the folder of its runs.
    name: str
    #: The scenario's content; the argument is the path of a Python that has PyTorch.
    document: Callable[[str], Document]
    #: The values that the programs reported under this name, in the order of `ordered_by`, become the row's.
    figure: str
    ordered_by: str
    value: Callable[[Sequence[float]], float]
    #: What runs this row alone.
    alone: str
    kind: By = By.PROGRAMS

    @property
    def by(self) -> By:
        """What predicts."""
        return self.kind

    @property
    def needs_torch(self) -> bool:
        """Whether only a Python with PyTorch runs it."""
        return self.kind is By.PROGRAMS

    def command(self) -> str:
        """The command that runs it alone."""
        return self.alone


def quoted(setting: str) -> str:
    """A word of a command line as a shell wants it."""
    return f"'{setting}'" if any(mark in setting for mark in ' "[]{}') else setting


@dataclass(frozen=True)
class Unexpressed:
    """A row that no plan predicts."""

    why: str
    #: Whether a scenario of real programs could: then it is "not run".
    program: bool = False
    #: What would run it.
    command: str = ""


@dataclass(frozen=True)
class WhatIf:
    """The same row with one thing changed: where it comes within RIGHT_WITHIN of the printed value and the row itself
    does not, the changed thing is the cause of the row's error, and a run has shown it."""

    #: What is changed, as the end of a sentence that begins "with".
    changed: str
    planned: Planned | Called
    #: Whether what is changed is that the compute time or the host's rate comes from a row of the same series.
    of_series: bool = False


@dataclass(frozen=True)
class Cell:
    """By what a row is predicted."""

    planned: Planned | Programs | Called | Unexpressed
    #: What was chosen to meet this row ("compute time", "host's rate"), so that it is not a prediction; "" for none.
    fitted: str = ""
    what_ifs: tuple[WhatIf, ...] = ()
    #: What the source had and the emulation lacks, of this row.
    not_emulated: str = ""
    #: Rows with the same series differ only in size or number of hosts.
    series: str = ""


@dataclass(frozen=True)
class Source:
    """Where printed values come from."""

    name: str
    title: str
    set_up: str
    #: What no row of the source emulates.
    not_emulated: str
    #: Every constant that is not part of the set-up, with its source.
    constants: tuple[str, ...]
    #: The cell of a row. Raises InputFault for a row that it does not know.
    cell: Callable[[Row], Cell]
    #: Cells of the source's tables that are not given, as far as the set-up tells them.
    further: Callable[[], Sequence[Row]] = tuple
    #: Whether a time of computation is part of a row, by what was measured; others are of calls alone.
    computes: Callable[[str], bool] = lambda _: False
    #: What was measured of the errors that are left, also of those within RIGHT_WITHIN.
    examined: tuple[str, ...] = ()


def load_given(path: Path = GIVEN) -> list[Row]:
    """The printed values. Raises InputFault for a file that has not their columns, or a row twice."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise InputFault(f"{path}: columns must be {', '.join(COLUMNS)}")
        rows = []
        for line in reader:
            try:
                printed = float(line["printed"])
            except ValueError as error:
                raise InputFault(f"{path}: line {reader.line_num}: printed = {line['printed']!r}: {error}") from error
            source, what, setting, quantity, unit = (line[name] for name in COLUMNS[:-1])
            rows.append(Row(source, what, setting, quantity, unit, printed))
    names = [row.name for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputFault(f"{path}: {', '.join(twice[0])}: is there twice")
    return rows


def printed_value(source: str, what: str, setting: str) -> float:
    """A given value, for what is fitted on it. Raises InputFault where it is not given."""
    for row in load_given():
        if row.name == (source, what, setting) and row.printed is not None:
            return row.printed
    raise InputFault(f"{GIVEN}: has no row {source}, {what}, {setting}")


def with_further(source: Source, given: Sequence[Row]) -> list[Row]:
    """The source's given rows, and behind them the cells of its tables that are not given."""
    own = [row for row in given if row.source == source.name]
    known = {row.name for row in own}
    return own + [row for row in source.further() if row.name not in known]


def unknown(row: Row) -> InputFault:
    """The fault for a row that a source has no rule for."""
    return InputFault(
        f"reproduction/world: {row.source}: no rule makes a scenario of '{row.what}', '{row.setting}'; add it to "
        f"reproduction/world/sources/{row.source}.py"
    )
