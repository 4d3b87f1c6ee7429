"""README and docs, carried out: every fenced block, every command, every link, and the constants and checks that they quote."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed.security import Security

from gradwire.analysis.fluid.compiled import FOLDER as MACHINE_CODE
from gradwire.documents import list_of
from gradwire.named_code import COMMAND_LINE
from gradwire.runs.compiling.part_of_job import compiled_part
from gradwire.scenario.definitions.inlining import inlined, read_definition, routes_in
from gradwire.scenario.loading import load_scenario, resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.scenario.sections.defined import DeviceFile, ModelFile
from gradwire.scenario.toml_documents import has_programs
from gradwire.workloads.installed_packages import DEVICES as DEVICE_GROUP
from gradwire.workloads.installed_packages import MODELS, STRATEGIES
from gradwire.workloads.models.device_facts import DEVICES
from tests.shared.command_line import gradwire_says
from tests.shared.documented_commands import carry_out, parsed
from tests.shared.program_scenario_files import load_programs
from tests.shared.snippets import (
    MODELS_FOLDER,
    PLUGIN_FOLDER,
    ROOT,
    Snippet,
    all_snippets,
    documents,
    install_plugin,
)
from tests.unit.analysis.verdict.sound_run import sound_record
from tests.unit.analysis.verdict.test_verdict import verdict
from tests.unit.workloads.traces.small_traces import ddp_step, imported

SHELL = ("sh", "console")
LANGUAGES = (*SHELL, "python", "toml", "yaml", "csv")
README, CHECKS, LIMITS = (
    ROOT / "README.md",
    ROOT / "docs" / "trust" / "checks.md",
    ROOT / "docs" / "trust" / "limits.md",
)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
FILE_NAME = re.compile(r"`(?P<path>(?:[\w.-]+/)*[\w-]+\.(?:py|toml|md|sh|svg|png|lua|config)|(?:[\w.-]+/)+)`")
QUOTED = re.compile(r"`(?P<name>[A-Z][A-Z_]+)` = (?P<value>\d[\d.,]*\d|\d)")
QUOTED_FROM = (
    "gradwire.analysis.verdict.verdict",
    "gradwire.analysis.verdict.congestion_checks",
    "gradwire.analysis.verdict.byte_checks",
    "gradwire.analysis.verdict.line_checks",
    "gradwire.analysis.verdict.condition_checks",
    "gradwire.analysis.printed",
    "gradwire.analysis.verdict.packet_checks",
    "gradwire.analysis.agreement.short_windows",
)
REPLAYED = """
title = "a recorded step"
cluster.workers = 2
fabric.rate = "25gbit"
model = { name = "resnet50", trace = "workload.npz" }
strategy.name = "replay"
"""
"""What `gradwire import` writes beside a workload."""
WRITTEN_BY_RUNS = (
    "workload.npz",
    "points.csv",
    "record.json",
    "report.html",
    "verdict.json",
    "scenario.toml",
    "chart.svg",
    "chart.png",
    "points.parquet",
)
OF_READERS = (
    "gradwire/workloads/strategies/two_tree.py",
    "./my-model.toml",
    "./my-gpu.toml",
    "./my_strategy.py",
    "./two_tree.py",
    "./my_ddp.py",
)
"""What readers of the guides and of the page of all keys write."""
BASE: dict[str, Any] = {
    "title": "a block that leaves out what it does not speak of",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "ring"},
}
"""What a block of TOML may leave out."""


PYTHON_GUIDES = (ROOT / "docs" / "python.md", ROOT / "docs" / "labs.md")
"""Their blocks of Python go on from one another, or boot machines: test_python_guide.py and tests/end_to_end/labs carry
them out."""


def blocks(*languages: str) -> pytest.MarkDecorator:
    """All blocks in these languages, as parameters of a test."""
    chosen = [
        snippet
        for snippet in all_snippets()
        if snippet.language in languages and not (snippet.language == "python" and snippet.document in PYTHON_GUIDES)
    ]
    return pytest.mark.parametrize("snippet", chosen, ids=lambda snippet: snippet.place)


def pages() -> pytest.MarkDecorator:
    """All documents, as parameters of a test."""
    return pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder as the guides leave it: the plug-ins installed, the model in its place. The engine's machine code stays where it is."""
    assert not MACHINE_CODE.is_relative_to(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder, module in ((PLUGIN_FOLDER, "two_tree"), (MODELS_FOLDER, "small_models")):
        monkeypatch.syspath_prepend(install_plugin(tmp_path, folder))
        sys.modules.pop(module, None)
    traced = imported(ddp_step().write(tmp_path / "rank0.json.gz"))
    for name in ("resnet50", "llama"):  # docs/traces.md, docs/recording.md
        traced.write(tmp_path / "traces" / name)
        (tmp_path / "traces" / name / f"{name}.toml").write_text(REPLAYED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_is_in_a_language_that_is_carried_out() -> None:
    unknown = [
        f"{snippet.place}: '{snippet.language}'" for snippet in all_snippets() if snippet.language not in LANGUAGES
    ]
    assert unknown == []


@blocks("python")
def test_python_runs(home: Path, snippet: Snippet) -> None:
    exec(compile(snippet.text, snippet.place, "exec"), {"__name__": "snippet"})


@blocks("yaml")
def test_yaml_is_dasks_configuration_of_certificates(tmp_path: Path, snippet: Snippet) -> None:
    (tmp_path / "tls.yaml").write_text(snippet.text)
    with dask.config.set(dask.config.merge(dask.config.config, dask.config.collect([str(tmp_path)], env={}))):
        for role in ("scheduler", "worker", "client"):
            assert Security().get_tls_config_for_role(role) == {
                "ca_file": "/etc/dask/ca.pem",
                "cert": "/etc/dask/cert.pem",
                "key": "/etc/dask/key.pem",
                "ciphers": None,
            }


@blocks("toml")
def test_toml_is_a_scenario_that_compiles_or_a_package_or_a_definition(home: Path, snippet: Snippet) -> None:
    document = tomllib.loads(snippet.text)
    if "project" in document:
        assert document["project"]["entry-points"].keys() <= {
            group.name for group in (STRATEGIES, MODELS, DEVICE_GROUP)
        }
        return
    folder = home / Path(snippet.file.removeprefix("~/")).parent
    if "name" in document:
        assert read_definition(
            home / snippet.file.removeprefix("~/"), ModelFile if "layers" in document else DeviceFile
        )
        return
    if has_programs(document):
        path = home / snippet.file.removeprefix("~/")
        path.write_text(snippet.text)
        assert load_programs(path).points
        return
    # One with a title of its own is shown whole, to be copied.
    whole, lines = inlined(document if "title" in document else {**BASE, **document}, folder, COMMAND_LINE)
    assert lines == []
    scenario = resolve(whole, snippet.place, "snippet")
    for point in scenario.points:
        compiled = compiled_part(ResolvedPoint(point.section)) if point.section.part else compile_point(point.section)
        assert compiled.plans


@blocks("csv")
def test_csv_is_a_table_of_routes(home: Path, snippet: Snippet) -> None:
    rows = snippet.text.splitlines()[1:]
    assert len(list_of(routes_in(home / snippet.file.removeprefix("~/"))["route"])) == len(rows)


def commands(snippet: Snippet) -> Iterator[list[str]]:
    """The commands of a block of shell, as words: of a console, what follows the prompt."""
    lines = snippet.text.replace("\\\n", " ").splitlines()
    if snippet.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        words: list[str] = []
        line_alone = line[1:-1] if line.startswith("(") and line.endswith(")") else line
        for word in [*shlex.split(line_alone, comments=True), "&&"]:
            if word != "&&":
                words.append(word)
            elif words:
                yield words
                words = []


@blocks(*SHELL)
def test_commands_exist_and_take_what_they_are_given(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snippet: Snippet
) -> None:
    found = list(commands(snippet))
    assert found
    for words in found:
        carry_out(words, partial(gradwire_says, monkeypatch, capsys))


def test_commands_are_those_of_the_virtual_environment_and_stay_where_they_are() -> None:
    """So that a block can be copied after any other: a `cd` is for its line alone, but into the folder that is made first.

    pipx puts `gradwire` on the PATH.
    """
    first = [
        (snippet, line, line.removeprefix("$ ").split()[:1])
        for snippet in all_snippets()
        if snippet.language in SHELL
        for line in snippet.text.splitlines()
    ]
    for program, where in (("gradwire", "pipx install"), ("cd", "git clone")):
        wrong = [
            f"{snippet.place}: {line}"
            for snippet, line, words in first
            if words == [program] and where not in snippet.text
        ]
        assert wrong == []


@pytest.mark.parametrize(
    "wrong",
    [
        "make dmeo",
        "gradwire rnu geryon-table2",
        "gradwire run geryon-table9",
        "gradwire run geryon-table2 --set fabric.rate=25",
        "gradwire run geryon-table2 --set model.name=alexnot",
        "gradwire plan geryon-table2 --set strategy.name=rnig",
        "gradwire run geryon-table2 --jbos 2",
        "gradwire calibrate --rate fast",
        ".venv/bin/python benchmarks/nothing.py",
        "curl https://example.org",
    ],
)
def test_a_wrong_command_is_found(home: Path, wrong: str) -> None:
    with pytest.raises(Exception):  # noqa: B017 (whatever each kind of mistake raises)
        carry_out(shlex.split(wrong), None)


def anchors(page: Path) -> set[str]:
    """What links into a page may name: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages()
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text()):
        target, _, anchor = match["target"].partition("#")
        if target.startswith(("https://", "http://")):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{page.name}: {match['target']}"
        assert not anchor or anchor in anchors(path), f"{page.name}: {match['target']}"


@pages()
def test_files_that_are_named_exist(page: Path) -> None:
    """Except for what runs and builds write, and what readers of the guides write."""
    shown = {name for snippet in all_snippets() if snippet.file for name in (snippet.file, Path(snippet.file).name)}
    readers = {*shown, *WRITTEN_BY_RUNS, *OF_READERS}
    named = {match["path"] for match in FILE_NAME.finditer(page.read_text())}
    missing = {
        path for path in named - readers if not (ROOT / path).exists() and not path.startswith(("runs/", "dist/"))
    }
    assert missing == set()


def test_constants_have_the_values_that_are_quoted() -> None:
    modules = [importlib.import_module(name) for name in QUOTED_FROM]
    quoted = [(page, match) for page in documents() for match in QUOTED.finditer(page.read_text())]
    assert quoted
    for page, match in quoted:
        (value,) = {getattr(module, match["name"]) for module in modules if hasattr(module, match["name"])}
        assert float(match["value"].replace(",", "")) == value, (page, match[0])


def constants_with_a_text(module: str) -> set[str]:
    """Names of a module's constants that have a docstring beside them."""
    body = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text()).body
    return {
        constant.targets[0].id
        for constant, text in itertools.pairwise(body)
        if isinstance(constant, ast.Assign) and isinstance(constant.targets[0], ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def test_every_limit_has_beside_it_why_it_is_what_it_is() -> None:
    explained = {name for module in QUOTED_FROM for name in constants_with_a_text(module)}
    quoting = "".join(page.read_text() for page in sorted(CHECKS.parent.glob("*.md")))
    assert {match["name"] for match in QUOTED.finditer(quoting)} - explained == set()


def test_every_module_that_folders_share_is_named() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    folder = ROOT / "gradwire" / "datatypes"
    shared = {
        f"`gradwire/datatypes/{path.name}{'/' if path.is_dir() else ''}`"
        for path in folder.iterdir()
        if not path.name.startswith("__")
    }
    assert {name for name in shared if name not in text} == set()


def checks_in_code() -> set[str]:
    """Names of all checks of a verdict: those that are written where they are made, and those of a run on either clock."""
    names = {check.name for clock in ("virtual", "wall") for check in _checks_of(clock)}
    for path in (ROOT / "gradwire" / "analysis").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Check" and node.args:
                name = node.args[0]
                names |= {name.value} if isinstance(name, ast.Constant) and isinstance(name.value, str) else set()
    return names


def _checks_of(clock: str) -> Sequence[Any]:
    record = sound_record()
    object.__setattr__(record, "clock", clock)
    return verdict(record).checks


def test_every_check_of_the_verdict_is_explained() -> None:
    text = CHECKS.read_text()
    explained = set(re.findall(r"^\| ([^|`]+?) \|", text, re.MULTILINE)) - {"check", "---"}
    in_code = {name.removesuffix(" (p99)") for name in checks_in_code()} - {"run"}
    assert in_code - explained == set(), f"{CHECKS} does not explain these"
    assert explained - in_code == set(), f"{CHECKS} explains what is not checked"
    assert "*run*" in text


def test_table_2s_constants_are_named_as_they_are() -> None:
    text = LIMITS.read_text()
    times = [fact.seconds for fact in DEVICES["k40"].facts]
    assert ", ".join(f"{seconds:.3f}" for seconds in times) + " s" in text
    scenario = load_scenario(ROOT / "scenarios" / "geryon-table2.toml")
    (costs,) = {point.section.costs for point in scenario.points}
    assert costs.aggregation_rate is not None
    assert costs.slice_merge is not None
    assert f"{costs.aggregation_rate.value / 1e9:g} GB/s" in text
    assert f"{costs.slice_merge.value * 1e3:g} ms" in text
    assert {name for name, cost in costs if cost is not None} == {"aggregation_rate", "slice_merge"}


def test_the_changelog_has_the_version_that_is_packaged() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_example_of_a_gate_calls_gradwire_as_it_is() -> None:
    lines = (ROOT / "examples" / "gate.yml").read_text().splitlines()
    calls = [
        shlex.split(line.strip().removeprefix("run: "))
        for line in lines
        if ("gradwire " in line and "--out" in line) or "--fail-if" in line
    ]
    verbs = [parsed(words[1:])[0] for words in calls]
    assert verbs == ["run", "run", "diff"]
