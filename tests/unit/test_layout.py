"""The import rule: stages know each other only through what they exchange, the machine below knows none of them, nobody imports upwards.

The graph of imports is grimp's, which reads the sources of the package as any tool does that follows imports.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import grimp
import networkx as nx
import pytest

from tests.shared.imports import names_imported_by

ROOT = Path(__file__).resolve().parent.parent.parent
STAGES = ("topo", "controller", "agents", "workloads", "analysis")
"""The folders of the pipeline: siblings, none above another."""
FOR_ALL = (
    *(
        "array_files",
        "cache_files",
        "child_process",
        "csv_files",
        "documents",
        "faults",
        "files",
        "input_files",
        "named_code",
        "netlink_messages",
    ),
    *("nearest_names", "network_namespace", "reading_budget", "regular_files", "strict_json", "syntax_trees"),
    *("terminal_text", "typed_json"),
)
"""Modules of the package itself that all folders may import: starting processes, who is at fault, which name is meant, text fit for a
terminal, entering a network namespace, messages to the kernel about interfaces, syntax trees, which code of files runs, and reading files
from others and arrays in them."""
OF_MODULES = {"array_files": ("numpy",), "cache_files": ("msgspec",), "typed_json": ("msgspec",)}
"""Libraries that some of them need."""
LAYERS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli", "api", "lab", "plugin", "devices", "recorder", "gpu_scripts"),
    ("console",),
    ("runs",),
    ("programs",),
    ("inside",),
    ("scenario",),
    ("gpus",),
    (*STAGES, "vm"),
    ("network",),
    ("datatypes",),
    FOR_ALL,
    ("script_start",),
)
"""From top to bottom; each imports what is below it, and nobody in its own layer."""
KNOW_EACH_OTHER = (FOR_ALL,)
"""Layers whose members may import each other."""
CYCLIC: frozenset[str] = frozenset()
"""Packages whose parts still import each other in a circle."""
SHOWING = ("console", "cli", "api")
"""Parts that show things on a terminal; the others make data of what is to be shown."""
OWNERS = {"mininet": "topo", "os_ken": "controller", "ryu": "controller"}
LINKS = ("agents", "analysis", "controller", "scenarios", "topo", "workloads")
"""Folders of the package that are links at the top of the repository, where who clones it looks for them."""
MAX_LINES = 450
MAX_PARAMETERS = 7
LONG_SIGNATURES = {
    # Options of the command line, of which typer makes --help.
    "gradwire/cli/command_line.py": ("run", "reproduce"),
    "gradwire/cli/comparison_command.py": ("compare",),
    "gradwire/cli/ccl_command.py": ("ccl",),
    "gradwire/cli/map_command.py": ("draw_map",),
    "gradwire/cli/user_work_commands.py": ("execute", "import_traces", "mininet", "record", "shell"),
    # What users call and strategies in files use: options that a call names (docs/python.md, docs/labs.md, docs/adding-a-strategy.md).
    "gradwire/api/mapping.py": ("map",),
    "gradwire/api/running.py": ("compare", "run"),
    "gradwire/lab/network.py": ("link",),
    "gradwire/workloads/builder.py": ("message", "group_message", "_add"),
    "gradwire/workloads/models/shapes.py": ("layer", "conv"),
    "gradwire/workloads/models/compute_times.py": ("compute_time",),
    # Most are options with a default that a call names.
    "gradwire/analysis/fluid/estimate.py": ("estimate",),
    "gradwire/inside/point.py": ("bench",),
    "gradwire/topo/network.py": ("__init__",),
    "gradwire/topo/tc.py": ("port_commands", "_leaves"),
    "gradwire/vm/host.py": ("run_on_host",),
    "gradwire/vm/machines.py": ("run_job",),
    "gradwire/workloads/engines/collectives/choice.py": ("schedule_for",),
    "gradwire/workloads/engines/ordered_transfers.py": ("compile_ordered",),
    "reproduction/pages/curves.py": ("draws",),
    # Machine code of numba's, which takes arrays and numbers.
    # Debts: a dataclass would serve the reader.
    "gradwire/agents/loop.py": ("__init__",),
    "gradwire/workloads/trace_replay/compiler.py": ("compile_workload",),
}
"""Functions with more parameters than MAX_PARAMETERS, by file."""
VAGUE_NAMES = re.compile(r"(util|utils|helper|helpers|manager|managers|misc|common)$")


@dataclass(frozen=True)
class SourceFacts:
    """What the rules ask of a source."""

    lines: int
    #: First parts of the names that it imports.
    packages: frozenset[str]
    #: Which of its statements start a process, and how many statements it has.
    starts: tuple[int, ...]
    statements: int
    #: Its functions with more parameters than MAX_PARAMETERS.
    long_signatures: tuple[str, ...]


@cache  # a source is parsed once for all rules, and its tree is not kept
def facts_of(path: Path) -> SourceFacts:
    """Those of the source in a file."""
    source = path.read_text()
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    return SourceFacts(
        len(source.splitlines()),
        frozenset(name.partition(".")[0] for name in names_imported_by(nodes)),
        tuple(index for index, node in enumerate(tree.body) if starts_a_process(node)),
        len(tree.body),
        tuple(long_signatures(nodes)),
    )


def imports_of(graph: grimp.ImportGraph) -> set[tuple[str, str]]:
    """Pairs of modules, of which the first imports the second; the package's own `__init__` is not a part of it."""
    return {
        (module, imported)
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if "gradwire" not in (module, imported)
    }


def part_of(module: str) -> str:
    """The part of the package that a module belongs to."""
    return module.split(".")[1]


def against_layers(imports: set[tuple[str, str]]) -> list[str]:
    """What imports upwards or across."""
    height = {part: len(LAYERS) - index for index, layer in enumerate(LAYERS) for part in layer}
    mutual = {part for layer in KNOW_EACH_OTHER for part in layer}
    defects = []
    for module, imported in sorted(imports):
        own, other = part_of(module), part_of(imported)
        allowed = height[own] > height[other] or own == other or (height[own] == height[other] and own in mutual)
        if not allowed:
            defects.append(f"{module} imports {imported}")
    return defects


def circles(imports: set[tuple[str, str]], package: str) -> list[list[str]]:
    """Parts of a package that import each other in a circle, whichever modules of them do."""
    arrows: nx.DiGraph[str] = nx.DiGraph()
    depth = package.count(".") + 2
    for module, imported in imports:
        if module.startswith(f"{package}.") and imported.startswith(f"{package}."):
            arrows.add_edge(*(".".join(name.split(".")[:depth]) for name in (module, imported)))
    return [sorted(circle) for circle in nx.strongly_connected_components(arrows) if len(circle) > 1]


def test_the_study_of_the_papers_is_a_client() -> None:
    """Found beside the package by gradwire/cli/reproducing.py alone, which names no module of it in an import."""
    assert [path for path in sources("gradwire") if "reproduction" in facts_of(path).packages] == []
    graph = grimp.build_graph("reproduction", include_external_packages=True, cache_dir=None)
    assert graph.find_modules_that_directly_import("gradwire")
    imports = {(m, n) for m in graph.modules for n in graph.find_modules_directly_imported_by(m)}
    for folder in ("reproduction", *(f"reproduction.{part.name}" for part in (ROOT / "reproduction").iterdir())):
        assert circles(imports, folder) == [], folder


@pytest.fixture(scope="session")
def imports() -> set[tuple[str, str]]:
    return imports_of(grimp.build_graph("gradwire", cache_dir=None))


def packages() -> list[str]:
    """All folders of the package, as dotted names."""
    folders = (path.parent.relative_to(ROOT) for path in (ROOT / "gradwire").rglob("__init__.py"))
    return sorted(".".join(folder.parts) for folder in folders)


def test_nobody_imports_upwards_or_across(imports: set[tuple[str, str]]) -> None:
    assert against_layers(imports) == []


@pytest.mark.parametrize("package", packages())
def test_the_parts_of_a_folder_import_each_other_in_one_direction(imports: set[tuple[str, str]], package: str) -> None:
    found = circles(imports, package)
    if package == "gradwire":
        found = [circle for circle in found if not any(set(circle) <= mutual for mutual in known_circles())]
    assert bool(found) == (package in CYCLIC), found


def known_circles() -> list[set[str]]:
    """Parts of layers whose members know each other."""
    return [{f"gradwire.{part}" for part in layer} for layer in KNOW_EACH_OTHER]


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("agents.loop", "workloads.builder"),
        ("agents.loop", "vm.machine"),
        ("workloads.checker", "cli.command_line"),
        ("workloads.strategies.p3", "plugin"),
        ("workloads.strategies.p3", "scenario.schema"),
        ("scenario.loading", "runs.planned"),
        ("plugin", "api.run"),
        ("analysis.points", "runs.planned"),
        ("vm.machine", "topo.network"),
        ("runs.campaign", "cli.command_line"),
        ("runs.campaign", "api.run"),
        ("runs.campaign", "console.live_progress"),
        ("programs.execution", "runs.protocol"),
        ("cli.running", "api.running"),
        ("datatypes.plan", "workloads.builder"),
        ("datatypes.records", "agents.transfer"),
        ("faults", "datatypes.plan"),
    ],
)
def test_the_rule_finds_what_is_against_it(module: str, imported: str) -> None:
    assert against_layers({(f"gradwire.{module}", f"gradwire.{imported}")})


def test_circles_are_found_whichever_modules_close_them() -> None:
    imports = {("p.a.x", "p.b.y"), ("p.b.z", "p.c"), ("p.c", "p.a.w"), ("p.a.x", "p.a.w")}
    assert circles(imports, "p") == [["p.a", "p.b", "p.c"]]
    assert circles(imports, "p.a") == []
    assert circles({("p.a.x", "p.b.y"), ("p.b.z", "p.c")}, "p") == []


def test_the_layers_name_every_part_of_the_package() -> None:
    folder = ROOT / "gradwire"
    parts = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert parts - {"__init__", "scenarios"} == {part for layer in LAYERS for part in layer}


def sources(*folders: str) -> Sequence[Path]:
    """All Python sources below folders at the top of the repository."""
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


EVERY_SOURCE = sources("gradwire", "reproduction", "tests", "benchmarks", "release")


def test_mininet_and_the_controllers_framework_have_one_owner_each() -> None:
    owned = {
        (path.relative_to(ROOT / "gradwire").parts[0], name)
        for path in sources("gradwire")
        for name in facts_of(path).packages & OWNERS.keys()
    }
    assert "mininet" in {name for _, name in owned}
    assert all(OWNERS[name] == part for part, name in owned)


def test_only_what_shows_things_on_a_terminal_imports_rich() -> None:
    importing = {
        path.relative_to(ROOT / "gradwire").parts[0]
        for path in sources("gradwire")
        if "rich" in facts_of(path).packages
    }
    assert importing == set(SHOWING)


def test_every_module_has_one_name_to_import_it_by() -> None:
    folders = {path.name for path in (ROOT / "gradwire").iterdir() if path.is_dir()}
    by_link = {path for path in EVERY_SOURCE if facts_of(path).packages & (folders & set(LINKS))}
    assert by_link == set()


def test_what_all_may_import_and_what_stages_exchange_need_few_libraries() -> None:
    for path in [ROOT / "gradwire" / f"{name}.py" for name in FOR_ALL]:
        allowed = {"gradwire", *OF_MODULES.get(path.stem, ())}
        assert facts_of(path).packages <= sys.stdlib_module_names | allowed, path
    for path in [*sources("gradwire/datatypes"), *sources("gradwire/network")]:
        assert facts_of(path).packages <= sys.stdlib_module_names | {"gradwire", "numpy"}, path


def test_folders_that_people_look_for_are_links_at_the_top() -> None:
    links = {path.name: str(path.readlink()) for path in ROOT.iterdir() if path.is_symlink()}
    assert links == {folder: f"gradwire/{folder}" for folder in LINKS}
    assert [path for path in (ROOT / "gradwire").rglob("*") if path.is_symlink()] == []


def test_files_are_short_and_have_names_that_say_something() -> None:
    assert [path for path in EVERY_SOURCE if facts_of(path).lines > MAX_LINES] == []
    assert [path for path in EVERY_SOURCE if VAGUE_NAMES.search(path.stem)] == []
    assert VAGUE_NAMES.search("network_utils")


def test_paths_of_users_are_followed_by_what_takes_links_that_go_round() -> None:
    """`Path.resolve` raises RuntimeError for them before Python 3.13, `files.without_links` does not. Inside the machine, paths are
    gradwire's own."""
    own = re.compile(r"(?<!__file__\))(?<!sys\.executable\))\.resolve\(\)")
    places = {
        path.relative_to(ROOT / "gradwire")
        for path in (ROOT / "gradwire").rglob("*.py")
        if own.search(path.read_text())
    }
    assert {path.parts[0] for path in places} <= {"inside", "controller"}, places


def test_what_is_started_by_name_is_defined_before_it_starts() -> None:
    """Else a process does not find what stands below."""
    starting = [path for path in EVERY_SOURCE if facts_of(path).starts]
    assert [path for path in starting if facts_of(path).starts != (facts_of(path).statements - 1,)] == []
    assert len(starting) > 10


def starts_a_process(node: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__"`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def long_signatures(nodes: Iterable[ast.AST]) -> list[str]:
    """Names of the functions of a module with more parameters than a reader keeps in mind."""
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [function.name for function in functions if parameters(function.args) > MAX_PARAMETERS]


def parameters(signature: ast.arguments) -> int:
    """How many there are, without that of the object itself."""
    named = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
    return sum(parameter.arg not in ("self", "cls") for parameter in named)


def test_functions_have_few_parameters() -> None:
    """Or else they are in the list, which has no more than these."""
    long = {
        str(path.relative_to(ROOT)): names
        for path in sources("gradwire", "reproduction", "benchmarks", "release", "examples")
        if (names := facts_of(path).long_signatures)
    }
    assert {path: sorted(names) for path, names in long.items()} == {
        path: sorted(names) for path, names in LONG_SIGNATURES.items()
    }


def test_parameters_of_all_kinds_are_counted() -> None:
    def found(source: str) -> list[str]:
        return long_signatures(ast.walk(ast.parse(source)))

    assert found("def f(a, b, c, /, d, e, *rest, g, h, **others): ...") == []
    assert found("def f(a, b, c, /, d, e, *rest, g, h, i): ...") == ["f"]
    assert found("class A:\n def f(self, a, b, c, d, e, g, h): ...") == []
