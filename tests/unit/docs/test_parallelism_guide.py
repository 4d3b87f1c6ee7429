"""The parallelism of docs/adding-a-parallelism.md, from its very text: short, sound, of the bytes that its paper counts, and checked."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gradwire import plugin
from gradwire.analysis.bounds import critical_path_s
from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.workloads.checker import PlanError, check
from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import compute_time
from tests.shared.command_line import gradwire_says
from tests.shared.imports import imported_names
from tests.shared.parts import in_order
from tests.shared.simulation import replay
from tests.shared.small_allreduces import sent_bytes
from tests.shared.snippets import ROOT, shown_file, write_shown_files
from tests.unit.workloads.strategies.test_megatron import mixture

FILE, SCENARIO = "~/ulysses/ulysses.py", "ulysses/ulysses.toml"
GUIDE = ROOT / "docs" / "adding-a-parallelism.md"
LEFT_OUT = re.compile(r"^\| `(?P<line>(?:self|arrived)[^`]+)` \| `(?P<said>[^`]+)`", re.MULTILINE)
MOST_LINES = 80
TENSORS, BLOCKS = 3 + 1, 24


def compiled(job: Job, text: str = "") -> Plan:
    """The file's plan, or that of another text."""
    namespace: dict[str, Any] = {}
    exec(compile(text or shown_file(FILE).text, "ulysses.py", "exec", dont_inherit=True), namespace)
    (chosen,) = namespace["STRATEGIES"]
    (plan,) = chosen.compile(job, chosen.options()).values()
    assert isinstance(plan, Plan)
    return plan


def bert(workers: int) -> Job:
    profile = model("bert-large")
    return Job(profile, compute_time(profile, "v100"), Cluster(workers), profile.batch)


def test_the_file_is_short_and_fit_for_the_tree(tmp_path: Path) -> None:
    text = shown_file(FILE).text
    lines = len(text.splitlines())
    assert lines < MOST_LINES
    assert f"{lines} lines" in GUIDE.read_text()
    (tmp_path / "ulysses.py").write_text(text)
    for check_it in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check_it, "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_file_imports_of_gradwire_what_is_there_for_plug_ins() -> None:
    imported = [name for name in imported_names(shown_file(FILE).text) if name.startswith("gradwire.")]
    assert {name.removeprefix("gradwire.plugin").removeprefix(".") for name in imported} - {""} <= set(plugin.__all__)


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_its_plans_pass_the_checker_and_replay_to_their_end(workers: int) -> None:
    plan = compiled(mixture(workers))
    check(plan)
    assert len(replay(plan, 2).op) == 2 * len(plan.ops)


@pytest.mark.parametrize("workers", [2, 4])
def test_a_worker_sends_what_the_paper_counts(workers: int) -> None:
    """Four tensors of 512 tokens of 1024 values, 16 samples, two bytes, both ways in each of 24 blocks; and gradients of four bytes."""
    job = bert(workers)
    activations = BLOCKS * 2 * TENSORS * job.batch * 512 * 1024 * 2
    gradients = 2 * -(-job.profile.parameters // workers) * workers * 4
    expected = (activations + gradients) * (workers - 1) // workers
    assert sent_bytes(compiled(job)).tolist() == [expected] * workers


def test_where_the_network_is_fast_a_worker_computes_as_long_as_alone() -> None:
    job = bert(4)
    fast = Fabric(hosts=4, rate_bps=1e15, classes=1)
    assert critical_path_s(compiled(job), fast) == pytest.approx(job.compute_s, rel=1e-3)


def test_each_line_of_the_table_is_found_when_it_is_left_out() -> None:
    text, table = shown_file(FILE).text, GUIDE.read_text()
    found = [(match["line"], match["said"]) for match in LEFT_OUT.finditer(table)]
    assert len(found) == 8
    for line, said in found:
        assert text.count(f"{line}\n") == 1, line
        with pytest.raises(PlanError, match=said):
            check(compiled(mixture(3), text.replace(f"{line}\n", "pass\n")))


def test_a_model_without_attention_is_refused_by_its_key() -> None:
    profile = model("alexnet")
    with pytest.raises(InputFault, match=in_order("model.name = 'alexnet'", "attention")):
        compiled(Job(profile, compute_time(profile, "k40"), Cluster(2), 1))


def test_the_scenario_compares_iterations_of_as_many_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_shown_files(tmp_path)
    call = partial(gradwire_says, monkeypatch, capsys)
    status, out, err = call("estimate", str(tmp_path / SCENARIO))
    assert status == 0, err
    assert re.findall(r"^ .*\b(ddp|ulysses|megatron) +\d", out, re.MULTILINE) == ["ddp", "ulysses", "megatron"]
    assert {plan.samples for plan in (compiled(bert(4)),)} == {4 * model("bert-large").batch} == {64}
