"""Hostile Python that a scenario names: strategies, a Topo of Mininet, and controllers that raise, end, or say something else."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import tomli_w

from gradwire.faults import InputFault
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.checker import PlanError
from tests.hostile.changes import changed
from tests.hostile.limits import Outcome, outcome
from tests.hostile.named_files import BASE
from tests.shared.snippets import PLUGIN_FOLDER, shown_file

STRATEGY_S = 60.0
"""Of the processor's time: what a strategy's code takes is not limited."""
TOPO = """from mininet.topo import Topo


class Campus(Topo):
    def build(self, count=2):
        job = self.addSwitch("s1")
        for number in range(count):
            self.addLink(self.addHost("h" + str(number + 1)), job, bw=10, delay="1ms")
        return job
"""
CONTROLLER = """from os_ken.base import app_manager


class Application(app_manager.OSKenApp):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        job = {1: "x", 2: [3, 4]}
        if job:
            self.job = job
"""


@cache
def _strategy() -> tuple[bytes, str]:
    """The file of docs/adding-a-strategy.md, and its scenario."""
    file, scenario = (shown_file(f"{PLUGIN_FOLDER}/{name}").text for name in ("two_tree.py", "two-tree.toml"))
    return file.encode(), scenario


def _of_strategy(folder: Path, change: Callable[[str, bytes], bytes]) -> None:
    file, scenario = _strategy()
    (folder / "two_tree.py").write_bytes(change("two_tree.py", file))
    (folder / "scenario.toml").write_text(scenario)


def _of_network(folder: Path, change: Callable[[str, bytes], bytes], code: str, **fabric: object) -> None:
    (folder / "lab.py").write_bytes(change("lab.py", code.encode()))
    (folder / "scenario.toml").write_text(tomli_w.dumps({**BASE, "fabric": {"rate": "10gbit", **fabric}}))


def tried(number: int, folder: Path) -> Outcome:
    """Compiles the scenario whose code has this number."""
    random = Random(f"code/{number}")

    def change(name: str, content: bytes) -> bytes:
        for _ in range(random.choice((1, 1, 2, 3))):
            content = changed(name, content, random)
        return content

    how = random.random()
    if how < 0.7:
        _of_strategy(folder, change)
    elif how < 0.98:
        _of_network(folder, change, CONTROLLER, controller="lab.py")
    else:  # which starts a process
        _of_network(folder, change, TOPO, file="lab.py:Campus")

    def read() -> None:
        for point in load_scenario(folder / "scenario.toml").points:
            compile_point(point.section)

    return outcome(read, (InputFault, PlanError), STRATEGY_S)
