"""What something cost, several times over, and how figures are kept between the parts of a page."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import msgspec

FIGURES = Path(__file__).with_name("figures.json")


class Spread(msgspec.Struct, frozen=True):
    """Median, least and most of several measurements of one thing."""

    median: float
    least: float
    most: float
    times: int

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Of at least one value."""
        return cls(median(values), min(values), max(values), len(values))

    def text(self, digits: int = 3) -> str:
        """Median with its range, such as "1.02 (0.98–1.10)", or the only value."""
        shown = [f"{value:.{digits}g}" for value in (self.median, self.least, self.most)]
        return shown[0] if self.times == 1 or shown[1] == shown[2] else f"{shown[0]} ({shown[1]}–{shown[2]})"


class Cost(msgspec.Struct, frozen=True):
    """What traffic cost."""

    #: How it is called in tables.
    name: str
    #: Wall time and CPU time of the machine.
    wall_s: Spread
    cpu_s: Spread
    #: Time that passed on the network over that of full ports; 0 where nothing is compared.
    over_ideal: float
    #: What was carried.
    size_bytes: int
    messages: int = 0
    #: The number that a row of a sweep stands for.
    at: float = 0.0

    def text(self) -> str:
        """In a line."""
        ideal = f", {self.over_ideal:.4f} of the ideal time" if self.over_ideal else ""
        return f"{self.name}: {self.wall_s.text()} s, {self.cpu_s.text()} s of CPU{ideal}"


class MessageFigure(msgspec.Struct, frozen=True):
    """What a message cost."""

    #: The traffic that it is of.
    name: str
    #: Which agents: "compiled" or "python".
    code: str
    #: How often a process stopped for the kernel.
    stops: float
    #: CPU time of the kernel, and of the processes in it.
    kernel_us: float
    processes_us: float
    #: Time of an iteration on the virtual clock.
    iteration_s: float

    def text(self) -> str:
        """In a line."""
        cpu_us = self.kernel_us + self.processes_us
        return (
            f"{self.name}, {self.code}: {cpu_us:.0f} us of CPU and {self.stops:.2f} stops a message, "
            f"{self.iteration_s:.6f} s"
        )


class Figures(msgspec.Struct):
    """All that the page says, by part; a part that has not been measured is empty."""

    machine: str = ""
    side_by_side: list[Cost] = []
    hosts: list[Cost] = []
    rates: list[Cost] = []
    sizes: list[Cost] = []
    messages: list[Cost] = []
    agents: list[MessageFigure] = []
    start_up: list[Cost] = []
    commands: list[Cost] = []

    @classmethod
    def load(cls) -> Figures:
        """Those of the last measurement."""
        return msgspec.json.decode(FIGURES.read_bytes(), type=cls) if FIGURES.exists() else cls()

    def save(self) -> None:
        """Keeps them."""
        FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
