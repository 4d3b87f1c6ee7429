"""The strategy of docs/adding-a-strategy.md, from its very text: as a plug-in, in the tree, and in front of the checker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire import plugin
from gradwire.datatypes.plan import Int64, OpKind, Plan
from gradwire.faults import InputFault, InternalFault
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.engines.allreduce_buckets import Bucket
from gradwire.workloads.installed_packages import STRATEGIES
from gradwire.workloads.job import Cluster, Costs, Job
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategy_registry import BUILT_IN, by_name, strategies_in, strategy, strategy_names
from tests.shared.imports import imported_names
from tests.shared.parts import tells
from tests.shared.simulation import replay
from tests.shared.small_jobs import job_of, profile_of
from tests.shared.snippets import PLUGIN_FOLDER, ROOT, install, install_plugin, shown_file, snippets

MOST_LINES = 60
FILE, SCENARIO = f"{PLUGIN_FOLDER}/two_tree.py", f"{PLUGIN_FOLDER}/two-tree.toml"
EXAMPLES = (f"{PLUGIN_FOLDER}/small_first.py", f"{PLUGIN_FOLDER}/my_ddp.py")
each_file = pytest.mark.parametrize("file", [FILE, *EXAMPLES])
PLUGIN_IMPORT = re.compile(r"^from gradwire\.plugin import .*\n", re.MULTILINE)
GUIDE = ROOT / "docs" / "adding-a-strategy.md"
LEFT_OUT = re.compile(r"^\| `(?P<line>[^`]+\))` \| `(?P<said>[^`]+)`", re.MULTILINE)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with the walk-through's files, whose package is installed for this process."""
    monkeypatch.syspath_prepend(install_plugin(tmp_path))
    sys.modules.pop("two_tree", None)
    return tmp_path


def gradwire(*arguments: str, path: Path, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Runs the command line of the tree in `source` in a process of its own, with `path` for packages."""
    environment = {**os.environ, "PYTHONPATH": str(path), "COLUMNS": "500"}
    command = [sys.executable, "-m", "gradwire", *arguments]
    return subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False, timeout=60)


def job(workers: int, *, per_host: int = 1, costs: Costs | None = None) -> Job:
    profile = profile_of([(LayerKind.CONV, [40, 3]), (LayerKind.POOL, []), (LayerKind.FC, [500])])
    return job_of(profile, Cluster(workers, workers_per_host=per_host), costs=costs)


def two_tree(given: Job, **options: Any) -> Plan:
    chosen = strategy("two-tree")
    (plan,) = chosen.compile(given, chosen.options.model_validate(options)).values()
    return plan


@each_file
def test_the_files_are_short_and_fit_for_the_tree(tmp_path: Path, file: str) -> None:
    text = shown_file(file).text
    assert len(text.splitlines()) < MOST_LINES
    (tmp_path / Path(file).name).write_text(text)
    for check_it in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check_it, "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@each_file
def test_the_files_import_of_gradwire_what_is_there_for_plug_ins(file: str) -> None:
    imported = [name for name in imported_names(shown_file(file).text) if name.startswith("gradwire.")]
    assert {name.split(".")[1] for name in imported} == {"plugin"}
    assert {name.split(".")[2] for name in imported if name != "gradwire.plugin"} <= set(plugin.__all__)


@pytest.mark.parametrize("file", EXAMPLES)
@pytest.mark.parametrize("cluster", [Cluster(1, 1), Cluster(3, 2), Cluster(4, 2, colocated=False)])
def test_the_examples_plans_pass_the_checker_and_replay_to_their_end(file: str, cluster: Cluster) -> None:
    namespace: dict[str, Any] = {}
    exec(compile(shown_file(file).text, file, "exec", dont_inherit=True), namespace)
    chosen = namespace["STRATEGY"]
    given = job(cluster.workers)
    (plan,) = chosen.compile(replace(given, cluster=cluster), chosen.options()).values()
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)


def test_the_example_of_a_parameter_server_sends_small_tensors_first() -> None:
    namespace: dict[str, Any] = {}
    exec(compile(shown_file(EXAMPLES[0]).text, EXAMPLES[0], "exec"), namespace)
    given = replace(job(2), cluster=Cluster(2, 1))
    (plan,) = namespace["STRATEGY"].compile(given, namespace["STRATEGY"].options()).values()
    ops = plan.ops
    answers = (ops.kind == OpKind.SEND) & (ops.chunk >= 0) & (ops.rank == given.cluster.workers) & (ops.peer == 0)
    assert ops.size_bytes[answers][np.argsort(ops.order[answers])].tolist() == [12, 160, 2000]


def ddp(given: Job, **options: Any) -> tuple[list[Bucket], Plan]:
    """The buckets and the plan of the example, run as a scenario that names the file runs it."""
    namespace: dict[str, Any] = {}
    exec(compile(shown_file(EXAMPLES[1]).text, EXAMPLES[1], "exec", dont_inherit=True), namespace)
    chosen = namespace["STRATEGY"]
    own = chosen.options.model_validate(options)
    (plan,) = chosen.compile(given, own).values()
    return namespace["buckets_of"](given, own), plan


def test_the_example_of_ddp_fills_buckets_as_pytorch_does() -> None:
    """Gradients of 2000, 12 and 160 bytes, in backward order: a bucket is full once it has as much as it may, or more."""
    found = [
        [bucket.values for bucket in ddp(job(2), first_bucket=f"{first}B", bucket=f"{rest}B")[0]]
        for first, rest in ((1, 1), (2000, 13), (2001, 1), (2**20, 1), (1, 2**20))
    ]
    assert found == [[500, 3, 40], [500, 43], [503, 40], [543], [500, 43]]


@pytest.mark.parametrize(("wire", "width"), [("fp32", 4), ("bf16", 2), ("fp16", 2)])
@pytest.mark.parametrize("workers", [2, 4])
def test_the_example_of_ddp_sends_the_bytes_of_a_ring(wire: str, width: int, workers: int) -> None:
    given = job(workers)
    _, plan = ddp(given, wire=wire, first_bucket="1B", bucket="1B")
    check(plan)
    expected = 2 * (workers - 1) / workers * given.profile.parameters * width
    assert link_bytes(plan, out=True) == pytest.approx(np.full(workers, expected), rel=0.01)


def test_the_example_of_ddp_overlaps_unless_it_may_not() -> None:
    """The last layers' bucket is on its way before the backward pass of the first layer has ended."""
    for overlap in (True, False):
        _, plan = ddp(job(2), overlap=overlap, first_bucket="1B", bucket="1B")
        log, ops = replay(plan, 1), plan.ops
        backward_ns = log.start_ns.min() + round(plan.compute_s * 1e9)
        sends = np.flatnonzero((ops.kind == OpKind.SEND) & (ops.chunk >= 0))
        first_ns = log.start_ns[np.isin(log.op, sends)].min()
        assert (first_ns < backward_ns) == overlap


@pytest.mark.parametrize("file", EXAMPLES)
def test_the_examples_are_files_that_a_scenario_can_name(home: Path, file: str) -> None:
    path = home / file.removeprefix("~/")
    (point, *_) = load_scenario(home / SCENARIO.removeprefix("~/"), [f"strategy.name={path}"]).points
    assert compile_point(point.section).plans.keys() == {strategies_in(path)[0].name}


def test_everything_that_is_there_for_plug_ins_is_in_a_guide() -> None:
    text = GUIDE.read_text() + (ROOT / "docs" / "adding-a-model.md").read_text()
    assert [name for name in plugin.__all__ if not re.search(rf"`{name}\b", text)] == []


def test_what_is_there_for_plug_ins_is_told() -> None:
    told = set(re.findall(r"`(\w+)`", plugin.__doc__ or ""))
    assert told == set(plugin.__all__)


def test_the_plug_in_is_found_beside_what_is_built_in(home: Path) -> None:
    assert set(strategy_names()) == {*BUILT_IN, "two-tree"}
    assert strategy("two-tree").name == "two-tree"
    assert strategy("ring") is BUILT_IN["ring"]


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("costs", [Costs(), Costs(aggregation_bytes_per_s=1e6, message_latency_s=1e-4)])
def test_its_plans_pass_the_checker_and_replay_to_their_end(home: Path, workers: int, costs: Costs) -> None:
    for slice_parameters in (20, 250_000):
        plan = two_tree(job(workers, costs=costs), slice_parameters=slice_parameters)
        check(plan)
        assert len(replay(plan, 2).op) == 2 * len(plan.ops)


def test_gpus_of_one_machine_exchange_nothing_over_the_network(home: Path) -> None:
    plan = two_tree(job(4, per_host=4))
    check(plan)
    assert not plan.is_remote().any()


def link_bytes(plan: Plan, *, out: bool) -> Int64:
    """Bytes that leave or enter each host in an iteration."""
    sends = plan.is_remote()
    ends = plan.ops.rank if out else plan.ops.peer
    return np.bincount(plan.rank_host[ends[sends]], plan.ops.size_bytes[sends], plan.hosts).astype(np.int64)


@pytest.mark.parametrize("workers", [2, 4, 6, 8])
def test_bytes_are_those_of_the_algorithm(home: Path, workers: int) -> None:
    """Each slice takes each of N - 1 edges up and down; of slices by turns in two trees, no port has more than twice the model."""
    given = job(workers)
    plan = two_tree(given, slice_parameters=1)
    model_bytes = given.profile.size_bytes()
    for out in (True, False):
        assert link_bytes(plan, out=out).sum() == 2 * (workers - 1) * model_bytes
        assert link_bytes(plan, out=out).max() <= 2 * model_bytes + 4


def test_who_passes_on_in_one_tree_is_a_leaf_of_the_other(home: Path) -> None:
    plan = two_tree(job(8), slice_parameters=1)
    ops = plan.ops
    adds = ops.kind == OpKind.REDUCE
    passing_on = [set(ops.rank[adds & (ops.chunk % 2 == tree)].tolist()) for tree in (0, 1)]
    assert passing_on == [{4, 5, 6, 7}, {0, 1, 2, 3}]


def test_its_options_are_checked_by_name(home: Path, call: Any) -> None:
    for setting, said in (("slice_parameters=0", "at least 1"), ("slice=3", "no such option")):
        settings = ("--set", "strategy.name=two-tree", "--set", f"strategy.options.{setting}")
        status, _, err = call("plan", str(home / SCENARIO.removeprefix("~/")), *settings)
        assert status == 2
        assert "'two-tree'" in err
        assert said in err


def test_the_command_line_plans_it(home: Path) -> None:
    scenario = home / SCENARIO.removeprefix("~/")
    planned = gradwire("plan", str(scenario), path=scenario.parent)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert re.findall(r"plan '([\w-]+)'", planned.stdout) == ["ring", "two-tree"]
    assert planned.stdout.count("1.497 GB cross") == 2


def test_the_command_line_lists_it(home: Path, call: Any) -> None:
    status, out, err = call("strategies")
    assert (status, err) == (0, "")
    assert "from gradwire-two-tree 1.0" in out
    assert "slice_parameters = 250000" in out


def text_for_the_tree() -> str:
    """The file with the imports that the guide gives for the tree."""
    (block,) = (s.text for s in snippets(GUIDE) if s.language == "python" and not s.file)
    text, changes = PLUGIN_IMPORT.subn(block, shown_file(FILE).text)
    assert changes == 1
    return text


def test_the_same_file_in_the_tree(tmp_path: Path) -> None:
    """A copy of the tree with the file in it, as the guide says."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "gradwire", tree / "gradwire", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "gradwire" / "workloads" / "strategies" / "two_tree.py").write_text(text_for_the_tree())
    (tmp_path / "scenario.toml").write_text(shown_file(SCENARIO).text.replace("./two_tree.py", "two-tree"))
    planned = gradwire("plan", str(tmp_path / "scenario.toml"), path=tree, source=tree)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "plan 'two-tree'" in planned.stdout


def test_the_checker_says_what_the_guide_says_when_a_line_is_left_out(home: Path) -> None:
    text = shown_file(FILE).text
    point = load_scenario(home / SCENARIO.removeprefix("~/")).points[-1]
    given = compile_point(point.section).job
    promised = LEFT_OUT.findall(GUIDE.read_text().partition("## What the checker catches")[2])
    assert len(promised) == len(re.findall(r"builder\.(?:depend|produces|consumes)|arrived\[worker\]\.", text))
    for line, said in promised:
        assert text.count(f"{line}\n") == 1
        namespace: dict[str, Any] = {}
        exec(compile(text.replace(f"{line}\n", "pass\n"), "two_tree.py", "exec"), namespace)
        chosen = namespace["STRATEGY"]
        (plan,) = chosen.compile(given, chosen.options()).values()
        with pytest.raises(PlanError, match=said):
            check(plan)


def test_a_wrong_plan_is_the_strategys_fault(home: Path, call: Any) -> None:
    module = home / FILE.removeprefix("~/")
    module.write_text(module.read_text().replace("            arrived[worker].extend(ready[worker])\n", ""))
    status, _, err = call("plan", str(home / SCENARIO.removeprefix("~/")))
    assert status == 4
    assert tells(err, "bug in the strategy", "'two-tree': op")


NO_STRATEGY = "STRATEGY = 'two-tree'\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module\n", ["ModuleNotFoundError", "no_such_module"]),
        ("raise RuntimeError('no luck')\n", ["RuntimeError: no luck"]),
        ("STRATEGY = (\n", ["SyntaxError"]),
        ("strategy = None\n", ["AttributeError", "STRATEGY"]),
        (NO_STRATEGY, ["is a str: it must be a Strategy"]),
        (None, ["calls itself 'two-tree'"]),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_named_and_nothing_else_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any, source: str | None, said: list[str]
) -> None:
    entry = "broken"
    (tmp_path / "broken_strategy.py").write_text(source or shown_file(FILE).text)
    monkeypatch.syspath_prepend(install(tmp_path, "some-package", "0.3", {entry: "broken_strategy:STRATEGY"}))
    sys.modules.pop("broken_strategy", None)
    assert strategy("ring") is BUILT_IN["ring"]
    assert entry in strategy_names()
    with pytest.raises(InputFault) as fault:
        strategy(entry)
    for text in (f"strategy '{entry}' of some-package 0.3", "broken_strategy:STRATEGY", *said):
        assert text in str(fault.value)
    status, out, err = call("strategies")
    assert status == 2
    assert "recursive doubling" in out
    assert "some-package 0.3" in err


@pytest.mark.parametrize(
    ("name", "claims", "others"),
    [
        ("ring", ["gradwire", "mine 2.0"], "two-tree"),
        ("two-tree", ["gradwire-two-tree 1.0", "mine 2.0"], "ring"),
    ],
)
def test_a_name_that_two_claim_is_refused_with_both(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, claims: list[str], others: str
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "mine", "mine", "2.0", {name: "two_tree:STRATEGY"}))
    assert strategy(others).name == others
    with pytest.raises(InputFault, match=f"strategy '{name}' is") as fault:
        strategy(name)
    for text in (*claims, STRATEGIES.name):
        assert text in str(fault.value)


def test_an_unknown_strategy_is_told_with_the_installed_ones(home: Path) -> None:
    with pytest.raises(InputFault, match="'two-tree'"):
        strategy("two-trees")


def test_two_built_in_strategies_of_one_name_are_a_bug() -> None:
    ring = BUILT_IN["ring"]
    with pytest.raises(InternalFault, match="'ring'"):
        by_name([ring, ring])
