"""The import rule: folders know each other only through frozen data; only the command line and the run loop know everything."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("topo", "controller", "agents", "workloads", "analysis", "vm")
WIRE_FORMAT = frozenset({"agents.framing", "agents.datagrams", "agents.wire", "agents.trail"})
"""What goes over the wire: whoever reads captured packets needs it as well as those who sent them."""
DATA_MODULES = frozenset({"workloads.plan", "topo.fabric", "agents.records", "vm.faults", *WIRE_FORMAT})
RUN_LOOP = frozenset(
    f"vm.{name}"
    for name in (
        "calibrate", "campaign", "comparison", "listings", "named_point", "outcome", "point", "point_folders", "port_use",
        "progress", "replay", "reporting", "reproduce", "run_folder", "store", "stored_files", "stored_outcomes", "virtual_scale",
    )
)  # fmt: skip
OWNERS = {"mininet": "topo", "os_ken": "controller", "ryu": "controller"}
MAX_LINES = 450
VAGUE_NAMES = re.compile(r"(util|utils|helper|helpers|manager|managers|misc|common)$")
DATA_MODULES_MAY_IMPORT = frozenset({*sys.stdlib_module_names, "numpy"})


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(source: str, module: str) -> set[str]:
    """Every module that a source may import, as dotted names; `from a import b` gives both a and a.b."""
    found: set[str] = set()
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found |= {origin} | {f"{origin}.{alias.name}" for alias in node.names}
    return found


def import_defects(source: str, module: str) -> list[str]:
    """What the imports of a module do against the rule."""
    folder = module.split(".", maxsplit=1)[0]
    names = imported_modules(source, module)
    defects = [
        f"{module} imports {name}, which only {owner} may"
        for name in sorted(names)
        for library, owner in OWNERS.items()
        if name.split(".")[0] == library and folder != owner
    ]
    if module in DATA_MODULES:
        tops = {name for name in names if name.split(".")[0] not in DATA_MODULES_MAY_IMPORT and not _is_data(name)}
        defects += [f"{module} is frozen data and imports {name}" for name in sorted(tops)]
    if module in RUN_LOOP or module == "gradwire":
        return defects
    for name in sorted(names):
        top = name.split(".")[0]
        if top == "gradwire" or (top in FOLDERS and top != folder and not _is_data(name)):
            defects.append(f"{module} imports {name} across folders")
    return defects


def _is_data(name: str) -> bool:
    """Whether an imported name is a frozen data module or something in one."""
    return any(name == data or name.startswith(f"{data}.") for data in DATA_MODULES)


def sources() -> list[Path]:
    return [ROOT / "gradwire.py", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_import_rule(path: Path) -> None:
    assert import_defects(path.read_text(), module_of(path)) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("agents.loop", "from workloads.builder import PlanBuilder", "across folders"),
        ("agents.loop", "import analysis.points", "across folders"),
        ("agents.loop", "def late() -> None:\n    from vm import machine", "across folders"),
        ("agents.loop", "from workloads import builder", "across folders"),
        ("workloads.checker", "import gradwire", "across folders"),
        ("vm.machine", "from topo.network import Network", "across folders"),
        ("workloads.plan", "import pydantic", "frozen data"),
        ("agents.records", "from agents.transfer import Sender", "frozen data"),
        ("agents.loop", "from mininet.net import Mininet", "only topo"),
        ("vm.campaign", "import os_ken.base", "only controller"),
        ("gradwire", "import mininet", "only topo"),
    ],
)
def test_the_rule_finds_what_is_against_it(module: str, source: str, complaint: str) -> None:
    assert any(complaint in defect for defect in import_defects(source, module))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("agents.loop", "import numpy\nfrom agents.timer import Timer\nfrom workloads.plan import Plan"),
        ("agents.loop", "from . import timer\nfrom .timer import Timer"),
        ("topo.fabric", "from vm.faults import InputFault"),
        ("vm.point", "from controller.process import ControllerProcess"),
        ("topo.network", "from mininet.net import Mininet"),
    ],
)
def test_the_rule_permits_what_it_should(module: str, source: str) -> None:
    assert import_defects(source, module) == []


def test_every_module_that_the_rule_names_exists() -> None:
    modules = {module_of(path) for path in sources()}
    assert modules >= DATA_MODULES | RUN_LOOP | {"gradwire"}


def test_files_are_short_and_have_names_that_say_something() -> None:
    every = [*sources(), *sorted((ROOT / "tests").rglob("*.py"))]
    assert [path for path in every if len(path.read_text().splitlines()) > MAX_LINES] == []
    assert [path for path in every if VAGUE_NAMES.search(path.stem)] == []
    assert VAGUE_NAMES.search("network_utils")
