"""The import rule: folders know each other only through frozen data, the machine below knows none of them, and nobody imports upwards."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
STAGES = frozenset({"topo", "controller", "agents", "workloads", "analysis"})
"""The folders of the pipeline: siblings, none above another."""
MAY_IMPORT = {
    **dict.fromkeys(STAGES, frozenset[str]()),
    "scenarios": frozenset[str](),
    "vm": frozenset[str](),
    "runner": STAGES | {"vm"},
    "plugin": frozenset({"workloads"}),
    "devices": frozenset({"workloads"}),
    "commands": STAGES | {"vm", "runner"},
    "api": STAGES | {"vm", "runner"},
    "program_commands": frozenset({"commands", "runner"}),
    "trace_commands": frozenset({"commands"}),
    "comparison_commands": frozenset({"commands", "runner"}),
    "ending": frozenset({"commands"}),
    "command_line": frozenset(
        {"commands", "ending", "comparison_commands", "program_commands", "trace_commands", "runner"}
    ),
    "__main__": frozenset({"command_line"}),
}
"""What each part of the package may import beside itself, the package's own name and faults; the frozen data comes with any stage."""
FROZEN = frozenset(
    {
        "gradwire.workloads.plan",
        "gradwire.topo.delays",
        "gradwire.topo.fabric",
        "gradwire.topo.shape",
        "gradwire.topo.tiers",
        "gradwire.agents.records",
        "gradwire.agents.wire",
    }
)
"""The plan, the network, what a run logs, and what goes over the wire: the last for whoever reads captured packets."""
SHARED = frozenset(
    {
        *("array_files", "child_process", "control_characters", "encoding", "faults", "files", "network_namespace"),
        *("regular_files", "validation"),
    }
)
"""Modules of the package itself that all folders may import: starting processes, control characters, text that a terminal's encoding lacks,
who is at fault, entering a network namespace, pydantic's errors in words; reading files of others, and arrays in them."""
ON_ARRAYS = "array_files"
"""The one of them that knows NumPy, and reads what another opens."""
FROZEN_MAY_IMPORT = frozenset({*sys.stdlib_module_names, "numpy"})
INSIDE = frozenset({"commands", "api"})
"""Folders that lie in the package itself."""
FOLDERS = (
    frozenset(MAY_IMPORT)
    - INSIDE
    - {
        "plugin",
        "devices",
        "comparison_commands",
        "program_commands",
        "trace_commands",
        "ending",
        "command_line",
        "__main__",
    }
)
OWNERS = {"mininet": "topo", "os_ken": "controller", "ryu": "controller"}
MAX_LINES = 450
VAGUE_NAMES = re.compile(r"(util|utils|helper|helpers|manager|managers|misc|common)$")


def module_of(path: Path) -> str:
    """A source's module: what lies in a folder of the package is imported through its link there."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("gradwire", *parts) if parts[0] in FOLDERS else parts).removesuffix(".__init__")


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


def part_of(name: str) -> str:
    """The part of the package that a module belongs to; "" for what is none, such as another's library or the faults."""
    top, _, rest = name.partition(".")
    part = rest.split(".")[0]
    return part if top == "gradwire" and part in MAY_IMPORT else ""


def is_frozen(name: str) -> bool:
    """Whether an imported name is frozen data, or something in it."""
    return any(name == data or name.startswith(f"{data}.") for data in FROZEN)


def import_defects(source: str, module: str) -> list[str]:
    """What the imports of a module do against the rule."""
    own, names = part_of(module), sorted(imported_modules(source, module))
    defects = [f"{module} imports {name}, which is gradwire.{name}" for name in names if name.split(".")[0] in FOLDERS]
    for name in names:
        owner = OWNERS.get(name.split(".")[0])
        if owner not in (None, own):
            defects.append(f"{module} imports {name}, which only {owner} may")
    if is_frozen(module):
        others = [name for name in names if name.split(".")[0] not in {*FROZEN_MAY_IMPORT, "gradwire"}]
        others += [name for name in names if part_of(name) and not is_frozen(name)]
        defects += [f"{module} is frozen data and imports {name}" for name in others]
    if own:
        known = MAY_IMPORT[own] | {own, ""}
        foreign = [name for name in names if part_of(name) not in known and not (is_frozen(name) and own in STAGES)]
        defects += [f"{module} imports {name} across folders" for name in foreign]
    return defects


def sources() -> list[Path]:
    """All code of the package, each file once."""
    return [
        path
        for folder in ("gradwire", *sorted(FOLDERS))
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not _linked(path)
    ]


def every_source() -> list[Path]:
    """And what uses it."""
    return [
        *sources(),
        *(path for folder in ("tests", "benchmarks", "release") for path in sorted((ROOT / folder).rglob("*.py"))),
    ]


def _linked(path: Path) -> bool:
    return path.resolve() != path


@pytest.mark.parametrize("path", every_source(), ids=module_of)
def test_import_rule(path: Path) -> None:
    assert import_defects(path.read_text(), module_of(path)) == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("gradwire.agents.loop", "from gradwire.workloads.builder import PlanBuilder", "across folders"),
        ("gradwire.agents.loop", "import gradwire.analysis.points", "across folders"),
        ("gradwire.agents.loop", "def late() -> None:\n    from gradwire.vm import machine", "across folders"),
        ("gradwire.agents.loop", "from gradwire import workloads", "across folders"),
        ("gradwire.agents.loop", "from ..workloads.builder import PlanBuilder", "across folders"),
        ("gradwire.workloads.checker", "from gradwire import command_line", "across folders"),
        ("gradwire.workloads.strategies.p3", "from gradwire.plugin import Strategy", "across folders"),
        ("gradwire.plugin", "from gradwire.topo.network import Network", "across folders"),
        ("gradwire.analysis.points", "from gradwire.runner.planned import PlannedRun", "across folders"),
        ("gradwire.vm.machine", "from gradwire.topo.network import Network", "across folders"),
        ("gradwire.vm.machine", "from gradwire.workloads.plan import Plan", "across folders"),
        ("gradwire.vm.machines", "from gradwire.runner.point import bench", "across folders"),
        ("gradwire.runner.campaign", "from gradwire.command_line import app", "across folders"),
        ("gradwire.runner.campaign", "from gradwire.api.run import Run", "across folders"),
        ("gradwire.commands.running", "from gradwire.api.running import run", "across folders"),
        ("gradwire.workloads.plan", "import pydantic", "frozen data"),
        ("gradwire.workloads.plan", "from gradwire.workloads.builder import PlanBuilder", "frozen data"),
        ("gradwire.agents.records", "from gradwire.agents.transfer import Sender", "frozen data"),
        ("gradwire.agents.loop", "from mininet.net import Mininet", "only topo"),
        ("gradwire.runner.campaign", "import os_ken.base", "only controller"),
        ("gradwire.command_line", "import mininet", "only topo"),
        ("gradwire.agents.loop", "from agents.timer import Timer", "which is gradwire.agents.timer"),
        ("benchmarks.message_cost", "import workloads", "which is gradwire.workloads"),
        ("tests.unit.test_layout", "from vm import machine", "which is gradwire.vm"),
    ],
)  # fmt: skip
def test_the_rule_finds_what_is_against_it(module: str, source: str, complaint: str) -> None:
    assert any(complaint in defect for defect in import_defects(source, module))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gradwire.agents.loop", "import numpy\nfrom gradwire.agents.timer import Timer\nfrom gradwire.workloads.plan import Plan"),
        ("gradwire.agents.loop", "from . import timer\nfrom .timer import Timer"),
        ("gradwire.agents.process", "from gradwire import PACKAGE"),
        ("gradwire.analysis.packets.reading", "from gradwire.agents.wire.framing import Framing"),
        ("gradwire.plugin", "from gradwire.workloads.builder import PlanBuilder"),
        ("gradwire.topo.fabric", "from gradwire.faults import InputFault"),
        ("gradwire.agents.wire.datagrams", "import numpy\nfrom gradwire.topo.fabric import Fabric"),
        ("gradwire.vm.machine", "from gradwire.faults import MachineFault\nfrom gradwire.vm.kernel import cached_kernel"),
        ("gradwire.runner.point", "from gradwire.controller.process import ControllerProcess\nfrom gradwire.vm.host import run_on_host"),
        ("gradwire.commands.running", "from gradwire.runner.campaign import Campaign\nfrom gradwire.analysis.bounds import bounds"),
        ("gradwire.topo.network", "from mininet.net import Mininet"),
        ("tests.unit.test_layout", "from gradwire.workloads.builder import PlanBuilder\nfrom gradwire.vm import machine"),
    ],
)  # fmt: skip
def test_the_rule_permits_what_it_should(module: str, source: str) -> None:
    assert import_defects(source, module) == []


def test_every_part_that_the_rule_names_exists() -> None:
    modules = {module_of(path) for path in sources()}
    assert modules >= FROZEN | {f"gradwire.{part}" for part in MAY_IMPORT}


def test_what_all_may_import_imports_nothing_of_ours_but_faults() -> None:
    modules = {path.stem: path for path in (ROOT / "gradwire").glob("*.py")}
    assert set(modules) == SHARED | set(MAY_IMPORT) - FOLDERS - INSIDE | {"__init__"}
    for name in SHARED:
        imported = imported_modules(modules[name].read_text(), f"gradwire.{name}")
        ours = {module for module in imported if module.startswith("gradwire.")}
        ours -= {module for module in ours if name == ON_ARRAYS and module.startswith("gradwire.regular_files")}
        others = {"gradwire", "numpy"} if name == ON_ARRAYS else {"gradwire"}
        assert all(module.startswith("gradwire.faults") for module in ours), name
        assert {module.split(".")[0] for module in imported} <= sys.stdlib_module_names | others, name


def test_each_folder_has_its_link_in_the_package() -> None:
    links = {path.name: str(path.readlink()) for path in (ROOT / "gradwire").iterdir() if path.is_symlink()}
    assert links == {folder: f"../{folder}" for folder in FOLDERS}


def test_files_are_short_and_have_names_that_say_something() -> None:
    assert [path for path in every_source() if len(path.read_text().splitlines()) > MAX_LINES] == []
    assert [path for path in every_source() if VAGUE_NAMES.search(path.stem)] == []
    assert VAGUE_NAMES.search("network_utils")
